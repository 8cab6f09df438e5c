//! Signals that end a job.

use std::future::Future;

use futures::FutureExt;

use crate::cli::context::{Context, tell};

/// Done with the first SIGINT or SIGTERM: complete a checkpoint and end. The second one ends the process at once.
///
/// One for all attempts: a signal that comes between two of them, or while one recovers, counts as well.
pub(in crate::cli) fn signals(context: &Context) -> impl Future<Output = ()> + Clone + Send + use<> {
    use tokio::signal::unix::{SignalKind, signal};
    let (first, heard) = tokio::sync::oneshot::channel();
    let tells = context.tells();
    let both = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
    // Nobody waits for signals in order: the task ends with the process.
    std::mem::forget(crate::net::Background::start(async move {
        let (Ok(mut interrupt), Ok(mut terminate)) = both else {
            return std::future::pending().await;
        };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        if tells {
            tell("completing a checkpoint; a second signal ends at once");
        }
        // The job may have ended in this moment.
        _ = first.send(());
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        std::process::exit(130);
    }));
    heard.map(|_| ()).shared()
}

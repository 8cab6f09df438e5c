//! Work that goes on while its owner does something else.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::task::JoinHandle;

/// A task whose result can be awaited, and which ends when this is dropped.
#[derive(Debug)]
pub struct Background<T>(JoinHandle<T>);

impl<T: Send + 'static> Background<T> {
    /// Whether this is called within a runtime, so that something can be started.
    #[must_use]
    pub fn is_possible() -> bool {
        tokio::runtime::Handle::try_current().is_ok()
    }

    /// Starts `work`. Must be called within a tokio runtime.
    #[expect(clippy::disallowed_methods, reason = "this is the one place for background work")]
    pub fn start(work: impl Future<Output = T> + Send + 'static) -> Self {
        Self(tokio::spawn(work))
    }
}

impl<T> Future for Background<T> {
    /// `None` if the work panicked.
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        Pin::new(&mut self.0).poll(cx).map(Result::ok)
    }
}

impl<T> Drop for Background<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

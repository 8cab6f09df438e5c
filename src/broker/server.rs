//! Listeners and connections. A connection is served one request at a time, in order, as Kafka does.

use std::io;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

use super::dispatch::{self, Answer};
use super::frame::{self, Arrived};
use super::network::{Listener, Stream};
use super::shared::{Context, Shared};
use crate::wire::frame::FrameDecoder;

/// A node's listener with all its connections: dropping it cuts them.
#[derive(Debug)]
pub(crate) struct Listening {
    tasks: JoinSet<()>,
}

/// Serves `node` on `listener` until the result is dropped.
pub(crate) fn serve(shared: Arc<Shared>, node: i32, listener: Listener) -> Listening {
    let mut tasks = JoinSet::new();
    tasks.spawn(accept(shared, node, listener));
    Listening { tasks }
}

impl Listening {
    /// Closes the listener and every connection, and waits until the port is free.
    pub(crate) async fn close(mut self) {
        self.tasks.shutdown().await;
    }
}

async fn accept(shared: Arc<Shared>, node: i32, mut listener: Listener) {
    // The connections belong to this task: when it is aborted, they are too.
    let mut connections = JoinSet::new();
    loop {
        let accepted = listener.accept().await;
        while connections.try_join_next().is_some() {}
        match accepted {
            Ok(stream) => {
                connections.spawn(connection(Context::new(Arc::clone(&shared), node), stream));
            }
            // Out of file handles, or a client that is gone already: neither ends the listener.
            Err(error) => {
                tracing::warn!(%error, node, "accept failed");
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        }
    }
}

async fn connection(ctx: Context, mut stream: Box<dyn Stream>) {
    if let Err(error) = converse(&ctx, &mut stream).await {
        tracing::debug!(%error, node = ctx.node, "connection ended");
    }
}

async fn converse(ctx: &Context, stream: &mut Box<dyn Stream>) -> io::Result<()> {
    let decoder = FrameDecoder::requests(ctx.shared.config.max_request_bytes);
    let mut buffer = BytesMut::new();
    let mut cut = None;
    loop {
        let frame = match frame::read(stream, decoder, &mut buffer, cut).await {
            Arrived::Frame(frame) => frame,
            Arrived::Head(api) => {
                // The first bytes of a request tell whether it is to be cut.
                cut = ctx.shared.faults().cut(api, ctx.node).or(Some(usize::MAX));
                continue;
            }
            Arrived::End => return Ok(()),
        };
        cut = None;
        ctx.shared.thawed(ctx.node).await;
        let answer = dispatch::answer(ctx, frame).await;
        ctx.shared.thawed(ctx.node).await;
        match answer {
            Answer::Frame(bytes) => stream.write_all(&bytes).await?,
            Answer::Cut(bytes) => return stream.write_all(&bytes).await,
            Answer::Silence => {}
            Answer::Close => return Ok(()),
            Answer::Held(request) => {
                hang_up(stream).await;
                ctx.shared.deliver_late(request);
                return Ok(());
            }
        }
    }
}

/// Waits until the client closes the connection. What it still sends is lost.
async fn hang_up(stream: &mut Box<dyn Stream>) {
    let mut lost = [0; 1024];
    while stream.read(&mut lost).await.is_ok_and(|n| n > 0) {}
}

/// The first `limit` bytes.
pub(crate) fn cut(mut frame: Bytes, limit: usize) -> Bytes {
    frame.truncate(limit);
    frame
}

//! Listeners and connections. A connection is served one request at a time, in order, as Kafka does.

use std::io;
use std::sync::Arc;

use bytes::BytesMut;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::dispatch::{self, Answer};
use super::frame;
use super::shared::{Context, Shared};
use crate::wire::frame::FrameDecoder;

/// A node's listener with all its connections: dropping it cuts them.
#[derive(Debug)]
pub(crate) struct Listening {
    tasks: JoinSet<()>,
}

/// Serves `node` on `listener` until the result is dropped.
pub(crate) fn serve(shared: Arc<Shared>, node: i32, listener: TcpListener) -> Listening {
    let mut tasks = JoinSet::new();
    tasks.spawn(accept(Context { shared, node, client_id: String::new() }, listener));
    Listening { tasks }
}

impl Listening {
    /// Closes the listener and every connection, and waits until the port is free.
    pub(crate) async fn close(mut self) {
        self.tasks.shutdown().await;
    }
}

async fn accept(ctx: Context, listener: TcpListener) {
    // The connections belong to this task: when it is aborted, they are too.
    let mut connections = JoinSet::new();
    loop {
        let accepted = listener.accept().await;
        while connections.try_join_next().is_some() {}
        match accepted {
            Ok((stream, _)) => {
                connections.spawn(connection(ctx.clone(), stream));
            }
            // Out of file handles, or a client that is gone already: neither ends the listener.
            Err(error) => {
                tracing::warn!(%error, node = ctx.node, "accept failed");
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        }
    }
}

async fn connection(ctx: Context, mut stream: TcpStream) {
    if let Err(error) = converse(&ctx, &mut stream).await {
        tracing::debug!(%error, node = ctx.node, "connection ended");
    }
}

async fn converse(ctx: &Context, stream: &mut TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let decoder = FrameDecoder::requests(ctx.shared.config.max_request_bytes);
    let mut buffer = BytesMut::new();
    while let Some(frame) = frame::read(stream, decoder, &mut buffer).await {
        match dispatch::answer(ctx, frame).await {
            Answer::Frame(bytes) => stream.write_all(&bytes).await?,
            Answer::Silence => {}
            Answer::Close => break,
        }
    }
    Ok(())
}

//! What nodes listen on: sockets, or streams in memory that need no operating system, for paused clocks.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

/// The bytes that one direction of a stream in memory takes before its writer must wait.
const STREAM_BYTES: usize = 256 * 1024;
/// How many connections may wait to be accepted.
const BACKLOG: usize = 128;
/// The port of nodes in memory.
pub(crate) const MEMORY_PORT: u16 = 9092;

/// What nodes listen on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Network {
    /// Sockets, at [`BrokerConfig::listen`](super::BrokerConfig::listen).
    #[default]
    Tcp,
    /// Streams in memory, which only this process can open, by [`Broker::dialer`](super::Broker::dialer). Everything
    /// then runs on the runtime's clock alone: a paused one jumps from timer to timer.
    Memory,
}

/// A connection as the server sees it.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A node's listener.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    Memory(mpsc::Receiver<DuplexStream>),
}

impl Listener {
    pub(crate) async fn accept(&mut self) -> io::Result<Box<dyn Stream>> {
        match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Ok(Box::new(stream))
            }
            Self::Memory(dialed) => match dialed.recv().await {
                Some(stream) => Ok(Box::new(stream)),
                // Nobody can dial any more; whoever waits is stopped from outside.
                None => std::future::pending().await,
            },
        }
    }
}

/// Opens streams to nodes in memory. Clones share the nodes.
#[derive(Debug, Clone, Default)]
pub struct Dialer {
    hosts: Arc<Mutex<BTreeMap<String, mpsc::Sender<DuplexStream>>>>,
}

impl Dialer {
    /// Connects to a node by its host and port, as its address says.
    ///
    /// # Errors
    /// [`io::ErrorKind::ConnectionRefused`] when no node listens there.
    pub fn connect(&self, host: &str, port: u16) -> io::Result<DuplexStream> {
        let hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let refused = || io::Error::new(io::ErrorKind::ConnectionRefused, format!("{host}:{port}"));
        let accepts = hosts.get(host).filter(|_| port == MEMORY_PORT).ok_or_else(refused)?;
        let (ours, theirs) = tokio::io::duplex(STREAM_BYTES);
        accepts.try_send(theirs).map_err(|_| refused())?;
        Ok(ours)
    }

    /// Begins to listen at a host.
    pub(crate) fn listen(&self, host: &str) -> Listener {
        let (dialed, accepted) = mpsc::channel(BACKLOG);
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner).insert(host.to_owned(), dialed);
        Listener::Memory(accepted)
    }
}

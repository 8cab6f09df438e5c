//! How a stream of bytes to a broker is opened.

use std::io;

use futures::future::BoxFuture;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};

/// A connected stream.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Opens streams to brokers.
pub trait Connector: Send + Sync {
    /// Connects to `host:port`. The caller limits the time.
    ///
    /// # Errors
    /// Whatever the operating system says.
    fn connect<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<Box<dyn Stream>>>;
}

/// A function that opens streams at once, such as one into a broker in the same process.
///
/// ```
/// use std::sync::Arc;
/// use kafka_2pc::net::Connector;
///
/// let nowhere = |_host: &str, _port: u16| Err::<tokio::io::DuplexStream, _>(std::io::ErrorKind::ConnectionRefused.into());
/// let _connector: Arc<dyn Connector> = Arc::new(nowhere);
/// ```
impl<F, S> Connector for F
where
    F: Fn(&str, u16) -> io::Result<S> + Send + Sync,
    S: Stream + 'static,
{
    fn connect<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<Box<dyn Stream>>> {
        let opened = self(host, port).map(|stream| Box::new(stream) as Box<dyn Stream>);
        Box::pin(async move { opened })
    }
}

/// Plain TCP.
#[derive(Debug, Clone, Copy, Default)]
pub struct TcpConnector;

impl Connector for TcpConnector {
    fn connect<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<Box<dyn Stream>>> {
        Box::pin(async move {
            let stream = TcpStream::connect((host, port)).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as Box<dyn Stream>)
        })
    }
}

//! How a stream of bytes to a broker is opened.

use std::{io, net::SocketAddr, time::Duration};

use futures::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, lookup_host},
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

/// Plain TCP. Where a name has several addresses, one that does not answer does not keep the others from being tried.
#[derive(Debug, Clone, Copy, Default)]
pub struct TcpConnector;

impl Connector for TcpConnector {
    fn connect<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<Box<dyn Stream>>> {
        Box::pin(async move {
            let stream = any(lookup_host((host, port)).await?.collect()).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as Box<dyn Stream>)
        })
    }
}

/// How long one address may be silent before the next one is tried beside it (RFC 8305).
const SILENT: Duration = Duration::from_millis(250);

/// A connection to whichever address takes it first.
async fn any(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let mut left = addresses.into_iter();
    let mut tried = FuturesUnordered::new();
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    loop {
        match left.next() {
            Some(address) => tried.push(TcpStream::connect(address)),
            None if tried.is_empty() => return Err(last),
            None => {}
        }
        tokio::select! {
            Some(connected) = tried.next() => match connected {
                Ok(stream) => return Ok(stream),
                Err(e) => last = e,
            },
            () = tokio::time::sleep(SILENT), if left.len() > 0 => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        net::{TcpListener, TcpSocket},
        time::timeout,
    };

    use super::*;

    /// An address that takes no more connections and refuses none: its queue is full. The streams hold it full.
    async fn silent() -> (SocketAddr, TcpListener, Vec<TcpStream>) {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(1).unwrap();
        let address = listener.local_addr().unwrap();
        let mut waiting = Vec::new();
        while let Ok(stream) = timeout(SILENT, TcpStream::connect(address)).await {
            waiting.push(stream.unwrap());
        }
        (address, listener, waiting)
    }

    #[tokio::test]
    async fn an_address_that_is_dead_or_silent_does_not_hide_the_next_one() {
        let good = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = good.local_addr().unwrap();
        let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let (hole, _listener, _waiting) = silent().await;
        for before in [vec![], vec![closed], vec![hole], vec![hole, closed, hole]] {
            let stream = any([before, vec![address]].concat()).await.unwrap();
            assert_eq!(stream.peer_addr().unwrap(), address);
        }
        assert_eq!(any(vec![closed]).await.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        assert!(any(vec![]).await.is_err());
    }
}

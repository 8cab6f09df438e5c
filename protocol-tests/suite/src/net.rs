//! How addresses are reached: by sockets, or by streams into a broker of this process.

use std::fmt;
use std::io;

use futures::future::BoxFuture;
use kafka_2pc::broker::Dialer;
use kafka_2pc::net::{Connector, Stream};
use tokio::net::TcpStream;

use crate::outcome::Failure;

/// A way to brokers.
#[derive(Clone, Default)]
pub enum Net {
    /// Sockets, on a clock that nobody stops.
    #[default]
    Tcp,
    /// Streams in memory, for a clock that stands still.
    Memory(Dialer),
}

impl Net {
    /// Opens a stream to a host and a port.
    ///
    /// # Errors
    /// Nobody listens there.
    pub async fn open(&self, host: &str, port: u16) -> io::Result<Box<dyn Stream>> {
        Ok(match self {
            Self::Tcp => {
                let stream = TcpStream::connect((host, port)).await?;
                stream.set_nodelay(true)?;
                Box::new(stream)
            }
            Self::Memory(dialer) => Box::new(dialer.connect(host, port)?),
        })
    }
}

impl Connector for Net {
    fn connect<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<Box<dyn Stream>>> {
        Box::pin(self.open(host, port))
    }
}

impl fmt::Debug for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "Tcp",
            Self::Memory(_) => "Memory",
        })
    }
}

/// The two parts of `host:port`.
///
/// # Errors
/// It has no port.
pub fn parts(address: &str) -> Result<(String, u16), Failure> {
    let (host, port) =
        address.rsplit_once(':').ok_or_else(|| Failure::wrong(format!("{address:?} has no port")))?;
    Ok((host.to_owned(), port.parse()?))
}

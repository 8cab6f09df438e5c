//! Sockets, timers and tasks: the only place that names them. What to do is decided in `proto`; here it is done.

mod background;
mod clock;
mod connection;
mod connector;
mod probe;

pub use background::Background;
pub use clock::Clock;
pub use connection::{CallError, Connection, ConnectionConfig};
pub use connector::{Connector, Stream, TcpConnector};
pub use probe::{Probe, ProbeEvent};

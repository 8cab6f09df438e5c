//! A way to the brokers that can be closed for requests of one kind: what a slow network, or a slow coordinator, is for a client.
//! And one on which everything that passes can be looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::KafkaError;

/// The key of Produce.
pub const PRODUCE: i16 = 0;
/// The key of EndTxn.
pub const END_TXN: i16 = 26;

/// The host of every broker that is started here.
const HOST: &[u8] = b"127.0.0.1";
/// More than any answer of a test.
const LONGEST: usize = 64 << 20;

/// A proxy in front of brokers on 127.0.0.1. Clients that begin with its addresses see no others: addresses in answers are changed
/// to its own. Dropped, it lets everything through and takes no more connections.
#[derive(Debug)]
pub struct Detour {
    /// By the port of a broker: ours.
    ports: Arc<BTreeMap<u16, u16>>,
    barrier: Arc<Barrier>,
}

/// Which way a frame goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Way {
    /// From a client to a broker.
    Request,
    /// From a broker to a client.
    Response,
}

/// Is shown each frame without its length: the number of its connection, and its way.
pub type Watcher = Arc<dyn Fn(u64, Way, &[u8]) + Send + Sync>;

#[derive(Debug, Default)]
struct Barrier {
    state: Mutex<Closed>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Closed {
    held: BTreeSet<i16>,
    /// How many requests wait.
    waiting: usize,
    over: bool,
}

impl Detour {
    /// In front of these brokers.
    ///
    /// # Errors
    /// [`KafkaError::Io`].
    pub fn start(bootstrap: &str) -> Result<Self, KafkaError> {
        Self::watched(bootstrap, Arc::new(|_, _, _| {}))
    }

    /// The same, and every frame is shown to `watcher` before it goes on.
    ///
    /// # Errors
    /// [`KafkaError::Io`].
    pub fn watched(bootstrap: &str, watcher: Watcher) -> Result<Self, KafkaError> {
        let failed = || KafkaError::io(format!("start a proxy of {bootstrap}"));
        let (mut ports, mut listeners) = (BTreeMap::new(), Vec::new());
        for address in bootstrap.split(',') {
            let port = address.rsplit(':').next().and_then(|port| port.parse().ok());
            let port = port.ok_or_else(|| failed()(io::ErrorKind::InvalidInput.into()))?;
            let listener = TcpListener::bind("127.0.0.1:0").map_err(failed())?;
            ports.insert(port, listener.local_addr().map_err(failed())?.port());
            listeners.push((port, listener));
        }
        let (ports, barrier) = (Arc::new(ports), Arc::new(Barrier::default()));
        let connections = Arc::new(AtomicU64::new(0));
        for (port, listener) in listeners {
            let (ports, barrier) = (Arc::clone(&ports), Arc::clone(&barrier));
            let lane = Lane {
                port,
                ports,
                barrier,
                connections: Arc::clone(&connections),
                watcher: watcher.clone(),
            };
            std::thread::spawn(move || lane.accept(&listener));
        }
        Ok(Self { ports, barrier })
    }

    /// Its addresses, as `bootstrap.servers` wants them.
    pub fn bootstrap(&self) -> String {
        self.ports.values().map(|port| format!("127.0.0.1:{port}")).collect::<Vec<_>>().join(",")
    }

    /// From now on requests with this key wait, and whatever comes behind one on its connection.
    pub fn hold(&self, key: i16) {
        self.barrier.change(|closed| _ = closed.held.insert(key));
    }

    /// Waits until a request is held, for so long at most; whether one is.
    pub fn wait_held(&self, most: Duration) -> bool {
        let state = self.barrier.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.barrier.changed.wait_timeout_while(state, most, |closed| closed.waiting == 0);
        waited.unwrap_or_else(PoisonError::into_inner).0.waiting > 0
    }

    /// Lets everything through.
    pub fn release(&self) {
        self.barrier.change(|closed| closed.held.clear());
    }
}

impl Drop for Detour {
    fn drop(&mut self) {
        self.barrier.change(|closed| {
            closed.held.clear();
            closed.over = true;
        });
        // Whoever waits for a connection looks again.
        for port in self.ports.values() {
            _ = TcpStream::connect(("127.0.0.1", *port));
        }
    }
}

impl Barrier {
    fn change(&self, change: impl FnOnce(&mut Closed)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    fn is_over(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).over
    }

    fn pass(&self, key: i16) {
        if !self.state.lock().unwrap_or_else(PoisonError::into_inner).held.contains(&key) {
            return;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.waiting += 1;
        self.changed.notify_all();
        let passed = self.changed.wait_while(state, |closed| closed.held.contains(&key));
        passed.unwrap_or_else(PoisonError::into_inner).waiting -= 1;
    }
}

/// The way to one broker.
struct Lane {
    port: u16,
    ports: Arc<BTreeMap<u16, u16>>,
    barrier: Arc<Barrier>,
    connections: Arc<AtomicU64>,
    watcher: Watcher,
}

impl Lane {
    fn accept(&self, listener: &TcpListener) {
        for client in listener.incoming() {
            if self.barrier.is_over() {
                return;
            }
            // A broker that is down refuses the connection, and so does the proxy.
            let both = client.and_then(|client| Ok((client, TcpStream::connect(("127.0.0.1", self.port))?)));
            let Ok((client, broker)) = both else { continue };
            let (Ok(from_client), Ok(from_broker)) = (client.try_clone(), broker.try_clone()) else {
                continue;
            };
            let number = self.connections.fetch_add(1, Ordering::Relaxed);
            let (ports, barrier) = (Arc::clone(&self.ports), Arc::clone(&self.barrier));
            let (requests, answers) = (Arc::clone(&self.watcher), Arc::clone(&self.watcher));
            std::thread::spawn(move || {
                carry(from_client, broker, |frame| {
                    requests(number, Way::Request, frame);
                    barrier.pass(i16::from_be_bytes([
                        *frame.first().unwrap_or(&0),
                        *frame.get(1).unwrap_or(&0),
                    ]));
                });
            });
            std::thread::spawn(move || {
                carry(from_broker, client, |frame| {
                    redirect(frame, &ports);
                    answers(number, Way::Response, frame);
                });
            });
        }
    }
}

/// Carries frames until one side is gone, which ends the other.
fn carry(mut from: TcpStream, mut to: TcpStream, mut each: impl FnMut(&mut Vec<u8>)) {
    while let Ok(mut frame) = read(&mut from) {
        each(&mut frame);
        let size = u32::try_from(frame.len()).unwrap_or(0).to_be_bytes();
        if to.write_all(&[&size, &frame[..]].concat()).is_err() {
            break;
        }
    }
    for stream in [from, to] {
        _ = stream.shutdown(Shutdown::Both);
    }
}

fn read(from: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut size = [0; 4];
    from.read_exact(&mut size)?;
    let size = usize::try_from(u32::from_be_bytes(size)).unwrap_or(usize::MAX);
    if size > LONGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut frame = vec![0; size];
    from.read_exact(&mut frame)?;
    Ok(frame)
}

/// Wherever an answer has a broker's host and port (in all versions one after the other, the port in four bytes), it becomes our port.
fn redirect(frame: &mut [u8], ports: &BTreeMap<u16, u16>) {
    let length = HOST.len() + 4;
    for at in 0..frame.len().saturating_sub(length - 1) {
        let Some((host, port)) = frame[at..at + length].split_at_mut_checked(HOST.len()) else { continue };
        let found = u32::from_be_bytes([port[0], port[1], port[2], port[3]]);
        let ours = u16::try_from(found).ok().and_then(|found| ports.get(&found));
        if let (true, Some(ours)) = (host == HOST, ours) {
            port.copy_from_slice(&u32::from(*ours).to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_known_brokers_are_changed_and_nothing_else() {
        let ports = BTreeMap::from([(9092, 7)]);
        let address = |port: u32| [HOST, &port.to_be_bytes()].concat();
        let mut frame = [&[9][..], &address(9092), b"127.0.0.1", &address(9093), &address(9092)].concat();
        let expected = [&[9][..], &address(7), b"127.0.0.1", &address(9093), &address(7)].concat();
        redirect(&mut frame, &ports);
        assert_eq!(frame, expected);
    }
}

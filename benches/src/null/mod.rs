//! A broker that keeps nothing and costs next to nothing: what is measured against it is the client.
//!
//! ```text
//! socket ─► frame ─► Produce?  walk its headers (`produce`), count, answer
//!                    others    kafka-protocol, and a coordinator that never refuses (`answers`, `coordinator`)
//! ```
//!
//! A thread serves a connection, one request after the other, as a real broker does. When an answer leaves is the
//! [`Pace`]; whether every batch is looked at is [`Check`]. It links nothing of the library, so that it can not share a
//! mistake with it.

mod answers;
mod batches;
mod connection;
mod coordinator;
mod counters;
mod options;
mod produce;
mod walk;

pub use counters::Counters;
pub use options::{Check, Pace, Settings};

use std::{
    io,
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use batches::Logs;
use coordinator::Coordinator;

/// A running broker; it ends with this handle, once its clients have gone.
#[derive(Debug)]
pub struct NullBroker {
    shared: Arc<Shared>,
}

/// What the connections share.
#[derive(Debug)]
pub(crate) struct Shared {
    settings: Settings,
    address: SocketAddr,
    coordinator: Mutex<Coordinator>,
    logs: Mutex<Logs>,
    counters: Mutex<Counters>,
    stopped: AtomicBool,
}

impl NullBroker {
    /// Listens on a port of its own, on this machine only.
    ///
    /// # Errors
    /// No port is to be had.
    pub fn start(settings: Settings) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let partitions = usize::try_from(settings.partitions).unwrap_or(1);
        let shared = Arc::new(Shared {
            address: listener.local_addr()?,
            coordinator: Mutex::default(),
            logs: Mutex::new(Logs::new(partitions)),
            counters: Mutex::default(),
            stopped: AtomicBool::new(false),
            settings,
        });
        let serving = Arc::clone(&shared);
        thread::spawn(move || accept(&listener, &serving));
        Ok(Self { shared })
    }

    /// Where it listens.
    #[must_use]
    pub fn bootstrap(&self) -> String {
        self.shared.address.to_string()
    }

    /// What was counted so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.shared.counters().clone()
    }
}

impl Drop for NullBroker {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
        // Wakes the listener; it fails only if that is gone.
        _ = TcpStream::connect(self.shared.address);
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.stopped.load(Ordering::Relaxed) {
            return;
        }
        let Ok(stream) = stream else { continue };
        let shared = Arc::clone(shared);
        thread::spawn(move || {
            // A client that goes away is no fault.
            if let Err(error) = connection::serve(stream, &shared) {
                if error.kind() == io::ErrorKind::InvalidData {
                    shared.counters().complaints.push(error.to_string());
                }
            }
        });
    }
}

impl Shared {
    fn counters(&self) -> MutexGuard<'_, Counters> {
        self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn coordinator(&self) -> MutexGuard<'_, Coordinator> {
        self.coordinator.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn logs(&self) -> MutexGuard<'_, Logs> {
        self.logs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! What all tasks of one broker share: the cluster's state, faults, and a signal that something changed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use kafka_protocol::error::ResponseError;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::access::Denial;
use super::clock::Clock;
use super::cluster::Cluster;
use super::config::BrokerConfig;
use super::coordinator::transit::Appended;
use super::dispatch::Held;
use super::fault::Faults;
use super::journal::Journal;
use super::server::Listening;

/// The shared state of a broker.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: BrokerConfig,
    clock: Clock,
    cluster: Mutex<Cluster>,
    faults: Mutex<Faults>,
    journal: Mutex<Journal>,
    denials: RwLock<Vec<Denial>>,
    changes: watch::Sender<u64>,
    markers_held: watch::Sender<bool>,
    /// Raised when held requests are to be delivered.
    deliveries: watch::Sender<u64>,
    listening: Mutex<BTreeMap<i32, Listening>>,
    connections: AtomicU64,
    tasks: Mutex<JoinSet<()>>,
}

/// What a handler knows of its surroundings.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    pub(crate) shared: Arc<Shared>,
    /// The node that the client talks to.
    pub(crate) node: i32,
    pub(crate) connection: u64,
    pub(crate) client_id: String,
}

impl Context {
    /// That of a new connection.
    pub(crate) fn new(shared: Arc<Shared>, node: i32) -> Self {
        let connection = shared.connections.fetch_add(1, Ordering::Relaxed) + 1;
        Self { shared, node, connection, client_id: String::new() }
    }
}

impl Shared {
    pub(crate) fn new(config: BrokerConfig, cluster: Cluster) -> Self {
        Self {
            config,
            clock: cluster.clock,
            cluster: Mutex::new(cluster),
            faults: Mutex::default(),
            journal: Mutex::default(),
            denials: RwLock::default(),
            changes: watch::Sender::new(0),
            markers_held: watch::Sender::new(false),
            deliveries: watch::Sender::new(0),
            listening: Mutex::default(),
            connections: AtomicU64::new(0),
            tasks: Mutex::new(JoinSet::new()),
        }
    }

    /// The state. Never held over an await.
    pub(crate) fn cluster(&self) -> MutexGuard<'_, Cluster> {
        self.cluster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Milliseconds since the Unix epoch.
    pub(crate) fn now_ms(&self) -> i64 {
        self.clock.now_ms()
    }

    /// Waits for an append to the transaction log.
    ///
    /// # Errors
    /// NOT_COORDINATOR when it fails.
    pub(crate) async fn appended(&self, id: &str, append: Appended) -> Result<(), ResponseError> {
        let mut changes = self.changes();
        while !self.cluster().transactions.outcome(id, append)? {
            // The sender lives in self.
            let _ = changes.changed().await;
        }
        Ok(())
    }

    pub(crate) fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn denials(&self) -> RwLockReadGuard<'_, Vec<Denial>> {
        self.denials.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn denials_mut(&self) -> RwLockWriteGuard<'_, Vec<Denial>> {
        self.denials.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn listening(&self) -> MutexGuard<'_, BTreeMap<i32, Listening>> {
        self.listening.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when the node is not frozen.
    pub(crate) async fn thawed(&self, node: i32) {
        let mut changes = self.changes();
        while self.cluster().is_frozen(node) {
            // The sender lives in self.
            let _ = changes.changed().await;
        }
    }

    /// The node dies: its connections are cut, and others take over at once.
    pub(crate) fn crash(&self, node: i32) {
        self.cluster().set_up(node, false);
        // Dropped, its tasks end, and so does the one that asked for this.
        drop(self.listening().remove(&node));
        self.announce();
    }

    /// Carries out a request whose connection is gone, when its time has come.
    pub(crate) fn deliver_late(&self, request: Held) {
        let mut deliveries = self.deliveries.subscribe();
        self.spawn(async move {
            match request.after {
                Some(after) => tokio::time::sleep(after).await,
                // Without a sender the broker has stopped.
                None if deliveries.changed().await.is_err() => return,
                None => {}
            }
            request.work.await;
        });
    }

    pub(crate) fn deliver_held(&self) {
        self.deliveries.send_modify(|n| *n = n.wrapping_add(1));
    }

    /// Wakes whoever waits for records, markers or leaders.
    pub(crate) fn announce(&self) {
        self.changes.send_modify(|n| *n = n.wrapping_add(1));
    }

    /// Changes from now on. Subscribe before looking at the state, then nothing is missed.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    pub(crate) fn hold_markers(&self, held: bool) {
        self.markers_held.send_replace(held);
    }

    /// Returns once markers may be written.
    pub(crate) async fn markers_released(&self) {
        // The sender lives in self, so waiting cannot fail.
        let _ = self.markers_held.subscribe().wait_for(|held| !held).await;
    }

    /// Runs a task until it ends or the broker stops.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }

    pub(crate) fn abort_tasks(&self) {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
    }
}

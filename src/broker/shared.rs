//! What all tasks of one broker share: the cluster's state, faults, and a signal that something changed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::cluster::Cluster;
use super::config::BrokerConfig;
use super::fault::Faults;

/// The shared state of a broker.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: BrokerConfig,
    cluster: Mutex<Cluster>,
    faults: Mutex<Faults>,
    changes: watch::Sender<u64>,
    markers_held: watch::Sender<bool>,
    tasks: Mutex<JoinSet<()>>,
}

/// What a handler knows of its surroundings.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    pub(crate) shared: Arc<Shared>,
    /// The node that the client talks to.
    pub(crate) node: i32,
    pub(crate) client_id: String,
}

impl Shared {
    pub(crate) fn new(config: BrokerConfig, cluster: Cluster) -> Self {
        Self {
            config,
            cluster: Mutex::new(cluster),
            faults: Mutex::default(),
            changes: watch::Sender::new(0),
            markers_held: watch::Sender::new(false),
            tasks: Mutex::new(JoinSet::new()),
        }
    }

    /// The state. Never held over an await.
    pub(crate) fn cluster(&self) -> MutexGuard<'_, Cluster> {
        self.cluster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
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

/// Milliseconds since the Unix epoch.
#[expect(clippy::disallowed_methods, reason = "the broker is a program with a clock of its own")]
pub(crate) fn now_ms() -> i64 {
    let now = std::time::SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

//! The moments of each checkpoint.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use kafka_2pc::{
    checkpoint::runner::{JobEvent, Observer},
    proto::checkpoint::CheckpointKind,
};
use tokio::sync::Notify;

/// A checkpoint, from its trigger on; of what several subtasks do, when the last one did.
#[derive(Debug, Clone)]
pub(crate) struct Life {
    pub(crate) triggered: Instant,
    /// When the barrier came, by operator.
    pub(crate) barrier: BTreeMap<String, Instant>,
    pub(crate) prepared: Option<Instant>,
    pub(crate) acknowledged: Option<Instant>,
    pub(crate) stored: Option<Instant>,
    pub(crate) notified: Option<Instant>,
    pub(crate) committed: Option<Instant>,
    pub(crate) visible: Option<Instant>,
    /// Transactions that are prepared and not visible.
    open: usize,
}

impl Life {
    fn new(triggered: Instant) -> Self {
        Self {
            triggered,
            barrier: BTreeMap::new(),
            prepared: None,
            acknowledged: None,
            stored: None,
            notified: None,
            committed: None,
            visible: None,
            open: 0,
        }
    }

    fn is_over(&self) -> bool {
        self.stored.is_some() && self.open == 0
    }

    /// Milliseconds from one moment to another, if both came.
    pub(crate) fn ms(from: Option<Instant>, to: Option<Instant>) -> Option<f64> {
        Some(to?.saturating_duration_since(from?).as_secs_f64() * 1e3)
    }

    /// From the trigger until the barrier is at the sink.
    pub(crate) fn at_sink_ms(&self) -> Option<f64> {
        Self::ms(Some(self.triggered), self.barrier.get("out").copied())
    }

    /// How long the sink takes until everything is acknowledged.
    pub(crate) fn flush_ms(&self) -> Option<f64> {
        Self::ms(self.barrier.get("out").copied(), self.prepared)
    }

    /// From the trigger until it is durable.
    pub(crate) fn took_ms(&self) -> Option<f64> {
        Self::ms(Some(self.triggered), self.stored)
    }
}

/// Watches a job.
pub(crate) struct Watch {
    lives: Mutex<BTreeMap<u64, Life>>,
    wanted: usize,
    counts: Box<dyn Fn() -> bool + Send + Sync>,
    enough: Notify,
}

impl Watch {
    pub(crate) fn new(wanted: usize, counts: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        let (lives, counts) = (Mutex::default(), Box::new(counts));
        Self { lives, wanted, counts, enough: Notify::new() }
    }

    pub(crate) fn observer(watch: &Arc<Self>) -> Observer {
        let watch = Arc::clone(watch);
        Observer::new(move |_, event| watch.event(event))
    }

    /// Waits until as many checkpoints as wanted are over.
    pub(crate) async fn enough(&self) {
        self.enough.notified().await;
    }

    /// Those that are over.
    pub(crate) fn lives(&self) -> Vec<Life> {
        self.lock().values().filter(|life| life.is_over()).cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Life>> {
        self.lives.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn event(&self, event: &JobEvent<'_>) {
        let now = Instant::now();
        let mut lives = self.lock();
        if let JobEvent::Triggered { checkpoint, kind: CheckpointKind::Periodic } = event {
            if (self.counts)() {
                lives.insert(*checkpoint, Life::new(now));
            }
            return;
        }
        let (JobEvent::Snapshot { checkpoint, .. }
        | JobEvent::Prepared { checkpoint, .. }
        | JobEvent::Acknowledged { checkpoint, .. }
        | JobEvent::Stored { checkpoint }
        | JobEvent::Notified { checkpoint, .. }
        | JobEvent::Committed { checkpoint, .. }
        | JobEvent::Visible { checkpoint, .. }) = event
        else {
            return;
        };
        let Some(life) = lives.get_mut(checkpoint) else { return };
        match event {
            JobEvent::Snapshot { task, .. } => _ = life.barrier.insert(task.uid.to_string(), now),
            JobEvent::Prepared { transactional_id, .. } => {
                life.open += usize::from(transactional_id.is_some());
                life.prepared = Some(now);
            }
            JobEvent::Acknowledged { .. } => life.acknowledged = Some(now),
            JobEvent::Stored { .. } => life.stored = Some(now),
            // It is repeated until it is confirmed; the first one counts.
            JobEvent::Notified { .. } => _ = life.notified.get_or_insert(now),
            JobEvent::Committed { .. } => life.committed = Some(now),
            JobEvent::Visible { .. } => {
                life.open -= 1;
                life.visible = Some(now);
            }
            _ => {}
        }
        if lives.values().filter(|life| life.is_over()).count() >= self.wanted {
            self.enough.notify_one();
        }
    }
}

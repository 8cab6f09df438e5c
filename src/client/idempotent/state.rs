//! What the handles of a producer and its task share.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use tokio::sync::{Notify, oneshot};

use super::{NotStored, ended};
use crate::{
    client::{
        accumulator::{Accumulator, Sealed},
        error::SendError,
        link::Link,
        router::Router,
        settings::ProducerConfig,
    },
    ids::Moment,
    proto::cause::Cause,
};

/// Shared by the handles and the task.
pub(super) struct Shared {
    pub(super) router: Arc<Router>,
    pub(super) config: ProducerConfig,
    pub(super) link: Arc<Link>,
    /// Held for one record, or for taking what was closed: never across a wait.
    desk: Mutex<Desk>,
    /// Something is on the desk.
    pub(super) wake: Notify,
    /// No handle is left, or it was closed: the task ends when everything is sent.
    over: AtomicBool,
    failures: Mutex<Option<NotStored>>,
}

/// Where records are taken. Everybody who closes a batch does it here, so that batches leave in the order of their records.
pub(super) struct Desk {
    pub(super) accumulator: Accumulator,
    pub(super) flushes: Vec<oneshot::Sender<()>>,
    /// The task was woken and has not come yet.
    woken: bool,
    /// The task comes by itself for what is open.
    timed: bool,
    /// The task is gone: nobody comes any more.
    deserted: bool,
}

/// What the task takes from the desk.
#[derive(Default)]
pub(super) struct Taken {
    pub(super) batches: Vec<Sealed>,
    pub(super) flushes: Vec<oneshot::Sender<()>>,
}

impl Shared {
    pub(super) fn new(router: Arc<Router>, config: ProducerConfig) -> Self {
        let link = Arc::new(Link::default());
        let accumulator = Accumulator::new(Arc::clone(&router), config.batching.clone(), Arc::clone(&link));
        let desk = Desk { accumulator, flushes: Vec::new(), woken: false, timed: false, deserted: false };
        Self {
            router,
            config,
            link,
            desk: Mutex::new(desk),
            wake: Notify::new(),
            over: AtomicBool::new(false),
            failures: Mutex::new(None),
        }
    }

    pub(super) fn desk(&self) -> MutexGuard<'_, Desk> {
        // A panic inside leaves a record half written at worst, in a batch that is then refused as malformed.
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the task if there is something for it that it does not know of.
    pub(super) fn left_on(&self, desk: &mut Desk) {
        let waits = desk.accumulator.has_closed() || !desk.flushes.is_empty();
        if !desk.woken && (waits || (!desk.timed && desk.accumulator.is_open())) {
            desk.woken = true;
            self.wake.notify_one();
        }
    }

    /// Asks for word when the fate of everything that was taken is known. A task that is gone gives none.
    pub(super) fn flush(&self) -> oneshot::Receiver<()> {
        let (reply, answer) = oneshot::channel();
        let mut desk = self.desk();
        if let Err(SendError::Failed(cause)) = desk.accumulator.close_all() {
            self.count(0, &cause);
        }
        if !desk.deserted {
            desk.flushes.push(reply);
        }
        self.left_on(&mut desk);
        answer
    }

    /// The task is gone: nothing more is taken, and nobody waits for it.
    pub(super) fn desert(&self) {
        self.link.fail(ended());
        let mut desk = self.desk();
        desk.deserted = true;
        desk.flushes.clear();
    }

    /// Takes what is to be sent: all that was closed, and what has lingered.
    pub(super) fn take(&self) -> Taken {
        let over = self.is_over();
        let mut desk = self.desk();
        // What can't be closed has failed the link.
        _ = if over { desk.accumulator.close_all() } else { desk.accumulator.close_lingering() };
        desk.woken = false;
        let flushes = std::mem::take(&mut desk.flushes);
        Taken { batches: desk.accumulator.closed().unwrap_or_default(), flushes }
    }

    /// When the task has to come again by itself. A batch that lingers behind one that has not left is not waited for: the
    /// answer or the time that lets that one leave brings the task anyway.
    pub(super) fn lingers_until(&self) -> Option<Moment> {
        let mut desk = self.desk();
        desk.timed = desk.accumulator.is_open();
        desk.accumulator.lingers_until()
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Lets the task end when everything is sent.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    /// Counts records that are not stored.
    pub(super) fn count(&self, records: u64, cause: &Cause) {
        let unknown = if cause.outcome_unknown() { records } else { 0 };
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *failures {
            Some(counted) => {
                counted.records += records;
                counted.unknown += unknown;
            }
            None => *failures = Some(NotStored { records, unknown, cause: cause.clone() }),
        }
    }

    /// What was counted since the last call.
    pub(super) fn counted(&self) -> Result<(), NotStored> {
        let counted = self.failures.lock().unwrap_or_else(PoisonError::into_inner).take();
        counted.map_or(Ok(()), Err)
    }
}

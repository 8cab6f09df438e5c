//! What the handles of a producer and its task share.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use tokio::sync::{Notify, oneshot};

use super::{
    NotStored, ended,
    line::{Line, Place},
};
use crate::{
    client::{
        accumulator::{Accumulator, Lost, Sealed},
        error::TrySendError,
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
    /// Something waits for the task, and no sender has given it a turn yet.
    owes_a_turn: AtomicBool,
}

/// Where records are taken. Everybody who closes a batch does it here, so that batches leave in the order of their records.
pub(super) struct Desk {
    pub(super) accumulator: Accumulator,
    pub(super) flushes: Vec<oneshot::Sender<()>>,
    /// The task was woken and has not come yet.
    woken: bool,
    /// Something waits for the task, and a sender was told to give it a turn.
    waits: bool,
    /// The task comes by itself for what is open and could leave.
    timed: bool,
    /// The task is gone: nobody comes any more.
    deserted: bool,
    pub(super) line: Line,
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
        let desk = Desk {
            accumulator,
            flushes: Vec::new(),
            woken: false,
            waits: false,
            timed: false,
            deserted: false,
            line: Line::default(),
        };
        Self {
            router,
            config,
            link,
            desk: Mutex::new(desk),
            wake: Notify::new(),
            over: AtomicBool::new(false),
            failures: Mutex::new(None),
            owes_a_turn: AtomicBool::new(false),
        }
    }

    pub(super) fn desk(&self) -> MutexGuard<'_, Desk> {
        // A panic inside leaves a record half written at worst, in a batch that is then refused as malformed.
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a record in, if there is memory beside what those wait for who came before: all who have a place in the line, or
    /// those before its own.
    #[inline]
    pub(super) fn put<T>(
        &self,
        desk: &mut Desk,
        place: Option<Place>,
        put: impl FnOnce(&mut Accumulator) -> Result<T, TrySendError>,
    ) -> Result<T, TrySendError> {
        let reserved =
            if desk.line.is_empty() { 0 } else { desk.line.before(place, desk.accumulator.room()) };
        desk.accumulator.leave_room(reserved);
        let put = put(&mut desk.accumulator);
        self.left_on(desk);
        put
    }

    /// Wakes the task if there is something for it that it does not know of, and counts what can't be left for it.
    pub(super) fn left_on(&self, desk: &mut Desk) {
        self.count_lost(desk);
        let waits = desk.accumulator.has_closed() || !desk.flushes.is_empty();
        // What is opened behind a batch that waits is seen to when that one leaves. If there is a deadline already, it is an
        // earlier one.
        let lingers = desk.accumulator.has_opened() && !desk.timed;
        if !desk.woken && (waits || lingers) {
            desk.woken = true;
            self.wake.notify_one();
        }
        if waits && !std::mem::replace(&mut desk.waits, true) {
            self.owes_a_turn.store(true, Ordering::Relaxed);
        }
    }

    /// True if the task is to have a turn, where one thread does everything: after each batch, once.
    #[inline]
    pub(super) fn owes_a_turn(&self) -> bool {
        // Looked at first: a swap for each record would cost more.
        self.owes_a_turn.load(Ordering::Relaxed) && self.owes_a_turn.swap(false, Ordering::Relaxed)
    }

    /// Asks for word when the fate of everything that was taken is known. A task that is gone gives none.
    pub(super) fn flush(&self) -> oneshot::Receiver<()> {
        let (reply, answer) = oneshot::channel();
        let mut desk = self.desk();
        // What can't be closed is counted below.
        _ = desk.accumulator.close_all();
        if !desk.deserted {
            desk.flushes.push(reply);
        }
        self.left_on(&mut desk);
        answer
    }

    /// The task is going: nothing more is taken. What was taken before, open or closed, is to be counted, and then whoever
    /// waits is let [`go`](Self::desert). Who asks in between waits for that, too.
    pub(super) fn leave(&self) -> Taken {
        let mut desk = self.desk();
        self.link.fail(ended());
        _ = desk.accumulator.close_all();
        self.carry(&mut desk)
    }

    /// The task is gone, and everything is counted: nobody waits for it.
    pub(super) fn desert(&self) {
        let mut desk = self.desk();
        desk.deserted = true;
        desk.flushes.clear();
    }

    /// Takes what is to be sent: all that was closed, and what has lingered.
    pub(super) fn take(&self) -> Taken {
        let over = self.is_over();
        let mut desk = self.desk();
        _ = if over { desk.accumulator.close_all() } else { desk.accumulator.close_lingering() };
        desk.woken = false;
        desk.waits = false;
        self.carry(&mut desk)
    }

    /// Carries off what lies on the desk, and counts what could not be closed.
    fn carry(&self, desk: &mut Desk) -> Taken {
        self.count_lost(desk);
        let flushes = std::mem::take(&mut desk.flushes);
        Taken { batches: desk.accumulator.closed().unwrap_or_default(), flushes }
    }

    /// When the task has to come again by itself. A batch that lingers behind one that has not left is not waited for: the
    /// answer or the time that lets that one leave brings the task anyway.
    pub(super) fn lingers_until(&self) -> Option<Moment> {
        let mut desk = self.desk();
        let until = desk.accumulator.lingers_until();
        desk.timed = until.is_some();
        until
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Lets the task end when everything is sent.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    /// Counts what could not be closed. Before the desk is free again, so that the next flush tells it.
    fn count_lost(&self, desk: &mut Desk) {
        if let Some(Lost { records, cause }) = desk.accumulator.lost() {
            self.count(records, &cause);
        }
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

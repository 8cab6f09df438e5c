//! What a writer holds, in numbers, for whoever watches it while it works or waits.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::{
    ids::TransactionalId,
    net::Clock,
    proto::{
        deadline::{DeadlineWarning, Deadlines, TooOld},
        pool::{Slot, SlotState, Visible},
    },
    record::RecordRef,
};

/// Watches a [`SinkWriter`](super::SinkWriter) from beside: ages go on, and what a commit changes is seen, also while the writer waits
/// for brokers in a flush, or its task for a store. Clones watch the same writer, and outlive it.
#[derive(Debug, Clone)]
pub struct SinkMeter(Arc<Watched>);

#[derive(Debug)]
struct Watched {
    clock: Clock,
    records: AtomicU64,
    bytes: AtomicU64,
    held: Mutex<Held>,
}

#[derive(Debug)]
struct Held {
    slots: SinkUsage,
    deadlines: Deadlines,
}

impl SinkMeter {
    /// Of a writer that holds nothing, and whose transactions are aborted after `timeout`.
    pub(super) fn new(clock: Clock, timeout: Duration) -> Self {
        let held = Held { slots: SinkUsage::default(), deadlines: Deadlines::new(timeout) };
        let (records, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        Self(Arc::new(Watched { clock, records, bytes, held: Mutex::new(held) }))
    }

    /// What the writer holds now, in numbers, and what it has taken.
    #[must_use]
    pub fn usage(&self) -> SinkUsage {
        let held = self.held();
        let (records, bytes) = (&self.0.records, &self.0.bytes);
        let taken = Taken { records: records.load(Ordering::Relaxed), bytes: bytes.load(Ordering::Relaxed) };
        SinkUsage { oldest: held.deadlines.oldest(self.0.clock.now()), taken, ..held.slots }
    }

    /// The open and prepared transactions that have used half of `transaction.timeout.ms` or more, now.
    #[must_use]
    pub fn warnings(&self) -> Vec<DeadlineWarning> {
        self.held().deadlines.warnings(self.0.clock.now())
    }

    /// Logs transactions that come near to their timeout: each at half of it, and at four fifths.
    pub fn log_deadlines(&self) {
        let due = self.held().deadlines.due(self.0.clock.now());
        for warning in due {
            tracing::warn!(transactional_id = %warning.transactional_id, "{warning}");
        }
    }

    /// The writer took a record. Only the writer calls this.
    pub(super) fn took(&self, record: &RecordRef<'_>) {
        let length = |part: Option<&[u8]>| part.map_or(0, <[u8]>::len) as u64;
        self.0.records.fetch_add(1, Ordering::Relaxed);
        self.0.bytes.fetch_add(length(record.key) + length(record.value), Ordering::Relaxed);
    }

    /// The writer holds these slots.
    pub(super) fn holds(&self, slots: SinkUsage) {
        self.held().slots = slots;
    }

    pub(super) fn begun(&self, id: TransactionalId) {
        self.held().deadlines.begun(self.0.clock.now(), id);
    }

    pub(super) fn prepared(&self, id: &TransactionalId) {
        self.held().deadlines.prepared(id);
    }

    pub(super) fn ended(&self, id: &TransactionalId) {
        self.held().deadlines.ended(id);
    }

    pub(super) fn may_prepare(&self, id: &TransactionalId) -> Result<(), TooOld> {
        self.held().deadlines.may_prepare(self.0.clock.now(), id)
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a writer holds now, and what it has taken since it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SinkUsage {
    /// Transactions that are being written: 0 or 1.
    pub open: usize,
    /// Prepared transactions that are not decided.
    pub prepared: usize,
    /// Committed transactions of which it is not known that they are on every partition.
    pub unsettled: usize,
    /// Ids that are retired, since their transaction hangs.
    pub hanging: usize,
    /// How many transactions more could be open, prepared or unsettled at once.
    pub free: usize,
    /// How long ago the oldest open or prepared transaction was begun; 0 if there is none.
    pub oldest: Duration,
    /// What the writer has taken.
    pub taken: Taken,
}

/// Records that a writer has taken. It counts those of transactions that are aborted later, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Taken {
    /// Their number.
    pub records: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
}

impl SinkUsage {
    pub(super) fn of<'a>(slots: impl Iterator<Item = (Slot, &'a SlotState)>, capacity: usize) -> Self {
        let mut usage = Self::default();
        for (_, state) in slots {
            match state {
                SlotState::Active => usage.open += 1,
                SlotState::Prepared(_) => usage.prepared += 1,
                SlotState::Decided { visible: Visible::NotKnown, .. } => usage.unsettled += 1,
                SlotState::Retired(_) => usage.hanging += 1,
                SlotState::Decided { visible: Visible::Everywhere, .. } | SlotState::Avoided => {}
            }
        }
        usage.free = capacity.saturating_sub(usage.open + usage.prepared + usage.unsettled);
        usage
    }
}

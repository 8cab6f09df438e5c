//! What a writer holds, in numbers.

use std::time::Duration;

use crate::{
    proto::pool::{Slot, SlotState, Visible},
    record::RecordRef,
};

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

impl Taken {
    pub(super) fn count(&mut self, record: &RecordRef<'_>) {
        let length = |part: Option<&[u8]>| part.map_or(0, <[u8]>::len) as u64;
        self.records += 1;
        self.bytes += length(record.key) + length(record.value);
    }
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

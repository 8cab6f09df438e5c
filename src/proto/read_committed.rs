//! Which batches of a fetched log a reader sees, judged by headers alone, before anything is decompressed.
//!
//! ```text
//! log       [A 0..3] [B 4..5] [A 6] [abort A 7] [A 8..9] [commit B 10] [commit A 11]        list: (A, 0)
//! aborting    {A}      {A}     {A}     {}         {}         {}           {}
//! read        skip    deliver  skip    skip     deliver     skip         skip
//! ```
//! A broker's list of aborted transactions is in no order, names a producer once per transaction, and may name
//! transactions that begin behind what was fetched. An entry takes effect with the batch that reaches its first offset;
//! an abort marker ends it. A marker of a producer that is not aborting right now ends nothing, and a control batch whose
//! record compaction removed is no marker at all.
//!
//! The position moves behind every batch, whether or not it holds a record or is handed out: it would stand still for
//! ever otherwise.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use crate::{
    ids::ProducerId,
    wire::{batch::ControlType, fetch::AbortedTransaction},
};

/// What of a batch's header the filter looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchSeen {
    /// Its last offset, whether or not a record is left there.
    pub last_offset: i64,
    /// Its producer, if it has one.
    pub producer_id: Option<ProducerId>,
    /// What it holds.
    pub content: BatchContent,
}

/// What a batch holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchContent {
    /// Records outside of any transaction.
    Plain,
    /// Records of a transaction.
    Transactional,
    /// A control record; `None` where compaction removed it.
    Control(Option<ControlType>),
}

/// What to do with a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    /// Hand out its records from this offset on; a first batch may begin before what was asked for.
    Deliver {
        /// The first offset to hand out.
        from: i64,
    },
    /// Its transaction was aborted.
    Aborted,
    /// It is a control batch: they are never handed out.
    Control,
    /// All of it lies before the position.
    Behind,
}

/// The filter for one fetched payload of one partition.
#[derive(Debug, Clone)]
pub struct Filter {
    position: i64,
    /// Aborted transactions that have not begun yet, the next one on top; none for a reader that sees everything.
    ahead: BinaryHeap<Reverse<(i64, i64)>>,
    /// Producers whose transaction is under way here and was aborted.
    aborting: BTreeSet<i64>,
}

impl Filter {
    /// For a reader that sees everything. A list of aborted transactions, should the broker send one, is not for it.
    #[must_use]
    pub fn uncommitted(position: i64) -> Self {
        Self { position, ahead: BinaryHeap::new(), aborting: BTreeSet::new() }
    }

    /// For a reader that sees committed records alone. `position` is the first offset that it wants, `aborted` the list
    /// that came with the payload.
    #[must_use]
    pub fn committed(position: i64, aborted: &[AbortedTransaction]) -> Self {
        let ahead = aborted.iter().map(|t| Reverse((t.first_offset, t.producer_id))).collect();
        Self { position, ahead, aborting: BTreeSet::new() }
    }

    /// The offset behind everything that was judged: where to fetch next.
    #[must_use]
    pub fn position(&self) -> i64 {
        self.position
    }

    /// Judges the next batch, in the order of the log.
    pub fn judge(&mut self, batch: &BatchSeen) -> Sight {
        while let Some(Reverse((first_offset, producer_id))) = self.ahead.peek().copied() {
            if first_offset > batch.last_offset {
                break;
            }
            self.ahead.pop();
            self.aborting.insert(producer_id);
        }
        let from = self.position;
        self.position = self.position.max(batch.last_offset.saturating_add(1));
        let aborting = batch.producer_id.is_some_and(|id| self.aborting.contains(&id.0));
        match batch.content {
            BatchContent::Control(control) => {
                if let (Some(ControlType::Abort), Some(id)) = (control, batch.producer_id) {
                    self.aborting.remove(&id.0);
                }
                Sight::Control
            }
            BatchContent::Plain | BatchContent::Transactional if batch.last_offset < from => Sight::Behind,
            BatchContent::Transactional if aborting => Sight::Aborted,
            BatchContent::Plain | BatchContent::Transactional => Sight::Deliver { from },
        }
    }
}

#[cfg(test)]
#[path = "read_committed_tests.rs"]
mod tests;

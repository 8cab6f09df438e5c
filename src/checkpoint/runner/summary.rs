//! What a run did, and what it leaves behind.

use std::path::PathBuf;

use super::attempt::LifeSummary;
use crate::{
    ids::TopicPartition,
    proto::{committable::Committable, settle::CommittedButHanging},
    sink::Committed,
};

/// What a run did.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct RunSummary {
    /// Records that sinks took in this run and that complete checkpoints hold, or transactions that were
    /// [left open](Self::open) on purpose. What was written after the last complete checkpoint is not counted: a later run
    /// writes it again.
    pub records: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// Checkpoints that became complete, without the one that a new state begins with.
    pub checkpoints: u64,
    /// Checkpoints that were given up.
    pub failed_checkpoints: u64,
    /// Transactions of an earlier run that recovery committed.
    pub resumed: u64,
    /// Leftovers that recovery aborted.
    pub aborted: u64,
    /// How often the job went back to its last checkpoint by itself.
    pub restarts: u64,
    /// Decided transactions whose marker is missing on a partition, now.
    pub hanging: Vec<HangingTransaction>,
    /// Transactions of complete checkpoints that are lost, or undecidable, and were passed over
    /// ([`OnLost::Skip`](crate::proto::recovery::OnLost::Skip)).
    pub lost: Vec<LostTransaction>,
    /// True when all sources came to their end, and the last checkpoint holds that. Without an error everything is
    /// committed, too, but for what is in [`open`](Self::open).
    pub finished: bool,
    /// Committables that were left open on purpose ([`StopAfter`](super::StopAfter)).
    pub open: Vec<OpenCommittable>,
}

/// A decided transaction whose marker is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HangingTransaction {
    /// The transaction, and where the marker is missing.
    pub transaction: CommittedButHanging,
    /// The file of its committable, if it has one and the store keeps files.
    pub file: Option<PathBuf>,
}

/// A transaction that was passed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostTransaction {
    /// What was to be committed.
    pub committable: Committable,
    /// What became of it, for people.
    pub story: String,
    /// True when it is proven to be lost; false when nothing proves either.
    pub proven: bool,
}

/// A prepared transaction that was left to others.
#[derive(Debug)]
pub struct OpenCommittable {
    /// Its file, when the store keeps files.
    pub path: Option<PathBuf>,
    /// The committable.
    pub committable: Committable,
}

impl RunSummary {
    pub(super) fn add(&mut self, life: &LifeSummary) {
        self.records += life.taken.records;
        self.bytes += life.taken.bytes;
        self.checkpoints += life.completed;
        self.failed_checkpoints += life.failed;
        self.finished = life.finished;
    }
}

impl From<&Committed> for LostTransaction {
    fn from(committed: &Committed) -> Self {
        let proven = committed.is_lost();
        Self { committable: committed.committable.clone(), story: committed.story(), proven }
    }
}

/// What is logged of a decision that is slow to arrive.
pub(super) const ON_THEIR_WAY: &str =
    "markers are still on their way: the leader of a partition is busy or missing; look at the brokers";

/// Logs each place at which a decision has not arrived.
pub(super) fn log_hanging(hanging: &CommittedButHanging) {
    for p in &hanging.partitions {
        tracing::error!(
            transactional_id = %hanging.transactional_id, identity = %hanging.identity, partition = %p.partition,
            "the decision is made, but its marker is missing: readers stall here until it is repaired"
        );
    }
}

/// What a deleted topic took with it, for people.
pub(in crate::checkpoint) fn gone_records(committable: &Committable, gone: &[TopicPartition]) -> String {
    let of = committable.partitions.iter().filter(|p| gone.contains(&p.topic_partition()));
    let told = of.map(|p| format!("{} offset {} ({} records)", p.topic_partition(), p.offset, p.records));
    format!("{}: {}", committable.transactional_id, told.collect::<Vec<_>>().join(", "))
}

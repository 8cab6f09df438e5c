//! What the transaction machine is told, and what it asks for.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    ids::{GroupId, Identity, Moment, NodeId, TopicName, TopicPartition},
    proto::{
        cause::Cause,
        offsets::GroupOffsets,
        outbox::{Batch, BatchFact, BatchId, Produce, RequestId},
        topics::{Looked, TopicNow},
    },
    wire::versions::TransactionVersion,
};

/// What the owner asks for at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// Hand out a committable, with the start time as evidence.
    Prepare,
    /// Get ready for a commit that follows at once; no evidence is collected.
    Commit,
    /// Throw everything away.
    Abort,
}

/// Commands and facts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// These partitions are going to get their first batch. V1 adds them to the transaction meanwhile.
    Began {
        /// The partitions.
        partitions: Vec<TopicPartition>,
    },
    /// A sealed batch.
    Batch {
        /// Where it goes.
        partition: TopicPartition,
        /// The batch.
        batch: Batch,
        /// Where its leader was the last time that anybody asked. Good enough for a first try: a refusal leads to a lookup.
        leader: Option<NodeId>,
    },
    /// Offsets of a group, which count when the transaction commits.
    Offsets {
        /// The group and its offsets, at least one.
        offsets: Arc<GroupOffsets>,
        /// When they are given up.
        deadline: Moment,
    },
    /// Say when everything so far is acknowledged.
    Flush,
    /// End the transaction.
    End(Goal),
    /// AddPartitionsToTxn was answered, or failed.
    Added(AddFact),
    /// AddOffsetsToTxn was answered, or failed.
    OffsetsAdded(AddFact),
    /// TxnOffsetCommit was answered, or failed.
    OffsetsCommitted(OffsetsFact),
    /// A Produce request was answered.
    Produced {
        /// Which.
        request: RequestId,
        /// What the answer says; a batch that it does not mention is tried again.
        facts: Vec<(TopicPartition, BatchId, BatchFact<Cause>)>,
    },
    /// A Produce request will never be answered.
    ProduceLost(RequestId),
    /// Leaders were looked up.
    Leaders(Looked),
    /// The answer to [`Effect::CheckTopics`].
    TopicsChecked(Vec<(TopicName, TopicNow)>),
    /// EndTxn(abort) was answered, or failed.
    Aborted(AbortFact),
    /// The coordinator told the start time, or could not.
    Described {
        /// Milliseconds since the Unix epoch, on the coordinator's clock.
        start_ms: Option<i64>,
    },
    /// Time passed.
    Tick,
}

impl Input {
    /// True for what a coordinator answers. What leaders answer tells the fate of batches, also when it comes late.
    pub(super) const fn is_about_the_coordinator(&self) -> bool {
        matches!(
            self,
            Self::Added(_)
                | Self::OffsetsAdded(_)
                | Self::OffsetsCommitted(_)
                | Self::Aborted(_)
                | Self::Described { .. }
        )
    }
}

/// What AddPartitionsToTxn led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddFact {
    /// All partitions are members now.
    Added,
    /// Ask again after the usual wait.
    Retry,
    /// Ask again soon: the last transaction's markers are still being written.
    RetrySoon,
    /// Ask the new coordinator.
    CoordinatorMoved,
    /// The transaction must be aborted.
    Refused(Cause),
    /// Somebody else owns the id.
    Fenced(Cause),
}

/// What TxnOffsetCommit led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OffsetsFact {
    /// They are kept until the transaction ends.
    Stored {
        /// The partition of `__consumer_offsets` that keeps them; `None` if the cluster does not tell.
        on: Option<TopicPartition>,
    },
    /// Ask again after the usual wait.
    Retry,
    /// Ask again soon: the last transaction's markers are still being written.
    RetrySoon,
    /// Ask the new group coordinator.
    CoordinatorMoved,
    /// The transaction must be aborted.
    Refused(Cause),
    /// Somebody else owns the transactional id.
    Fenced(Cause),
}

impl OffsetsFact {
    /// Of several partitions the worst decides.
    pub(crate) fn severity(&self) -> u8 {
        match self {
            Self::Stored { .. } => 0,
            Self::RetrySoon => 1,
            Self::Retry => 2,
            Self::CoordinatorMoved => 3,
            Self::Refused(_) => 4,
            Self::Fenced(_) => 5,
        }
    }
}

/// What EndTxn(abort) led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AbortFact {
    /// Aborted; on version 5 with the pair to use next.
    Done(Option<Identity>),
    /// The coordinator knows no open transaction: it was aborted by it before.
    NothingOpen,
    /// Ask again after the usual wait; the answer may have been lost.
    Retry,
    /// Ask the new coordinator.
    CoordinatorMoved,
    /// Somebody else owns the id; the transaction is aborted by that.
    Fenced(Cause),
    /// It can't be ended by us.
    Refused(Cause),
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Add these partitions to the transaction.
    AddPartitions(Vec<TopicPartition>),
    /// Add this group's offsets to the transaction (AddOffsetsToTxn).
    AddOffsets(GroupId),
    /// Hand these offsets to the group's coordinator (TxnOffsetCommit).
    CommitOffsets(Arc<GroupOffsets>),
    /// The oldest [`Input::Offsets`] that was not answered is: they count when the transaction commits.
    OffsetsStored,
    /// The group's coordinator is no longer where it was.
    ForgetGroupCoordinator(GroupId),
    /// Send batches.
    Produce(Produce),
    /// Look up the leaders of these partitions, and answer with [`Input::Leaders`].
    FindLeaders(Vec<TopicPartition>),
    /// Ask for the topics that are written to ([`Transaction::written_to`](super::Transaction::written_to)), and answer with
    /// [`Input::TopicsChecked`]. What was told a moment ago need not be asked for.
    CheckTopics {
        /// What was told before the end was asked for does not count: a commit that follows goes by leaders that were known
        /// since.
        anew: bool,
    },
    /// Ask for the transaction's start time.
    Describe,
    /// The coordinator is no longer where it was.
    ForgetCoordinator,
    /// Send EndTxn(abort).
    Abort,
    /// This batch is stored; its memory is free.
    Stored {
        /// The batch.
        batch: BatchId,
        /// Its offset, if known.
        offset: Option<i64>,
    },
    /// These batches will never be stored.
    Discarded(Vec<BatchId>),
    /// Everything before the oldest open [`Input::Flush`] is acknowledged.
    Flushed,
    /// The end is near or reached.
    Finished(Finish),
    /// The transaction can only be aborted, for this cause. Said once.
    Failed(Cause),
}

/// How the transaction left the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finish {
    /// Nothing was written: there is nothing to commit, and the identity is unused.
    Empty,
    /// All records are acknowledged.
    Prepared(Evidence),
    /// The transaction is aborted.
    Aborted {
        /// The pair to use next, where EndTxn told one.
        next: Option<Identity>,
        /// True when a broker may have seen this identity.
        used: bool,
    },
    /// Another owner has ended it.
    Fenced(Cause),
    /// The abort could not be carried out; the transaction ends by its timeout.
    Abandoned(Cause),
}

/// What a committable has to know.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Evidence {
    /// When the coordinator says that the transaction began.
    pub start_ms: Option<i64>,
    /// Per partition an acknowledged offset and how many records went there. A partition of `__consumer_offsets` that
    /// keeps offsets of a group has no records, and tells no offset.
    pub partitions: BTreeMap<TopicPartition, Acked>,
}

/// Acknowledged records of one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Acked {
    /// An offset at which a batch of the transaction lies; -1 if the broker told none.
    pub offset: i64,
    /// The number of records.
    pub records: u64,
}

/// A command that the state does not allow; the state is as before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the transaction is no longer open")]
pub struct Misuse;

/// The EndTxn version that belongs to a transaction begun at `version`: the broker chooses its rules from it.
#[must_use]
pub fn end_txn_version(version: TransactionVersion) -> i16 {
    if version >= TransactionVersion::V2 { 5 } else { 4 }
}

/// The version to end a transaction with that was begun at `begun`, on a coordinator that is at `level` now. At
/// level 0 a version 5 would leave the transactional id unusable until its coordinator moves.
#[must_use]
pub fn end_txn_version_at(begun: TransactionVersion, level: TransactionVersion) -> i16 {
    if level == TransactionVersion::V0 { 4 } else { end_txn_version(begun) }
}

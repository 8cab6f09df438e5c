//! What became of a resumed transaction.

use std::sync::Arc;

use super::facts::TransactionView;
use crate::{
    ids::{Moment, TopicPartition},
    proto::evidence::PartitionVerdict,
};

/// The final answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a loss that nobody looks at is silent"]
pub enum Outcome {
    /// The coordinator decided the commit for this very identity.
    Committed,
    /// It had been committed before, as the evidence proves.
    AlreadyCommitted(Evidence),
    /// The abort that was asked for is decided, or had been before.
    Aborted,
    /// It was to be committed and is aborted. The named partitions' records are not visible.
    Lost {
        /// Exactly the partitions whose records are proven lost.
        partitions: Vec<LostPartition>,
        /// What aborted it.
        cause: LossCause,
    },
    /// Nothing proves either; it may be committed or aborted.
    Undecidable(Box<Undecidable>),
}

/// A partition with lost records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostPartition {
    /// The partition.
    pub partition: TopicPartition,
    /// The stored offset of one of the records.
    pub offset: i64,
    /// How many records.
    pub records: u64,
}

/// What proves a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Evidence {
    /// The coordinator still knows this transaction.
    Coordinator(TransactionView),
    /// The logs hold the transaction's own commit.
    Log {
        /// The partitions that show it.
        proven_by: Vec<TopicPartition>,
    },
}

/// What aborted a transaction, as far as it shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LossCause {
    /// The coordinator knows the transaction as aborted, at its own epoch: somebody asked for it.
    AbortedOnRequest(TransactionView),
    /// The coordinator knows the transaction as aborted, with a raised epoch: its timeout, a newer owner, or an
    /// abort on V2.
    FencedOrTimedOut(TransactionView),
    /// The logs hold an abort.
    Log(Vec<(TopicPartition, PartitionVerdict)>),
}

/// Why nothing is proven.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undecidable {
    /// What the coordinator told.
    pub coordinator: CoordinatorSaw,
    /// What each partition showed.
    pub partitions: Vec<(TopicPartition, PartitionVerdict)>,
}

/// What a coordinator told that proves nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CoordinatorSaw {
    /// Another transaction of the same id.
    Another(TransactionView),
    /// No entry for the id.
    NotFound,
    /// It could not be asked: the right is missing, or the broker cannot answer.
    Blind,
}

/// Why there is no final answer. The committable stays valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// Time is up before the answer was known; it may be tried again at any time.
    #[error("not decided yet after {tries} tries: {cause}. {}", cause.cure())]
    Pending {
        /// What it waited for last.
        cause: PendingCause,
        /// Since when it has waited without progress.
        since: Moment,
        /// How many times EndTxn was sent.
        tries: u32,
    },
    /// The committable belongs to another cluster; nothing was sent.
    #[error("the committable belongs to cluster {expected}, and this is cluster {found}")]
    AnotherCluster {
        /// The committable's cluster.
        expected: Arc<str>,
        /// The cluster that answers.
        found: Arc<str>,
    },
    /// The right to the transactional id is missing. Nothing was decided.
    #[error("access to the transactional id is denied")]
    Denied,
    /// The broker cannot do what is needed. Nothing was decided.
    #[error("the broker cannot end this transaction: it refuses the request")]
    Unsupported,
}

impl CommitError {
    /// True when the same call may succeed later without anybody's help.
    #[must_use]
    pub fn is_retriable(&self) -> bool {
        matches!(self, Self::Pending { .. })
    }
}

/// What a commit waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum PendingCause {
    /// Nothing went wrong yet.
    #[error("no answer so far")]
    NoAnswerYet,
    /// The coordinator cannot be found.
    #[error("the coordinator is not available")]
    CoordinatorUnavailable,
    /// It loads its state.
    #[error("the coordinator is loading its state")]
    CoordinatorLoading,
    /// An ending is under way.
    #[error("the coordinator is ending the transaction")]
    Concurrent,
    /// A request got no answer, or an answer that tells nothing.
    #[error("whether the request was carried out is not known")]
    NotKnown,
    /// The coordinator's entry is stuck.
    #[error("the transactional id is stuck until its coordinator moves")]
    Stuck,
    /// A partition has no leader.
    #[error("a partition of the transaction has no leader")]
    Leaderless,
    /// The coordinator refuses the end and shows the transaction as open.
    #[error("the coordinator refuses the end of a transaction that it shows as open")]
    StillOngoing,
    /// The evidence cannot be read now.
    #[error("the evidence cannot be read")]
    EvidenceUnavailable,
}

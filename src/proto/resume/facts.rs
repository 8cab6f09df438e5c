//! What the resume machine is told, and what it asks for.

use std::time::Duration;

use super::PendingCause;
use crate::{
    ids::{Identity, Moment, NodeId, TopicId, TopicPartition},
    proto::{
        evidence::PartitionVerdict,
        verdict::{FindCoordinatorVerdict, ResumeVerdict},
    },
};

/// What the resumed transaction is to become.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Decision {
    /// Its records become visible.
    Commit,
    /// Its records are thrown away.
    Abort,
}

/// What is done first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum First {
    /// EndTxn: one round trip when all is well.
    #[default]
    EndTxn,
    /// DescribeTransactions: tells whether an earlier try was carried out, before anything is changed.
    Describe,
}

/// What is done while a partition of the transaction has no leader. Kafka 4.3 and 4.4 lose the marker of such a
/// partition (KAFKA-20734).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Leaderless {
    /// EndTxn waits while more than half of the transaction's timeout is left.
    #[default]
    Wait,
    /// Leaders are not looked at.
    Ignore,
}

/// How a committable is resumed.
#[derive(Debug, Clone)]
pub struct ResumeOptions {
    /// What the transaction is to become.
    pub decision: Decision,
    /// What is done first.
    pub first: First,
    /// What is done while a partition has no leader.
    pub leaderless: Leaderless,
    /// How long to try at most. `None`: until 60 s after the transaction's timeout, at least 60 s, and 16 min when
    /// its deadline is not known.
    pub patience: Option<Duration>,
    /// Milliseconds since the Unix epoch at the moment of [`Resume::new`](super::Resume::new).
    pub wall_ms: i64,
    /// The seed of the back-off's jitter.
    pub seed: u64,
}

/// A coordinator's state of a transactional id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CoordinatorState {
    /// `Empty`: an identity, no transaction.
    Empty,
    /// `Ongoing`.
    Ongoing,
    /// `PrepareCommit`: decided, markers are being written.
    PrepareCommit,
    /// `PrepareAbort`: decided, markers are being written.
    PrepareAbort,
    /// `CompleteCommit`: decided; the coordinator believes that every marker is written.
    CompleteCommit,
    /// `CompleteAbort`: decided; the coordinator believes that every marker is written.
    CompleteAbort,
    /// `PrepareEpochFence`: about to be aborted by a newer owner.
    PrepareEpochFence,
    /// `Dead`: being removed.
    Dead,
    /// A name that Kafka 4.4 does not know.
    Unknown,
}

impl CoordinatorState {
    /// The state of a name in a DescribeTransactions or ListTransactions answer.
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        match name {
            "Empty" => Self::Empty,
            "Ongoing" => Self::Ongoing,
            "PrepareCommit" => Self::PrepareCommit,
            "PrepareAbort" => Self::PrepareAbort,
            "CompleteCommit" => Self::CompleteCommit,
            "CompleteAbort" => Self::CompleteAbort,
            "PrepareEpochFence" => Self::PrepareEpochFence,
            "Dead" => Self::Dead,
            _ => Self::Unknown,
        }
    }

    /// Kafka's name of the state.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Ongoing => "Ongoing",
            Self::PrepareCommit => "PrepareCommit",
            Self::PrepareAbort => "PrepareAbort",
            Self::CompleteCommit => "CompleteCommit",
            Self::CompleteAbort => "CompleteAbort",
            Self::PrepareEpochFence => "PrepareEpochFence",
            Self::Dead => "Dead",
            Self::Unknown => "Unknown",
        }
    }
}

/// What DescribeTransactions tells about an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionView {
    /// The state.
    pub state: CoordinatorState,
    /// When the last transaction began, on the coordinator's clock; -1 when none did since the identity was given.
    pub start_ms: i64,
    /// Producer id and epoch that the coordinator knows now.
    pub identity: Identity,
    /// The partitions of an open transaction, or those whose markers are outstanding.
    pub partitions: Vec<TopicPartition>,
}

/// The answer to [`ResumeEffect::Describe`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Described {
    /// The coordinator has an entry.
    Transaction(TransactionView),
    /// It has none: expired, or never used.
    NotFound,
    /// Look the coordinator up, ask again.
    Relookup,
    /// Ask again after a back-off.
    Retry,
    /// It cannot be known: the right is missing, or the broker cannot answer.
    Blind,
}

/// What Metadata tells about one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartitionMeta {
    /// It exists.
    Known {
        /// The topic's id; zero when the broker does not tell ids.
        topic_id: TopicId,
        /// Its leader, if it has one.
        leader: Option<NodeId>,
    },
    /// There is no such topic or partition.
    Missing,
    /// DESCRIBE on the topic is missing.
    Denied,
    /// The answer did not tell.
    NotKnown,
}

/// A fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResumeInput {
    /// FindCoordinator was answered.
    Coordinator(FindCoordinatorVerdict),
    /// The finalized level of `transaction.version` on the coordinator's connection; 0 when it has none.
    FeatureLevel(i16),
    /// EndTxn was answered.
    EndTxn(ResumeVerdict),
    /// DescribeTransactions was answered.
    Described(Described),
    /// Metadata was answered: one entry per partition of the committable, in its order.
    Partitions(Vec<PartitionMeta>),
    /// The log of a partition was read.
    Log {
        /// The partition's place in the committable.
        partition: usize,
        /// What it showed.
        verdict: PartitionVerdict,
    },
    /// The log of a partition cannot be read now: no leader, or no connection.
    LogUnavailable {
        /// The partition's place in the committable.
        partition: usize,
    },
    /// The request that is under way got no answer: a timeout, or the connection was lost. What it asked for may
    /// have been done.
    NoAnswer,
    /// The clock reached [`next_deadline`](super::Resume::next_deadline).
    Tick,
}

/// An intent. One is under way at a time, but for the reads of evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResumeEffect {
    /// Find the id's coordinator, and forget the one that was known.
    FindCoordinator,
    /// Tell the finalized level of `transaction.version` on the connection to the coordinator.
    ReadFeatureLevel,
    /// Describe the id.
    Describe,
    /// Tell topic ids and leaders of the committable's partitions.
    CheckLeaders,
    /// End the transaction.
    EndTxn {
        /// The version to be used, exactly.
        version: i16,
        /// What it is to become.
        decision: Decision,
    },
    /// Read the log of one partition with [`PartitionEvidence`](crate::proto::evidence::PartitionEvidence).
    ReadEvidence {
        /// The partition's place in the committable.
        partition: usize,
        /// The version of the EndTxn that was sent; `None` when it is not known which decided.
        end_txn_version: Option<i16>,
    },
    /// An operator should know. Nothing is answered to it.
    Alarm(Alarm),
}

/// Why committing takes long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Alarm {
    /// The coordinator has been ending the transaction for a while.
    Concurrent {
        /// Since when.
        since: Moment,
    },
    /// `UNSUPPORTED_VERSION`: the id is stuck until its coordinator moves or restarts.
    Stuck,
    /// A partition has no leader, and EndTxn waits for one.
    Leaderless,
    /// There is no decision yet, for whatever reason. It is told again while that lasts.
    Slow {
        /// What is waited for.
        cause: PendingCause,
        /// For how long.
        waited: Duration,
    },
}

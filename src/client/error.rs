//! What can go wrong, one type per kind of call.

use crate::{
    ids::{GroupId, TopicPartition},
    net::CallError,
    proto::{
        cause::{Cause, CauseKind},
        resume::{CommitError, Outcome},
    },
    wire::code::ErrorCode,
};

/// A question to the cluster got no usable answer.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// No broker answered; the message tells what was tried last.
    #[error("no broker answered: {0}")]
    Unreachable(String),
    /// A call failed on its way.
    #[error(transparent)]
    Call(#[from] CallError),
    /// A broker belongs to another cluster.
    #[error(transparent)]
    AnotherCluster(#[from] crate::proto::cluster::AnotherCluster),
    /// A broker refused.
    #[error("{what}: {}{}", code.name(), if detail.is_empty() { String::new() } else { format!(" ({detail})") })]
    Refused {
        /// What was asked.
        what: String,
        /// The broker's error code.
        code: ErrorCode,
        /// What the broker said beside it.
        detail: String,
    },
}

impl ClientError {
    /// True when a broker may have carried the request out.
    #[must_use]
    pub fn outcome_unknown(&self) -> bool {
        matches!(self, Self::Call(e) if e.outcome_unknown())
    }
}

/// A topic can't be used.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum TopicError {
    /// It does not exist.
    #[error("topic {0} does not exist: create it first")]
    Missing(String),
    /// An access rule hides it.
    #[error("topic {0} may not be seen: DESCRIBE on it is needed")]
    Denied(String),
    /// Kafka does not allow such a name.
    #[error("{0:?} is not a name that Kafka allows for a topic")]
    InvalidName(String),
    /// No usable answer.
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// The committed offsets of a consumer group can't be told.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum OffsetsError {
    /// An access rule hides them.
    #[error(
        "offsets of the consumer group {group} may not be seen{}: DESCRIBE on the group and the topic is needed",
        of(partition.as_ref())
    )]
    Denied {
        /// The group.
        group: GroupId,
        /// The partition, if it is about one.
        partition: Option<TopicPartition>,
    },
    /// A broker refused, also because a transaction held an offset back for too long (`UNSTABLE_OFFSET_COMMIT`).
    #[error("offsets of the consumer group {group}{}: {}", of(partition.as_ref()), code.name())]
    Refused {
        /// The group.
        group: GroupId,
        /// The partition, if it is about one.
        partition: Option<TopicPartition>,
        /// The broker's error code.
        code: ErrorCode,
    },
    /// No usable answer.
    #[error(transparent)]
    Client(#[from] ClientError),
}

fn of(partition: Option<&TopicPartition>) -> String {
    partition.map_or_else(String::new, |partition| format!(" of {partition}"))
}

/// Why a record was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TrySendError {
    /// The memory for records that are not acknowledged is full (`buffer.memory`).
    #[error("the buffer is full")]
    Full,
    /// The record is at fault; the transaction is as before.
    #[error(transparent)]
    Record(SendError),
    /// The transaction can only be aborted; the producer is closed.
    #[error("nothing more is taken: {0}")]
    Failed(Cause),
}

/// What is wrong with a record, or with the transaction.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The topic has no such partition.
    #[error("topic {topic} has {partitions} partitions, there is none with number {partition}")]
    NoSuchPartition {
        /// The topic.
        topic: String,
        /// The partition that was asked for.
        partition: i32,
        /// How many there are.
        partitions: i32,
    },
    /// The record exceeds `max.request.size`.
    #[error("a record of {bytes} bytes exceeds max.request.size = {max_bytes}")]
    TooLarge {
        /// Its size in a batch.
        bytes: usize,
        /// The limit.
        max_bytes: usize,
    },
    /// The record can't be compressed.
    #[error("{0}")]
    Seal(String),
    /// Offsets for a consumer group that no broker would take.
    #[error("offsets of the consumer group {group:?}: {why}")]
    Offsets {
        /// The group.
        group: String,
        /// What is wrong.
        why: String,
    },
    /// The transaction can only be aborted; the producer is closed.
    #[error("nothing more is taken: {0}")]
    Failed(Cause),
}

impl From<SendError> for TrySendError {
    fn from(e: SendError) -> Self {
        match e {
            SendError::Failed(cause) => Self::Failed(cause),
            SendError::NoSuchPartition { .. }
            | SendError::TooLarge { .. }
            | SendError::Seal(_)
            | SendError::Offsets { .. } => Self::Record(e),
        }
    }
}

/// Why a transaction was not prepared. It is aborted in the background.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not prepared: {cause}")]
pub struct PrepareError {
    /// The cause.
    pub cause: Cause,
}

/// Why a transaction did not end as asked.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum EndError {
    /// A record failed; the transaction is being aborted.
    #[error("not committed: {0}")]
    Failed(Cause),
    /// Another owner has fenced this one; the transaction is aborted by that.
    #[error("fenced: {0}")]
    Fenced(Cause),
    /// The abort could not be carried out; the broker aborts it after its timeout.
    #[error("left to its timeout: {0}")]
    Abandoned(Cause),
    /// The coordinator did not decide as asked, and evidence tells what it did.
    #[error("not committed: {0:?}")]
    Outcome(Box<Outcome>),
    /// Not decided yet as far as is known. The committable stays valid: resume it.
    #[error("not decided yet: {error:?}")]
    Pending {
        /// What to resume.
        committable: Box<crate::proto::committable::Committable>,
        /// What stands in the way.
        error: CommitError,
    },
}

impl PrepareError {
    /// True when another owner holds the transactional id now.
    #[must_use]
    pub fn is_fenced(&self) -> bool {
        self.cause.kind == CauseKind::Fenced
    }
}

//! Why something can't go on, in words and in a form that programs can match.

use std::fmt;

use super::numbers::Culprits;
use crate::ids::TopicPartition;

/// What kind of trouble ended a transaction or a producer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CauseKind {
    /// A newer owner of the transactional id exists.
    Fenced,
    /// The broker has ended the transaction, or never knew it.
    InvalidState,
    /// A record was not acknowledged within `delivery.timeout.ms`. In a producer without transactions: and is certainly
    /// not stored; where that is not certain, the kind is [`OutcomeUnknown`](Self::OutcomeUnknown).
    DeliveryTimeout,
    /// A record may be stored, or not: a try was not answered, and nobody can be asked any more.
    OutcomeUnknown,
    /// A record is larger than the broker takes (`max.message.bytes`).
    RecordTooLarge,
    /// The broker's log lost the history of this producer, or batches arrived with a gap.
    SequenceGap,
    /// An access rule forbids it.
    Denied,
    /// A topic or partition does not exist, or is not the one it was.
    UnknownTopic,
    /// `transaction.timeout.ms` exceeds the broker's `transaction.max.timeout.ms`.
    TimeoutTooLarge,
    /// The broker lacks what is needed.
    Unsupported,
    /// The broker refused the data itself: bad checksum, time stamp, compression.
    Refused,
    /// The member that offsets belong to has left its consumer group, or is in an older generation of it: others read
    /// its partitions now.
    GroupMoved,
    /// Nothing answered in time.
    Unreachable,
    /// The owner gave the transaction up.
    Dropped,
}

impl CauseKind {
    /// True when the same records, written again in another transaction, may go through.
    #[must_use]
    pub fn is_transient(self) -> bool {
        match self {
            Self::Fenced
            | Self::InvalidState
            | Self::DeliveryTimeout
            | Self::OutcomeUnknown
            | Self::SequenceGap
            | Self::Unreachable => true,
            Self::RecordTooLarge
            | Self::Denied
            | Self::UnknownTopic
            | Self::TimeoutTooLarge
            | Self::Unsupported
            | Self::Refused
            | Self::GroupMoved
            | Self::Dropped => false,
        }
    }
}

/// Why a transaction must be aborted, or a producer is of no use any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// The kind.
    pub kind: CauseKind,
    /// The partition on which it happened, if on one.
    pub partition: Option<TopicPartition>,
    /// Which records of the transaction are at fault, if it is records.
    pub records: Option<Culprits>,
    /// The whole story, for people.
    pub detail: String,
}

impl Cause {
    /// A cause that concerns no single partition.
    pub fn new(kind: CauseKind, detail: impl Into<String>) -> Self {
        Self { kind, partition: None, records: None, detail: detail.into() }
    }

    /// The same cause, on `partition`.
    #[must_use]
    pub fn on(self, partition: TopicPartition) -> Self {
        Self { partition: Some(partition), ..self }
    }

    /// The same cause, which lies in these records.
    #[must_use]
    pub fn of(self, records: Option<Culprits>) -> Self {
        Self { records, ..self }
    }

    /// True when a broker says that somebody else has ended the transaction: a newer owner of its id, or its timeout. The answers to
    /// Produce do not tell the two apart.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        matches!(self.kind, CauseKind::Fenced | CauseKind::InvalidState)
    }

    /// True when the records may be stored, or not. They are doubled if they were and are written again.
    #[must_use]
    pub fn outcome_unknown(&self) -> bool {
        self.kind == CauseKind::OutcomeUnknown
    }

    /// True when the transactional id belongs to somebody else now.
    #[must_use]
    pub fn is_fenced(&self) -> bool {
        self.kind == CauseKind::Fenced
    }
}

/// What is to be known wherever somebody else has ended a transaction.
const TAKEN: &str = ". Another owner has taken the transactional id over, or the timeout has aborted its transaction. If the \
                      former process still runs, or the state was copied, stop one of the two; if another job has the same \
                      prefix, give each its own (--transactional-id-prefix)";

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.partition {
            Some(partition) => write!(f, "{partition}: {}", self.detail)?,
            None => f.write_str(&self.detail)?,
        }
        if self.is_taken() { f.write_str(TAKEN) } else { Ok(()) }
    }
}

impl std::error::Error for Cause {}

//! Why reading does not go on.

use std::ops::Range;

use crate::{
    client::ClientError,
    ids::{TopicId, TopicName, TopicPartition},
    wire::{batch::BatchError, code::ErrorCode},
};

/// Why a consumer can't go on as asked. Its position is as before.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ConsumerError {
    /// Nothing is assigned, so nothing would ever come.
    #[error("no partition is assigned")]
    NothingAssigned,
    /// The topic or the partition does not exist.
    #[error("{0} does not exist")]
    Missing(TopicPartition),
    /// The topic was deleted and created anew: offsets of before mean nothing there.
    #[error("topic {topic} was deleted and created anew: its id was {expected}, now it is {found}")]
    Recreated {
        /// The topic.
        topic: TopicName,
        /// The id that it had.
        expected: TopicId,
        /// The id that it has.
        found: TopicId,
    },
    /// An access rule forbids it.
    #[error("{0} may not be read: READ and DESCRIBE on its topic are needed")]
    Denied(TopicPartition),
    /// The offset is not in the log (`auto.offset.reset=none`).
    #[error(
        "{partition}: offset {wanted} is not there; offsets {} to {} are (the end not included)",
        available.start, available.end
    )]
    OutOfRange {
        /// The partition.
        partition: TopicPartition,
        /// The offset that was to be read.
        wanted: i64,
        /// The offsets that the log holds.
        available: Range<i64>,
    },
    /// The log was truncated: records that were read are not in it any more, and others may stand at their offsets. Seek to
    /// `kept` to go on with these.
    #[error(
        "{partition}: the log was truncated behind offset {kept} (the end not included) by an unclean election: records \
         that were read before offset {position} are lost in it"
    )]
    Truncated {
        /// The partition.
        partition: TopicPartition,
        /// The offset that was to be read.
        position: i64,
        /// The offset up to which the log is the one that was read.
        kept: i64,
    },
    /// What the broker sent can't be read.
    #[error("{partition}: what stands at offset {offset} can't be read: {source}")]
    Unreadable {
        /// The partition.
        partition: TopicPartition,
        /// Where reading stands.
        offset: i64,
        /// What is wrong with it.
        source: BatchError,
    },
    /// A broker refused for good.
    #[error("{partition}: {code}")]
    Refused {
        /// The partition.
        partition: TopicPartition,
        /// The broker's error code.
        code: ErrorCode,
    },
    /// The cluster gives no usable answer.
    #[error(transparent)]
    Client(#[from] ClientError),
}

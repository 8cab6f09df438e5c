//! Fetch responses, read without copying what was fetched.
//!
//! Versions 4 (the first that tells aborted transactions) to 13 (which has topics' ids instead of their names). Every count is held against the
//! bytes that are left before anything is reserved for it; the records of each partition stay slices of the response,
//! for [`Batches`](super::batch::Batches) to walk.

use bytes::Bytes;

use crate::ids::{NodeId, TopicId, TopicName};

mod reader;

/// A Fetch response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchResponse {
    /// How long the client shall stay silent, in milliseconds.
    pub throttle_ms: i32,
    /// The error of the whole request; 0 before version 7.
    pub error_code: i16,
    /// The fetch session (KIP-227); 0 for none.
    pub session_id: i32,
    /// The topics.
    pub topics: Vec<FetchTopic>,
}

/// One topic of a Fetch response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchTopic {
    /// The topic's name; empty from version 13 on.
    pub name: TopicName,
    /// Its id; unknown before version 13.
    pub id: TopicId,
    /// Its partitions.
    pub partitions: Vec<FetchPartition>,
}

/// One partition of a Fetch response. Where there is an error, the offsets are -1 and mean nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchPartition {
    /// The partition's index.
    pub index: i32,
    /// The partition's error.
    pub error_code: i16,
    /// The end of what is replicated.
    pub high_watermark: i64,
    /// The end of what `read_committed` may see. May lie before the log's start.
    pub last_stable_offset: i64,
    /// The log's first offset; -1 before version 5.
    pub log_start_offset: i64,
    /// The transactions that were aborted around these records, in no order; `None` for `read_uncommitted`.
    pub aborted_transactions: Option<Vec<AbortedTransaction>>,
    /// A nearer replica to fetch from (KIP-392).
    pub preferred_read_replica: Option<NodeId>,
    /// Where the reader's log and this one part, if the request told the epoch of what was read last (version 12).
    pub diverging: Option<EpochEnd>,
    /// The partition's leader, where the broker corrects the client (version 12).
    pub current_leader: Option<CurrentLeader>,
    /// The batches, the last of which may be cut; see [`Batches`](super::batch::Batches).
    pub records: Bytes,
}

/// An aborted transaction in a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AbortedTransaction {
    /// Whose transaction it was.
    pub producer_id: i64,
    /// Its first offset in the partition; its abort marker ends it.
    pub first_offset: i64,
}

/// The end of a leader epoch in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EpochEnd {
    /// The largest epoch in the log that is not above the one that was asked about.
    pub epoch: i32,
    /// The offset behind the last record of it.
    pub end_offset: i64,
}

/// A partition's leader as the broker knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CurrentLeader {
    /// The leader's node id; -1 if there is none.
    pub leader_id: NodeId,
    /// The leader's epoch.
    pub leader_epoch: i32,
}

/// A Fetch response that cannot be read. The broker, or the way from it, is at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The version is not one of 4 to 13. Here the caller is at fault.
    #[error("Fetch responses of version {0} are not supported")]
    Version(i16),
    /// The bytes end inside the response, or something in it claims to be longer than it can be.
    #[error("the Fetch response ends too early at byte {at}")]
    End {
        /// Where.
        at: usize,
    },
    /// A variable-length integer has more bits than its type.
    #[error("the Fetch response holds an overlong integer at byte {at}")]
    Varint {
        /// Where.
        at: usize,
    },
    /// A length or count is negative or null where that has no meaning, or cannot fit into the bytes that are left.
    #[error("the Fetch response claims {count} elements before byte {at}")]
    Count {
        /// The length or count as stated.
        count: i64,
        /// Where.
        at: usize,
    },
    /// A topic's name is not UTF-8.
    #[error("a topic's name is not UTF-8 before byte {at}")]
    Name {
        /// Where.
        at: usize,
    },
    /// There are bytes behind the end of the response.
    #[error("{bytes} bytes follow the Fetch response")]
    Trailing {
        /// How many.
        bytes: usize,
    },
}

impl FetchResponse {
    /// Reads a response of `version`; `body` begins behind the response header.
    ///
    /// Takes at most 43 bytes of memory for each byte of the response, and that only if it is nothing but empty topics;
    /// the records take none.
    ///
    /// # Errors
    /// [`FetchError`] for another version, and for bytes that are no such response.
    pub fn read(version: i16, body: &Bytes) -> Result<Self, FetchError> {
        if !(4..=13).contains(&version) {
            return Err(FetchError::Version(version));
        }
        reader::Reader::new(version, body).response()
    }
}

#[cfg(test)]
mod tests;

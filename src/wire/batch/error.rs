//! What can be wrong with a batch that came from the network.

use super::compress::compression;
use crate::wire::cursor::Fault;

/// A batch that cannot be read. The sender, or the way here, is at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BatchError {
    /// A message set from before Kafka 0.11, which neither carries transactions nor is written by brokers of today.
    #[error("message format {magic} is older than record batches and is not supported")]
    OldFormat {
        /// The format's number, 0 or 1.
        magic: u8,
    },
    /// A format that does not exist yet, or no batch at all.
    #[error("record batch format {magic} is not known")]
    UnknownFormat {
        /// The format's number.
        magic: u8,
    },
    /// The batch's length is negative, or less than its header needs.
    #[error("a record batch cannot be {length} bytes long behind its length field")]
    Length {
        /// The length as stated.
        length: i32,
    },
    /// The bytes end inside the batch, where a whole one was asked for.
    #[error("{have} bytes are not a whole record batch")]
    Incomplete {
        /// The bytes that are there.
        have: usize,
    },
    /// The checksum says that the bytes were changed on the way or at rest.
    #[error(
        "the batch at offset {base_offset} has the checksum {computed:#010x}, its header says {stored:#010x}"
    )]
    Checksum {
        /// The batch's base offset.
        base_offset: i64,
        /// The checksum in the header.
        stored: u32,
        /// The checksum of the bytes.
        computed: u32,
    },
    /// The batch's offsets are negative or pass 2^63.
    #[error("a batch cannot reach {last_offset_delta} offsets beyond {base_offset}")]
    Offsets {
        /// The batch's base offset.
        base_offset: i64,
        /// The distance of its last offset.
        last_offset_delta: i32,
    },
    /// A batch begins at or before the end of the one before it.
    #[error("a batch begins at offset {base_offset}, but offset {expected} is the next one")]
    Order {
        /// The batch's base offset.
        base_offset: i64,
        /// The first offset that it may have.
        expected: i64,
    },
    /// The record count is negative, or more than the batch's offsets or bytes can hold.
    #[error(
        "a batch with {bytes} bytes of records up to offset delta {last_offset_delta} cannot hold {count} of them"
    )]
    Count {
        /// The count as stated.
        count: i32,
        /// The distance of the batch's last offset.
        last_offset_delta: i32,
        /// The bytes that hold the records, decompressed if that was done already.
        bytes: usize,
    },
    /// A codec that Kafka does not have, or that is not part of this build.
    #[error("the batch is compressed with {}", unread(*codec))]
    Codec {
        /// The codec's number: 1 gzip, 2 snappy, 3 lz4, 4 zstd.
        codec: u8,
    },
    /// The compressed bytes are malformed.
    #[error("the batch's compressed records cannot be read: {reason}")]
    Compressed {
        /// What is wrong with them.
        reason: &'static str,
    },
    /// The records would take more memory than allowed.
    #[error("the batch's records decompress to more than {limit} bytes")]
    TooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
    /// A record is malformed.
    #[error("record {index} of the batch cannot be read: {fault}")]
    Record {
        /// The record's place in the batch, from 0.
        index: i32,
        /// What is wrong with it.
        fault: RecordFault,
    },
    /// There are bytes behind the last record.
    #[error("{bytes} bytes follow the last record of the batch")]
    Trailing {
        /// How many.
        bytes: usize,
    },
    /// A control record is malformed.
    #[error("the control record cannot be read: {reason}")]
    Control {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The batch can be read, but no broker accepts it from a producer.
    #[error("the batch cannot be produced: {reason}")]
    NotProducible {
        /// The rule that it breaks.
        reason: &'static str,
    },
}

/// What to say of a codec that is not read, and what to do about it.
fn unread(codec: u8) -> String {
    match compression(codec) {
        Some(codec) => format!("{codec}, and this build lacks it: build with the feature `{codec}`"),
        None => format!("codec {codec}, which Kafka does not have"),
    }
}

/// What is wrong with a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordFault {
    /// The bytes end inside it.
    #[error("its bytes end too early")]
    End,
    /// A variable-length integer has more bits than its type.
    #[error("it holds an overlong integer")]
    Varint,
    /// A length is negative where that has no meaning.
    #[error("it holds a field of length {0}")]
    Length(i32),
    /// The record's fields take fewer bytes than the record.
    #[error("{0} bytes of it belong to no field")]
    Rest(usize),
    /// The number of headers is negative, or more than the record can hold or we accept.
    #[error("it claims {0} headers")]
    HeaderCount(i32),
    /// Its offset does not follow the one before, or passes the batch's last one.
    #[error("its offset delta {0} is out of order")]
    Offset(i32),
}

impl From<Fault> for RecordFault {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::End => Self::End,
            Fault::Varint => Self::Varint,
        }
    }
}

//! Record batches of format 2, the only one that carries transactions (KIP-98).
//!
//! ```text
//!  0 base offset        i64 |  the broker sets these two when it appends;
//!  8 length of the rest i32 |  they and the leader epoch lie outside the checksum,
//! 12 leader epoch       i32 |  so placing a batch in a log costs no second pass over it
//! 16 magic = 2          i8
//! 17 CRC-32C of all that follows
//! 21 attributes         i16   bits 0-2 codec, 3 append time, 4 transactional, 5 control, 6 delete horizon
//! 23 last offset delta  i32
//! 27 base timestamp     i64 | 35 max timestamp i64
//! 43 producer id        i64 | 51 epoch i16 | 53 base sequence i32     -1, -1, -1 without a producer
//! 57 record count       i32
//! 61 records, compressed together if bits 0-2 say so
//! ```
//!
//! Writing: [`BatchBuilder`] takes records, [`SealedBatch`] takes a producer's identity, and [`SealedBatch::freeze`]
//! gives the bytes that go on the wire, as often as they have to be sent.
//!
//! Reading: [`Batches`] walks a Fetch payload by headers alone, so that a reader can pass over aborted batches without
//! decompressing them; [`Batch::records`] opens one. Nothing is sized from a number on the wire.
//!
//! Own code and not `kafka-protocol`'s, because the latter folds headers of the same key into one, hides the last offset
//! delta, ignores append time, splits batches where sequences wrap, and reserves memory from counts on the wire.

mod builder;
mod compress;
mod control;
mod error;
mod header;
mod reader;
mod records;
mod sealed;
mod split;
#[cfg(test)]
mod tests;

pub use builder::{BatchBuilder, BatchFull, recycle};
pub use compress::SealError;
pub use control::{ControlMarker, ControlRecord, ControlType, control_batch};
pub use error::{BatchError, RecordFault};
pub use header::{BatchHeader, TimestampType};
pub use reader::{Batch, Batches, Behind, RecompressError, Tail};
pub use records::{HeaderViews, MAX_HEADERS, RecordView, Records};
pub use sealed::{SealedBatch, Stamp, increment_sequence};
pub use split::SplitError;

/// The records of a batch whose header names this codec, in at most `limit` bytes: what [`Batch::records_within`] reads.
///
/// # Errors
/// [`BatchError::Codec`], [`BatchError::Compressed`] or [`BatchError::TooLarge`].
#[cfg(feature = "fuzzing")]
pub fn decompress(codec: u8, body: bytes::Bytes, limit: usize) -> Result<bytes::Bytes, BatchError> {
    compress::decompress(codec, body, limit)
}

/// The default limit on the decompressed records of one batch, in bytes: 64 MiB.
pub const DEFAULT_RECORDS_LIMIT: usize = 64 << 20;

/// Bytes of a batch before its first record.
pub const HEADER_BYTES: usize = 61;

/// Positions of the header's fields.
mod at {
    pub(super) const BASE_OFFSET: usize = 0;
    pub(super) const LENGTH: usize = 8;
    pub(super) const LEADER_EPOCH: usize = 12;
    pub(super) const MAGIC: usize = 16;
    pub(super) const CRC: usize = 17;
    pub(super) const ATTRIBUTES: usize = 21;
    pub(super) const LAST_OFFSET_DELTA: usize = 23;
    pub(super) const BASE_TIMESTAMP: usize = 27;
    pub(super) const MAX_TIMESTAMP: usize = 35;
    pub(super) const PRODUCER_ID: usize = 43;
    pub(super) const PRODUCER_EPOCH: usize = 51;
    pub(super) const BASE_SEQUENCE: usize = 53;
    pub(super) const COUNT: usize = 57;
}

/// The bits of the attributes.
mod bit {
    pub(super) const CODEC: i16 = 0b111;
    pub(super) const APPEND_TIME: i16 = 1 << 3;
    pub(super) const TRANSACTIONAL: i16 = 1 << 4;
    pub(super) const CONTROL: i16 = 1 << 5;
    pub(super) const DELETE_HORIZON: i16 = 1 << 6;
}

/// The magic of the format.
const MAGIC: u8 = 2;

/// "Length of the rest" counts from behind itself.
const LENGTH_END: usize = 12;

/// Writes a field. `buffer` holds a whole header.
fn put<const N: usize>(buffer: &mut [u8], at: usize, field: [u8; N]) {
    buffer[at..at + N].copy_from_slice(&field);
}

/// Reads a field. `buffer` holds a whole header.
fn field<const N: usize>(buffer: &[u8], at: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&buffer[at..at + N]);
    field
}

/// Computes the checksum over everything behind it and writes it. `buffer` holds a whole batch.
fn put_crc(buffer: &mut [u8]) {
    let crc = crc32c::crc32c(&buffer[at::ATTRIBUTES..]);
    put(buffer, at::CRC, crc.to_be_bytes());
}

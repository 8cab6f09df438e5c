//! A batch's header: everything that can be known without touching the records.

use super::{
    BatchError, HEADER_BYTES, LENGTH_END, MAGIC, at, bit, field, increment_sequence, records::SMALLEST_RECORD,
};
use crate::ids::Identity;

/// The smallest length that any format states; below it there is no magic to look at.
const SMALLEST_LENGTH: i32 = 14;

/// The fields of a batch's header, checked against each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct BatchHeader {
    /// The first offset. The record there may have been compacted away.
    pub base_offset: i64,
    /// The leader epoch at which the batch was appended; -1 from a producer.
    pub partition_leader_epoch: i32,
    /// CRC-32C of everything behind it.
    pub crc: u32,
    /// The attributes as they are; the accessors tell them apart.
    pub attributes: i16,
    /// The distance from the first to the last offset. Compaction removes records and keeps this.
    pub last_offset_delta: i32,
    /// What the records' timestamps count from, in milliseconds.
    pub base_timestamp: i64,
    /// The latest timestamp, or the append time of all, in milliseconds.
    pub max_timestamp: i64,
    /// The producer's id, -1 without one.
    pub producer_id: i64,
    /// The producer's epoch, -1 without one.
    pub producer_epoch: i16,
    /// The first record's sequence number, -1 without one.
    pub base_sequence: i32,
    /// The records in the batch; 0 if compaction left none.
    pub count: i32,
}

/// What a record's timestamp means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TimestampType {
    /// The producer's time (`CreateTime`).
    Create,
    /// The broker's time (`LogAppendTime`): one for the whole batch.
    Append,
}

impl BatchHeader {
    /// Reads the header at the start of `batch`, without looking at the checksum.
    ///
    /// # Errors
    /// [`BatchError`] for an unknown format, for fewer bytes than a header, and for fields that contradict each other.
    pub fn parse(batch: &[u8]) -> Result<Self, BatchError> {
        check_format(batch)?;
        if batch.len() < HEADER_BYTES {
            return Err(BatchError::Incomplete { have: batch.len() });
        }
        let header = Self {
            base_offset: i64::from_be_bytes(field(batch, at::BASE_OFFSET)),
            partition_leader_epoch: i32::from_be_bytes(field(batch, at::LEADER_EPOCH)),
            crc: u32::from_be_bytes(field(batch, at::CRC)),
            attributes: i16::from_be_bytes(field(batch, at::ATTRIBUTES)),
            last_offset_delta: i32::from_be_bytes(field(batch, at::LAST_OFFSET_DELTA)),
            base_timestamp: i64::from_be_bytes(field(batch, at::BASE_TIMESTAMP)),
            max_timestamp: i64::from_be_bytes(field(batch, at::MAX_TIMESTAMP)),
            producer_id: i64::from_be_bytes(field(batch, at::PRODUCER_ID)),
            producer_epoch: i16::from_be_bytes(field(batch, at::PRODUCER_EPOCH)),
            base_sequence: i32::from_be_bytes(field(batch, at::BASE_SEQUENCE)),
            count: i32::from_be_bytes(field(batch, at::COUNT)),
        };
        header.check(batch.len() - HEADER_BYTES)?;
        Ok(header)
    }

    fn check(&self, bytes: usize) -> Result<(), BatchError> {
        let Self { base_offset, last_offset_delta, count, .. } = *self;
        // The next offset has to exist too.
        let reach =
            base_offset.checked_add(i64::from(last_offset_delta)).and_then(|last| last.checked_add(1));
        if base_offset < 0 || last_offset_delta < 0 || reach.is_none() {
            return Err(BatchError::Offsets { base_offset, last_offset_delta });
        }
        if count < 0 || i64::from(count) > i64::from(last_offset_delta) + 1 {
            return Err(BatchError::Count { count, last_offset_delta, bytes });
        }
        Ok(())
    }

    /// The batch's last offset, whether or not a record is left there.
    #[must_use]
    pub fn last_offset(&self) -> i64 {
        self.base_offset.saturating_add(i64::from(self.last_offset_delta))
    }

    /// Where to read on behind this batch, also when it holds no record.
    #[must_use]
    pub fn next_offset(&self) -> i64 {
        self.last_offset().saturating_add(1)
    }

    /// The codec's number: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.
    #[must_use]
    pub fn codec(&self) -> u8 {
        (self.attributes & bit::CODEC).to_le_bytes()[0]
    }

    /// What the records' timestamps mean.
    #[must_use]
    pub fn timestamp_type(&self) -> TimestampType {
        if self.attributes & bit::APPEND_TIME == 0 { TimestampType::Create } else { TimestampType::Append }
    }

    /// True inside a transaction, and for the markers that end one.
    #[must_use]
    pub fn is_transactional(&self) -> bool {
        self.attributes & bit::TRANSACTIONAL != 0
    }

    /// True for markers, which are never handed to users.
    #[must_use]
    pub fn is_control(&self) -> bool {
        self.attributes & bit::CONTROL != 0
    }

    /// From when on compaction may remove the batch's tombstones or marker, in milliseconds (KIP-534).
    #[must_use]
    pub fn delete_horizon(&self) -> Option<i64> {
        (self.attributes & bit::DELETE_HORIZON != 0).then_some(self.base_timestamp)
    }

    /// The producer, if it has an identity.
    #[must_use]
    pub fn identity(&self) -> Option<Identity> {
        (self.producer_id >= 0).then(|| Identity::new(self.producer_id, self.producer_epoch))
    }

    /// The last record's sequence number, -1 without one. It is smaller than the first where the numbers wrap.
    #[must_use]
    pub fn last_sequence(&self) -> i32 {
        if self.base_sequence < 0 {
            -1
        } else {
            increment_sequence(self.base_sequence, self.last_offset_delta)
        }
    }

    /// Compares the checksum with that of `batch`, the bytes from which this header was read.
    pub(super) fn check_crc(&self, batch: &[u8]) -> Result<(), BatchError> {
        let computed = crc32c::crc32c(&batch[at::ATTRIBUTES..]);
        if computed == self.crc {
            return Ok(());
        }
        Err(BatchError::Checksum { base_offset: self.base_offset, stored: self.crc, computed })
    }

    /// Whether so many bytes of records, if they are not compressed, can be as many as it says. Also for a batch whose
    /// records nobody will look at: its last offset is believed.
    pub(super) fn check_count(&self, bytes: usize) -> Result<(), BatchError> {
        let Self { count, last_offset_delta, .. } = *self;
        let fits = usize::try_from(count).is_ok_and(|count| count <= bytes / SMALLEST_RECORD);
        if fits || self.codec() != 0 {
            return Ok(());
        }
        Err(BatchError::Count { count, last_offset_delta, bytes })
    }
}

/// The size of the batch at the start of `bytes`, as it states it; nothing if the length field is not there yet.
pub(super) fn stated_size(bytes: &[u8]) -> Result<Option<usize>, BatchError> {
    if bytes.len() < LENGTH_END {
        return Ok(None);
    }
    let length = i32::from_be_bytes(field(bytes, at::LENGTH));
    if length < SMALLEST_LENGTH {
        return Err(BatchError::Length { length });
    }
    let rest = usize::try_from(length).map_err(|_| BatchError::Length { length })?;
    Ok(Some(rest.saturating_add(LENGTH_END)))
}

/// Refuses what is not a batch of format 2, as far as the bytes go, and a length that has no room for a header.
fn check_format(batch: &[u8]) -> Result<(), BatchError> {
    match batch.get(at::MAGIC) {
        None => return Err(BatchError::Incomplete { have: batch.len() }),
        Some(&MAGIC) => {}
        Some(&magic @ (0 | 1)) => return Err(BatchError::OldFormat { magic }),
        Some(&magic) => return Err(BatchError::UnknownFormat { magic }),
    }
    let length = i32::from_be_bytes(field(batch, at::LENGTH));
    match usize::try_from(length) {
        Ok(rest) if rest >= HEADER_BYTES - LENGTH_END => Ok(()),
        Ok(_) | Err(_) => Err(BatchError::Length { length }),
    }
}

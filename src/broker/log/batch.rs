//! The 61-byte header of a record batch (magic 2), as far as a broker reads and patches it.

use bytes::{BufMut, Bytes, BytesMut};

use kafka_protocol::error::ResponseError;

/// Bytes before the first record.
pub(crate) const HEADER_BYTES: usize = 61;
const CRC_FROM: usize = 21;
const TRANSACTIONAL: i16 = 1 << 4;
const CONTROL: i16 = 1 << 5;

/// One stored or incoming batch: its header's fields, and all of its bytes.
#[derive(Debug, Clone)]
pub(crate) struct Batch {
    pub(crate) base_offset: i64,
    pub(crate) last_offset_delta: i32,
    pub(crate) attributes: i16,
    pub(crate) max_timestamp: i64,
    pub(crate) producer_id: i64,
    pub(crate) producer_epoch: i16,
    pub(crate) base_sequence: i32,
    pub(crate) bytes: Bytes,
}

/// The outcome that a control batch announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Outcome {
    Commit,
    Abort,
}

/// A transaction marker to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Marker {
    pub(crate) producer_id: i64,
    pub(crate) producer_epoch: i16,
    pub(crate) coordinator_epoch: i32,
    pub(crate) outcome: Outcome,
    /// What the sender says: 2 makes the log demand an epoch above the last one (KIP-1228).
    pub(crate) transaction_version: i8,
}

impl Batch {
    /// Reads exactly one batch, with the checks that a broker makes on a produced one.
    ///
    /// # Errors
    /// CORRUPT_MESSAGE for a wrong checksum or length, INVALID_RECORD for anything that a client may not send.
    pub(crate) fn from_client(bytes: &Bytes) -> Result<Self, ResponseError> {
        if bytes.len() < HEADER_BYTES {
            return Err(ResponseError::CorruptMessage);
        }
        let length = i32_at(bytes, 8);
        if bytes[16] != 2 {
            return Err(ResponseError::InvalidRecord);
        }
        let whole = usize::try_from(length).unwrap_or(0) + 12;
        if whole < HEADER_BYTES || whole > bytes.len() {
            return Err(ResponseError::CorruptMessage);
        }
        if whole < bytes.len() {
            return Err(ResponseError::InvalidRecord); // more than one batch
        }
        if crc32c::crc32c(&bytes[CRC_FROM..]).to_be_bytes() != bytes[17..21] {
            return Err(ResponseError::CorruptMessage);
        }
        let batch = Self::parse(bytes.clone());
        let count = i32_at(bytes, 57);
        let sequenced = batch.producer_id < 0 || (batch.base_sequence >= 0 && batch.producer_epoch >= 0);
        if count <= 0 || batch.last_offset_delta != count - 1 || batch.is_control() || !sequenced {
            return Err(ResponseError::InvalidRecord);
        }
        Ok(batch)
    }

    /// A control batch with one marker record.
    pub(crate) fn marker(marker: &Marker, timestamp: i64) -> Self {
        let kind: i16 = match marker.outcome {
            Outcome::Abort => 0,
            Outcome::Commit => 1,
        };
        let mut buf = BytesMut::with_capacity(HEADER_BYTES + 17);
        buf.put_i64(0); // base offset, stamped at append
        buf.put_i32(0); // length, below
        buf.put_i32(0); // leader epoch, stamped at append
        buf.put_u8(2);
        buf.put_u32(0); // checksum, below
        buf.put_i16(TRANSACTIONAL | CONTROL);
        buf.put_i32(0);
        buf.put_i64(timestamp);
        buf.put_i64(timestamp);
        buf.put_i64(marker.producer_id);
        buf.put_i16(marker.producer_epoch);
        buf.put_i32(-1);
        buf.put_i32(1);
        // One record: varint length 16, attributes, timestamp and offset deltas 0, key of 4 bytes, value of 6, no headers.
        buf.put_slice(&[32, 0, 0, 0, 8]);
        buf.put_i16(0);
        buf.put_i16(kind);
        buf.put_u8(12);
        buf.put_i16(0);
        buf.put_i32(marker.coordinator_epoch);
        buf.put_u8(0);
        let length = i32::try_from(buf.len() - 12).unwrap_or(i32::MAX);
        buf[8..12].copy_from_slice(&length.to_be_bytes());
        let crc = crc32c::crc32c(&buf[CRC_FROM..]);
        buf[17..21].copy_from_slice(&crc.to_be_bytes());
        Self::parse(buf.freeze())
    }

    fn parse(bytes: Bytes) -> Self {
        Self {
            base_offset: i64_at(&bytes, 0),
            attributes: i16_at(&bytes, 21),
            last_offset_delta: i32_at(&bytes, 23),
            max_timestamp: i64_at(&bytes, 35),
            producer_id: i64_at(&bytes, 43),
            producer_epoch: i16_at(&bytes, 51),
            base_sequence: i32_at(&bytes, 53),
            bytes,
        }
    }

    /// The batch as it stands in the log: offset and leader epoch are not covered by the checksum.
    pub(crate) fn stamped(&self, base_offset: i64, leader_epoch: i32) -> Self {
        let mut buf = BytesMut::from(&self.bytes[..]);
        buf[0..8].copy_from_slice(&base_offset.to_be_bytes());
        buf[12..16].copy_from_slice(&leader_epoch.to_be_bytes());
        Self { base_offset, bytes: buf.freeze(), ..self.clone() }
    }

    /// The batch with the broker's time on all its records (`message.timestamp.type=LogAppendTime`).
    pub(crate) fn with_append_time(&self, now_ms: i64) -> Self {
        let mut buf = BytesMut::from(&self.bytes[..]);
        buf[21..23].copy_from_slice(&(self.attributes | 1 << 3).to_be_bytes());
        buf[35..43].copy_from_slice(&now_ms.to_be_bytes());
        let crc = crc32c::crc32c(&buf[CRC_FROM..]);
        buf[17..21].copy_from_slice(&crc.to_be_bytes());
        Self::parse(buf.freeze())
    }

    pub(crate) fn last_offset(&self) -> i64 {
        self.base_offset + i64::from(self.last_offset_delta)
    }

    /// The sequence of the last record; after 2147483647 comes 0.
    pub(crate) fn last_sequence(&self) -> i32 {
        match self.base_sequence.checked_add(self.last_offset_delta) {
            Some(last) => last,
            None => self.last_offset_delta - (i32::MAX - self.base_sequence) - 1,
        }
    }

    pub(crate) fn is_transactional(&self) -> bool {
        self.attributes & TRANSACTIONAL != 0
    }

    pub(crate) fn is_control(&self) -> bool {
        self.attributes & CONTROL != 0
    }

    /// The codec's number: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.
    pub(crate) fn codec(&self) -> i16 {
        self.attributes & 7
    }
}

fn i16_at(bytes: &[u8], at: usize) -> i16 {
    bytes[at..at + 2].iter().fold(0, |n, b| n << 8 | i16::from(*b))
}

fn i32_at(bytes: &[u8], at: usize) -> i32 {
    bytes[at..at + 4].iter().fold(0, |n, b| n << 8 | i32::from(*b))
}

fn i64_at(bytes: &[u8], at: usize) -> i64 {
    bytes[at..at + 8].iter().fold(0, |n, b| n << 8 | i64::from(*b))
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// A batch as a client would produce it: `count` records of producer (`id`, `epoch`) from `sequence`.
    pub(crate) fn data(id: i64, epoch: i16, sequence: i32, count: i32) -> Batch {
        let mut buf = BytesMut::zeroed(HEADER_BYTES);
        let length = i32::try_from(HEADER_BYTES - 12).unwrap();
        buf[8..12].copy_from_slice(&length.to_be_bytes());
        buf[16] = 2;
        let attributes = if id >= 0 { TRANSACTIONAL } else { 0 };
        buf[21..23].copy_from_slice(&attributes.to_be_bytes());
        buf[23..27].copy_from_slice(&(count - 1).to_be_bytes());
        buf[43..51].copy_from_slice(&id.to_be_bytes());
        buf[51..53].copy_from_slice(&epoch.to_be_bytes());
        buf[53..57].copy_from_slice(&sequence.to_be_bytes());
        buf[57..61].copy_from_slice(&count.to_be_bytes());
        let crc = crc32c::crc32c(&buf[CRC_FROM..]);
        buf[17..21].copy_from_slice(&crc.to_be_bytes());
        Batch::from_client(&buf.freeze()).unwrap()
    }

    /// The same without the transactional bit.
    pub(crate) fn idempotent(id: i64, epoch: i16, sequence: i32, count: i32) -> Batch {
        let mut batch = data(id, epoch, sequence, count);
        batch.attributes = 0;
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_wrap_to_zero() {
        let batch = testing::data(1, 0, i32::MAX - 1, 3);
        assert_eq!(batch.last_sequence(), 0);
    }

    #[test]
    fn a_flipped_bit_is_corrupt() {
        let good = testing::data(1, 0, 0, 1);
        let mut bytes = BytesMut::from(&good.bytes[..]);
        bytes[30] ^= 1;
        assert_eq!(Batch::from_client(&bytes.freeze()).unwrap_err(), ResponseError::CorruptMessage);
    }

    #[test]
    fn two_batches_and_control_batches_are_invalid_records() {
        let good = testing::data(1, 0, 0, 1);
        let twice = Bytes::from([&good.bytes[..], &good.bytes[..]].concat());
        assert_eq!(Batch::from_client(&twice).unwrap_err(), ResponseError::InvalidRecord);
        let marker = Marker {
            producer_id: 1,
            producer_epoch: 0,
            coordinator_epoch: 0,
            outcome: Outcome::Commit,
            transaction_version: 1,
        };
        let control = Batch::marker(&marker, 0).bytes;
        assert_eq!(Batch::from_client(&control).unwrap_err(), ResponseError::InvalidRecord);
    }

    #[test]
    fn stamping_keeps_the_checksum_valid() {
        let stamped = testing::data(1, 0, 0, 2).stamped(77, 3);
        let again = Batch::from_client(&stamped.bytes).unwrap();
        assert_eq!((again.base_offset, again.last_offset()), (77, 78));
    }
}

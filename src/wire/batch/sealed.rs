//! A closed batch, waiting for the identity of the producer that sends it.

use bytes::Bytes;

use super::{HEADER_BYTES, at, bit, field, put, put_crc};
use crate::ids::Identity;

/// A batch whose records are fixed. Only who sends it can still change.
///
/// Producer id, epoch and sequence are decided when the batch leaves the queue, and may be decided again if the epoch
/// was raised before it was sent; neither needs the records to be encoded again.
#[derive(Debug)]
pub struct SealedBatch {
    /// A whole header and the records.
    buffer: Vec<u8>,
    /// The buffer before compression, to be used again.
    spare: Option<Vec<u8>>,
    checksum: Checksum,
}

/// Whether the checksum in the header is that of the content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Checksum {
    Stale,
    Written,
}

/// Who sends a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stamp {
    /// A producer without identity; nothing protects against duplicates.
    Anonymous,
    /// An idempotent producer.
    Idempotent {
        /// Its producer id and epoch.
        identity: Identity,
        /// The first record's sequence number; those of the others follow, see [`increment_sequence`].
        base_sequence: i32,
    },
    /// A transactional producer, inside a transaction.
    Transactional {
        /// Its producer id and epoch.
        identity: Identity,
        /// The first record's sequence number; those of the others follow, see [`increment_sequence`].
        base_sequence: i32,
    },
}

impl SealedBatch {
    /// `buffer` holds a batch whose header is complete but for producer and checksum.
    pub(super) fn new(buffer: Vec<u8>) -> Self {
        let mut batch = Self { buffer, spare: None, checksum: Checksum::Stale };
        batch.write(Stamp::Anonymous);
        batch
    }

    pub(super) fn with_spare(self, spare: Vec<u8>) -> Self {
        Self { spare: Some(spare), ..self }
    }

    /// Writes the producer into the header, and the checksum. May be called again.
    pub fn stamp(&mut self, stamp: Stamp) {
        self.write(stamp);
        self.write_checksum();
    }

    /// The bytes to send. They never change again: a retry sends the same ones.
    #[must_use]
    pub fn freeze(mut self) -> Bytes {
        if self.checksum == Checksum::Stale {
            self.write_checksum();
        }
        Bytes::from(self.buffer)
    }

    /// A frozen batch opened again, without a copy, to be stamped for another epoch.
    ///
    /// `batch` must be what [`SealedBatch::freeze`] gave.
    ///
    /// # Errors
    /// The bytes come back if somebody else still holds them, a connection for example, or if they are no batch.
    pub fn reopen(batch: Bytes) -> Result<Self, Bytes> {
        if !batch.is_unique() || batch.len() < HEADER_BYTES {
            return Err(batch);
        }
        Ok(Self { buffer: Vec::from(batch), spare: None, checksum: Checksum::Written })
    }

    /// The buffer that held the records before they were compressed, for the next
    /// [`BatchBuilder`](super::BatchBuilder). Nothing if they were not compressed.
    pub fn take_spare(&mut self) -> Option<Vec<u8>> {
        self.spare.take()
    }

    /// The records in the batch; at least one.
    #[must_use]
    pub fn count(&self) -> i32 {
        i32::from_be_bytes(field(&self.buffer, at::COUNT))
    }

    /// The bytes of the batch as sent.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a sealed batch has a header and is never empty")]
    pub fn len(&self) -> usize {
        self.buffer.len()
    }

    /// The first record's timestamp, in milliseconds since the Unix epoch.
    #[must_use]
    pub fn base_timestamp(&self) -> i64 {
        i64::from_be_bytes(field(&self.buffer, at::BASE_TIMESTAMP))
    }

    /// The latest timestamp, in milliseconds since the Unix epoch.
    #[must_use]
    pub fn max_timestamp(&self) -> i64 {
        i64::from_be_bytes(field(&self.buffer, at::MAX_TIMESTAMP))
    }

    fn write(&mut self, stamp: Stamp) {
        let (producer_id, epoch, base_sequence) = match stamp {
            Stamp::Anonymous => (-1, -1, -1),
            Stamp::Idempotent { identity, base_sequence }
            | Stamp::Transactional { identity, base_sequence } => {
                (identity.producer_id.0, identity.epoch.0, base_sequence)
            }
        };
        let kept = i16::from_be_bytes(field(&self.buffer, at::ATTRIBUTES)) & !bit::TRANSACTIONAL;
        let attributes =
            if matches!(stamp, Stamp::Transactional { .. }) { kept | bit::TRANSACTIONAL } else { kept };
        put(&mut self.buffer, at::ATTRIBUTES, attributes.to_be_bytes());
        put(&mut self.buffer, at::PRODUCER_ID, producer_id.to_be_bytes());
        put(&mut self.buffer, at::PRODUCER_EPOCH, epoch.to_be_bytes());
        put(&mut self.buffer, at::BASE_SEQUENCE, base_sequence.to_be_bytes());
        self.checksum = Checksum::Stale;
    }

    fn write_checksum(&mut self) {
        put_crc(&mut self.buffer);
        self.checksum = Checksum::Written;
    }
}

/// The sequence number `by` records after `base`. After 2147483647 comes 0; both arguments are not negative.
///
/// A batch of `n` records that starts at `base` is followed by one that starts at `increment_sequence(base, n)`. A
/// batch in which the numbers wrap stays one batch.
#[must_use]
pub fn increment_sequence(base: i32, by: i32) -> i32 {
    base.wrapping_add(by) & i32::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_wrap_to_zero_behind_the_largest() {
        assert_eq!(increment_sequence(0, 5), 5);
        assert_eq!(increment_sequence(i32::MAX - 2, 1), i32::MAX - 1);
        assert_eq!(increment_sequence(i32::MAX - 2, 2), i32::MAX);
        assert_eq!(increment_sequence(i32::MAX - 2, 3), 0);
        assert_eq!(increment_sequence(i32::MAX - 2, 5), 2);
        assert_eq!(increment_sequence(i32::MAX, 1), 0);
        assert_eq!(increment_sequence(i32::MAX, i32::MAX), i32::MAX - 1);
    }
}

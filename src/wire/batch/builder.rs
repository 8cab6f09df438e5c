//! Appends records straight into the bytes of a batch.

use bytes::Bytes;

use super::{
    HEADER_BYTES, LENGTH_END, MAGIC, at,
    compress::{self, SealError},
    put,
    sealed::SealedBatch,
};
use crate::{
    record::{Compression, CompressionLevels, HeaderRef, RecordRef},
    wire::varint::{Scratch, signed, signed_len},
};

/// The most bytes that a batch can have: its length field and the request's are signed 32-bit numbers.
const MAX_BYTES: usize = 0x7fff_ffff;

/// A batch under construction: one growing buffer, into which keys and values are copied once.
///
/// The first record's timestamp is the base of the others, as in Kafka's own producer. Timestamps further apart than
/// an `i64` can hold wrap around in the difference and back again when read, also as there.
#[derive(Debug)]
pub struct BatchBuilder {
    /// Room for the header, then the records.
    buffer: Vec<u8>,
    count: i32,
    base_timestamp: i64,
    max_timestamp: i64,
}

/// The batch cannot take this record: batch and record together pass 2 GiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a record of {record_bytes} bytes does not fit into a batch of {batch_bytes} bytes")]
pub struct BatchFull {
    /// What the record would have added.
    pub record_bytes: usize,
    /// What the batch holds.
    pub batch_bytes: usize,
}

impl BatchBuilder {
    /// What a buffer needs beside the bytes of its batch, so that it does not grow for the last record.
    pub const ROOM: usize = 2 * Scratch::CAPACITY;

    /// An empty batch in a buffer of its own.
    #[must_use]
    pub fn new() -> Self {
        Self::with_buffer(Vec::new())
    }

    /// An empty batch in `buffer`, whose content is dropped and whose capacity is kept; see [`recycle`].
    #[must_use]
    pub fn with_buffer(mut buffer: Vec<u8>) -> Self {
        buffer.clear();
        buffer.resize(HEADER_BYTES, 0);
        Self { buffer, count: 0, base_timestamp: -1, max_timestamp: -1 }
    }

    /// The bytes that appending this record now would add, exactly, before compression.
    ///
    /// The record's own timestamp is not looked at: `timestamp` is the one that would be written, in milliseconds.
    #[must_use]
    pub fn size_of(&self, record: &RecordRef<'_>, timestamp: i64) -> usize {
        let delta = if self.count == 0 { 0 } else { timestamp.wrapping_sub(self.base_timestamp) };
        let mut body = 1 + signed_len(delta) + signed_len(i64::from(self.count));
        body = body.saturating_add(nullable_len(record.key)).saturating_add(nullable_len(record.value));
        body = body.saturating_add(headers_len(record.headers));
        body.saturating_add(signed_len(signed(body)))
    }

    /// The most bytes that a record can add to any batch, before compression: a few more than [`size_of`](Self::size_of) tells,
    /// and cheaper to know.
    #[must_use]
    #[inline]
    pub fn most_bytes_of(record: &RecordRef<'_>) -> usize {
        let payload = record.key.map_or(0, <[u8]>::len).saturating_add(record.value.map_or(0, <[u8]>::len));
        payload.saturating_add(Scratch::CAPACITY).saturating_add(headers_len(record.headers))
    }

    /// Appends a record with `timestamp`, in milliseconds since the Unix epoch, -1 for none.
    ///
    /// # Errors
    /// [`BatchFull`] if the batch would pass 2 GiB; the batch is then unchanged.
    #[inline]
    pub fn append(&mut self, record: &RecordRef<'_>, timestamp: i64) -> Result<(), BatchFull> {
        let payload = record.key.map_or(0, <[u8]>::len).saturating_add(record.value.map_or(0, <[u8]>::len));
        let room = MAX_BYTES - self.buffer.len();
        // The exact size is not needed far from the limit.
        if payload.saturating_add(Self::ROOM) > room || !record.headers.is_empty() {
            let record_bytes = self.size_of(record, timestamp);
            if record_bytes > room {
                return Err(BatchFull { record_bytes, batch_bytes: self.buffer.len() });
            }
        }
        self.push(record, timestamp, payload);
        Ok(())
    }

    /// The records in the batch.
    #[must_use]
    pub fn count(&self) -> i32 {
        self.count
    }

    /// The bytes of the batch so far, with its header, before compression.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// True before the first record.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Closes the batch and compresses its records, at the codec's default level.
    ///
    /// # Errors
    /// As [`seal_at`](Self::seal_at).
    pub fn seal(self, compression: Compression) -> Result<SealedBatch, SealError> {
        self.seal_at(compression, CompressionLevels::default())
    }

    /// Closes the batch and compresses its records.
    ///
    /// # Errors
    /// [`SealError::Empty`] without records, which brokers refuse; the others if the compression is not built in or its
    /// result passes 2 GiB.
    pub fn seal_at(
        self,
        compression: Compression,
        levels: CompressionLevels,
    ) -> Result<SealedBatch, SealError> {
        if self.is_empty() {
            return Err(SealError::Empty);
        }
        let Some(compressed) = compress::compress(compression, levels, &self.buffer)? else {
            return Ok(self.finish(0));
        };
        if compressed.len() > MAX_BYTES {
            return Err(SealError::TooLarge { bytes: compressed.len() });
        }
        let plain = Self { buffer: compressed, ..self };
        let spare = self.buffer;
        Ok(plain.finish(compress::codec(compression)).with_spare(spare))
    }

    /// Appends without looking at the limit; `payload` is the length of key and value.
    #[inline]
    fn push(&mut self, record: &RecordRef<'_>, timestamp: i64, payload: usize) {
        if self.count == 0 {
            self.base_timestamp = timestamp;
            self.max_timestamp = timestamp;
        }
        let value_len = record.value.map_or(-1, |value| signed(value.len()));
        let (mut first, mut second) = (Scratch::new(), Scratch::new());
        first.byte(0);
        first.signed(timestamp.wrapping_sub(self.base_timestamp));
        first.signed(i64::from(self.count));
        match record.key {
            Some(key) => {
                first.signed(signed(key.len()));
                second.signed(value_len);
            }
            None => {
                first.signed(-1);
                first.signed(value_len);
            }
        }
        let body = first.len() + second.len() + payload + headers_len(record.headers);
        first.put_length(body);
        self.buffer.reserve(body + Self::ROOM);
        first.append_to(&mut self.buffer);
        if let Some(key) = record.key {
            self.buffer.extend_from_slice(key);
            second.append_to(&mut self.buffer);
        }
        self.buffer.extend_from_slice(record.value.unwrap_or_default());
        self.push_headers(record.headers);
        self.max_timestamp = self.max_timestamp.max(timestamp);
        // A record takes at least 7 bytes, so that the count cannot pass `i32` before the bytes do.
        self.count += 1;
    }

    #[inline]
    fn push_headers(&mut self, headers: &[HeaderRef<'_>]) {
        if headers.is_empty() {
            return self.buffer.push(0);
        }
        let mut numbers = Scratch::new();
        numbers.signed(signed(headers.len()));
        for HeaderRef { key, value } in headers {
            put_nullable(&mut self.buffer, numbers, Some(key));
            put_nullable(&mut self.buffer, Scratch::new(), *value);
            numbers = Scratch::new();
        }
    }

    /// A control record, which has a fixed small size.
    pub(super) fn with_control_record(mut self, key: &[u8], value: &[u8], timestamp: i64) -> Self {
        let record = RecordRef { key: Some(key), value: Some(value), ..RecordRef::default() };
        self.push(&record, timestamp, key.len() + value.len());
        self
    }

    /// Writes the header, without a producer and without a checksum.
    pub(super) fn finish(mut self, attributes: i16) -> SealedBatch {
        let rest = i32::try_from(self.buffer.len() - LENGTH_END).unwrap_or(i32::MAX);
        let header = &mut self.buffer;
        put(header, at::BASE_OFFSET, 0i64.to_be_bytes());
        put(header, at::LENGTH, rest.to_be_bytes());
        put(header, at::LEADER_EPOCH, (-1i32).to_be_bytes());
        put(header, at::MAGIC, [MAGIC]);
        put(header, at::ATTRIBUTES, attributes.to_be_bytes());
        put(header, at::LAST_OFFSET_DELTA, (self.count - 1).to_be_bytes());
        put(header, at::BASE_TIMESTAMP, self.base_timestamp.to_be_bytes());
        put(header, at::MAX_TIMESTAMP, self.max_timestamp.to_be_bytes());
        put(header, at::COUNT, self.count.to_be_bytes());
        SealedBatch::new(self.buffer)
    }
}

impl Default for BatchBuilder {
    fn default() -> Self {
        Self::new()
    }
}

/// Takes the buffer back from a batch that was sent, for the next [`BatchBuilder::with_buffer`], without a copy.
/// Nothing if somebody else still holds the bytes.
#[must_use]
pub fn recycle(batch: Bytes) -> Option<Vec<u8>> {
    batch.is_unique().then(|| Vec::from(batch))
}

/// The bytes of a nullable field with its length.
#[inline]
fn nullable_len(field: Option<&[u8]>) -> usize {
    field.map_or(1, |bytes| bytes.len().saturating_add(signed_len(signed(bytes.len()))))
}

/// The bytes of the headers with their number.
#[inline]
fn headers_len(headers: &[HeaderRef<'_>]) -> usize {
    // The same large slice may stand in many headers, so that the sum can pass all memory.
    headers.iter().fold(signed_len(signed(headers.len())), |sum, HeaderRef { key, value }| {
        sum.saturating_add(nullable_len(Some(key))).saturating_add(nullable_len(*value))
    })
}

/// Writes `numbers`, then a field with its length, -1 for null.
#[inline]
fn put_nullable(buffer: &mut Vec<u8>, mut numbers: Scratch, field: Option<&[u8]>) {
    numbers.signed(field.map_or(-1, |bytes| signed(bytes.len())));
    numbers.append_to(buffer);
    if let Some(bytes) = field {
        buffer.extend_from_slice(bytes);
    }
}

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
    wire::varint::{Scratch, Short, signed, signed_len, zigzag},
};

/// The most bytes that a batch can have: its length field and the request's are signed 32-bit numbers.
const MAX_BYTES: usize = 0x7fff_ffff;

/// With less payload, and numbers of at most two bytes, a record's length takes two bytes at most.
const SHORT_PAYLOAD: usize = 0x1fff - 16;

/// So much of a buffer is made ready in advance.
const FILL_BYTES: usize = 4 << 10;

/// A batch under construction: one growing buffer, into which keys and values are copied once.
///
/// The first record's timestamp is the base of the others, as in Kafka's own producer. Timestamps further apart than
/// an `i64` can hold wrap around in the difference and back again when read, also as there.
#[derive(Debug)]
pub struct BatchBuilder {
    /// Room for the header, then the records, then bytes without meaning that the next records overwrite: a write into what
    /// is there costs less than an append.
    buffer: Vec<u8>,
    /// Where the records end.
    len: usize,
    count: u32,
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
        if buffer.len() < HEADER_BYTES {
            buffer.resize(HEADER_BYTES, 0);
        }
        Self { buffer, len: HEADER_BYTES, count: 0, base_timestamp: -1, max_timestamp: -1 }
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
        let RecordRef { key, value, headers, .. } = *record;
        // Neither passes half of the memory.
        let payload = key.map_or(0, <[u8]>::len).wrapping_add(value.map_or(0, <[u8]>::len));
        if self.count == 0 {
            self.base_timestamp = timestamp;
            self.max_timestamp = timestamp;
        }
        let deltas = Deltas {
            timestamp: zigzag(timestamp.wrapping_sub(self.base_timestamp)),
            offset: u64::from(self.count) << 1,
        };
        if payload < SHORT_PAYLOAD
            && (deltas.timestamp | deltas.offset) < Short::LIMIT
            && headers.is_empty()
            && self.len < MAX_BYTES - SHORT_PAYLOAD - Self::ROOM
        {
            self.push_short(key, value, &deltas);
        } else {
            self.push_long(*record, timestamp)?;
        }
        if timestamp > self.max_timestamp {
            self.max_timestamp = timestamp;
        }
        self.count = self.count.wrapping_add(1);
        Ok(())
    }

    /// The records in the batch.
    #[must_use]
    pub fn count(&self) -> i32 {
        // A record takes at least 7 bytes, so that the bytes pass their limit before.
        i32::try_from(self.count).unwrap_or(i32::MAX)
    }

    /// The bytes of the batch so far, with its header, before compression.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.len
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
        let Some(compressed) = compress::compress(compression, levels, &self.buffer[..self.len])? else {
            return Ok(self.finish(0));
        };
        if compressed.len() > MAX_BYTES {
            return Err(SealError::TooLarge { bytes: compressed.len() });
        }
        let plain = Self { len: compressed.len(), buffer: compressed, ..self };
        let mut spare = self.buffer;
        spare.truncate(self.len);
        Ok(plain.finish(compress::codec(compression)).with_spare(spare))
    }

    /// Most records: all numbers in front of the first field come out of one register.
    #[inline]
    fn push_short(&mut self, key: Option<&[u8]>, value: Option<&[u8]>, deltas: &Deltas) {
        let (mut front, mut middle) = (Short::new(), Short::new());
        // The attributes.
        front.put(0);
        front.put(deltas.timestamp);
        front.put(deltas.offset);
        front.put(length_bits(key));
        if key.is_some() { &mut middle } else { &mut front }.put(length_bits(value));
        let (key, value) = (key.unwrap_or_default(), value.unwrap_or_default());
        // Behind the value the number of headers, 0.
        let body = front.len() + key.len() + middle.len() + value.len() + 1;
        let mut length = Short::new();
        length.put((body as u64) << 1);
        let bytes = length.len() + body;
        let mut room = front.write_behind(&length, self.room(bytes));
        if middle.len() > 0 {
            room = middle.write(copy(key, room));
        }
        copy(value, room)[0] = 0;
        self.len += bytes;
    }

    /// Any record.
    #[inline(never)]
    fn push_long(&mut self, record: RecordRef<'_>, timestamp: i64) -> Result<(), BatchFull> {
        let record_bytes = self.size_of(&record, timestamp);
        if record_bytes > MAX_BYTES.saturating_sub(self.len) {
            return Err(BatchFull { record_bytes, batch_bytes: self.len });
        }
        let mut numbers = Scratch::new();
        numbers.byte(0);
        numbers.signed(timestamp.wrapping_sub(self.base_timestamp));
        numbers.signed(i64::from(self.count));
        let rest = nullable_len(record.key) + nullable_len(record.value) + headers_len(record.headers);
        numbers.put_length(numbers.len() + rest);
        let room = numbers.write(self.room(record_bytes));
        let room = write_nullable(write_nullable(room, record.key), record.value);
        write_headers(record.headers, room);
        self.len += record_bytes;
        Ok(())
    }

    /// What is behind the records, with room for so many bytes and [`ROOM`](Self::ROOM).
    #[inline]
    fn room(&mut self, bytes: usize) -> &mut [u8] {
        let end = self.len.wrapping_add(bytes).wrapping_add(Self::ROOM);
        if end > self.buffer.len() {
            self.fill(end);
        }
        &mut self.buffer[self.len..]
    }

    /// Makes the buffer as long as `end`, and a little longer where that costs no growth.
    #[cold]
    #[inline(never)]
    fn fill(&mut self, end: usize) {
        let ahead = (self.buffer.len() + FILL_BYTES).min(self.buffer.capacity());
        self.buffer.resize(end.max(ahead), 0);
    }

    /// A control record, which has a fixed small size.
    pub(super) fn with_control_record(mut self, key: &[u8], value: &[u8], timestamp: i64) -> Self {
        let record = RecordRef { key: Some(key), value: Some(value), ..RecordRef::default() };
        // It is far from any limit.
        _ = self.append(&record, timestamp);
        self
    }

    /// Writes the header, without a producer and without a checksum.
    pub(super) fn finish(mut self, attributes: i16) -> SealedBatch {
        self.buffer.truncate(self.len);
        let rest = i32::try_from(self.buffer.len() - LENGTH_END).unwrap_or(i32::MAX);
        let count = self.count();
        let header = &mut self.buffer;
        put(header, at::BASE_OFFSET, 0i64.to_be_bytes());
        put(header, at::LENGTH, rest.to_be_bytes());
        put(header, at::LEADER_EPOCH, (-1i32).to_be_bytes());
        put(header, at::MAGIC, [MAGIC]);
        put(header, at::ATTRIBUTES, attributes.to_be_bytes());
        put(header, at::LAST_OFFSET_DELTA, (count - 1).to_be_bytes());
        put(header, at::BASE_TIMESTAMP, self.base_timestamp.to_be_bytes());
        put(header, at::MAX_TIMESTAMP, self.max_timestamp.to_be_bytes());
        put(header, at::COUNT, count.to_be_bytes());
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

/// What a record counts from its batch's header, in zigzag form.
struct Deltas {
    timestamp: u64,
    offset: u64,
}

/// A field's length, in zigzag form; -1 for null.
#[inline]
fn length_bits(field: Option<&[u8]>) -> u64 {
    field.map_or(1, |bytes| zigzag(signed(bytes.len())))
}

/// Copies `bytes` to the front of `room`; what is left of it.
#[inline]
fn copy<'a>(bytes: &[u8], room: &'a mut [u8]) -> &'a mut [u8] {
    let (field, rest) = room.split_at_mut(bytes.len());
    field.copy_from_slice(bytes);
    rest
}

#[inline]
fn write_headers(headers: &[HeaderRef<'_>], room: &mut [u8]) {
    let mut numbers = Scratch::new();
    numbers.signed(signed(headers.len()));
    let mut room = numbers.write(room);
    for HeaderRef { key, value } in headers {
        room = write_nullable(room, Some(key));
        room = write_nullable(room, *value);
    }
}

/// Writes a field with its length, -1 for null.
#[inline]
fn write_nullable<'a>(room: &'a mut [u8], field: Option<&[u8]>) -> &'a mut [u8] {
    let mut length = Scratch::new();
    length.unsigned(length_bits(field));
    copy(field.unwrap_or_default(), length.write(room))
}

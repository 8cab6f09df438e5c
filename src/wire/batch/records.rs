//! The records of one batch, as slices of its bytes.

use std::ops::Range;

use bytes::Bytes;

use super::{BatchError, BatchHeader, RecordFault, TimestampType};
use crate::{
    record::{Header, HeaderRef, StoredRecord},
    wire::cursor::{Cursor, Fault},
};

/// The most headers that a record may have: 1,048,576. They take 64 bytes each in memory and may take 2 on the wire.
pub const MAX_HEADERS: usize = 1 << 20;

/// A record takes at least this: length, attributes, two deltas, two lengths and the number of headers.
pub(super) const SMALLEST_RECORD: usize = 7;

/// A header takes at least this: two lengths.
const SMALLEST_HEADER: usize = 2;

/// The records of a batch, in order; keys and values are slices of the batch's own memory.
///
/// Ends behind the last record or with the first error.
#[derive(Debug, Clone)]
pub struct Records {
    /// The records, not compressed.
    body: Bytes,
    /// Where the next record begins.
    at: usize,
    header: BatchHeader,
    /// The next record's place in the batch.
    index: i32,
    /// The smallest offset delta that the next record may have.
    expected_delta: i32,
    done: bool,
}

/// A record that borrows from its batch.
#[derive(Debug, Clone, Copy)]
pub struct RecordView<'a> {
    /// Its offset in the partition.
    pub offset: i64,
    /// Milliseconds since the Unix epoch, as [`StoredRecord::timestamp`].
    pub timestamp: i64,
    /// The key, or null.
    pub key: Option<&'a [u8]>,
    /// The value, or null.
    pub value: Option<&'a [u8]>,
    /// The headers, checked and not yet taken apart.
    headers: &'a [u8],
    header_count: usize,
}

/// The headers of a [`RecordView`], in order; keys may repeat.
#[derive(Debug, Clone)]
pub struct HeaderViews<'a> {
    bytes: &'a [u8],
    cursor: Cursor<'a>,
    left: usize,
}

/// A record as positions in the body.
struct Parsed {
    offset: i64,
    timestamp: i64,
    key: Option<Range<usize>>,
    value: Option<Range<usize>>,
    headers: Range<usize>,
    header_count: usize,
}

impl Records {
    /// `body` holds the records of `header`'s batch, not compressed.
    pub(super) fn new(header: &BatchHeader, body: Bytes) -> Result<Self, BatchError> {
        let BatchHeader { count, last_offset_delta, .. } = *header;
        if usize::try_from(count).map_or(true, |count| count > body.len() / SMALLEST_RECORD) {
            return Err(BatchError::Count { count, last_offset_delta, bytes: body.len() });
        }
        Ok(Self { body, at: 0, header: *header, index: 0, expected_delta: 0, done: false })
    }

    /// The next record without a handle on the batch's memory: cheaper than [`Iterator::next`], and gone with the next
    /// call.
    ///
    /// # Errors
    /// [`BatchError::Record`] or [`BatchError::Trailing`] if the batch is malformed; the iteration ends with it.
    pub fn next_view(&mut self) -> Result<Option<RecordView<'_>>, BatchError> {
        let Some(parsed) = self.parse_next()? else { return Ok(None) };
        Ok(Some(RecordView {
            offset: parsed.offset,
            timestamp: parsed.timestamp,
            key: parsed.key.map(|range| &self.body[range]),
            value: parsed.value.map(|range| &self.body[range]),
            headers: &self.body[parsed.headers],
            header_count: parsed.header_count,
        }))
    }

    fn parse_next(&mut self) -> Result<Option<Parsed>, BatchError> {
        if self.done {
            return Ok(None);
        }
        self.done = true;
        if self.index >= self.header.count {
            return match self.body.len() - self.at {
                0 => Ok(None),
                bytes => Err(BatchError::Trailing { bytes }),
            };
        }
        let parsed = self.parse().map_err(|fault| BatchError::Record { index: self.index, fault })?;
        self.index += 1;
        self.done = false;
        Ok(Some(parsed))
    }

    fn parse(&mut self) -> Result<Parsed, RecordFault> {
        let mut outer = Cursor::within(&self.body, self.at..self.body.len());
        let length = outer.varint()?;
        let range = outer.range(usize::try_from(length).map_err(|_| RecordFault::Length(length))?)?;
        self.at = range.end;
        let mut cursor = Cursor::within(&self.body, range);
        // The record's own attributes have no meaning yet.
        cursor.u8()?;
        let timestamp_delta = cursor.varlong()?;
        let offset_delta = cursor.varint()?;
        let key = nullable(&mut cursor)?;
        let value = nullable(&mut cursor)?;
        let header_count = header_count(&mut cursor)?;
        let headers_at = cursor.position();
        for _ in 0..header_count {
            read_header(&mut cursor)?;
        }
        if cursor.remaining() > 0 {
            return Err(RecordFault::Rest(cursor.remaining()));
        }
        let headers = headers_at..cursor.position();
        let offset = self.offset(offset_delta)?;
        Ok(Parsed { offset, timestamp: self.timestamp(timestamp_delta), key, value, headers, header_count })
    }

    /// The offset at `delta`, if it lies behind the one before and inside the batch.
    fn offset(&mut self, delta: i32) -> Result<i64, RecordFault> {
        if delta < self.expected_delta || delta > self.header.last_offset_delta {
            return Err(RecordFault::Offset(delta));
        }
        self.expected_delta = delta.saturating_add(1);
        Ok(self.header.base_offset.saturating_add(i64::from(delta)))
    }

    fn timestamp(&self, delta: i64) -> i64 {
        match self.header.timestamp_type() {
            TimestampType::Append => self.header.max_timestamp,
            // The difference wrapped when it was taken, if the two are further apart than a number can say.
            TimestampType::Create => self.header.base_timestamp.wrapping_add(delta),
        }
    }
}

impl Iterator for Records {
    type Item = Result<StoredRecord, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        let parsed = match self.parse_next() {
            Ok(parsed) => parsed?,
            Err(error) => return Some(Err(error)),
        };
        let mut headers = Vec::with_capacity(parsed.header_count);
        let mut cursor = Cursor::within(&self.body, parsed.headers);
        for _ in 0..parsed.header_count {
            // The same bytes were read without a fault before.
            let Ok((key, value)) = read_header(&mut cursor) else { break };
            let value = value.map(|range| self.body.slice(range));
            headers.push(Header { key: self.body.slice(key), value });
        }
        Some(Ok(StoredRecord {
            offset: parsed.offset,
            timestamp: parsed.timestamp,
            key: parsed.key.map(|range| self.body.slice(range)),
            value: parsed.value.map(|range| self.body.slice(range)),
            headers,
        }))
    }
}

impl std::iter::FusedIterator for Records {}

impl<'a> RecordView<'a> {
    /// The headers, in order.
    #[must_use]
    pub fn headers(&self) -> HeaderViews<'a> {
        HeaderViews { bytes: self.headers, cursor: Cursor::new(self.headers), left: self.header_count }
    }
}

impl<'a> Iterator for HeaderViews<'a> {
    type Item = HeaderRef<'a>;

    fn next(&mut self) -> Option<HeaderRef<'a>> {
        self.left = self.left.checked_sub(1)?;
        let (key, value) = read_header(&mut self.cursor).ok()?;
        Some(HeaderRef { key: &self.bytes[key], value: value.map(|range| &self.bytes[range]) })
    }
}

fn header_count(cursor: &mut Cursor<'_>) -> Result<usize, RecordFault> {
    let stated = cursor.varint()?;
    let count = usize::try_from(stated).map_err(|_| RecordFault::HeaderCount(stated))?;
    if count > MAX_HEADERS || count > cursor.remaining() / SMALLEST_HEADER {
        return Err(RecordFault::HeaderCount(stated));
    }
    Ok(count)
}

/// A header's key and value.
fn read_header(cursor: &mut Cursor<'_>) -> Result<(Range<usize>, Option<Range<usize>>), RecordFault> {
    let key = nullable(cursor)?.ok_or(RecordFault::Length(-1))?;
    Ok((key, nullable(cursor)?))
}

/// A field behind its length; -1 is null.
fn nullable(cursor: &mut Cursor<'_>) -> Result<Option<Range<usize>>, RecordFault> {
    let length = cursor.varint()?;
    match usize::try_from(length) {
        Ok(length) => cursor.range(length).map(Some).map_err(Fault::into),
        Err(_) if length == -1 => Ok(None),
        Err(_) => Err(RecordFault::Length(length)),
    }
}

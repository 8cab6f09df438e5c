//! The records of one batch, as slices of its bytes.

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
    walk: Walk,
}

/// A place among the records of a batch.
#[derive(Debug, Clone)]
struct Walk {
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
    /// The headers up to the end of the record, checked and not yet taken apart.
    headers: &'a [u8],
    header_count: usize,
}

/// The headers of a [`RecordView`], in order; keys may repeat.
#[derive(Debug, Clone)]
pub struct HeaderViews<'a> {
    cursor: Cursor<'a>,
    left: usize,
}

/// The numbers of a record as they are written, and its parts.
struct Parsed<'a> {
    timestamp_delta: i64,
    offset_delta: i32,
    key: Option<&'a [u8]>,
    value: Option<&'a [u8]>,
    headers: &'a [u8],
    header_count: usize,
    /// Where the next record begins.
    end: usize,
}

impl Records {
    /// `body` holds the records of `header`'s batch, not compressed.
    pub(super) fn new(header: &BatchHeader, body: Bytes) -> Result<Self, BatchError> {
        let BatchHeader { count, last_offset_delta, .. } = *header;
        if usize::try_from(count).map_or(true, |count| count > body.len() / SMALLEST_RECORD) {
            return Err(BatchError::Count { count, last_offset_delta, bytes: body.len() });
        }
        Ok(Self { body, walk: Walk { at: 0, header: *header, index: 0, expected_delta: 0, done: false } })
    }

    /// The next record without a handle on the batch's memory: cheaper than [`Iterator::next`], and gone with the next
    /// call.
    ///
    /// # Errors
    /// [`BatchError::Record`] or [`BatchError::Trailing`] if the batch is malformed; the iteration ends with it.
    #[inline]
    pub fn next_view(&mut self) -> Result<Option<RecordView<'_>>, BatchError> {
        self.walk.next(&self.body)
    }
}

impl Walk {
    #[inline]
    fn next<'a>(&mut self, body: &'a [u8]) -> Result<Option<RecordView<'a>>, BatchError> {
        if self.done {
            return Ok(None);
        }
        self.done = true;
        if self.index >= self.header.count {
            return match body.len() - self.at {
                0 => Ok(None),
                bytes => Err(BatchError::Trailing { bytes }),
            };
        }
        let malformed = |fault| BatchError::Record { index: self.index, fault };
        let parsed = parse(body, self.at).map_err(malformed)?;
        let Parsed { offset_delta, key, value, headers, header_count, .. } = parsed;
        // The offset lies behind the one before and inside the batch.
        if offset_delta < self.expected_delta || offset_delta > self.header.last_offset_delta {
            return Err(malformed(RecordFault::Offset(offset_delta)));
        }
        self.expected_delta = offset_delta.saturating_add(1);
        self.at = parsed.end;
        self.index += 1;
        self.done = false;
        let offset = self.header.base_offset.saturating_add(i64::from(offset_delta));
        let timestamp = self.header.timestamp(parsed.timestamp_delta);
        Ok(Some(RecordView { offset, timestamp, key, value, headers, header_count }))
    }
}

impl BatchHeader {
    #[inline]
    fn timestamp(&self, delta: i64) -> i64 {
        match self.timestamp_type() {
            TimestampType::Append => self.max_timestamp,
            // The difference wrapped when it was taken, if the two are further apart than a number can say.
            TimestampType::Create => self.base_timestamp.wrapping_add(delta),
        }
    }
}

/// Reads the record at a place of the body.
#[inline]
fn parse(body: &[u8], at: usize) -> Result<Parsed<'_>, RecordFault> {
    let mut outer = Cursor::within(body, at..body.len());
    let length = outer.varint()?;
    let inner = outer.slice(usize::try_from(length).map_err(|_| RecordFault::Length(length))?)?;
    let mut cursor = Cursor::new(inner);
    // The record's own attributes have no meaning yet.
    cursor.u8()?;
    let timestamp_delta = cursor.varlong()?;
    let offset_delta = cursor.varint()?;
    let key = nullable(&mut cursor)?;
    let value = nullable(&mut cursor)?;
    let header_count = header_count(&mut cursor)?;
    let headers = &inner[cursor.position()..];
    for _ in 0..header_count {
        read_header(&mut cursor)?;
    }
    if cursor.remaining() > 0 {
        return Err(RecordFault::Rest(cursor.remaining()));
    }
    let end = outer.position();
    Ok(Parsed { timestamp_delta, offset_delta, key, value, headers, header_count, end })
}

impl Iterator for Records {
    type Item = Result<StoredRecord, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        let view = match self.walk.next(&self.body) {
            Ok(view) => view?,
            Err(error) => return Some(Err(error)),
        };
        let own = |bytes: &[u8]| self.body.slice_ref(bytes);
        let header = |h: HeaderRef<'_>| Header { key: own(h.key), value: h.value.map(own) };
        Some(Ok(StoredRecord {
            offset: view.offset,
            timestamp: view.timestamp,
            key: view.key.map(own),
            value: view.value.map(own),
            headers: view.headers().map(header).collect(),
        }))
    }
}

impl std::iter::FusedIterator for Records {}

impl<'a> RecordView<'a> {
    /// The headers, in order.
    #[must_use]
    pub fn headers(&self) -> HeaderViews<'a> {
        HeaderViews { cursor: Cursor::new(self.headers), left: self.header_count }
    }
}

impl<'a> Iterator for HeaderViews<'a> {
    type Item = HeaderRef<'a>;

    fn next(&mut self) -> Option<HeaderRef<'a>> {
        self.left = self.left.checked_sub(1)?;
        let (key, value) = read_header(&mut self.cursor).ok()?;
        Some(HeaderRef { key, value })
    }
}

#[inline]
fn header_count(cursor: &mut Cursor<'_>) -> Result<usize, RecordFault> {
    let stated = cursor.varint()?;
    let count = usize::try_from(stated).map_err(|_| RecordFault::HeaderCount(stated))?;
    if count > MAX_HEADERS || count > cursor.remaining() / SMALLEST_HEADER {
        return Err(RecordFault::HeaderCount(stated));
    }
    Ok(count)
}

/// A header's key and value.
fn read_header<'a>(cursor: &mut Cursor<'a>) -> Result<(&'a [u8], Option<&'a [u8]>), RecordFault> {
    let key = nullable(cursor)?.ok_or(RecordFault::Length(-1))?;
    Ok((key, nullable(cursor)?))
}

/// A field behind its length; -1 is null.
#[inline]
fn nullable<'a>(cursor: &mut Cursor<'a>) -> Result<Option<&'a [u8]>, RecordFault> {
    let length = cursor.varint()?;
    match usize::try_from(length) {
        Ok(length) => cursor.slice(length).map(Some).map_err(Fault::into),
        Err(_) if length == -1 => Ok(None),
        Err(_) => Err(RecordFault::Length(length)),
    }
}

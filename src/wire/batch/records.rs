//! The records of one batch, as slices of its bytes.

use bytes::Bytes;

use super::{BatchError, BatchHeader, RecordFault, TimestampType};
use crate::{
    record::{Header, HeaderRef, StoredRecord},
    wire::{
        cursor::{Cursor, Fault},
        varint::unzigzag,
    },
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
    /// The offset delta of the record before, -1 before the first.
    last_delta: i32,
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
#[cfg_attr(test, derive(Debug, PartialEq))]
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
        Ok(Self { body, at: 0, header: *header, index: 0, last_delta: -1, done: false })
    }

    /// The next record without a handle on the batch's memory: cheaper than [`Iterator::next`], and gone with the next
    /// call.
    ///
    /// # Errors
    /// [`BatchError::Record`] or [`BatchError::Trailing`] if the batch is malformed; the iteration ends with it.
    #[inline]
    pub fn next_view(&mut self) -> Result<Option<RecordView<'_>>, BatchError> {
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
        let malformed = |fault| BatchError::Record { index: self.index, fault };
        let parsed = match parse_short(&self.body, self.at) {
            Some(parsed) => parsed,
            None => parse(&self.body, self.at).map_err(malformed)?,
        };
        let Parsed { offset_delta, key, value, headers, header_count, .. } = parsed;
        // The offset lies behind the one before and inside the batch.
        if offset_delta <= self.last_delta || offset_delta > self.header.last_offset_delta {
            return Err(malformed(RecordFault::Offset(offset_delta)));
        }
        self.last_delta = offset_delta;
        self.at = parsed.end;
        self.index += 1;
        self.done = false;
        // The header was checked: the last offset does not overflow either.
        let offset = self.header.base_offset.wrapping_add(i64::from(offset_delta));
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

/// Reads the record at a place of the body if it is like most: numbers of one or two bytes, no headers, and 8 bytes behind
/// its start. Then the numbers up to the key's length come out of one register, and nothing is looked at twice. Whatever else
/// it is, also malformed, is for [`parse`].
#[inline]
fn parse_short(body: &[u8], at: usize) -> Option<Parsed<'_>> {
    let rest = body.get(at..)?;
    let mut numbers = Numbers::new(rest)?;
    let length = numbers.next()?;
    let start = numbers.read;
    numbers.skip_byte();
    let timestamp_delta = unzigzag(numbers.next()?);
    let offset_delta = i32::try_from(unzigzag(numbers.next()?)).ok()?;
    let key = numbers.next()?;
    // What a register of 8 bytes does not hold is 0 in it.
    let read = numbers.read;
    if read > Numbers::BYTES || length & 1 == 1 {
        return None;
    }
    let size = start + (length >> 1) as usize;
    let behind = rest.get(..size)?.get(read..)?;
    let (key, behind) = short_field(key, behind)?;
    let (value, behind) = match behind {
        [low, behind @ ..] if *low < 0x80 => (u64::from(*low), behind),
        [low, high, behind @ ..] if *high < 0x80 => (u64::from(*low & 0x7f) | u64::from(*high) << 7, behind),
        _ => return None,
    };
    let (value, behind) = short_field(value, behind)?;
    // The number of headers is the last byte, and 0.
    if behind != [0] {
        return None;
    }
    Some(Parsed { timestamp_delta, offset_delta, key, value, headers: &[], header_count: 0, end: at + size })
}

/// The field in front of `behind` whose length was read, and what follows it.
#[inline]
fn short_field(length: u64, behind: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
    if length & 1 == 0 {
        let (field, behind) = behind.split_at_checked((length >> 1) as usize)?;
        return Some((Some(field), behind));
    }
    // The zigzag form of -1.
    (length == 1).then_some((None, behind))
}

/// The next 8 bytes, as variable-length numbers of one or two bytes.
struct Numbers {
    word: u64,
    /// How many bytes were read.
    read: usize,
}

impl Numbers {
    const BYTES: usize = 8;

    #[inline]
    fn new(bytes: &[u8]) -> Option<Self> {
        Some(Self { word: u64::from_le_bytes(*bytes.first_chunk()?), read: 0 })
    }

    #[inline]
    fn next(&mut self) -> Option<u64> {
        let word = self.word;
        if word & 0x80 == 0 {
            self.skip_byte();
            return Some(word & 0x7f);
        }
        if word & 0x8000 == 0 {
            self.word >>= 16;
            self.read = self.read.wrapping_add(2);
            return Some((word & 0x7f) | (word >> 1 & 0x3f80));
        }
        None
    }

    #[inline]
    fn skip_byte(&mut self) {
        self.word >>= 8;
        self.read = self.read.wrapping_add(1);
    }
}

/// Reads the record at a place of the body.
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
        // Another handle on the same memory, so that the record can be cut out of it.
        let body = self.body.clone();
        let view = match self.next_view() {
            Ok(view) => view?,
            Err(error) => return Some(Err(error)),
        };
        let own = |bytes: &[u8]| body.slice_ref(bytes);
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

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, option, prelude::*};

    use super::*;
    use crate::{record::RecordRef, wire::batch::BatchBuilder, wire::batch::HEADER_BYTES};

    /// Two records as they are written; the second one is not the first of its batch.
    fn written(records: [RecordRef<'_>; 2], times: [i64; 2]) -> Vec<u8> {
        let mut builder = BatchBuilder::new();
        for (record, time) in records.iter().zip(times) {
            builder.append(record, time).unwrap();
        }
        let batch = builder.seal(crate::record::Compression::None).unwrap().freeze();
        batch[HEADER_BYTES..].to_vec()
    }

    /// What is read the short way is what is read the long way. Whether it was.
    fn agree(body: &[u8], at: usize) -> bool {
        let short = parse_short(body, at);
        let taken = short.is_some();
        assert!(short.is_none_or(|short| parse(body, at) == Ok(short)), "{body:?} at {at}");
        taken
    }

    #[test]
    fn ordinary_records_are_read_the_short_way() {
        for (key, bytes) in [(None, 0), (Some(&b"key"[..]), 0), (None, 1), (Some(b""), 100), (None, 8100)] {
            let value = vec![b'v'; bytes];
            for value in [Some(&value[..]), None] {
                let record = RecordRef { key, value, ..RecordRef::default() };
                let body = written([record; 2], [1_000, 1_005]);
                assert!(agree(&body, 0) || body.len() < 16, "{body:?}");
                let second = parse(&body, 0).unwrap().end;
                assert!(agree(&body, second) || body.len() - second < 8, "{body:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn both_ways_to_read_a_record_agree(
            key in option::of(vec(any::<u8>(), 0..200)),
            value in option::of(vec(any::<u8>(), 0..200)),
            later in prop_oneof![0..100i64, -9000..9000i64, any::<i64>()],
            changes in vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
            cut in any::<prop::sample::Index>(),
        ) {
            let record = RecordRef { key: key.as_deref(), value: value.as_deref(), ..RecordRef::default() };
            let mut body = written([record; 2], [0, later]);
            let second = parse(&body, 0).unwrap().end;
            agree(&body, 0);
            agree(&body, second);
            for (place, byte) in changes {
                let place = place.index(body.len());
                body[place] = byte;
            }
            agree(&body, 0);
            agree(&body, second);
            body.truncate(cut.index(body.len()));
            agree(&body, 0);
            agree(&body, second);
        }

        #[test]
        fn both_ways_to_read_nonsense_agree(body in vec(prop_oneof![0..6u8, any::<u8>()], 0..40)) {
            agree(&body, 0);
        }
    }
}

//! Records as the user holds them: borrowed when they go in, cheap slices when they come out.

mod compression;
mod encoded;

use bytes::Bytes;

pub use compression::{Compression, CompressionLevels, LevelError, UnknownCodec};
pub use encoded::RecordError;

/// A record to be written. Everything is borrowed; nothing is allocated to build one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecordRef<'a> {
    /// The key; `None` is Kafka's null key, which differs from an empty one.
    pub key: Option<&'a [u8]>,
    /// The value; `None` is Kafka's null value (a tombstone on compacted topics).
    pub value: Option<&'a [u8]>,
    /// Headers, in order; keys may repeat.
    pub headers: &'a [HeaderRef<'a>],
    /// Create time in milliseconds since the Unix epoch; `None` lets the writer stamp the time of the call.
    pub timestamp: Option<i64>,
}

/// A header to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderRef<'a> {
    /// The header's key. Kafka asks for UTF-8 but brokers do not check; bytes are kept as they are.
    pub key: &'a [u8],
    /// The value, or null.
    pub value: Option<&'a [u8]>,
}

/// A record that was read, and its offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRecord {
    /// Its offset in the partition.
    pub offset: i64,
    /// Milliseconds since the Unix epoch; the broker's append time where the batch says so; -1 when absent.
    pub timestamp: i64,
    /// The key, or null.
    pub key: Option<Bytes>,
    /// The value, or null.
    pub value: Option<Bytes>,
    /// Headers, in order; keys may repeat.
    pub headers: Vec<Header>,
}

/// A header that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The header's key, bytes as written.
    pub key: Bytes,
    /// The value, or null.
    pub value: Option<Bytes>,
}

/// A record on its way through a pipeline: it owns its parts, and cheaply, for they are slices.
///
/// It has no topic and no offset: where it comes from is the source's business, and where it goes the sink's.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Record {
    /// The partition that it is for, or comes from; `None` leaves it to the partitioner.
    pub partition: Option<i32>,
    /// The key, or null.
    pub key: Option<Bytes>,
    /// The value, or null.
    pub value: Option<Bytes>,
    /// Headers with their values or null, in order; keys may repeat.
    pub headers: Vec<(Bytes, Option<Bytes>)>,
    /// Milliseconds since the Unix epoch; `None` lets the writer stamp the time at which it takes the record.
    pub timestamp: Option<i64>,
}

impl<'a> RecordRef<'a> {
    /// A record with a value and nothing else.
    #[must_use]
    pub fn value(value: &'a [u8]) -> Self {
        Self { value: Some(value), ..Self::default() }
    }

    /// The same record with a key.
    #[must_use]
    pub fn with_key(self, key: &'a [u8]) -> Self {
        Self { key: Some(key), ..self }
    }
}

impl Record {
    /// A record with a value and nothing else.
    #[must_use]
    pub fn value(value: impl Into<Bytes>) -> Self {
        Self { value: Some(value.into()), ..Self::default() }
    }

    /// The same record with a key.
    #[must_use]
    pub fn with_key(self, key: impl Into<Bytes>) -> Self {
        Self { key: Some(key.into()), ..self }
    }

    /// The record as a borrowed one. `headers` is scratch: one vector serves any number of records.
    ///
    /// ```
    /// use kafka_2pc::record::Record;
    ///
    /// let records = [Record::value("4 planes"), Record::value("5 planes").with_key("LEZL")];
    /// let mut headers = Vec::new();
    /// for record in &records {
    ///     assert_eq!(record.as_ref(&mut headers).value, record.value.as_deref());
    /// }
    /// ```
    pub fn as_ref<'s, 'a: 's>(&'a self, headers: &'s mut Vec<HeaderRef<'a>>) -> RecordRef<'s> {
        headers.clear();
        headers.extend(self.headers.iter().map(|(key, value)| HeaderRef { key, value: value.as_deref() }));
        RecordRef {
            key: self.key.as_deref(),
            value: self.value.as_deref(),
            headers,
            timestamp: self.timestamp,
        }
    }

    /// Bytes in memory that it is counted for, where a bound is kept: its parts, and a little for itself.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        let bytes = |part: &Option<Bytes>| part.as_ref().map_or(0, Bytes::len);
        let headers = self
            .headers
            .iter()
            .map(|(key, value)| key.len() + bytes(value) + size_of::<(Bytes, Option<Bytes>)>());
        size_of::<Self>() + bytes(&self.key) + bytes(&self.value) + headers.sum::<usize>()
    }
}

//! Records as the user holds them: borrowed when they go in, cheap slices when they come out.

use bytes::Bytes;

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

/// A record that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
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

/// How a record batch is compressed (`compression.type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// LZ4 frames; needs the feature `lz4`.
    Lz4,
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

/// A record to be written that owns its parts, for where a borrowed one can't be held.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OwnedRecord {
    /// The key, or null.
    pub key: Option<Bytes>,
    /// The value, or null.
    pub value: Option<Bytes>,
    /// Headers, in order; keys may repeat.
    pub headers: Vec<Header>,
    /// Milliseconds since the Unix epoch; `None` lets the writer stamp the time at which it takes the record.
    pub timestamp: Option<i64>,
}

impl OwnedRecord {
    /// Hands `body` the record as a borrowed one.
    pub fn with_ref<R>(&self, body: impl FnOnce(RecordRef<'_>) -> R) -> R {
        let headers: Vec<HeaderRef<'_>> =
            self.headers.iter().map(|h| HeaderRef { key: &h.key, value: h.value.as_deref() }).collect();
        body(RecordRef {
            key: self.key.as_deref(),
            value: self.value.as_deref(),
            headers: &headers,
            timestamp: self.timestamp,
        })
    }
}

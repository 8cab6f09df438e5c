//! What the tests of the batch codec share: records as they are made up, and batches made of them.

mod building;
mod codecs;
#[cfg(feature = "gzip")]
mod gzip;
mod hostile;
#[cfg(feature = "lz4")]
mod lz4;
mod reading;
#[cfg(feature = "snappy")]
mod snappy;
#[cfg(feature = "zstd")]
mod zstd;

use bytes::Bytes;
use proptest::{collection::vec, option, prelude::*};

use super::{Batch, BatchBuilder, BatchError, Batches, SealedBatch, put, put_crc};
use crate::record::{Compression, HeaderRef, RecordRef, StoredRecord};

/// A record that owns its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Sample {
    timestamp: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl Sample {
    fn value(value: &str) -> Self {
        Self { timestamp: 1_000, key: None, value: Some(value.into()), headers: Vec::new() }
    }

    /// The sample behind a record that was read.
    fn from_record(record: StoredRecord) -> Self {
        let headers = record.headers.into_iter().map(|h| (h.key.to_vec(), h.value.map(Vec::from))).collect();
        Self {
            timestamp: record.timestamp,
            key: record.key.map(Vec::from),
            value: record.value.map(Vec::from),
            headers,
        }
    }

    /// Hands a borrowed form to `f`.
    fn with_ref<T>(&self, f: impl FnOnce(&RecordRef<'_>) -> T) -> T {
        let headers: Vec<_> =
            self.headers.iter().map(|(key, value)| HeaderRef { key, value: value.as_deref() }).collect();
        f(&RecordRef {
            key: self.key.as_deref(),
            value: self.value.as_deref(),
            headers: &headers,
            timestamp: Some(self.timestamp),
        })
    }
}

/// A batch of these records, not stamped.
fn seal(samples: &[Sample], compression: Compression) -> SealedBatch {
    let mut builder = BatchBuilder::new();
    for sample in samples {
        sample.with_ref(|record| builder.append(record, sample.timestamp)).unwrap();
    }
    builder.seal(compression).unwrap()
}

/// A batch of one record per value.
fn batch_of(values: &[&str]) -> Bytes {
    let samples: Vec<_> = values.iter().map(|value| Sample::value(value)).collect();
    seal(&samples, Compression::None).freeze()
}

/// The only batch in `bytes`, or what is wrong with it.
fn read(bytes: impl Into<Bytes>) -> Result<Batch, BatchError> {
    let mut batches = Batches::new(bytes.into());
    batches.next().expect("there is a batch or an error")
}

/// All records of a batch, or what is wrong with one.
fn records(batch: &Batch) -> Result<Vec<StoredRecord>, BatchError> {
    batch.records()?.collect()
}

/// The batch with one field of its header changed, and the checksum made valid again.
fn forged<const N: usize>(batch: &[u8], at: usize, field: [u8; N]) -> Vec<u8> {
    let mut batch = batch.to_vec();
    put(&mut batch, at, field);
    put_crc(&mut batch);
    batch
}

/// A batch whose header is right and whose `count` records are `body`.
fn with_body(count: i32, body: &[u8]) -> Vec<u8> {
    let mut batch = batch_of(&["x"])[..super::HEADER_BYTES].to_vec();
    batch.extend_from_slice(body);
    let length = i32::try_from(batch.len() - super::LENGTH_END).unwrap();
    put(&mut batch, super::at::LENGTH, length.to_be_bytes());
    put(&mut batch, super::at::LAST_OFFSET_DELTA, (count - 1).max(0).to_be_bytes());
    forged(&batch, super::at::COUNT, count.to_be_bytes())
}

/// Records of any kind, null and empty fields and repeated header keys included.
fn any_sample() -> impl Strategy<Value = Sample> {
    let bytes = || prop_oneof![4 => vec(any::<u8>(), 0..40), 1 => vec(Just(7), 100..300)];
    let header = (prop_oneof![Just(b"a".to_vec()), vec(any::<u8>(), 0..4)], option::of(bytes()));
    let timestamp =
        prop_oneof![4 => 1_700_000_000_000..1_700_000_100_000i64, 1 => any::<i64>(), 1 => Just(-1i64)];
    (timestamp, option::of(bytes()), option::of(bytes()), vec(header, 0..4))
        .prop_map(|(timestamp, key, value, headers)| Sample { timestamp, key, value, headers })
}

/// A few of them.
fn any_samples() -> impl Strategy<Value = Vec<Sample>> {
    vec(any_sample(), 1..20)
}

/// Every codec of this build.
fn any_compression() -> impl Strategy<Value = Compression> {
    let built = Compression::ALL.into_iter().filter(|codec| codec.is_built());
    proptest::sample::select(built.collect::<Vec<_>>())
}

/// Text that compresses, longer than two blocks of 64 KiB.
#[cfg(any(feature = "gzip", feature = "lz4", feature = "snappy", feature = "zstd"))]
fn text() -> Vec<u8> {
    (0..20_000u32).flat_map(|i| format!("line {} ", i % 777).into_bytes()).collect()
}

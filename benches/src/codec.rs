//! Encoding and decoding one record batch of 128 KiB, beside the floor (one copy and one checksum) and beside the batch code
//! of the crate kafka-protocol, with and without the copies that its callers need.

use std::{fmt, hint::black_box, str::FromStr};

use anyhow::{Context, Result};
use bytes::{Bytes, BytesMut};
use kafka_2pc::{
    ids::{Identity, ProducerEpoch, ProducerId},
    record::{Compression, RecordRef},
    wire::batch::{BatchBuilder, Batches, Stamp, recycle},
};
use kafka_protocol::{
    indexmap::IndexMap,
    records::{
        Compression as PeerCompression, Record, RecordBatchDecoder, RecordBatchEncoder, RecordEncodeOptions,
        TimestampType,
    },
};

const BATCH_BYTES: usize = 128 * 1024;
const TIMESTAMP: i64 = 1_700_000_000_000;
const STAMP: Stamp = Stamp::Transactional {
    identity: Identity { producer_id: ProducerId(1000), epoch: ProducerEpoch(3) },
    base_sequence: 0,
};

/// What is done with one batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// The payload copied once and read once: what no encoder can go below.
    EncodeFloor,
    /// Our encoder, into a buffer that is used again.
    Encode,
    /// That of kafka-protocol, with values that are there already.
    EncodePeer,
    /// The same, with the copies that a caller with borrowed values has to make.
    EncodePeerCopies,
    /// The checksum.
    DecodeFloor,
    /// Every record looked at in place.
    Decode,
    /// Records that outlive the batch.
    DecodeOwned,
    /// kafka-protocol's decoder.
    DecodePeer,
}

impl Task {
    /// All of them, with their names.
    pub const ALL: [(Self, &'static str); 8] = [
        (Self::EncodeFloor, "encode-floor"),
        (Self::Encode, "encode"),
        (Self::EncodePeer, "encode-peer"),
        (Self::EncodePeerCopies, "encode-peer-copies"),
        (Self::DecodeFloor, "decode-floor"),
        (Self::Decode, "decode"),
        (Self::DecodeOwned, "decode-owned"),
        (Self::DecodePeer, "decode-peer"),
    ];
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(task, _)| task == self).map_or("", |(_, name)| name);
        f.write_str(name)
    }
}

impl FromStr for Task {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::ALL.iter().find(|(_, name)| *name == text);
        found.map(|(task, _)| *task).with_context(|| format!("{text}: no such task"))
    }
}

/// One batch of values, and the buffers that the tasks use again.
#[derive(Debug)]
pub struct Codec {
    values: Vec<Bytes>,
    batch: Bytes,
    owned: Vec<Record>,
    buffer: Vec<u8>,
    out: BytesMut,
}

impl Codec {
    /// A batch of values of this size.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        let count = BATCH_BYTES / (bytes + 10);
        let values: Vec<Bytes> =
            (0..count).map(|n| (0..bytes).map(|at| (n * 31 + at * 7) as u8).collect()).collect();
        Self {
            batch: encode(Vec::new(), &values),
            owned: values.iter().cloned().enumerate().map(|(n, value)| peer_record(n, value)).collect(),
            values,
            buffer: Vec::with_capacity(2 * BATCH_BYTES),
            out: BytesMut::with_capacity(2 * BATCH_BYTES),
        }
    }

    /// Records in the batch.
    #[must_use]
    pub fn records(&self) -> usize {
        self.values.len()
    }

    /// Does it once; a number that depends on all of it.
    pub fn run(&mut self, task: Task) -> usize {
        match task {
            Task::EncodeFloor => {
                self.buffer.clear();
                for value in black_box(&self.values) {
                    self.buffer.extend_from_slice(value);
                }
                crc32c::crc32c(&self.buffer) as usize
            }
            Task::Encode => {
                // The buffer goes into the batch and comes back: no allocation is measured, as in a sender's pool.
                let batch = encode(std::mem::take(&mut self.buffer), black_box(&self.values));
                self.buffer = recycle(batch).expect("nobody else holds it");
                self.buffer.len()
            }
            Task::EncodePeer => peer_encode(&mut self.out, black_box(&self.owned)),
            Task::EncodePeerCopies => {
                let owned = |(n, value): (usize, &Bytes)| peer_record(n, Bytes::copy_from_slice(value));
                let records: Vec<_> = black_box(&self.values).iter().enumerate().map(owned).collect();
                peer_encode(&mut self.out, &records)
            }
            Task::DecodeFloor => crc32c::crc32c(black_box(&self.batch)) as usize,
            Task::Decode => borrowed(black_box(self.batch.clone())),
            Task::DecodeOwned => owned(black_box(self.batch.clone())),
            Task::DecodePeer => RecordBatchDecoder::decode(&mut black_box(self.batch.clone()))
                .expect("it decodes")
                .records
                .len(),
        }
    }
}

fn encode(buffer: Vec<u8>, values: &[Bytes]) -> Bytes {
    let mut builder = BatchBuilder::with_buffer(buffer);
    for value in values {
        builder.append(&RecordRef::value(value), TIMESTAMP).expect("it fits");
    }
    let mut batch = builder.seal(Compression::None).expect("it has records");
    batch.stamp(STAMP);
    batch.freeze()
}

fn peer_record(offset: usize, value: Bytes) -> Record {
    let number = i32::try_from(offset).expect("a batch is small");
    Record {
        transactional: true,
        control: false,
        delete_horizon: false,
        partition_leader_epoch: -1,
        producer_id: 1000,
        producer_epoch: 3,
        timestamp_type: TimestampType::Creation,
        offset: i64::from(number),
        sequence: number,
        timestamp: TIMESTAMP,
        key: None,
        value: Some(value),
        headers: IndexMap::new(),
    }
}

fn peer_encode(buffer: &mut BytesMut, records: &[Record]) -> usize {
    let options = RecordEncodeOptions { version: 2, compression: PeerCompression::None };
    buffer.clear();
    RecordBatchEncoder::encode(buffer, records, &options).expect("it encodes");
    buffer.len()
}

fn borrowed(payload: Bytes) -> usize {
    let mut bytes = 0;
    for batch in Batches::new(payload) {
        let mut records = batch.expect("it is whole").records().expect("it is not compressed");
        while let Some(record) = records.next_view().expect("it is well formed") {
            bytes += record.value.map_or(0, <[u8]>::len);
        }
    }
    bytes
}

fn owned(payload: Bytes) -> usize {
    let batches = Batches::new(payload).map(|batch| batch.expect("it is whole"));
    batches.flat_map(|batch| batch.records().expect("it is not compressed")).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_tasks_do_the_same_work() {
        let mut codec = Codec::new(100);
        for (task, name) in Task::ALL {
            assert_eq!(name.parse::<Task>().unwrap(), task);
            assert!(codec.run(task) > 0, "{name}");
        }
        let records = codec.records();
        assert_eq!(codec.run(Task::Decode), 100 * records);
        assert_eq!((codec.run(Task::DecodeOwned), codec.run(Task::DecodePeer)), (records, records));
        assert_eq!(codec.run(Task::EncodePeer), codec.run(Task::EncodePeerCopies));
    }
}

//! Encoding and decoding one record batch of 128 KiB, beside the floor (one copy and one checksum) and beside the
//! batch code of the crate kafka-protocol, with and without the copies that its callers need.

use std::hint::black_box;

use bytes::{Bytes, BytesMut};
use criterion::{BatchSize, Criterion, Throughput};
use kafka_2pc::{
    ids::{Identity, ProducerEpoch, ProducerId},
    record::{Compression, RecordRef},
    wire::batch::{BatchBuilder, Batches, Stamp},
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

/// The values of one batch.
fn values(bytes: usize) -> Vec<Bytes> {
    let count = BATCH_BYTES / (bytes + 10);
    (0..count).map(|n| (0..bytes).map(|at| (n * 31 + at * 7) as u8).collect()).collect()
}

/// Our encoder into a buffer that is used again.
fn encode(buffer: Vec<u8>, values: &[Bytes]) -> Bytes {
    let mut builder = BatchBuilder::with_buffer(buffer);
    for value in values {
        builder.append(&RecordRef::value(value), TIMESTAMP).expect("it fits");
    }
    let mut batch = builder.seal(Compression::None).expect("it has records");
    batch.stamp(STAMP);
    batch.freeze()
}

/// What no encoder can go below: the payload copied once and read once.
fn floor(buffer: &mut Vec<u8>, values: &[Bytes]) -> u32 {
    buffer.clear();
    for value in values {
        buffer.extend_from_slice(value);
    }
    crc32c::crc32c(buffer)
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

fn peer_encode(buffer: &mut BytesMut, records: &[Record]) {
    let options = RecordEncodeOptions { version: 2, compression: PeerCompression::None };
    buffer.clear();
    RecordBatchEncoder::encode(buffer, records, &options).expect("it encodes");
}

fn encoding(c: &mut Criterion) {
    for bytes in [100, 1024] {
        let values = values(bytes);
        let mut group = c.benchmark_group(format!("encode/{bytes}B"));
        group.throughput(Throughput::Elements(values.len() as u64));
        let mut buffer = Vec::with_capacity(2 * BATCH_BYTES);
        group.bench_function("floor: memcpy + crc32c", |b| b.iter(|| floor(&mut buffer, black_box(&values))));
        group.bench_function("kafka-2pc", |b| {
            // The buffer goes into the batch and comes back: no allocation is measured, as in the sender's pool.
            let mut buffer = Vec::with_capacity(2 * BATCH_BYTES);
            b.iter(|| {
                let batch = encode(std::mem::take(&mut buffer), black_box(&values));
                buffer = kafka_2pc::wire::batch::recycle(batch).expect("nobody else holds it");
            });
        });
        let records: Vec<_> =
            values.iter().cloned().enumerate().map(|(n, value)| peer_record(n, value)).collect();
        let mut out = BytesMut::with_capacity(2 * BATCH_BYTES);
        group.bench_function("kafka-protocol", |b| b.iter(|| peer_encode(&mut out, black_box(&records))));
        group.bench_function("kafka-protocol from borrowed values", |b| {
            b.iter(|| {
                let owned = |(n, value): (usize, &Bytes)| peer_record(n, Bytes::copy_from_slice(value));
                let records: Vec<_> = black_box(&values).iter().enumerate().map(owned).collect();
                peer_encode(&mut out, &records);
            });
        });
        group.finish();
    }
}

fn decoding(c: &mut Criterion) {
    for bytes in [100, 1024] {
        let values = values(bytes);
        let batch = encode(Vec::new(), &values);
        let mut group = c.benchmark_group(format!("decode/{bytes}B"));
        group.throughput(Throughput::Elements(values.len() as u64));
        group.bench_function("floor: crc32c", |b| b.iter(|| crc32c::crc32c(black_box(&batch))));
        group.bench_function("kafka-2pc, borrowed", |b| b.iter(|| borrowed(black_box(batch.clone()))));
        group.bench_function("kafka-2pc, owned", |b| b.iter(|| owned(black_box(batch.clone()))));
        group.bench_function("kafka-protocol", |b| {
            b.iter_batched(
                || batch.clone(),
                |mut batch| RecordBatchDecoder::decode(&mut batch).expect("it decodes").records.len(),
                BatchSize::SmallInput,
            );
        });
        group.finish();
    }
}

/// Looks at every record in place.
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

/// Makes records that outlive the batch.
fn owned(payload: Bytes) -> usize {
    let batches = Batches::new(payload).map(|batch| batch.expect("it is whole"));
    batches.flat_map(|batch| batch.records().expect("it is not compressed")).count()
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    encoding(&mut criterion);
    decoding(&mut criterion);
    criterion.final_summary();
}

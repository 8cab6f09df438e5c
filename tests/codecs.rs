//! Batches that other people's clients have written, in every codec, record by record.
//!
//! `testdata/batches` tells where they come from.
#![expect(clippy::unwrap_used, reason = "tests and what they share")]

use bytes::Bytes;
use kafka_2pc::record::{Compression, CompressionLevels, StoredRecord};
use kafka_2pc::wire::batch::{Batch, BatchError, Batches, HEADER_BYTES, Tail};
use kafka_2pc_protocol_tests::foreign::{self, Record};

const WRITERS: [&str; 3] = ["aiokafka", "java", "librdkafka"];

/// The log of a partition of one writer in one codec.
fn log(writer: &str, codec: Compression) -> Bytes {
    let path = format!("{}/testdata/batches/{writer}-{codec}.log", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}")).into()
}

/// Its batches of records.
fn batches(log: Bytes) -> Vec<Batch> {
    let mut walk = Batches::new(log);
    let batches: Vec<_> = walk.by_ref().map(Result::unwrap).collect();
    assert_eq!(walk.tail(), Tail::Clean);
    batches.into_iter().filter(|batch| !batch.header().is_control()).collect()
}

fn each(mut test: impl FnMut(&str, Compression, Vec<Batch>)) {
    for codec in Compression::ALL {
        for writer in WRITERS {
            test(writer, codec, batches(log(writer, codec)));
        }
    }
}

fn expected(codec: Compression) -> Vec<Record> {
    let lines = foreign::lines(60, codec != Compression::None);
    (1..).zip(lines).map(|(number, line)| Record::shaped(number, &line)).collect()
}

fn seen(record: StoredRecord) -> Record {
    let headers = record.headers.into_iter();
    Record {
        partition: 0,
        offset: record.offset,
        timestamp_ms: record.timestamp,
        key: record.key.map(Vec::from),
        value: record.value.map(Vec::from),
        headers: headers
            .map(|h| (String::from_utf8(h.key.into()).unwrap(), h.value.map(Vec::from)))
            .collect(),
    }
}

#[test]
fn every_record_of_every_writer_is_read() {
    each(|writer, codec, batches| {
        assert!(batches.iter().all(|batch| batch.compression() == Some(codec)), "{writer} {codec}");
        if !codec.is_built() {
            let error = batches[0].records().unwrap_err();
            assert!(matches!(error, BatchError::Codec { .. }), "{writer} {codec}: {error}");
            return;
        }
        let mut read = Vec::new();
        for batch in &batches {
            let header = batch.header();
            let records: Vec<_> = batch.records().unwrap().map(|record| seen(record.unwrap())).collect();
            let latest = records.iter().map(|record| record.timestamp_ms).max();
            assert_eq!(latest, Some(header.max_timestamp), "{writer} {codec}");
            read.extend(records);
        }
        let mut expected = expected(codec);
        if writer == "java" {
            // Kafka's console stamps its own time.
            let stamps = read.iter().map(|record| record.timestamp_ms);
            expected.iter_mut().zip(stamps).for_each(|(record, stamp)| record.timestamp_ms = stamp);
        }
        assert_eq!(read.len(), expected.len(), "{writer} {codec}");
        for (read, expected) in read.iter().zip(&expected) {
            assert_eq!(read, expected, "{writer} {codec}");
        }
    });
}

/// So that framings of several blocks are among them, and both framings of snappy.
#[test]
fn the_recorded_batches_are_large_enough() {
    each(|writer, codec, batches| {
        let records = |batch: &Batch| batch.recompressed(Compression::None, CompressionLevels::default());
        if codec.is_built() && codec != Compression::None {
            let largest = batches.iter().map(|batch| records(batch).unwrap().bytes().len()).max().unwrap();
            assert!(largest > 100 << 10, "{writer} {codec}: {largest}");
        }
        if codec == Compression::Snappy {
            let framed = batches[0].bytes()[HEADER_BYTES..].starts_with(b"\x82SNAPPY\0");
            assert_eq!(framed, writer != "librdkafka", "{writer}");
        }
    });
}

#[test]
fn what_was_read_is_written_and_read_again() {
    each(|writer, codec, batches| {
        for batch in batches.iter().filter(|_| codec.is_built()) {
            let records = |batch: &Batch| batch.records().unwrap().map(Result::unwrap).collect::<Vec<_>>();
            for other in Compression::ALL.into_iter().filter(|other| other.is_built()) {
                let copy = batch.recompressed(other, CompressionLevels::default()).unwrap();
                assert_eq!(records(&copy), records(batch), "{writer} {codec} as {other}");
            }
        }
    });
}

#[test]
fn a_changed_byte_is_noticed() {
    each(|writer, codec, batches| {
        let bytes = batches[0].bytes();
        for at in (HEADER_BYTES..bytes.len()).step_by(bytes.len() / 50) {
            let mut changed = bytes.to_vec();
            changed[at] ^= 1;
            let read = Batches::new(changed.into()).next().unwrap();
            assert!(matches!(read, Err(BatchError::Checksum { .. })), "{writer} {codec} at {at}");
        }
    });
}

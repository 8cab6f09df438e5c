//! The builder, alone and before the decoder of `kafka-protocol`.

use bytes::Bytes;
use kafka_protocol::records::{Record as ForeignRecord, RecordBatchDecoder};
use proptest::prelude::*;

use super::{Sample, any_samples, batch_of, seal};
use crate::{
    ids::Identity,
    record::{Compression, CompressionLevels, HeaderRef, RecordRef},
    wire::batch::{
        Batch, BatchBuilder, BatchFull, ControlMarker, ControlType, HEADER_BYTES, SealError, SealedBatch,
        SplitError, Stamp, control_batch, recycle,
    },
};

fn transactional(epoch: i16, base_sequence: i32) -> Stamp {
    Stamp::Transactional { identity: Identity::new(4_001, epoch), base_sequence }
}

/// What `kafka-protocol` reads from one batch.
fn decode(batch: &Bytes) -> Vec<ForeignRecord> {
    RecordBatchDecoder::decode(&mut batch.clone()).unwrap().records
}

/// The sample as far as `kafka-protocol` can tell it: header keys are text and unique, times do not overflow.
fn plain(mut sample: Sample) -> Sample {
    for (i, (key, _)) in sample.headers.iter_mut().enumerate() {
        *key = format!("key {i}").into_bytes();
    }
    sample.timestamp &= (1 << 60) - 1;
    sample
}

#[test]
fn the_bytes_of_a_small_batch_are_those_of_the_format() {
    let mut batch = seal(&[Sample::value("hi")], Compression::None);
    batch.stamp(transactional(3, 9));
    let bytes = batch.freeze();
    let mut expected = vec![0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 58, 255, 255, 255, 255, 2];
    expected.extend_from_slice(&crc32c::crc32c(&bytes[21..]).to_be_bytes());
    expected.extend_from_slice(&[0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 232, 0, 0, 0, 0, 0, 0, 3, 232]);
    expected.extend_from_slice(&[0, 0, 0, 0, 0, 0, 15, 161, 0, 3, 0, 0, 0, 9, 0, 0, 0, 1]);
    // Length 8, attributes 0, both deltas 0, null key, two bytes of value, no headers.
    expected.extend_from_slice(&[16, 0, 0, 0, 1, 4, b'h', b'i', 0]);
    assert_eq!(bytes, expected);
}

#[test]
fn a_batch_without_records_is_not_sealed() {
    assert_eq!(BatchBuilder::new().seal(Compression::None).unwrap_err(), SealError::Empty);
}

#[test]
fn a_record_that_passes_two_gibibytes_leaves_the_batch_as_it_was() {
    let large = vec![0; 1 << 20];
    let headers = vec![HeaderRef { key: b"", value: Some(&large) }; 2_048];
    let mut builder = BatchBuilder::new();
    builder.append(&RecordRef::value(b"small"), 0).unwrap();
    let before = builder.len_bytes();
    let record = RecordRef { headers: &headers, ..RecordRef::default() };
    let full = builder.append(&record, 0).unwrap_err();
    assert_eq!(full, BatchFull { record_bytes: builder.size_of(&record, 0), batch_bytes: before });
    assert_eq!((builder.count(), builder.len_bytes()), (1, before));
}

#[test]
fn a_batch_is_stamped_for_another_epoch_without_another_encoding() {
    let mut batch = seal(&[Sample::value("a"), Sample::value("b")], Compression::None);
    batch.stamp(transactional(0, 17));
    let first = batch.freeze();
    let mut batch = SealedBatch::reopen(first.slice(..).to_vec().into()).unwrap();
    batch.stamp(transactional(1, 0));
    let second = batch.freeze();
    assert_eq!(first[HEADER_BYTES..], second[HEADER_BYTES..]);
    let (old, new) = (decode(&first), decode(&second));
    assert_eq!((old[1].producer_epoch, old[1].sequence, old[1].transactional), (0, 18, true));
    assert_eq!((new[1].producer_epoch, new[1].sequence, new[1].transactional), (1, 1, true));
}

#[test]
fn a_stamp_without_transaction_takes_the_transactional_bit_away() {
    let mut batch = seal(&[Sample::value("a")], Compression::None);
    batch.stamp(transactional(0, 17));
    batch.stamp(Stamp::Idempotent { identity: Identity::new(5, 1), base_sequence: 2 });
    let record = decode(&batch.freeze()).remove(0);
    assert_eq!((record.producer_id, record.producer_epoch, record.sequence), (5, 1, 2));
    assert!(!record.transactional);
    let record = decode(&batch_of(&["a"])).remove(0);
    assert_eq!((record.producer_id, record.producer_epoch, record.sequence), (-1, -1, -1));
}

#[test]
fn a_buffer_comes_back_only_when_nobody_else_holds_the_batch() {
    let sent = batch_of(&["a"]);
    let held = sent.clone();
    assert_eq!(recycle(sent), None);
    let address = held.as_ptr();
    let buffer = recycle(held).unwrap();
    assert_eq!(buffer.as_ptr(), address);
    let builder = BatchBuilder::with_buffer(buffer);
    assert_eq!((builder.is_empty(), builder.len_bytes()), (true, HEADER_BYTES));
    assert!(SealedBatch::reopen(Bytes::from_static(b"short")).is_err());
}

#[test]
fn a_marker_is_a_control_batch() {
    let marker = ControlMarker {
        identity: Identity::new(7, 32_767),
        control_type: ControlType::Commit,
        coordinator_epoch: 12,
        timestamp: 99,
    };
    let record = decode(&control_batch(&marker).freeze()).remove(0);
    assert!(record.control && record.transactional);
    assert_eq!((record.producer_id, record.producer_epoch, record.sequence), (7, 32_767, -1));
    assert_eq!(record.key.unwrap(), [0u8, 0, 0, 1][..]);
    assert_eq!(record.value.unwrap(), [0u8, 0, 0, 0, 0, 12][..]);
    assert_eq!(record.timestamp, 99);
}

proptest! {
    #[test]
    fn sizes_are_known_before_a_record_is_appended(samples in any_samples()) {
        let mut builder = BatchBuilder::new();
        for sample in &samples {
            let before = builder.len_bytes();
            let size = sample.with_ref(|record| builder.size_of(record, sample.timestamp));
            sample.with_ref(|record| builder.append(record, sample.timestamp)).unwrap();
            prop_assert_eq!(builder.len_bytes(), before + size);
        }
        let len = builder.len_bytes();
        let batch = builder.seal(Compression::None).unwrap();
        prop_assert_eq!(batch.len(), len);
        prop_assert_eq!(usize::try_from(batch.count()).unwrap(), samples.len());
        prop_assert_eq!(batch.base_timestamp(), samples[0].timestamp);
        prop_assert_eq!(batch.max_timestamp(), samples.iter().map(|s| s.timestamp).max().unwrap());
    }

    #[test]
    fn a_foreign_decoder_reads_what_was_appended(samples in any_samples(), sequence in 0..i32::MAX - 20) {
        let samples: Vec<_> = samples.into_iter().map(plain).collect();
        let mut batch = seal(&samples, Compression::None);
        batch.stamp(transactional(5, sequence));
        let records = decode(&batch.freeze());
        prop_assert_eq!(records.len(), samples.len());
        for (i, (record, sample)) in (0i32..).zip(records.into_iter().zip(samples)) {
            prop_assert_eq!((record.offset, record.sequence), (i64::from(i), sequence + i));
            prop_assert_eq!((record.producer_id, record.producer_epoch, record.transactional), (4_001, 5, true));
            let headers = record.headers.into_iter()
                .map(|(key, value)| (key.as_bytes().to_vec(), value.map(|v| v.to_vec()))).collect();
            let read = Sample {
                timestamp: record.timestamp,
                key: record.key.map(|key| key.to_vec()),
                value: record.value.map(|value| value.to_vec()),
                headers,
            };
            prop_assert_eq!(read, sample);
        }
    }
}

#[test]
fn a_split_batch_keeps_its_records_their_times_and_its_codec() {
    for codec in Compression::ALL.into_iter().filter(|codec| codec.is_built()) {
        let mut samples: Vec<_> = (0..7u8).map(|n| Sample::value(&format!("value {n}"))).collect();
        samples[3].timestamp = 7;
        samples[3].headers = vec![(b"k".to_vec(), None), (b"k".to_vec(), Some(b"v".to_vec()))];
        let whole = Batch::produced(seal(&samples, codec).freeze()).unwrap();
        let (first, second) = whole.split(CompressionLevels::default()).unwrap();
        assert_eq!((first.count(), second.count()), (3, 4));
        let records = |batch: Bytes| Batch::produced(batch).unwrap().records().unwrap().map(Result::unwrap);
        let whole_records: Vec<_> = whole.records().unwrap().map(Result::unwrap).collect();
        let parts = records(first.freeze()).chain(records(second.freeze()).map(|mut record| {
            record.offset += 3;
            record
        }));
        assert_eq!(parts.collect::<Vec<_>>(), whole_records, "{codec}");
    }
    let one = Batch::produced(seal(&[Sample::value("alone")], Compression::None).freeze()).unwrap();
    assert_eq!(one.split(CompressionLevels::default()).unwrap_err(), SplitError::OneRecord);
}

//! The reader on batches as builders, brokers and compaction leave them.

use bytes::{Bytes, BytesMut};
use kafka_protocol::{
    indexmap::IndexMap,
    protocol::StrBytes,
    records::{
        Compression as ForeignCompression, Record as ForeignRecord, RecordBatchEncoder, RecordEncodeOptions,
        TimestampType as ForeignTimestampType,
    },
};
use proptest::prelude::*;

use super::{Sample, any_compression, any_samples, batch_of, forged, read, records, seal, with_body};
use crate::{
    ids::Identity,
    record::{Compression, StoredRecord},
    wire::batch::{
        Batch, BatchError, BatchHeader, Batches, ControlMarker, ControlRecord, ControlType, Stamp, Tail,
        TimestampType, at, bit, control_batch,
    },
};

fn texts(records: &[StoredRecord]) -> Vec<(i64, &str)> {
    records.iter().map(|r| (r.offset, std::str::from_utf8(r.value.as_ref().unwrap()).unwrap())).collect()
}

/// Three batches at offsets 5, 7 and 8.
fn three_batches() -> (Vec<u8>, [usize; 3]) {
    let mut payload = Vec::new();
    let mut ends = [0; 3];
    for (i, (offset, values)) in
        [(5i64, &["a", "b"][..]), (7, &["c"]), (8, &["d", "e"])].into_iter().enumerate()
    {
        payload.extend_from_slice(&forged(&batch_of(values), at::BASE_OFFSET, offset.to_be_bytes()));
        ends[i] = payload.len();
    }
    (payload, ends)
}

#[test]
fn a_payload_cut_anywhere_gives_its_complete_batches() {
    let (payload, ends) = three_batches();
    let payload = Bytes::from(payload);
    for cut in 0..=payload.len() {
        let mut batches = Batches::new(payload.slice(..cut));
        let read: Vec<_> = batches.by_ref().map(Result::unwrap).collect();
        let complete = ends.iter().filter(|end| **end <= cut).count();
        assert_eq!(read.len(), complete, "cut at {cut}");
        let next = read.last().map(|batch| batch.header().next_offset());
        assert_eq!(next, [None, Some(7), Some(8), Some(10)][complete], "cut at {cut}");
        let bytes = cut - [0, ends[0], ends[1], ends[2]][complete];
        let tail = match (bytes, complete) {
            (0, _) => Tail::Clean,
            (_, 0) => Tail::FirstCut { bytes, needed_bytes: (bytes >= 12).then_some(ends[0]) },
            _ => Tail::Cut { bytes },
        };
        assert_eq!(batches.tail(), tail, "cut at {cut}");
    }
}

#[test]
fn repeated_strange_and_null_headers_come_back_in_order() {
    let headers = vec![
        (b"a".to_vec(), Some(b"1".to_vec())),
        (b"a".to_vec(), Some(b"2".to_vec())),
        (b"a".to_vec(), None),
        (b"".to_vec(), Some(b"".to_vec())),
        (vec![0xff], Some(b"x".to_vec())),
    ];
    let sample = Sample { headers, ..Sample::value("v") };
    let batch = read(seal(std::slice::from_ref(&sample), Compression::None).freeze()).unwrap();
    let mut views = batch.records().unwrap();
    let view = views.next_view().unwrap().unwrap();
    let borrowed: Vec<_> = view.headers().map(|h| (h.key.to_vec(), h.value.map(<[u8]>::to_vec))).collect();
    assert_eq!(borrowed, sample.headers);
    assert_eq!(Sample::from_record(records(&batch).unwrap().remove(0)), sample);
}

#[test]
fn null_and_empty_stay_apart() {
    let fields = [None, Some(Vec::new())];
    let samples: Vec<_> = [(0, 0), (0, 1), (1, 0), (1, 1)]
        .map(|(k, v)| Sample { key: fields[k].clone(), value: fields[v].clone(), ..Sample::value("") })
        .into();
    let batch = read(seal(&samples, Compression::None).freeze()).unwrap();
    let read: Vec<_> = records(&batch).unwrap().into_iter().map(Sample::from_record).collect();
    assert_eq!(read, samples);
}

#[test]
fn timestamps_come_back_from_any_distance() {
    const FAR: i64 = (1 << 31) + 1;
    for times in [
        vec![0, FAR, -FAR],
        vec![-1, 1_700_000_000_000],
        vec![i64::MIN, i64::MAX, 0, -1],
        vec![i64::MAX, i64::MIN],
        vec![-1, -1],
    ] {
        let samples: Vec<_> =
            times.iter().map(|timestamp| Sample { timestamp: *timestamp, ..Sample::value("") }).collect();
        let batch = read(seal(&samples, Compression::None).freeze()).unwrap();
        let read: Vec<_> = records(&batch).unwrap().iter().map(|record| record.timestamp).collect();
        assert_eq!(read, times);
        assert_eq!(batch.header().max_timestamp, *times.iter().max().unwrap());
        assert_eq!(batch.header().timestamp_type(), TimestampType::Create);
    }
}

#[test]
fn append_time_is_the_time_of_every_record() {
    let samples = [1_000, 1_005].map(|timestamp| Sample { timestamp, ..Sample::value("v") });
    let sent = read(seal(&samples, Compression::None).freeze()).unwrap();
    let stored = sent.placed(40, 3, Some(999_999)).unwrap();
    let read = read(stored.bytes().clone()).unwrap();
    assert_eq!(read.header().timestamp_type(), TimestampType::Append);
    assert_eq!(read.header().partition_leader_epoch, 3);
    let times: Vec<_> = records(&read).unwrap().iter().map(|r| (r.offset, r.timestamp)).collect();
    assert_eq!(times, [(40, 999_999), (41, 999_999)]);
}

#[test]
fn placing_a_batch_keeps_its_checksum_and_its_records() {
    let sent = read(batch_of(&["a", "b"])).unwrap();
    let stored = sent.placed(i64::MAX - 2, 7, None).unwrap();
    assert_eq!(stored.header().crc, sent.header().crc);
    let stored = read(stored.bytes().clone()).unwrap();
    assert_eq!(texts(&records(&stored).unwrap()), [(i64::MAX - 2, "a"), (i64::MAX - 1, "b")]);
    assert_eq!(stored.header().next_offset(), i64::MAX);
    let beyond = sent.placed(i64::MAX - 1, 7, None).unwrap_err();
    assert_eq!(beyond, BatchError::Offsets { base_offset: i64::MAX - 1, last_offset_delta: 1 });
}

#[test]
fn an_emptied_batch_moves_the_reader_on() {
    let empty = with_body(0, &[]);
    let empty = forged(&empty, at::LAST_OFFSET_DELTA, 41i32.to_be_bytes());
    let batch = read(empty).unwrap();
    assert_eq!(batch.header().next_offset(), 42);
    assert_eq!(records(&batch).unwrap(), []);
    // Compaction may leave the codec in the header of a batch that has nothing left to decompress.
    let empty = forged(batch.bytes(), at::ATTRIBUTES, 4i16.to_be_bytes());
    assert_eq!(records(&read(empty).unwrap()).unwrap(), []);
}

#[test]
fn a_batch_that_is_emptied_keeps_its_place_and_its_producer() {
    let identity = Identity::new(7, 2);
    for compression in compressions() {
        let mut sealed = seal(&["a", "a", "a"].map(Sample::value), compression);
        sealed.stamp(Stamp::Transactional { identity, base_sequence: 4 });
        let full = read(sealed.freeze()).unwrap().placed(100, 3, None).unwrap();
        let empty = read(full.emptied().unwrap().bytes().clone()).unwrap();
        let header = *empty.header();
        assert_eq!((header.base_offset, header.next_offset(), header.count), (100, 103, 0));
        assert_eq!((header.identity(), header.last_sequence()), (Some(identity), 6));
        assert_eq!((header.partition_leader_epoch, header.is_transactional()), (3, true));
        assert_eq!(records(&empty).unwrap(), []);
    }
    let empty = read(marker(ControlType::Abort)).unwrap().emptied().unwrap();
    assert_eq!((empty.header().is_control(), empty.control().unwrap()), (true, None));
}

fn compressions() -> Vec<Compression> {
    let mut all = vec![Compression::None];
    if cfg!(feature = "lz4") {
        all.push(Compression::Lz4);
    }
    all
}

#[test]
fn compaction_leaves_gaps_between_offsets() {
    // Offset deltas 1 and 4 of a batch that ended at delta 9.
    let body = [14, 0, 0, 2, 1, 2, b'b', 0, 14, 0, 0, 8, 1, 2, b'e', 0];
    let batch = forged(&with_body(2, &body), at::LAST_OFFSET_DELTA, 9i32.to_be_bytes());
    let batch = read(forged(&batch, at::BASE_OFFSET, 100i64.to_be_bytes())).unwrap();
    assert_eq!(texts(&records(&batch).unwrap()), [(101, "b"), (104, "e")]);
    assert_eq!(batch.header().next_offset(), 110);
}

#[test]
fn sequence_numbers_may_wrap_inside_one_batch() {
    let mut batch = seal(&["a", "b", "c", "d"].map(Sample::value), Compression::None);
    let identity = Identity::new(1, 0);
    batch.stamp(Stamp::Transactional { identity, base_sequence: i32::MAX - 1 });
    let header = *Batch::produced(batch.freeze()).unwrap().header();
    assert_eq!((header.base_sequence, header.last_sequence()), (i32::MAX - 1, 1));
    assert_eq!(header.identity(), Some(identity));
    assert_eq!(read(batch_of(&["a"])).unwrap().header().last_sequence(), -1);
}

fn marker(control_type: ControlType) -> Bytes {
    let identity = Identity::new(7, 2);
    control_batch(&ControlMarker { identity, control_type, coordinator_epoch: 12, timestamp: 5 }).freeze()
}

#[test]
fn markers_tell_what_they_are() {
    for control_type in
        [ControlType::Commit, ControlType::Abort, ControlType::Other(6), ControlType::Other(-1)]
    {
        let batch = read(marker(control_type)).unwrap();
        let header = batch.header();
        assert!(header.is_control() && header.is_transactional());
        assert_eq!((header.identity(), header.base_sequence), (Some(Identity::new(7, 2)), -1));
        let is_known = !matches!(control_type, ControlType::Other(_));
        let coordinator_epoch = is_known.then_some(12);
        assert_eq!(batch.control(), Ok(Some(ControlRecord { control_type, coordinator_epoch })));
    }
}

#[test]
fn an_emptied_control_batch_is_no_marker() {
    let empty = forged(&with_body(0, &[]), at::ATTRIBUTES, (bit::CONTROL | bit::TRANSACTIONAL).to_be_bytes());
    let batch = read(empty).unwrap();
    assert!(batch.header().is_control());
    assert_eq!(batch.control(), Ok(None));
    assert_eq!(batch.header().next_offset(), 1);
}

#[test]
fn a_data_batch_is_no_marker() {
    assert_eq!(read(batch_of(&["a"])).unwrap().control(), Ok(None));
}

#[test]
fn the_delete_horizon_stands_in_the_base_timestamp() {
    let batch = batch_of(&["a"]);
    assert_eq!(BatchHeader::parse(&batch).unwrap().delete_horizon(), None);
    let batch = forged(&batch, at::ATTRIBUTES, bit::DELETE_HORIZON.to_be_bytes());
    assert_eq!(BatchHeader::parse(&batch).unwrap().delete_horizon(), Some(1_000));
}

/// The sample as `kafka-protocol` writes it; repeated header keys are lost there.
fn foreign(offset: i32, sample: &Sample) -> ForeignRecord {
    let headers: IndexMap<_, _> = sample
        .headers
        .iter()
        .map(|(_, value)| (StrBytes::from_static_str("key"), value.clone().map(Bytes::from)))
        .collect();
    ForeignRecord {
        transactional: true,
        control: false,
        delete_horizon: false,
        partition_leader_epoch: 4,
        producer_id: 11,
        producer_epoch: 2,
        timestamp_type: ForeignTimestampType::Creation,
        offset: 1_000 + i64::from(offset),
        sequence: 50 + offset,
        timestamp: sample.timestamp,
        key: sample.key.clone().map(Bytes::from),
        value: sample.value.clone().map(Bytes::from),
        headers,
    }
}

proptest! {
    #[test]
    fn what_was_built_is_read(samples in any_samples(), compression in any_compression()) {
        let batch = Batch::produced(seal(&samples, compression).freeze()).unwrap();
        let read: Vec<_> = records(&batch).unwrap().into_iter().map(Sample::from_record).collect();
        prop_assert_eq!(&read, &samples);
        let mut views = batch.records().unwrap();
        let mut seen = 0;
        while let Some(view) = views.next_view().unwrap() {
            let sample = &samples[seen];
            prop_assert_eq!((view.key, view.value), (sample.key.as_deref(), sample.value.as_deref()));
            prop_assert_eq!((view.timestamp, usize::try_from(view.offset)), (sample.timestamp, Ok(seen)));
            seen += 1;
        }
        prop_assert_eq!(seen, samples.len());
    }

    #[test]
    fn what_a_foreign_encoder_writes_is_read(mut samples in any_samples()) {
        for sample in &mut samples {
            sample.timestamp &= (1 << 60) - 1;
        }
        let foreign: Vec<_> = (0..).zip(&samples).map(|(i, sample)| foreign(i, sample)).collect();
        let mut bytes = BytesMut::new();
        let options = RecordEncodeOptions { version: 2, compression: ForeignCompression::None };
        RecordBatchEncoder::encode(&mut bytes, &foreign, &options).unwrap();
        let batch = read(bytes.freeze()).unwrap();
        let header = batch.header();
        prop_assert_eq!((header.partition_leader_epoch, header.base_sequence), (4, 50));
        prop_assert_eq!(header.identity(), Some(Identity::new(11, 2)));
        let records = records(&batch).unwrap();
        prop_assert_eq!(records.len(), samples.len());
        for (record, foreign) in records.into_iter().zip(foreign) {
            prop_assert_eq!((record.offset, record.timestamp), (foreign.offset, foreign.timestamp));
            prop_assert_eq!((record.key, record.value), (foreign.key, foreign.value));
            let headers: Vec<_> = record.headers.into_iter().map(|h| (h.key, h.value)).collect();
            let expected: Vec<_> = foreign.headers.into_iter().map(|(k, v)| (Bytes::from(k), v)).collect();
            prop_assert_eq!(headers, expected);
        }
    }
}

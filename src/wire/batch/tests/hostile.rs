//! The reader on bytes that are damaged, or lie.

use bytes::Bytes;
use proptest::prelude::*;

use super::{any_compression, any_samples, batch_of, forged, put_crc, read, records, seal, with_body};
use crate::{
    ids::Identity,
    wire::batch::{
        Batch, BatchError, Batches, ControlMarker, ControlType, HEADER_BYTES, MAX_HEADERS, RecordFault, at,
        bit, control_batch,
    },
};

/// Reads everything there is to read, and counts the records.
fn drain(payload: Bytes) -> usize {
    let mut count = 0;
    for batch in Batches::new(payload).map_while(Result::ok) {
        let _ = batch.control();
        let _ = batch.placed(i64::MAX - 5, 0, Some(1));
        assert!(batch.header().next_offset() > batch.header().base_offset);
        let Ok(records) = batch.records_within(1 << 20) else { continue };
        for record in records.map_while(Result::ok) {
            assert!(
                record.offset >= batch.header().base_offset && record.offset < batch.header().next_offset()
            );
            count += 1;
        }
    }
    count
}

/// What is wrong with a batch of one record with these bytes behind its length.
fn fault(record: &[u8]) -> RecordFault {
    let mut body = vec![u8::try_from(record.len() * 2).unwrap()];
    body.extend_from_slice(record);
    let error = records(&read(with_body(1, &body)).unwrap()).unwrap_err();
    let BatchError::Record { index: 0, fault } = error else { panic!("{error}") };
    fault
}

#[test]
fn other_formats_are_refused_by_name() {
    for magic in [0u8, 1] {
        let batch = forged(&batch_of(&["a"]), at::MAGIC, [magic]);
        assert_eq!(read(batch).unwrap_err(), BatchError::OldFormat { magic });
    }
    for magic in [3u8, 127, 128, 255] {
        let batch = forged(&batch_of(&["a"]), at::MAGIC, [magic]);
        assert_eq!(read(batch).unwrap_err(), BatchError::UnknownFormat { magic });
    }
    // A message set of format 1 is shorter than the header of a batch.
    let mut message = vec![0; 34];
    message[11] = 22;
    message[16] = 1;
    assert_eq!(read(message).unwrap_err(), BatchError::OldFormat { magic: 1 });
}

#[test]
fn impossible_lengths_are_refused() {
    for length in [i32::MIN, -1, 0, 13, 14, 48] {
        let batch = forged(&batch_of(&["a"]), at::LENGTH, length.to_be_bytes());
        assert_eq!(read(batch).unwrap_err(), BatchError::Length { length });
    }
}

#[test]
fn a_length_that_takes_the_next_batch_in_fails_the_checksum() {
    let mut payload = batch_of(&["a"]).to_vec();
    payload.extend_from_slice(&batch_of(&["b"]));
    let length = i32::try_from(payload.len() - 12).unwrap();
    payload[at::LENGTH..at::LENGTH + 4].copy_from_slice(&length.to_be_bytes());
    assert!(matches!(read(payload), Err(BatchError::Checksum { .. })));
}

#[test]
fn a_changed_byte_fails_the_checksum() {
    let batch = batch_of(&["a"]);
    for at in at::CRC..batch.len() {
        let mut batch = batch.to_vec();
        batch[at] ^= 0x40;
        let error = read(batch).unwrap_err();
        // Some changes show before the checksum is looked at.
        let is_refused = matches!(
            error,
            BatchError::Checksum { .. } | BatchError::Offsets { .. } | BatchError::Count { .. }
        );
        assert!(is_refused, "byte {at}: {error}");
    }
}

#[test]
fn offsets_outside_of_their_range_are_refused() {
    let batch = batch_of(&["a", "b"]);
    for base_offset in [-1, i64::MIN, i64::MAX, i64::MAX - 1] {
        let batch = forged(&batch, at::BASE_OFFSET, base_offset.to_be_bytes());
        assert_eq!(read(batch).unwrap_err(), BatchError::Offsets { base_offset, last_offset_delta: 1 });
    }
    let negative = forged(&batch, at::LAST_OFFSET_DELTA, (-2i32).to_be_bytes());
    assert_eq!(read(negative).unwrap_err(), BatchError::Offsets { base_offset: 0, last_offset_delta: -2 });
}

#[test]
fn batches_that_overlap_or_run_backwards_are_refused() {
    let first = forged(&batch_of(&["a", "b"]), at::BASE_OFFSET, 10i64.to_be_bytes());
    for base_offset in [11i64, 10, 0] {
        let mut payload = first.clone();
        payload.extend_from_slice(&forged(&first, at::BASE_OFFSET, base_offset.to_be_bytes()));
        let results: Vec<_> = Batches::new(payload.into()).collect();
        assert_eq!(results.len(), 2);
        assert_eq!(*results[1].as_ref().unwrap_err(), BatchError::Order { base_offset, expected: 12 });
    }
}

#[test]
fn the_order_of_batches_is_known_before_the_first_one_is_read() {
    let at = |base_offset: i64| forged(&batch_of(&["a", "b"]), at::BASE_OFFSET, base_offset.to_be_bytes());
    let payload = |offsets: &[i64]| offsets.iter().flat_map(|offset| at(*offset)).collect::<Vec<_>>();
    for good in [&[][..], &[7], &[0, 2, 90]] {
        assert!(Batches::check_order(&payload(good)).is_ok());
    }
    for (bad, expected) in [([5, 6], 7), ([9, 0], 11)] {
        let base_offset = bad[1];
        assert_eq!(Batches::check_order(&payload(&bad)), Err(BatchError::Order { base_offset, expected }));
    }
    // What is cut, or is no batch, is judged when it is read.
    let whole = payload(&[9, 11]);
    assert_eq!(Batches::check_order(&whole[..whole.len() - 1]).map(|b| b.map(|b| b.offset)), Ok(Some(11)));
    assert_eq!(Batches::check_order(&[0xff; 200]), Ok(None));
}

#[test]
fn a_count_that_its_bytes_can_not_hold_is_refused_with_the_header() {
    let batch = batch_of(&["a"]);
    let huge = forged(&batch, at::LAST_OFFSET_DELTA, i32::MAX.to_be_bytes());
    let huge = forged(&huge, at::COUNT, i32::MAX.to_be_bytes());
    assert!(matches!(read(huge), Err(BatchError::Count { count: i32::MAX, .. })));
}

#[test]
fn counts_that_cannot_be_are_refused() {
    let batch = batch_of(&["a"]);
    for count in [i32::MAX, 2, -1, i32::MIN] {
        let forged = forged(&batch, at::COUNT, count.to_be_bytes());
        assert_eq!(read(forged).unwrap_err(), BatchError::Count { count, last_offset_delta: 0, bytes: 8 });
    }
    let many = forged(&batch, at::LAST_OFFSET_DELTA, (i32::MAX - 1).to_be_bytes());
    let many = forged(&many, at::COUNT, i32::MAX.to_be_bytes());
    let refused = BatchError::Count { count: i32::MAX, last_offset_delta: i32::MAX - 1, bytes: 8 };
    assert_eq!(read(many).unwrap_err(), refused);
    let none = read(forged(&batch, at::COUNT, 0i32.to_be_bytes())).unwrap();
    assert_eq!(records(&none).unwrap_err(), BatchError::Trailing { bytes: 8 });
}

#[test]
fn records_that_do_not_fill_their_batch_are_refused() {
    let record = [14, 0, 0, 0, 1, 2, b'v', 0];
    let two = [record, [14, 0, 0, 2, 1, 2, b'v', 0]].concat();
    assert_eq!(records(&read(with_body(2, &two)).unwrap()).unwrap().len(), 2);
    assert_eq!(records(&read(with_body(1, &two)).unwrap()).unwrap_err(), BatchError::Trailing { bytes: 8 });
    let short = records(&read(with_body(2, &two[..15])).unwrap()).unwrap_err();
    assert_eq!(short, BatchError::Record { index: 1, fault: RecordFault::End });
}

#[test]
fn malformed_records_are_refused() {
    assert_eq!(fault(&[0, 0, 0, 1, 2, b'v']), RecordFault::End);
    assert_eq!(fault(&[0, 0, 0, 1, 2, b'v', 0, 9]), RecordFault::Rest(1));
    assert_eq!(fault(&[0, 0, 0, 3, 2, b'v', 0]), RecordFault::Length(-2));
    assert_eq!(fault(&[0, 0, 0, 1, 40, b'v', 0]), RecordFault::End);
    assert_eq!(fault(&[0, 0, 1, 1, 2, b'v', 0]), RecordFault::Offset(-1));
    assert_eq!(fault(&[0, 0, 2, 1, 2, b'v', 0]), RecordFault::Offset(1));
    assert_eq!(fault(&[0, 0, 0, 1, 2, b'v', 1]), RecordFault::HeaderCount(-1));
    assert_eq!(fault(&[0, 0, 0, 1, 2, b'v', 2, 1, 1]), RecordFault::Length(-1));
    assert_eq!(fault(&[0, 0, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 0]), RecordFault::Varint);
    assert_eq!(fault(&[0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0x1f, 0]), RecordFault::Varint);
    let negative = read(with_body(1, &[1, 0, 0, 0, 1, 2, b'v', 0])).unwrap();
    let refused = BatchError::Record { index: 0, fault: RecordFault::Length(-1) };
    assert_eq!(records(&negative).unwrap_err(), refused);
}

#[test]
fn header_counts_that_cannot_be_are_refused() {
    assert_eq!(
        fault(&[0, 0, 0, 1, 2, b'v', 0xfe, 0xff, 0xff, 0xff, 0x0f]),
        RecordFault::HeaderCount(i32::MAX)
    );
    assert_eq!(fault(&[0, 0, 0, 1, 2, b'v', 4, 0, 1, 0]), RecordFault::HeaderCount(2));
    let mut body = vec![0x88, 0x80, 0x80, 2, 0, 0, 0, 1, 1, 0x82, 0x80, 0x80, 1];
    body.resize(4 + (2 << 20) + 4, 0);
    let too_many = records(&read(with_body(1, &body)).unwrap()).unwrap_err();
    let count = i32::try_from(MAX_HEADERS).unwrap() + 1;
    assert_eq!(too_many, BatchError::Record { index: 0, fault: RecordFault::HeaderCount(count) });
}

#[test]
fn offsets_do_not_run_backwards_inside_a_batch() {
    let body = [14, 0, 0, 2, 1, 2, b'v', 0, 14, 0, 0, 2, 1, 2, b'v', 0];
    let batch = read(with_body(2, &body)).unwrap();
    let refused = BatchError::Record { index: 1, fault: RecordFault::Offset(1) };
    assert_eq!(records(&batch).unwrap_err(), refused);
}

#[test]
fn unknown_codecs_are_refused_when_the_records_are_asked_for() {
    for codec in [5u8, 6, 7] {
        let batch = read(forged(&batch_of(&["a"]), at::ATTRIBUTES, [0, codec])).unwrap();
        assert_eq!((batch.header().codec(), batch.compression()), (codec, None));
        let error = batch.records().unwrap_err();
        assert_eq!(error, BatchError::Codec { codec });
        assert!(error.to_string().contains("which Kafka does not have"), "{error}");
    }
}

#[test]
fn malformed_control_records_are_refused() {
    let marker = ControlMarker {
        identity: Identity::new(7, 2),
        control_type: ControlType::Commit,
        coordinator_epoch: 12,
        timestamp: 5,
    };
    let batch = control_batch(&marker).freeze();
    // The key begins behind length, attributes, two deltas and its own length.
    let negative = read(forged(&batch, HEADER_BYTES + 5, (-1i16).to_be_bytes())).unwrap();
    assert!(matches!(negative.control(), Err(BatchError::Control { .. })));
    // A later version of key and value is read as far as it is known.
    let later = forged(&batch, HEADER_BYTES + 5, 1i16.to_be_bytes());
    assert_eq!(read(later).unwrap().control().unwrap().unwrap().coordinator_epoch, Some(12));
    let no_key = with_body(1, &[12, 0, 0, 0, 1, 1, 0]);
    let no_key = read(forged(&no_key, at::ATTRIBUTES, bit::CONTROL.to_be_bytes())).unwrap();
    assert!(matches!(no_key.control(), Err(BatchError::Control { .. })));
}

#[test]
fn a_producer_may_send_exactly_one_batch_of_data() {
    let batch = batch_of(&["a", "b"]);
    assert!(Batch::produced(batch.clone()).is_ok());
    assert_eq!(Batch::produced(Bytes::new()).unwrap_err(), BatchError::Incomplete { have: 0 });
    let cut = batch.slice(..batch.len() - 1);
    assert_eq!(Batch::produced(cut.clone()).unwrap_err(), BatchError::Incomplete { have: cut.len() });
    let two = [&batch[..], &batch[..]].concat();
    let gap = forged(&batch, at::LAST_OFFSET_DELTA, 2i32.to_be_bytes());
    let control = forged(&batch, at::ATTRIBUTES, bit::CONTROL.to_be_bytes());
    let no_sequence = forged(&batch, at::PRODUCER_ID, 5i64.to_be_bytes());
    for refused in [two, gap, control, no_sequence, with_body(0, &[])] {
        assert!(matches!(Batch::produced(refused.into()), Err(BatchError::NotProducible { .. })));
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        drain(bytes.into());
    }

    #[test]
    fn a_damaged_payload_is_read_or_refused(
        samples in any_samples(),
        compression in any_compression(),
        damage in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<proptest::sample::Index>(),
        sealed_again in any::<bool>(),
    ) {
        let mut payload = seal(&samples, compression).freeze().to_vec();
        for (at, byte) in damage {
            let at = at.index(payload.len());
            payload[at] = byte;
        }
        if sealed_again {
            put_crc(&mut payload);
        }
        drain(Bytes::from(payload.clone()).slice(..cut.index(payload.len() + 1)));
        drain(payload.into());
    }
}

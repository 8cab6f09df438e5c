//! Our batches beside those of another codec.

use bytes::{Bytes, BytesMut};
use kafka_2pc::{
    ids::Identity,
    record::{Compression, StoredRecord},
    wire::batch::{BatchBuilder, BatchHeader, Batches, Stamp, TimestampType},
};
use kafka_protocol::{
    protocol::StrBytes,
    records::{self as peer, Record, RecordBatchDecoder, RecordBatchEncoder, RecordEncodeOptions},
};

use super::batch::{append, mended};
use crate::input::Input;

/// One batch, or if its first byte is odd, decisions that make one up.
///
/// What we read, crate kafka-protocol reads alike, and each reads what the other writes. It is asked only about what it
/// is right in: it aborts on counts, so it gets what we have read to the end; it folds headers of one key; it wants them
/// in UTF-8; it ignores append time, and sums up timestamps that overflow.
pub fn batch_peer(input: &[u8]) {
    let mut choices = Input::new(input);
    if choices.byte() % 2 == 1 {
        made_up(&mut choices);
    } else if let Some(batch) = mended(choices.rest()) {
        read_alike(&batch);
    }
}

fn read_alike(bytes: &Bytes) {
    let Some(Ok(batch)) = Batches::new(bytes.clone()).next() else { return };
    let header = batch.header();
    if header.codec() != 0 || header.timestamp_type() == TimestampType::Append {
        return;
    }
    let ours: Result<Vec<_>, _> = batch.records().and_then(Iterator::collect);
    let Ok(ours) = ours else { return };
    let quiet = |time: i64| time.unsigned_abs() < 1 << 61;
    if !quiet(header.base_timestamp) || !ours.iter().all(|r| quiet(r.timestamp) && headers_are_plain(r)) {
        return;
    }
    let theirs = RecordBatchDecoder::decode(&mut bytes.clone());
    let Ok(theirs) = theirs else { panic!("{theirs:?} for {ours:?}") };
    compare(header, &ours, &theirs.records);
    let mut again = BytesMut::new();
    // It makes several batches of one whose offsets have gaps.
    let contiguous = ours.iter().zip(header.base_offset..).all(|(record, offset)| record.offset == offset);
    let sequences_fit = header.base_sequence >= 0 || header.base_sequence == -1;
    if ours.is_empty() || !contiguous || !sequences_fit || header.is_control() {
        return;
    }
    let options = RecordEncodeOptions { version: 2, compression: peer::Compression::None };
    if RecordBatchEncoder::encode(&mut again, &theirs.records, &options).is_ok() {
        let batches: Result<Vec<_>, _> = Batches::new(again.freeze()).collect();
        let Ok(batches) = batches else { panic!("we do not read what it writes: {batches:?}") };
        let read: Result<Vec<_>, _> =
            batches.iter().map(|b| b.records().and_then(Iterator::collect::<Result<Vec<_>, _>>)).collect();
        let Ok(read) = read else { panic!("we do not read what it writes: {read:?}") };
        assert_eq!(read.concat(), ours);
    }
}

fn headers_are_plain(record: &StoredRecord) -> bool {
    let keys: Vec<_> = record.headers.iter().map(|header| &header.key).collect();
    let repeated = keys.iter().enumerate().any(|(i, key)| keys[..i].contains(key));
    !repeated && keys.iter().all(|key| std::str::from_utf8(key).is_ok())
}

fn compare(header: &BatchHeader, ours: &[StoredRecord], theirs: &[Record]) {
    assert_eq!(ours.len(), theirs.len());
    for (our, their) in ours.iter().zip(theirs) {
        assert_eq!((our.offset, our.timestamp), (their.offset, their.timestamp));
        assert_eq!((&our.key, &our.value), (&their.key, &their.value));
        let headers = their.headers.iter().map(|(key, value)| (key.as_bytes(), value.as_ref()));
        assert!(our.headers.iter().map(|h| (&h.key[..], h.value.as_ref())).eq(headers));
        assert_eq!((header.producer_id, header.producer_epoch), (their.producer_id, their.producer_epoch));
        assert_eq!(header.is_transactional(), their.transactional);
        assert_eq!(header.is_control(), their.control);
        assert_eq!(header.delete_horizon().is_some(), their.delete_horizon);
        assert_eq!(header.partition_leader_epoch, their.partition_leader_epoch);
    }
}

/// What we write, it reads.
fn made_up(choices: &mut Input<'_>) {
    let identity = Identity::new(i64::from(choices.byte()), i16::from(choices.byte()));
    let base_sequence = i32::from(choices.byte());
    let stamp = match choices.pick(3) {
        0 => Stamp::Anonymous,
        1 => Stamp::Idempotent { identity, base_sequence },
        _ => Stamp::Transactional { identity, base_sequence },
    };
    let records: Vec<_> = (0..=choices.pick(8)).map(|offset| record(choices, i64::from(offset))).collect();
    let mut builder = BatchBuilder::new();
    records.iter().for_each(|record| append(&mut builder, record));
    let Ok(mut sealed) = builder.seal(Compression::None) else { panic!("it is not empty") };
    sealed.stamp(stamp);
    let bytes = sealed.freeze();
    let Ok(header) = BatchHeader::parse(&bytes) else { panic!("we do not read what we write") };
    let theirs = RecordBatchDecoder::decode(&mut bytes.clone());
    let Ok(theirs) = theirs else { panic!("{theirs:?} for {records:?}") };
    compare(&header, &records, &theirs.records);
    for (their, number) in theirs.records.iter().zip(0..) {
        let expected = if header.base_sequence < 0 { their.sequence } else { base_sequence + number };
        assert_eq!(their.sequence, expected);
    }
    read_alike(&bytes);
}

fn record(choices: &mut Input<'_>, offset: i64) -> StoredRecord {
    let timestamp = match choices.pick(4) {
        0 => -1,
        1 => i64::from_be_bytes(choices.array()) >> 4,
        _ => 1_700_000_000_000 + i64::from(choices.byte()),
    };
    let key = part(choices);
    let value = part(choices);
    let headers = (0..choices.pick(3)).map(|index| kafka_2pc::record::Header {
        key: StrBytes::from_string(format!("{index}{}", char::from(choices.byte()))).into_bytes(),
        value: part(choices),
    });
    let headers = headers.collect();
    StoredRecord { offset, timestamp, key, value, headers }
}

fn part(choices: &mut Input<'_>) -> Option<Bytes> {
    let length = choices.byte();
    (length < 200).then(|| Bytes::copy_from_slice(choices.bytes(usize::from(length))))
}

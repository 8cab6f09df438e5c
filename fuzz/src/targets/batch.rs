//! Record batches.

use bytes::{BufMut, Bytes, BytesMut};
use kafka_2pc::{
    record::{Compression, HeaderRef, RecordRef, StoredRecord},
    wire::batch::{Batch, BatchBuilder, Batches, HEADER_BYTES, Tail},
};

use crate::memory::peak_of;

/// The codecs that batches are written with here: all of this build.
pub(super) fn compressions() -> impl Iterator<Item = Compression> {
    Compression::ALL.into_iter().filter(|codec| codec.is_built())
}

/// The most that records may be decompressed to here, so that inputs stay quick.
const LIMIT: usize = 1 << 20;

/// Records take at most this much memory for each byte that they have on the wire: a header of two bytes takes 64.
const MEMORY_PER_BYTE: u64 = 64;
const MEMORY_SLACK: u64 = 4 * 1024;

/// What one partition's part of a Fetch response holds.
///
/// Read as it is, and as one batch whose length, format and checksum were made right, which a mutation hardly ever
/// leaves so. What is read is the same when it is written again with any codec, and what brokers would append is what was
/// sent.
pub fn batch(input: &[u8]) {
    check(Bytes::copy_from_slice(input));
    if let Some(mended) = mended(input) {
        check(mended);
    }
}

/// The bytes as one batch of format 2 with a right length and checksum; nothing if they are too few.
pub(super) fn mended(batch: &[u8]) -> Option<Bytes> {
    if batch.len() < HEADER_BYTES {
        return None;
    }
    let mut out = BytesMut::from(batch);
    (&mut out[8..12]).put_i32(i32::try_from(batch.len() - 12).ok()?);
    out[16] = 2;
    let crc = crc32c::crc32c(&out[21..]);
    (&mut out[17..21]).put_u32(crc);
    Some(out.freeze())
}

fn check(payload: Bytes) {
    let mut batches = Batches::new(payload.clone());
    let (mut read, mut expected, mut whole) = (0, 0, true);
    for batch in &mut batches {
        let Ok(batch) = batch else {
            whole = false;
            break;
        };
        assert_eq!(batch.bytes(), &payload[read..read + batch.bytes().len()], "a batch is not what came");
        read += batch.bytes().len();
        assert!(batch.header().base_offset >= expected, "offsets go back");
        expected = batch.header().next_offset();
        check_batch(&batch);
    }
    if whole {
        let left = match batches.tail() {
            Tail::Clean => 0,
            Tail::Cut { bytes } | Tail::FirstCut { bytes, .. } => bytes,
        };
        assert_eq!(read + left, payload.len(), "bytes are lost");
    }
    let produced = Batch::produced(payload.clone());
    if let Ok(batch) = produced {
        assert_eq!((batch.bytes(), whole), (&payload, true));
        assert!(batch.header().count > 0 && !batch.header().is_control());
    }
}

fn check_batch(batch: &Batch) {
    let _ = batch.control();
    let Ok(records) = batch.records_within(LIMIT) else { return };
    // Without this, what was decompressed before the measurement would count as freed in it.
    let own = records.clone();
    let (count, peak) = peak_of(|| own.count());
    if batch.header().codec() == 0 {
        let bound = MEMORY_PER_BYTE * batch.bytes().len() as u64 + MEMORY_SLACK;
        assert!(peak <= bound, "{peak} bytes of memory for {} of {count} records", batch.bytes().len());
    }
    let mut views = records.clone();
    let mut next = batch.header().base_offset;
    let mut all = Vec::new();
    for record in records {
        let view = views.next_view();
        let record = match (record, view) {
            (Ok(record), Ok(Some(view))) => {
                assert_eq!((record.offset, record.timestamp), (view.offset, view.timestamp));
                assert_eq!((record.key.as_deref(), record.value.as_deref()), (view.key, view.value));
                assert!(
                    record
                        .headers
                        .iter()
                        .map(|h| (&h.key[..], h.value.as_deref()))
                        .eq(view.headers().map(|h| (h.key, h.value)))
                );
                record
            }
            (Err(error), Err(same)) => {
                assert_eq!(error, same);
                return;
            }
            (record, view) => panic!("{record:?} and {view:?}"),
        };
        assert!(next <= record.offset && record.offset <= batch.header().last_offset());
        next = record.offset + 1;
        all.push(record);
    }
    assert!(matches!(views.next_view(), Ok(None)));
    assert_eq!(i32::try_from(all.len()), Ok(batch.header().count));
    if !all.is_empty() {
        compressions().for_each(|compression| check_again(batch, &all, compression));
    }
}

fn check_again(batch: &Batch, records: &[StoredRecord], compression: Compression) {
    let mut builder = BatchBuilder::new();
    for record in records {
        append(&mut builder, record);
    }
    let plain_bytes = builder.len_bytes();
    let Ok(sealed) = builder.seal(compression) else { panic!("{compression:?} does not take {records:?}") };
    assert!(compression != Compression::None || sealed.len() == plain_bytes);
    let sent = sealed.freeze();
    let base_offset = batch.header().base_offset;
    let stored = Batch::produced(sent.clone()).and_then(|sent| sent.placed(base_offset, 7, None));
    let Ok(stored) = stored else { panic!("{stored:?}") };
    assert_eq!(&stored.bytes()[21..], &sent[21..], "a broker changed what was sent");
    let back: Result<Vec<_>, _> = stored.records_within(LIMIT + plain_bytes).and_then(Iterator::collect);
    let Ok(back) = back else { panic!("{compression:?}: {back:?}") };
    let expected = records.iter().zip(base_offset..).map(|(r, offset)| StoredRecord { offset, ..r.clone() });
    assert!(expected.eq(back), "{compression:?} changes records");
}

/// Appends a record that was read.
pub(super) fn append(builder: &mut BatchBuilder, record: &StoredRecord) {
    let headers: Vec<_> =
        record.headers.iter().map(|h| HeaderRef { key: &h.key, value: h.value.as_deref() }).collect();
    let (key, value) = (record.key.as_deref(), record.value.as_deref());
    let own = RecordRef { key, value, headers: &headers, timestamp: None };
    let (before, size) = (builder.len_bytes(), builder.size_of(&own, record.timestamp));
    assert_eq!(builder.append(&own, record.timestamp), Ok(()));
    assert_eq!(builder.len_bytes(), before + size, "the size was told wrong");
}

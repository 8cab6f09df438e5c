//! Record batches that lie: in their header, in their records, in their markers.

use super::reading::{Reading, harmless, refused, seal, sound};
use crate::bench::Bench;
use crate::outcome::Shown;

/// A change of one batch.
type Change = fn(&mut Vec<u8>);

/// Where a header has its parts.
const MAGIC: usize = 16;
const ATTRIBUTES: usize = 21;
const LAST_OFFSET_DELTA: usize = 23;
const COUNT: usize = 57;
const RECORDS: usize = 61;
/// The first byte of the key of a marker: behind length, attributes, two deltas and the key's length.
const MARKER_KEY: usize = RECORDS + 5;

fn put<const N: usize>(batch: &mut [u8], at: usize, bytes: [u8; N]) {
    batch[at..at + N].copy_from_slice(&bytes);
}

/// Checksum, length, format, count and offsets of a header lie: the batch is refused, and nothing of it is handed out.
pub(super) async fn l22(bench: &Bench) -> Shown {
    let reading = Reading::new(bench).await?;
    let lies: [(&str, Change); 14] = [
        ("a wrong checksum", |b| b[17] ^= 1),
        ("a changed byte", |b| b[RECORDS + 6] ^= 1),
        ("a byte too short", |b| b[11] -= 1),
        ("a negative length", |b| put(b, 8, (-1_i32).to_be_bytes())),
        ("a length of nothing", |b| put(b, 8, 0_i32.to_be_bytes())),
        ("format 0", |b| b[MAGIC] = 0),
        ("format 1", |b| b[MAGIC] = 1),
        ("format 3", |b| b[MAGIC] = 3),
        ("a record more than there are", |b| {
            put(b, COUNT, 4_i32.to_be_bytes());
            put(b, LAST_OFFSET_DELTA, 3_i32.to_be_bytes());
            seal(b);
        }),
        ("a record less than there are", |b| {
            put(b, COUNT, 2_i32.to_be_bytes());
            seal(b);
        }),
        ("as many records as there are numbers", |b| {
            put(b, COUNT, i32::MAX.to_be_bytes());
            put(b, LAST_OFFSET_DELTA, i32::MAX.to_be_bytes());
            seal(b);
        }),
        ("a negative count", |b| {
            put(b, COUNT, (-1_i32).to_be_bytes());
            seal(b);
        }),
        ("a negative last offset", |b| {
            put(b, LAST_OFFSET_DELTA, (-2_i32).to_be_bytes());
            seal(b);
        }),
        ("offsets beyond the last number", |b| put(b, 0, i64::MAX.to_be_bytes())),
    ];
    for (what, lie) in lies {
        // Alone, so that no other batch can be what is refused.
        refused(bench, &reading, what, move |batches| {
            batches.truncate(1);
            lie(&mut batches[0]);
        })
        .await?;
    }
    // One that does not end in the answer is left for the next one.
    sound(bench, &reading, "a length beyond the answer", |batches| {
        batches.truncate(1);
        put(&mut batches[0], 8, 0x00ff_ffff_i32.to_be_bytes());
    })
    .await?;
    // Bits that no release uses yet mean nothing.
    sound(bench, &reading, "reserved attributes", |batches| {
        batches[0][ATTRIBUTES] |= 0x7f;
        seal(&mut batches[0]);
    })
    .await
}

/// Replaces so many bytes of the first record, from its length on.
fn record(batches: &mut Vec<Vec<u8>>, at: usize, count: usize, bytes: &[u8]) {
    batches.truncate(1);
    let from = RECORDS + at;
    batches[0].splice(from..from + count, bytes.iter().copied());
    seal(&mut batches[0]);
}

/// A number and a length of a record lie, under a checksum that is right.
pub(super) async fn l23(bench: &Bench) -> Shown {
    const HUGE: &[u8] = &[0xfe, 0xff, 0xff, 0xff, 0x0f];
    let reading = Reading::new(bench).await?;
    // A record of the value a: length 7, attributes, time, offset, no key, length 1, a, no headers.
    let lies: [(&str, usize, &[u8]); 13] = [
        ("a length of eleven bytes", 0, &[0x8e, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00]),
        ("a length that does not end", 0, &[0xff; 30]),
        ("a negative length", 0, &[0x01]),
        ("a length beyond the batch", 0, HUGE),
        ("a length a byte too short", 0, &[0x0c]),
        ("an offset beyond the header's", 3, &[0x14]),
        ("a negative offset", 3, &[0x01]),
        ("a key of -2 bytes", 4, &[0x03]),
        ("a key beyond the record", 4, HUGE),
        ("a value of -2 bytes", 5, &[0x03]),
        ("a value beyond the record", 5, HUGE),
        ("more headers than there are bytes", 7, HUGE),
        ("a negative count of headers", 7, &[0x01]),
    ];
    for (what, at, bytes) in lies {
        refused(bench, &reading, what, move |batches| record(batches, at, 1, bytes)).await?;
    }
    // One header, in a record that is so much longer.
    for (what, header) in [
        ("a header without a key", [0x02, 0x01, 0x01]),
        ("a header key beyond the record", [0x02, 0x7e, 0x01]),
        ("a header value of -2 bytes", [0x02, 0x00, 0x03]),
    ] {
        refused(bench, &reading, what, move |batches| {
            record(batches, 7, 1, &header);
            record(batches, 0, 1, &[0x12]);
        })
        .await?;
    }
    Ok(())
}

/// The abort of x is malformed: it is an error and not passed over, for then d and e would count as aborted. What can be a
/// marker of a later release, or one that compaction has emptied, is passed over.
pub(super) async fn l24(bench: &Bench) -> Shown {
    const COMMIT: usize = 1;
    const ABORT: usize = 3;
    let reading = Reading::new(bench).await?;
    let lies: [(&str, Change); 5] = [
        ("a version of -1", |b| put(b, MARKER_KEY, (-1_i16).to_be_bytes())),
        ("a key of two bytes", |b| {
            b[MARKER_KEY - 1] = 0x04;
            b.drain(MARKER_KEY + 2..MARKER_KEY + 4);
            b[RECORDS] = 0x1c;
        }),
        ("no key", |b| {
            b[MARKER_KEY - 1] = 0x01;
            b.drain(MARKER_KEY..MARKER_KEY + 4);
            b[RECORDS] = 0x18;
        }),
        ("two records", |b| {
            let record = b[RECORDS..].to_vec();
            b.extend(record);
            put(b, COUNT, 2_i32.to_be_bytes());
        }),
        ("a record that is none", |b| b[RECORDS] = 0x01),
    ];
    for (what, lie) in lies {
        sound(bench, &reading, &format!("an abort with {what}"), move |batches| {
            lie(&mut batches[ABORT]);
            seal(&mut batches[ABORT]);
        })
        .await?;
    }
    let strange: [(&str, Change); 3] = [
        ("another type", |b| put(b, MARKER_KEY + 2, 77_i16.to_be_bytes())),
        ("a later version", |b| put(b, MARKER_KEY, 9_i16.to_be_bytes())),
        ("no record", |b| {
            b.truncate(RECORDS);
            put(b, COUNT, 0_i32.to_be_bytes());
        }),
    ];
    for (what, change) in strange {
        sound(bench, &reading, &format!("a commit with {what}"), move |batches| {
            change(&mut batches[COMMIT]);
            seal(&mut batches[COMMIT]);
        })
        .await?;
    }
    harmless(bench, &reading, "as it is", |answer| !answer.responses.is_empty()).await
}

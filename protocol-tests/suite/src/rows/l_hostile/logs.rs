//! What surrounds the batches of an answer, their order, and what they unpack to.

use std::sync::{Mutex, PoisonError};

use kafka_2pc::record::{Compression, RecordRef};
use kafka_2pc::wire::batch::BatchBuilder;
use kafka_protocol::messages::FetchResponse;
use kafka_protocol::messages::fetch_response::AbortedTransaction;

use super::reading::{Reading, harmless, refused, refused_as, refused_bomb, seal, sound};
use crate::bench::Bench;
use crate::outcome::{Failure, Shown};

/// Where a header has its attributes, whose lowest bits are the codec, and where it ends.
const CODEC: usize = 22;
const RECORDS: usize = 61;

fn aborted(producer_id: i64, first_offset: i64) -> AbortedTransaction {
    AbortedTransaction::default().with_producer_id(producer_id.into()).with_first_offset(first_offset)
}

/// Changes the list of aborted transactions where there is one.
fn listed(answer: &mut FetchResponse, change: impl FnOnce(&mut Vec<AbortedTransaction>)) -> bool {
    let mut partitions = answer.responses.iter_mut().flat_map(|topic| &mut topic.partitions);
    let list = partitions.find_map(|p| p.aborted_transactions.as_mut().filter(|list| !list.is_empty()));
    list.map(change).is_some()
}

/// A list of aborted transactions that is huge, unsorted, or names producers that there can't be: of the records that it is
/// not about none is lost, of those that it is about none is read.
pub(super) async fn l25(bench: &Bench) -> Shown {
    let reading = Reading::new(bench).await?;
    harmless(bench, &reading, "two hundred thousand of producer -1", |answer| {
        listed(answer, |list| list.extend((0..200_000).map(|offset| aborted(-1, offset))))
    })
    .await?;
    harmless(bench, &reading, "unsorted, with others before and behind", |answer| {
        listed(answer, |list| {
            let (first, last) = (aborted(i64::MAX, i64::MAX), aborted(i64::MAX - 1, -5));
            list.splice(..0, [first, aborted(9_999_999, 3)]);
            list.push(last);
        })
    })
    .await?;
    harmless(bench, &reading, "each twice", |answer| listed(answer, |list| list.extend(list.clone())))
        .await?;
    harmless(bench, &reading, "its own transaction of the far future", |answer| {
        listed(answer, |list| {
            let own = list[0].producer_id;
            list.push(aborted(*own, i64::MAX));
        })
    })
    .await
}

/// Batches that come twice, overlap, or lie before what was asked for: nothing is handed out twice.
pub(super) async fn l26(bench: &Bench) -> Shown {
    let reading = Reading::new(bench).await?;
    refused(bench, &reading, "the first batch once more", |batches| {
        let first = batches[0].clone();
        batches.insert(1, first);
    })
    .await?;
    refused(bench, &reading, "batches that overlap", |batches| {
        // The offset is outside of the checksum.
        batches[2][..8].copy_from_slice(&1_i64.to_be_bytes());
    })
    .await?;
    sound(bench, &reading, "the other way round", |batches| batches.reverse()).await?;
    sound(bench, &reading, "at an offset before the log", |batches| {
        batches[0][..8].copy_from_slice(&(-3_i64).to_be_bytes());
    })
    .await
}

/// Eighty mebibytes of nothing, in some hundred kilobytes, or some megabytes of snappy. Debug builds take seconds for it, so
/// it is made once.
fn bomb(codec: Compression) -> Result<Vec<u8>, Failure> {
    static MADE: Mutex<Vec<(Compression, Vec<u8>)>> = Mutex::new(Vec::new());
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, batch)) = made.iter().find(|(of, _)| *of == codec) {
        return Ok(batch.clone());
    }
    let zeros = vec![0; 1 << 20];
    let mut batch = BatchBuilder::new();
    for _ in 0..80 {
        batch.append(&RecordRef::value(&zeros), 0)?;
    }
    let batch = batch.seal(codec)?.freeze().to_vec();
    made.push((codec, batch.clone()));
    Ok(batch)
}

/// What is said of records that unpack to more than is allowed, to less than there must be, and of those that do not unpack.
const TOO_MUCH: &str = "decompress to more than";
const TOO_LITTLE: &str = "cannot hold";
const MALFORMED: &str = "compressed records cannot be read";

/// Compressed records of every codec that unpack to far more than is allowed, that lie about their size, or that are none; and
/// a codec that does not exist. Each is refused for what it is: none because its codec were missing.
pub(super) async fn l27(bench: &Bench) -> Shown {
    let reading = Reading::new(bench).await?;
    for codec in [Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd] {
        let (what, bomb) = (format!("a bomb of {codec}"), bomb(codec)?);
        refused_bomb(bench, &reading, (&what, TOO_MUCH), bomb).await?;
    }
    let payloads: [(&str, u8, &[u8], &str); 12] = [
        // A frame of 2^63 bytes by its own word; a block of 2 GiB; a frame that does not begin.
        (
            "lz4 of 2^63 bytes",
            3,
            &[0x04, 0x22, 0x4d, 0x18, 0x68, 0x70, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0],
            MALFORMED,
        ),
        (
            "a block of lz4 of 2 GiB",
            3,
            &[0x04, 0x22, 0x4d, 0x18, 0x60, 0x70, 0x73, 0xff, 0xff, 0xff, 0x7f, 0],
            MALFORMED,
        ),
        ("lz4 that is none", 3, &[0; 40], MALFORMED),
        ("no lz4", 3, &[], TOO_LITTLE),
        ("gzip without its end", 1, &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff, 0xff], MALFORMED),
        ("gzip that is none", 1, &[0; 40], MALFORMED),
        ("snappy of 4 GiB", 2, &[0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0], MALFORMED),
        ("snappy that is none", 2, &[0x28, 0xff, 0xff, 0xff], MALFORMED),
        (
            "snappy in Java's frames",
            2,
            &[0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1, 0x7f, 0xff],
            MALFORMED,
        ),
        (
            "zstd with a window of 2 GiB",
            4,
            &[0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa8, 0x01, 0x00, 0x00],
            MALFORMED,
        ),
        ("zstd that is none", 4, &[0; 40], MALFORMED),
        ("a codec that nobody has", 7, &[0; 9], "is compressed with"),
    ];
    for (what, codec, payload, why) in payloads {
        refused_as(bench, &reading, (what, why), move |batches| {
            batches.truncate(1);
            let batch = &mut batches[0];
            batch[CODEC] |= codec;
            batch.truncate(RECORDS);
            batch.extend_from_slice(payload);
            seal(batch);
        })
        .await?;
    }
    Ok(())
}

//! A reader of committed records, one of whose answers is hostile.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use kafka_2pc::client::{Isolation, Start, Topic};
use kafka_2pc::ids::TopicPartition;
use kafka_2pc::wire::api::Api;
use kafka_protocol::messages::{FetchRequest, FetchResponse};
use kafka_protocol::protocol::Decodable;

use super::play::Form;
use super::watch::Watch;
use crate::bench::{Bench, within};
use crate::outcome::{Failure, Shown, equal, holds};
use crate::tap::Tap;

/// A log of six batches: a, b and c, their commit; x, its abort; d and e, and their commit. All of one producer.
#[derive(Debug)]
pub(super) struct Reading {
    topic: Topic,
}

/// What a reader must bring, and nothing else.
const EXPECTED: [&str; 5] = ["a", "b", "c", "d", "e"];

impl Reading {
    pub(super) async fn new(bench: &Bench) -> Result<Self, Failure> {
        let client = bench.untapped()?;
        let topic = bench.topic(&client, 1).await?;
        let producer = within(client.transactional_producer(bench.id("hostile")).init()).await??;
        let mut first = producer.begin();
        bench.write(&mut first, &topic, 0, &["a", "b", "c"]).await?;
        let mut second = within(first.commit()).await??.begin();
        bench.write(&mut second, &topic, 0, &["x"]).await?;
        let mut third = within(second.abort()).await??.begin();
        bench.write(&mut third, &topic, 0, &["d", "e"]).await?;
        within(third.commit()).await??;
        equal("what is there to read", bench.committed(&topic).await?, EXPECTED)?;
        Ok(Self { topic })
    }
}

/// The hostile answer is an error; the next one is read, and everything comes once and in order.
pub(super) async fn refused(
    bench: &Bench,
    reading: &Reading,
    what: &str,
    change: impl FnMut(&mut Vec<Vec<u8>>) + Send + 'static,
) -> Shown {
    refused_as(bench, reading, (what, ""), change).await
}

/// The same, for a reason that is told.
pub(super) async fn refused_as(
    bench: &Bench,
    reading: &Reading,
    (what, why): (&str, &str),
    change: impl FnMut(&mut Vec<Vec<u8>>) + Send + 'static,
) -> Shown {
    let errors = read(bench, reading, what, |tap| batches(tap, change)).await?;
    told(what, why, &errors)
}

fn told(what: &str, why: &str, errors: &[String]) -> Shown {
    equal(&format!("{what}: errors"), errors.len(), 1)?;
    holds(errors[0].contains("can't be read") && errors[0].contains(why), format!("{what}: {}", errors[0]))
}

/// The same of one batch that unpacks to more than is allowed. What is allowed is as much memory as may be used at all; the
/// batch itself, which the bench hands on in several copies, comes on top.
pub(super) async fn refused_bomb(
    bench: &Bench,
    reading: &Reading,
    (what, why): (&str, &str),
    bomb: Vec<u8>,
) -> Shown {
    let beside = bomb.len() * 8 + (4 << 20);
    let arm = |tap: &Tap| batches(tap, move |batches| *batches = vec![bomb.clone()]);
    let errors = read_beside(bench, reading, (what, beside), arm).await?;
    told(what, why, &errors)
}

/// As [`refused`], or as good: everything comes once and in order in any case.
pub(super) async fn sound(
    bench: &Bench,
    reading: &Reading,
    what: &str,
    change: impl FnMut(&mut Vec<Vec<u8>>) + Send + 'static,
) -> Shown {
    read(bench, reading, what, |tap| batches(tap, change)).await.map(|_| ())
}

/// An answer that is strange and no lie is read like any other.
pub(super) async fn harmless(
    bench: &Bench,
    reading: &Reading,
    what: &str,
    change: impl FnMut(&mut FetchResponse) -> bool + Send + 'static,
) -> Shown {
    let errors = read(bench, reading, what, |tap| tap.rewrite::<FetchRequest>(1, change)).await?;
    equal(&format!("{what}: errors"), errors, Vec::<String>::new())
}

/// The length field before the records lies.
pub(super) async fn refused_frame(bench: &Bench, reading: &Reading, what: &str, lie: fn(&mut u64)) -> Shown {
    let arm = |tap: &Tap| {
        tap.replace(Api::Fetch, 1, move |version, frame| {
            let form = Form::of(Api::Fetch, version, frame);
            let answer = FetchResponse::decode(&mut frame.slice(form.head..), version).ok()?;
            let records = records_of(&answer)?;
            let at = frame.windows(records.len()).position(|window| window == records)?;
            let mut length = u64::try_from(records.len()).ok()?;
            let before = if form.compact { varint(length + 1).len() } else { 4 };
            lie(&mut length);
            let mut changed = BytesMut::from(&frame[..at - before]);
            match form.compact {
                true => changed.extend_from_slice(&varint(length + 1)),
                false => changed.extend_from_slice(&u32::try_from(length).ok()?.to_be_bytes()),
            }
            changed.extend_from_slice(&frame[at..]);
            Some(changed.freeze())
        });
    };
    let errors = read(bench, reading, what, arm).await?;
    holds(errors.len() <= 1, format!("{what}: {errors:?}"))
}

/// Reads everything and goes on after errors, which are returned. What comes out is what must.
async fn read(
    bench: &Bench,
    reading: &Reading,
    what: &str,
    arm: impl FnOnce(&Tap),
) -> Result<Vec<String>, Failure> {
    read_beside(bench, reading, (what, 0), arm).await
}

async fn read_beside(
    bench: &Bench,
    reading: &Reading,
    (what, beside): (&str, usize),
    arm: impl FnOnce(&Tap),
) -> Result<Vec<String>, Failure> {
    let mut consumer = bench.client()?.consumer().isolation(Isolation::Committed).max_wait(WAIT).build();
    let place = TopicPartition::new(reading.topic.name().clone(), 0);
    consumer.assign([(place.clone(), Start::Beginning)]);
    let end = within(consumer.end_offsets(Isolation::Committed)).await??[&place];
    let (mut values, mut errors) = (Vec::new(), Vec::new());
    let watch = Watch::beside(beside);
    arm(&bench.tap);
    within(async {
        while consumer.position(&place).is_none_or(|at| at < end) && errors.len() < 5 {
            match consumer.poll(WAIT * 4).await {
                Ok(records) => {
                    let values_of = records.into_iter().map(|r| r.record.value.unwrap_or_default());
                    values.extend(values_of.map(|value| String::from_utf8_lossy(&value).into_owned()));
                }
                Err(error) => errors.push(error.to_string()),
            }
        }
    })
    .await?;
    equal(&format!("{what}: hostile answers that were not played"), bench.tap.to_come(), 0)?;
    bench.tap.clear();
    watch.end(what)?;
    equal(&format!("{what}, with {errors:?}: read"), values, EXPECTED)?;
    Ok(errors)
}

const WAIT: Duration = Duration::from_millis(5);

fn records_of(answer: &FetchResponse) -> Option<Bytes> {
    let mut partitions = answer.responses.iter().flat_map(|topic| &topic.partitions);
    partitions.find_map(|p| p.records.clone().filter(|records| !records.is_empty()))
}

/// The next answer with records has other batches.
fn batches(tap: &Tap, mut change: impl FnMut(&mut Vec<Vec<u8>>) + Send + 'static) {
    tap.rewrite::<FetchRequest>(1, move |answer| {
        let mut partitions = answer.responses.iter_mut().flat_map(|topic| &mut topic.partitions);
        let Some(records) = partitions.find_map(|p| p.records.as_mut().filter(|r| !r.is_empty())) else {
            return false;
        };
        let mut all = split(records);
        change(&mut all);
        *records = all.concat().into();
        true
    });
}

/// The batches, each with its header.
fn split(mut records: &[u8]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    while let Some(length) = records.get(8..12) {
        let length = i32::from_be_bytes([length[0], length[1], length[2], length[3]]);
        let whole = 12 + usize::try_from(length).unwrap_or(0);
        let Some((batch, rest)) = records.split_at_checked(whole) else { break };
        all.push(batch.to_vec());
        records = rest;
    }
    all
}

/// An unsigned number, seven bits a byte.
pub(super) fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(u8::try_from(number & 0x7f).unwrap_or(0) | 0x80);
        number >>= 7;
    }
    bytes.push(u8::try_from(number).unwrap_or(0));
    bytes
}

/// Makes length and checksum those of the content, so that nothing but the lie itself can be noticed.
pub(super) fn seal(batch: &mut [u8]) {
    let length = i32::try_from(batch.len() - 12).unwrap_or(i32::MAX);
    batch[8..12].copy_from_slice(&length.to_be_bytes());
    let sum = crc32c(&batch[21..]);
    batch[17..21].copy_from_slice(&sum.to_be_bytes());
}

/// CRC-32C, bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| (sum >> 1) ^ (0x82f6_3b78 & (sum & 1).wrapping_neg()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_castagnolis() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn batches_are_split_where_they_end() {
        let batch = |length: u8| [&[0; 11][..], &[length], &vec![7; usize::from(length)]].concat();
        let all = [batch(3), batch(9)];
        assert_eq!(split(&all.concat()), all);
        assert_eq!(varint(300), [0xac, 0x02]);
    }
}

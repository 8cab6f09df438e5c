//! Batches that are sent more than once, and never stored twice.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;

use kafka_2pc::client::{Prepared, Topic};
use kafka_2pc::ids::TopicPartition;
use kafka_2pc::record::RecordRef;
use kafka_2pc::wire::api::Api;
use kafka_protocol::messages::ProduceRequest;

use crate::bench::{Bench, within};
use crate::outcome::{Failure, Shown, equal, holds};
use crate::rows::seen::{granted, returned, written};
use crate::tap::Act;

/// REQUEST_TIMED_OUT.
const TIMED_OUT: i16 = 7;
/// NOT_ENOUGH_REPLICAS_AFTER_APPEND.
const NOT_ENOUGH_AFTER_APPEND: i16 = 20;
/// INVALID_RECORD.
const INVALID_RECORD: i16 = 87;
/// DUPLICATE_SEQUENCE_NUMBER.
const DUPLICATE: i16 = 46;

/// Values with a number, in order.
pub(in crate::rows) fn numbered(count: usize) -> Vec<String> {
    (0..count).map(|i| format!("value {i:04}")).collect()
}

/// Fails unless every batch that was sent more than once was the same each time.
pub(in crate::rows) fn repeats_are_identical(bench: &Bench) -> Shown {
    let mut known = BTreeMap::new();
    for request in bench.tap.requests().iter().filter(|r| r.api == Api::Produce) {
        for (topic, partition, batch) in request.batches()? {
            let name = (topic, partition, batch.producer_id, batch.producer_epoch, batch.base_sequence);
            let first = known.entry(name.clone()).or_insert(batch);
            equal(&format!("the repeat of {name:?}"), batch, *first)?;
        }
    }
    Ok(())
}

/// The next answers to Produce say this of every partition, whatever the broker did.
pub(in crate::rows) fn answer_with(bench: &Bench, code: i16, times: u32) {
    bench.tap.rewrite::<ProduceRequest>(times, move |answer| {
        for p in answer.responses.iter_mut().flat_map(|t| &mut t.partition_responses) {
            p.error_code = code;
            p.base_offset = -1;
        }
        true
    });
}

/// A batch whose answer was lost is recognised: its offset is the one that it got first. An answer that says "stored
/// before" without an offset is a success, too.
pub(super) async fn e02(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let mut transaction = bench.init(&client, &bench.id("e02")).await?.begin();
    bench.write(&mut transaction, &topic, 0, &["0"]).await?;
    bench.tap.plan(Api::Produce, 1, Act::ApplyThenDrop);
    let repeated = within(transaction.send_tracked(&topic, Some(0), RecordRef::value(b"1"))).await??;
    bench.step("flush", within(transaction.flush()).await?)?;
    equal("the offset of the repeat", within(repeated.stored()).await??, Some(1))?;
    answer_with(bench, DUPLICATE, 1);
    let unplaced = within(transaction.send_tracked(&topic, Some(0), RecordRef::value(b"2"))).await??;
    bench.step("flush", within(transaction.flush()).await?)?;
    equal("an offset that was not told", within(unplaced.stored()).await??, None)?;
    bench.step("commit", within(transaction.commit()).await?)?;
    repeats_are_identical(bench)?;
    equal("committed", bench.committed(&topic).await?, ["0", "1", "2"])
}

/// Answers after which a batch may be stored: it is sent again until the broker says so, and stored once.
pub(super) async fn e04(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let mut transaction = bench.init(&client, &bench.id("e04")).await?.begin();
    for (offset, code) in (0..).zip([TIMED_OUT, NOT_ENOUGH_AFTER_APPEND]) {
        answer_with(bench, code, 2);
        let before = bench.tap.count(Api::Produce);
        let value = code.to_string();
        let record = RecordRef::value(value.as_bytes());
        let stored = within(transaction.send_tracked(&topic, Some(0), record)).await??;
        bench.step("flush", within(transaction.flush()).await?)?;
        equal("the offset", within(stored.stored()).await??, Some(offset))?;
        equal(&format!("Produce sent with {code}"), bench.tap.count(Api::Produce) - before, 3)?;
    }
    bench.step("commit", within(transaction.commit()).await?)?;
    repeats_are_identical(bench)?;
    equal("committed", bench.committed(&topic).await?, ["7", "20"])
}

/// The connection is cut after a request has left, before its answer, again and again: nothing is lost or doubled.
pub(super) async fn e14(bench: &Bench) -> Shown {
    for nth in 1..=8 {
        bench.tap.plan(Api::Produce, 3 * nth, if nth % 2 == 0 { Act::Drop } else { Act::ApplyThenDrop });
    }
    many(bench).await
}

/// The connection is cut in the middle of a request.
pub(super) async fn e15(bench: &Bench) -> Shown {
    for (nth, bytes) in (1..).zip([1, 4, 9, 40, 90]) {
        bench.tap.plan(Api::Produce, 3 * nth, Act::Cut(bytes));
    }
    for api in [Api::InitProducerId, Api::EndTxn, Api::Metadata] {
        bench.tap.plan(api, 1, Act::Cut(7));
    }
    many(bench).await
}

/// A transaction of many batches, all of which must come through once and in order.
async fn many(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let builder = client.transactional_producer(bench.id("many")).batch_size(80);
    let builder = builder.max_in_flight(5);
    let mut transaction = bench.init_of(builder).await?.begin();
    let values = numbered(60);
    for value in &values {
        within(transaction.send(&topic, Some(0), RecordRef::value(value.as_bytes()))).await??;
    }
    bench.step("flush", within(transaction.flush()).await?)?;
    bench.step("commit", within(transaction.commit()).await?)?;
    repeats_are_identical(bench)?;
    equal("committed", bench.committed(&topic).await?, values)
}

/// How an answer to Produce goes wrong.
#[derive(Debug, Clone, Copy)]
enum Answered {
    Twice,
    Missing,
    Besides,
}

/// An answer that tells of a partition twice, leaves one out, or tells of one that nobody wrote: the first word counts,
/// what was left out is sent again, and the rest is nothing to anybody.
pub(super) async fn e20(bench: &Bench) -> Shown {
    let client = bench.client()?;
    for wrong in [Answered::Twice, Answered::Missing, Answered::Besides] {
        let topic = bench.topic(&client, 2).await?;
        let mut transaction = bench.init(&client, &bench.id("e20")).await?.begin();
        bench.write(&mut transaction, &topic, 0, &["0"]).await?;
        bench.write(&mut transaction, &topic, 1, &["1"]).await?;
        bench.tap.rewrite::<ProduceRequest>(1, move |answer| {
            let Some(mut other) = answer.responses.first().cloned() else { return false };
            match wrong {
                Answered::Missing => answer.responses.clear(),
                Answered::Twice => {
                    other.partition_responses.iter_mut().for_each(|p| p.error_code = INVALID_RECORD);
                    answer.responses.push(other);
                }
                Answered::Besides => {
                    for p in &mut other.partition_responses {
                        p.index = 77;
                        p.error_code = INVALID_RECORD;
                    }
                    answer.responses.insert(0, other);
                }
            }
            true
        });
        let before = bench.tap.count(Api::Produce);
        bench.write(&mut transaction, &topic, 0, &["2"]).await?;
        let again = usize::from(matches!(wrong, Answered::Missing));
        equal(&format!("{wrong:?}: Produce sent"), bench.tap.count(Api::Produce) - before, 1 + again)?;
        bench.step("commit", within(transaction.commit()).await?)?;
        equal(&format!("{wrong:?}: committed"), bench.committed(&topic).await?, ["0", "2", "1"])?;
    }
    Ok(())
}

/// The leader moves again and again while batches are in flight: order and number of records are kept.
pub(super) async fn e16(bench: &Bench) -> Shown {
    bench.trace.keep_private("which batches meet a move depends on the moment");
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let builder = client.transactional_producer(bench.id("e16")).batch_size(80);
    let mut transaction = bench.init_of(builder).await?.begin();
    let values = numbered(300);
    let write = async {
        for (i, value) in values.iter().enumerate() {
            within(transaction.send(&topic, Some(0), RecordRef::value(value.as_bytes()))).await??;
            breathe(i).await;
        }
        Ok::<_, Failure>(within(transaction.flush()).await??)
    };
    while_the_leader_moves(bench, &topic, write).await?;
    bench.step("commit", within(transaction.commit()).await?)?;
    equal("committed", bench.committed(&topic).await?, values)
}

/// A pause behind every ten records.
pub(in crate::rows) async fn breathe(record: usize) {
    if record % 10 == 9 {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

/// Writes while another replica becomes the leader of the first partition, four times. Some batch must meet an old leader, and
/// each that is sent again is the same.
pub(in crate::rows) async fn while_the_leader_moves(
    bench: &Bench,
    topic: &Topic,
    write: impl Future<Output = Shown>,
) -> Shown {
    let at = TopicPartition::new(topic.name().clone(), 0);
    let moves = async {
        for _ in 0..4 {
            tokio::time::sleep(std::time::Duration::from_millis(40)).await;
            bench.move_leader(&at).await?;
        }
        Ok::<_, Failure>(())
    };
    let (wrote, moved) = tokio::join!(write, moves);
    moved?;
    wrote?;
    let refused = bench.tap.answers().iter().any(|a| a.api == Api::Produce && a.codes.contains(&6));
    holds(refused, "no batch met an old leader")?;
    repeats_are_identical(bench)
}

/// No two transactions are written under one producer id and epoch, however the one before ended, and each begins at
/// sequence 0: where they shared a pair, brokers would take new records for repeats and drop them.
pub(super) async fn e23(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 2).await?;
    let id = bench.id("e23");
    let mut producer = bench.init(&client, &id).await?;
    let mut used = BTreeSet::new();
    let mut expected = Vec::new();
    for end in ["commit", "abort", "commit", "empty", "prepare", "commit", "abort", "commit"] {
        let before = written(bench)?.len();
        let mut transaction = producer.begin();
        if end != "empty" {
            bench.write(&mut transaction, &topic, 0, &[end, end]).await?;
            bench.write(&mut transaction, &topic, 1, &[end]).await?;
        }
        producer = match end {
            "abort" => bench.step("abort", within(transaction.abort()).await?)?,
            "prepare" => {
                let Prepared::Ready(committable) =
                    bench.step("prepare", within(transaction.prepare()).await?)?
                else {
                    return Err(Failure::wrong("no committable"));
                };
                let resumed = client.resume(committable).timeout(crate::bench::PATIENCE);
                bench.step("commit", within(resumed.commit()).await?)?;
                bench.init(&client, &id).await?
            }
            _ => bench.step("commit", within(transaction.commit()).await?)?,
        };
        if matches!(end, "commit" | "prepare") {
            expected.extend([end; 3]);
        }
        let batches = written(bench)?.split_off(before);
        let pairs: BTreeSet<_> = batches.iter().map(|b| (b.identity.producer_id, b.identity.epoch)).collect();
        equal("pairs of one transaction", pairs.len(), usize::from(end != "empty"))?;
        for pair in pairs {
            holds(used.insert(pair), format!("{pair:?} was used before"))?;
        }
        if let (true, Some(next)) = (bench.v2() && end != "empty", batches.first()) {
            // What an end returned is what is written under next, and not what was before.
            let known = [granted(bench)?, returned(bench)?].concat();
            holds(known.contains(&next.identity), format!("nobody granted {:?}", next.identity))?;
        }
        for partition in [0, 1] {
            let first = batches.iter().find(|b| b.partition == partition).map_or(0, |b| b.sequence);
            equal("the first sequence", first, 0)?;
        }
    }
    let mut found = bench.committed(&topic).await?;
    found.sort();
    expected.sort_unstable();
    equal("committed", found, expected)
}

//! Compacted topics.

use std::time::Duration;

use kafka_2pc::client::{Client, Isolation, Start, Topic, Transaction};
use kafka_2pc::record::RecordRef;
use kafka_2pc::wire::batch::{Batch, ControlType};

use super::forged::Forged;
use super::{end_of, place, read_to, reader, texts, until_end};
use crate::bench::{Bench, fresh, within};
use crate::outcome::{Failure, Shown, equal, holds};

/// Writes a value under a key, in a batch of its own.
async fn put(bench: &Bench, transaction: &mut Transaction, topic: &Topic, key: &str, value: &str) -> Shown {
    let record = RecordRef::value(value.as_bytes()).with_key(key.as_bytes());
    within(transaction.send(topic, Some(0), record)).await??;
    Ok(bench.step("flush", within(transaction.flush()).await?)?)
}

/// Everything that readers see from each offset, which must be the end of what they see from the beginning.
async fn from_everywhere(client: &Client, topic: &Topic, isolation: Isolation, expected: &[&str]) -> Shown {
    let at = place(topic);
    let end = end_of(client, topic, isolation).await?;
    let mut consumer = reader(client, topic, isolation);
    let all = read_to(&mut consumer, &at, end).await?;
    let known = |value: &String| value != "filler";
    let seen: Vec<_> = texts(&all).into_iter().filter(known).collect();
    equal(&format!("{isolation:?}: all"), seen, expected)?;
    for start in 0..end.min(12) {
        consumer.seek(&at, Start::Offset(start));
        let seen: Vec<_> = read_to(&mut consumer, &at, end).await?.iter().map(|r| r.record.offset).collect();
        let behind: Vec<_> = all.iter().map(|r| r.record.offset).filter(|offset| *offset >= start).collect();
        equal(&format!("{isolation:?}: offsets from {start}"), seen, behind)?;
    }
    Ok(())
}

/// What is left of a compacted topic reads right from every offset, also where the aborted records are gone and their
/// transaction is still listed.
pub(super) async fn j07(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let mut producer = bench.init(&client, &bench.id("j07")).await?;
    for (commit, key, value) in [
        (false, "k", "no"),
        (true, "k", "old"),
        (true, "j", "kept"),
        (false, "j", "no"),
        (true, "k", "new"),
        (false, "i", "no"),
    ] {
        let mut transaction = producer.begin();
        put(bench, &mut transaction, &topic, key, value).await?;
        put(bench, &mut transaction, &topic, key, value).await?;
        producer = if commit {
            bench.step("commit", within(transaction.commit()).await?)?
        } else {
            bench.step("abort", within(transaction.abort()).await?)?
        };
    }
    equal("before", bench.committed(&topic).await?, ["old", "old", "kept", "kept", "new", "new"])?;
    bench.embedded()?.compact(&place(&topic))?;
    for isolation in [Isolation::Committed, Isolation::Uncommitted] {
        from_everywhere(&client, &topic, isolation, &["kept", "new"]).await?;
    }

    // The records of the first transaction are gone, its marker and its entry in the list are not.
    let mut log = Forged::default();
    log.control(7, ControlType::Abort)?;
    log.data(7, "yes")?;
    log.control(7, ControlType::Commit)?;
    let topic = log.serve(bench, &client, &[(7, 0)]).await?;
    let mut consumer = reader(&client, &topic, Isolation::Committed);
    equal(
        "behind a marker without records",
        texts(&read_to(&mut consumer, &place(&topic), 3).await?),
        ["yes"],
    )
}

/// Whether compaction has left a batch of this kind without its records.
fn is_left(log: &[Batch], control: bool) -> bool {
    log.iter().any(|batch| batch.header().count == 0 && batch.header().is_control() == control)
}

/// What compaction left without records, put inside an aborted transaction of its producer, ends nothing.
async fn end_nothing(bench: &Bench, client: &Client, log: &[Batch]) -> Shown {
    for batch in log.iter().filter(|batch| batch.header().count == 0) {
        let producer = batch.header().producer_id;
        let mut forged = Forged::default();
        forged.data(producer, "no")?;
        forged.place(batch)?;
        forged.data(producer, "no")?;
        forged.control(producer, ControlType::Abort)?;
        forged.data(producer, "yes")?;
        forged.control(producer, ControlType::Commit)?;
        let topic = forged.serve(bench, client, &[(producer, 0)]).await?;
        let mut consumer = reader(client, &topic, Isolation::Committed);
        let seen = read_to(&mut consumer, &place(&topic), forged.end()).await?;
        equal(&format!("around {:?}", batch.header()), texts(&seen), ["yes"])?;
    }
    Ok(())
}

/// Compaction leaves data batches without records, and on transactions V2 control batches too: these are no markers, and
/// reading goes on behind them.
pub(super) async fn j16(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let name = fresh("compacted");
    let configs = [
        ("cleanup.policy", "compact"),
        ("segment.ms", "100"),
        ("min.cleanable.dirty.ratio", "0.001"),
        ("delete.retention.ms", "0"),
    ];
    bench.create_topic(&name, 1, &configs).await?;
    let topic = within(client.topic(&name)).await??;
    bench.write_idempotent(&topic, "k", "overwritten").await?;
    let mut transaction = bench.init(&client, &bench.id("j16")).await?.begin();
    put(bench, &mut transaction, &topic, "k", "overwritten too").await?;
    bench.step("commit", within(transaction.commit()).await?)?;
    until_end(&client, &topic, Isolation::Committed, 3).await?;
    let mut transaction = bench.init(&client, &bench.id("j16")).await?.begin();
    put(bench, &mut transaction, &topic, "k", "no").await?;
    bench.step("abort", within(transaction.abort()).await?)?;
    until_end(&client, &topic, Isolation::Committed, 5).await?;
    bench.write_keyed(&topic, "k", "new").await?;
    let is_done = |log: &[Batch]| {
        let records = log.iter().filter(|b| b.header().base_offset < 5 && !b.header().is_control());
        is_left(log, false)
            && is_left(log, true) == bench.v2()
            && records.map(|b| b.header().count).sum::<i32>() == 0
    };
    let mut log = Vec::new();
    for round in 0..150 {
        if let Ok(broker) = bench.embedded() {
            broker.compact(&place(&topic))?;
        } else {
            // A segment that nobody appends to is never closed, and so never compacted.
            bench.write_keyed(&topic, &format!("filler {round}"), "filler").await?;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        log = bench.log(&topic).await?;
        if is_done(&log) {
            break;
        }
    }
    let shown: Vec<_> = log.iter().map(|batch| *batch.header()).collect();
    holds(is_done(&log), format!("compaction left {shown:?}"))?;
    for isolation in [Isolation::Committed, Isolation::Uncommitted] {
        from_everywhere(&client, &topic, isolation, &["new"]).await?;
    }
    end_nothing(bench, &client, &log).await?;
    let visible = bench.visible(&topic).await?;
    let visible: Vec<_> = visible.iter().filter(|value| *value != "filler").collect();
    equal("visible", visible, ["new"])?;
    // What is written behind them is committed and aborted as ever.
    let mut transaction = bench.init(&client, &bench.id("j16")).await?.begin();
    put(bench, &mut transaction, &topic, "l", "last").await?;
    bench.step("commit", within(transaction.commit()).await?)?;
    let committed = bench.committed(&topic).await?;
    let last = committed.last().ok_or_else(|| Failure::wrong("nothing is left"))?;
    equal("the last record", last, "last")
}

//! Identities that brokers have forgotten.

use kafka_2pc::client::{EndError, SendError};
use kafka_2pc::record::RecordRef;
use kafka_2pc::wire::api::Api;

use super::super::seen::{ended, granted, returned, written};
use super::bump::{commit, refuse};
use crate::bench::{Bench, places, within};
use crate::outcome::{Failure, Shown, equal, holds};
use crate::tap::Act;

/// An id that the coordinator forgot while it was idle: at worst one transaction fails, and the next one has a new
/// producer id.
pub(super) async fn b15(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let id = bench.id("b15");
    let producer = bench.init(&client, &id).await?;
    let producer = commit(bench, producer, &topic, "before").await?;
    within(async {
        while client.admin().describe_transaction(&id).await?.is_some() {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        Ok::<_, Failure>(())
    })
    .await??;
    let mut transaction = producer.begin();
    let flushed = bench.write(&mut transaction, &topic, 0, &["after"]).await;
    // On V1 the transaction begins with InitProducerId, which makes the id known again.
    equal("written at once", flushed.is_ok(), !bench.v2())?;
    let end = within(transaction.commit()).await?;
    match (bench.step("commit", end), bench.v2()) {
        (Ok(_), false) => {}
        (Err(EndError::Failed(cause)), true) => holds(!cause.is_fenced(), format!("{cause:?}"))?,
        (other, _) => return Err(Failure::wrong(format!("{other:?}"))),
    }
    if bench.v2() {
        let producer = bench.init(&client, &id).await?;
        commit(bench, producer, &topic, "after").await?;
    }
    equal("committed", bench.committed(&topic).await?, ["before", "after"])?;
    let pairs = written(bench)?;
    let (first, last) = (pairs[0].identity, pairs[pairs.len() - 1].identity);
    holds(first.producer_id != last.producer_id, "the producer id stayed")
}

/// An EndTxn that was sent more than once uses its pair up on V1, even if it was answered; on V2 the pair that it returns
/// takes its place.
pub(super) async fn b17(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let mut producer = bench.init(&client, &bench.id("b17")).await?;
    for value in ["one", "two", "three"] {
        bench.tap.plan(Api::EndTxn, 1, Act::ApplyThenDrop);
        producer = commit(bench, producer, &topic, value).await?;
    }
    let pairs: Vec<_> = written(bench)?.iter().map(|batch| batch.identity).collect();
    let sources = if bench.v2() {
        [granted(bench)?[0], returned(bench)?[0], returned(bench)?[1]]
    } else {
        [granted(bench)?[0], granted(bench)?[1], granted(bench)?[2]]
    };
    equal("the pairs", &pairs[..], sources)?;
    equal("committed", bench.committed(&topic).await?, ["one", "two", "three"])
}

/// A partition that has lost what it knew of a producer costs one transaction at most; the next one has another pair.
pub(super) async fn b18(bench: &Bench) -> Shown {
    const UNKNOWN_PRODUCER_ID: i16 = 59;
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let producer = bench.init(&client, &bench.id("b18")).await?;
    let producer = commit(bench, producer, &topic, "before").await?;
    for place in places(&topic) {
        bench.embedded()?.expire_producers(&place)?;
    }
    let producer = commit(bench, producer, &topic, "forgotten").await?;

    let mut transaction = producer.begin();
    refuse(bench, Api::Produce, 1, UNKNOWN_PRODUCER_ID)?;
    within(transaction.send(&topic, Some(0), RecordRef::value(b"lost"))).await??;
    match within(transaction.flush()).await? {
        Err(SendError::Failed(cause)) => holds(!cause.is_fenced(), format!("{cause:?}"))?,
        other => return Err(Failure::wrong(format!("the flush: {other:?}"))),
    }
    let producer = within(transaction.abort()).await??;
    commit(bench, producer, &topic, "after").await?;
    let pairs: Vec<_> = written(bench)?.iter().map(|batch| batch.identity).collect();
    holds(pairs[2] != pairs[3], format!("the pair is used again: {pairs:?}"))?;
    equal("committed", bench.committed(&topic).await?, ["before", "forgotten", "after"])
}

/// Whatever happens in an open transaction, its pair stays: the abort has it too, and only then is another asked for.
pub(super) async fn b22(bench: &Bench) -> Shown {
    const OUT_OF_ORDER_SEQUENCE_NUMBER: i16 = 45;
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let mut transaction = bench.init(&client, &bench.id("b22")).await?.begin();
    bench.write(&mut transaction, &topic, 0, &["stored"]).await?;
    refuse(bench, Api::Produce, 1, OUT_OF_ORDER_SEQUENCE_NUMBER)?;
    holds(
        bench.write(&mut transaction, &topic, 0, &["refused"]).await.is_err(),
        "a gap was taken for nothing",
    )?;
    holds(bench.write(&mut transaction, &topic, 0, &["after"]).await.is_err(), "it went on after a gap")?;
    let before = bench.tap.count(Api::InitProducerId);
    equal("InitProducerId in an open transaction", before, 1)?;
    let producer = within(transaction.abort()).await??;
    let own = granted(bench)?[0];
    holds(written(bench)?.iter().all(|batch| batch.identity == own), "a batch has another pair")?;
    holds(ended(bench)?.iter().all(|end| end.identity == own && !end.commit), "the abort has another pair")?;
    commit(bench, producer, &topic, "next").await?;
    equal("committed", bench.committed(&topic).await?, ["next"])
}

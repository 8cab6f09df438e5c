//! The epoch: when it rises, who asks for it, and what happens at its end.

use std::time::Duration;

use kafka_2pc::broker::{Fault, Reaction};
use kafka_2pc::client::{Prepared, Topic, TransactionalProducer};
use kafka_2pc::ids::Identity;
use kafka_2pc::proto::resume::CoordinatorState;
use kafka_2pc::wire::api::Api;

use super::super::seen::{granted, until_state, written};
use crate::bench::{Bench, within};
use crate::outcome::{Failure, Shown, equal, holds};
use crate::tap::Act;

const CONCURRENT_TRANSACTIONS: i16 = 51;

/// With the newest pair an epoch more is granted; who names an older one is told of the newer owner.
pub(super) async fn b10(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let id = bench.id("b10");
    bench.init(&client, &id).await?;
    let first = granted(bench)?[0];
    let renew = |pair| client.transactional_producer(id.clone()).used(pair);
    let mut second = renew(first);
    bench.step("renew", within(second.prefetch()).await?)?;
    let pairs = granted(bench)?;
    equal("the renewed pair", pairs[1], next(first))?;
    let mut third = renew(pairs[1]);
    bench.step("renew", within(third.prefetch()).await?)?;
    match bench.step("renew a stale pair", within(renew(first).prefetch()).await?) {
        Err(cause) => holds(cause.is_fenced(), format!("{cause:?}"))?,
        Ok(()) => return Err(Failure::wrong("a stale pair was renewed")),
    }
    let third = commit(bench, third, &topic, "third").await?;
    drop(third);
    equal("committed", bench.committed(&topic).await?, ["third"])
}

/// An answer to InitProducerId that was lost is asked for again, and nobody fences himself.
pub(super) async fn b11(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let id = bench.id("b11");
    bench.init(&client, &id).await?;
    let first = granted(bench)?[0];
    bench.tap.plan(Api::InitProducerId, 1, Act::ApplyThenDrop);
    let mut producer = client.transactional_producer(id).used(first);
    bench.step("renew", within(producer.prefetch()).await?)?;
    equal("requests", bench.tap.count(Api::InitProducerId), 3)?;
    let renewed = granted(bench)?[1];
    equal("the renewed pair", renewed, next(first))?;
    commit(bench, producer, &topic, "v").await?;
    equal("committed", bench.committed(&topic).await?, ["v"])
}

/// At the end of the epochs a new producer id is given, sequences begin anew, and nothing is lost or doubled.
pub(super) async fn b12(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let id = bench.id("b12");
    bench.wear_out(&id, 32_765).await?;
    let mut producer = bench.init(&client, &id).await?;
    let values = ["one", "two", "three", "four"];
    for value in values {
        producer = commit(bench, producer, &topic, value).await?;
    }
    let written = written(bench)?;
    holds(written.iter().all(|batch| batch.sequence == 0), "a sequence went on over transactions")?;
    let mut pairs: Vec<_> = written.iter().map(|batch| batch.identity).collect();
    pairs.dedup();
    let epochs: Vec<_> = pairs.iter().map(|pair| pair.epoch.0).collect();
    equal("the epochs", epochs, [32_765, 32_766, 0, 1])?;
    holds(pairs[1].producer_id != pairs[2].producer_id, "the producer id stayed")?;
    equal("the producer ids after it", pairs[2].producer_id, pairs[3].producer_id)?;
    equal("committed", bench.committed(&topic).await?, values)
}

/// The epoch of an id rises with every initialization.
pub(super) async fn b14(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let id = bench.id("b14");
    for _ in 0..5 {
        bench.init(&client, &id).await?;
    }
    let epochs: Vec<_> = granted(bench)?.iter().map(|pair| pair.epoch.0).collect();
    equal("initializations that were granted", epochs.len(), 5)?;
    holds(epochs.is_sorted_by(|one, next| one < next), format!("the epochs were {epochs:?}"))
}

/// No two transactions share a pair, however they end; on V1 each begins with InitProducerId.
pub(super) async fn b16(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let id = bench.id("b16");
    let mut producer = bench.init(&client, &id).await?;
    producer = commit(bench, producer, &topic, "committed").await?;
    let mut aborted = producer.begin();
    bench.write(&mut aborted, &topic, 0, &["aborted"]).await?;
    producer = bench.step("abort", within(aborted.abort()).await?)?;
    let mut prepared = producer.begin();
    bench.write(&mut prepared, &topic, 0, &["prepared"]).await?;
    let Prepared::Ready(committable) = bench.step("prepare", within(prepared.prepare()).await?)? else {
        return Err(Failure::wrong("nothing was prepared"));
    };
    let own = committable.identity;
    let resumed = bench.step("commit as another", within(client.resume(committable).commit()).await?)?;
    let builder = client.transactional_producer(id);
    producer = match resumed.next {
        Some(pair) => builder.returned(pair),
        None => builder.used(own),
    };
    producer = commit(bench, producer, &topic, "after").await?;
    commit(bench, producer, &topic, "last").await?;

    let mut pairs: Vec<_> = written(bench)?.iter().map(|batch| batch.identity).collect();
    // A batch that was sent again is the same transaction's.
    pairs.dedup();
    equal("transactions with batches", pairs.len(), 5)?;
    for (at, pair) in pairs.iter().enumerate() {
        holds(!pairs[..at].contains(pair), format!("{pair} was used twice: {pairs:?}"))?;
    }
    let asked = if bench.v2() { 1 } else { 5 };
    equal("pairs of InitProducerId", granted(bench)?.len(), asked)?;
    equal("committed", bench.committed(&topic).await?, ["committed", "prepared", "after", "last"])
}

/// An open transaction of one's own pair is not ended by InitProducerId with that pair, which would fence oneself on V1.
/// Such a one is opened by an AddPartitionsToTxn that arrives after the end.
pub(super) async fn b23(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let id = bench.id("b23");
    let mut first = bench.init(&client, &id).await?.begin();
    let late = bench.tap.hold(Api::AddPartitionsToTxn);
    bench.write(&mut first, &topic, 0, &["first"]).await?;
    let producer = bench.step("commit", within(first.commit()).await?)?;
    if !bench.v2() {
        let late = within(late).await??;
        // As long as the markers are being written, nothing can be begun.
        while within(late.deliver()).await?? == [CONCURRENT_TRANSACTIONS] {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        until_state(&client, &id, CoordinatorState::Ongoing).await?;
    } else {
        equal("AddPartitionsToTxn of a client on V2", bench.tap.count(Api::AddPartitionsToTxn), 0)?;
        bench.tap.clear();
    }
    commit(bench, producer, &topic, "second").await?;
    equal("committed", bench.committed(&topic).await?, ["first", "second"])
}

/// Writes a value in a transaction and commits it.
pub(super) async fn commit(
    bench: &Bench,
    producer: TransactionalProducer,
    topic: &Topic,
    value: &str,
) -> Result<TransactionalProducer, Failure> {
    let mut transaction = producer.begin();
    bench.write(&mut transaction, topic, 0, &[value]).await?;
    Ok(bench.step("commit", within(transaction.commit()).await?)?)
}

/// The `nth` request of an API from now on is refused with this code.
pub(super) fn refuse(bench: &Bench, api: Api, nth: u64, code: i16) -> Shown {
    bench.embedded()?.inject(Fault::on(api, Reaction::ErrorCode(code)).nth(nth));
    Ok(())
}

fn next(pair: Identity) -> Identity {
    Identity::new(pair.producer_id.0, pair.epoch.0 + 1)
}

//! Initializations that do not go smoothly.

use std::time::Duration;

use kafka_2pc::client::{Client, Transaction, TransactionalProducer};
use kafka_2pc::ids::Moment;
use kafka_2pc::proto::cause::CauseKind;
use kafka_2pc::proto::transaction as machine;
use kafka_2pc::record::RecordRef;
use kafka_2pc::wire::api::Api;
use kafka_2pc::wire::versions::TransactionVersion;

use super::super::copies;
use super::super::h_api::order;
use super::super::seen::granted;
use super::bump::{commit, refuse};
use crate::bench::{Bench, within};
use crate::outcome::{Failure, Shown, equal, holds};

/// Too short for an answer that does not come.
const SHORT: Duration = Duration::from_millis(300);
/// Longer than any row may take.
const LONG: Duration = Duration::from_secs(600);

/// An initialization is asked for again while the coordinator is away, moves or loads.
pub(super) async fn b01(bench: &Bench) -> Shown {
    let client = bench.client()?;
    refuse(bench, Api::FindCoordinator, 1, 15)?;
    for (nth, code) in [(1, 15), (2, 16), (3, 14)] {
        refuse(bench, Api::InitProducerId, nth, code)?;
    }
    let lookups = || bench.tap.count(Api::FindCoordinator);
    bench.init(&client, &bench.id("b01")).await?;
    equal("requests", bench.tap.count(Api::InitProducerId), 4)?;
    // After the refused one: the first that succeeded, and one for each answer that the coordinator is elsewhere.
    holds(lookups() >= 4, format!("{} lookups of the coordinator", lookups()))
}

/// An initialization is asked for again while the coordinator can't store it.
pub(super) async fn b03(bench: &Bench) -> Shown {
    const NOT_ENOUGH_REPLICAS: i16 = 19;
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    refuse(bench, Api::InitProducerId, 1, NOT_ENOUGH_REPLICAS)?;
    refuse(bench, Api::InitProducerId, 2, NOT_ENOUGH_REPLICAS)?;
    let producer = bench.init(&client, &bench.id("b03")).await?;
    equal("requests", bench.tap.count(Api::InitProducerId), 3)?;
    commit(bench, producer, &topic, "v").await?;
    equal("committed", bench.committed(&topic).await?, ["v"])
}

/// An initialization ends when `max.block.ms` is over, even if its answer is still awaited; asked again it works.
pub(super) async fn b04(bench: &Bench) -> Shown {
    // Nothing else ends it in time.
    let client = bench.client_of(bench.config()?.max_block(SHORT).request_timeout(LONG));
    let id = bench.id("b04");
    let mut paused = bench.tap.pause(Api::InitProducerId);
    match within(client.transactional_producer(id.clone()).init()).await? {
        Err(cause) => {
            equal("the kind", cause.kind, CauseKind::Unreachable)?;
            holds(cause.kind.is_transient(), "it is not told as transient")?;
        }
        Ok(_) => return Err(Failure::wrong("it was granted without an answer")),
    }
    paused.reached().await?;
    paused.release();
    let topic = bench.topic(&client, 1).await?;
    let producer = within(client.transactional_producer(id).init()).await??;
    equal("requests", bench.tap.count(Api::InitProducerId), 2)?;
    commit(bench, producer, &topic, "v").await?;
    equal("committed", bench.committed(&topic).await?, ["v"])
}

/// Nothing can be initialized twice: a producer has no such call and no copy, and a transaction that has ended takes no
/// command.
pub(super) async fn b05(_: &Bench) -> Shown {
    equal("a producer can be copied", copies!(TransactionalProducer), false)?;
    equal("a transaction can be copied", copies!(Transaction), false)?;
    equal("a client can be copied", copies!(Client), true)?;
    // begin() takes the producer, so that there is nothing left to begin with.
    let _: fn(TransactionalProducer) -> Transaction = TransactionalProducer::begin;
    let goals = [machine::Goal::Prepare, machine::Goal::Commit, machine::Goal::Abort];
    for goal in goals {
        let mut ended = order::empty(TransactionVersion::V2);
        ended.handle(Moment(0), machine::Input::End(goal))?;
        holds(
            ended.handle(Moment(0), machine::Input::End(goal)).is_err(),
            format!("{goal:?} twice was taken"),
        )?;
    }
    Ok(())
}

/// A transaction begun before its identity is there keeps thousands of records in order until it is.
pub(super) async fn b06(bench: &Bench) -> Shown {
    const RECORDS: u32 = 5000;
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let builder = client.transactional_producer(bench.id("b06")).batch_size(1024).linger(Duration::ZERO);
    let mut paused = bench.tap.pause(Api::InitProducerId);
    let mut transaction = builder.lazy().begin();
    let expected: Vec<_> = (0..RECORDS).map(|number| number.to_string()).collect();
    for (number, value) in expected.iter().enumerate() {
        transaction.try_send(&topic, Some(0), RecordRef::value(value.as_bytes()))?;
        if number == 100 {
            paused.reached().await?;
        }
    }
    equal("Produce without an identity", bench.tap.count(Api::Produce), 0)?;
    paused.release();
    within(transaction.commit()).await??;
    equal("granted", granted(bench)?.len(), 1)?;
    holds(bench.committed(&topic).await? == expected, "the records are others, or in another order")
}

/// Whoever is told at a renewal that a newer owner exists is fenced, whichever of its two codes says so.
pub(super) async fn b09(bench: &Bench) -> Shown {
    const CODES: [i16; 2] = [90, 47];
    let client = bench.client()?;
    for code in CODES {
        let id = bench.id("b09");
        bench.init(&client, &id).await?;
        let own = *granted(bench)?.last().ok_or_else(|| Failure::wrong("nothing was granted"))?;
        let before = bench.tap.count(Api::InitProducerId);
        refuse(bench, Api::InitProducerId, 1, code)?;
        match within(client.transactional_producer(id).used(own).prefetch()).await? {
            Err(cause) => holds(cause.is_fenced(), format!("{cause:?}"))?,
            Ok(()) => return Err(Failure::wrong("it was granted")),
        }
        equal("requests", bench.tap.count(Api::InitProducerId) - before, 1)?;
    }
    Ok(())
}

//! What must be settled before a transaction ends, and after it.

use std::time::Duration;

use futures::future::join_all;
use kafka_2pc::broker::{Broker, Fault, Reaction};
use kafka_2pc::client::{EndError, Prepared};
use kafka_2pc::proto::cause::CauseKind;
use kafka_2pc::proto::resume::CoordinatorState;
use kafka_2pc::record::RecordRef;
use kafka_2pc::wire::api::Api;

use super::super::seen::{ended, until_state};
use crate::bench::{Bench, within};
use crate::outcome::{Failure, Shown, equal, holds};

const MESSAGE_TOO_LARGE: i16 = 10;
const CONCURRENT_TRANSACTIONS: i16 = 51;

/// A commit sends what was not sent, and waits for every AddPartitionsToTxn and Produce before it ends anything.
pub(super) async fn g01(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 2).await?;
    let mut transaction = bench.init(&client, &bench.id("g01")).await?.begin();
    for (partition, value) in [(0, "a"), (1, "b"), (0, "c")] {
        within(transaction.send(&topic, Some(partition), RecordRef::value(value.as_bytes()))).await??;
    }
    equal("sent before the commit", bench.tap.count(Api::Produce), 0)?;
    let adding = (!bench.v2()).then(|| bench.tap.pause(Api::AddPartitionsToTxn));
    let mut producing = bench.tap.pause(Api::Produce);
    let watching = async {
        if let Some(mut adding) = adding {
            adding.reached().await?;
            equal("Produce before it is added to", bench.tap.count(Api::Produce), 0)?;
            adding.release();
        }
        producing.reached().await?;
        equal("EndTxn before the records are stored", bench.tap.count(Api::EndTxn), 0)?;
        producing.release();
        Ok::<_, Failure>(())
    };
    let (committed, watched) = tokio::join!(within(transaction.commit()), watching);
    watched?;
    committed??;
    equal("EndTxn", bench.tap.count(Api::EndTxn), 1)?;
    equal("committed", bench.committed(&topic).await?, ["a", "c", "b"])
}

/// A commit whose last Produce is refused while it waits fails as one that must be aborted, and is aborted.
pub(super) async fn g06(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let id = bench.id("g06");
    let mut transaction = bench.init(&client, &id).await?.begin();
    bench.write(&mut transaction, &topic, 0, &["stored"]).await?;
    within(transaction.send(&topic, Some(0), RecordRef::value(b"refused"))).await??;
    let reaction = Reaction::ErrorCode(MESSAGE_TOO_LARGE);
    bench.embedded()?.inject(Fault::on(Api::Produce, reaction));
    match within(transaction.commit()).await? {
        Err(EndError::Failed(cause)) => equal("the cause", cause.kind, CauseKind::RecordTooLarge)?,
        other => return Err(Failure::wrong(format!("the commit ended with {other:?}"))),
    }
    until_state(&client, &id, CoordinatorState::CompleteAbort).await?;
    holds(ended(bench)?.iter().all(|end| !end.commit), "a commit was sent")?;
    equal("committed", bench.committed(&topic).await?.len(), 0)
}

/// A transaction without records commits and aborts without a word to anybody, and leaves no committable.
pub(super) async fn g10(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let producer = bench.init(&client, &bench.id("g10")).await?;
    let producer = bench.step("commit", within(producer.begin().commit()).await?)?;
    let producer = bench.step("abort", within(producer.begin().abort()).await?)?;
    match bench.step("prepare", within(producer.begin().prepare()).await?)? {
        Prepared::Empty(_) => {}
        _ => return Err(Failure::wrong("a committable without records")),
    }
    equal("EndTxn sent", bench.tap.count(Api::EndTxn), 0)
}

/// Transactions that follow each other at once on one id: while the markers of one are being written, the next waits.
pub(super) async fn g13(bench: &Bench) -> Shown {
    const PARTITIONS: i32 = 20;
    bench.trace.keep_private("how the adds and batches of many partitions mix is chance");
    let client = bench.client()?;
    let topic = bench.topic(&client, PARTITIONS).await?;
    let mut producer = bench.init(&client, &bench.id("g13")).await?;
    for round in 0..4 {
        let value = round.to_string();
        let before = bench.tap.answers().len();
        let mut transaction = producer.begin();
        for partition in 0..PARTITIONS {
            within(transaction.send(&topic, Some(partition), RecordRef::value(value.as_bytes()))).await??;
        }
        let waiting = async {
            let Ok(broker) = bench.embedded() else { return Ok(()) };
            if round > 0 {
                told_to_wait(bench, before).await?;
                broker.release_markers();
            }
            Ok::<_, Failure>(())
        };
        let (flushed, waited) = tokio::join!(within(transaction.flush()), waiting);
        waited?;
        bench.step("flush", flushed?)?;
        // How long markers take is chance on real brokers; here nothing is written before the next one has asked.
        bench.embedded().map(Broker::hold_markers).ok();
        producer = bench.step("commit", within(transaction.commit()).await?)?;
    }
    bench.embedded().map(Broker::release_markers).ok();
    equal("committed", bench.committed(&topic).await?.len(), 4 * usize::try_from(PARTITIONS)?)
}

async fn told_to_wait(bench: &Bench, before: usize) -> Shown {
    within(async {
        while !bench.tap.answers()[before..].iter().any(|a| a.codes.contains(&CONCURRENT_TRANSACTIONS)) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await
}

/// Several transactions with markers for many partitions of one leader end at the same time, some each way.
pub(super) async fn g15(bench: &Bench) -> Shown {
    const PARTITIONS: i32 = 30;
    let client = bench.client()?;
    let topic = bench.topic(&client, PARTITIONS).await?;
    let mut open = Vec::new();
    for number in 0..6 {
        let mut transaction = bench.init(&client, &bench.id("g15")).await?.begin();
        let value = number.to_string();
        for partition in 0..PARTITIONS {
            within(transaction.send(&topic, Some(partition), RecordRef::value(value.as_bytes()))).await??;
        }
        within(transaction.flush()).await??;
        open.push(transaction);
    }
    let ending = open.into_iter().enumerate().map(|(number, transaction)| async move {
        if number % 2 == 0 { transaction.commit().await } else { transaction.abort().await }
    });
    for end in within(join_all(ending)).await? {
        end?;
    }
    let expected: Vec<_> = (0..PARTITIONS).flat_map(|_| ["0", "2", "4"]).collect();
    equal("committed", bench.committed(&topic).await?, expected)
}

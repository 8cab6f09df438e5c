//! What became of it: ends that are asked for again, and ends that somebody else carried out.

use std::time::Duration;

use kafka_2pc::client::{EndError, Prepared, Topic, TransactionalProducer};
use kafka_2pc::proto::committable::Committable;
use kafka_2pc::proto::resume::{CoordinatorState, Outcome};

use super::super::seen::until_state;
use crate::bench::{Bench, within};
use crate::outcome::{Failure, Shown, equal, holds};

/// Ended again in the same direction it is as the first time; in the other one it tells what was decided. Also where the
/// last epoch of a producer id was used.
pub(super) async fn g12(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let worn = bench.id("g12");
    bench.wear_out(&worn, 32_766).await?;
    for (id, value) in [(bench.id("g12"), "usual"), (worn, "last epoch")] {
        let committable = prepared(bench, bench.init(&client, &id).await?, &topic, value).await?;
        let mut returned = Vec::new();
        for _ in 0..2 {
            let resumed = within(client.resume(committable.clone()).commit()).await?;
            let resumed = bench.step("commit", resumed)?;
            equal("a commit", &resumed.outcome, &Outcome::Committed)?;
            returned.push(resumed.next);
        }
        equal("the pair that the second commit returns", returned[1], returned[0])?;
        equal("a pair is returned", returned[0].is_some(), bench.v2())?;
        let crossed = within(client.resume(committable).abort()).await?;
        match bench.step("abort", crossed)?.outcome {
            Outcome::AlreadyCommitted(_) => {}
            other => return Err(Failure::wrong(format!("an abort after the commit: {other:?}"))),
        }
    }

    let committable =
        prepared(bench, bench.init(&client, &bench.id("g12")).await?, &topic, "aborted").await?;
    for _ in 0..2 {
        let resumed = within(client.resume(committable.clone()).abort()).await?;
        equal("an abort", bench.step("abort", resumed)?.outcome, Outcome::Aborted)?;
    }
    let crossed = within(client.resume(committable).commit()).await?;
    match bench.step("commit", crossed)?.outcome {
        Outcome::Lost { partitions, .. } => equal("lost records", partitions[0].records, 1)?,
        other => return Err(Failure::wrong(format!("a commit after the abort: {other:?}"))),
    }
    equal("committed", bench.committed(&topic).await?, ["usual", "last epoch"])
}

/// What the broker has aborted by its timeout is lost, and told as that: by a commit of the writer and by a resumed one.
/// The next transactions of both ids work.
pub(super) async fn g14(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let (left, resumed) = (bench.id("g14"), bench.id("g14"));
    let builder =
        |id: &_| client.transactional_producer(Clone::clone(id)).transaction_timeout(Duration::from_secs(1));
    let mut open = bench.init_of(builder(&left)).await?.begin();
    bench.write(&mut open, &topic, 0, &["left open"]).await?;
    let committable = prepared(bench, bench.init_of(builder(&resumed)).await?, &topic, "prepared").await?;
    until_state(&client, &left, CoordinatorState::CompleteAbort).await?;
    until_state(&client, &resumed, CoordinatorState::CompleteAbort).await?;

    match bench.step("commit", within(open.commit()).await?) {
        Err(EndError::Outcome(outcome)) => lost(&outcome)?,
        other => return Err(Failure::wrong(format!("the writer's commit: {other:?}"))),
    }
    lost(&bench.step("resume", within(client.resume(committable).commit()).await?)?.outcome)?;
    for id in [left, resumed] {
        let mut next = bench.init(&client, &id).await?.begin();
        bench.write(&mut next, &topic, 0, &["next"]).await?;
        bench.step("commit", within(next.commit()).await?)?;
    }
    equal("committed", bench.committed(&topic).await?, ["next", "next"])
}

fn lost(outcome: &Outcome) -> Shown {
    match outcome {
        Outcome::Lost { partitions, .. } => {
            equal("partitions with lost records", partitions.len(), 1)?;
            holds(partitions[0].records == 1, format!("{partitions:?}"))
        }
        other => Err(Failure::wrong(format!("not told as lost: {other:?}"))),
    }
}

async fn prepared(
    bench: &Bench,
    producer: TransactionalProducer,
    topic: &Topic,
    value: &str,
) -> Result<Committable, Failure> {
    let mut transaction = producer.begin();
    bench.write(&mut transaction, topic, 0, &[value]).await?;
    match bench.step("prepare", within(transaction.prepare()).await?)? {
        Prepared::Ready(committable) => Ok(committable),
        _ => Err(Failure::wrong("nothing was prepared")),
    }
}

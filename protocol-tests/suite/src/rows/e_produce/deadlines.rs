//! Records that are not acknowledged in time.

use std::time::Duration;

use kafka_2pc::client::{Client, EndError, Topic, Transaction};
use kafka_2pc::proto::cause::CauseKind;
use kafka_2pc::record::RecordRef;
use kafka_2pc::wire::api::Api;
use kafka_protocol::messages::MetadataRequest;

use crate::bench::{Bench, within};
use crate::outcome::{Failure, Shown, equal, holds};
use crate::rows::seen::{ended, written};

/// NOT_ENOUGH_REPLICAS.
const NOT_ENOUGH_REPLICAS: i16 = 19;
const BRIEF: Duration = Duration::from_millis(100);

/// A transaction whose records expire soon.
async fn hasty(bench: &Bench, client: &Client, name: &str) -> Result<Transaction, Failure> {
    let builder = client.transactional_producer(bench.id(name)).delivery_timeout(BRIEF);
    Ok(bench.init_of(builder).await?.begin())
}

/// Sends a record that nobody acknowledges, and commits, which must fail for that reason.
async fn expires(bench: &Bench, mut transaction: Transaction, topic: &Topic) -> Shown {
    within(transaction.send(topic, Some(0), RecordRef::value(b"no"))).await??;
    match bench.step("commit", within(transaction.commit()).await?) {
        Err(EndError::Failed(cause)) => equal("the cause", cause.kind, CauseKind::DeliveryTimeout),
        other => Err(Failure::wrong(format!("the commit ended with {other:?}"))),
    }
}

/// Writes and commits under another identity than all before.
async fn goes_on(bench: &Bench, client: &Client, topic: &Topic) -> Shown {
    let before = written(bench)?;
    let mut next = bench.init(client, &bench.id("next")).await?.begin();
    bench.write(&mut next, topic, 0, &["yes"]).await?;
    bench.step("commit", within(next.commit()).await?)?;
    let batches = written(bench)?;
    let last = batches.last().ok_or_else(|| Failure::wrong("nothing was written"))?;
    holds(before.iter().all(|b| b.identity != last.identity), "the identity was used before")?;
    equal("committed", bench.committed(topic).await?, ["yes"])
}

/// A record that expires before it ever left makes the commit fail, and is not sent afterwards.
pub(super) async fn e06(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    bench.tap.rewrite::<MetadataRequest>(u32::MAX, |answer| {
        answer.topics.iter_mut().flat_map(|t| &mut t.partitions).for_each(|p| p.leader_id = (-1).into());
        true
    });
    // A client that has never met the leader.
    let other = bench.client()?;
    let transaction = hasty(bench, &other, "e06").await?;
    expires(bench, transaction, &topic).await?;
    equal("Produce sent", bench.tap.count(Api::Produce), 0)?;
    bench.tap.clear();
    goes_on(bench, &client, &topic).await
}

/// A record that was sent and not answered in time: the transaction is aborted at the broker, and whatever the answer was,
/// nothing of it becomes visible.
pub(super) async fn e07(bench: &Bench) -> Shown {
    let client = bench.client_of(bench.config()?.request_timeout(Duration::from_millis(300)));
    let topic = bench.topic(&client, 1).await?;
    let transaction = hasty(bench, &client, "e07").await?;
    // Kept to the end: it is never answered.
    let mut unanswered = bench.tap.pause_answer(Api::Produce);
    expires(bench, transaction, &topic).await?;
    unanswered.reached().await?;
    equal("how the transaction was ended", ended(bench)?.iter().map(|e| e.commit).max(), Some(false))?;
    equal("Produce sent", bench.tap.count(Api::Produce), 1)?;
    goes_on(bench, &client, &topic).await
}

/// A record that was tried again and again until its time was over: the same, and its identity is not used again.
pub(super) async fn e08(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let builder = client.transactional_producer(bench.id("e08")).delivery_timeout(Duration::from_millis(300));
    let transaction = bench.init_of(builder).await?.begin();
    bench.refuse(Api::Produce, NOT_ENOUGH_REPLICAS, 1000)?;
    expires(bench, transaction, &topic).await?;
    holds(bench.tap.count(Api::Produce) > 1, "it was not tried again")?;
    bench.embedded()?.clear_faults();
    equal("how the transaction was ended", ended(bench)?.iter().map(|e| e.commit).max(), Some(false))?;
    goes_on(bench, &client, &topic).await
}

/// A flush that somebody stops waiting for takes nothing back: the next flush and the commit go on where it was.
pub(super) async fn e21(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let mut transaction = bench.init(&client, &bench.id("e21")).await?.begin();
    bench.write(&mut transaction, &topic, 0, &["1"]).await?;
    let mut slow = bench.tap.pause_answer(Api::Produce);
    within(transaction.send(&topic, Some(0), RecordRef::value(b"2"))).await??;
    for _ in 0..2 {
        let late = tokio::time::timeout(Duration::from_millis(30), transaction.flush()).await;
        holds(late.is_err(), format!("a flush without an answer ended with {late:?}"))?;
    }
    within(transaction.send(&topic, Some(0), RecordRef::value(b"3"))).await??;
    let release = async {
        slow.reached().await?;
        tokio::time::sleep(Duration::from_millis(30)).await;
        holds(bench.tap.count(Api::EndTxn) == 0, "the commit did not wait for the records")?;
        slow.release();
        Ok::<_, Failure>(())
    };
    let (committed, released) = within(async { tokio::join!(transaction.commit(), release) }).await?;
    released?;
    bench.step("commit", committed)?;
    equal("committed", bench.committed(&topic).await?, ["1", "2", "3"])
}

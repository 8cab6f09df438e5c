//! Requests that arrive when their transaction is over.

use std::time::Duration;

use kafka_2pc::client::{Client, Topic, Transaction, TransactionalProducer};
use kafka_2pc::ids::TransactionalId;
use kafka_2pc::wire::api::Api;

use crate::bench::{Bench, full_size, within};
use crate::outcome::{Failure, Outcome, Shown, equal};

const INVALID_PRODUCER_EPOCH: i16 = 47;

/// For how many seconds a copy may be on its way while the next transaction is open.
const UNDER_WAY: [u64; 4] = [1, 5, 20, 60];

/// Each delay on a bench of its own, so that what is traced is the same in every size. Where no clock runs, waiting costs
/// nothing.
fn delays(bench: &Bench) -> Vec<(Bench, Duration)> {
    let count = if full_size() || !bench.arm().is_real() { UNDER_WAY.len() } else { 1 };
    let delays = UNDER_WAY[..count].iter().map(|seconds| Duration::from_secs(*seconds));
    delays.map(|delay| (bench.with_another_tap(), delay)).collect()
}

/// A producer whose transactions outlive every delay.
async fn patient(
    bench: &Bench,
    client: &Client,
    id: &TransactionalId,
) -> Result<TransactionalProducer, Failure> {
    let builder = client.transactional_producer(id.clone());
    bench.init_of(builder.transaction_timeout(Duration::from_secs(300))).await
}

/// A copy of EndTxn that arrives while the next transaction of the same id is open does nothing to it, whether it comes at
/// once or a minute later.
pub(super) async fn g16(bench: &Bench) -> Shown {
    late_end(bench, Duration::ZERO).await?;
    for (bench, delay) in delays(bench) {
        late_end(&bench, delay).await?;
    }
    Ok(())
}

async fn late_end(bench: &Bench, delay: Duration) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let mut first = patient(bench, &client, &bench.id("g16")).await?.begin();
    bench.write(&mut first, &topic, 0, &["first"]).await?;
    let held = bench.tap.hold(Api::EndTxn);
    let producer = bench.step("commit", within(first.commit()).await?)?;
    let late = within(held).await??;
    let mut second = producer.begin();
    bench.write(&mut second, &topic, 0, &["second"]).await?;
    tokio::time::sleep(delay).await;
    late.deliver().await?;
    bench.write(&mut second, &topic, 0, &["third"]).await?;
    equal("visible while the second is open", bench.visible(&topic).await?, ["first"])?;
    bench.step("abort", within(second.abort()).await?)?;
    equal("visible after the abort", bench.committed(&topic).await?, ["first"])
}

/// A copy of Produce that arrives while the next transaction is open is refused, and its records are not in it, whether it
/// comes at once or a minute later.
pub(super) async fn g17(bench: &Bench) -> Shown {
    late_records(bench, Duration::ZERO).await?;
    for (bench, delay) in delays(bench) {
        late_records(&bench, delay).await?;
    }
    Ok(())
}

async fn late_records(bench: &Bench, delay: Duration) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let mut first = patient(bench, &client, &bench.id("g17")).await?.begin();
    let held = bench.tap.hold(Api::Produce);
    bench.write(&mut first, &topic, 0, &["first"]).await?;
    let producer = bench.step("commit", within(first.commit()).await?)?;
    let late = within(held).await??;
    let mut second = producer.begin();
    bench.write(&mut second, &topic, 0, &["second"]).await?;
    tokio::time::sleep(delay).await;
    equal("the late copy", late.deliver().await?, [INVALID_PRODUCER_EPOCH])?;
    if let Err(refused) = bench.write(&mut second, &topic, 0, &["third"]).await {
        return ended(bench, &topic, second, refused).await;
    }
    bench.step("commit", within(second.commit()).await?)?;
    equal("the late copy after the end", late.deliver().await?, [INVALID_PRODUCER_EPOCH])?;
    equal("committed", bench.committed(&topic).await?, ["first", "second", "third"])
}

/// Kafka 4.0 asks its coordinator about a late batch of V2, remembers the batch's sequence for that, and refuses what comes
/// behind it in the transaction that is open. It costs that transaction, and no more.
async fn ended(bench: &Bench, topic: &Topic, second: Transaction, refused: Failure) -> Shown {
    let is_known = bench.v2() && bench.kafka_version().is_some_and(|version| version.starts_with("4.0."));
    let why = Outcome::from(Err(refused)).why().to_owned();
    if !is_known || !why.contains("OUT_OF_ORDER_SEQUENCE_NUMBER") {
        return Err(Failure::wrong(why));
    }
    let mut third = bench.step("abort", within(second.abort()).await?)?.begin();
    bench.write(&mut third, topic, 0, &["fourth"]).await?;
    bench.step("commit", within(third.commit()).await?)?;
    equal("committed", bench.committed(topic).await?, ["first", "fourth"])?;
    Err(Failure::deviation(
        "KAFKA-18042",
        "a late copy of Produce costs the transaction that is open, which is aborted",
    ))
}

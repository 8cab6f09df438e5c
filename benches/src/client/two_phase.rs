//! What others do not have: prepare, and the commit of a committable.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use futures::{StreamExt, future::try_join_all, stream::FuturesUnordered};
use kafka_2pc::{
    client::{Client, ClientConfig, Prepared, Transaction, TransactionalProducer},
    proto::{
        committable::Committable,
        resume::Outcome as Decided,
        settle::{SETTLE_PATIENCE, SettleTarget},
    },
};
use kafka_2pc_bench_child::{Job, Outcome, Stopwatch};

use crate::ours::{Ours, own_id};

/// Connections that commits are spread over.
const CONNECTIONS: u16 = 8;

async fn prepared(transaction: Transaction) -> Result<Committable> {
    match transaction.prepare().await? {
        Prepared::Ready(committable) => Ok(committable),
        other => bail!("nothing was prepared: {other:?}"),
    }
}

async fn commit(client: &Client, committable: &Committable, connection: u16) -> Result<Duration> {
    let began = Instant::now();
    let resumed = client.resume(committable.clone()).connection(connection).commit().await?;
    let time = began.elapsed();
    ensure!(matches!(resumed.outcome, Decided::Committed), "not committed: {:?}", resumed.outcome);
    Ok(time)
}

/// From the barrier to the committable: `acknowledged` where a batch was before the barrier, so that only the last one
/// and its evidence are waited for, `fresh` where none was.
pub(crate) async fn prepare(job: &Job) -> Result<Outcome> {
    let ours = Ours::connect(job).await?;
    let watch = Stopwatch::start();
    let mut outcome = Outcome::default();
    for name in ["acknowledged", "fresh"] {
        let mut times = Vec::new();
        for number in 0..job.transactions {
            let mut producer = ours.builder(format!("{}-{name}", own_id(number))).init().await?;
            producer.prefetch().await?;
            let mut transaction = producer.begin();
            ours.write(&mut transaction, job.records).await?;
            if name == "acknowledged" {
                transaction.flush().await?;
                // The evidence is asked for behind the first acknowledgement; a barrier seldom follows at once.
                tokio::time::sleep(Duration::from_millis(30)).await;
                ours.write(&mut transaction, job.records).await?;
            }
            let began = Instant::now();
            let committable = prepared(transaction).await?;
            times.push(began.elapsed());
            commit(&ours.client, &committable, 0).await?;
        }
        outcome = outcome.timed(name, times);
    }
    Ok(Outcome { numbers: outcome.numbers, ..watch.stop().transactions(job.transactions) })
}

/// Prepares a transaction under each of so many ids.
async fn committables(ours: &Ours<'_>, from: u64, count: u64) -> Result<Vec<Committable>> {
    let mut committables = Vec::new();
    for number in from..from + count {
        let mut transaction = ours.builder(own_id(number)).init().await?.begin();
        ours.write(&mut transaction, ours.job.records).await?;
        committables.push(prepared(transaction).await?);
    }
    Ok(committables)
}

/// From the decision to EndTxn's answer: by a client that has committed before (`known`), and by one that knows the
/// cluster but not the coordinator (`unknown`).
pub(crate) async fn resume(job: &Job) -> Result<Outcome> {
    let ours = Ours::connect(job).await?;
    let watch = Stopwatch::start();
    let (mut known, mut unknown) = (Vec::new(), Vec::new());
    for committable in committables(&ours, 0, job.transactions).await? {
        known.push(commit(&ours.client, &committable, 0).await?);
    }
    for committable in committables(&ours, job.transactions, job.transactions).await? {
        let other = Client::new(ClientConfig::new(&job.bootstrap)?);
        other.topic(&job.topic).await?;
        unknown.push(commit(&other, &committable, 0).await?);
    }
    // The first one opened the connection.
    known.remove(0);
    Ok(watch.stop().transactions(2 * job.transactions).timed("known", known).timed("unknown", unknown))
}

/// All committables of a checkpoint, one after the other on one connection, and at once on several.
pub(crate) async fn fan_out(job: &Job) -> Result<Outcome> {
    let ours = Ours::connect(job).await?;
    let count = job.transactions;
    // Both ways find their connections open.
    for (connection, committable) in
        (0..CONNECTIONS).zip(&committables(&ours, 2 * count, CONNECTIONS.into()).await?)
    {
        commit(&ours.client, committable, connection).await?;
    }
    let (one_by_one, at_once) =
        (committables(&ours, 0, count).await?, committables(&ours, count, count).await?);
    let watch = Stopwatch::start();
    let began = Instant::now();
    for committable in &one_by_one {
        commit(&ours.client, committable, 0).await?;
    }
    let sequential = began.elapsed();
    let began = Instant::now();
    let lanes = at_once.iter().zip((0..CONNECTIONS).cycle());
    try_join_all(lanes.map(|(committable, connection)| commit(&ours.client, committable, connection)))
        .await?;
    let parallel = began.elapsed();
    let outcome = watch.stop().transactions(2 * count);
    Ok(outcome.timed("sequential", vec![sequential]).timed("parallel", vec![parallel]))
}

/// One transaction after the other, each under an id that was ready; what is sent between their batches is counted by
/// the broker.
pub(crate) async fn hand_over(job: &Job) -> Result<Outcome> {
    let ours = Ours::connect(job).await?;
    let mut pool = Vec::new();
    for number in 0..job.transactions {
        let mut producer = ours.builder(own_id(number)).init().await?;
        producer.prefetch().await?;
        pool.push(producer);
    }
    let watch = Stopwatch::start();
    for producer in pool {
        let mut transaction = producer.begin();
        ours.write(&mut transaction, job.records).await?;
        prepared(transaction).await?;
    }
    Ok(watch.stop().transactions(job.transactions))
}

/// Ids of a pool.
const POOL: u64 = 4;

/// As a sink does it: an id that is ready, records, prepare; the commit and the look that it has arrived go on beside the
/// next transaction.
pub(crate) async fn pool(job: &Job) -> Result<Outcome> {
    let ours = Ours::connect(job).await?;
    let mut ready = VecDeque::new();
    for number in 0..POOL {
        let mut producer = ours.builder(own_id(number)).init().await?;
        producer.prefetch().await?;
        ready.push_back(producer);
    }
    let watch = Stopwatch::start();
    let mut ending = FuturesUnordered::new();
    for number in 0..job.transactions {
        let producer = match ready.pop_front() {
            Some(producer) => producer,
            None => ending.next().await.context("every id is somewhere")??,
        };
        let mut transaction = producer.begin();
        ours.write(&mut transaction, job.records).await?;
        let mut preparing = std::pin::pin!(prepared(transaction));
        let committable = loop {
            tokio::select! {
                committable = &mut preparing => break committable?,
                Some(producer) = ending.next() => ready.push_back(producer?),
            }
        };
        let connection = u16::try_from(number % POOL).unwrap_or(0);
        ending.push(end(&ours, committable, connection));
    }
    while let Some(ended) = ending.next().await {
        ended?;
    }
    Ok(watch.stop().records(job.records * job.transactions).transactions(job.transactions))
}

/// Commits, sees the decision arrive, and gets the id ready for its next transaction.
async fn end(ours: &Ours<'_>, committable: Committable, connection: u16) -> Result<TransactionalProducer> {
    let resumed = ours.client.resume(committable.clone()).connection(connection).commit().await?;
    let target = SettleTarget::from_outcome(&committable, &resumed.outcome);
    ours.client.settle(target.context("it is committed")?, SETTLE_PATIENCE).await?;
    let builder = ours.builder(committable.transactional_id.as_str());
    let mut producer = match resumed.next {
        Some(identity) => builder.returned(identity),
        None => builder.used(committable.identity),
    };
    producer.prefetch().await?;
    Ok(producer)
}

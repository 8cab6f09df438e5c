//! Numbers that no coordinator would grant, silences that no broker would ask for, and answers that lead nowhere.

use std::time::Duration;

use kafka_2pc::client::Client;
use kafka_2pc::record::RecordRef;
use kafka_2pc::wire::api::Api;
use kafka_protocol::messages::{
    AddPartitionsToTxnRequest, BrokerId, EndTxnRequest, FindCoordinatorRequest, InitProducerIdRequest,
    InitProducerIdResponse, MetadataRequest, ProduceRequest,
};

use super::super::seen::written;
use super::play::{Told, survived, survived_by, transaction};
use super::watch::Watch;
use crate::bench::{Bench, within};
use crate::outcome::{Failure, Shown, equal, holds};
use crate::tap::Tap;

/// What a hostile coordinator grants.
type Grant = fn(&mut InitProducerIdResponse);

/// Producer ids and epochs that no coordinator grants are not written under, and end nothing but the call.
pub(super) async fn l28(bench: &Bench) -> Shown {
    let grants: [(&str, Grant); 4] = [
        ("no producer id", |a| a.producer_id = (-1).into()),
        ("no epoch", |a| a.producer_epoch = -1),
        ("neither", |a| (a.producer_id, a.producer_epoch) = ((-1).into(), -1)),
        ("the most negative ones", |a| (a.producer_id, a.producer_epoch) = (i64::MIN.into(), i16::MIN)),
    ];
    for (what, grant) in grants {
        let arm = |tap: &Tap| {
            tap.rewrite::<InitProducerIdRequest>(1, move |answer| {
                grant(answer);
                true
            });
        };
        let client = bench.client_of(bench.config()?.max_block(Duration::from_secs(3)));
        survived_by(bench, what, client, arm).await?;
    }
    let negative =
        written(bench)?.iter().filter(|w| w.identity.producer_id.0 < 0 || w.identity.epoch.0 < 0).count();
    equal("batches under a negative number", negative, 0)?;
    epoch_that_falls(bench).await?;
    if bench.v2() { pairs_of_end_txn(bench).await } else { Ok(()) }
}

/// A pair that was used before is granted once more: what is written under it is refused, and is not called committed.
async fn epoch_that_falls(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let id = bench.id("l28");
    let mut first = bench.init(&client, &id).await?.begin();
    bench.write(&mut first, &topic, 0, &["first"]).await?;
    within(first.commit()).await??;
    bench.tap.rewrite::<InitProducerIdRequest>(1, |answer| {
        answer.producer_epoch = 0;
        true
    });
    let mut second = bench.init(&client, &id).await?.begin();
    let written = within(second.send(&topic, Some(0), RecordRef::value(b"second"))).await?;
    let flushed = within(second.flush()).await?;
    let committed = within(second.commit()).await?;
    let seen = bench.committed(&topic).await?;
    let claimed = written.is_ok() && flushed.is_ok() && committed.is_ok();
    let there = seen == ["first", "second"];
    holds(there || (!claimed && seen == ["first"]), format!("claimed: {claimed}, and visible is {seen:?}"))
}

/// The pair that EndTxn returns is none: the commit counts, and the next transaction is not written under it.
async fn pairs_of_end_txn(bench: &Bench) -> Shown {
    for (what, producer_id, epoch) in [("no producer id", -1, 1), ("no epoch", 1, -1), ("neither", -1, -1)] {
        let client = bench.client()?;
        let topic = bench.topic(&client, 1).await?;
        let before = written(bench)?.len();
        let mut first = bench.init(&client, &bench.id("l28")).await?.begin();
        bench.write(&mut first, &topic, 0, &["first"]).await?;
        bench.tap.rewrite::<EndTxnRequest>(1, move |answer| {
            (answer.producer_id, answer.producer_epoch) = (producer_id.into(), epoch);
            true
        });
        let mut second = within(first.commit()).await??.begin();
        bench.write(&mut second, &topic, 0, &["second"]).await?;
        within(second.commit()).await??;
        let pairs: Vec<_> = written(bench)?[before..].iter().map(|w| w.identity).collect();
        let good =
            pairs.len() == 2 && pairs[0] != pairs[1] && pairs[1].epoch.0 >= 0 && pairs[1].producer_id.0 >= 0;
        holds(good, format!("{what}: written under {pairs:?}"))?;
        equal(&format!("{what}: committed"), bench.committed(&topic).await?, ["first", "second"])?;
    }
    Ok(())
}

/// A silence of weeks is kept for a minute at most, and holds up no other connection; a negative one is none.
pub(super) async fn l29(bench: &Bench) -> Shown {
    for ms in [-1, i32::MIN] {
        let what = format!("{ms} ms");
        let arm = |tap: &Tap| {
            macro_rules! throttle {
                ($($request:ty),*) => {$(
                    tap.rewrite::<$request>(1, move |answer| { answer.throttle_time_ms = ms; true });
                )*};
            }
            throttle!(
                MetadataRequest,
                FindCoordinatorRequest,
                InitProducerIdRequest,
                ProduceRequest,
                EndTxnRequest
            );
            if !bench.v2() {
                throttle!(AddPartitionsToTxnRequest);
            }
        };
        let (_, told) = survived(bench, &what, arm).await?;
        equal(&what, told, Told::Committed)?;
    }
    let watch = Watch::begin();
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let mut transaction = bench.init(&client, &bench.id("l29")).await?.begin();
    bench.tap.rewrite::<ProduceRequest>(1, |answer| {
        answer.throttle_time_ms = i32::MAX;
        true
    });
    bench.write(&mut transaction, &topic, 0, &["first"]).await?;
    // Its end goes over another connection.
    let producer = within(transaction.commit()).await??;
    let mut next = producer.begin();
    within(next.send(&topic, Some(0), RecordRef::value(b"second"))).await??;
    let silent = tokio::time::timeout(Duration::from_millis(100), next.flush()).await;
    holds(silent.is_err(), "the silence was not kept at all")?;
    tokio::time::sleep(Duration::from_secs(61)).await;
    within(next.flush()).await??;
    within(next.commit()).await??;
    equal("committed", bench.committed(&topic).await?, ["first", "second"])?;
    watch.end("a month")
}

/// Each lookup names another coordinator, and each answer to Metadata another leader: the call ends in time, it was not asked
/// without end, and all goes on when the answers are good again.
pub(super) async fn l30(bench: &Bench) -> Shown {
    let limit = Duration::from_secs(3);
    let circles = |tap: &Tap| {
        let mut turn = 0;
        tap.rewrite::<FindCoordinatorRequest>(u32::MAX, move |answer| {
            turn = turn % 2 + 1;
            let wrong = |node: BrokerId| BrokerId((node.0 - 1 + turn) % 3 + 1);
            if answer.coordinators.is_empty() {
                answer.node_id = wrong(answer.node_id);
            }
            answer.coordinators.iter_mut().for_each(|c| c.node_id = wrong(c.node_id));
            true
        });
    };
    lost(bench, "circles", Api::FindCoordinator, limit, circles).await?;
    let flapping = |tap: &Tap| {
        let mut turn = 0;
        tap.rewrite::<MetadataRequest>(u32::MAX, move |answer| {
            turn = turn % 2 + 1;
            for partition in answer.topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
                partition.leader_id = BrokerId((partition.leader_id.0 - 1 + turn) % 3 + 1);
            }
            !answer.topics.is_empty()
        });
    };
    lost(bench, "flapping", Api::Metadata, limit, flapping).await
}

async fn lost(bench: &Bench, what: &str, api: Api, limit: Duration, arm: impl FnOnce(&Tap)) -> Shown {
    let watch = Watch::begin();
    let client = bench.client_of(bench.config()?.max_block(limit));
    let topic = bench.topic(&bench.untapped()?, 1).await?;
    let before = bench.tap.requests().len();
    arm(&bench.tap);
    let told = match api {
        Api::FindCoordinator => transaction(bench, &client, &topic, "lost").await?,
        _ => flushed(bench, &client, &topic, limit).await?,
    };
    let sent = bench.tap.requests().len() - before;
    bench.tap.clear();
    // Some refusals name the leader, and then nobody needs Metadata.
    if told == Told::Committed && api == Api::FindCoordinator {
        return Err(Failure::wrong(format!("{what}: committed without a coordinator")));
    }
    // A pause of twenty milliseconds on the average would be far too short already.
    holds(sent < 450, format!("{what}: {sent} requests in {limit:?}"))?;
    watch.end(what)?;
    equal(&format!("{what}, then"), transaction(bench, &client, &topic, "found").await?, Told::Committed)?;
    let seen = bench.committed(&topic).await?;
    let expected: &[&str] = if told == Told::Committed { &["lost", "found"] } else { &["found"] };
    equal(&format!("{what}: committed"), seen, expected)
}

/// A transaction whose records have so much time.
async fn flushed(
    bench: &Bench,
    client: &Client,
    topic: &kafka_2pc::client::Topic,
    limit: Duration,
) -> Result<Told, Failure> {
    let topic = within(client.topic(topic.name())).await??;
    let builder = client.transactional_producer(bench.id("l30")).delivery_timeout(limit);
    let mut transaction = within(builder.init()).await??.begin();
    within(transaction.send(&topic, Some(0), RecordRef::value(b"lost"))).await??;
    Ok(match within(transaction.commit()).await? {
        Ok(_) => Told::Committed,
        Err(error) => Told::Refused(error.to_string()),
    })
}

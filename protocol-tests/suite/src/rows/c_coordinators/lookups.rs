//! Who the coordinator is, and what happens while nobody knows.

use std::time::Duration;

use futures::future::join_all;
use kafka_2pc::client::{Client, SendError};
use kafka_2pc::proto::cause::CauseKind;
use kafka_2pc::record::RecordRef;
use kafka_2pc::wire::api::Api;
use kafka_protocol::messages::FindCoordinatorRequest;

use crate::bench::{Bench, within};
use crate::outcome::{Failure, Shown, equal, holds};
use crate::tap::Act;

/// COORDINATOR_LOAD_IN_PROGRESS.
const LOADING: i16 = 14;
/// COORDINATOR_NOT_AVAILABLE.
const NOT_AVAILABLE: i16 = 15;
/// NOT_COORDINATOR.
const NOT_COORDINATOR: i16 = 16;
/// INVALID_RECORD.
const INVALID_RECORD: i16 = 87;

/// The requests to a coordinator that a transaction consists of here.
fn apis(bench: &Bench) -> Vec<Api> {
    let all = [Api::InitProducerId, Api::AddPartitionsToTxn, Api::EndTxn];
    all.into_iter().filter(|api| !bench.v2() || *api != Api::AddPartitionsToTxn).collect()
}

/// Both ways of losing a request, for both ends of a transaction.
fn cuts() -> [(Act, bool); 4] {
    [(Act::Drop, true), (Act::ApplyThenDrop, true), (Act::Drop, false), (Act::ApplyThenDrop, false)]
}

/// A transaction from InitProducerId to its end, which must be as asked.
async fn transact(bench: &Bench, client: &Client, commit: bool) -> Shown {
    let topic = bench.topic(client, 1).await?;
    let mut transaction = bench.init(client, &bench.id("c")).await?.begin();
    bench.write(&mut transaction, &topic, 0, &["v"]).await?;
    if commit {
        bench.step("commit", within(transaction.commit()).await?)?;
        equal("committed", bench.committed(&topic).await?, ["v"])
    } else {
        bench.step("abort", within(transaction.abort()).await?)?;
        equal("committed", bench.committed(&topic).await?, Vec::<String>::new())
    }
}

/// A request that is lost with its connection, on the way there or back, is sent once more, after the coordinator was
/// looked up again.
pub(super) async fn c04(bench: &Bench) -> Shown {
    for api in apis(bench) {
        for (act, commit) in cuts() {
            let what = format!("{api}, {act:?}, commit {commit}");
            let counts = || (bench.tap.count(api), bench.tap.count(Api::FindCoordinator));
            let before = counts();
            bench.tap.plan(api, 1, act);
            transact(bench, &bench.client()?, commit).await?;
            let after = counts();
            equal(&format!("{what}: sent"), after.0 - before.0, 2)?;
            equal(&format!("{what}: lookups"), after.1 - before.1, 2)?;
        }
    }
    Ok(())
}

/// NOT_COORDINATOR leads to another lookup and the same request again.
pub(super) async fn c05(bench: &Bench) -> Shown {
    for (api, commit) in apis(bench).into_iter().flat_map(|api| [(api, true), (api, false)]) {
        let counts = || (bench.tap.count(api), bench.tap.count(Api::FindCoordinator));
        let before = counts();
        bench.refuse(api, NOT_COORDINATOR, 1)?;
        transact(bench, &bench.client()?, commit).await?;
        let after = counts();
        equal(&format!("{api} sent"), after.0 - before.0, 2)?;
        equal(&format!("lookups for {api}"), after.1 - before.1, 2)?;
    }
    Ok(())
}

/// While nobody knows a coordinator, it is looked up after growing pauses, until the time is over.
pub(super) async fn c06(bench: &Bench) -> Shown {
    bench.refuse(Api::FindCoordinator, NOT_AVAILABLE, 1000)?;
    let client = bench.client_of(bench.config()?.max_block(Duration::from_millis(1500)));
    match within(client.transactional_producer(bench.id("c06")).init()).await? {
        Err(cause) => {
            equal("the cause", cause.kind, CauseKind::Unreachable)?;
            let named = cause.detail.contains("COORDINATOR_NOT_AVAILABLE");
            holds(named, format!("what was answered is not told: {cause}"))?;
        }
        Ok(_) => return Err(Failure::wrong("an identity without a coordinator")),
    }
    let lookups = bench.tap.count(Api::FindCoordinator);
    holds((4..=12).contains(&lookups), format!("{lookups} lookups in 1.5 s"))?;
    bench.embedded()?.clear_faults();
    bench.refuse(Api::FindCoordinator, NOT_AVAILABLE, 3)?;
    transact(bench, &bench.client()?, true).await
}

/// A coordinator that is no broker of the cluster, or a negative number, is no coordinator.
pub(super) async fn c07(bench: &Bench) -> Shown {
    for node in [77, -1, i32::MIN] {
        let wrong = |times| {
            bench.tap.rewrite::<FindCoordinatorRequest>(times, move |answer| {
                match &mut answer.coordinators[..] {
                    [] => answer.node_id = node.into(),
                    several => several.iter_mut().for_each(|c| c.node_id = node.into()),
                }
                true
            });
        };
        wrong(3);
        transact(bench, &bench.client()?, true).await?;
        wrong(u32::MAX);
        let client = bench.client_of(bench.config()?.max_block(Duration::from_millis(300)));
        match within(client.transactional_producer(bench.id("c07")).init()).await? {
            Err(cause) => equal(&format!("the cause with node {node}"), cause.kind, CauseKind::Unreachable)?,
            Ok(_) => return Err(Failure::wrong(format!("node {node} gave an identity"))),
        }
        bench.tap.clear();
    }
    Ok(())
}

/// Whoever asks for the coordinator of an id while it is being looked up waits for that answer. An answer that comes after
/// another broker has answered changes nothing.
pub(super) async fn c08(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let id = bench.id("c08");
    let mut paused = bench.tap.pause_answer(Api::FindCoordinator);
    let admin = client.admin();
    let asked = join_all((0..10).map(|_| admin.describe_transaction(&id)));
    let release = async {
        paused.reached().await?;
        tokio::time::sleep(Duration::from_millis(20)).await;
        paused.release();
        Ok::<_, Failure>(())
    };
    let (answers, released) = within(async { tokio::join!(asked, release) }).await?;
    released?;
    for answer in answers {
        holds(answer?.is_none(), "an id that nobody used is known")?;
    }
    equal("lookups", bench.tap.count(Api::FindCoordinator), 1)?;

    // Where the late answer is the coordinator's own, what else is asked there waits behind it, but not for ever.
    let other = bench.client_of(bench.config()?.request_timeout(Duration::from_secs(2)));
    let late = bench.tap.pause_answer(Api::FindCoordinator);
    let mut transaction = bench.init(&other, &id).await?.begin();
    bench.write(&mut transaction, &topic, 0, &["1"]).await?;
    bench.move_coordinator(&id).await?;
    late.release();
    let producer = bench.step("commit", within(transaction.commit()).await?)?;
    let mut next = producer.begin();
    bench.write(&mut next, &topic, 0, &["2"]).await?;
    bench.step("commit", within(next.commit()).await?)?;
    equal("committed", bench.committed(&topic).await?, ["1", "2"])
}

/// A coordinator that still loads is waited for, at every request.
pub(super) async fn c10(bench: &Bench) -> Shown {
    for (api, commit) in apis(bench).into_iter().flat_map(|api| [(api, true), (api, false)]) {
        let before = bench.tap.count(api);
        bench.refuse(api, LOADING, 5)?;
        transact(bench, &bench.client()?, commit).await?;
        equal(&format!("{api} sent"), bench.tap.count(api) - before, 6)?;
    }
    Ok(())
}

/// A transaction that can only be aborted still looks its coordinator up, and is aborted.
pub(super) async fn c12(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let mut transaction = bench.init(&client, &bench.id("c12")).await?.begin();
    bench.write(&mut transaction, &topic, 0, &["no"]).await?;
    bench.refuse(Api::Produce, INVALID_RECORD, 1)?;
    within(transaction.send(&topic, Some(0), RecordRef::value(b"no"))).await??;
    match within(transaction.flush()).await? {
        Err(SendError::Failed(_)) => {}
        other => return Err(Failure::wrong(format!("INVALID_RECORD led to {other:?}"))),
    }
    let before = bench.tap.count(Api::FindCoordinator);
    bench.refuse(Api::EndTxn, NOT_COORDINATOR, 1)?;
    let producer = bench.step("abort", within(transaction.abort()).await?)?;
    equal("lookups", bench.tap.count(Api::FindCoordinator) - before, 1)?;
    let mut next = producer.begin();
    bench.write(&mut next, &topic, 0, &["yes"]).await?;
    bench.step("commit", within(next.commit()).await?)?;
    equal("committed", bench.committed(&topic).await?, ["yes"])
}

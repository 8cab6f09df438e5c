//! Shutdown.

use std::time::Duration;

use kafka_2pc::client::EndError;
use kafka_2pc::proto::resume::CoordinatorState;
use kafka_2pc::record::RecordRef;
use kafka_2pc::wire::api::Api;

use super::super::seen::until_state;
use crate::bench::{Bench, within};
use crate::outcome::{Failure, Shown, equal};
use crate::tap::Act;

/// A transaction that is let go is aborted. If that can't be done in time, it is told as left to its timeout, and it is.
pub(super) async fn h04(bench: &Bench) -> Shown {
    let client = bench.client_of(bench.config()?.max_block(Duration::from_secs(1)));
    let topic = bench.topic(&client, 1).await?;
    let dropped = bench.id("h04");
    let mut transaction = bench.init(&client, &dropped).await?.begin();
    bench.write(&mut transaction, &topic, 0, &["dropped"]).await?;
    drop(transaction);
    until_state(&client, &dropped, CoordinatorState::CompleteAbort).await?;

    let left = bench.id("h04");
    let mut transaction = bench.init(&client, &left).await?.begin();
    bench.write(&mut transaction, &topic, 0, &["left"]).await?;
    for nth in 1..=60 {
        bench.tap.plan(Api::EndTxn, nth, Act::Drop);
    }
    match bench.step("abort", within(transaction.abort()).await?) {
        Err(EndError::Abandoned(_)) => {}
        other => return Err(Failure::wrong(format!("an abort that nobody hears: {other:?}"))),
    }
    bench.tap.clear();
    let other = bench.client()?;
    until_state(&other, &left, CoordinatorState::Ongoing).await?;
    let mut next = bench.init(&other, &left).await?.begin();
    bench.write(&mut next, &topic, 0, &["next"]).await?;
    bench.step("commit", within(next.commit()).await?)?;
    equal("committed", bench.committed(&topic).await?, ["next"])
}

/// What is let go while it waits for its coordinator, its identity or its first request asks for nothing more, and leaves
/// nothing open.
pub(super) async fn h05(bench: &Bench) -> Shown {
    let client = bench.client_of(bench.config()?.max_block(Duration::from_secs(2)));
    let topic = bench.topic(&client, 1).await?;
    let id = bench.id("h05");
    let builder = || client.transactional_producer(id.clone()).linger(Duration::ZERO);
    let value = RecordRef::value(b"never");

    let mut finding = bench.tap.pause(Api::FindCoordinator);
    let mut transaction = builder().lazy().begin();
    transaction.try_send(&topic, Some(0), value)?;
    finding.reached().await?;
    drop(transaction);
    finding.release();
    // Whatever would have been asked for is asked for before this is answered.
    within(client.admin().describe_transaction(&id)).await??;
    equal("InitProducerId of one who is gone", bench.tap.count(Api::InitProducerId), 0)?;

    let mut initializing = bench.tap.pause(Api::InitProducerId);
    let mut transaction = builder().lazy().begin();
    transaction.try_send(&topic, Some(0), value)?;
    initializing.reached().await?;
    let aborting = within(transaction.abort());
    let releasing = async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        initializing.release();
    };
    let (aborted, ()) = tokio::join!(aborting, releasing);
    aborted??;
    equal("Produce of an aborted transaction", bench.tap.count(Api::Produce), 0)?;
    equal("EndTxn without a transaction", bench.tap.count(Api::EndTxn), 0)?;

    let mut initializing = bench.tap.pause(Api::InitProducerId);
    let mut given_up = Box::pin(builder().init());
    tokio::select! {
        _ = &mut given_up => return Err(Failure::wrong("it was granted without an answer")),
        reached = initializing.reached() => reached?,
    }
    drop(given_up);
    initializing.release();

    let first = if bench.v2() { Api::Produce } else { Api::AddPartitionsToTxn };
    let mut adding = bench.tap.pause(first);
    let mut transaction = within(builder().init()).await??.begin();
    transaction.try_send(&topic, Some(0), value)?;
    transaction.tick()?;
    adding.reached().await?;
    drop(transaction);
    adding.release();
    until_state(&client, &id, CoordinatorState::CompleteAbort).await?;
    equal("committed", bench.committed(&topic).await?.len(), 0)
}

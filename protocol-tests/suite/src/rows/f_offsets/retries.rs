//! Offsets that do not arrive at the first try.

use std::time::Duration;

use kafka_2pc::client::SendError;
use kafka_2pc::proto::cause::CauseKind;
use kafka_2pc::proto::resume::CoordinatorState;
use kafka_2pc::wire::api::Api;
use kafka_protocol::messages::{AddOffsetsToTxnRequest, FindCoordinatorRequest, TxnOffsetCommitRequest};

use super::{apis, group, kept, send, told};
use crate::bench::{Bench, within};
use crate::outcome::{Failure, Shown, equal, holds};
use crate::rows::seen::{ended, until_state};
use crate::tap::Act;

/// COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, CONCURRENT_TRANSACTIONS.
const BUSY: [i16; 4] = [14, 15, 16, 51];

/// The next answer to a request about offsets is another one: the request is carried out all the same.
fn answer_with(bench: &Bench, api: Api, code: i16) {
    match api {
        Api::AddOffsetsToTxn => bench.tap.rewrite::<AddOffsetsToTxnRequest>(1, move |answer| {
            answer.error_code = code;
            true
        }),
        Api::FindCoordinator => bench.tap.rewrite::<FindCoordinatorRequest>(1, move |answer| {
            match &mut answer.coordinators[..] {
                [] => answer.error_code = code,
                several => several.iter_mut().for_each(|c| c.error_code = code),
            }
            true
        }),
        _ => bench.tap.rewrite::<TxnOffsetCommitRequest>(1, move |answer| {
            let partitions = answer.topics.iter_mut().flat_map(|t| &mut t.partitions);
            partitions.for_each(|p| p.error_code = code);
            true
        }),
    }
}

/// Whatever coordinator loads, moves or is busy: what it was asked for is asked for again, and the offsets are committed.
pub(super) async fn f01(bench: &Bench) -> Shown {
    let (first, group) = (bench.client()?, group());
    let topic = bench.topic(&first, 1).await?;
    let mut offset = 0;
    let mut cases = vec![(Api::FindCoordinator, 15)];
    cases.extend(apis(bench).iter().flat_map(|api| BUSY.map(|code| (*api, code))));
    for (api, code) in cases {
        offset += 1;
        // Another client knows no coordinator yet.
        let client = bench.client()?;
        let topic = within(client.topic(topic.name())).await??;
        let mut transaction = bench.init(&client, &bench.id("f01")).await?.begin();
        bench.write(&mut transaction, &topic, 0, &["v"]).await?;
        let before = (bench.tap.count(api), bench.tap.count(Api::FindCoordinator));
        answer_with(bench, api, code);
        send(bench, &mut transaction, (&group, &topic), offset).await??;
        let (sent, lookups) =
            (bench.tap.count(api) - before.0, bench.tap.count(Api::FindCoordinator) - before.1);
        holds(sent >= 2, format!("{api} with {code} was sent {sent} times"))?;
        // The group's own, and another one of whoever said that it is none.
        let moved = usize::from(matches!(code, 15 | 16));
        holds(lookups > moved, format!("{lookups} lookups after {code} to {api}"))?;
        bench.step("commit", within(transaction.commit()).await?)?;
        equal(&format!("the group after {code} to {api}"), told(bench, &group, &topic).await?, Some(offset))?;
    }
    equal("the group in the end", kept(bench, &group, &topic).await?, Some(offset))?;
    equal("records", bench.committed(&topic).await?.len(), usize::try_from(offset)?)
}

/// The request that makes the group's partition a member may have been carried out, however often it was sent and whether
/// or not it was answered: the transaction is ended at its coordinator.
pub(super) async fn f05(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let adding = apis(bench)[0];
    for (act, commit) in
        [(Act::Drop, true), (Act::Drop, false), (Act::ApplyThenDrop, true), (Act::ApplyThenDrop, false)]
    {
        let (id, group) = (bench.id("f05"), group());
        let what = format!("{act:?}, commit {commit}");
        let mut transaction = bench.init(&client, &id).await?.begin();
        let (sent, ends) = (bench.tap.count(adding), ended(bench)?.len());
        bench.tap.plan(adding, 1, act);
        send(bench, &mut transaction, (&group, &topic), 5).await??;
        equal(&format!("{what}: {adding} sent"), bench.tap.count(adding) - sent, 2)?;
        let (state, offset) = if commit {
            bench.step("commit", within(transaction.commit()).await?)?;
            (CoordinatorState::CompleteCommit, Some(5))
        } else {
            bench.step("abort", within(transaction.abort()).await?)?;
            (CoordinatorState::CompleteAbort, None)
        };
        let ends: Vec<_> = ended(bench)?[ends..].iter().map(|end| end.commit).collect();
        equal(&format!("{what}: EndTxn sent"), ends, [commit])?;
        until_state(&client, &id, state).await?;
        equal(&format!("{what}: the group"), kept(bench, &group, &topic).await?, offset)?;
    }

    // Carried out each time, and never answered.
    let (id, group) = (bench.id("f05"), group());
    let builder = client.transactional_producer(id.clone()).delivery_timeout(Duration::from_secs(1));
    let mut transaction = bench.init_of(builder).await?.begin();
    for nth in 1..=60 {
        bench.tap.plan(adding, nth, Act::ApplyThenDrop);
    }
    match send(bench, &mut transaction, (&group, &topic), 5).await? {
        Err(SendError::Failed(cause)) => equal("the cause", cause.kind, CauseKind::DeliveryTimeout)?,
        other => return Err(Failure::wrong(format!("offsets that nobody acknowledged: {other:?}"))),
    }
    bench.tap.clear();
    until_state(&client, &id, CoordinatorState::Ongoing).await?;
    bench.step("abort", within(transaction.abort()).await?)?;
    until_state(&client, &id, CoordinatorState::CompleteAbort).await?;
    equal("the group of a transaction without answers", kept(bench, &group, &topic).await?, None)
}

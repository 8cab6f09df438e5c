//! What proves an outcome when the coordinator no longer tells, and what does not.

use std::time::Duration;

use kafka_2pc::client::{Client, Topic};
use kafka_2pc::ids::TransactionalId;
use kafka_2pc::proto::committable::Committable;
use kafka_2pc::proto::resume::{CoordinatorState, Decision, Evidence, LossCause, Outcome};
use kafka_2pc::proto::settle::SettleTarget;
use kafka_protocol::messages::write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic};
use kafka_protocol::messages::{TopicName, WriteTxnMarkersRequest};
use kafka_protocol::protocol::StrBytes;

use super::super::seen::until_state;
use super::job::{is_committed, is_lost, is_undecidable, prepared};
use crate::bench::{Bench, within};
use crate::outcome::{Failure, Shown, equal, holds};

/// Commits as a stranger would, with no memory of its own.
pub(super) async fn outcome(bench: &Bench, committable: &Committable) -> Result<Outcome, Failure> {
    Ok(within(bench.client()?.resume(committable.clone()).commit()).await??.outcome)
}

/// A transaction of the id that is committed, so that its coordinator tells of that one.
async fn go_on(bench: &Bench, client: &Client, at: (&TransactionalId, &Topic), value: &str) -> Shown {
    let next = prepared(bench, client, at, &[value]).await?;
    let committed = within(client.resume(next.clone()).commit()).await??.outcome;
    is_committed(&committed)?;
    let target = SettleTarget::of(&next, Decision::Commit);
    within(client.settle(target, Duration::from_secs(20))).await??;
    Ok(())
}

/// The topic was deleted, and created anew with somebody else's record at the same offset, between prepare and commit: the
/// coordinator may say committed, and then what is gone is named. Where it can't tell, the new topic proves nothing.
pub(super) async fn k32(bench: &Bench) -> Shown {
    for fenced in [false, true] {
        let client = bench.client()?;
        let topic = bench.topic(&client, 1).await?;
        let (id, name) = (bench.id("k32"), topic.name().to_string());
        let committable = prepared(bench, &client, (&id, &topic), &["gone"]).await?;
        has_topic_ids(&committable)?;
        bench.delete_topic(&name).await?;
        bench.create_topic(&name, 1, &[]).await?;
        let client = bench.client()?;
        let anew = within(client.topic(&name)).await??;
        go_on(bench, &client, (&bench.id("k32"), &anew), "somebody else's").await?;
        if fenced {
            within(client.transactional_producer(id.clone()).init()).await??;
            go_on(bench, &client, (&id, &anew), "the id's next").await?;
        }
        let found = outcome(bench, &committable).await?;
        if fenced {
            is_undecidable(&found)?;
        } else {
            is_committed(&found)?;
            let target = SettleTarget::of(&committable, Decision::Commit);
            let settled = within(client.settle(target, Duration::from_secs(20))).await??;
            equal("partitions that are gone", settled.gone.len(), 1)?;
        }
        let seen = bench.committed(&anew).await?;
        holds(!seen.contains(&"gone".to_owned()), format!("visible: {seen:?}"))?;
    }
    Ok(())
}

/// The first marker of the producer id behind the stored offset tells, whatever its epoch: a commit of the transaction's own
/// epoch proves it; an abort, also of the raised epoch of a fence or a timeout, proves the loss; a commit of another epoch is
/// no success.
pub(super) async fn k33(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    // Committed, and its id has gone on.
    let id = bench.id("k33");
    let committed = prepared(bench, &client, (&id, &topic), &["committed"]).await?;
    is_committed(&outcome(bench, &committed).await?)?;
    go_on(bench, &client, (&id, &topic), "next").await?;
    match outcome(bench, &committed).await? {
        Outcome::AlreadyCommitted(Evidence::Log { proven_by }) => equal("partitions", proven_by.len(), 1)?,
        other => return Err(Failure::wrong(format!("committed before: {}", other.story()))),
    }
    // Fenced, and its id has gone on.
    let id = bench.id("k33");
    let fenced = prepared(bench, &client, (&id, &topic), &["fenced"]).await?;
    go_on(bench, &client, (&id, &topic), "after the fence").await?;
    lost_by_log(bench, &fenced).await?;
    // Timed out, and its id has gone on.
    let id = bench.id("k33");
    let builder = client.transactional_producer(id.clone()).transaction_timeout(Duration::from_secs(1));
    let mut open = within(builder.init()).await??.begin();
    bench.write(&mut open, &topic, 0, &["timed out"]).await?;
    let timed_out = within(open.prepare()).await??.committable();
    let timed_out = timed_out.ok_or_else(|| Failure::wrong("nothing was prepared"))?;
    until_state(&client, &id, CoordinatorState::CompleteAbort).await?;
    go_on(bench, &client, (&id, &topic), "after the timeout").await?;
    lost_by_log(bench, &timed_out).await?;
    // Its records were committed by a marker that is not its commit's.
    let id = bench.id("k33");
    let split = prepared(bench, &client, (&id, &topic), &["split"]).await?;
    let own = split.commit_epoch().unwrap_or_default();
    let other = if bench.v2() { own - 1 } else { own + 1 };
    write_marker(bench, &split, i16::try_from(other)?).await?;
    go_on(bench, &client, (&id, &topic), "after the marker").await?;
    let found = outcome(bench, &split).await?;
    let claimed = matches!(found, Outcome::Committed | Outcome::AlreadyCommitted(_));
    holds(!claimed, format!("a commit of another epoch is called a success: {}", found.story()))
}

async fn lost_by_log(bench: &Bench, committable: &Committable) -> Shown {
    let found = outcome(bench, committable).await?;
    is_lost(&found)?;
    let by_log = matches!(&found, Outcome::Lost { cause: LossCause::Log(_), .. });
    holds(by_log, format!("the coordinator can't know it: {}", found.story()))
}

/// What an administrator's tool sends.
async fn write_marker(bench: &Bench, committable: &Committable, epoch: i16) -> Shown {
    let at = &committable.partitions[0];
    let topic = WritableTxnMarkerTopic::default()
        .with_name(TopicName(StrBytes::from_string(at.topic.to_string())))
        .with_partition_indexes(vec![at.partition]);
    let marker = WritableTxnMarker::default()
        .with_producer_id(committable.identity.producer_id.0.into())
        .with_producer_epoch(epoch)
        .with_transaction_result(true)
        .with_coordinator_epoch(0)
        .with_topics(vec![topic]);
    let request = WriteTxnMarkersRequest::default().with_markers(vec![marker]);
    let mut raw = bench.raw().await?;
    if !raw.offers::<WriteTxnMarkersRequest>() {
        return Err(Failure::not_offered("WriteTxnMarkers, for its last part; the others hold"));
    }
    let answer = raw.ask(1, &request).await?;
    let partitions = answer.markers.iter().flat_map(|m| &m.topics).flat_map(|t| &t.partitions);
    equal("the answers to WriteTxnMarkers", partitions.map(|p| p.error_code).collect::<Vec<_>>(), [0])
}

/// Records are deleted past the stored offset: while the marker is there it proves the outcome, without it nothing does.
pub(super) async fn k35(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let id = bench.id("k35");
    let committable = prepared(bench, &client, (&id, &topic), &["1", "2"]).await?;
    // Without them a marker may be of a later topic of the same name, and proves nothing by itself.
    has_topic_ids(&committable)?;
    is_committed(&outcome(bench, &committable).await?)?;
    go_on(bench, &client, (&id, &topic), "3").await?;
    // Two records, then the marker.
    bench.delete_records(&topic, 2).await?;
    match outcome(bench, &committable).await? {
        Outcome::AlreadyCommitted(Evidence::Log { .. }) => {}
        other => return Err(Failure::wrong(format!("with its marker: {}", other.story()))),
    }
    bench.delete_records(&topic, 3).await?;
    is_undecidable(&outcome(bench, &committable).await?)
}

fn has_topic_ids(committable: &Committable) -> Shown {
    match committable.partitions.iter().all(|p| p.topic_id.is_known()) {
        true => Ok(()),
        false => Err(Failure::not_offered("topic ids")),
    }
}

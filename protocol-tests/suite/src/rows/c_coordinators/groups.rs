//! Coordinators of consumer groups, beside those of transactions.

use std::time::Duration;

use kafka_2pc::client::{ConsumerGroupMetadata, GroupId};
use kafka_2pc::ids::TopicPartition;
use kafka_2pc::proto::offsets::offsets_partition;
use kafka_2pc::wire::api::Api;

use crate::bench::{Bench, fresh, within};
use crate::outcome::{Failure, Shown, equal, holds};
use crate::rows::f_offsets::{group, kept, send};

/// NOT_COORDINATOR.
const NOT_COORDINATOR: i16 = 16;
/// Partitions of the embedded broker's `__consumer_offsets`.
const OFFSETS_PARTITIONS: i32 = 50;

/// The partition that keeps a group's offsets, and the node that leads it.
fn coordinator(bench: &Bench, group: &ConsumerGroupMetadata) -> Result<(TopicPartition, i32), Failure> {
    let at = offsets_partition(&group.group_id, OFFSETS_PARTITIONS);
    let at = at.ok_or_else(|| Failure::wrong("no partition for the group"))?;
    let node = bench.embedded()?.leader(&at).ok_or_else(|| Failure::wrong("no coordinator of the group"))?;
    Ok((at, node))
}

/// Whoever coordinates the group gets its offsets, and whoever coordinates the id everything else.
pub(super) async fn c01(bench: &Bench) -> Shown {
    let broker = bench.embedded()?;
    let id = bench.id("c01");
    let of_id = broker.transaction_coordinator(id.as_str());
    let of_id = of_id.ok_or_else(|| Failure::wrong("no coordinator of the id"))?;
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let mut producer = bench.init(&client, &id).await?;
    for node in 1..=3 {
        let group = loop {
            let group = ConsumerGroupMetadata::new(GroupId::new(&*fresh("group")));
            if coordinator(bench, &group)?.1 == node {
                break group;
            }
        };
        broker.clear_journal();
        let mut transaction = producer.begin();
        bench.write(&mut transaction, &topic, 0, &["v"]).await?;
        send(bench, &mut transaction, (&group, &topic), 5).await??;
        producer = bench.step("commit", within(transaction.commit()).await?)?;
        equal("the group", kept(bench, &group, &topic).await?, Some(5))?;
        let mut seen = Vec::new();
        for entry in broker.journal() {
            let expected = match entry.api {
                Api::TxnOffsetCommit | Api::OffsetFetch => node,
                Api::InitProducerId | Api::AddPartitionsToTxn | Api::AddOffsetsToTxn | Api::EndTxn => of_id,
                _ => continue,
            };
            equal(&format!("the node that got {}", entry.api), entry.node, expected)?;
            seen.push(entry.api);
        }
        let added = seen.contains(&Api::AddOffsetsToTxn);
        equal("AddOffsetsToTxn was sent", added, !bench.v2())?;
        let both = seen.contains(&Api::TxnOffsetCommit) && seen.contains(&Api::EndTxn);
        holds(both, format!("asked for: {seen:?}"))?;
    }
    Ok(())
}

/// The coordinator of the id moves while AddOffsetsToTxn is on its way to it, and while its answer is on its way back: it
/// is sent again to the new one.
pub(super) async fn c03(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let id = bench.id("c03");
    let group = group();
    let mut producer = bench.init(&client, &id).await?;
    for (offset, answered) in [(1, false), (2, true)] {
        let mut transaction = producer.begin();
        bench.write(&mut transaction, &topic, 0, &["v"]).await?;
        let sent = bench.tap.count(Api::AddOffsetsToTxn);
        let mut paused = if answered {
            bench.tap.pause_answer(Api::AddOffsetsToTxn)
        } else {
            bench.tap.pause(Api::AddOffsetsToTxn)
        };
        let moves = async {
            paused.reached().await?;
            bench.move_coordinator(&id).await?;
            if answered {
                // The answer never comes: it waits until the offsets are taken.
                bench.tap.disconnect();
                return Ok::<_, Failure>(Some(paused));
            }
            paused.release();
            Ok(None)
        };
        let (took, moved) = tokio::join!(send(bench, &mut transaction, (&group, &topic), offset), moves);
        drop(moved?);
        took??;
        let again = bench.tap.count(Api::AddOffsetsToTxn) - sent;
        holds(again >= 2, format!("AddOffsetsToTxn was sent {again} times"))?;
        producer = bench.step("commit", within(transaction.commit()).await?)?;
        equal("the group", kept(bench, &group, &topic).await?, Some(offset))?;
    }
    let answers = bench.tap.answers();
    let refused = |a: &crate::tap::Answer| a.api == Api::AddOffsetsToTxn && a.codes == [NOT_COORDINATOR];
    holds(answers.iter().any(refused), "nobody was asked who is not the coordinator any more")?;
    equal("committed", bench.committed(&topic).await?, ["v", "v"])
}

/// The coordinator of the group is away while offsets are committed: they wait until it is back, or until another node is
/// it.
pub(super) async fn c09(bench: &Bench) -> Shown {
    let broker = bench.embedded()?;
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let group = group();
    let (at, node) = coordinator(bench, &group)?;
    let mut transaction = bench.init(&client, &bench.id("c09")).await?.begin();
    bench.write(&mut transaction, &topic, 0, &["v"]).await?;
    send(bench, &mut transaction, (&group, &topic), 1).await??;

    // Nobody is it for a while, and then the same node again.
    broker.take_leader(&at)?;
    let before = bench.tap.count(Api::TxnOffsetCommit) + bench.tap.count(Api::FindCoordinator);
    let back = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        broker.move_leader(&at, node)
    };
    let (took, moved) = tokio::join!(send(bench, &mut transaction, (&group, &topic), 2), back);
    moved?;
    took??;
    let asked = bench.tap.count(Api::TxnOffsetCommit) + bench.tap.count(Api::FindCoordinator) - before;
    holds((3..=40).contains(&asked), format!("{asked} requests in 0.3 s"))?;

    // It dies before it gets the request, and another node is it.
    let held = bench.tap.hold(Api::TxnOffsetCommit);
    let kill = async {
        within(held).await??;
        bench.kill_node(node).await
    };
    let (took, killed) = tokio::join!(send(bench, &mut transaction, (&group, &topic), 3), kill);
    killed?;
    took??;
    holds(coordinator(bench, &group)?.1 != node, "the coordinator did not move")?;
    bench.restart_node(node).await?;

    // It moves back when it has kept the offset and before it says so.
    let mut paused = bench.tap.pause_answer(Api::TxnOffsetCommit);
    let moves = async {
        paused.reached().await?;
        broker.move_leader(&at, node)?;
        bench.tap.disconnect();
        Ok::<_, Failure>(paused)
    };
    let (took, moved) = tokio::join!(send(bench, &mut transaction, (&group, &topic), 4), moves);
    drop(moved?);
    took??;
    bench.step("commit", within(transaction.commit()).await?)?;
    equal("the group", kept(bench, &group, &topic).await?, Some(4))?;
    equal("committed", bench.committed(&topic).await?, ["v"])
}

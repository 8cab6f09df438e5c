//! What compaction leaves of a transaction, and what that proves.

use std::time::Duration;

use kafka_2pc::client::{Client, Topic};
use kafka_2pc::ids::{TopicPartition, TransactionalId};
use kafka_2pc::proto::committable::Committable;
use kafka_2pc::proto::resume::Decision;
use kafka_2pc::proto::settle::SettleTarget;
use kafka_2pc::record::RecordRef;
use kafka_2pc::wire::batch::Batch;

use super::evidence::outcome;
use super::job::{is_committed, is_lost, is_undecidable};
use crate::bench::{Bench, fresh, within};
use crate::outcome::{Failure, Shown, equal, holds};

/// Compaction has taken the records, and of the control batches at most what has no record: whether the transaction was
/// committed or aborted, nothing proves it any more, and no success is claimed.
pub(super) async fn k34(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let name = fresh("compacted");
    let configs = [
        ("cleanup.policy", "compact"),
        ("segment.ms", "100"),
        ("min.cleanable.dirty.ratio", "0.001"),
        ("delete.retention.ms", "0"),
        // So that the log is whole at first, however long this takes.
        ("min.compaction.lag.ms", "10000"),
    ];
    bench.create_topic(&name, 1, &configs).await?;
    let topic = within(client.topic(&name)).await??;
    let (ends, fenced) = (bench.id("k34"), bench.id("k34"));
    let committed = keyed(&client, (&ends, &topic), "committed").await?;
    is_committed(&outcome(bench, &committed).await?)?;
    go_on(&client, (&ends, &topic)).await?;
    let aborted = keyed(&client, (&fenced, &topic), "aborted").await?;
    go_on(&client, (&fenced, &topic)).await?;
    let gone: Vec<_> = [&committed, &aborted].iter().map(|c| c.partitions[0].offset).collect();
    // As long as the log is whole it tells both.
    is_committed(&outcome(bench, &committed).await?)?;
    is_lost(&outcome(bench, &aborted).await?)?;
    // The newest of its key is another's record.
    bench.write_keyed(&topic, KEY, "new").await?;
    compact(bench, &topic, &gone).await?;
    for committable in [&committed, &aborted] {
        is_undecidable(&outcome(bench, committable).await?)?;
    }
    let visible = bench.visible(&topic).await?;
    let visible: Vec<_> = visible.iter().filter(|value| *value != "filler").collect();
    equal("visible", visible, ["new"])
}

const KEY: &str = "k";

/// A prepared transaction of one record.
async fn keyed(
    client: &Client,
    (id, topic): (&TransactionalId, &Topic),
    value: &str,
) -> Result<Committable, Failure> {
    let mut open = within(client.transactional_producer(id.clone()).init()).await??.begin();
    let record = RecordRef::value(value.as_bytes()).with_key(KEY.as_bytes());
    within(open.send(topic, Some(0), record)).await??;
    let committable = within(open.prepare()).await??.committable();
    committable.ok_or_else(|| Failure::wrong("nothing was prepared"))
}

/// The id's next transaction is committed, so that its coordinator tells of that one.
async fn go_on(client: &Client, at: (&TransactionalId, &Topic)) -> Shown {
    let next = keyed(client, at, "next").await?;
    is_committed(&within(client.resume(next.clone()).commit()).await??.outcome)?;
    let target = SettleTarget::of(&next, Decision::Commit);
    within(client.settle(target, Duration::from_secs(20))).await??;
    Ok(())
}

/// Whether a batch that begins at this offset has records, or a marker, still.
fn is_there(log: &[Batch], offset: i64) -> bool {
    log.iter().map(Batch::header).any(|header| header.base_offset == offset && header.count > 0)
}

/// Waits until the cleaner has left neither the records at these offsets nor the markers behind them. The marker of the
/// newest transaction of a producer may stay.
async fn compact(bench: &Bench, topic: &Topic, gone: &[i64]) -> Shown {
    let is_done = |log: &[Batch]| !gone.iter().any(|data| is_there(log, *data) || is_there(log, data + 1));
    let mut log = Vec::new();
    for round in 0..150 {
        if let Ok(broker) = bench.embedded() {
            broker.compact(&TopicPartition::new(topic.name().clone(), 0))?;
        } else {
            // A segment that nobody appends to is never closed, and so never compacted.
            bench.write_keyed(topic, &format!("filler {round}"), "filler").await?;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        log = bench.log(topic).await?;
        if is_done(&log) {
            return Ok(());
        }
    }
    let shown: Vec<_> = log.iter().map(|batch| *batch.header()).collect();
    holds(false, format!("compaction left {shown:?}"))
}

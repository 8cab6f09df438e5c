//! Offsets of consumer groups in the transaction.

mod members;
mod quiet;
mod retries;
mod together;

use kafka_2pc::client::{ConsumerGroupMetadata, GroupId, OffsetAndMetadata, SendError, Topic, Transaction};
use kafka_2pc::ids::TopicPartition;
use kafka_2pc::wire::api::Api;

use super::{Row, rows};
use crate::bench::{Bench, blocking, fresh, venv, within};
use crate::outcome::{Failure, equal};
use members::{f03, f04};
use quiet::{f02, f09};
use retries::{f01, f05};
use together::{f06, f07, f08};

pub(super) const ROWS: &[Row] = rows![f01 f02 f03 f04 f05 f06 f07 f08 f09];

/// A group that nobody used before, and of which nobody is a member.
pub(super) fn group() -> ConsumerGroupMetadata {
    ConsumerGroupMetadata::new(GroupId::new(&*fresh("group")))
}

/// The partition whose offset is committed.
pub(super) fn place(topic: &Topic) -> TopicPartition {
    TopicPartition::new(topic.name().clone(), 0)
}

/// The requests that bring offsets into a transaction here; the first of them makes the group's partition a member.
pub(super) fn apis(bench: &Bench) -> &'static [Api] {
    if bench.v2() { &[Api::TxnOffsetCommit] } else { &[Api::AddOffsetsToTxn, Api::TxnOffsetCommit] }
}

/// Sends one offset.
pub(super) async fn send(
    bench: &Bench,
    transaction: &mut Transaction,
    (group, topic): (&ConsumerGroupMetadata, &Topic),
    offset: i64,
) -> Result<Result<(), SendError>, Failure> {
    let offsets = [(place(topic), OffsetAndMetadata::new(offset))];
    let sent = within(transaction.send_offsets(group, offsets)).await?;
    // The text of a refusal names the group, which has another name on each arm.
    bench.trace.call(&bench.tap, "send offsets", if sent.is_ok() { "ok" } else { "refused" });
    Ok(sent)
}

/// The offset that a group has committed, in the words of our client. On real brokers librdkafka is asked too, and must
/// say the same.
pub(super) async fn kept(
    bench: &Bench,
    group: &ConsumerGroupMetadata,
    topic: &Topic,
) -> Result<Option<i64>, Failure> {
    let ours = told(bench, group, topic).await?;
    if bench.arm().is_real() {
        let (bootstrap, name) = (bench.bootstrap(), topic.name().to_string());
        let group = group.group_id.to_string();
        let theirs = blocking(move || -> Result<Option<i64>, Failure> {
            let standing = venv()?.standing(&bootstrap, &group, &name)?;
            Ok(standing.get(&0).and_then(|at| at.committed))
        });
        equal("the group's offset by librdkafka", theirs.await??, ours)?;
    }
    Ok(ours)
}

/// The same by our client alone.
pub(super) async fn told(
    bench: &Bench,
    group: &ConsumerGroupMetadata,
    topic: &Topic,
) -> Result<Option<i64>, Failure> {
    let client = bench.untapped()?;
    let told = within(client.committed(&group.group_id, [place(topic)])).await??;
    Ok(told.into_values().next().flatten().map(|at| at.offset))
}

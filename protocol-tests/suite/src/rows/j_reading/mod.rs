//! Reading what is committed.

mod answers;
mod compaction;
mod ends;
mod forged;
mod records;
mod scenarios;
mod truncation;
mod waiting;

use std::time::Duration;

use kafka_2pc::client::{Client, Consumer, ConsumerRecord, Isolation, Start, Topic};
use kafka_2pc::ids::TopicPartition;

use super::{Row, rows};
use crate::bench::within;
use crate::outcome::Failure;
use answers::{j03, j11};
use compaction::{j07, j16};
use ends::{j02, j05, j06, j09};
use forged::{j04, j14};
use records::{j12, j13};
use scenarios::j01;
use truncation::j10;
use waiting::{j08, j15};

pub(super) use records::{all_shapes, contents};

pub(super) const ROWS: &[Row] = rows![j01 j02 j03 j04 j05 j06 j07 j08 j09 j10 j11 j12 j13 j14 j15 j16];

/// The first partition of a topic.
fn place(topic: &Topic) -> TopicPartition {
    TopicPartition::new(topic.name().clone(), 0)
}

/// A reader of the first partition from its beginning.
fn reader(client: &Client, topic: &Topic, isolation: Isolation) -> Consumer {
    let mut consumer = client.consumer().isolation(isolation).build();
    consumer.assign([(place(topic), Start::Beginning)]);
    consumer
}

/// Everything up to `end`, which the reader must reach.
async fn read_to(
    consumer: &mut Consumer,
    at: &TopicPartition,
    end: i64,
) -> Result<Vec<ConsumerRecord>, Failure> {
    let mut records = Vec::new();
    while consumer.position(at).is_none_or(|position| position < end) {
        records.extend(within(consumer.advance()).await??);
    }
    Ok(records)
}

/// The values, as texts.
fn texts(records: &[ConsumerRecord]) -> Vec<String> {
    let text = |r: &ConsumerRecord| {
        String::from_utf8_lossy(r.record.value.as_deref().unwrap_or(b"null")).into_owned()
    };
    records.iter().map(text).collect()
}

/// The end of the first partition for an isolation.
async fn end_of(client: &Client, topic: &Topic, isolation: Isolation) -> Result<i64, Failure> {
    let ends = within(reader(client, topic, isolation).end_offsets(isolation)).await??;
    ends.get(&place(topic)).copied().ok_or_else(|| Failure::wrong("no end of the partition"))
}

/// Waits until the end of the first partition is `end`: markers come a moment after the answer to EndTxn.
async fn until_end(client: &Client, topic: &Topic, isolation: Isolation, end: i64) -> Result<(), Failure> {
    within(async {
        while end_of(client, topic, isolation).await? != end {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    })
    .await?
}

//! Reads the topic as anybody would, read_committed: once while records come in, and once from its beginning.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::tally::Tally;
use crate::cli::latency::Latencies;
use crate::{
    client::{Client, Consumer, Isolation, Start},
    ids::TopicPartition,
    net::{Background, Clock},
};

/// How long nothing may come before the topic's end is reached.
const PATIENCE: Duration = Duration::from_secs(30);

/// A reader that takes the time from a record's birth until it is read.
pub(super) struct LiveReader {
    seen: Arc<Mutex<Latencies>>,
    _task: Background<()>,
}

impl LiveReader {
    /// Starts to read; tells after each batch how many records came so far.
    pub(super) fn start(
        client: &Client,
        topic: &str,
        partitions: i32,
        tell: impl Fn(u64) + Send + 'static,
    ) -> Self {
        let seen = Arc::new(Mutex::new(Latencies::default()));
        let mut consumer = assigned(client, topic, partitions);
        let to = Arc::clone(&seen);
        let task = Background::start(async move {
            loop {
                let Ok(batch) = consumer.next_batch().await else {
                    // It only measures; what is in the topic is counted afterwards.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                };
                let now = Clock::wall_ms();
                let mut seen = lock(&to);
                for record in batch {
                    let age_ms = now.saturating_sub(record.record.timestamp);
                    seen.push(Duration::from_millis(u64::try_from(age_ms).unwrap_or(0)));
                }
                let count = seen.count();
                drop(seen);
                tell(count as u64);
            }
        });
        Self { seen, _task: task }
    }

    /// The times of all records, after waiting a moment for the last of `expected`.
    pub(super) async fn finish(self, expected: u64) -> Latencies {
        for _ in 0..100 {
            if lock(&self.seen).count() as u64 >= expected {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        lock(&self.seen).clone()
    }
}

fn lock(seen: &Mutex<Latencies>) -> MutexGuard<'_, Latencies> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

fn assigned(client: &Client, topic: &str, partitions: i32) -> Consumer {
    let mut consumer = client.consumer().isolation(Isolation::Committed).build();
    consumer.assign((0..partitions).map(|p| (TopicPartition::new(topic, p), Start::Beginning)));
    consumer
}

/// Reads from the beginning up to where readers get now, into the tally.
///
/// # Errors
/// The cluster does not answer, or the end is not reached.
pub(super) async fn read_back(
    client: &Client,
    topic: &str,
    partitions: i32,
    tally: &mut Tally,
) -> anyhow::Result<()> {
    let mut consumer = assigned(client, topic, partitions);
    let mut ends: HashMap<TopicPartition, i64> = consumer.end_offsets(Isolation::Committed).await?;
    let clock = client.clock();
    let mut heard = clock.now();
    loop {
        // What is read to its end is not asked for again: the answer would wait for more.
        ends.retain(|place, end| {
            let left = consumer.position(place).unwrap_or(0) < *end;
            if !left {
                consumer.unassign(place);
            }
            left
        });
        if ends.is_empty() {
            return Ok(());
        }
        let batch = consumer.poll(Duration::from_millis(100)).await?;
        if !batch.is_empty() {
            heard = clock.now();
        } else if clock.now().since(heard) > PATIENCE {
            anyhow::bail!("reading {topic} back stalls before its end");
        }
        for record in &batch {
            tally.see(record.partition, record.record.value.as_deref());
        }
    }
}

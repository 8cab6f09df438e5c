//! The Kafka source: partitions as splits, offsets in the checkpoint.
//!
//! ```text
//! open:   topics' ids and partitions ─► those of this subtask ─┬─ in the checkpoint ─► its offset, its end
//!                                                              ├─ new in a known topic ─► earliest
//!                                                              └─ topic not known yet ─► StartFrom
//! next:   Consumer::advance ─► records up to the end            every interval: new partitions ─► earliest
//! ```
//! The checkpoint is what a restart reads. To a consumer group offsets are committed for others only, by the sink.

mod discovery;
mod plan;
mod reader;
mod start;
mod state;

use std::time::Duration;

use futures::{FutureExt, future::BoxFuture};

pub use start::{StartError, StartFrom};
pub use state::SourceOffset;

use super::{Source, SourceError, SourceReader, SplitState, Subtask, pace::Pace};
use crate::{
    client::{Client, ConsumerBuilder, Isolation, OutOfRangePolicy},
    ids::TopicName,
};
use state::KafkaSplit;

/// `partition.discovery.interval.ms`, as Flink has it.
const DISCOVERY_INTERVAL: Duration = Duration::from_secs(300);

/// The records of one or several topics.
///
/// Every partition is a split and belongs to one subtask. The checkpoint keeps its offset, its topic's id, the leader
/// epoch of what was read last, and for a bounded source where to stop. Positions move over control records and aborted
/// transactions too.
///
/// Leaders that move and brokers that are away are waited for, with growing pauses and a warning after some seconds;
/// opening a reader gives up after `max.block.ms`. A
/// topic that was deleted, or deleted and created anew, is an error ([`ConsumerError`](crate::client::ConsumerError)):
/// offsets of before mean nothing there. Brokers before 3.1, and those that do not know topics by id, can hand out
/// records of the new topic for up to 10 s before that is noticed.
///
/// Keys, values and headers are slices of fetched payloads: an operator that keeps a few of many should copy them.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use kafka_2pc::{
///     client::{Client, ClientConfig},
///     source::{KafkaSource, Source, StartFrom, Subtask},
/// };
///
/// let client = Client::new(ClientConfig::new("localhost:9092")?);
/// let source = KafkaSource::new(&client, ["flights"]).start(StartFrom::Latest);
/// let mut reader = source.open(Subtask::ONLY, &[]).await?;
/// while let Some(records) = reader.next().await? {
///     println!("{} records, next: {:?}", records.len(), KafkaSource::offsets(&reader.snapshot())?);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct KafkaSource {
    client: Client,
    topics: Vec<TopicName>,
    start: StartFrom,
    bound: Bound,
    isolation: Isolation,
    discovery_interval: Duration,
    partition: Partition,
    per_second: Option<u32>,
    consumer: ConsumerBuilder,
}

/// Whether there is an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bound {
    None,
    /// What is stable when a partition is seen first.
    Stable,
    /// What is stable now, whatever the checkpoint says.
    Anew,
}

/// What becomes of a record's partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Partition {
    Kept,
    Cleared,
}

impl KafkaSource {
    /// Reads these topics, from their beginning and without an end, committed records only.
    pub fn new(client: &Client, topics: impl IntoIterator<Item = impl Into<TopicName>>) -> Self {
        let mut topics: Vec<TopicName> = topics.into_iter().map(Into::into).collect();
        topics.sort();
        topics.dedup();
        Self {
            client: client.clone(),
            topics,
            start: StartFrom::default(),
            bound: Bound::None,
            isolation: Isolation::default(),
            discovery_interval: DISCOVERY_INTERVAL,
            partition: Partition::Kept,
            per_second: None,
            consumer: client.consumer(),
        }
    }

    /// Where to begin where the checkpoint says nothing. Default [`StartFrom::Earliest`].
    #[must_use]
    pub fn start(self, start: StartFrom) -> Self {
        Self { start, ..self }
    }

    /// Ends where the partitions end at the first start: at their last stable offsets, or with
    /// [`Isolation::Uncommitted`] at their high watermarks. The checkpoint keeps these, so that a restart ends there
    /// too. What an open transaction hides at that moment is not waited for. Partitions that come later are not read.
    #[must_use]
    pub fn until_end(self) -> Self {
        Self { bound: Bound::Stable, ..self }
    }

    /// Ends where the partitions end now, also where the checkpoint holds an earlier end: for a job that came to its
    /// end, and is started again to read what was written since. Partitions that were added since are read too.
    #[must_use]
    pub fn until_new_end(self) -> Self {
        Self { bound: Bound::Anew, ..self }
    }

    /// `isolation.level`. Default: committed records only.
    #[must_use]
    pub fn isolation(self, isolation: Isolation) -> Self {
        Self { isolation, consumer: self.consumer.isolation(isolation), ..self }
    }

    /// `partition.discovery.interval.ms`: how often new partitions are looked for; zero for never. They are read from
    /// their earliest offset, by the one subtask that they belong to. Default 5 min.
    #[must_use]
    pub fn discovery_interval(self, discovery_interval: Duration) -> Self {
        Self { discovery_interval, ..self }
    }

    /// What is done when an offset is not in the log, because retention removed it or because the log was truncated.
    /// Default: [`ConsumerError::OutOfRange`](crate::client::ConsumerError::OutOfRange), which names the partition, the
    /// offset and what is there.
    #[must_use]
    pub fn out_of_range(self, policy: OutOfRangePolicy) -> Self {
        Self { consumer: self.consumer.out_of_range(policy), ..self }
    }

    /// Leaves the partition of the records open, for the partitioner of a sink to choose. Default: it is the partition
    /// that they come from, as a mirror wants it.
    #[must_use]
    pub fn without_partition(self) -> Self {
        Self { partition: Partition::Cleared, ..self }
    }

    /// So many records a second, of all subtasks together; 0 is no limit. Whole batches are handed out, each as soon as
    /// those before it are paid for. What a job missed while it stood still is not made up for. Default: no limit.
    #[must_use]
    pub fn records_per_second(self, records: u32) -> Self {
        Self { per_second: (records > 0).then_some(records), ..self }
    }

    /// `fetch.max.wait.ms`, as [`ConsumerBuilder::max_wait`].
    #[must_use]
    pub fn max_wait(self, max_wait: Duration) -> Self {
        Self { consumer: self.consumer.max_wait(max_wait), ..self }
    }

    /// `queued.max.messages.kbytes`, in bytes, as [`ConsumerBuilder::queued_max_bytes`]: a reader holds as much.
    #[must_use]
    pub fn queued_max_bytes(self, bytes: usize) -> Self {
        Self { consumer: self.consumer.queued_max_bytes(bytes), ..self }
    }

    /// `fetch.max.bytes`, as [`ConsumerBuilder::max_bytes`].
    #[must_use]
    pub fn max_bytes(self, max_bytes: i32) -> Self {
        Self { consumer: self.consumer.max_bytes(max_bytes), ..self }
    }

    /// `max.partition.fetch.bytes`, as [`ConsumerBuilder::max_partition_bytes`]: partitions take turns after as much.
    #[must_use]
    pub fn max_partition_bytes(self, max_bytes: i32) -> Self {
        Self { consumer: self.consumer.max_partition_bytes(max_bytes), ..self }
    }

    /// The offsets of a snapshot, for a sink that commits them in its own transaction.
    ///
    /// # Errors
    /// [`SourceError::State`] if a state is not this source's.
    pub fn offsets(snapshot: &[SplitState]) -> Result<Vec<SourceOffset>, SourceError> {
        snapshot.iter().map(|state| KafkaSplit::read(state).map(KafkaSplit::offset)).collect()
    }

    async fn reader(&self, subtask: Subtask, restored: &[SplitState]) -> Result<reader::Reader, SourceError> {
        let plan = plan::plan(self, subtask, restored).await?;
        let discovery = (self.bound == Bound::None && !self.discovery_interval.is_zero()).then(|| {
            let client = self.client.clone();
            discovery::Discovery::new(client, self.discovery_interval, subtask, plan.topics)
        });
        let pace = self.per_second.map(|rate| Pace::new(f64::from(rate) / f64::from(subtask.total.max(1))));
        let consumer = self.consumer.clone().build();
        let settings = (self.partition, self.bound);
        Ok(reader::Reader::new(consumer, plan.splits, discovery, settings).paced(pace, self.client.clock()))
    }
}

impl Source for KafkaSource {
    fn open<'a>(
        &'a self,
        subtask: Subtask,
        restored: &'a [SplitState],
    ) -> BoxFuture<'a, Result<Box<dyn SourceReader>, SourceError>> {
        async move { Ok(Box::new(self.reader(subtask, restored).await?) as Box<dyn SourceReader>) }.boxed()
    }
}

//! Fetch (1), without sessions; the records of its answer stay where they were received.

use bytes::Bytes;
use kafka_protocol::messages::{
    BrokerId, FetchRequest,
    fetch_request::{FetchPartition, FetchTopic},
};
use uuid::Uuid;

use super::{Answered, Call, ExchangeError, Head, Isolation, by_topic, frame_message, throttle, topic_name};
use crate::{
    ids::{TopicId, TopicPartition},
    wire::{api::Api, fetch::FetchResponse, versions::Cap},
};

/// Reads from some partitions of one leader.
#[derive(Debug, Clone)]
pub struct Fetch {
    /// What the reader wants to see.
    pub isolation: Isolation,
    /// How long the broker may wait for `min_bytes`.
    pub max_wait_ms: i32,
    /// How much it should wait for.
    pub min_bytes: i32,
    /// The most that it should answer; a first batch that is larger comes whole.
    pub max_bytes: i32,
    /// Where to read.
    pub targets: Vec<FetchTarget>,
}

/// A place to read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchTarget {
    /// The partition.
    pub partition: TopicPartition,
    /// Its topic's id. If all targets have theirs, a broker that knows ids reads from no other topic of that name.
    pub topic_id: TopicId,
    /// The first offset wanted.
    pub offset: i64,
    /// The most bytes of this partition.
    pub max_bytes: i32,
    /// The leader epoch of what was read before `offset`, if known. From version 12 on, a leader whose log is another one
    /// there says where they part, and gives no records.
    pub last_epoch: Option<i32>,
}

/// The first version that asks with the epoch of what was read last.
const LAST_EPOCH: i16 = 12;

impl Call for Fetch {
    type Answer = FetchResponse;

    fn api(&self) -> Api {
        Api::Fetch
    }

    fn cap(&self) -> Cap {
        let all = self.targets.iter().all(|target| target.topic_id.is_known());
        if all { Cap::NotTransactional } else { Cap::TopicsByName }
    }

    fn frame(&self, head: &Head) -> Result<Vec<Bytes>, ExchangeError> {
        let partition = |t: &FetchTarget| {
            FetchPartition::default()
                .with_partition(t.partition.partition)
                .with_current_leader_epoch(-1)
                .with_fetch_offset(t.offset)
                .with_last_fetched_epoch(t.last_epoch.filter(|_| head.version >= LAST_EPOCH).unwrap_or(-1))
                .with_log_start_offset(-1)
                .with_partition_max_bytes(t.max_bytes)
        };
        let topics = by_topic(self.targets.iter().map(|t| (&t.partition.topic, partition(t))));
        let topics = topics.into_iter().map(|(topic, partitions)| {
            let id = self.targets.iter().find(|t| t.partition.topic == *topic).map(|t| t.topic_id);
            FetchTopic::default()
                .with_topic(topic_name(topic))
                .with_topic_id(id.map(|id| Uuid::from_bytes(id.0)).unwrap_or_default())
                .with_partitions(partitions)
        });
        let message = FetchRequest::default()
            .with_replica_id(BrokerId(-1))
            .with_max_wait_ms(self.max_wait_ms)
            .with_min_bytes(self.min_bytes)
            .with_max_bytes(self.max_bytes)
            .with_isolation_level(self.isolation.number())
            .with_session_epoch(-1)
            .with_topics(topics.collect());
        frame_message(Api::Fetch, head, &message)
    }

    fn decode(&self, version: i16, body: Bytes) -> Result<Answered<Self::Answer>, ExchangeError> {
        let mut answer = FetchResponse::read(version, &body)
            .map_err(|e| ExchangeError::malformed(Api::Fetch, version, e))?;
        // Whoever asked knows topics by name.
        for topic in answer.topics.iter_mut().filter(|topic| topic.id.is_known()) {
            if let Some(target) = self.targets.iter().find(|target| target.topic_id == topic.id) {
                topic.name = target.partition.topic.clone();
            }
        }
        let throttle = throttle(answer.throttle_ms);
        Ok(Answered { answer, throttle })
    }
}

//! Fetch (1), without sessions; the records of its answer stay where they were received.

use bytes::Bytes;
use kafka_protocol::messages::{
    BrokerId, FetchRequest,
    fetch_request::{FetchPartition, FetchTopic},
};

use super::{Answered, Call, ExchangeError, Head, Isolation, by_topic, frame_message, throttle, topic_name};
use crate::{
    ids::TopicPartition,
    wire::{api::Api, fetch::FetchResponse},
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
    /// The first offset wanted.
    pub offset: i64,
    /// The most bytes of this partition.
    pub max_bytes: i32,
}

impl Call for Fetch {
    type Answer = FetchResponse;

    fn api(&self) -> Api {
        Api::Fetch
    }

    fn frame(&self, head: &Head) -> Result<Vec<Bytes>, ExchangeError> {
        let partition = |t: &FetchTarget| {
            FetchPartition::default()
                .with_partition(t.partition.partition)
                .with_current_leader_epoch(-1)
                .with_fetch_offset(t.offset)
                .with_last_fetched_epoch(-1)
                .with_log_start_offset(-1)
                .with_partition_max_bytes(t.max_bytes)
        };
        let topics = by_topic(self.targets.iter().map(|t| (&t.partition.topic, partition(t))));
        let topics = topics.into_iter().map(|(topic, partitions)| {
            FetchTopic::default().with_topic(topic_name(topic)).with_partitions(partitions)
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
        let answer = FetchResponse::read(version, &body)
            .map_err(|e| ExchangeError::malformed(Api::Fetch, version, e))?;
        let throttle = throttle(answer.throttle_ms);
        Ok(Answered { answer, throttle })
    }
}

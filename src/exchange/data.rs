//! ListOffsets (2), and the two requests that carry records: Produce (0) and Fetch (1).

use bytes::Bytes;
use kafka_protocol::messages::{
    BrokerId, ListOffsetsRequest, ListOffsetsResponse,
    list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic},
};

use super::{
    Answered, Call, ExchangeError, Head, by_topic, decode_message, frame_message, throttle, topic_name,
};
use crate::{
    ids::TopicPartition,
    wire::{api::Api, code::ErrorCode},
};

/// What a reader wants to see (`isolation.level`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Isolation {
    /// Everything up to the high watermark.
    Uncommitted,
    /// Committed records only, up to the last stable offset.
    #[default]
    Committed,
}

/// A place in a partition's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffsetAt {
    /// The log's start.
    Earliest,
    /// The log's end; with [`Isolation::Committed`] the last stable offset.
    Latest,
    /// The first record at or after this time, in milliseconds since the Unix epoch.
    Timestamp(i64),
}

/// Asks a leader for offsets.
#[derive(Debug, Clone)]
pub struct ListOffsets {
    /// Which end counts.
    pub isolation: Isolation,
    /// The partitions and places.
    pub partitions: Vec<(TopicPartition, OffsetAt)>,
}

impl Isolation {
    pub(super) fn number(self) -> i8 {
        match self {
            Self::Uncommitted => 0,
            Self::Committed => 1,
        }
    }
}

impl Call for ListOffsets {
    /// Per partition the offset, or an error; -1 when a time stamp is past the end.
    type Answer = Vec<(TopicPartition, Result<i64, ErrorCode>)>;

    fn api(&self) -> Api {
        Api::ListOffsets
    }

    fn floor(&self) -> i16 {
        match self.isolation {
            Isolation::Uncommitted => 1,
            Isolation::Committed => 2,
        }
    }

    fn frame(&self, head: &Head) -> Result<Vec<Bytes>, ExchangeError> {
        let partition = |(p, at): &(TopicPartition, OffsetAt)| {
            let timestamp = match at {
                OffsetAt::Earliest => -2,
                OffsetAt::Latest => -1,
                OffsetAt::Timestamp(ms) => *ms,
            };
            ListOffsetsPartition::default()
                .with_partition_index(p.partition)
                .with_current_leader_epoch(-1)
                .with_timestamp(timestamp)
        };
        let topics = by_topic(self.partitions.iter().map(|p| (&p.0.topic, partition(p))));
        let topics = topics.into_iter().map(|(topic, partitions)| {
            ListOffsetsTopic::default().with_name(topic_name(topic)).with_partitions(partitions)
        });
        let message = ListOffsetsRequest::default()
            .with_replica_id(BrokerId(-1))
            .with_isolation_level(self.isolation.number())
            .with_topics(topics.collect());
        frame_message(Api::ListOffsets, head, &message)
    }

    fn decode(&self, version: i16, body: Bytes) -> Result<Answered<Self::Answer>, ExchangeError> {
        let r: ListOffsetsResponse = decode_message(Api::ListOffsets, version, body)?;
        let answer = r.topics.iter().flat_map(|topic| {
            topic.partitions.iter().map(|p| {
                let code = ErrorCode::from_code(p.error_code);
                let offset = if code.is_none() { Ok(p.offset) } else { Err(code) };
                (TopicPartition::new(&**topic.name, p.partition_index), offset)
            })
        });
        Ok(Answered { answer: answer.collect(), throttle: throttle(r.throttle_time_ms) })
    }
}

//! CreateTopics (19). Brokers forward it to the controller.

use bytes::Bytes;
use kafka_protocol::messages::{
    CreateTopicsRequest, CreateTopicsResponse, create_topics_request::CreatableTopic,
};

use super::{Answered, Call, ExchangeError, Head, decode_message, frame_message, throttle, topic_name};
use crate::{
    ids::{TopicId, TopicName},
    wire::{api::Api, code::ErrorCode},
};

/// Creates one topic with the broker's default replication and configuration.
#[derive(Debug, Clone)]
pub struct CreateTopic {
    /// Its name.
    pub name: TopicName,
    /// How many partitions it gets.
    pub partitions: i32,
    /// How many replicas each partition gets; `None`: the broker's default.
    pub replication: Option<i16>,
    /// How long the controller may take.
    pub timeout_ms: i32,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatedTopic {
    /// The error code.
    pub code: ErrorCode,
    /// The broker's explanation.
    pub message: String,
    /// The new topic's id; unknown before version 7.
    pub id: TopicId,
}

impl Call for CreateTopic {
    type Answer = CreatedTopic;

    fn api(&self) -> Api {
        Api::CreateTopics
    }

    fn frame(&self, head: &Head) -> Result<Vec<Bytes>, ExchangeError> {
        // Brokers take -1 for "your default" since version 4 (KIP-464).
        let default = if head.version >= 4 { -1 } else { 1 };
        let topic = CreatableTopic::default()
            .with_name(topic_name(&self.name))
            .with_num_partitions(self.partitions)
            .with_replication_factor(self.replication.unwrap_or(default));
        let message =
            CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(self.timeout_ms);
        frame_message(Api::CreateTopics, head, &message)
    }

    fn decode(&self, version: i16, body: Bytes) -> Result<Answered<Self::Answer>, ExchangeError> {
        let r: CreateTopicsResponse = decode_message(Api::CreateTopics, version, body)?;
        let Some(t) = r.topics.iter().find(|t| **t.name == *self.name) else {
            return Err(ExchangeError::malformed(Api::CreateTopics, version, "our topic is missing"));
        };
        let answer = CreatedTopic {
            code: ErrorCode::from_code(t.error_code),
            message: t.error_message.as_ref().map(ToString::to_string).unwrap_or_default(),
            id: TopicId(*t.topic_id.as_bytes()),
        };
        Ok(Answered { answer, throttle: throttle(r.throttle_time_ms) })
    }
}

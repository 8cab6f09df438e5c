//! Metadata (3): brokers, topics, leaders.

use std::sync::Arc;

use bytes::Bytes;
use kafka_protocol::messages::{MetadataRequest, MetadataResponse, metadata_request::MetadataRequestTopic};

use super::{Answered, Call, ExchangeError, Head, decode_message, frame_message, throttle, topic_name};
use crate::{
    ids::{NodeId, TopicId, TopicName},
    proto::verdict::{self, MetadataVerdict},
    wire::{api::Api, code::ErrorCode},
};

/// The question: these topics, or with `None` all. Topics are never created by asking.
#[derive(Debug, Clone)]
pub struct Metadata {
    /// The topics.
    pub topics: Option<Vec<TopicName>>,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetadataAnswer {
    /// The cluster's id.
    pub cluster_id: Option<Arc<str>>,
    /// The controller as the broker sees it.
    pub controller: Option<NodeId>,
    /// All live brokers.
    pub brokers: Vec<BrokerAddress>,
    /// The topics that were asked for.
    pub topics: Vec<TopicMetadata>,
}

/// Where a broker is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerAddress {
    /// Its node id.
    pub node: NodeId,
    /// Its host.
    pub host: Arc<str>,
    /// Its port.
    pub port: u16,
}

/// One topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicMetadata {
    /// Its name.
    pub name: TopicName,
    /// Its id; unknown before Metadata version 10.
    pub id: TopicId,
    /// What its error code means.
    pub verdict: MetadataVerdict,
    /// The code, for messages.
    pub code: ErrorCode,
    /// Its partitions, by index.
    pub partitions: Vec<PartitionMetadata>,
}

/// One partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionMetadata {
    /// Its index.
    pub index: i32,
    /// Its leader, if it has one.
    pub leader: Option<NodeId>,
    /// The leader's epoch; -1 if the broker does not tell.
    pub leader_epoch: i32,
}

impl Call for Metadata {
    type Answer = MetadataAnswer;

    fn api(&self) -> Api {
        Api::Metadata
    }

    fn frame(&self, head: &Head) -> Result<Vec<Bytes>, ExchangeError> {
        let topic = |name| MetadataRequestTopic::default().with_name(Some(topic_name(name)));
        let topics = self.topics.as_ref().map(|names| names.iter().map(topic).collect());
        // Before version 4 the field does not exist, and its absence means "create".
        let create = head.version < 4;
        let message = MetadataRequest::default().with_topics(topics).with_allow_auto_topic_creation(create);
        frame_message(Api::Metadata, head, &message)
    }

    fn decode(&self, version: i16, body: Bytes) -> Result<Answered<Self::Answer>, ExchangeError> {
        let r: MetadataResponse = decode_message(Api::Metadata, version, body)?;
        // Whoever has no possible number or address is not there.
        let brokers = r.brokers.iter().filter(|b| b.node_id.0 >= 0 && !b.host.is_empty()).filter_map(|b| {
            let port = u16::try_from(b.port).ok().filter(|p| *p > 0)?;
            Some(BrokerAddress { node: NodeId(b.node_id.0), host: Arc::from(&*b.host), port })
        });
        let topics = r.topics.iter().filter_map(|t| {
            let code = ErrorCode::from_code(t.error_code);
            let mut partitions: Vec<_> = t.partitions.iter().map(partition).collect();
            partitions.sort_by_key(|p| p.index);
            partitions.dedup_by_key(|p| p.index);
            Some(TopicMetadata {
                name: Arc::from(t.name.as_ref()?.0.as_str()),
                id: TopicId(*t.topic_id.as_bytes()),
                // No error and no partition is no topic (seen while one is being created).
                verdict: match verdict::metadata(version, code) {
                    MetadataVerdict::Known if partitions.is_empty() => MetadataVerdict::Retry,
                    verdict => verdict,
                },
                code,
                partitions,
            })
        });
        let answer = MetadataAnswer {
            cluster_id: r.cluster_id.as_ref().map(|id| Arc::from(&**id)),
            controller: node(r.controller_id.0),
            brokers: brokers.collect(),
            topics: topics.collect(),
        };
        Ok(Answered { answer, throttle: throttle(r.throttle_time_ms) })
    }
}

fn partition(
    p: &kafka_protocol::messages::metadata_response::MetadataResponsePartition,
) -> PartitionMetadata {
    PartitionMetadata { index: p.partition_index, leader: node(p.leader_id.0), leader_epoch: p.leader_epoch }
}

fn node(id: i32) -> Option<NodeId> {
    (id >= 0).then_some(NodeId(id))
}

//! Metadata, versions 0 to 13.
//!
//! - Version 0 asks for all topics with an empty list, later versions with null.
//! - Stopped nodes are not listed; a partition without leader carries LEADER_NOT_AVAILABLE and leader -1.
//! - Topic ids can be asked for from version 12 on.
//! - Topics are created on the way only when the broker is configured so and the client allows it.

use std::sync::Arc;

use kafka_protocol::error::ResponseError;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::{MetadataRequest, MetadataResponse};

use super::{Handler, create_topics, text, topic_id, topic_name};
use crate::broker::access::Operation;
use crate::broker::cluster::{Cluster, NewTopic};
use crate::broker::config::UnknownTopics;
use crate::broker::shared::Context;
use crate::broker::topics::{Partition, Topic};
use crate::ids::{TopicId, TopicName};

impl Handler for MetadataRequest {
    type Response = MetadataResponse;

    async fn handle(self, ctx: &Context, version: i16) -> MetadataResponse {
        let mut cluster = ctx.shared.cluster();
        let all = self.topics.as_ref().is_none_or(|topics| version == 0 && topics.is_empty());
        let topics = if all {
            let shown = |name: &str| ctx.may_topic(Operation::Describe, name).is_ok();
            let topics = cluster.topics.iter().filter(|(name, _)| shown(name));
            topics.map(|(name, topic)| described(&cluster, name, topic)).collect()
        } else {
            let create = version < 4 || self.allow_auto_topic_creation;
            let create = create && ctx.shared.config.unknown_topics == UnknownTopics::Created;
            let wanted = self.topics.unwrap_or_default();
            wanted.iter().map(|topic| asked(ctx, &mut cluster, topic, create)).collect()
        };
        let brokers = cluster.nodes.iter().filter(|(_, node)| node.up).map(|(id, node)| {
            MetadataResponseBroker::default()
                .with_node_id((*id).into())
                .with_host(text(&node.host))
                .with_port(i32::from(node.port))
        });
        MetadataResponse::default()
            .with_brokers(brokers.collect())
            .with_cluster_id(Some(text(&cluster.id)))
            .with_controller_id(cluster.controller().into())
            .with_topics(topics)
    }

    fn refuse(&self, version: i16, code: i16) -> MetadataResponse {
        let topics = self.topics.iter().flatten().map(|topic| {
            MetadataResponseTopic::default()
                .with_name(topic.name.clone())
                .with_topic_id(topic.topic_id)
                .with_error_code(code)
        });
        let response = MetadataResponse::default().with_topics(topics.collect());
        if version >= 13 { response.with_error_code(code) } else { response }
    }
}

fn asked(
    ctx: &Context,
    cluster: &mut Cluster,
    wanted: &MetadataRequestTopic,
    create: bool,
) -> MetadataResponseTopic {
    let id = TopicId(wanted.topic_id.into_bytes());
    let by_id = if id.is_known() { cluster.topics.name_of(id).cloned() } else { None };
    let name: Option<TopicName> = by_id.or_else(|| wanted.name.as_ref().map(|n| n.as_str().into()));
    let Some(name) = name else {
        let code = ResponseError::UnknownTopicId.code();
        return MetadataResponseTopic::default().with_error_code(code).with_topic_id(wanted.topic_id);
    };
    if let Err(error) = ctx.may_topic(Operation::Describe, &name) {
        return MetadataResponseTopic::default()
            .with_name(Some(topic_name(&name)))
            .with_error_code(error.code());
    }
    if cluster.topics.named(&name).is_none() && create && create_topics::is_topic_name(&name) {
        let assignment =
            cluster.spread(ctx.shared.config.default_partitions, ctx.shared.config.replication());
        cluster.create(Arc::clone(&name), NewTopic { assignment, ..NewTopic::default() });
    }
    match cluster.topics.named(&name) {
        Some(topic) => described(cluster, &name, topic),
        None => MetadataResponseTopic::default()
            .with_name(Some(topic_name(&name)))
            .with_error_code(missing(&name).code()),
    }
}

fn missing(name: &str) -> ResponseError {
    if create_topics::is_topic_name(name) {
        ResponseError::UnknownTopicOrPartition
    } else {
        ResponseError::InvalidTopicException
    }
}

fn described(cluster: &Cluster, name: &TopicName, topic: &Topic) -> MetadataResponseTopic {
    let partitions = topic.partitions.iter().enumerate().map(|(i, p)| partition(cluster, i, p));
    MetadataResponseTopic::default()
        .with_name(Some(topic_name(name)))
        .with_topic_id(topic_id(topic.id))
        .with_is_internal(topic.internal)
        .with_partitions(partitions.collect())
}

fn partition(cluster: &Cluster, index: usize, partition: &Partition) -> MetadataResponsePartition {
    let offline = partition.replicas.iter().copied().filter(|n| !cluster.is_up(*n));
    let code = if partition.leader.is_some() { 0 } else { ResponseError::LeaderNotAvailable.code() };
    MetadataResponsePartition::default()
        .with_error_code(code)
        .with_partition_index(i32::try_from(index).unwrap_or(i32::MAX))
        .with_leader_id(partition.leader.unwrap_or(-1).into())
        .with_leader_epoch(partition.leader_epoch)
        .with_replica_nodes(partition.replicas.iter().map(|n| (*n).into()).collect())
        .with_isr_nodes(partition.in_sync(|n| cluster.is_up(n)).into_iter().map(Into::into).collect())
        .with_offline_replicas(offline.map(Into::into).collect())
}

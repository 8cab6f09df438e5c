//! CreateTopics, versions 2 to 7.
//!
//! - Every node takes it (a real broker forwards it to the controller).
//! - -1 partitions or replicas mean the broker's defaults; a manual assignment names the replicas itself.
//! - More than 10,000 partitions in one request are refused, all of it.
//! - Configurations are kept and shown; `compression.type` with its levels, `max.message.bytes`, `min.insync.replicas`
//!   and `message.timestamp.type` act. Of these, only those about compression are refused when they make no sense.

use std::collections::BTreeMap;

use kafka_protocol::error::ResponseError;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::create_topics_response::CreatableTopicResult;
use kafka_protocol::messages::{CreateTopicsRequest, CreateTopicsResponse};

use super::{Handler, topic_id};
use crate::broker::cluster::{Cluster, NewTopic};
use crate::broker::shared::Context;
use crate::broker::topics;

/// `QuorumController.MAX_RECORDS_PER_USER_OP`: more partitions in one request are POLICY_VIOLATION.
const MOST_PARTITIONS: i64 = 10_000;

impl Handler for CreateTopicsRequest {
    type Response = CreateTopicsResponse;

    async fn handle(self, ctx: &Context, version: i16) -> CreateTopicsResponse {
        if partitions(&self, ctx.shared.config.default_partitions) > MOST_PARTITIONS {
            return self.refuse(version, ResponseError::PolicyViolation.code());
        }
        let mut cluster = ctx.shared.cluster();
        let topics = self.topics.iter().map(|topic| create(ctx, &mut cluster, topic, self.validate_only));
        CreateTopicsResponse::default().with_topics(topics.collect())
    }

    fn refuse(&self, _version: i16, code: i16) -> CreateTopicsResponse {
        let topics = self.topics.iter().map(|t| refused(t, code));
        CreateTopicsResponse::default().with_topics(topics.collect())
    }
}

/// How many partitions the request would create in all (`ReplicationControlManager.validateTotalNumberOfPartitions`).
fn partitions(request: &CreateTopicsRequest, default: i32) -> i64 {
    let of_topic = |topic: &CreatableTopic| match topic.num_partitions {
        _ if !topic.assignments.is_empty() => i64::try_from(topic.assignments.len()).unwrap_or(i64::MAX),
        -1 => i64::from(default),
        count => i64::from(count.max(0)),
    };
    request.topics.iter().map(of_topic).fold(0, i64::saturating_add)
}

fn refused(topic: &CreatableTopic, code: i16) -> CreatableTopicResult {
    CreatableTopicResult::default()
        .with_name(topic.name.clone())
        .with_error_code(code)
        .with_num_partitions(-1)
        .with_replication_factor(-1)
}

fn create(
    ctx: &Context,
    cluster: &mut Cluster,
    topic: &CreatableTopic,
    validate: bool,
) -> CreatableTopicResult {
    let assignment = match assignment(ctx, cluster, topic) {
        Ok(assignment) => assignment,
        Err(error) => return refused(topic, error.code()),
    };
    let result = CreatableTopicResult::default()
        .with_name(topic.name.clone())
        .with_num_partitions(i32::try_from(assignment.len()).unwrap_or(i32::MAX))
        .with_replication_factor(i16::try_from(assignment.first().map_or(0, Vec::len)).unwrap_or(i16::MAX))
        .with_configs(Some(Vec::new()));
    let configs: BTreeMap<String, String> = topic
        .configs
        .iter()
        .map(|c| (c.name.to_string(), c.value.as_ref().map(ToString::to_string).unwrap_or_default()))
        .collect();
    if !topics::compresses(&configs) {
        return refused(topic, ResponseError::InvalidConfig.code());
    }
    if validate {
        return result;
    }
    let name = topic.name.as_str();
    cluster.create(name.into(), NewTopic { assignment, configs, internal: false });
    match cluster.topics.named(name) {
        Some(created) => result.with_topic_id(topic_id(created.id)),
        None => result,
    }
}

fn assignment(
    ctx: &Context,
    cluster: &Cluster,
    topic: &CreatableTopic,
) -> Result<Vec<Vec<i32>>, ResponseError> {
    if !is_topic_name(&topic.name) {
        return Err(ResponseError::InvalidTopicException);
    }
    if cluster.topics.named(&topic.name).is_some() {
        return Err(ResponseError::TopicAlreadyExists);
    }
    if !topic.assignments.is_empty() {
        return manual(cluster, topic);
    }
    let partitions = match topic.num_partitions {
        -1 => ctx.shared.config.default_partitions,
        n if n > 0 => n,
        _ => return Err(ResponseError::InvalidPartitions),
    };
    let replicas = match topic.replication_factor {
        -1 => ctx.shared.config.replication(),
        n => usize::try_from(n).ok().filter(|n| *n > 0).ok_or(ResponseError::InvalidReplicationFactor)?,
    };
    let up = cluster.nodes.values().filter(|n| n.up).count();
    if replicas > up {
        return Err(ResponseError::InvalidReplicationFactor);
    }
    Ok(cluster.spread(partitions, replicas))
}

fn manual(cluster: &Cluster, topic: &CreatableTopic) -> Result<Vec<Vec<i32>>, ResponseError> {
    let mut by_index: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for assigned in &topic.assignments {
        let replicas: Vec<i32> = assigned.broker_ids.iter().map(|id| id.0).collect();
        let known = replicas.iter().all(|id| cluster.nodes.contains_key(id));
        if replicas.is_empty() || !known || by_index.insert(assigned.partition_index, replicas).is_some() {
            return Err(ResponseError::InvalidReplicaAssignment);
        }
    }
    let gapless = by_index.keys().zip(0..).all(|(index, expected)| *index == expected);
    if gapless { Ok(by_index.into_values().collect()) } else { Err(ResponseError::InvalidReplicaAssignment) }
}

/// Kafka's rule: 1 to 249 of letters, digits, `.`, `_` and `-`, and neither `.` nor `..`.
pub(super) fn is_topic_name(name: &str) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    !name.is_empty() && name.len() <= 249 && name != "." && name != ".." && name.chars().all(legal)
}

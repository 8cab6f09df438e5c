//! OffsetFetch, versions 1 to 9.
//!
//! - From version 8 on for several groups. Null topics (version 2 and newer) mean all that the group has.
//! - `require_stable` (version 7): UNSTABLE_OFFSET_COMMIT while a transaction holds an offset of the partition.
//! - Nothing committed: offset -1 without an error.

use kafka_protocol::error::ResponseError;
use kafka_protocol::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use kafka_protocol::messages::{OffsetFetchRequest, OffsetFetchResponse};

use super::{Handler, text, topic_name};
use crate::broker::cluster::Cluster;
use crate::broker::groups::{Committed, Group};
use crate::broker::shared::Context;
use crate::ids::TopicPartition;

impl Handler for OffsetFetchRequest {
    type Response = OffsetFetchResponse;

    async fn handle(self, ctx: &Context, version: i16) -> OffsetFetchResponse {
        let cluster = ctx.shared.cluster();
        if version >= 8 {
            let groups = self.groups.iter().map(|wanted| {
                let response = OffsetFetchResponseGroup::default().with_group_id(wanted.group_id.clone());
                if let Err(error) = cluster.check_group_coordinator(ctx.node, &wanted.group_id) {
                    return response.with_error_code(error.code());
                }
                let named = wanted.topics.as_ref().map(|topics| {
                    topics.iter().flat_map(|t| partitions(&t.name, &t.partition_indexes)).collect()
                });
                let found = committed(&cluster, &wanted.group_id, named, self.require_stable);
                response.with_topics(by_topic(&found).into_iter().map(several).collect())
            });
            return OffsetFetchResponse::default().with_groups(groups.collect());
        }
        if let Err(error) = cluster.check_group_coordinator(ctx.node, &self.group_id) {
            return self.refuse(version, error.code());
        }
        let named = self
            .topics
            .as_ref()
            .map(|topics| topics.iter().flat_map(|t| partitions(&t.name, &t.partition_indexes)).collect());
        let found = committed(&cluster, &self.group_id, named, self.require_stable);
        OffsetFetchResponse::default().with_topics(by_topic(&found).into_iter().map(single).collect())
    }

    fn refuse(&self, version: i16, code: i16) -> OffsetFetchResponse {
        if version >= 8 {
            let groups = self.groups.iter().map(|g| {
                OffsetFetchResponseGroup::default().with_group_id(g.group_id.clone()).with_error_code(code)
            });
            return OffsetFetchResponse::default().with_groups(groups.collect());
        }
        OffsetFetchResponse::default().with_error_code(code)
    }
}

fn partitions(topic: &str, indexes: &[i32]) -> Vec<TopicPartition> {
    indexes.iter().map(|p| TopicPartition::new(topic, *p)).collect()
}

/// A position, or why there is none.
type Found = (TopicPartition, Result<Option<Committed>, ResponseError>);

fn committed(
    cluster: &Cluster,
    group: &str,
    named: Option<Vec<TopicPartition>>,
    require_stable: bool,
) -> Vec<Found> {
    let empty = Group::default();
    let group = cluster.groups.group(group).unwrap_or(&empty);
    let wanted = named.unwrap_or_else(|| group.offsets.keys().cloned().collect());
    let find = |at: TopicPartition| {
        let unstable = require_stable && group.is_unstable(&at);
        let found = if unstable {
            Err(ResponseError::UnstableOffsetCommit)
        } else {
            Ok(group.offsets.get(&at).cloned())
        };
        (at, found)
    };
    wanted.into_iter().map(find).collect()
}

/// Neighbours of one topic together, in the order of the request.
fn by_topic(found: &[Found]) -> Vec<&[Found]> {
    found.chunk_by(|a, b| a.0.topic == b.0.topic).collect()
}

fn values(found: &Found) -> (i16, Committed) {
    let none = Committed { offset: -1, leader_epoch: -1, metadata: String::new(), order: 0 };
    match &found.1 {
        Ok(committed) => (0, committed.clone().unwrap_or(none)),
        Err(error) => (error.code(), none),
    }
}

fn several(topic: &[Found]) -> OffsetFetchResponseTopics {
    let partitions = topic.iter().map(|found| {
        let (code, committed) = values(found);
        OffsetFetchResponsePartitions::default()
            .with_partition_index(found.0.partition)
            .with_committed_offset(committed.offset)
            .with_committed_leader_epoch(committed.leader_epoch)
            .with_metadata(Some(text(&committed.metadata)))
            .with_error_code(code)
    });
    let name = topic.first().map(|f| topic_name(&f.0.topic)).unwrap_or_default();
    OffsetFetchResponseTopics::default().with_name(name).with_partitions(partitions.collect())
}

fn single(topic: &[Found]) -> OffsetFetchResponseTopic {
    let partitions = topic.iter().map(|found| {
        let (code, committed) = values(found);
        OffsetFetchResponsePartition::default()
            .with_partition_index(found.0.partition)
            .with_committed_offset(committed.offset)
            .with_committed_leader_epoch(committed.leader_epoch)
            .with_metadata(Some(text(&committed.metadata)))
            .with_error_code(code)
    });
    let name = topic.first().map(|f| topic_name(&f.0.topic)).unwrap_or_default();
    OffsetFetchResponseTopic::default().with_name(name).with_partitions(partitions.collect())
}

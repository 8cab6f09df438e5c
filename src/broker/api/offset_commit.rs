//! OffsetCommit, versions 2 to 9.
//!
//! Generation -1 is a reader that assigns partitions itself; it may commit while the group has no member.

use kafka_protocol::error::ResponseError;
use kafka_protocol::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use kafka_protocol::messages::{OffsetCommitRequest, OffsetCommitResponse};

use super::Handler;
use crate::broker::cluster::Cluster;
use crate::broker::groups::Committed;
use crate::broker::shared::Context;
use crate::ids::TopicPartition;

impl Handler for OffsetCommitRequest {
    type Response = OffsetCommitResponse;

    async fn handle(self, ctx: &Context, version: i16) -> OffsetCommitResponse {
        let mut cluster = ctx.shared.cluster();
        match may_commit(&mut cluster, ctx.node, &self) {
            Ok(()) => self.answer(|at, committed| commit(&mut cluster, &self.group_id, at, committed)),
            Err(error) => self.refuse(version, error.code()),
        }
    }

    fn refuse(&self, _version: i16, code: i16) -> OffsetCommitResponse {
        self.answer(|_, _| code)
    }
}

trait Answer {
    fn answer(&self, code: impl FnMut(TopicPartition, Committed) -> i16) -> OffsetCommitResponse;
}

impl Answer for OffsetCommitRequest {
    fn answer(&self, mut code: impl FnMut(TopicPartition, Committed) -> i16) -> OffsetCommitResponse {
        let topics = self.topics.iter().map(|topic| {
            let partitions = topic.partitions.iter().map(|p| {
                let committed = Committed {
                    offset: p.committed_offset,
                    leader_epoch: p.committed_leader_epoch,
                    metadata: p.committed_metadata.as_ref().map(ToString::to_string).unwrap_or_default(),
                    order: 0,
                };
                OffsetCommitResponsePartition::default()
                    .with_partition_index(p.partition_index)
                    .with_error_code(code(
                        TopicPartition::new(topic.name.as_str(), p.partition_index),
                        committed,
                    ))
            });
            let partitions = partitions.collect();
            OffsetCommitResponseTopic::default().with_name(topic.name.clone()).with_partitions(partitions)
        });
        OffsetCommitResponse::default().with_topics(topics.collect())
    }
}

fn may_commit(cluster: &mut Cluster, node: i32, request: &OffsetCommitRequest) -> Result<(), ResponseError> {
    cluster.check_group_coordinator(node, &request.group_id)?;
    let group = cluster.groups.group_mut(&request.group_id);
    if group.member.is_some() && request.member_id.is_empty() {
        return Err(ResponseError::UnknownMemberId);
    }
    group.check_commit(&request.member_id, request.generation_id_or_member_epoch)
}

fn commit(cluster: &mut Cluster, group: &str, at: TopicPartition, committed: Committed) -> i16 {
    if cluster.partition(&at).is_none() {
        return ResponseError::UnknownTopicOrPartition.code();
    }
    let order = cluster.groups.next_order();
    cluster.groups.group_mut(group).offsets.insert(at, Committed { order, ..committed });
    0
}

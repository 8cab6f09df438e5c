//! ListOffsets, versions 1 to 10.
//!
//! - -1: the end; with read_committed the last stable offset. -2: the log start. -3: the newest record.
//!   -4: the same as -2, as there is no tiered storage; -5: nothing.
//! - A timestamp: the first record that is not older, else offset and timestamp -1.

use kafka_protocol::error::ResponseError;
use kafka_protocol::messages::list_offsets_request::ListOffsetsPartition;
use kafka_protocol::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use kafka_protocol::messages::{ListOffsetsRequest, ListOffsetsResponse};

use super::Handler;
use crate::broker::access::Operation;
use crate::broker::cluster::Cluster;
use crate::broker::log::Isolation;
use crate::broker::shared::Context;

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const NEWEST_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;
const LATEST_TIERED: i64 = -5;

impl Handler for ListOffsetsRequest {
    type Response = ListOffsetsResponse;

    async fn handle(self, ctx: &Context, version: i16) -> ListOffsetsResponse {
        let mut cluster = ctx.shared.cluster();
        let isolation = Isolation::from_wire(self.isolation_level);
        let topics = self.topics.iter().map(|topic| {
            let partitions = topic.partitions.iter().map(|wanted| {
                found(&mut cluster, (ctx, &topic.name), wanted, isolation)
                    .map(|found| if version < 4 { found.with_leader_epoch(-1) } else { found })
                    .unwrap_or_else(|error| failed(wanted.partition_index, error.code()))
            });
            ListOffsetsTopicResponse::default()
                .with_name(topic.name.clone())
                .with_partitions(partitions.collect())
        });
        ListOffsetsResponse::default().with_topics(topics.collect())
    }

    fn refuse(&self, _version: i16, code: i16) -> ListOffsetsResponse {
        let topics = self.topics.iter().map(|topic| {
            let partitions = topic.partitions.iter().map(|p| failed(p.partition_index, code));
            ListOffsetsTopicResponse::default()
                .with_name(topic.name.clone())
                .with_partitions(partitions.collect())
        });
        ListOffsetsResponse::default().with_topics(topics.collect())
    }
}

fn found(
    cluster: &mut Cluster,
    at: (&Context, &str),
    wanted: &ListOffsetsPartition,
    isolation: Isolation,
) -> Result<ListOffsetsPartitionResponse, ResponseError> {
    let (ctx, topic) = at;
    ctx.may_topic(Operation::Describe, topic)?;
    let partition = cluster.led_by(ctx.node, topic, wanted.partition_index)?;
    let log = &partition.log;
    let end = log.end_for(isolation);
    let (offset, timestamp) = match wanted.timestamp {
        LATEST => (end, -1),
        EARLIEST | EARLIEST_LOCAL => (log.start_offset(), -1),
        NEWEST_TIMESTAMP => log.newest().unwrap_or((-1, -1)),
        LATEST_TIERED => (-1, -1),
        timestamp if timestamp >= 0 => log.offset_at(timestamp, end).unwrap_or((-1, -1)),
        _ => return Err(ResponseError::UnsupportedVersion),
    };
    let epoch = if offset == -1 { -1 } else { partition.leader_epoch };
    Ok(ListOffsetsPartitionResponse::default()
        .with_partition_index(wanted.partition_index)
        .with_offset(offset)
        .with_timestamp(timestamp)
        .with_leader_epoch(epoch))
}

fn failed(index: i32, code: i16) -> ListOffsetsPartitionResponse {
    ListOffsetsPartitionResponse::default()
        .with_partition_index(index)
        .with_error_code(code)
        .with_offset(-1)
        .with_timestamp(-1)
        .with_leader_epoch(-1)
}

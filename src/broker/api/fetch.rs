//! Fetch, versions 4 to 18.
//!
//! - Long poll: it waits up to `max_wait_ms` for `min_bytes`; an error in any partition ends the wait.
//! - read_committed ends before the last stable offset and lists aborted transactions; read_uncommitted has none.
//! - Version 13 names topics by id.
//! - Sessions are not kept: every answer carries session id 0, so that clients ask in full each time. A request that
//!   names a session gets FETCH_SESSION_ID_NOT_FOUND.
//! - Before version 10, Kafka 3 refuses a topic that keeps its batches in zstd: UNSUPPORTED_COMPRESSION_TYPE.
//! - On an error all offsets are -1.

use std::time::Duration;

use kafka_protocol::error::ResponseError;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::fetch_response::{
    AbortedTransaction, FetchableTopicResponse, LeaderIdAndEpoch, PartitionData,
};
use kafka_protocol::messages::{FetchRequest, FetchResponse};

use super::Handler;
use crate::broker::access::Operation;
use crate::broker::cluster::Cluster;
use crate::broker::log::{Aborted, Isolation};
use crate::broker::profile::{Profile, Quirk};
use crate::broker::shared::Context;
use crate::broker::topics::Topic;
use crate::ids::{TopicId, TopicName};
use crate::record::Compression;

/// From this version on, readers know zstd (KIP-110).
const ZSTD: i16 = 10;

impl Handler for FetchRequest {
    type Response = FetchResponse;

    async fn handle(self, ctx: &Context, version: i16) -> FetchResponse {
        if self.session_id != 0 {
            return self.refuse(version, ResponseError::FetchSessionIdNotFound.code());
        }
        let mut changes = ctx.shared.changes();
        let ready = async {
            while !is_ready(&mut ctx.shared.cluster(), ctx, &self, version) {
                if changes.changed().await.is_err() {
                    return;
                }
            }
        };
        let patience = Duration::from_millis(u64::try_from(self.max_wait_ms).unwrap_or(0));
        // Out of patience is no failure: what there is goes back.
        let _ = tokio::time::timeout(patience, ready).await;
        read(&mut ctx.shared.cluster(), ctx, &self, version)
    }

    fn refuse(&self, version: i16, code: i16) -> FetchResponse {
        if version >= 7 {
            return FetchResponse::default().with_error_code(code);
        }
        let topics = self.topics.iter().map(|t| {
            let partitions = t.partitions.iter().map(|p| failed(p.partition, code));
            FetchableTopicResponse::default()
                .with_topic(t.topic.clone())
                .with_partitions(partitions.collect())
        });
        FetchResponse::default().with_responses(topics.collect())
    }
}

fn name_of(cluster: &Cluster, topic: &FetchTopic, version: i16) -> Result<TopicName, ResponseError> {
    if version < 13 {
        return Ok(topic.topic.as_str().into());
    }
    let id = TopicId(topic.topic_id.into_bytes());
    cluster.topics.name_of(id).cloned().ok_or(ResponseError::UnknownTopicId)
}

/// Enough bytes, or something that went wrong?
fn is_ready(cluster: &mut Cluster, ctx: &Context, request: &FetchRequest, version: i16) -> bool {
    let isolation = Isolation::from_wire(request.isolation_level);
    let mut bytes = 0usize;
    for topic in &request.topics {
        let Ok(name) = name_of(cluster, topic, version) else {
            return true;
        };
        if ctx.may_topic(Operation::Read, &name).is_err() {
            return true;
        }
        for wanted in &topic.partitions {
            let Ok(partition) = cluster.led_by(ctx.node, &name, wanted.partition) else {
                return true;
            };
            let log = &partition.log;
            let within =
                log.start_offset() <= wanted.fetch_offset && wanted.fetch_offset <= log.high_watermark();
            if !within || is_stale(wanted, partition.leader_epoch).is_some() {
                return true;
            }
            let limit = usize::try_from(wanted.partition_max_bytes).unwrap_or(0).max(1);
            bytes += log.readable_bytes(wanted.fetch_offset, isolation, limit).min(limit);
        }
    }
    bytes >= usize::try_from(request.min_bytes).unwrap_or(0)
}

fn read(cluster: &mut Cluster, ctx: &Context, request: &FetchRequest, version: i16) -> FetchResponse {
    let mut left = usize::try_from(request.max_bytes).unwrap_or(0);
    let mut empty = true;
    let mut topics = Vec::new();
    for topic in &request.topics {
        let name = name_of(cluster, topic, version);
        let mut partitions = Vec::new();
        for wanted in &topic.partitions {
            // The first records come even when they exceed every limit, so that a reader cannot starve.
            let limit = usize::try_from(wanted.partition_max_bytes).unwrap_or(0).min(left);
            let limit = if limit == 0 && !empty { None } else { Some(limit) };
            let data = match &name {
                Ok(name) if version < ZSTD && hides_zstd(cluster, ctx, name) => {
                    failed(wanted.partition, ResponseError::UnsupportedCompressionType.code())
                }
                Ok(name) => partition(cluster, (ctx, name), request.isolation_level, wanted, limit),
                Err(error) => failed(wanted.partition, error.code()),
            };
            // The leader's name came with version 12.
            let data =
                if version < 12 { data.with_current_leader(LeaderIdAndEpoch::default()) } else { data };
            let bytes = data.records.as_ref().map_or(0, bytes::Bytes::len);
            left = left.saturating_sub(bytes);
            empty &= bytes == 0;
            partitions.push(data);
        }
        topics.push(
            FetchableTopicResponse::default()
                .with_topic(topic.topic.clone())
                .with_topic_id(topic.topic_id)
                .with_partitions(partitions),
        );
    }
    FetchResponse::default().with_responses(topics)
}

/// Does the topic keep its batches in zstd, and this broker say so? What a producer chose is not looked at.
fn hides_zstd(cluster: &Cluster, ctx: &Context, name: &TopicName) -> bool {
    ctx.shared.config.profile.has(Quirk::ZstdTopicRefused)
        && cluster.topics.named(name).and_then(Topic::compression) == Some(Compression::Zstd)
}

fn partition(
    cluster: &mut Cluster,
    at: (&Context, &TopicName),
    isolation: i8,
    wanted: &FetchPartition,
    limit: Option<usize>,
) -> PartitionData {
    let (ctx, name) = at;
    let (node, profile) = (ctx.node, &ctx.shared.config.profile);
    let isolation = Isolation::from_wire(isolation);
    if let Err(error) = ctx.may_topic(Operation::Read, name) {
        return failed(wanted.partition, error.code());
    }
    let partition = match cluster.led_by(node, name, wanted.partition) {
        Ok(partition) => partition,
        Err(error) => return misled(cluster, name, wanted.partition, error),
    };
    if let Some(error) = is_stale(wanted, partition.leader_epoch) {
        return misled(cluster, name, wanted.partition, error);
    }
    let log = &partition.log;
    let read = match limit {
        Some(limit) => log.read(wanted.fetch_offset, isolation, limit),
        None => Ok(crate::broker::log::Read::default()),
    };
    let read = match read {
        Ok(read) => read,
        Err(error) => return failed(wanted.partition, error.code()),
    };
    PartitionData::default()
        .with_partition_index(wanted.partition)
        .with_high_watermark(log.high_watermark())
        .with_last_stable_offset(log.last_stable_offset())
        .with_log_start_offset(log.start_offset())
        .with_aborted_transactions(aborted_list(profile, isolation, &read.aborted))
        .with_records(Some(read.records))
}

/// The list for read_committed readers; others get none.
fn aborted_list(
    profile: &Profile,
    isolation: Isolation,
    aborted: &[Aborted],
) -> Option<Vec<AbortedTransaction>> {
    if isolation == Isolation::ReadUncommitted && !profile.has(Quirk::AbortedListForUncommitted) {
        return None;
    }
    let listed = |a: &Aborted| {
        AbortedTransaction::default().with_producer_id(a.producer_id.into()).with_first_offset(a.first_offset)
    };
    let mut list: Vec<_> = aborted.iter().map(listed).collect();
    if profile.has(Quirk::AbortedListUnsorted) {
        list.reverse();
    }
    Some(list)
}

fn is_stale(wanted: &FetchPartition, leader_epoch: i32) -> Option<ResponseError> {
    match wanted.current_leader_epoch {
        -1 => None,
        known if known < leader_epoch => Some(ResponseError::FencedLeaderEpoch),
        known if known > leader_epoch => Some(ResponseError::UnknownLeaderEpoch),
        _ => None,
    }
}

/// The error, with the leader to ask instead.
fn misled(cluster: &Cluster, name: &TopicName, index: i32, error: ResponseError) -> PartitionData {
    let data = failed(index, error.code());
    let partition = cluster.topics.named(name).and_then(|t| t.partition(index));
    match partition {
        Some(known) => data.with_current_leader(
            LeaderIdAndEpoch::default()
                .with_leader_id(known.leader.unwrap_or(-1).into())
                .with_leader_epoch(known.leader_epoch),
        ),
        None => data,
    }
}

fn failed(index: i32, code: i16) -> PartitionData {
    PartitionData::default()
        .with_partition_index(index)
        .with_error_code(code)
        .with_high_watermark(-1)
        .with_last_stable_offset(-1)
        .with_log_start_offset(-1)
        .with_aborted_transactions(None)
        .with_records(Some(bytes::Bytes::new()))
}

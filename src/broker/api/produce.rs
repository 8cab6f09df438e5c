//! Produce, versions 3 to 13 (0 to 2 are advertised as well and refused, KAFKA-18659).
//!
//! - One batch of magic 2 per partition. acks 0 has no response; 1 and -1 are the same here.
//! - A topic with a `compression.type` of its own has batches of other codecs compressed anew.
//! - Transactional batches: see `produce_txn`.
//! - Version 13 names topics by id.
//! - INVALID_TIMESTAMP names the records at fault from version 8 on.
//! - NOT_LEADER_OR_FOLLOWER tells the leader from version 10 on.

use kafka_protocol::error::ResponseError;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::produce_response::{
    BatchIndexAndErrorMessage, LeaderIdAndEpoch, PartitionProduceResponse, TopicProduceResponse,
};
use kafka_protocol::messages::{ProduceRequest, ProduceResponse};
use kafka_protocol::protocol::StrBytes;

use super::Handler;
use super::produce_txn::{self, ImplicitAdd};
use crate::broker::access::Operation;
use crate::broker::cluster::Cluster;
use crate::broker::log::{AppendRules, Appended, marker};
use crate::broker::shared::Context;
use crate::ids::{TopicId, TopicName, TopicPartition};
use crate::wire::batch::Batch;

/// zstd came with Produce 7.
const ZSTD: u8 = 4;
/// From this version on, the records at fault are named (KIP-467).
const RECORD_ERRORS: i16 = 8;
/// acks of "all replicas in sync".
const ALL: i16 = -1;

impl Handler for ProduceRequest {
    type Response = ProduceResponse;

    async fn handle(self, ctx: &Context, version: i16) -> ProduceResponse {
        let mut responses = Vec::with_capacity(self.topic_data.len().min(1024));
        for topic in &self.topic_data {
            let name = topic_of(&ctx.shared.cluster(), topic, version);
            let mut partitions = Vec::with_capacity(topic.partition_data.len().min(1024));
            for data in &topic.partition_data {
                let outcome = match &name {
                    Ok(name) => produce(ctx, (&self, version), name, data).await,
                    Err(error) => Err(*error),
                };
                let late = outcome.as_ref().err() == Some(&ResponseError::InvalidTimestamp);
                let mut response = answer(ctx, name.as_deref().unwrap_or_default(), data.index, outcome);
                if late && version >= RECORD_ERRORS {
                    response = name_late(ctx, name.as_deref().unwrap_or_default(), data, response);
                }
                // The leader's name came with version 10.
                partitions.push(if version < 10 {
                    response.with_current_leader(LeaderIdAndEpoch::default())
                } else {
                    response
                });
            }
            responses.push(
                TopicProduceResponse::default()
                    .with_name(topic.name.clone())
                    .with_topic_id(topic.topic_id)
                    .with_partition_responses(partitions),
            );
        }
        ctx.shared.announce();
        let delay = ctx.shared.config.produce_delay;
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        ProduceResponse::default().with_responses(responses)
    }

    fn refuse(&self, _version: i16, code: i16) -> ProduceResponse {
        let refused = |p: &PartitionProduceData| failed(p.index, code);
        let topics = self.topic_data.iter().map(|topic| {
            TopicProduceResponse::default()
                .with_name(topic.name.clone())
                .with_topic_id(topic.topic_id)
                .with_partition_responses(topic.partition_data.iter().map(refused).collect())
        });
        ProduceResponse::default().with_responses(topics.collect())
    }

    fn is_silent(&self) -> bool {
        self.acks == 0
    }
}

fn topic_of(cluster: &Cluster, topic: &TopicProduceData, version: i16) -> Result<TopicName, ResponseError> {
    if version < 13 {
        return Ok(topic.name.as_str().into());
    }
    let id = TopicId(topic.topic_id.into_bytes());
    cluster.topics.name_of(id).cloned().ok_or(ResponseError::UnknownTopicId)
}

/// One partition: check the batch, then append it; a transactional one may have to wait for the end of the last
/// transaction.
async fn produce(
    ctx: &Context,
    call: (&ProduceRequest, i16),
    topic: &TopicName,
    data: &PartitionProduceData,
) -> Result<Appended, ResponseError> {
    let (request, version) = call;
    if !matches!(request.acks, -1..=1) {
        return Err(ResponseError::InvalidRequiredAcks);
    }
    let records = data.records.as_ref().ok_or(ResponseError::InvalidRecord)?;
    let batch = marker::produced(records)?;
    if batch.header().codec() == ZSTD && version < 7 {
        return Err(ResponseError::UnsupportedCompressionType);
    }
    ctx.may_topic(Operation::Write, topic)?;
    let at = TopicPartition::new(topic.clone(), data.index);
    let owner = request.transactional_id.as_ref().map(|id| id.as_str());
    let mut waits = produce_txn::Waits::new(version);
    loop {
        let call = (owner, version, request.acks);
        let outcome = append(&mut ctx.shared.cluster(), ctx, call, &at, &batch);
        match outcome {
            Err(ResponseError::ConcurrentTransactions) if waits.again() => waits.sleep().await,
            Err(ResponseError::InvalidProducerEpoch) if batch.header().is_transactional() => {
                return Err(produce_txn::fenced(&ctx.shared.config.profile));
            }
            outcome => return outcome,
        }
    }
}

/// Verification and append happen under one lock: no marker can come between them.
fn append(
    cluster: &mut Cluster,
    ctx: &Context,
    call: (Option<&str>, i16, i16),
    at: &TopicPartition,
    batch: &Batch,
) -> Result<Appended, ResponseError> {
    let (owner, version, acks) = call;
    let config = &ctx.shared.config;
    // Only brokers write there.
    if cluster.topics.named(&at.topic).is_some_and(|topic| topic.internal) {
        return Err(ResponseError::InvalidTopicException);
    }
    let in_sync = cluster.partition(at).map_or(0, |p| p.in_sync(|n| cluster.is_up(n)).len());
    cluster.led_by(ctx.node, &at.topic, at.partition)?;
    let topic = cluster.topics.named(&at.topic).ok_or(ResponseError::UnknownTopicOrPartition)?;
    let most = topic.max_message_bytes(config.max_message_bytes);
    if batch.bytes().len() > most {
        return Err(ResponseError::MessageTooLarge);
    }
    let kept = marker::kept(batch, topic.compression(), topic.compression_levels())?;
    if kept.bytes().len() > most {
        return Err(ResponseError::MessageTooLarge);
    }
    if acks == ALL && in_sync < topic.min_insync_replicas(config.min_insync_replicas) {
        return Err(ResponseError::NotEnoughReplicas);
    }
    let now_ms = cluster.clock.now_ms();
    let append_time_ms = topic.stamps_append_time().then_some(now_ms);
    if append_time_ms.is_none() && batch.header().max_timestamp > topic.latest_timestamp(now_ms) {
        return Err(ResponseError::InvalidTimestamp);
    }
    let add = ImplicitAdd::of(version);
    if batch.header().is_transactional() {
        produce_txn::admit(cluster, (owner, config.profile.verification), at, batch, add)
            .map_err(|error| produce_txn::as_leader_says(error, version))?;
    }
    let partition = cluster.led_by(ctx.node, &at.topic, at.partition)?;
    let first_sequence = produce_txn::first_sequence(add, batch);
    let rules = AppendRules { leader_epoch: partition.leader_epoch, first_sequence, append_time_ms };
    partition.log.append(&kept, rules)
}

fn answer(
    ctx: &Context,
    topic: &str,
    index: i32,
    outcome: Result<Appended, ResponseError>,
) -> PartitionProduceResponse {
    let cluster = ctx.shared.cluster();
    let partition = cluster.topics.named(topic).and_then(|t| t.partition(index));
    match outcome {
        Ok(appended) => PartitionProduceResponse::default()
            .with_index(index)
            .with_base_offset(appended.base_offset)
            .with_log_append_time_ms(appended.append_time)
            .with_log_start_offset(partition.map_or(-1, |p| p.log.start_offset())),
        Err(ResponseError::NotLeaderOrFollower) => {
            let leader = LeaderIdAndEpoch::default()
                .with_leader_id(partition.and_then(|p| p.leader).unwrap_or(-1).into())
                .with_leader_epoch(partition.map_or(-1, |p| p.leader_epoch));
            failed(index, ResponseError::NotLeaderOrFollower.code()).with_current_leader(leader)
        }
        Err(error) => failed(index, error.code()),
    }
}

/// Names the records whose time is too far ahead, by their places in the batch.
fn name_late(
    ctx: &Context,
    topic: &str,
    data: &PartitionProduceData,
    response: PartitionProduceResponse,
) -> PartitionProduceResponse {
    let now_ms = ctx.shared.now_ms();
    let latest = ctx.shared.cluster().topics.named(topic).map_or(i64::MAX, |t| t.latest_timestamp(now_ms));
    let batch = data.records.as_ref().and_then(|records| marker::produced(records).ok());
    let records = batch.and_then(|batch| batch.records().ok()).into_iter().flatten();
    let late = (0..).zip(records).filter(|(_, record)| record.as_ref().is_ok_and(|r| r.timestamp > latest));
    let named = late.map(|(index, _)| BatchIndexAndErrorMessage::default().with_batch_index(index));
    let message = "One or more records have been rejected due to invalid timestamp";
    response.with_record_errors(named.collect()).with_error_message(Some(StrBytes::from_static_str(message)))
}

fn failed(index: i32, code: i16) -> PartitionProduceResponse {
    PartitionProduceResponse::default()
        .with_index(index)
        .with_error_code(code)
        .with_base_offset(-1)
        .with_log_append_time_ms(-1)
        .with_log_start_offset(-1)
}

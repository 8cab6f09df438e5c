//! Produce (0), with batches that are never copied.

use bytes::Bytes;
use kafka_protocol::messages::ProduceResponse;

use super::{Answered, Call, ExchangeError, Head, decode_message, throttle};
use crate::{
    ids::{NodeId, TopicPartition, TransactionalId},
    wire::{
        api::Api,
        code::ErrorCode,
        produce::{ProduceHead, ProduceTopic, frame},
        versions::{Cap, TransactionVersion},
    },
};

/// Writes one batch to each of some partitions of one leader, with acks=all.
#[derive(Debug, Clone)]
pub struct Produce {
    /// The transaction that the batches belong to, if to one: its id, and the transaction version in use. From 2 on, the
    /// broker adds the partitions to the transaction.
    pub transaction: Option<(TransactionalId, TransactionVersion)>,
    /// How long the leader may wait for its followers.
    pub timeout_ms: i32,
    /// The batches.
    pub parts: Vec<(TopicPartition, Bytes)>,
}

/// What became of one batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Produced {
    /// The partition.
    pub partition: TopicPartition,
    /// The error code.
    pub code: ErrorCode,
    /// The offset of its first record, if the broker told.
    pub offset: Option<i64>,
    /// The broker's explanation.
    pub message: String,
    /// Records at fault, by their place in the batch, if the broker told (Produce 8, KIP-467).
    pub records: Vec<usize>,
    /// The leader and its epoch, if the broker knows a newer one (KIP-951).
    pub leader: Option<(NodeId, i32)>,
}

impl Call for Produce {
    /// The version that was used, and an entry per batch.
    type Answer = (i16, Vec<Produced>);

    fn api(&self) -> Api {
        Api::Produce
    }

    fn cap(&self) -> Cap {
        self.transaction.as_ref().map_or(Cap::NotTransactional, |(_, version)| Cap::Transaction(*version))
    }

    fn floor(&self) -> i16 {
        if matches!(self.transaction, Some((_, TransactionVersion::V2))) { 12 } else { 3 }
    }

    fn frame(&self, head: &Head) -> Result<Vec<Bytes>, ExchangeError> {
        let topics = super::by_topic(self.parts.iter().map(|(p, b)| (&p.topic, (p.partition, b.clone()))));
        let topics: Vec<_> =
            topics.iter().map(|(name, partitions)| ProduceTopic { name, partitions }).collect();
        let head = ProduceHead {
            version: head.version,
            correlation_id: head.correlation,
            client_id: Some(&head.client_id),
            transactional_id: self.transaction.as_ref().map(|(id, _)| id.as_str()),
            timeout_ms: self.timeout_ms,
        };
        frame(&head, &topics)
            .map_err(|e| ExchangeError::Encode { api: Api::Produce.name(), detail: e.to_string() })
    }

    fn decode(&self, version: i16, body: Bytes) -> Result<Answered<Self::Answer>, ExchangeError> {
        let r: ProduceResponse = decode_message(Api::Produce, version, body)?;
        let produced = r.responses.iter().flat_map(|topic| {
            topic.partition_responses.iter().map(|p| Produced {
                partition: TopicPartition::new(&**topic.name, p.index),
                code: ErrorCode::from_code(p.error_code),
                offset: (p.base_offset >= 0).then_some(p.base_offset),
                message: p.error_message.as_ref().map(ToString::to_string).unwrap_or_default(),
                records: p.record_errors.iter().filter_map(|e| usize::try_from(e.batch_index).ok()).collect(),
                leader: (p.current_leader.leader_id.0 >= 0)
                    .then_some((NodeId(p.current_leader.leader_id.0), p.current_leader.leader_epoch)),
            })
        });
        let answer = (version, produced.collect());
        Ok(Answered { answer, throttle: throttle(r.throttle_time_ms) })
    }
}

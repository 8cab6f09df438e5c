//! TxnOffsetCommit, versions 0 to 5: offsets that count when the transaction commits.
//!
//! - Version 5 adds the group to the transaction by itself, with the same retries as Produce 12; before, it must
//!   have been added by AddOffsetsToTxn.
//! - What it takes lies in `__consumer_offsets` under the producer's identity until its marker comes.
//! - Generation -1 without a member is the form of checkpointing readers and is accepted.

use kafka_protocol::error::ResponseError;
use kafka_protocol::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use kafka_protocol::messages::{TxnOffsetCommitRequest, TxnOffsetCommitResponse};

use super::Handler;
use super::produce_txn::Waits;
use crate::broker::cluster::Cluster;
use crate::broker::coordinator::entry::Pair;
use crate::broker::groups::Committed;
use crate::broker::offsets_log;
use crate::broker::shared::{Context, now_ms};
use crate::ids::{Identity, TopicPartition};

/// The first version that adds the group to the transaction.
const IMPLICIT_ADD: i16 = 5;

impl Handler for TxnOffsetCommitRequest {
    type Response = TxnOffsetCommitResponse;

    async fn handle(self, ctx: &Context, version: i16) -> TxnOffsetCommitResponse {
        let mut waits = Waits::new(if version >= IMPLICIT_ADD { 12 } else { 0 });
        loop {
            let outcome = commit(&mut ctx.shared.cluster(), ctx.node, &self, version);
            match outcome {
                Err(ResponseError::ConcurrentTransactions) if waits.again() => waits.sleep().await,
                Ok(()) => return self.refuse(version, 0),
                Err(error) => return self.refuse(version, as_group_says(error, version).code()),
            }
        }
    }

    fn refuse(&self, _version: i16, code: i16) -> TxnOffsetCommitResponse {
        let topics = self.topics.iter().map(|topic| {
            let partitions = topic.partitions.iter().map(|p| {
                TxnOffsetCommitResponsePartition::default()
                    .with_partition_index(p.partition_index)
                    .with_error_code(code)
            });
            TxnOffsetCommitResponseTopic::default()
                .with_name(topic.name.clone())
                .with_partitions(partitions.collect())
        });
        TxnOffsetCommitResponse::default().with_topics(topics.collect())
    }
}

fn commit(
    cluster: &mut Cluster,
    node: i32,
    request: &TxnOffsetCommitRequest,
    version: i16,
) -> Result<(), ResponseError> {
    let group = request.group_id.as_str();
    cluster.check_group_coordinator(node, group)?;
    cluster.groups.group_mut(group).check_commit(&request.member_id, request.generation_id)?;
    let id = request.transactional_id.as_str();
    let who = Pair { id: request.producer_id.0, epoch: request.producer_epoch };
    let at = cluster.offsets_partition(group);
    if cluster.transaction_coordinator(id).is_none() {
        return Err(ResponseError::CoordinatorNotAvailable);
    }
    if version >= IMPLICIT_ADD {
        cluster.transactions.add_implicitly(id, who, &at, now_ms())?;
    } else {
        cluster.transactions.verify(id, who, &at)?;
    }
    let offsets = offsets_of(request, cluster.groups.next_order());
    if offsets.is_empty() {
        return Ok(());
    }
    let batch = offsets_log::batch(Identity::new(who.id, who.epoch), group, &offsets, now_ms())?;
    let partition = cluster.led_by(node, &at.topic, at.partition)?;
    let leader_epoch = partition.leader_epoch;
    partition.log.append_for_group(&batch, leader_epoch)?;
    cluster.groups.group_mut(group).pending.entry(who.id).or_default().extend(offsets);
    Ok(())
}

fn offsets_of(request: &TxnOffsetCommitRequest, order: u64) -> Vec<(TopicPartition, Committed)> {
    let mut offsets = Vec::new();
    for topic in &request.topics {
        for p in &topic.partitions {
            let committed = Committed {
                offset: p.committed_offset,
                leader_epoch: p.committed_leader_epoch,
                metadata: p.committed_metadata.as_ref().map(ToString::to_string).unwrap_or_default(),
                order,
            };
            offsets.push((TopicPartition::new(topic.name.as_str(), p.partition_index), committed));
        }
    }
    offsets
}

/// The transaction coordinator's refusal, in the words of the group coordinator.
fn as_group_says(error: ResponseError, version: i16) -> ResponseError {
    match error {
        ResponseError::ProducerFenced => ResponseError::InvalidProducerEpoch,
        ResponseError::TransactionAbortable if version < 4 => ResponseError::InvalidTxnState,
        ResponseError::ConcurrentTransactions if version < IMPLICIT_ADD => {
            ResponseError::CoordinatorNotAvailable
        }
        other => other,
    }
}

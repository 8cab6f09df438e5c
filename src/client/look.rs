//! Questions that several machines ask, answered in their words.

use std::collections::BTreeMap;

use super::router::{Purpose, Router};
use crate::{
    exchange::{DescribeProducers, DescribeTransactions, PartitionProducers, facts},
    ids::{NodeId, ProducerId, TopicName, TopicPartition, TransactionalId},
    net::CallError,
    proto::{
        resume::{Described, PartitionMeta},
        settle::{OpenTransaction, ProducersSeen},
        verdict::{self, DescribeProducersVerdict, MetadataVerdict},
    },
};

/// Topic ids and leaders, in the order of the question; `None` if no broker answers.
pub(crate) async fn partitions(router: &Router, partitions: &[TopicPartition]) -> Option<Vec<PartitionMeta>> {
    let mut topics: Vec<TopicName> = partitions.iter().map(|p| p.topic.clone()).collect();
    topics.sort();
    topics.dedup();
    let answer = router.metadata(Some(topics)).await.ok()?;
    let meta = |p: &TopicPartition| {
        let Some(topic) = answer.topics.iter().find(|t| t.name == p.topic) else {
            return PartitionMeta::NotKnown;
        };
        match topic.verdict {
            MetadataVerdict::Known | MetadataVerdict::Leaderless => {
                let leader = topic.partitions.iter().find(|q| q.index == p.partition).map(|q| q.leader);
                leader.map_or(PartitionMeta::Missing, |leader| PartitionMeta::Known {
                    topic_id: topic.id,
                    leader,
                })
            }
            MetadataVerdict::Missing => PartitionMeta::Missing,
            MetadataVerdict::Retry
            | MetadataVerdict::Denied
            | MetadataVerdict::InvalidName
            | MetadataVerdict::Rebootstrap
            | MetadataVerdict::Failed => PartitionMeta::NotKnown,
        }
    };
    Some(partitions.iter().map(meta).collect())
}

/// What the coordinator says of an id; a coordinator that can't be reached is "try again".
pub(crate) async fn described(router: &Router, id: &TransactionalId) -> Described {
    let Ok(Ok(node)) = router.coordinator(id).await else { return Described::Retry };
    match described_by(router, node, id).await {
        Some(Described::Relookup) => {
            router.forget_coordinator(id);
            Described::Relookup
        }
        Some(described) => described,
        None => Described::Retry,
    }
}

/// What this broker says of an id; `None` without an answer.
pub(crate) async fn described_by(router: &Router, node: NodeId, id: &TransactionalId) -> Option<Described> {
    let call = DescribeTransactions { transactional_id: id.clone() };
    match router.ask(node, Purpose::Control, call).await {
        Ok(described) => Some(facts::described(&described)),
        // A broker before 3.0 has no such request.
        Err(CallError::Exchange(_)) => Some(Described::Blind),
        Err(CallError::NotSent(_) | CallError::MaybeSent(_)) => None,
    }
}

/// What the leaders know of the producers of these partitions, in the order of the question; one request each.
pub(crate) async fn producers(
    router: &Router,
    partitions: &[TopicPartition],
) -> Vec<Option<PartitionProducers>> {
    let mut by_leader: BTreeMap<NodeId, Vec<TopicPartition>> = BTreeMap::new();
    for partition in partitions {
        if let Some(node) = router.leader(partition) {
            by_leader.entry(node).or_default().push(partition.clone());
        }
    }
    let asked = by_leader.into_iter().map(|(node, partitions)| async move {
        router.ask(node, Purpose::Control, DescribeProducers { partitions }).await.unwrap_or_default()
    });
    let answers: Vec<_> = futures::future::join_all(asked).await.into_iter().flatten().collect();
    partitions.iter().map(|p| answers.iter().find(|a| a.partition == *p).cloned()).collect()
}

/// What a leader's answer says of one producer id.
pub(crate) fn seen(answer: Option<&PartitionProducers>, producer_id: ProducerId) -> ProducersSeen {
    let Some(answer) = answer else { return ProducersSeen::Unavailable };
    match verdict::describe_producers(0, answer.code) {
        DescribeProducersVerdict::Described => {}
        DescribeProducersVerdict::Denied => return ProducersSeen::Denied,
        DescribeProducersVerdict::RetryAfterMetadata
        | DescribeProducersVerdict::Retry
        | DescribeProducersVerdict::Unsupported
        | DescribeProducersVerdict::Failed => return ProducersSeen::Unavailable,
    }
    let ours = answer.producers.iter().find(|p| p.producer_id == producer_id);
    ours.and_then(|p| p.open()).map_or(ProducersSeen::NothingOpen, ProducersSeen::Open)
}

impl crate::exchange::OpenProducer {
    /// The open transaction of this producer here, if it has one.
    pub(crate) fn open(&self) -> Option<OpenTransaction> {
        // An epoch is 16 bits wide everywhere but in this answer.
        let epoch = i16::try_from(self.epoch).unwrap_or(i16::MAX);
        self.open_since.map(|start_offset| OpenTransaction {
            start_offset,
            producer_epoch: crate::ids::ProducerEpoch(epoch),
            coordinator_epoch: self.coordinator_epoch,
        })
    }
}

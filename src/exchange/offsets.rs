//! Offsets of consumer groups: AddOffsetsToTxn (25), TxnOffsetCommit (28), OffsetFetch (9).

use std::sync::Arc;

use bytes::Bytes;
use kafka_protocol::messages::{
    self as kp, AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, OffsetFetchRequest, OffsetFetchResponse,
    TxnOffsetCommitRequest, TxnOffsetCommitResponse,
    offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics},
    txn_offset_commit_request::{TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic},
};

use super::{
    Answered, Call, ExchangeError, Head, by_topic, decode_message, frame_message, str_bytes, throttle,
    topic_name, transaction::id,
};
use crate::{
    ids::{GroupId, Identity, TopicPartition, TransactionalId},
    proto::offsets::{GroupOffsets, OffsetAndMetadata},
    wire::{
        api::Api,
        code::ErrorCode,
        versions::{Cap, OFFSETS_OF_GROUPS, OFFSETS_OF_MEMBER, STABLE_OFFSETS, TransactionVersion},
    },
};

/// Makes a group's partition of `__consumer_offsets` a member of the transaction. Transactions V2 need none.
#[derive(Debug, Clone)]
pub struct AddOffsetsToTxn {
    /// The transactional id.
    pub transactional_id: TransactionalId,
    /// Its identity.
    pub identity: Identity,
    /// The group.
    pub group: GroupId,
}

/// Hands offsets to a group coordinator, which count when the transaction commits.
#[derive(Debug, Clone)]
pub struct TxnOffsetCommit {
    /// The transactional id.
    pub transactional_id: TransactionalId,
    /// Its identity.
    pub identity: Identity,
    /// The level at which the transaction was begun: from version 5 on the request adds the group's partition itself.
    pub version: TransactionVersion,
    /// The group and its offsets.
    pub offsets: Arc<GroupOffsets>,
}

/// Asks a group coordinator for committed offsets. From version 7 on an offset that a transaction holds back is refused
/// (KIP-447); older brokers tell the one before it.
#[derive(Debug, Clone)]
pub struct OffsetFetch {
    /// The group.
    pub group: GroupId,
    /// The partitions.
    pub partitions: Vec<TopicPartition>,
}

/// What a group has committed of one partition; `None` for nothing.
pub type FetchedOffset = (TopicPartition, Result<Option<OffsetAndMetadata>, ErrorCode>);

impl Call for AddOffsetsToTxn {
    type Answer = ErrorCode;

    fn api(&self) -> Api {
        Api::AddOffsetsToTxn
    }

    fn cap(&self) -> Cap {
        Cap::Transaction(TransactionVersion::V1)
    }

    fn frame(&self, head: &Head) -> Result<Vec<Bytes>, ExchangeError> {
        let message = AddOffsetsToTxnRequest::default()
            .with_transactional_id(id(&self.transactional_id))
            .with_producer_id(kp::ProducerId(self.identity.producer_id.0))
            .with_producer_epoch(self.identity.epoch.0)
            .with_group_id(group_id(&self.group));
        frame_message(Api::AddOffsetsToTxn, head, &message)
    }

    fn decode(&self, version: i16, body: Bytes) -> Result<Answered<Self::Answer>, ExchangeError> {
        let r: AddOffsetsToTxnResponse = decode_message(Api::AddOffsetsToTxn, version, body)?;
        Ok(Answered { answer: ErrorCode::from_code(r.error_code), throttle: throttle(r.throttle_time_ms) })
    }
}

impl Call for TxnOffsetCommit {
    type Answer = (i16, Vec<(TopicPartition, ErrorCode)>);

    fn api(&self) -> Api {
        Api::TxnOffsetCommit
    }

    fn cap(&self) -> Cap {
        Cap::Transaction(self.version)
    }

    fn floor(&self) -> i16 {
        match self.version {
            // An older one would need AddOffsetsToTxn.
            TransactionVersion::V2 => 5,
            TransactionVersion::V0 | TransactionVersion::V1 if self.offsets.group.is_member() => {
                OFFSETS_OF_MEMBER
            }
            TransactionVersion::V0 | TransactionVersion::V1 => 0,
        }
    }

    fn frame(&self, head: &Head) -> Result<Vec<Bytes>, ExchangeError> {
        let group = &self.offsets.group;
        let topics = by_topic(self.offsets.offsets.iter().map(|(p, at)| (&p.topic, (p.partition, at))));
        let topics = topics.into_iter().map(|(topic, partitions)| {
            let partitions = partitions.into_iter().map(|(index, at)| {
                TxnOffsetCommitRequestPartition::default()
                    .with_partition_index(index)
                    .with_committed_offset(at.offset)
                    .with_committed_leader_epoch(at.leader_epoch.unwrap_or(-1))
                    .with_committed_metadata(Some(str_bytes(&at.metadata)))
            });
            TxnOffsetCommitRequestTopic::default()
                .with_name(topic_name(topic))
                .with_partitions(partitions.collect())
        });
        let message = TxnOffsetCommitRequest::default()
            .with_transactional_id(id(&self.transactional_id))
            .with_group_id(group_id(&group.group_id))
            .with_producer_id(kp::ProducerId(self.identity.producer_id.0))
            .with_producer_epoch(self.identity.epoch.0)
            .with_topics(topics.collect());
        let message = if head.version >= OFFSETS_OF_MEMBER {
            message
                .with_generation_id(group.generation_id)
                .with_member_id(str_bytes(&group.member_id))
                .with_group_instance_id(group.group_instance_id.as_deref().map(str_bytes))
        } else {
            message
        };
        frame_message(Api::TxnOffsetCommit, head, &message)
    }

    fn decode(&self, version: i16, body: Bytes) -> Result<Answered<Self::Answer>, ExchangeError> {
        let r: TxnOffsetCommitResponse = decode_message(Api::TxnOffsetCommit, version, body)?;
        let answer = r.topics.iter().flat_map(|topic| {
            topic.partitions.iter().map(|p| {
                let partition = TopicPartition::new(&**topic.name, p.partition_index);
                (partition, ErrorCode::from_code(p.error_code))
            })
        });
        Ok(Answered { answer: (version, answer.collect()), throttle: throttle(r.throttle_time_ms) })
    }
}

impl Call for OffsetFetch {
    /// An error is about the group as a whole.
    type Answer = Result<Vec<FetchedOffset>, ErrorCode>;

    fn api(&self) -> Api {
        Api::OffsetFetch
    }

    fn frame(&self, head: &Head) -> Result<Vec<Bytes>, ExchangeError> {
        let topics = by_topic(self.partitions.iter().map(|p| (&p.topic, p.partition)));
        let message = OffsetFetchRequest::default().with_require_stable(head.version >= STABLE_OFFSETS);
        let message = if head.version >= OFFSETS_OF_GROUPS {
            let topics = topics.into_iter().map(|(topic, partitions)| {
                OffsetFetchRequestTopics::default()
                    .with_name(topic_name(topic))
                    .with_partition_indexes(partitions)
            });
            let group = OffsetFetchRequestGroup::default()
                .with_group_id(group_id(&self.group))
                .with_topics(Some(topics.collect()));
            message.with_groups(vec![group])
        } else {
            let topics = topics.into_iter().map(|(topic, partitions)| {
                OffsetFetchRequestTopic::default()
                    .with_name(topic_name(topic))
                    .with_partition_indexes(partitions)
            });
            message.with_group_id(group_id(&self.group)).with_topics(Some(topics.collect()))
        };
        frame_message(Api::OffsetFetch, head, &message)
    }

    fn decode(&self, version: i16, body: Bytes) -> Result<Answered<Self::Answer>, ExchangeError> {
        let r: OffsetFetchResponse = decode_message(Api::OffsetFetch, version, body)?;
        let throttle = throttle(r.throttle_time_ms);
        let (code, found) = if version >= OFFSETS_OF_GROUPS {
            let ours = r.groups.iter().find(|g| **g.group_id == *self.group.as_str());
            let Some(ours) = ours else {
                return Err(ExchangeError::malformed(Api::OffsetFetch, version, "our group is missing"));
            };
            let found = ours.topics.iter().flat_map(|topic| {
                topic.partitions.iter().map(|p| {
                    let at = (p.committed_offset, p.committed_leader_epoch, p.metadata.as_deref());
                    fetched(&topic.name, p.partition_index, p.error_code, at)
                })
            });
            (ours.error_code, found.collect::<Vec<_>>())
        } else {
            let found = r.topics.iter().flat_map(|topic| {
                topic.partitions.iter().map(|p| {
                    let at = (p.committed_offset, p.committed_leader_epoch, p.metadata.as_deref());
                    fetched(&topic.name, p.partition_index, p.error_code, at)
                })
            });
            (r.error_code, found.collect())
        };
        let code = ErrorCode::from_code(code);
        Ok(Answered { answer: if code.is_none() { Ok(found) } else { Err(code) }, throttle })
    }
}

fn fetched(
    topic: &kp::TopicName,
    partition: i32,
    code: i16,
    (offset, leader_epoch, metadata): (i64, i32, Option<&str>),
) -> FetchedOffset {
    let code = ErrorCode::from_code(code);
    let told = (offset >= 0).then(|| OffsetAndMetadata {
        offset,
        leader_epoch: (leader_epoch >= 0).then_some(leader_epoch),
        metadata: metadata.unwrap_or_default().to_owned(),
    });
    (TopicPartition::new(&***topic, partition), if code.is_none() { Ok(told) } else { Err(code) })
}

fn group_id(group: &GroupId) -> kp::GroupId {
    kp::GroupId(str_bytes(group.as_str()))
}

//! What each request names.

use kafka_protocol::messages as m;

use super::Keys;
use crate::broker::api::write_txn_markers::Markers;
use crate::ids::{TopicId, TopicPartition};

/// A request that can tell what it names.
pub(crate) trait Named {
    /// Topics that it names by their ids are told by these.
    fn keys(&self) -> Keys;

    /// The topics that it names by their ids.
    fn topic_ids(&self) -> Vec<TopicId> {
        Vec::new()
    }
}

/// Requests that name nothing, or nothing that tests ask for.
macro_rules! nameless {
    ($($request:ident)*) => {
        $(impl Named for m::$request {
            fn keys(&self) -> Keys {
                Keys::default()
            }
        })*
    };
}

nameless! {
    CreateTopicsRequest DeleteTopicsRequest DescribeConfigsRequest DescribeClusterRequest ListTransactionsRequest
    SaslHandshakeRequest SaslAuthenticateRequest
}

/// Requests of members of a group.
macro_rules! of_groups {
    ($($request:ident)*) => {
        $(impl Named for m::$request {
            fn keys(&self) -> Keys {
                Keys { group: Some(self.group_id.to_string()), ..Keys::default() }
            }
        })*
    };
}

of_groups! { JoinGroupRequest SyncGroupRequest HeartbeatRequest LeaveGroupRequest }

fn at(topic: &str, partition: i32) -> TopicPartition {
    TopicPartition::new(topic, partition)
}

/// A topic's name, or its id where only that was given.
fn topic(name: &m::TopicName, id: uuid::Uuid) -> String {
    if name.is_empty() { TopicId(id.into_bytes()).to_string() } else { name.to_string() }
}

impl Named for m::ProduceRequest {
    fn keys(&self) -> Keys {
        let partitions = self.topic_data.iter().flat_map(|t| {
            let name = topic(&t.name, t.topic_id);
            t.partition_data.iter().map(move |p| at(&name, p.index))
        });
        let batch = self.topic_data.iter().flat_map(|t| &t.partition_data).find_map(|p| p.records.as_ref());
        Keys {
            transactional_id: self.transactional_id.as_ref().map(|id| id.to_string()),
            producer: batch.and_then(|b| producer_of(b)),
            partitions: partitions.collect(),
            ..Keys::default()
        }
    }

    fn topic_ids(&self) -> Vec<TopicId> {
        self.topic_data.iter().map(|t| TopicId(t.topic_id.into_bytes())).filter(|id| id.is_known()).collect()
    }
}

/// The producer id and epoch stand at fixed places of a batch.
fn producer_of(batch: &[u8]) -> Option<(i64, i16)> {
    let id = i64::from_be_bytes(batch.get(43..51)?.try_into().ok()?);
    let epoch = i16::from_be_bytes(batch.get(51..53)?.try_into().ok()?);
    (id >= 0).then_some((id, epoch))
}

impl Named for m::FetchRequest {
    fn keys(&self) -> Keys {
        let partitions = self.topics.iter().flat_map(|t| {
            let name = topic(&t.topic, t.topic_id);
            t.partitions.iter().map(move |p| at(&name, p.partition))
        });
        Keys { partitions: partitions.collect(), ..Keys::default() }
    }

    fn topic_ids(&self) -> Vec<TopicId> {
        self.topics.iter().map(|t| TopicId(t.topic_id.into_bytes())).filter(|id| id.is_known()).collect()
    }
}

impl Named for m::ListOffsetsRequest {
    fn keys(&self) -> Keys {
        let partitions =
            self.topics.iter().flat_map(|t| t.partitions.iter().map(|p| at(&t.name, p.partition_index)));
        Keys { partitions: partitions.collect(), ..Keys::default() }
    }
}

impl Named for m::MetadataRequest {
    fn keys(&self) -> Keys {
        let names = self.topics.iter().flatten().filter_map(|t| t.name.as_ref());
        Keys { topics: names.map(|name| name.to_string()).collect(), ..Keys::default() }
    }
}

impl Named for m::DeleteRecordsRequest {
    fn keys(&self) -> Keys {
        let partitions =
            self.topics.iter().flat_map(|t| t.partitions.iter().map(|p| at(&t.name, p.partition_index)));
        Keys { partitions: partitions.collect(), ..Keys::default() }
    }
}

impl Named for m::DescribeProducersRequest {
    fn keys(&self) -> Keys {
        let partitions = self.topics.iter().flat_map(|t| t.partition_indexes.iter().map(|p| at(&t.name, *p)));
        Keys { partitions: partitions.collect(), ..Keys::default() }
    }
}

impl Named for m::FindCoordinatorRequest {
    fn keys(&self) -> Keys {
        let key = self.coordinator_keys.first().unwrap_or(&self.key).to_string();
        match self.key_type {
            1 => Keys { transactional_id: Some(key), ..Keys::default() },
            _ => Keys { group: Some(key), ..Keys::default() },
        }
    }
}

impl Named for m::InitProducerIdRequest {
    fn keys(&self) -> Keys {
        Keys {
            transactional_id: self.transactional_id.as_ref().map(|id| id.to_string()),
            producer: (self.producer_id.0 >= 0).then_some((self.producer_id.0, self.producer_epoch)),
            ..Keys::default()
        }
    }
}

impl Named for m::AddPartitionsToTxnRequest {
    fn keys(&self) -> Keys {
        let own = self.v3_and_below_topics.iter();
        let all = own.chain(self.transactions.iter().flat_map(|t| &t.topics));
        let partitions = all.flat_map(|t| t.partitions.iter().map(|p| at(&t.name, *p)));
        let (id, producer) = match self.transactions.first() {
            Some(t) => (&t.transactional_id, (t.producer_id.0, t.producer_epoch)),
            None => (
                &self.v3_and_below_transactional_id,
                (self.v3_and_below_producer_id.0, self.v3_and_below_producer_epoch),
            ),
        };
        Keys {
            transactional_id: Some(id.to_string()),
            producer: Some(producer),
            partitions: partitions.collect(),
            ..Keys::default()
        }
    }
}

impl Named for m::AddOffsetsToTxnRequest {
    fn keys(&self) -> Keys {
        Keys {
            transactional_id: Some(self.transactional_id.to_string()),
            group: Some(self.group_id.to_string()),
            producer: Some((self.producer_id.0, self.producer_epoch)),
            ..Keys::default()
        }
    }
}

impl Named for m::TxnOffsetCommitRequest {
    fn keys(&self) -> Keys {
        let partitions =
            self.topics.iter().flat_map(|t| t.partitions.iter().map(|p| at(&t.name, p.partition_index)));
        Keys {
            transactional_id: Some(self.transactional_id.to_string()),
            group: Some(self.group_id.to_string()),
            producer: Some((self.producer_id.0, self.producer_epoch)),
            partitions: partitions.collect(),
            ..Keys::default()
        }
    }
}

impl Named for m::EndTxnRequest {
    fn keys(&self) -> Keys {
        Keys {
            transactional_id: Some(self.transactional_id.to_string()),
            producer: Some((self.producer_id.0, self.producer_epoch)),
            commit: Some(self.committed),
            ..Keys::default()
        }
    }
}

impl Named for m::DescribeTransactionsRequest {
    fn keys(&self) -> Keys {
        Keys { transactional_id: self.transactional_ids.first().map(|id| id.to_string()), ..Keys::default() }
    }
}

impl Named for m::OffsetCommitRequest {
    fn keys(&self) -> Keys {
        let partitions =
            self.topics.iter().flat_map(|t| t.partitions.iter().map(|p| at(&t.name, p.partition_index)));
        Keys { group: Some(self.group_id.to_string()), partitions: partitions.collect(), ..Keys::default() }
    }
}

impl Named for m::OffsetFetchRequest {
    fn keys(&self) -> Keys {
        let group = self.groups.first().map_or(&self.group_id, |group| &group.group_id);
        Keys { group: Some(group.to_string()), ..Keys::default() }
    }
}

impl Named for Markers {
    fn keys(&self) -> Keys {
        let markers = self.markers();
        let partitions = markers
            .flat_map(|m| m.topics.iter().flat_map(|t| t.partition_indexes.iter().map(|p| at(&t.name, *p))));
        let first = self.markers().next();
        Keys {
            producer: first.map(|m| (m.producer_id.0, m.producer_epoch)),
            commit: first.map(|m| m.transaction_result),
            partitions: partitions.collect(),
            ..Keys::default()
        }
    }
}

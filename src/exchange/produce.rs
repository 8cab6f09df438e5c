//! Produce (0), with batches that are never copied.

use bytes::Bytes;
use kafka_protocol::messages::ProduceResponse;

use super::{Answered, Call, ExchangeError, Head, by_topic, decode_message, throttle};
use crate::{
    ids::{NodeId, TopicId, TopicName, TopicPartition, TransactionalId},
    wire::{
        api::Api,
        code::ErrorCode,
        produce::{ProduceHead, ProduceTopic, TOPIC_IDS, frame},
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
    pub parts: Vec<ProducePart>,
}

/// A batch and where it goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProducePart {
    /// The partition.
    pub partition: TopicPartition,
    /// Its topic's id. If all parts have theirs, a broker that knows ids writes into no other topic of that name.
    pub topic_id: TopicId,
    /// The batch.
    pub batch: Bytes,
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
        let by_id = self.parts.iter().all(|part| part.topic_id.is_known());
        match (&self.transaction, by_id) {
            (Some((_, version)), true) => Cap::Transaction(*version),
            (Some((_, version)), false) => Cap::TransactionByName(*version),
            (None, true) => Cap::NotTransactional,
            (None, false) => Cap::TopicsByName,
        }
    }

    fn floor(&self) -> i16 {
        if matches!(self.transaction, Some((_, TransactionVersion::V2))) { 12 } else { 3 }
    }

    fn frame(&self, head: &Head) -> Result<Vec<Bytes>, ExchangeError> {
        // By name a topic is one, whatever its id was.
        let id = |part: &ProducePart| if head.version < TOPIC_IDS { TopicId::UNKNOWN } else { part.topic_id };
        let parts = self
            .parts
            .iter()
            .map(|p| ((&p.partition.topic, id(p)), (p.partition.partition, p.batch.clone())));
        let topics = by_topic(parts);
        let topics: Vec<_> = topics
            .iter()
            .map(|((name, id), partitions)| ProduceTopic { name, id: *id, partitions })
            .collect();
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
        let mut produced = Vec::with_capacity(self.parts.len());
        for topic in &r.responses {
            let by_name = (version < TOPIC_IDS).then(|| TopicName::from(&**topic.name));
            let id = TopicId(topic.topic_id.into_bytes());
            produced.extend(topic.partition_responses.iter().filter_map(|p| {
                let partition = match &by_name {
                    Some(name) => TopicPartition::new(name.clone(), p.index),
                    // Nobody asked about a partition of a topic of another id.
                    None => self.sent_to(id, p.index)?,
                };
                Some(Produced {
                    partition,
                    code: ErrorCode::from_code(p.error_code),
                    offset: (p.base_offset >= 0).then_some(p.base_offset),
                    message: p.error_message.as_ref().map(ToString::to_string).unwrap_or_default(),
                    records: p
                        .record_errors
                        .iter()
                        .filter_map(|e| usize::try_from(e.batch_index).ok())
                        .collect(),
                    leader: (p.current_leader.leader_id.0 >= 0)
                        .then_some((NodeId(p.current_leader.leader_id.0), p.current_leader.leader_epoch)),
                })
            }));
        }
        Ok(Answered { answer: (version, produced), throttle: throttle(r.throttle_time_ms) })
    }
}

impl Produce {
    /// The partition of this number that a batch went to under this id of its topic.
    fn sent_to(&self, id: TopicId, partition: i32) -> Option<TopicPartition> {
        let is_it = |part: &&ProducePart| part.topic_id == id && part.partition.partition == partition;
        self.parts.iter().find(is_it).map(|part| part.partition.clone())
    }
}

#[cfg(test)]
mod tests {
    use kafka_protocol::{
        messages::{
            ProduceRequest,
            produce_response::{PartitionProduceResponse, TopicProduceResponse},
        },
        protocol::{Decodable, Encodable},
    };
    use uuid::Uuid;

    use super::*;
    use crate::wire::frame::RequestHeader;

    const ONE: TopicId = TopicId([1; 16]);
    const TWO: TopicId = TopicId([2; 16]);

    fn part(name: &str, partition: i32, topic_id: TopicId) -> ProducePart {
        ProducePart { partition: TopicPartition::new(name, partition), topic_id, batch: Bytes::new() }
    }

    fn produce(parts: Vec<ProducePart>) -> Produce {
        Produce { transaction: None, timeout_ms: 1, parts }
    }

    /// The topics of its frame, and how many partitions each has.
    fn topics(produce: &Produce, version: i16) -> Vec<(String, TopicId, usize)> {
        let head = Head { version, correlation: 1, client_id: "c".into() };
        let mut frame = Bytes::from(produce.frame(&head).unwrap().concat()).split_off(4);
        RequestHeader::decode(&mut frame).unwrap();
        let request = ProduceRequest::decode(&mut frame, version).unwrap();
        let topic = |t: &kafka_protocol::messages::produce_request::TopicProduceData| {
            (t.name.to_string(), TopicId(t.topic_id.into_bytes()), t.partition_data.len())
        };
        request.topic_data.iter().map(topic).collect()
    }

    #[test]
    fn topics_of_one_name_are_one_by_name_and_two_by_id() {
        let produce =
            produce(vec![part("t", 0, ONE), part("t", 1, TWO), part("u", 0, TWO), part("t", 2, ONE)]);
        let unknown = TopicId::UNKNOWN;
        assert_eq!(topics(&produce, 12), [("t".into(), unknown, 3), ("u".into(), unknown, 1)]);
        let by_id = [(ONE, 2), (TWO, 1), (TWO, 1)].map(|(id, count)| (String::new(), id, count));
        assert_eq!(topics(&produce, 13), by_id);
    }

    #[test]
    fn ids_are_used_where_all_are_known() {
        let caps = [ONE, TopicId::UNKNOWN].map(|id| {
            let one = produce(vec![part("t", 0, ONE), part("u", 0, id)]);
            let transaction = Some((TransactionalId::new("a"), TransactionVersion::V2));
            [one.cap(), Produce { transaction, ..one }.cap()]
        });
        let v2 = TransactionVersion::V2;
        assert_eq!(caps[0], [Cap::NotTransactional, Cap::Transaction(v2)]);
        assert_eq!(caps[1], [Cap::TopicsByName, Cap::TransactionByName(v2)]);
    }

    #[test]
    fn an_answer_by_id_is_about_the_topic_that_was_sent_under_it() {
        let produce = produce(vec![part("t", 3, ONE), part("t", 4, TWO)]);
        let topic = |id: TopicId, partition| {
            let partition = PartitionProduceResponse::default().with_index(partition).with_base_offset(7);
            TopicProduceResponse::default()
                .with_topic_id(Uuid::from_bytes(id.0))
                .with_partition_responses(vec![partition])
        };
        let other = TopicId([3; 16]);
        let responses = vec![topic(other, 3), topic(TWO, 3), topic(ONE, 4), topic(ONE, 3)];
        let response = ProduceResponse::default().with_responses(responses);
        let mut body = bytes::BytesMut::new();
        response.encode(&mut body, 13).unwrap();
        let (version, produced) = produce.decode(13, body.freeze()).unwrap().answer;
        let told: Vec<_> = produced.iter().map(|p| (p.partition.clone(), p.offset)).collect();
        assert_eq!(
            (version, told),
            (13, vec![(TopicPartition::new("t", 3), Some(7))]),
            "nobody asked for the others"
        );
    }
}

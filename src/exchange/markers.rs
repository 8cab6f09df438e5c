//! What a partition's leader knows of producers, DescribeProducers (61), and markers written by hand,
//! WriteTxnMarkers (27).

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::{
    self as kp, DescribeProducersRequest, DescribeProducersResponse, WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
    describe_producers_request::TopicRequest,
    write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic},
};

use super::{
    Answered, Call, ExchangeError, Head, by_topic, decode_message, frame_message, header, throttle,
    topic_name,
};
use crate::{
    ids::{Identity, ProducerId, TopicPartition},
    wire::{api::Api, code::ErrorCode, frame},
};

/// Asks a leader for the producers of its partitions (KIP-664). Needs READ on the topic.
#[derive(Debug, Clone)]
pub struct DescribeProducers {
    /// The partitions.
    pub partitions: Vec<TopicPartition>,
}

/// What the leader knows of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionProducers {
    /// The partition.
    pub partition: TopicPartition,
    /// The error code.
    pub code: ErrorCode,
    /// The producers that it remembers.
    pub producers: Vec<OpenProducer>,
}

/// One producer on one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenProducer {
    /// The producer id.
    pub producer_id: ProducerId,
    /// Its newest epoch here.
    pub epoch: i32,
    /// The coordinator epoch of its last marker; -1 if it never got one.
    pub coordinator_epoch: i32,
    /// Where its open transaction begins; `None` if it has none here.
    pub open_since: Option<i64>,
}

/// Writes the marker of a decision that is proven, where its coordinator failed to (KAFKA-20734).
/// Needs ALTER on the cluster.
#[derive(Debug, Clone)]
pub struct WriteTxnMarkers {
    /// The marker.
    pub marker: Marker,
}

/// A marker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marker {
    /// Producer id and the epoch that the marker carries.
    pub identity: Identity,
    /// True for COMMIT.
    pub commit: bool,
    /// Not lower than the one that the partition has seen last.
    pub coordinator_epoch: i32,
    /// 2 for a transaction of transactions V2 (KIP-1228; sent from version 2 on), else 0.
    pub transaction_version: i8,
    /// Where it is written; all led by one broker.
    pub partitions: Vec<TopicPartition>,
}

impl Call for DescribeProducers {
    type Answer = Vec<PartitionProducers>;

    fn api(&self) -> Api {
        Api::DescribeProducers
    }

    fn frame(&self, head: &Head) -> Result<Vec<Bytes>, ExchangeError> {
        let topics = by_topic(self.partitions.iter().map(|p| (&p.topic, p.partition)));
        let topics = topics.into_iter().map(|(topic, partitions)| {
            TopicRequest::default().with_name(topic_name(topic)).with_partition_indexes(partitions)
        });
        let message = DescribeProducersRequest::default().with_topics(topics.collect());
        frame_message(Api::DescribeProducers, head, &message)
    }

    fn decode(&self, version: i16, body: Bytes) -> Result<Answered<Self::Answer>, ExchangeError> {
        let r: DescribeProducersResponse = decode_message(Api::DescribeProducers, version, body)?;
        let partitions = r.topics.iter().flat_map(|topic| {
            topic.partitions.iter().map(|p| PartitionProducers {
                partition: TopicPartition::new(&**topic.name, p.partition_index),
                code: ErrorCode::from_code(p.error_code),
                producers: p.active_producers.iter().map(open_producer).collect(),
            })
        });
        Ok(Answered { answer: partitions.collect(), throttle: throttle(r.throttle_time_ms) })
    }
}

fn open_producer(p: &kp::describe_producers_response::ProducerState) -> OpenProducer {
    OpenProducer {
        producer_id: ProducerId(p.producer_id.0),
        epoch: p.producer_epoch,
        coordinator_epoch: p.coordinator_epoch,
        open_since: (p.current_txn_start_offset >= 0).then_some(p.current_txn_start_offset),
    }
}

impl Call for WriteTxnMarkers {
    type Answer = Vec<(TopicPartition, ErrorCode)>;

    fn api(&self) -> Api {
        Api::WriteTxnMarkers
    }

    fn frame(&self, head: &Head) -> Result<Vec<Bytes>, ExchangeError> {
        if head.version >= 2 {
            return self.frame_with_transaction_version(head);
        }
        let topics = by_topic(self.marker.partitions.iter().map(|p| (&p.topic, p.partition)));
        let topics = topics.into_iter().map(|(topic, partitions)| {
            WritableTxnMarkerTopic::default().with_name(topic_name(topic)).with_partition_indexes(partitions)
        });
        let marker = WritableTxnMarker::default()
            .with_producer_id(kp::ProducerId(self.marker.identity.producer_id.0))
            .with_producer_epoch(self.marker.identity.epoch.0)
            .with_transaction_result(self.marker.commit)
            .with_topics(topics.collect())
            .with_coordinator_epoch(self.marker.coordinator_epoch);
        let message = WriteTxnMarkersRequest::default().with_markers(vec![marker]);
        frame_message(Api::WriteTxnMarkers, head, &message)
    }

    fn decode(&self, version: i16, body: Bytes) -> Result<Answered<Self::Answer>, ExchangeError> {
        // Version 2 changed the request alone, and the crate knows version 1.
        let r: WriteTxnMarkersResponse = decode_message(Api::WriteTxnMarkers, version.min(1), body)?;
        let partitions = r.markers.iter().flat_map(|m| &m.topics).flat_map(|topic| {
            topic.partitions.iter().map(|p| {
                let partition = TopicPartition::new(&**topic.name, p.partition_index);
                (partition, ErrorCode::from_code(p.error_code))
            })
        });
        Ok(Answered { answer: partitions.collect(), throttle: throttle(0) })
    }
}

impl WriteTxnMarkers {
    /// Version 2 by hand: a flexible message whose one new field follows the coordinator epoch.
    fn frame_with_transaction_version(&self, head: &Head) -> Result<Vec<Bytes>, ExchangeError> {
        let mut out = BytesMut::with_capacity(128);
        frame::put_frame(&mut out, |out| {
            header(Api::WriteTxnMarkers, head).encode(out);
            compact_count(out, 1);
            out.put_i64(self.marker.identity.producer_id.0);
            out.put_i16(self.marker.identity.epoch.0);
            out.put_u8(u8::from(self.marker.commit));
            let topics = by_topic(self.marker.partitions.iter().map(|p| (&p.topic, p.partition)));
            compact_count(out, topics.len());
            for (topic, partitions) in topics {
                compact_count(out, topic.len());
                out.put_slice(topic.as_bytes());
                compact_count(out, partitions.len());
                partitions.into_iter().for_each(|p| out.put_i32(p));
                out.put_u8(0);
            }
            out.put_i32(self.marker.coordinator_epoch);
            out.put_i8(self.marker.transaction_version);
            out.put_slice(&[0, 0]);
            Ok::<(), ExchangeError>(())
        })?;
        Ok(vec![out.freeze()])
    }
}

/// A compact array's or string's length: an unsigned varint of one more.
fn compact_count(out: &mut BytesMut, count: usize) {
    let mut left = count + 1;
    while left >= 0x80 {
        out.put_u8(u8::try_from(left & 0x7f).unwrap_or_default() | 0x80);
        left >>= 7;
    }
    out.put_u8(u8::try_from(left).unwrap_or_default());
}

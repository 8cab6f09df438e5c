//! WriteTxnMarkers, versions 1 and 2: how an administrator ends a transaction on one partition.
//!
//! - The coordinator is not asked and does not learn of it.
//! - Version 2 (KIP-1228) adds the transaction version of each marker. The codec's structs know version 1 only, so
//!   its body is read here.
//! - A marker of version 2 must carry an epoch above the producer's last one, unless nothing is open.

use bytes::{Buf, Bytes};
use kafka_protocol::error::ResponseError;
use kafka_protocol::messages::write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic};
use kafka_protocol::messages::write_txn_markers_response::{
    WritableTxnMarkerPartitionResult, WritableTxnMarkerResult, WritableTxnMarkerTopicResult,
};
use kafka_protocol::messages::{WriteTxnMarkersRequest, WriteTxnMarkersResponse};

use super::{Handler, topic_name};
use crate::broker::cluster::Cluster;
use crate::broker::frame::{self, Call, Unreadable};
use crate::broker::log::batch::{Marker, Outcome};
use crate::broker::markers;
use crate::broker::shared::{Context, now_ms};
use crate::ids::TopicPartition;

/// The markers of a request, each with its transaction version.
#[derive(Debug, Clone)]
pub(crate) struct Markers(Vec<(WritableTxnMarker, i8)>);

/// Reads either version.
pub(crate) fn read(call: &mut Call) -> Result<Markers, Unreadable> {
    if call.version == 1 {
        let request: WriteTxnMarkersRequest = frame::body(call)?;
        return Ok(Markers(request.markers.into_iter().map(|marker| (marker, 0)).collect()));
    }
    let body = &mut call.body;
    let markers = array(body, marker_v2)?;
    skip_tags(body)?;
    Ok(Markers(markers))
}

impl Handler for Markers {
    type Response = WriteTxnMarkersResponse;

    async fn handle(self, ctx: &Context, _version: i16) -> WriteTxnMarkersResponse {
        let response = {
            let mut cluster = ctx.shared.cluster();
            self.answer(|marker, version, at| write(&mut cluster, ctx.node, &to_write(marker, version), at))
        };
        ctx.shared.announce();
        response
    }

    fn refuse(&self, _version: i16, code: i16) -> WriteTxnMarkersResponse {
        self.answer(|_, _, _| code)
    }
}

impl Markers {
    fn answer(
        &self,
        mut code: impl FnMut(&WritableTxnMarker, i8, &TopicPartition) -> i16,
    ) -> WriteTxnMarkersResponse {
        let mut results = Vec::new();
        for (marker, version) in &self.0 {
            let mut topics = Vec::new();
            for topic in &marker.topics {
                let partitions = topic.partition_indexes.iter().map(|index| {
                    let at = TopicPartition::new(topic.name.as_str(), *index);
                    WritableTxnMarkerPartitionResult::default()
                        .with_partition_index(*index)
                        .with_error_code(code(marker, *version, &at))
                });
                let result = WritableTxnMarkerTopicResult::default().with_name(topic.name.clone());
                topics.push(result.with_partitions(partitions.collect()));
            }
            results.push(
                WritableTxnMarkerResult::default().with_producer_id(marker.producer_id).with_topics(topics),
            );
        }
        WriteTxnMarkersResponse::default().with_markers(results)
    }
}

fn to_write(marker: &WritableTxnMarker, transaction_version: i8) -> Marker {
    Marker {
        producer_id: marker.producer_id.0,
        producer_epoch: marker.producer_epoch,
        coordinator_epoch: marker.coordinator_epoch,
        outcome: if marker.transaction_result { Outcome::Commit } else { Outcome::Abort },
        transaction_version,
    }
}

fn write(cluster: &mut Cluster, node: i32, marker: &Marker, at: &TopicPartition) -> i16 {
    let written = cluster.led_by(node, &at.topic, at.partition).and_then(|partition| {
        let epoch = partition.leader_epoch;
        partition.log.append_marker(marker, epoch, now_ms())
    });
    if written.is_ok() {
        markers::end_offsets(cluster, at, marker);
    }
    written.err().map_or(0, |error: ResponseError| error.code())
}

fn marker_v2(body: &mut Bytes) -> Result<(WritableTxnMarker, i8), Unreadable> {
    let producer_id = body.try_get_i64().map_err(|_| Unreadable)?;
    let producer_epoch = body.try_get_i16().map_err(|_| Unreadable)?;
    let result = body.try_get_i8().map_err(|_| Unreadable)? != 0;
    let topics = array(body, topic_v2)?;
    let coordinator_epoch = body.try_get_i32().map_err(|_| Unreadable)?;
    let transaction_version = body.try_get_i8().map_err(|_| Unreadable)?;
    skip_tags(body)?;
    let marker = WritableTxnMarker::default()
        .with_producer_id(producer_id.into())
        .with_producer_epoch(producer_epoch)
        .with_transaction_result(result)
        .with_topics(topics)
        .with_coordinator_epoch(coordinator_epoch);
    Ok((marker, transaction_version))
}

fn topic_v2(body: &mut Bytes) -> Result<WritableTxnMarkerTopic, Unreadable> {
    let length = length(body)?;
    let name = std::str::from_utf8(&taken(body, length)?).map_err(|_| Unreadable)?.to_owned();
    let indexes = array(body, |body| body.try_get_i32().map_err(|_| Unreadable))?;
    skip_tags(body)?;
    Ok(WritableTxnMarkerTopic::default().with_name(topic_name(&name)).with_partition_indexes(indexes))
}

/// A compact array; nothing is reserved for elements that did not arrive.
fn array<T>(
    body: &mut Bytes,
    element: impl Fn(&mut Bytes) -> Result<T, Unreadable>,
) -> Result<Vec<T>, Unreadable> {
    let count = length(body)?;
    let mut elements = Vec::new();
    for _ in 0..count {
        elements.push(element(body)?);
    }
    Ok(elements)
}

/// A compact length: its varint is one higher; null (0) may not come here.
fn length(body: &mut Bytes) -> Result<usize, Unreadable> {
    varint(body)?.checked_sub(1).ok_or(Unreadable)
}

fn varint(body: &mut Bytes) -> Result<usize, Unreadable> {
    let mut value = 0usize;
    for shift in [0, 7, 14, 21, 28] {
        let byte = body.try_get_u8().map_err(|_| Unreadable)?;
        value |= usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Unreadable)
}

fn taken(body: &mut Bytes, length: usize) -> Result<Bytes, Unreadable> {
    if length > body.len() { Err(Unreadable) } else { Ok(body.split_to(length)) }
}

fn skip_tags(body: &mut Bytes) -> Result<(), Unreadable> {
    for _ in 0..varint(body)? {
        varint(body)?;
        let length = varint(body)?;
        taken(body, length)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::ApiKey;

    use super::*;

    fn call(body: &[u8]) -> Call {
        Call {
            api: ApiKey::WriteTxnMarkers,
            version: 2,
            correlation_id: 0,
            client_id: String::new(),
            body: Bytes::copy_from_slice(body),
        }
    }

    const BODY: &[u8] = &[
        2, 0, 0, 0, 0, 0, 0, 0, 7, 0, 3, 1, // one marker: producer id 7, epoch 3, commit
        2, 2, b't', 2, 0, 0, 0, 5, 0, // topic t, partition 5
        0, 0, 0, 9, 2, 0, 0, // coordinator epoch 9, transaction version 2
    ];

    #[test]
    fn version_2_is_read_whole() {
        let Markers(markers) = read(&mut call(BODY)).unwrap();
        let (marker, version) = &markers[0];
        assert_eq!((marker.producer_id.0, marker.producer_epoch, *version), (7, 3, 2));
        assert_eq!((marker.transaction_result, marker.coordinator_epoch), (true, 9));
        assert_eq!(marker.topics[0].partition_indexes, [5]);
    }

    #[test]
    fn every_cut_of_version_2_is_unreadable() {
        for end in 0..BODY.len() {
            assert!(read(&mut call(&BODY[..end])).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn hostile_counts_reserve_nothing() {
        assert!(read(&mut call(&[0xff, 0xff, 0xff, 0xff, 0x7f])).is_err());
    }
}

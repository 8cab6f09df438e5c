//! WriteTxnMarkers, versions 1 and 2: how an administrator ends a transaction on one partition.
//!
//! - The coordinator is not asked and does not learn of it.
//! - Version 2 (KIP-1228) adds the transaction version of each marker. The codec's structs know version 1 only, so
//!   its body is read here.
//! - A marker of version 2 must carry an epoch above the producer's last one, unless nothing is open.

use kafka_protocol::error::ResponseError;
use kafka_protocol::messages::write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic};
use kafka_protocol::messages::write_txn_markers_response::{
    WritableTxnMarkerPartitionResult, WritableTxnMarkerResult, WritableTxnMarkerTopicResult,
};
use kafka_protocol::messages::{WriteTxnMarkersRequest, WriteTxnMarkersResponse};

use super::{Handler, topic_name};
use crate::broker::cluster::Cluster;
use crate::broker::frame::{self, Call, Unreadable};
use crate::broker::log::marker::{Marker, Outcome};
use crate::broker::markers;
use crate::broker::shared::Context;
use crate::ids::TopicPartition;
use crate::wire::cursor::{Cursor, Fault};

/// The markers of a request, each with its transaction version.
#[derive(Debug, Clone)]
pub(crate) struct Markers(Vec<(WritableTxnMarker, i8)>);

/// Reads either version.
pub(crate) fn read(call: &mut Call) -> Result<Markers, Unreadable> {
    if call.version == 1 {
        let request: WriteTxnMarkersRequest = frame::body(call)?;
        return Ok(Markers(request.markers.into_iter().map(|marker| (marker, 0)).collect()));
    }
    frame::check(call)?;
    array(&mut Cursor::new(&call.body), marker_v2).map(Markers).map_err(|_| Unreadable)
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

    fn response_version(_version: i16) -> i16 {
        1 // both have the same response
    }

    fn refuse(&self, _version: i16, code: i16) -> WriteTxnMarkersResponse {
        self.answer(|_, _, _| code)
    }
}

impl Markers {
    pub(crate) fn markers(&self) -> impl Iterator<Item = &WritableTxnMarker> {
        self.0.iter().map(|(marker, _)| marker)
    }

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
    let led = cluster.led_by(node, &at.topic, at.partition).map(|_| ());
    let written = led.and_then(|()| cluster.mark(at, marker));
    if written.is_ok() {
        markers::end_offsets(cluster, at, marker);
    }
    written.err().map_or(0, |error: ResponseError| error.code())
}

fn marker_v2(body: &mut Cursor<'_>) -> Result<(WritableTxnMarker, i8), Fault> {
    let marker = WritableTxnMarker::default()
        .with_producer_id(body.i64()?.into())
        .with_producer_epoch(body.i16()?)
        .with_transaction_result(body.u8()? != 0)
        .with_topics(array(body, topic_v2)?)
        .with_coordinator_epoch(body.i32()?);
    let transaction_version = i8::from_be_bytes([body.u8()?]);
    body.skip_tagged_fields()?;
    Ok((marker, transaction_version))
}

fn topic_v2(body: &mut Cursor<'_>) -> Result<WritableTxnMarkerTopic, Fault> {
    let length = length(body)?;
    let name = String::from_utf8_lossy(body.slice(length)?).into_owned();
    let indexes = array(body, |body| body.i32())?;
    body.skip_tagged_fields()?;
    Ok(WritableTxnMarkerTopic::default().with_name(topic_name(&name)).with_partition_indexes(indexes))
}

/// A compact array; nothing is reserved for elements that did not arrive.
fn array<T>(
    body: &mut Cursor<'_>,
    element: impl Fn(&mut Cursor<'_>) -> Result<T, Fault>,
) -> Result<Vec<T>, Fault> {
    let count = length(body)?;
    let mut elements = Vec::new();
    for _ in 0..count {
        elements.push(element(body)?);
    }
    Ok(elements)
}

/// A compact length is one higher on the wire. The guard let no null pass.
fn length(body: &mut Cursor<'_>) -> Result<usize, Fault> {
    body.unsigned().map(|n| usize::try_from(n.saturating_sub(1)).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(body: &[u8]) -> Call {
        Call {
            api: crate::wire::api::Api::WriteTxnMarkers,
            version: 2,
            correlation_id: 0,
            client_id: String::new(),
            body: bytes::Bytes::copy_from_slice(body),
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

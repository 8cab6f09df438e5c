//! What must hold of the broker, whatever came before.

use std::time::Duration;

use bytes::BytesMut;
use kafka_2pc::{
    broker::Broker,
    wire::{
        api::Api,
        batch::{Batches, Tail},
        fetch::{FetchPartition, FetchResponse},
        frame::{RequestHeader, decode_response_header, put_frame},
    },
};
use kafka_protocol::{
    messages::{FetchRequest, TopicName, fetch_request},
    protocol::{Encodable, StrBytes},
};
use tokio::{io::AsyncWriteExt, time::timeout};

use super::{TOPICS, connect, next_frame};

/// Fetch by name, in a version of every profile.
const FETCH: i16 = 11;
const LARGE: i32 = 50 << 20;
const ISOLATIONS: [i8; 2] = [0, 1];

/// A new connection is served, and what is in every partition can be read, offset by offset.
pub(super) async fn check(broker: &Broker) {
    for (topic, partitions) in TOPICS {
        for (partition, isolation) in (0..partitions).flat_map(|p| ISOLATIONS.map(|i| (p, i))) {
            let first = fetch(broker, (topic, partition), 0, isolation).await;
            // Records may have been deleted on demand.
            let from = first.log_start_offset.max(0);
            let read =
                if from == 0 { first } else { fetch(broker, (topic, partition), from, isolation).await };
            if read.error_code == 0 {
                is_sound(&read, from, isolation);
            }
        }
    }
}

async fn fetch(broker: &Broker, (topic, partition): (&str, i32), from: i64, isolation: i8) -> FetchPartition {
    let wanted = fetch_request::FetchPartition::default()
        .with_partition(partition)
        .with_current_leader_epoch(-1)
        .with_fetch_offset(from)
        .with_log_start_offset(-1)
        .with_partition_max_bytes(LARGE);
    let name = TopicName(StrBytes::from_string(topic.to_owned()));
    let topics = vec![fetch_request::FetchTopic::default().with_topic(name).with_partitions(vec![wanted])];
    let request = FetchRequest::default()
        .with_max_bytes(LARGE)
        .with_isolation_level(isolation)
        .with_session_epoch(-1)
        .with_topics(topics);
    let mut stream = connect(broker);
    let mut framed = BytesMut::new();
    let put = put_frame(&mut framed, |out| {
        RequestHeader { api: Api::Fetch, version: FETCH, correlation_id: 1, client_id: None }.encode(out);
        request.encode(out, FETCH)?;
        Ok::<_, anyhow::Error>(())
    });
    let sent = stream.write_all(&framed).await;
    assert!(put.is_ok() && sent.is_ok(), "{put:?}, {sent:?}");
    let answer = timeout(Duration::from_secs(60), next_frame(&mut stream, &mut BytesMut::new())).await;
    let Ok(Some(mut body)) = answer else { panic!("another connection is not served") };
    let header = decode_response_header(&mut body, Api::Fetch, FETCH);
    assert_eq!(header, Ok(1));
    let read = FetchResponse::read(FETCH, &body);
    let Some(partition) = read.ok().and_then(|mut r| r.topics.pop()?.partitions.pop()) else {
        panic!("a Fetch has no answer for {topic}-{partition}");
    };
    partition
}

/// Offsets have no gap from where the reader began up to the end of what it may see.
fn is_sound(read: &FetchPartition, from: i64, isolation: i8) {
    assert!(read.log_start_offset <= read.last_stable_offset, "{read:?}");
    assert!(read.last_stable_offset <= read.high_watermark, "{read:?}");
    let mut batches = Batches::new(read.records.clone());
    let mut next = None;
    for batch in &mut batches {
        let Ok(batch) = batch else { panic!("the log cannot be read: {batch:?}") };
        let header = *batch.header();
        // The first may begin before the reader.
        assert!(next.map_or(header.base_offset <= from, |next| header.base_offset == next), "{header:?}");
        if header.codec() == 0 {
            let Ok(records) = batch.records() else { panic!("records cannot be read: {header:?}") };
            let offsets: Result<Vec<_>, _> =
                records.map(|record| record.map(|record| record.offset)).collect();
            let expected: Vec<_> = (header.base_offset..=header.last_offset()).collect();
            assert_eq!(offsets, Ok(expected), "{header:?}");
        }
        next = Some(header.next_offset());
    }
    assert_eq!(batches.tail(), Tail::Clean);
    let end = if isolation == 0 { read.high_watermark } else { read.last_stable_offset };
    assert_eq!(next.unwrap_or(end), end, "{read:?}");
    assert!(next.is_some() || from >= end, "nothing from {from} on: {read:?}");
}

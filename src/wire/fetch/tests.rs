//! Fetch responses as `kafka-protocol` writes them, and as nobody should.

use bytes::{BufMut, BytesMut};
use kafka_protocol::{
    messages::{
        BrokerId, FetchResponse as ForeignResponse, ProducerId, TopicName as ForeignTopicName,
        fetch_response::{
            AbortedTransaction as ForeignAborted, EpochEndOffset, FetchableTopicResponse, LeaderIdAndEpoch,
            PartitionData,
        },
    },
    protocol::{Encodable, StrBytes},
};
use proptest::{collection::vec, option, prelude::*, sample::Index};

use super::{
    reader::{FIRST_FLEXIBLE, FIRST_LOG_START, FIRST_PREFERRED_REPLICA, FIRST_SESSION, FIRST_TOPIC_IDS},
    *,
};

/// The same response by `kafka-protocol`, with tagged fields that nobody knows.
fn encode(version: i16, response: &FetchResponse) -> Bytes {
    let foreign = ForeignResponse::default()
        .with_throttle_time_ms(response.throttle_ms)
        .with_error_code(response.error_code)
        .with_session_id(response.session_id)
        .with_responses(response.topics.iter().map(|topic| foreign_topic(version, topic)).collect());
    let mut bytes = BytesMut::new();
    foreign.encode(&mut bytes, version).unwrap();
    bytes.freeze()
}

fn foreign_topic(version: i16, topic: &FetchTopic) -> FetchableTopicResponse {
    let mut foreign = FetchableTopicResponse::default()
        .with_topic(ForeignTopicName(StrBytes::from_string(topic.name.to_string())))
        .with_topic_id(uuid::Uuid::from_bytes(topic.id.0))
        .with_partitions(topic.partitions.iter().map(|p| foreign_partition(version, p)).collect());
    if version >= FIRST_FLEXIBLE {
        foreign = foreign.with_unknown_tagged_field(77, Bytes::from_static(b"later"));
    }
    foreign
}

fn foreign_partition(version: i16, partition: &FetchPartition) -> PartitionData {
    let aborted = |aborted: &AbortedTransaction| {
        ForeignAborted::default()
            .with_producer_id(ProducerId(aborted.producer_id))
            .with_first_offset(aborted.first_offset)
    };
    let mut foreign = PartitionData::default()
        .with_partition_index(partition.index)
        .with_error_code(partition.error_code)
        .with_high_watermark(partition.high_watermark)
        .with_last_stable_offset(partition.last_stable_offset)
        .with_log_start_offset(partition.log_start_offset)
        .with_aborted_transactions(
            partition.aborted_transactions.as_ref().map(|list| list.iter().map(aborted).collect()),
        )
        .with_preferred_read_replica(BrokerId(partition.preferred_read_replica.map_or(-1, |node| node.0)))
        .with_records(Some(partition.records.clone()));
    if version >= FIRST_FLEXIBLE {
        foreign = foreign.with_unknown_tagged_field(9, Bytes::from_static(b"and later"));
    }
    if let Some(diverging) = partition.diverging {
        foreign = foreign.with_diverging_epoch(
            EpochEndOffset::default().with_epoch(diverging.epoch).with_end_offset(diverging.end_offset),
        );
    }
    if let Some(leader) = partition.current_leader {
        foreign = foreign.with_current_leader(
            LeaderIdAndEpoch::default()
                .with_leader_id(BrokerId(leader.leader_id.0))
                .with_leader_epoch(leader.leader_epoch),
        );
    }
    foreign
}

/// The response as far as `version` can carry it.
fn trimmed(version: i16, mut response: FetchResponse) -> FetchResponse {
    if version < FIRST_SESSION {
        (response.error_code, response.session_id) = (0, 0);
    }
    for topic in &mut response.topics {
        if version < FIRST_TOPIC_IDS {
            topic.id = TopicId::UNKNOWN;
        } else {
            topic.name = "".into();
        }
    }
    for partition in response.topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
        if version < FIRST_LOG_START {
            partition.log_start_offset = -1;
        }
        if version < FIRST_PREFERRED_REPLICA {
            partition.preferred_read_replica = None;
        }
        if version < FIRST_FLEXIBLE {
            (partition.diverging, partition.current_leader) = (None, None);
        }
    }
    response
}

fn any_partition() -> impl Strategy<Value = FetchPartition> {
    let aborted = (any::<i64>(), any::<i64>())
        .prop_map(|(producer_id, first_offset)| AbortedTransaction { producer_id, first_offset });
    let leader = (0..9i32, any::<i32>())
        .prop_map(|(id, leader_epoch)| CurrentLeader { leader_id: NodeId(id), leader_epoch });
    let offsets = (any::<i64>(), any::<i64>(), any::<i64>());
    let diverging = (0..i32::MAX, 0..i64::MAX).prop_map(|(epoch, end_offset)| EpochEnd { epoch, end_offset });
    let rest = (
        option::of(vec(aborted, 0..5)),
        option::of((0..i32::MAX).prop_map(NodeId)),
        option::of(leader),
        vec(any::<u8>(), 0..200),
        option::of(diverging),
    );
    (any::<i32>(), any::<i16>(), offsets, rest).prop_map(|(index, error_code, offsets, rest)| {
        FetchPartition {
            index,
            error_code,
            high_watermark: offsets.0,
            last_stable_offset: offsets.1,
            log_start_offset: offsets.2,
            aborted_transactions: rest.0,
            preferred_read_replica: rest.1,
            diverging: rest.4,
            current_leader: rest.2,
            records: rest.3.into(),
        }
    })
}

fn any_response() -> impl Strategy<Value = FetchResponse> {
    let topic = ("[a-zé.]{1,140}", any::<[u8; 16]>(), vec(any_partition(), 0..4))
        .prop_map(|(name, id, partitions)| FetchTopic { name: name.into(), id: TopicId(id), partitions });
    (any::<i32>(), any::<i16>(), any::<i32>(), vec(topic, 0..4)).prop_map(
        |(throttle_ms, error_code, session_id, topics)| FetchResponse {
            throttle_ms,
            error_code,
            session_id,
            topics,
        },
    )
}

proptest! {
    #[test]
    fn what_the_schema_writes_is_read(version in 4..=13i16, response in any_response()) {
        let response = trimmed(version, response);
        let bytes = encode(version, &response);
        prop_assert_eq!(FetchResponse::read(version, &bytes), Ok(response));
    }

    #[test]
    fn a_cut_response_is_refused(version in 4..=13i16, response in any_response(), cut in any::<Index>()) {
        let bytes = encode(version, &trimmed(version, response));
        let cut = bytes.slice(..cut.index(bytes.len()));
        prop_assert!(FetchResponse::read(version, &cut).is_err());
    }

    #[test]
    fn a_damaged_response_is_read_or_refused(
        version in 4..=13i16,
        response in any_response(),
        damage in vec((any::<Index>(), prop_oneof![any::<u8>(), Just(0xff), Just(0x7f)]), 1..8),
    ) {
        let mut bytes = encode(version, &trimmed(version, response)).to_vec();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = FetchResponse::read(version, &bytes.into());
    }

    #[test]
    fn any_bytes_are_read_or_refused(version in 4..=13i16, bytes in vec(any::<u8>(), 0..200)) {
        let _ = FetchResponse::read(version, &bytes.into());
    }
}

#[test]
fn records_are_slices_of_the_response() {
    let records = Bytes::from_static(b"batch");
    let partition = FetchPartition {
        index: 0,
        error_code: 0,
        high_watermark: 5,
        last_stable_offset: 5,
        log_start_offset: 0,
        aborted_transactions: None,
        preferred_read_replica: None,
        diverging: None,
        current_leader: None,
        records,
    };
    let topics = vec![FetchTopic { name: "t".into(), id: TopicId::UNKNOWN, partitions: vec![partition] }];
    let bytes = encode(11, &FetchResponse { throttle_ms: 0, error_code: 0, session_id: 0, topics });
    let read = FetchResponse::read(11, &bytes).unwrap();
    let records = &read.topics[0].partitions[0].records;
    assert!(bytes.as_ptr_range().contains(&records.as_ptr()));
}

#[test]
fn null_records_are_no_records() {
    let partition = PartitionData::default().with_records(None).with_aborted_transactions(None);
    for version in 4..=13 {
        let topic = FetchableTopicResponse::default().with_partitions(vec![partition.clone()]);
        let mut bytes = BytesMut::new();
        ForeignResponse::default().with_responses(vec![topic]).encode(&mut bytes, version).unwrap();
        let read = FetchResponse::read(version, &bytes.freeze()).unwrap();
        let partition = &read.topics[0].partitions[0];
        assert!(partition.records.is_empty() && partition.aborted_transactions.is_none());
    }
}

#[test]
fn counts_that_cannot_be_are_refused() {
    for count in [i32::MAX, 1, -1, -2, i32::MIN] {
        let mut body = BytesMut::new();
        body.put_i32(0);
        body.put_i32(count);
        let refused = FetchError::Count { count: i64::from(count), at: 8 };
        assert_eq!(FetchResponse::read(4, &body.freeze()), Err(refused));
    }
    let mut compact = BytesMut::from(&[0; 10][..]);
    compact.put_slice(&[0xff, 0xff, 0xff, 0xff, 0x0f]);
    let refused = FetchError::Count { count: i64::from(u32::MAX) - 1, at: 15 };
    assert_eq!(FetchResponse::read(12, &compact.clone().freeze()), Err(refused));
    compact[14] = 0x1f;
    assert_eq!(FetchResponse::read(12, &compact.freeze()), Err(FetchError::Varint { at: 15 }));
}

#[test]
fn other_versions_and_trailing_bytes_are_refused() {
    for version in [-1, 3, 14] {
        assert_eq!(FetchResponse::read(version, &Bytes::new()), Err(FetchError::Version(version)));
    }
    let body = Bytes::from_static(&[0; 9]);
    assert_eq!(FetchResponse::read(4, &body), Err(FetchError::Trailing { bytes: 1 }));
}

#[test]
fn names_that_are_no_text_are_refused() {
    let body = Bytes::from_static(&[0, 0, 0, 0, 0, 0, 0, 1, 0, 2, 0xff, 0xfe, 0, 0, 0, 0]);
    assert_eq!(FetchResponse::read(4, &body), Err(FetchError::Name { at: 12 }));
}

#[test]
fn a_number_of_tags_that_lies_ends_with_the_response() {
    let mut body = BytesMut::from(&[0; 10][..]);
    body.put_slice(&[1, 0xff, 0xff, 0xff, 0xff, 0x0f, 5, 0, 6, 1, 0]);
    assert!(matches!(FetchResponse::read(12, &body.freeze()), Err(FetchError::End { .. })));
}

#[test]
fn the_emptiest_topics_take_no_more_memory_than_stated() {
    // A list may have room for twice its elements; a name has two counters.
    let most = 2 * size_of::<FetchTopic>() + 2 * size_of::<usize>();
    assert!(most <= 43 * 3, "{most} bytes for a topic of 3 bytes");
}

//! Seeds that hang together, which recorded requests do not when each stands alone.

use bytes::BytesMut;
use kafka_2pc::{
    ids::Identity,
    record::{Compression, RecordRef},
    wire::{
        api::Api,
        batch::{BatchBuilder, Stamp},
        frame::RequestHeader,
    },
};
use kafka_protocol::{
    messages::{self as m, add_partitions_to_txn_request as add, produce_request as produce},
    protocol::{Encodable, StrBytes},
};

/// The identity that a broker's own takes the place of.
const IDENTITY: (i64, i16) = (4, 0);

/// Requests of a producer with a transaction, of each version of transactions and each end, and of one without.
#[must_use]
pub fn sessions() -> Vec<Vec<Vec<u8>>> {
    let mut sessions = Vec::new();
    for committed in [true, false] {
        let init = frame(Api::InitProducerId, 4, &init());
        let first = [init.clone(), frame(Api::AddPartitionsToTxn, 3, &added())];
        let last = [frame(Api::EndTxn, 4, &end(committed)), frame(Api::Fetch, 11, &fetch())];
        let produced =
            |version, base_sequence| frame(Api::Produce, version, &written(version, base_sequence));
        let v1 = first.iter().cloned().chain([produced(9, 0), produced(9, 2)]).chain(last.iter().cloned());
        sessions.push(v1.collect());
        for version in [12, 13] {
            let end = frame(Api::EndTxn, 5, &end(committed));
            let v2 = [produced(version, 0), produced(version, 0), end, last[1].clone()];
            sessions.push([init.clone()].into_iter().chain(v2.clone()).chain(v2).collect());
        }
    }
    sessions
}

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn id() -> m::TransactionalId {
    m::TransactionalId(text("fuzz"))
}

fn frame(api: Api, version: i16, body: &impl Encodable) -> Vec<u8> {
    let mut out = BytesMut::new();
    RequestHeader { api, version, correlation_id: 1, client_id: None }.encode(&mut out);
    let encoded = body.encode(&mut out, version);
    assert!(encoded.is_ok(), "{api} {version}: {encoded:?}");
    out.to_vec()
}

fn init() -> m::InitProducerIdRequest {
    m::InitProducerIdRequest::default()
        .with_transactional_id(Some(id()))
        .with_transaction_timeout_ms(60_000)
        .with_producer_id(m::ProducerId(-1))
        .with_producer_epoch(-1)
}

fn added() -> m::AddPartitionsToTxnRequest {
    let topic = add::AddPartitionsToTxnTopic::default()
        .with_name(m::TopicName(text("fuzz-a")))
        .with_partitions(vec![0]);
    m::AddPartitionsToTxnRequest::default()
        .with_v3_and_below_transactional_id(id())
        .with_v3_and_below_producer_id(m::ProducerId(IDENTITY.0))
        .with_v3_and_below_producer_epoch(IDENTITY.1)
        .with_v3_and_below_topics(vec![topic])
}

fn written(version: i16, base_sequence: i32) -> m::ProduceRequest {
    let mut builder = BatchBuilder::new();
    for value in ["one", "two"] {
        let appended = builder.append(&RecordRef::value(value.as_bytes()), 1_700_000_000_000);
        assert_eq!(appended, Ok(()));
    }
    let records = builder.seal(Compression::None).ok().map(|mut sealed| {
        let identity = Identity::new(IDENTITY.0, IDENTITY.1);
        sealed.stamp(Stamp::Transactional { identity, base_sequence });
        sealed.freeze()
    });
    let partition = produce::PartitionProduceData::default().with_index(0).with_records(records);
    let topic = produce::TopicProduceData::default().with_partition_data(vec![partition]);
    let topic = match version {
        ..13 => topic.with_name(m::TopicName(text("fuzz-a"))),
        // That of the broker's topic takes its place.
        _ => topic.with_topic_id(uuid::Uuid::from_u128(1)),
    };
    m::ProduceRequest::default()
        .with_transactional_id(Some(id()))
        .with_acks(-1)
        .with_timeout_ms(1000)
        .with_topic_data(vec![topic])
}

fn end(committed: bool) -> m::EndTxnRequest {
    m::EndTxnRequest::default()
        .with_transactional_id(id())
        .with_producer_id(m::ProducerId(IDENTITY.0))
        .with_producer_epoch(IDENTITY.1)
        .with_committed(committed)
}

fn fetch() -> m::FetchRequest {
    let partition = m::fetch_request::FetchPartition::default()
        .with_current_leader_epoch(-1)
        .with_log_start_offset(-1)
        .with_partition_max_bytes(1000);
    let topic = m::fetch_request::FetchTopic::default()
        .with_topic(m::TopicName(text("fuzz-a")))
        .with_partitions(vec![partition]);
    m::FetchRequest::default()
        .with_max_bytes(1000)
        .with_isolation_level(1)
        .with_session_epoch(-1)
        .with_topics(vec![topic])
}

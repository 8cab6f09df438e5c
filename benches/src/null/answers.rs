//! Everything but Produce, by the message structs of kafka-protocol.

use bytes::{Bytes, BytesMut};
use kafka_protocol::{
    messages::{
        AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, ApiKey, ApiVersionsResponse, BrokerId,
        DescribeProducersRequest, DescribeProducersResponse, DescribeTransactionsRequest,
        DescribeTransactionsResponse, EndTxnRequest, EndTxnResponse, FindCoordinatorRequest,
        FindCoordinatorResponse, InitProducerIdRequest, InitProducerIdResponse, MetadataRequest,
        MetadataResponse, ProducerId, RequestHeader, ResponseHeader, TopicName,
        add_partitions_to_txn_response::{AddPartitionsToTxnPartitionResult, AddPartitionsToTxnTopicResult},
        api_versions_response::{ApiVersion, FinalizedFeatureKey, SupportedFeatureKey},
        describe_producers_response::{PartitionResponse, TopicResponse},
        describe_transactions_response::{TopicData, TransactionState},
        find_coordinator_response::Coordinator as Found,
        metadata_response::{MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic},
    },
    protocol::{Decodable, Encodable, StrBytes},
};
use uuid::Uuid;

use super::{Shared, coordinator::State};

const NODE: BrokerId = BrokerId(0);
pub(super) const TOPIC_ID: Uuid = Uuid::from_u128(0x6b32_7063_0000_4000_8000_0000_0000_0001);
const UNKNOWN_TOPIC: i16 = 3;
const UNKNOWN_ID: i16 = 105;
const FEATURE: &str = "transaction.version";

/// API, lowest and highest version. Fetch and what has to do with groups is not answered: librdkafka and krafka look at
/// their versions to know what a broker can.
const OFFERED: [(ApiKey, i16, i16); 13] = [
    (ApiKey::Produce, 0, 13),
    (ApiKey::Fetch, 0, 13),
    (ApiKey::Metadata, 0, 12),
    (ApiKey::FindCoordinator, 0, 4),
    (ApiKey::ApiVersions, 0, 4),
    (ApiKey::InitProducerId, 0, 5),
    (ApiKey::AddPartitionsToTxn, 0, 3),
    (ApiKey::EndTxn, 0, 5),
    (ApiKey::DescribeProducers, 0, 0),
    (ApiKey::DescribeTransactions, 0, 0),
    (ApiKey::ListOffsets, 0, 7),
    (ApiKey::AddOffsetsToTxn, 0, 4),
    (ApiKey::TxnOffsetCommit, 0, 5),
];

/// The answer to a frame without its length, or `None` if it can't be read or answered.
pub(super) fn answer(frame: &[u8], shared: &Shared) -> Option<Vec<u8>> {
    let (key, version) = (i16::from_be_bytes([frame[0], frame[1]]), i16::from_be_bytes([frame[2], frame[3]]));
    let api = ApiKey::try_from(key).ok()?;
    shared.counters().request(api, frame.len());
    let mut body = Bytes::copy_from_slice(frame);
    let header = RequestHeader::decode(&mut body, api.request_header_version(version)).ok()?;
    let exchange = Exchange { api, version, correlation: header.correlation_id, body };
    match api {
        ApiKey::ApiVersions => exchange.reply(&api_versions(version, shared)),
        ApiKey::Metadata => exchange.with(|request| metadata(&request, version, shared)),
        ApiKey::FindCoordinator => exchange.with(|request| find_coordinator(request, version, shared)),
        ApiKey::InitProducerId => exchange.with(|request| init_producer_id(&request, shared)),
        ApiKey::AddPartitionsToTxn => exchange.with(|request| add_partitions(request, shared)),
        ApiKey::EndTxn => exchange.with(|request| end_txn(&request, version, shared)),
        ApiKey::DescribeTransactions => exchange.with(|request| describe_transactions(request, shared)),
        ApiKey::DescribeProducers => exchange.with(describe_producers),
        _ => None,
    }
}

/// One request whose header is read.
struct Exchange {
    api: ApiKey,
    version: i16,
    correlation: i32,
    body: Bytes,
}

impl Exchange {
    fn with<Q: Decodable, A: Encodable>(mut self, respond: impl FnOnce(Q) -> A) -> Option<Vec<u8>> {
        let request = Q::decode(&mut self.body, self.version).ok()?;
        self.reply(&respond(request))
    }

    fn reply(&self, response: &impl Encodable) -> Option<Vec<u8>> {
        let mut out = BytesMut::new();
        let header = ResponseHeader::default().with_correlation_id(self.correlation);
        header.encode(&mut out, self.api.response_header_version(self.version)).ok()?;
        response.encode(&mut out, self.version).ok()?;
        Some(out.to_vec())
    }
}

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn api_versions(version: i16, shared: &Shared) -> ApiVersionsResponse {
    let level = shared.settings.transaction_version;
    let highest = |api, max: i16| match api {
        // Before KIP-890 there were no others.
        ApiKey::Produce if level < 2 => max.min(11),
        ApiKey::EndTxn | ApiKey::TxnOffsetCommit if level < 2 => max.min(4),
        _ => max,
    };
    let offered = OFFERED.iter().map(|(api, min, max)| {
        ApiVersion::default()
            .with_api_key(*api as i16)
            .with_min_version(*min)
            .with_max_version(highest(*api, *max))
    });
    let response = ApiVersionsResponse::default().with_api_keys(offered.collect());
    if version < 3 || level == 0 {
        return response;
    }
    let supported = SupportedFeatureKey::default().with_name(text(FEATURE)).with_max_version(2);
    let finalized = FinalizedFeatureKey::default()
        .with_name(text(FEATURE))
        .with_min_version_level(level)
        .with_max_version_level(level);
    response
        .with_supported_features(vec![supported])
        .with_finalized_features_epoch(1)
        .with_finalized_features(vec![finalized])
}

fn metadata(request: &MetadataRequest, version: i16, shared: &Shared) -> MetadataResponse {
    let (host, port) = (text("127.0.0.1"), i32::from(shared.address.port()));
    let broker = MetadataResponseBroker::default().with_node_id(NODE).with_host(host).with_port(port);
    let known = || known_topic(version, shared);
    // Before version 1 an empty list asks for all.
    let topics = match &request.topics {
        Some(asked) if version > 0 || !asked.is_empty() => asked
            .iter()
            .map(|topic| match &topic.name {
                Some(name) if name.as_str() != shared.settings.topic => MetadataResponseTopic::default()
                    .with_name(Some(name.clone()))
                    .with_error_code(UNKNOWN_TOPIC),
                Some(_) | None => known(),
            })
            .collect(),
        Some(_) | None => vec![known()],
    };
    MetadataResponse::default()
        .with_brokers(vec![broker])
        .with_cluster_id((version >= 2).then(|| text("null-broker-cluster-00")))
        .with_controller_id(NODE)
        .with_topics(topics)
}

fn known_topic(version: i16, shared: &Shared) -> MetadataResponseTopic {
    let partitions = (0..shared.settings.partitions).map(|index| {
        MetadataResponsePartition::default()
            .with_partition_index(index)
            .with_leader_id(NODE)
            .with_leader_epoch(if version >= 7 { 0 } else { -1 })
            .with_replica_nodes(vec![NODE])
            .with_isr_nodes(vec![NODE])
    });
    MetadataResponseTopic::default()
        .with_name(Some(TopicName(text(&shared.settings.topic))))
        .with_topic_id(if version >= 10 { TOPIC_ID } else { Uuid::nil() })
        .with_partitions(partitions.collect())
}

fn find_coordinator(
    request: FindCoordinatorRequest,
    version: i16,
    shared: &Shared,
) -> FindCoordinatorResponse {
    let (host, port) = (text("127.0.0.1"), i32::from(shared.address.port()));
    if version < 4 {
        return FindCoordinatorResponse::default().with_node_id(NODE).with_host(host).with_port(port);
    }
    let found = request
        .coordinator_keys
        .into_iter()
        .map(|key| Found::default().with_key(key).with_node_id(NODE).with_host(host.clone()).with_port(port));
    FindCoordinatorResponse::default().with_coordinators(found.collect())
}

fn init_producer_id(request: &InitProducerIdRequest, shared: &Shared) -> InitProducerIdResponse {
    let mut coordinator = shared.coordinator();
    let (producer, epoch) = match &request.transactional_id {
        Some(id) => coordinator.initialize(id.as_str()),
        None => (coordinator.anonymous(), 0),
    };
    InitProducerIdResponse::default().with_producer_id(ProducerId(producer)).with_producer_epoch(epoch)
}

fn add_partitions(request: AddPartitionsToTxnRequest, shared: &Shared) -> AddPartitionsToTxnResponse {
    let id = request.v3_and_below_transactional_id;
    let mut coordinator = shared.coordinator();
    let results = request.v3_and_below_topics.into_iter().map(|topic| {
        coordinator.add(id.as_str(), topic.name.as_str(), topic.partitions.iter().copied());
        let added = topic.partitions.iter();
        let added =
            added.map(|index| AddPartitionsToTxnPartitionResult::default().with_partition_index(*index));
        AddPartitionsToTxnTopicResult::default()
            .with_name(topic.name.clone())
            .with_results_by_partition(added.collect())
    });
    AddPartitionsToTxnResponse::default().with_results_by_topic_v3_and_below(results.collect())
}

fn end_txn(request: &EndTxnRequest, version: i16, shared: &Shared) -> EndTxnResponse {
    let pair = (request.producer_id.0, request.producer_epoch);
    let state = if request.committed { State::Committed } else { State::Aborted };
    let (next, wrong) = shared.coordinator().end(request.transactional_id.as_str(), pair, state, version);
    let mut counters = shared.counters();
    counters.commits += u64::from(request.committed);
    counters.aborts += u64::from(!request.committed);
    counters.complaints.extend(wrong);
    if version < 5 {
        return EndTxnResponse::default();
    }
    EndTxnResponse::default().with_producer_id(ProducerId(next.0)).with_producer_epoch(next.1)
}

fn describe_transactions(
    request: DescribeTransactionsRequest,
    shared: &Shared,
) -> DescribeTransactionsResponse {
    let coordinator = shared.coordinator();
    let states = request.transactional_ids.into_iter().map(|id| {
        let Some(entry) = coordinator.entry(id.as_str()) else {
            return TransactionState::default().with_transactional_id(id).with_error_code(UNKNOWN_ID);
        };
        let topics = entry.partitions.iter().map(|(topic, partitions)| {
            TopicData::default()
                .with_topic(TopicName(text(topic)))
                .with_partitions(partitions.iter().copied().collect())
        });
        TransactionState::default()
            .with_transactional_id(id)
            .with_transaction_state(text(entry.state.name()))
            .with_transaction_timeout_ms(60_000)
            .with_transaction_start_time_ms(if entry.state == State::Ongoing { entry.start_ms } else { -1 })
            .with_producer_id(ProducerId(entry.producer))
            .with_producer_epoch(entry.epoch)
            .with_topics(topics.collect())
    });
    DescribeTransactionsResponse::default().with_transaction_states(states.collect())
}

/// A decision is on every partition when it is answered: nobody has anything open that is asked about.
fn describe_producers(request: DescribeProducersRequest) -> DescribeProducersResponse {
    let topics = request.topics.into_iter().map(|topic| {
        let partitions = topic.partition_indexes.iter();
        let partitions = partitions.map(|index| PartitionResponse::default().with_partition_index(*index));
        TopicResponse::default().with_name(topic.name.clone()).with_partitions(partitions.collect())
    });
    DescribeProducersResponse::default().with_topics(topics.collect())
}

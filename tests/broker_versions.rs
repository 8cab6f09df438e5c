//! Every version of every API that the embedded broker advertises gets an answer that can be decoded.
#![cfg(feature = "broker")]
#![expect(clippy::unwrap_used, reason = "tests and what they share")]

mod raw;

use std::ops::RangeInclusive;

use kafka_2pc::broker::{Api, Broker, BrokerConfig, Profile};
use kafka_protocol::messages as m;
use kafka_protocol::protocol::Request;
use raw::{Cluster, text, topic};

/// Asks every version with a request that `change` completes.
async fn ask<R: Request + Default>(change: fn(&mut R, i16)) {
    let broker = Broker::start(BrokerConfig::default()).await.unwrap();
    broker.create_topic("t", 1).unwrap();
    let cluster = Cluster::new(broker.bootstrap());
    for version in versions(R::KEY) {
        let mut request = R::default();
        change(&mut request, version);
        let answer = cluster.any().await.try_call(version, &request).await;
        assert!(answer.is_some(), "API {} version {version}", R::KEY);
    }
}

/// The advertised versions that the codec can write: not Produce 0 to 2, ApiVersions 5 and WriteTxnMarkers 2.
fn versions(key: i16) -> RangeInclusive<i16> {
    let api = Api::from_key(key).unwrap();
    let range = Profile::kafka_4_4().range(api).unwrap();
    match api {
        Api::Produce => 3..=range.max,
        Api::ApiVersions | Api::WriteTxnMarkers => range.min..=range.max - 1,
        _ => range.min..=range.max,
    }
}

#[tokio::test]
async fn requests_about_records() {
    ask::<m::ProduceRequest>(|r, v| {
        let data = m::produce_request::PartitionProduceData::default().with_index(0);
        let mut named = m::produce_request::TopicProduceData::default().with_partition_data(vec![data]);
        if v < 13 {
            named.name = topic("t");
        }
        *r = m::ProduceRequest::default().with_acks(-1).with_topic_data(vec![named]);
    })
    .await;
    ask::<m::FetchRequest>(|r, v| {
        let wanted = m::fetch_request::FetchPartition::default().with_partition_max_bytes(1);
        let mut named = m::fetch_request::FetchTopic::default().with_partitions(vec![wanted]);
        if v < 13 {
            named.topic = topic("t");
        }
        *r = m::FetchRequest::default().with_topics(vec![named]);
    })
    .await;
    ask::<m::ListOffsetsRequest>(|r, _| {
        let wanted = m::list_offsets_request::ListOffsetsPartition::default().with_timestamp(-1);
        let named = m::list_offsets_request::ListOffsetsTopic::default()
            .with_name(topic("t"))
            .with_partitions(vec![wanted]);
        *r = m::ListOffsetsRequest::default().with_topics(vec![named]);
    })
    .await;
    ask::<m::MetadataRequest>(|_, _| ()).await;
    ask::<m::ApiVersionsRequest>(|r, v| {
        if v >= 3 {
            r.client_software_name = text("raw");
            r.client_software_version = text("1");
        }
    })
    .await;
}

#[tokio::test]
async fn requests_about_groups() {
    ask::<m::OffsetCommitRequest>(|r, _| {
        let partition = m::offset_commit_request::OffsetCommitRequestPartition::default();
        let named = m::offset_commit_request::OffsetCommitRequestTopic::default()
            .with_name(topic("t"))
            .with_partitions(vec![partition]);
        *r = m::OffsetCommitRequest::default().with_topics(vec![named]);
    })
    .await;
    ask::<m::OffsetFetchRequest>(|r, v| {
        if v >= 8 {
            r.groups = vec![m::offset_fetch_request::OffsetFetchRequestGroup::default().with_topics(None)];
        } else {
            let named = m::offset_fetch_request::OffsetFetchRequestTopic::default()
                .with_name(topic("t"))
                .with_partition_indexes(vec![0]);
            r.topics = Some(vec![named]);
        }
    })
    .await;
    ask::<m::FindCoordinatorRequest>(|r, v| {
        if v >= 4 {
            r.coordinator_keys = vec![text("x")];
        } else {
            r.key = text("x");
        }
    })
    .await;
    ask::<m::JoinGroupRequest>(|r, _| {
        r.protocols = vec![m::join_group_request::JoinGroupRequestProtocol::default()];
    })
    .await;
    ask::<m::HeartbeatRequest>(|_, _| ()).await;
    ask::<m::LeaveGroupRequest>(|_, _| ()).await;
    ask::<m::SyncGroupRequest>(|_, _| ()).await;
}

#[tokio::test]
async fn requests_about_topics() {
    ask::<m::CreateTopicsRequest>(|r, v| {
        let new = m::create_topics_request::CreatableTopic::default()
            .with_name(topic(&format!("new-{v}")))
            .with_num_partitions(1)
            .with_replication_factor(1);
        r.topics = vec![new];
    })
    .await;
    ask::<m::DeleteTopicsRequest>(|r, v| {
        if v >= 6 {
            r.topics =
                vec![m::delete_topics_request::DeleteTopicState::default().with_name(Some(topic("gone")))];
        } else {
            r.topic_names = vec![topic("gone")];
        }
    })
    .await;
    ask::<m::DeleteRecordsRequest>(|r, _| {
        let partition = m::delete_records_request::DeleteRecordsPartition::default();
        let named = m::delete_records_request::DeleteRecordsTopic::default()
            .with_name(topic("t"))
            .with_partitions(vec![partition]);
        r.topics = vec![named];
    })
    .await;
    ask::<m::DescribeConfigsRequest>(|r, _| {
        let resource = m::describe_configs_request::DescribeConfigsResource::default()
            .with_resource_type(2)
            .with_resource_name(text("t"))
            .with_configuration_keys(None);
        r.resources = vec![resource];
    })
    .await;
    ask::<m::DescribeClusterRequest>(|_, _| ()).await;
}

#[tokio::test]
async fn requests_about_transactions() {
    ask::<m::InitProducerIdRequest>(|_, _| ()).await;
    ask::<m::AddPartitionsToTxnRequest>(|r, v| {
        if v >= 4 {
            r.transactions = vec![m::add_partitions_to_txn_request::AddPartitionsToTxnTransaction::default()];
        }
    })
    .await;
    ask::<m::AddOffsetsToTxnRequest>(|_, _| ()).await;
    ask::<m::EndTxnRequest>(|_, _| ()).await;
    ask::<m::WriteTxnMarkersRequest>(|_, _| ()).await;
    ask::<m::TxnOffsetCommitRequest>(|_, _| ()).await;
    ask::<m::DescribeProducersRequest>(|_, _| ()).await;
    ask::<m::DescribeTransactionsRequest>(|r, _| r.transactional_ids = vec![raw::id("x")]).await;
    ask::<m::ListTransactionsRequest>(|_, _| ()).await;
}

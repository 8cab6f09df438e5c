//! What a transaction asks of the brokers, counted in the journal of the embedded broker.
//!
//! The goal is what cannot be left out: a Produce and an EndTxn on V2; InitProducerId and AddPartitionsToTxn before them on
//! V1; the same whatever the number of partitions. What is above it today is written into the tables: whoever saves a
//! request lowers a number.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use kafka_2pc::{
    broker::{Api, Broker, BrokerConfig, Profile},
    client::{Client, ClientConfig},
    ids::TransactionalId,
    proto::resume::CoordinatorState,
    record::RecordRef,
};

/// Waits until the last decision is on its partitions: what a coordinator that is still busy costs is another number.
async fn settled(client: &Client) {
    let id = TransactionalId::new("counted");
    loop {
        let described = client.admin().describe_transaction(&id).await.unwrap();
        if described.is_some_and(|d| d.state == CoordinatorState::CompleteCommit) {
            return;
        }
        tokio::task::yield_now().await;
    }
}

/// Requests of one transaction that begins, writes, and commits, after two that opened connections and learned the
/// cluster.
async fn requests(profile: &str, partitions: i32) -> BTreeMap<Api, usize> {
    let profile = Profile::named(profile).unwrap();
    let broker = Broker::start(BrokerConfig { profile, ..BrokerConfig::default() }).await.unwrap();
    broker.create_topic("bench", partitions).unwrap();
    let client = Client::new(ClientConfig::new(&broker.bootstrap()).unwrap());
    let topic = client.topic("bench").await.unwrap();
    let mut producer = client.transactional_producer(TransactionalId::new("counted")).init().await.unwrap();
    let mut before = 0;
    for number in 0..3 {
        if number == 2 {
            settled(&client).await;
            before = broker.journal().len();
        }
        let mut transaction = producer.begin();
        for partition in 0..partitions {
            transaction.send(&topic, Some(partition), RecordRef::value(b"record")).await.unwrap();
        }
        producer = transaction.commit().await.unwrap();
    }
    let mut counted = BTreeMap::new();
    for entry in broker.journal().iter().skip(before) {
        *counted.entry(entry.api).or_default() += 1;
    }
    broker.stop().await;
    counted
}

/// The most requests of each API.
async fn within(profile: &str, most: &[(Api, usize)]) {
    for partitions in [1, 12, 64] {
        let counted = requests(profile, partitions).await;
        for (api, count) in &counted {
            let most = most.iter().find(|(a, _)| a == api).map_or(0, |(_, most)| *most);
            assert!(
                *count <= most,
                "{profile}, {partitions} partitions: {count} {api}, at most {most}: {counted:?}"
            );
        }
        assert_eq!((counted[&Api::EndTxn], counted.contains_key(&Api::Produce)), (1, true), "{counted:?}");
    }
}

#[tokio::test]
async fn a_transaction_v2_asks_the_same_whatever_its_partitions() {
    within(
        "kafka-4.4",
        &[(Api::Produce, 1), (Api::EndTxn, 1), (Api::Metadata, 1), (Api::DescribeTransactions, 1)],
    )
    .await;
}

#[tokio::test]
async fn a_transaction_v1_asks_the_same_whatever_its_partitions() {
    let most = [
        (Api::InitProducerId, 1),
        (Api::AddPartitionsToTxn, 1),
        (Api::Produce, 1),
        (Api::EndTxn, 1),
        (Api::Metadata, 1),
        // The start of the transaction, which names it in evidence.
        (Api::DescribeTransactions, 1),
    ];
    within("kafka-4.4-v1", &most).await;
}

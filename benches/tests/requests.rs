//! What a transaction asks of the brokers, counted in the journal of the embedded broker.
//!
//! The goal is what cannot be left out: a Produce and an EndTxn on V2; InitProducerId and AddPartitionsToTxn before them on
//! V1; the same whatever the number of partitions. What is above it today is written into the tables: whoever saves a
//! request lowers a number.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use kafka_2pc::{
    broker::{Api, Broker, BrokerConfig, Profile},
    client::{Client, ClientConfig, Prepared, Topic, Transaction},
    ids::TransactionalId,
    proto::{committable::Committable, resume::CoordinatorState},
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
            // As a pool has it.
            producer.prefetch().await.unwrap();
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
        // The level of transactions is asked for beside the batches, if it is not known any more; the topics behind them, if a
        // leader took longer than a moment to store one.
        &[(Api::Produce, 1), (Api::EndTxn, 1), (Api::Metadata, 1), (Api::ApiVersions, 1)],
    )
    .await;
}

#[tokio::test]
async fn a_transaction_v1_asks_the_same_whatever_its_partitions() {
    let most = [
        // The identity is there.
        (Api::AddPartitionsToTxn, 1),
        (Api::Produce, 1),
        (Api::EndTxn, 1),
        (Api::Metadata, 1),
        (Api::ApiVersions, 1),
    ];
    within("kafka-4.4-v1", &most).await;
}

/// A broker with the topic, and a client that knows it.
async fn with_topic() -> (Broker, Client, Topic) {
    let broker = Broker::start(BrokerConfig::default()).await.unwrap();
    broker.create_topic("bench", 1).unwrap();
    let client = Client::new(ClientConfig::new(&broker.bootstrap()).unwrap());
    let topic = client.topic("bench").await.unwrap();
    (broker, client, topic)
}

fn since(broker: &Broker, before: usize) -> BTreeMap<Api, usize> {
    let mut counted = BTreeMap::new();
    for entry in broker.journal().iter().skip(before) {
        *counted.entry(entry.api).or_default() += 1;
    }
    counted
}

async fn prepared(transaction: Transaction) -> Committable {
    match transaction.prepare().await.unwrap() {
        Prepared::Ready(committable) => committable,
        other => panic!("one record was written: {other:?}"),
    }
}

/// T3: its batch, the start of its transaction, and whether the topic is still the same.
#[tokio::test]
async fn prepare_asks_for_evidence_and_for_the_topic() {
    let (broker, client, topic) = with_topic().await;
    let mut producer = client.transactional_producer(TransactionalId::new("t")).init().await.unwrap();
    producer.prefetch().await.unwrap();
    let mut transaction = producer.begin();
    transaction.send(&topic, Some(0), RecordRef::value(b"record")).await.unwrap();
    let before = broker.journal().len();
    prepared(transaction).await;
    let counted = since(&broker, before);
    for (api, count) in &counted {
        // A connection for data is opened with ApiVersions; the other one is the level, if it is not known any more.
        let most = match api {
            Api::Produce | Api::DescribeTransactions | Api::Metadata => 1,
            Api::ApiVersions => 2,
            _ => 0,
        };
        assert!(*count <= most, "{counted:?}");
    }
    broker.stop().await;
}

/// T4: whoever has just looked the topic up asks who the coordinator is, while the connection to it opens, and decides.
#[tokio::test]
async fn a_commit_by_another_client_asks_two_things_in_a_row() {
    let (broker, client, topic) = with_topic().await;
    let producer = client.transactional_producer(TransactionalId::new("t")).init().await.unwrap();
    let mut transaction = producer.begin();
    transaction.send(&topic, Some(0), RecordRef::value(b"record")).await.unwrap();
    let committable = prepared(transaction).await;
    let other = Client::new(ClientConfig::new(&broker.bootstrap()).unwrap());
    other.topic("bench").await.unwrap();
    let before = broker.journal().len();
    other.resume(committable).connection(0).commit().await.unwrap();
    let asked: Vec<Api> = broker.journal().iter().skip(before).map(|entry| entry.api).collect();
    let (greetings, row): (Vec<Api>, Vec<Api>) = asked.iter().partition(|api| **api == Api::ApiVersions);
    assert_eq!(row, [Api::FindCoordinator, Api::EndTxn], "{asked:?}");
    assert!(greetings.len() <= 2, "{asked:?}");
    broker.stop().await;
}

/// T4 again, by a client that has committed before: only the decision is asked for, and at most the level.
#[tokio::test]
async fn a_commit_by_who_knows_the_coordinator_is_one_request() {
    let (broker, client, topic) = with_topic().await;
    for number in 0..3 {
        let producer = client.transactional_producer(TransactionalId::new("t")).init().await.unwrap();
        let mut transaction = producer.begin();
        transaction.send(&topic, Some(0), RecordRef::value(b"record")).await.unwrap();
        let committable = prepared(transaction).await;
        let before = broker.journal().len();
        client.resume(committable).connection(0).commit().await.unwrap();
        let mut counted = since(&broker, before);
        assert_eq!(counted.remove(&Api::EndTxn), Some(1));
        counted.remove(&Api::ApiVersions);
        // A slow machine may find that the last answer about the topic is old.
        assert!(number == 0 || counted.values().sum::<usize>() <= 1, "{counted:?}");
    }
    broker.stop().await;
}

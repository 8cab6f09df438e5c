//! What a review found.
#![cfg(feature = "broker")]
#![expect(clippy::unwrap_used, reason = "tests")]

mod kit;

use std::time::Duration;

use kafka_2pc::{
    broker::{Api, BrokerConfig, Fault, Profile, Reaction},
    client::{Client, Prepared},
    ids::TopicPartition,
    record::RecordRef,
};
use kit::{Bench, config_for, within};

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_coordinator_took_long_to_find_looks_at_leaders_of_now() {
    let b = Bench::with(BrokerConfig { nodes: 3, ..BrokerConfig::default() }).await;
    b.broker.create_topic_on("lonely", vec![vec![3]]).unwrap();
    let topic = b.client.topic("lonely").await.unwrap();
    let id =
        (0..).map(|i| format!("id{i}")).find(|id| b.broker.transaction_coordinator(id) == Some(1)).unwrap();
    let mut transaction = b.producer(&id).init().await.unwrap().begin();
    transaction.send(&topic, Some(0), RecordRef::value(b"1")).await.unwrap();
    let Prepared::Ready(committable) = transaction.prepare().await.unwrap() else { panic!() };
    let other = Client::new(config_for(&b.broker));
    b.broker.inject(Fault::on(Api::FindCoordinator, Reaction::Delay(Duration::from_millis(800))));
    other.topic("lonely").await.unwrap();
    let commit = tokio::spawn(other.resume(committable).timeout(Duration::from_secs(3)).commit());
    tokio::time::sleep(Duration::from_millis(300)).await;
    b.broker.take_leader(&TopicPartition::new("lonely", 0)).unwrap();
    let result = within(commit).await.unwrap();
    assert_eq!(
        b.broker.requests(Api::EndTxn),
        0,
        "EndTxn was sent while a partition had no leader: {result:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_behind_a_slow_flush_looks_at_leaders_of_now() {
    let b = Bench::with(BrokerConfig { nodes: 3, ..BrokerConfig::default() }).await;
    b.broker.create_topic_on("lonely", vec![vec![3], vec![2]]).unwrap();
    let topic = b.client.topic("lonely").await.unwrap();
    let id =
        (0..).map(|i| format!("id{i}")).find(|id| b.broker.transaction_coordinator(id) == Some(1)).unwrap();
    let mut transaction = b.producer(&id).init().await.unwrap().begin();
    transaction.send(&topic, Some(0), RecordRef::value(b"1")).await.unwrap();
    transaction.flush().await.unwrap();
    b.broker.inject(Fault::on(Api::Produce, Reaction::Delay(Duration::from_millis(1500))));
    transaction.send(&topic, Some(1), RecordRef::value(b"2")).await.unwrap();
    let commit = tokio::spawn(transaction.commit());
    tokio::time::sleep(Duration::from_millis(500)).await;
    b.broker.take_leader(&TopicPartition::new("lonely", 0)).unwrap();
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(b.broker.requests(Api::EndTxn), 0, "EndTxn was sent while a partition had no leader");
    commit.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_does_not_wait_for_an_end_that_is_answered_late() {
    let b = Bench::new(Profile::kafka_4_4()).await;
    let first = b.prepared("a", &["1"]).await;
    let second = b.prepared("b", &["2"]).await;
    b.fault(Api::EndTxn, Reaction::Delay(Duration::from_secs(4)));
    let slow = tokio::spawn(b.client.resume(first).connection(0).commit());
    tokio::time::sleep(Duration::from_millis(300)).await;
    let behind = tokio::spawn(b.client.resume(second).connection(0).commit());
    tokio::time::sleep(Duration::from_millis(300)).await;
    let written = tokio::time::timeout(Duration::from_secs(2), b.open("c", &["3"])).await;
    assert!(!slow.is_finished() && !behind.is_finished());
    assert!(written.is_ok(), "a writer waited for somebody else's EndTxn");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_level_is_read_again_after_a_wait_for_a_leader() {
    let b = Bench::with(BrokerConfig { nodes: 3, ..BrokerConfig::default() }).await;
    b.broker.create_topic_on("lonely", vec![vec![3]]).unwrap();
    let topic = b.client.topic("lonely").await.unwrap();
    let id =
        (0..).map(|i| format!("id{i}")).find(|id| b.broker.transaction_coordinator(id) == Some(1)).unwrap();
    let mut transaction = b.producer(&id).init().await.unwrap().begin();
    transaction.send(&topic, Some(0), RecordRef::value(b"1")).await.unwrap();
    let Prepared::Ready(committable) = transaction.prepare().await.unwrap() else { panic!() };
    let place = TopicPartition::new("lonely", 0);
    b.broker.take_leader(&place).unwrap();
    let other = Client::new(config_for(&b.broker));
    let commit = tokio::spawn(other.resume(committable).timeout(Duration::from_secs(6)).commit());
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!(b.broker.requests(Api::EndTxn), 0);
    b.broker.set_transaction_version(kafka_2pc::broker::TransactionVersion::V0);
    tokio::time::sleep(Duration::from_millis(300)).await;
    b.broker.move_leader(&place, 3).unwrap();
    let result = within(commit).await.unwrap();
    let versions: Vec<_> = b.broker.journal().into_iter().filter(|e| e.api == Api::EndTxn).collect();
    assert!(result.is_ok(), "{result:?} {versions:?}");
}

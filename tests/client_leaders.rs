//! What is known when a transaction is ended: the leaders of its partitions, and the level of transactions.
//!
//! A marker for a partition without a leader may be lost (KAFKA-20734), so nothing is ended by what was known long ago.
#![cfg(feature = "broker")]
#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]

mod kit;

use std::time::Duration;

use kafka_2pc::{
    broker::{Api, BrokerConfig, Fault, Reaction, TransactionVersion},
    client::{Client, Prepared, Topic, Transaction},
    ids::TopicPartition,
    proto::committable::Committable,
    record::RecordRef,
};
use kit::{Bench, config_for, within};

const LONELY: &str = "lonely";

fn lonely() -> TopicPartition {
    TopicPartition::new(LONELY, 0)
}

/// Three nodes, and a transaction with a record on a partition that only node 3 can lead, with another node for coordinator.
async fn open() -> (Bench, Topic, Transaction) {
    let b = Bench::with(BrokerConfig { nodes: 3, ..BrokerConfig::default() }).await;
    b.broker.create_topic_on(LONELY, vec![vec![3], vec![2]]).unwrap();
    let topic = b.client.topic(LONELY).await.unwrap();
    let mut ids = (0..).map(|i| format!("id{i}"));
    let id = ids.find(|id| b.broker.transaction_coordinator(id) == Some(1)).unwrap();
    let mut transaction = b.producer(&id).init().await.unwrap().begin();
    transaction.send(&topic, Some(0), RecordRef::value(b"1")).await.unwrap();
    (b, topic, transaction)
}

async fn prepared() -> (Bench, Committable) {
    let (b, _, transaction) = open().await;
    let Prepared::Ready(committable) = transaction.prepare().await.unwrap() else { panic!() };
    (b, committable)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_coordinator_took_long_to_find_looks_at_leaders_of_now() {
    let (b, committable) = prepared().await;
    let other = Client::new(config_for(&b.broker));
    b.broker.inject(Fault::on(Api::FindCoordinator, Reaction::Delay(Duration::from_millis(800))));
    other.topic(LONELY).await.unwrap();
    let commit = tokio::spawn(other.resume(committable).timeout(Duration::from_secs(3)).commit());
    tokio::time::sleep(Duration::from_millis(300)).await;
    b.broker.take_leader(&lonely()).unwrap();
    let result = within(commit).await.unwrap();
    assert!(result.is_err(), "{result:?}");
    assert_eq!(b.broker.requests(Api::EndTxn), 0, "EndTxn was sent while a partition had no leader");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_behind_a_slow_flush_looks_at_leaders_of_now() {
    let (b, topic, mut transaction) = open().await;
    transaction.flush().await.unwrap();
    b.broker.inject(Fault::on(Api::Produce, Reaction::Delay(Duration::from_millis(1500))));
    transaction.send(&topic, Some(1), RecordRef::value(b"2")).await.unwrap();
    let commit = tokio::spawn(transaction.commit());
    tokio::time::sleep(Duration::from_millis(500)).await;
    b.broker.take_leader(&lonely()).unwrap();
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(b.broker.requests(Api::EndTxn), 0, "EndTxn was sent while a partition had no leader");
    b.broker.move_leader(&lonely(), 3).unwrap();
    within(commit).await.unwrap().unwrap();
}

/// An answer that tells nothing about a topic makes what was known of it no newer.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_question_for_a_topic_tells_no_leader() {
    let (b, committable) = prepared().await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    b.broker.take_leader(&lonely()).unwrap();
    const TOPIC_AUTHORIZATION_FAILED: i16 = 29;
    b.fault(Api::Metadata, Reaction::ErrorCode(TOPIC_AUTHORIZATION_FAILED));
    b.client.topic(LONELY).await.unwrap_err();
    let result = within(b.client.resume(committable).timeout(Duration::from_secs(1)).commit()).await;
    assert!(result.is_err(), "{result:?}");
    assert_eq!(b.broker.requests(Api::EndTxn), 0, "EndTxn was sent while a partition had no leader");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_level_is_read_again_after_a_wait_for_a_leader() {
    let (b, committable) = prepared().await;
    b.broker.take_leader(&lonely()).unwrap();
    let other = Client::new(config_for(&b.broker));
    let commit = tokio::spawn(other.resume(committable).timeout(Duration::from_secs(6)).commit());
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!(b.broker.requests(Api::EndTxn), 0);
    b.broker.set_transaction_version(TransactionVersion::V0);
    tokio::time::sleep(Duration::from_millis(300)).await;
    b.broker.move_leader(&lonely(), 3).unwrap();
    let result = within(commit).await.unwrap();
    let sent: Vec<_> = b.broker.journal().into_iter().filter(|e| e.api == Api::EndTxn).collect();
    assert!(result.is_ok(), "{result:?} {sent:?}");
}

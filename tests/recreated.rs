//! Topics that are deleted and created anew while somebody writes to them.
#![cfg(feature = "broker")]
#![expect(clippy::unwrap_used, reason = "tests")]

mod kit;

use std::time::Duration;

use kafka_2pc::{
    broker::{Api, BrokerConfig, Fault, Profile, Reaction},
    client::{Isolation, Producer, SendError, Start, Topic},
    ids::TopicPartition,
    proto::cause::CauseKind,
    record::RecordRef,
};
use kit::{Bench, TOPIC, within};

/// UNKNOWN_TOPIC_ID and INCONSISTENT_TOPIC_ID.
const DENIED: [i16; 2] = [100, 103];

fn record(value: &str) -> RecordRef<'_> {
    RecordRef::value(value.as_bytes())
}

fn created_anew(b: &Bench) {
    assert!(b.broker.delete_topic(TOPIC));
    b.broker.create_topic(TOPIC, 2).unwrap();
}

/// All records that lie in partition 0 of a topic, visible or not.
async fn lying(b: &Bench, topic: &str) -> Vec<String> {
    let mut consumer = b.client.consumer().isolation(Isolation::Uncommitted).build();
    let place = TopicPartition::new(topic, 0);
    b.client.topic(topic).await.unwrap();
    consumer.assign([(place.clone(), Start::Beginning)]);
    let end = consumer.end_offsets(Isolation::Uncommitted).await.unwrap()[&place];
    let mut values = Vec::new();
    while consumer.position(&place).is_none_or(|at| at < end) {
        for r in within(consumer.poll(Duration::from_millis(20))).await.unwrap() {
            values.push(String::from_utf8(r.record.value.unwrap().to_vec()).unwrap());
        }
    }
    values
}

/// The versions of the Produce requests that came, and what they were answered.
fn produced(b: &Bench) -> Vec<(i16, Option<i16>)> {
    let journal = b.broker.journal();
    journal.iter().filter(|e| e.api == Api::Produce).map(|e| (e.version, e.answer)).collect()
}

/// Topics are named by their ids where brokers know ids, and a version that means level 2 is kept for transactions of it.
#[tokio::test]
async fn each_broker_is_asked_in_the_version_that_it_and_the_transaction_allow() {
    for (profile, [transactional, idempotent]) in [
        (Profile::kafka_4_4(), [13, 13]),
        (Profile::kafka_4_4_v1(), [11, 13]),
        (Profile::kafka_4_4_v0(), [11, 13]),
        (Profile::kafka_3_9(), [11, 11]),
        (Profile::kafka_3_5(), [9, 9]),
        (Profile::redpanda(), [7, 7]),
    ] {
        let name = profile.name;
        let b = Bench::new(profile).await;
        b.open("a", &["1"]).await.commit().await.unwrap();
        let producer = b.client.idempotent_producer().start();
        within(producer.send(&b.topic().await, Some(0), record("2"))).await.unwrap();
        within(producer.flush()).await.unwrap();
        let expected = [transactional, idempotent].map(|version| (version, Some(0)));
        assert_eq!(produced(&b), expected, "{name}");
        assert_eq!(b.committed().await, ["1", "2"]);
    }
}

/// Kafka 4.0 has transactions V2, and names in its newest Produce.
#[tokio::test]
async fn a_broker_of_level_2_without_ids_is_asked_by_name() {
    let mut profile = Profile::kafka_4_4();
    for (api, range) in &mut profile.apis {
        if *api == Api::Produce {
            range.max = 12;
        }
    }
    let b = Bench::new(profile).await;
    b.open("a", &["1"]).await.commit().await.unwrap();
    assert_eq!(produced(&b), [(12, Some(0))]);
}

#[tokio::test]
async fn nothing_of_a_transaction_lands_in_a_topic_that_was_created_anew_under_it() {
    for looked_up in [false, true] {
        let b = Bench::new(Profile::kafka_4_4()).await;
        let topic = b.topic().await;
        let mut transaction = b.producer("a").init().await.unwrap().begin();
        transaction.send(&topic, Some(0), record("old")).await.unwrap();
        transaction.flush().await.unwrap();
        created_anew(&b);
        if looked_up {
            // By somebody else: the client knows the new id, and sends the old one nevertheless.
            assert_ne!(b.topic().await.id(), topic.id());
        }
        transaction.send(&topic, Some(0), record("astray")).await.unwrap();
        match within(transaction.flush()).await {
            Err(SendError::Failed(cause)) => assert_eq!(cause.kind, CauseKind::UnknownTopic, "{cause}"),
            other => panic!("the flush ended with {other:?}"),
        }
        let producer = within(transaction.abort()).await.unwrap();
        assert_eq!(produced(&b), [(13, Some(0)), (13, Some(100))]);
        assert_eq!(lying(&b, TOPIC).await, [""; 0]);
        let mut next = producer.begin();
        b.write(&mut next, &["new"]).await;
        within(next.commit()).await.unwrap();
        assert_eq!(lying(&b, TOPIC).await, ["new"]);
    }
}

#[tokio::test]
async fn a_topic_that_is_deleted_under_a_transaction_fails_it_soon() {
    let b = Bench::in_memory(Profile::kafka_4_4()).await;
    let topic = b.topic().await;
    let mut transaction = b.open("a", &["old"]).await;
    b.broker.delete_topic(TOPIC);
    transaction.send(&topic, Some(0), record("astray")).await.unwrap();
    match within(transaction.flush()).await {
        Err(SendError::Failed(cause)) => assert_eq!(cause.kind, CauseKind::UnknownTopic, "{cause}"),
        other => panic!("the flush ended with {other:?}"),
    }
}

/// A leader that has just become one may know a topic a moment later than its client does.
#[tokio::test(start_paused = true)]
async fn a_leader_that_does_not_know_the_id_yet_gets_the_batch_again() {
    for code in DENIED {
        let b = Bench::in_memory(Profile::kafka_4_4()).await;
        b.broker.inject(Fault::on(Api::Produce, Reaction::ErrorCode(code)).times(5));
        b.open("a", &["1", "2"]).await.commit().await.unwrap();
        let producer = b.client.idempotent_producer().start();
        b.broker.inject(Fault::on(Api::Produce, Reaction::ErrorCode(code)).times(5));
        let delivery = producer.send_tracked(&b.topic().await, Some(0), record("3")).await.unwrap();
        within(producer.flush()).await.unwrap();
        assert_eq!(delivery.stored().await, Ok(Some(3)));
        assert_eq!(b.committed().await, ["1", "2", "3"]);
        assert_eq!(produced(&b).iter().filter(|p| **p == (13, Some(code))).count(), 10);
    }
}

/// Batches of one record.
async fn fate(producer: &Producer, topic: &Topic, value: &str) -> Result<Option<i64>, CauseKind> {
    let delivery = within(producer.send_tracked(topic, Some(0), record(value))).await.unwrap();
    _ = within(producer.flush()).await;
    delivery.stored().await.map_err(|cause| cause.kind)
}

#[tokio::test]
async fn a_producer_without_transactions_writes_to_the_topic_that_was_looked_up_or_says_so() {
    let b = Bench::new(Profile::kafka_4_4()).await;
    let (producer, topic) = (b.client.idempotent_producer().start(), b.topic().await);
    assert_eq!(fate(&producer, &topic, "old").await, Ok(Some(0)));
    created_anew(&b);
    for _ in 0..3 {
        assert_eq!(fate(&producer, &topic, "astray").await, Err(CauseKind::UnknownTopic));
    }
    let anew = b.topic().await;
    // Beside one another, from handles of both topics.
    let astray = within(producer.send_tracked(&topic, Some(0), record("astray"))).await.unwrap();
    assert_eq!(fate(&producer, &anew, "1").await, Ok(Some(0)));
    assert_eq!(astray.stored().await.map_err(|cause| cause.kind), Err(CauseKind::UnknownTopic));
    assert_eq!(fate(&producer, &anew, "2").await, Ok(Some(1)));
    assert_eq!(lying(&b, TOPIC).await, ["1", "2"]);
    within(producer.close()).await.unwrap();
}

/// A test that narrows a fault by a topic's name need not know which versions have ids instead.
#[tokio::test]
async fn faults_and_the_journal_know_topics_by_their_names() {
    let b = Bench::with(BrokerConfig { nodes: 2, ..BrokerConfig::default() }).await;
    b.broker.create_topic_on("moving", vec![vec![1, 2]]).unwrap();
    let place = TopicPartition::new("moving", 0);
    let topic = b.client.topic("moving").await.unwrap();
    let written = b.broker.inject(Fault::on(Api::Produce, Reaction::MoveLeader).id("moving"));
    let mut transaction = b.producer("a").init().await.unwrap().begin();
    transaction.send(&topic, Some(0), record("1")).await.unwrap();
    within(transaction.commit()).await.unwrap();
    assert_eq!((b.broker.hits(written), b.broker.leader(&place)), (1, Some(2)));
    let read = b.broker.inject(Fault::on(Api::Fetch, Reaction::MoveLeader).id("moving"));
    assert_eq!(lying(&b, "moving").await, ["1"]);
    assert_eq!((b.broker.hits(read), b.broker.leader(&place)), (1, Some(1)));
    let journal = b.broker.journal();
    let by_id = journal.iter().filter(|e| matches!(e.api, Api::Produce | Api::Fetch));
    assert!(by_id.clone().all(|e| e.version == 13 && e.keys.partitions == [place.clone()]), "{journal:?}");
}

//! What a review found.
#![cfg(feature = "broker")]
#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]

mod kit;

use std::time::Duration;

use kafka_2pc::{
    broker::{Api, BrokerConfig, Profile, Reaction},
    client::Prepared,
    record::RecordRef,
    sink::{RecoverError, SinkConfig},
};
use kit::{
    Bench,
    job::{Kept, Run, Together},
};

async fn older_copy(profile: Profile) {
    let name = profile.name;
    let b = Bench::new(profile).await;
    let config = SinkConfig::new("job").unwrap();
    let mut run = Run::start(&b, &config, 1, &Kept::default()).await;
    run.write(4).await;
    let older = run.complete().await;
    run.complete().await;
    run.write(8).await;
    run.complete().await;
    // A checkpoint without records: the one before is dropped, and its id is free.
    run.complete().await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    run.killed().await;
    let refused = Run::try_start(&b, &config, (1, Together::Whole), &older).await;
    assert!(matches!(refused, Err(RecoverError::Orphans(_))), "{name}: {:?}", refused.map(|r| r.report));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_copy_is_noticed_when_the_job_was_idle_v2() {
    older_copy(Profile::kafka_4_4()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_copy_is_noticed_when_the_job_was_idle_v1() {
    older_copy(Profile::kafka_4_4_v1()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_that_was_ready_for_longer_than_ids_live_is_asked_for_anew() {
    let b = Bench::new(Profile::kafka_4_4_v1()).await;
    let config = SinkConfig::new("job").unwrap();
    let mut run = Run::start(&b, &config, 1, &Kept::default()).await;
    run.write(4).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(b.broker.expire_transactional_id("job-0-1"), "it was got ready");
    run.prepare().await;
    run.write(8).await;
    // It was prepared without trouble before ids were got ready: InitProducerId came with the first record.
    run.prepare().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commits_of_two_subtasks_do_not_wait_for_each_other() {
    for profile in kit::both() {
        let name = profile.name;
        let b = Bench::new(profile).await;
        let first = b.prepared("a", &["1"]).await;
        let second = b.prepared("b", &["2"]).await;
        let config = SinkConfig::new("job").unwrap();
        let sink = kit::job::sink(&b, &config).await;
        // As the runner does: each subtask has a committer of its own.
        let (one, other) = (sink.committer(), sink.committer());
        b.fault(Api::EndTxn, Reaction::Delay(Duration::from_secs(4)));
        let slow = tokio::spawn(async move { one.commit(vec![first]).await });
        tokio::time::sleep(Duration::from_millis(300)).await;
        let done = tokio::time::timeout(Duration::from_secs(2), other.commit(vec![second])).await;
        assert!(!slow.is_finished());
        assert!(done.is_ok(), "{name}: a commit waited for another subtask's");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_barrier_does_not_wait_for_a_coordinator_that_it_does_not_need() {
    let b = Bench::with(BrokerConfig { nodes: 3, ..BrokerConfig::default() }).await;
    b.broker.create_topic_on("lonely", vec![vec![3]]).unwrap();
    let topic = b.client.topic("lonely").await.unwrap();
    let id =
        (0..).map(|i| format!("id{i}")).find(|id| b.broker.transaction_coordinator(id) == Some(1)).unwrap();
    let mut transaction = b.producer(&id).init().await.unwrap().begin();
    transaction.send(&topic, Some(0), RecordRef::value(b"1")).await.unwrap();
    transaction.flush().await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    b.broker.freeze_node(1).unwrap();
    let prepared = tokio::time::timeout(Duration::from_secs(8), transaction.prepare()).await;
    b.broker.thaw_node(1);
    assert!(matches!(prepared, Ok(Ok(Prepared::Ready(_)))), "{prepared:?}");
}

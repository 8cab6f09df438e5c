//! What a sink asks of the brokers beside its records, counted in the journal of the embedded broker.
//!
//! The numbers are the most that are allowed: whoever saves a request lowers one. What stands in the tables has a reason each,
//! see [`V2`].
#![cfg(feature = "broker")]
#![expect(clippy::unwrap_used, reason = "tests")]

mod kit;

use std::{collections::BTreeMap, time::Duration};

use futures::future::join_all;
use kafka_2pc::{
    broker::{Api, Broker, Profile},
    client::Prepared,
    record::RecordRef,
    sink::SinkConfig,
};
use kit::{
    Bench, both,
    job::{Kept, Run},
    within,
};

const INTERVAL: Duration = Duration::from_millis(500);

/// For each checkpoint of a writer.
const V2: &[(Api, usize)] = &[
    // The decision.
    (Api::EndTxn, 1),
    // The level of transactions, before an EndTxn 5, and before a Produce 12 of the next transaction: once for both.
    (Api::ApiVersions, 1),
    // The start of the transaction, which names it in evidence.
    (Api::DescribeTransactions, 1),
    // Whether the decision has arrived, before the id is used again.
    (Api::DescribeProducers, 1),
    // Whether the topic is still the one that was written to, after the transaction is decided. Before it is prepared, the
    // leaders that stored its last batches under the topic's id have said so, and that there are leaders (Produce 13).
    (Api::Metadata, 1),
];

/// The same, and what V1 needs for each transaction.
const V1: &[(Api, usize)] = &[
    (Api::EndTxn, 1),
    (Api::ApiVersions, 1),
    // The second one: whether a rival has something open under the id that is about to be renewed.
    (Api::DescribeTransactions, 2),
    (Api::DescribeProducers, 1),
    // The second one: before it is prepared, for Produce has the topic's name.
    (Api::Metadata, 2),
    (Api::InitProducerId, 1),
    (Api::AddPartitionsToTxn, 1),
];

/// Requests by API, from this entry of the journal on.
fn since(broker: &Broker, entry: usize) -> BTreeMap<Api, usize> {
    let mut counted = BTreeMap::new();
    for entry in broker.journal().iter().skip(entry) {
        *counted.entry(entry.api).or_default() += 1;
    }
    counted
}

/// A checkpoint, an interval after the last one.
async fn checkpoint(run: &mut Run) {
    let until = run.written + 4 * run.writers.len();
    run.write(until).await;
    tokio::time::sleep(INTERVAL).await;
    run.complete().await;
}

/// A job whose ids have all been used.
async fn steady(b: &Bench, writers: u32) -> Run {
    let config = SinkConfig::new("job").unwrap();
    let mut run = Run::start(b, &config, writers, &Kept::default()).await;
    for _ in 0..5 {
        checkpoint(&mut run).await;
    }
    run
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_in_steady_state_asks_this_much() {
    for (profile, most) in both().into_iter().zip([V2, V1]) {
        let b = Bench::in_memory(profile).await;
        let mut run = steady(&b, 1).await;
        let before = b.broker.journal().len();
        const COUNT: usize = 10;
        for _ in 0..COUNT {
            checkpoint(&mut run).await;
        }
        let counted = since(&b.broker, before);
        for (api, count) in counted.iter().filter(|(api, _)| **api != Api::Produce) {
            let most = most.iter().find(|(a, _)| a == api).map_or(0, |(_, most)| *most);
            assert!(*count <= most * COUNT, "{api}: {count} in {COUNT} checkpoints: {counted:?}");
        }
        assert_eq!(counted[&Api::EndTxn], COUNT);
    }
}

/// What one partition's leader says is nothing about another one: it may have no leader, and then a commit must wait.
#[tokio::test(start_paused = true)]
async fn a_partition_that_got_nothing_lately_is_asked_for_before_it_is_prepared() {
    let b = Bench::in_memory(Profile::kafka_4_4()).await;
    let topic = b.topic().await;
    let mut producer = b.producer("a").init().await.unwrap();
    // With the first one, nobody knows yet that leaders tell.
    for (last, asked) in [(&[0, 1][..], 1), (&[0, 1], 0), (&[0], 1), (&[], 1)] {
        let mut transaction = producer.begin();
        for partition in [0, 1] {
            transaction.send(&topic, Some(partition), RecordRef::value(b"early")).await.unwrap();
        }
        transaction.flush().await.unwrap();
        tokio::time::sleep(INTERVAL).await;
        for partition in last {
            transaction.send(&topic, Some(*partition), RecordRef::value(b"late")).await.unwrap();
        }
        let before = b.broker.journal().len();
        let Prepared::Ready(committable) = transaction.prepare().await.unwrap() else { panic!("{last:?}") };
        let counted = since(&b.broker, before);
        assert_eq!(counted.get(&Api::Metadata).copied().unwrap_or(0), asked, "{last:?}: {counted:?}");
        // And what was told then is good enough for a commit that follows.
        b.client.resume(committable).commit().await.unwrap();
        let counted = since(&b.broker, before);
        assert_eq!(counted.get(&Api::Metadata).copied().unwrap_or(0), asked, "{last:?}: {counted:?}");
        tokio::time::sleep(INTERVAL).await;
        producer = b.producer("a").init().await.unwrap();
    }
}

/// A commit goes by leaders of which it was told after it was asked for.
#[tokio::test(start_paused = true)]
async fn a_commit_asks_for_leaders_that_have_stored_nothing_since_it_was_asked_for() {
    let b = Bench::in_memory(Profile::kafka_4_4()).await;
    let topic = b.topic().await;
    let mut producer = b.producer("a").init().await.unwrap();
    for (flushed, asked) in [(true, 1), (false, 0), (true, 1)] {
        let mut transaction = producer.begin();
        transaction.send(&topic, Some(0), RecordRef::value(b"v")).await.unwrap();
        if flushed {
            transaction.flush().await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
        let before = b.broker.journal().len();
        producer = transaction.commit().await.unwrap();
        let counted = since(&b.broker, before);
        assert_eq!(counted.get(&Api::Metadata).copied().unwrap_or(0), asked, "{counted:?}");
    }
}

/// Everything is there when the next transaction begins; V1 adds its partitions while its first batch grows.
#[tokio::test(start_paused = true)]
async fn nothing_is_asked_between_a_barrier_and_the_next_batch() {
    let add = [Api::AddPartitionsToTxn];
    for (profile, allowed) in both().into_iter().zip([&[] as &[Api], &add]) {
        let b = Bench::in_memory(profile).await;
        let mut run = steady(&b, 1).await;
        // The one that follows these is the last that the pool has an id for: no other is got ready meanwhile.
        for _ in 0..3 {
            let until = run.written + 1;
            run.write(until).await;
            tokio::time::sleep(INTERVAL).await;
            run.prepare().await;
        }
        let before = b.broker.journal().len();
        let until = run.written + 1;
        run.write(until).await;
        while !since(&b.broker, before).contains_key(&Api::Produce) {
            tokio::time::sleep(Duration::from_millis(1)).await;
            run.writers[0].tick().unwrap();
        }
        let asked: Vec<Api> = b.broker.journal().iter().skip(before).map(|entry| entry.api).collect();
        assert_eq!(asked.split(|api| *api == Api::Produce).next(), Some(allowed), "{asked:?}");
    }
}

/// What many ask of one broker at once goes together.
#[tokio::test(start_paused = true)]
async fn the_commits_of_one_checkpoint_share_their_questions() {
    const WRITERS: u32 = 64;
    let b = Bench::in_memory(Profile::kafka_4_4()).await;
    let mut run = steady(&b, WRITERS).await;
    let until = run.written + run.writers.len();
    run.write(until).await;
    tokio::time::sleep(INTERVAL).await;
    let prepared = run.prepare().await;
    run.durable(&prepared);
    tokio::time::sleep(INTERVAL).await;
    let before = b.broker.journal().len();
    run.commit().await;
    let counted = since(&b.broker, before);
    assert_eq!(counted[&Api::EndTxn], 64, "{counted:?}");
    let others = counted.iter().filter(|(api, _)| **api != Api::EndTxn);
    assert!(others.map(|(_, count)| count).sum::<usize>() <= 4, "{counted:?}");
    let before = b.broker.journal().len();
    let committer = run.committer();
    for settled in within(join_all(prepared.iter().map(|c| committer.settle(c)))).await {
        settled.unwrap();
    }
    let counted = since(&b.broker, before);
    assert!(counted.values().sum::<usize>() <= 4, "{counted:?}");
}

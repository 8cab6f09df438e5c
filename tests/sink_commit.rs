//! Commits in the background: side by side, and never in the way of a writer.
#![cfg(feature = "broker")]
#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]

mod kit;

use std::{collections::BTreeSet, time::Duration};

use futures::stream::{FuturesUnordered, StreamExt};
use kafka_2pc::{
    broker::{Api, Fault, Profile, Reaction},
    proto::resume::{CoordinatorState, First},
    record::RecordRef,
    sink::{Committer, SinkConfig, WriteError},
};
use kit::{
    Bench, both,
    job::{Kept, Run},
    within,
};

const LONG: Duration = Duration::from_millis(800);

fn config() -> SinkConfig {
    SinkConfig::new("job").unwrap()
}

async fn open(b: &Bench) -> usize {
    let listing = b.client.admin().list_transactions(&Default::default()).await.unwrap();
    listing.transactions.iter().filter(|t| t.state == CoordinatorState::Ongoing).count()
}

/// Four prepared transactions, and a committer with so many connections, whose first EndTxn is answered late.
async fn four(b: &Bench, connections: u16) -> (Vec<kafka_2pc::proto::committable::Committable>, Committer) {
    let mut config = config();
    config.commit_connections = connections;
    let mut run = Run::start(b, &config, 4, &Kept::default()).await;
    run.write(8).await;
    let prepared = run.prepare().await;
    b.fault(Api::EndTxn, Reaction::Delay(LONG));
    (prepared, run.committer())
}

#[tokio::test]
async fn one_commit_that_is_answered_late_holds_up_no_other() {
    for profile in both() {
        let b = Bench::new(profile).await;
        let (prepared, committer) = four(&b, 4).await;
        let mut commits: FuturesUnordered<_> =
            prepared.into_iter().map(|c| committer.commit_one(c, First::EndTxn)).collect();
        for _ in 0..3 {
            within(commits.next()).await.unwrap().result.unwrap();
        }
        assert_eq!(open(&b).await, 1, "three of four are committed, and one is late");
        within(commits.next()).await.unwrap().result.unwrap();
        assert_eq!(b.committed().await.len(), 8);
    }
}

#[tokio::test]
async fn counter_test_on_one_connection_commits_wait_for_each_other() {
    let b = Bench::new(Profile::kafka_4_4()).await;
    let (prepared, committer) = four(&b, 1).await;
    let mut commits: FuturesUnordered<_> =
        prepared.into_iter().map(|c| committer.commit_one(c, First::EndTxn)).collect();
    assert!(tokio::time::timeout(LONG / 4, commits.next()).await.is_err());
    while within(commits.next()).await.is_some() {}
}

#[tokio::test]
async fn a_commit_that_is_held_stops_the_writer_only_when_the_pool_is_empty_and_then_for_so_long() {
    for profile in both() {
        let b = Bench::new(profile).await;
        let mut config = config();
        config.max_block = Duration::from_millis(30);
        let mut run = Run::start(&b, &config, 1, &Kept::default()).await;
        run.write(1).await;
        let first = run.prepare().await;
        run.durable(&first);
        b.fault(Api::EndTxn, Reaction::Delay(LONG));
        let committer = run.committer();
        let held = tokio::spawn(async move { committer.commit(first).await });
        while b.broker.requests(Api::EndTxn) < 1 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        for checkpoint in 2..=4 {
            run.write(checkpoint).await;
            let prepared = run.prepare().await;
            assert_eq!(prepared.len(), 1);
            run.durable(&prepared);
        }
        assert!(!held.is_finished(), "three checkpoints went by while the first one's commit was held");

        let exhausted = run.writers[0].ready().unwrap_err();
        assert!(exhausted.is_exhausted(), "{exhausted}");
        tokio::time::sleep(Duration::from_millis(40)).await;
        let record = RecordRef::value(b"4");
        let blocked = within(run.writers[0].write(&run.topic, Some(0), record)).await.unwrap_err();
        assert!(!blocked.is_exhausted() && matches!(blocked, WriteError::Blocked(_)), "{blocked}");
        assert!(blocked.to_string().contains("max.block.ms = 30"), "{blocked}");

        let [committed] = &within(held).await.unwrap()[..] else { panic!() };
        assert!(committed.result.is_ok());
        run.commit().await;
        run.settle().await;
        run.durable(&[]);
        run.writers[0].ready().unwrap();
        run.write(5).await;
        run.complete().await;
        assert_eq!(b.committed().await, ["0", "1", "2", "3", "4"]);
    }
}

#[tokio::test(start_paused = true)]
async fn one_id_without_a_coordinator_is_pending_and_the_others_are_committed() {
    for profile in both() {
        let b = Bench::in_memory(profile).await;
        let mut run = Run::start(&b, &config(), 4, &Kept::default()).await;
        run.write(8).await;
        let prepared = run.prepare().await;
        let stuck = prepared[1].transactional_id.clone();
        b.broker.inject(Fault::on(Api::EndTxn, Reaction::ErrorCode(16)).id(stuck.as_str()).times(u64::MAX));
        let began = tokio::time::Instant::now();
        let results = run.committer().commit(prepared).await;
        let (done, pending): (Vec<_>, Vec<_>) = results.into_iter().partition(|r| r.result.is_ok());
        assert_eq!(done.len(), 3);
        let [one] = &pending[..] else { panic!("{pending:?}") };
        assert_eq!(one.committable.transactional_id, stuck);
        let told = one.result.as_ref().unwrap_err().to_string();
        assert!(told.contains("the coordinator is not available"), "{told}");
        // By the clock of the test.
        let (asked, seconds) = (b.broker.requests(Api::EndTxn), began.elapsed().as_secs());
        assert!(asked < 2 * seconds + 20, "{asked} requests in {seconds} s");
    }
}

#[tokio::test(start_paused = true)]
async fn many_checkpoints_use_the_connections_and_ids_of_a_few() {
    for profile in both() {
        let b = Bench::in_memory(profile).await;
        let mut run = Run::start(&b, &config(), 2, &Kept::default()).await;
        let (mut connections, mut ids) = (BTreeSet::new(), BTreeSet::new());
        for checkpoint in 1..=200 {
            run.write(checkpoint * 2).await;
            if checkpoint % 10 == 0 {
                // An answer that is lost costs a connection, and not one for ever.
                b.fault(Api::EndTxn, Reaction::ApplyThenDrop);
            }
            run.complete().await;
            if checkpoint == 20 {
                connections = used(&b);
                ids = registered(&b).await;
            }
        }
        assert!(ids.len() <= 2 * 4, "{ids:?}");
        assert_eq!(registered(&b).await, ids, "ids of the first checkpoints are those of the last");
        let lost = 200 / 10;
        let later = used(&b).difference(&connections).count();
        assert!(
            later <= lost * 4,
            "{later} connections were made after the first checkpoints, {lost} were cut"
        );
        assert_eq!(b.committed().await.len(), 400);
    }
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

fn used(b: &Bench) -> BTreeSet<u64> {
    b.broker.journal().iter().map(|entry| entry.connection).collect()
}

async fn registered(b: &Bench) -> BTreeSet<String> {
    let listing = b.client.admin().list_transactions(&Default::default()).await.unwrap();
    listing.transactions.iter().map(|t| t.transactional_id.to_string()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn committers_of_one_sink_do_not_wait_for_each_other() {
    for profile in both() {
        let name = profile.name;
        let b = Bench::new(profile).await;
        let (first, second) = (b.prepared("a", &["1"]).await, b.prepared("b", &["2"]).await);
        let sink = kit::job::sink(&b, &config()).await;
        // As the runner does: each subtask has a committer of its own.
        let (one, other) = (sink.committer(), sink.committer());
        b.fault(Api::EndTxn, Reaction::Delay(LONG));
        let slow = tokio::spawn(async move { one.commit(vec![first]).await });
        while b.broker.requests(Api::EndTxn) == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        within(other.commit(vec![second])).await;
        assert!(!slow.is_finished(), "{name}: a commit waited for another subtask's");
        slow.await.unwrap();
    }
}

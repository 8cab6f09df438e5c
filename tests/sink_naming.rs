//! How ids are named, and that what an earlier naming, or an earlier prefix, left behind is found.
#![cfg(feature = "broker")]
#![expect(clippy::unwrap_used, reason = "tests")]

mod kit;

use kafka_2pc::{
    broker::{Api, Fault, Reaction},
    proto::{
        naming::{Naming, NamingError},
        recovery::Blindness,
    },
    record::RecordRef,
    sink::{RecoverError, SinkConfig},
};
use kit::{
    Bench, both,
    job::{Kept, Run, Together},
};

fn config(prefix: &str, naming: Naming) -> SinkConfig {
    let mut config = SinkConfig::new(prefix).unwrap();
    config.naming = naming;
    config
}

async fn sorted(b: &Bench) -> Vec<usize> {
    let mut seen: Vec<usize> = b.committed().await.iter().map(|v| v.parse().unwrap()).collect();
    seen.sort_unstable();
    seen
}

/// Runs from `kept` to a checkpoint that is durable and not committed, and dies in the middle of the next transaction.
/// The end of the job's records so far comes back, too.
async fn run_and_die(b: &Bench, config: &SinkConfig, kept: &Kept) -> Kept {
    let mut run = Run::start(b, config, 2, kept).await;
    run.write(run.written + 4).await;
    run.complete().await;
    run.write(run.written + 4).await;
    let prepared = run.prepare().await;
    assert_eq!(prepared.len(), 2);
    let kept = run.durable(&prepared);
    run.write(run.written + 2).await;
    run.killed().await;
    kept
}

/// The last run: everything is written once.
async fn finish(b: &Bench, config: &SinkConfig, kept: &Kept) -> Kept {
    let mut run = Run::start(b, config, 2, kept).await;
    assert_eq!(run.report.resumed.len(), 2);
    let end = run.written + 4;
    run.write(end).await;
    let kept = run.complete().await;
    assert_eq!(sorted(b).await, (0..end).collect::<Vec<_>>());
    kept
}

#[tokio::test(flavor = "multi_thread")]
async fn incrementing_ids_are_named_by_subtask_and_checkpoint() {
    for profile in both() {
        let b = Bench::new(profile).await;
        let mut run = Run::start(&b, &config("job", Naming::Incrementing), 2, &Kept::default()).await;
        for checkpoint in 1..=6 {
            // More checkpoints than a pool has slots, and one without records.
            let records = if checkpoint == 3 { 0 } else { 2 };
            run.write(run.written + records).await;
            let ids: Vec<_> = run.prepare().await.into_iter().collect();
            let names: Vec<_> = ids.iter().map(|c| c.transactional_id.as_str().to_owned()).collect();
            match records {
                0 => assert!(names.is_empty()),
                _ => assert_eq!(names, [0, 1].map(|s| format!("job-{s}-{checkpoint}"))),
            }
            run.durable(&ids);
            run.commit().await;
            run.settle().await;
        }
        assert_eq!(sorted(&b).await, (0..10).collect::<Vec<_>>());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn incrementing_names_are_continued_as_a_pool_and_not_the_other_way() {
    for profile in both() {
        let b = Bench::new(profile).await;
        let (incrementing, pooled) = (config("job", Naming::Incrementing), config("job", Naming::Pooled));
        let kept = run_and_die(&b, &incrementing, &Kept::default()).await;
        let kept = run_and_die(&b, &incrementing, &kept).await;
        let kept = run_and_die(&b, &pooled, &kept).await;
        let kept = finish(&b, &pooled, &kept).await;
        let back = Run::try_start(&b, &incrementing, (2, Together::Whole), &kept).await;
        assert!(matches!(back, Err(RecoverError::Naming(NamingError::Migration))));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn leftovers_are_found_where_no_broker_lists_its_transactions() {
    for profile in both() {
        for naming in [Naming::Pooled, Naming::Incrementing] {
            let b = Bench::new(profile.clone()).await;
            let config = config("job", naming);
            let kept = run_and_die(&b, &config, &Kept::default()).await;
            // One in the middle of a transaction, and beyond a checkpoint that had no records.
            let mut run = Run::start(&b, &config, 2, &kept).await;
            run.write(run.written + 2).await;
            run.prepare().await;
            run.prepare().await;
            run.write(run.written + 2).await;
            run.killed().await;

            b.fault(Api::ListTransactions, Reaction::ErrorCode(31));
            let blind = Run::start(&b, &config, 2, &kept).await;
            assert_eq!(blind.report.blind, [Blindness::SilentBrokers(1)]);
            assert_eq!(blind.report.aborted.len(), 4, "{naming:?}: {:?}", blind.report.aborted);
            drop(blind);
            finish(&b, &config, &kept).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prefix_that_may_not_be_described_is_told() {
    let b = Bench::new(kafka_2pc::broker::Profile::kafka_4_4()).await;
    let config = config("job", Naming::Pooled);
    b.broker.inject(Fault::on(Api::FindCoordinator, Reaction::ErrorCode(53)).always());
    let run = Run::start(&b, &config, 1, &Kept::default()).await;
    assert_eq!(run.report.blind, [Blindness::Hidden(config.prefix.clone())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_former_prefixes_left_is_committed_or_aborted_under_a_new_one() {
    for profile in both() {
        for (first, then) in [(Naming::Pooled, Naming::Pooled), (Naming::Incrementing, Naming::Pooled)] {
            let b = Bench::new(profile.clone()).await;
            let kept = run_and_die(&b, &config("a", first), &Kept::default()).await;

            let mut second = Run::start(&b, &config("b", then), 2, &kept).await;
            let resumed: Vec<_> =
                second.report.resumed.iter().map(|(c, _)| c.transactional_id.as_str()).collect();
            assert!(resumed.len() == 2 && resumed.iter().all(|id| id.starts_with("a-")), "{resumed:?}");
            assert!(second.report.aborted.iter().all(|id| id.as_str().starts_with("a-")));
            assert_eq!(second.report.aborted.len(), 2);
            second.write(second.written + 2).await;
            let kept = second.complete().await;
            second.write(second.written + 2).await;
            second.killed().await;

            // Two changes back: somebody of the first prefix was not quite dead.
            let mut zombie = b.producer("a-1-0").init().await.unwrap().begin();
            zombie.send(&b.topic().await, Some(0), RecordRef::value(b"no")).await.unwrap();
            zombie.prepare().await.unwrap();
            let mut third = Run::start(&b, &config("c", then), 3, &kept).await;
            let mut aborted: Vec<_> = third.report.aborted.iter().map(|id| id.as_str()).collect();
            aborted.sort_unstable();
            assert_eq!(aborted, ["a-1-0", "b-0-1", "b-1-1"]);
            third.write(third.written + 3).await;
            let kept = third.complete().await;
            assert!(kept.state.writers.iter().all(|writer| writer.former_prefixes.len() == 2));
            assert_eq!(sorted(&b).await, (0..kept.covered).collect::<Vec<_>>());
        }
    }
}

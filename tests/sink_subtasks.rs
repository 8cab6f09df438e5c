//! Several subtasks in one job, and jobs that come back with more or fewer of them.
#![cfg(feature = "broker")]
#![expect(clippy::unwrap_used, reason = "tests")]

mod kit;

use std::collections::BTreeSet;

use kafka_2pc::{
    broker::Profile,
    client::TransactionFilter,
    ids::TransactionalId,
    proto::{
        naming::{Naming, NamingError},
        resume::CoordinatorState,
    },
    sink::{RecoverError, Share, SinkConfig},
};
use kit::{
    Bench, both,
    job::{Kept, Run, Together},
};

/// How a run of the job ends.
#[derive(Clone, Copy, Debug)]
enum Ends {
    /// Dropped in the middle of a transaction.
    Dropped,
    /// Killed, with a checkpoint prepared that nothing lists.
    Unlisted,
    /// Killed, with a durable checkpoint that is not committed.
    Uncommitted,
    /// Everything is committed and settled.
    Complete,
}

const ENDS: [Ends; 4] = [Ends::Dropped, Ends::Unlisted, Ends::Uncommitted, Ends::Complete];

fn config() -> SinkConfig {
    SinkConfig::new("job").unwrap()
}

/// Runs with `subtasks` from `kept`: a whole checkpoint of eight records, then the end.
async fn run(b: &Bench, config: &SinkConfig, how: (u32, Together, Ends), kept: Kept) -> Kept {
    let (subtasks, together, ends) = how;
    let mut run = Run::try_start(b, config, (subtasks, together), &kept).await.unwrap();
    let begin = run.written;
    run.write(begin + 8).await;
    let whole = run.complete().await;
    run.write(begin + 12).await;
    match ends {
        Ends::Dropped => whole,
        Ends::Unlisted => {
            run.prepare().await;
            run.killed().await;
            whole
        }
        Ends::Uncommitted => {
            let prepared = run.prepare().await;
            assert!(prepared.len() > 1 || subtasks == 1);
            let kept = run.durable(&prepared);
            run.write(begin + 14).await;
            run.killed().await;
            kept
        }
        Ends::Complete => run.complete().await,
    }
}

/// Every number once, and nothing of the job is open any more.
async fn exactly_once(b: &Bench, count: usize, what: &str) {
    let mut seen: Vec<usize> = b.committed().await.iter().map(|v| v.parse().unwrap()).collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..count).collect::<Vec<_>>(), "{what}");
    let listing = b.client.admin().list_transactions(&TransactionFilter::default()).await.unwrap();
    let open: Vec<_> = listing.transactions.iter().filter(|t| t.state == CoordinatorState::Ongoing).collect();
    assert!(open.is_empty(), "{what}: {open:?}");
}

async fn last_run(b: &Bench, config: &SinkConfig, subtasks: u32, kept: Kept, what: &str) {
    let mut last = Run::start(b, config, subtasks, &kept).await;
    let end = last.written + 4;
    last.write(end).await;
    last.complete().await;
    exactly_once(b, end, what).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn subtasks_write_under_ids_of_their_own_and_commit_together() {
    for profile in both() {
        let b = Bench::new(profile).await;
        let mut run = Run::start(&b, &config(), 3, &Kept::default()).await;
        run.write(30).await;
        let prepared = run.prepare().await;
        let ids: BTreeSet<_> = prepared.iter().map(|c| c.transactional_id.as_str().to_owned()).collect();
        assert_eq!(ids, ["job-0-0", "job-1-0", "job-2-0"].map(str::to_owned).into());
        run.durable(&prepared);
        run.commit().await;
        run.settle().await;
        exactly_once(&b, 30, "three subtasks").await;
    }
}

/// Every pair of old and new parallelism, and a third one after it, with a crash before each change.
async fn rescale(profile: Profile, naming: Naming) {
    for ends in ENDS {
        for (old, new) in (1..=4).flat_map(|old| (1..=4).map(move |new| (old, new))) {
            let together = if (old + new) % 2 == 0 { Together::Whole } else { Together::Shares };
            let what = format!("{} {naming:?} {old} -> {new} {together:?}, {ends:?}", profile.name);
            let b = Bench::new(profile.clone()).await;
            let mut config = config();
            config.naming = naming;
            let kept = run(&b, &config, (old, together, ends), Kept::default()).await;
            let kept = run(&b, &config, (new, together, ends), kept).await;
            last_run(&b, &config, (old + new) % 4 + 1, kept, &what).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_rescaled_twice_with_a_crash_before_each_and_writes_everything_once() {
    for profile in both() {
        rescale(profile, Naming::Pooled).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn incrementing_names_are_rescaled_too() {
    rescale(Profile::kafka_4_4(), Naming::Incrementing).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fewer_subtasks_end_what_more_left_before_any_checkpoint() {
    for profile in both() {
        let b = Bench::new(profile).await;
        let mut first = Run::start(&b, &config(), 4, &Kept::default()).await;
        first.write(8).await;
        first.killed().await;
        let last = Run::start(&b, &config(), 2, &Kept::default()).await;
        let aborted: BTreeSet<_> = last.report.aborted.iter().map(TransactionalId::as_str).collect();
        assert_eq!(aborted, BTreeSet::from(["job-0-0", "job-1-0", "job-2-0", "job-3-0"]));
        last_run(&b, &config(), 2, Kept::default(), "no checkpoint").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn states_that_leave_a_subtask_out_are_refused_and_so_is_a_share_that_does_not_exist() {
    let b = Bench::new(Profile::kafka_4_4()).await;
    let mut run = Run::start(&b, &config(), 3, &Kept::default()).await;
    run.write(3).await;
    let mut kept = run.complete().await;
    drop(run);
    let share = Share { subtask: 2, total: 2 };
    let sink = kit::job::sink(&b, &config()).await;
    let error = sink.recover_share(share, kept.state.clone(), &|_| {}).await.map(|_| ()).unwrap_err();
    assert!(matches!(error, RecoverError::Naming(NamingError::NoSuchSubtask { subtask: 2, total: 2 })));
    kept.state.writers.remove(1);
    let refused = Run::try_start(&b, &config(), (2, Together::Whole), &kept).await;
    assert!(matches!(refused, Err(RecoverError::Naming(NamingError::Gap { subtask: 1, total: 3 }))));
}

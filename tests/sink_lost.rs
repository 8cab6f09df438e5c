//! Records of a complete checkpoint that are lost: the job fails, or goes on and says so.
#![cfg(feature = "broker")]
#![expect(clippy::unwrap_used, reason = "tests")]

mod kit;

use std::time::Duration;

use kafka_2pc::{
    broker::{Api, Fault, Reaction},
    proto::{
        pool::SlotState,
        recovery::{CommitAnswer, OnLost},
        resume::Outcome,
    },
    sink::{RecoverError, SinkConfig},
};
use kit::{
    Bench, both,
    job::{Kept, Run, Together},
    within,
};

fn config(on_lost: OnLost) -> SinkConfig {
    let mut config = SinkConfig::new("job").unwrap();
    config.on_lost = on_lost;
    config
}

/// A durable checkpoint of two subtasks, whose first transaction somebody else has aborted.
async fn lost(b: &Bench) -> Kept {
    let mut run = Run::start(b, &config(OnLost::Fail), 2, &Kept::default()).await;
    run.write(4).await;
    let prepared = run.prepare().await;
    let kept = run.durable(&prepared);
    run.killed().await;
    within(b.producer("job-0-0").init()).await.unwrap();
    kept
}

#[tokio::test]
async fn a_loss_stops_the_restart_and_skipped_it_is_told_once() {
    for profile in both() {
        let b = Bench::new(profile).await;
        let kept = lost(&b).await;
        for _ in 0..2 {
            let failed = Run::try_start(&b, &config(OnLost::Fail), (2, Together::Whole), &kept).await;
            let Err(RecoverError::NotCommitted(failed)) = failed else { panic!() };
            assert_eq!(failed.len(), 1);
        }
        let skip = config(OnLost::Skip);
        let mut run = Run::start(&b, &skip, 2, &kept).await;
        let [given_up] = &run.report.lost[..] else { panic!("{:?}", run.report.lost) };
        assert_eq!(given_up.committable.transactional_id.as_str(), "job-0-0");
        assert!(matches!(&given_up.result, Ok(r) if matches!(r.outcome, Outcome::Lost { .. })));
        assert_eq!(run.report.resumed.len(), 1, "the other one");
        let id = given_up.committable.transactional_id.clone();
        assert!(run.writers[0].slots().any(|(slot, state)| slot == 0 && *state == SlotState::Avoided));
        run.listed.retain(|(c, _)| c.transactional_id != id);
        run.settle().await;
        run.write(8).await;
        let kept = run.complete().await;
        drop(run);
        assert_eq!(b.committed().await, ["1", "3", "4", "6", "5", "7"], "0 and 2 are lost");
        let again = Run::start(&b, &skip, 2, &kept).await;
        assert!(again.report.lost.is_empty());
    }
}

#[tokio::test]
async fn a_commit_that_has_no_answer_is_not_given_up() {
    let b = Bench::new(kafka_2pc::broker::Profile::kafka_4_4()).await;
    let mut config = config(OnLost::Skip);
    config.commit_timeout = Some(Duration::from_millis(200));
    let mut run = Run::start(&b, &config, 1, &Kept::default()).await;
    run.write(1).await;
    let prepared = run.prepare().await;
    let kept = run.durable(&prepared);
    drop(run);
    for _ in 0..20 {
        let refused = Reaction::ErrorCode(14);
        b.broker.inject(Fault::on(Api::EndTxn, refused));
    }
    let pending = Run::try_start(&b, &config, (1, Together::Whole), &kept).await;
    let Err(RecoverError::NotCommitted(pending)) = pending else { panic!() };
    assert_eq!(pending[0].answer(OnLost::Skip), CommitAnswer::Failed);
    b.broker.clear_faults();
    assert_eq!(Run::start(&b, &config, 1, &kept).await.report.resumed.len(), 1);
}

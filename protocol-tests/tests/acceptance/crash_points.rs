//! Every crash point of the program, one by one: it dies there, and the next run leaves every record exactly once.

use std::time::{Duration, Instant};

use kafka_2pc_protocol_tests::foreign::{End, Writing};
use kafka_2pc_protocol_tests::harness::{Case, Failure, Ground, Size};
use kafka_2pc_protocol_tests::kafka::{self, Spec, Topic};

use crate::Outcome;
use crate::job::{Job, Plan};

const POINTS: [&str; 9] = [
    "write",
    "flush",
    "prepared",
    "store-half",
    "durable",
    "endtxn-sent",
    "endtxn-answered",
    "recovery-commit",
    "leftover-abort",
];
/// Some 10 checkpoints.
const PLAN: Plan<'_> = Plan { records: 3_000, rate: 3_000, interval_ms: 100, options: &[] };

pub(crate) fn cases() -> Vec<Case> {
    let full = Size::from_env() == Size::Full;
    let mut cases = Vec::new();
    for level in [2, 1] {
        for point in POINTS {
            for nth in [1, 3] {
                let name = format!("crash_points_{point}_{nth}");
                let body = move |ground: &Ground| crash_point(ground, point, nth);
                if point == "recovery-commit" && nth > 1 {
                    if full {
                        cases.push(Case::nodes(name.clone(), markers_can_wait(level), frozen_leader));
                    }
                    cases.push(Case::embedded(name, level, late_markers).options(&["--marker-delay", "2s"]));
                    continue;
                }
                // The quick size has every point once, and on V1 those where its transactions go another way.
                let other_way = matches!(point, "endtxn-sent" | "recovery-commit" | "leftover-abort");
                if full || (nth == 1 && (level == 2 || other_way)) {
                    let spec = Spec::default().transaction_version(level);
                    cases.push(Case::clients(name.clone(), spec, body));
                }
                if full || (nth == 3 && (level == 2 || other_way)) {
                    cases.push(Case::embedded(name, level, body));
                }
            }
        }
    }
    cases
}

fn crash_point(ground: &Ground, point: &'static str, nth: u64) -> Outcome {
    let job = Job::new(ground, &PLAN)?;
    match point {
        "endtxn-sent" => {
            job.crash(point, nth)?;
            decided(ground, &job, &committable_ids(&job)?)?;
        }
        "recovery-commit" => recovery_commit(ground, &job, nth)?,
        "leftover-abort" => leftover_abort(ground, &job, nth)?,
        _ => {
            job.crash(point, nth)?;
        }
    }
    job.finish()?;
    job.verify()?;
    job.expect_nothing_open(Duration::from_secs(5))
}

/// A committable is left by a crash before EndTxn; recovery sends its EndTxn and dies.
fn recovery_commit(ground: &Ground, job: &Job<'_>, nth: u64) -> Outcome {
    job.crash("durable", 1)?;
    let ids = committable_ids(job)?;
    expect_ongoing(ground, &ids)?;
    job.crash("recovery-commit", nth)?;
    decided(ground, job, &ids)
}

/// Transactions are left open by a crash before the checkpoint is durable, and by strangers that used the job's ids.
fn leftover_abort(ground: &Ground, job: &Job<'_>, nth: u64) -> Outcome {
    job.crash("prepared", 1)?;
    for slot in 1..nth {
        let id = format!("{}-0-{slot}", job.prefix);
        let writing = Writing { prefix: "leftover", ..Writing::new(ground.bootstrap(), &job.topic, &id) };
        ground.foreign()?.write(&writing, End::Open)?;
    }
    let leftovers = job.ids_in(&["Ongoing"])?;
    Failure::unless_equal("leftovers", u64::try_from(leftovers.len())?, nth)?;
    Failure::unless_equal("committables", job.committed_ids()?.len(), 0)?;
    job.crash("leftover-abort", nth)?;
    // Whatever was written to the socket arrives. An id may need more than one request, so not each of several is ended yet.
    let fewer = || Ok(job.ids_in(&["Ongoing"])?.len() < leftovers.len());
    within("an abort that was sent arrives", fewer)
}

/// Three nodes, each with coordinators of its own that need no other node, and dead nodes are noticed late.
fn markers_can_wait(level: u8) -> Spec {
    Spec::default()
        .nodes(3)
        .transaction_version(level)
        .extra("transaction.state.log.replication.factor", "1")
        .extra("transaction.state.log.min.isr", "1")
        .extra("broker.session.timeout.ms", "60000")
}

/// A frozen node can not take its marker, so that the transaction stays in PrepareCommit.
fn frozen_leader(ground: &Ground) -> Outcome {
    let cluster = ground.cluster()?;
    let prefix = ground.fresh("job");
    let coordinator = cluster.coordinator(&format!("{prefix}-0-0"))?;
    let frozen = coordinator % 3 + 1;
    let topic = Topic {
        assignment: vec![vec![i32::from(frozen)]],
        configs: vec![("min.insync.replicas".into(), "1".into())],
        ..Topic::new(&ground.fresh("flights"), 1)
    };
    kafka::create_topic(ground.bootstrap(), &topic)?;
    let mut job = Job::on(ground, &PLAN, topic.name, prefix)?;
    job.bootstrap = cluster.address(coordinator);
    recovery_commit_again(ground, &job, || Ok(cluster.pause(frozen)?), || Ok(cluster.cont(frozen)?))
}

/// The program's own broker takes its time with markers.
fn late_markers(ground: &Ground) -> Outcome {
    recovery_commit_again(ground, &Job::new(ground, &PLAN)?, || Ok(()), || Ok(()))
}

/// Recovery sends EndTxn a second and a third time only while the answer is "not yet".
fn recovery_commit_again(
    ground: &Ground,
    job: &Job<'_>,
    hold_markers: impl FnOnce() -> Outcome,
    release_markers: impl FnOnce() -> Outcome,
) -> Outcome {
    job.crash("durable", 1)?;
    let ids = committable_ids(job)?;
    expect_ongoing(ground, &ids)?;
    hold_markers()?;
    job.crash("recovery-commit", 1)?;
    job.crash("recovery-commit", 3)?;
    release_markers()?;
    decided(ground, job, &ids)?;
    job.finish()?;
    job.verify()?;
    job.expect_nothing_open(Duration::from_secs(5))
}

/// The ids of the committables that the job kept, of which there must be some.
fn committable_ids(job: &Job<'_>) -> Result<Vec<String>, Failure> {
    let ids = job.committed_ids()?;
    Failure::unless(!ids.is_empty(), "there is no committable")?;
    Ok(ids)
}

fn expect_ongoing(ground: &Ground, ids: &[String]) -> Outcome {
    for id in ids {
        let state = kafka::describe(ground.bootstrap(), id)?.map(|described| described.state);
        Failure::unless_equal(id, state.as_deref(), Some("Ongoing"))?;
    }
    Ok(())
}

/// One of these transactions, at least, comes to be committed without anybody's further help: a request had arrived.
fn decided(ground: &Ground, job: &Job<'_>, ids: &[String]) -> Outcome {
    within(&format!("EndTxn of {ids:?} arrives: {:?}", job.transactions()?), || {
        for id in ids {
            let state = kafka::describe(ground.bootstrap(), id)?.map(|described| described.state);
            if state.as_deref() == Some("CompleteCommit") {
                return Ok(true);
            }
        }
        Ok(false)
    })
}

fn within(what: &str, holds: impl Fn() -> Result<bool, Failure>) -> Outcome {
    let deadline = Instant::now() + Duration::from_secs(5);
    while !holds()? {
        Failure::unless(Instant::now() < deadline, format!("not within 5 s: {what}"))?;
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

//! The five common issues of the guide (`docs/operations.md`), each provoked by itself: the metric that the guide names shows it, the
//! log names cause and cure, and the cure ends it.

use std::path::Path;
use std::time::Duration;

use kafka_2pc_protocol_tests::foreign::{Library, Reading};
use kafka_2pc_protocol_tests::harness::{Case, Failure, Ground, Size};
use kafka_2pc_protocol_tests::kafka::{self, Detour, END_TXN, PRODUCE, Spec, Topic};

use crate::Outcome;
use crate::job::{Attempt, Job, PATIENCE, Plan};
use crate::metrics::{Metrics, SERVED, says};

/// How long something may take that must come.
const SOON: Duration = Duration::from_secs(40);

/// Some ten seconds of records in many checkpoints.
const PLAN: Plan<'_> = Plan { records: 3_000, rate: 300, interval_ms: 200, options: &SERVED };

/// Its transactions live for eight seconds, and it keeps many checkpoints to go back to.
const HASTY: Plan<'_> = Plan {
    options: &[
        "--metrics",
        "127.0.0.1:0",
        "--tolerated-outage",
        "0",
        "--set",
        "transaction.timeout.ms=8000",
        "--set",
        "state.checkpoints.num-retained=10",
    ],
    ..PLAN
};

type Body = fn(&Ground) -> Outcome;

pub(crate) fn cases() -> Vec<Case> {
    let levels: &[u8] = if Size::from_env() == Size::Full { &[2, 1] } else { &[2] };
    let mut cases = Vec::new();
    for &level in levels {
        let spec = Spec::default().transaction_version(level);
        cases.push(Case::nodes("common_issue_long_checkpoints", spec.clone().nodes(3), long_checkpoints));
        let bodies: [(&str, Body); 6] = [
            ("common_issue_commit_timeouts_cured_in_time", late_commits),
            ("common_issue_commit_timeouts_that_lose", lost_commits),
            ("common_issue_commit_timeouts_passed_over", passed_over),
            ("common_issue_pool_exhaustion", pool_exhaustion),
            ("common_issue_leaking_transactions", leaks),
            ("common_issue_fencing_on_restart", two_owners),
        ];
        cases.extend(bodies.map(|(name, body)| Case::clients(name, spec.clone(), body)));
    }
    cases
}

/// The cure was applied: the job comes to its end, everything is there once, and nothing is open.
fn cured(job: &Job<'_>, attempt: Attempt) -> Outcome {
    attempt.finished(PATIENCE)?;
    job.verify()?;
    job.expect_nothing_open(Duration::from_secs(10))
}

/// A flush waits for a replica that is in the way.
fn long_checkpoints(ground: &Ground) -> Outcome {
    let cluster = ground.cluster()?;
    // Nobody acknowledges without node 3, which leads nothing of this topic.
    let topic = Topic {
        assignment: vec![vec![1, 2, 3], vec![2, 1, 3]],
        configs: vec![("min.insync.replicas".into(), "3".into())],
        ..Topic::new(&ground.fresh("flights"), 2)
    };
    kafka::create_topic(ground.bootstrap(), &topic)?;
    let timeouts = ["--set", "transaction.timeout.ms=14000", "--set", "execution.checkpointing.timeout=12s"];
    let options: Vec<_> =
        SERVED.iter().chain(&["--tolerated-outage", "0"]).chain(&timeouts).copied().collect();
    let job = Job::on(ground, &Plan { options: &options, ..PLAN }, topic.name, ground.fresh("job"))?;
    let mut attempt = job.start()?;
    // Just behind a commit: one that is on its way could not come through, and would be lost with its timeout.
    attempt.wait_for("endtxn-answered", 3, SOON)?;
    cluster.pause(3)?;
    let half = |m: &Metrics| m.of("oldest_transaction_age_seconds") >= 7.0;
    attempt.wait_for_metrics("a transaction of half its timeout", SOON, half)?;
    let warning = ["the open transaction ", "50 % or more of transaction.timeout.ms = 14000"];
    let cure = ["The checkpoint takes long", "find the part that takes the time (`kafka-2pc timeline`)"];
    attempt.wait_for_words(&[warning, cure].concat(), SOON)?;
    let given_up =
        "was not prepared within 12s (execution.checkpointing.timeout): brokers have not acknowledged";
    let cure = "Look at their produce latency and under-replicated partitions";
    attempt.wait_for_words(&[given_up, cure, "going on from the last checkpoint"], SOON)?;
    cluster.cont(3)?;
    attempt.wait_for_metrics("another recovery", SOON, |m| m.of("recoveries_total") >= 2.0)?;
    attempt.wait_for_metrics("a checkpoint", SOON, |m| m.of("last_checkpoint_duration_seconds") < 12.0)?;
    cured(&job, attempt)?;
    let state = job.state().display().to_string();
    let told = job.command(&["timeline", "--state", &state]).run(PATIENCE)?.expect(0)?;
    says(&told, &["prepared"])
}

/// A job whose requests take another way.
fn behind<'a>(ground: &'a Ground, detour: &Detour, plan: &Plan<'_>) -> Result<Job<'a>, Failure> {
    let mut job = Job::new(ground, plan)?;
    job.bootstrap = detour.bootstrap();
    Ok(job)
}

/// Starts it, and holds its commits back from some checkpoints on.
fn hold_commits(job: &Job<'_>, detour: &Detour, options: &[&str]) -> Result<Attempt, Failure> {
    let mut attempt = job.start_with(options, None)?;
    attempt.wait_for("checkpoint", 5, SOON)?;
    detour.hold(END_TXN);
    attempt.wait_for_metrics("waiting commits", SOON, |m| m.of("pending_committables") >= 1.0)?;
    Ok(attempt)
}

fn late_commits(ground: &Ground) -> Outcome {
    let detour = Detour::start(ground.bootstrap())?;
    let job = behind(ground, &detour, &Plan { options: &SERVED, ..PLAN })?;
    let timeouts = ["--tolerated-outage", "0", "--set", "transaction.timeout.ms=14000"];
    let mut attempt = hold_commits(&job, &detour, &timeouts)?;
    attempt.wait_for_metrics("a transaction of half its timeout", SOON, |m| {
        m.of("oldest_transaction_age_seconds") >= 7.0
    })?;
    let warning = ["the prepared transaction ", "50 % or more of transaction.timeout.ms = 14000"];
    let cure = ["See what the commit waits for", "`kafka-2pc txn commit --state DIR`"];
    let waits = ["not decided for 5", "no answer so far. It is asked again; look at the network"];
    attempt.wait_for_words(&[warning, cure, waits].concat(), SOON)?;
    detour.release();
    attempt.wait_for_metrics("commits", SOON, |m| m.of("pending_committables") == 0.0)?;
    cured(&job, attempt)
}

/// Holds commits back until Kafka has aborted what they were for.
fn outlive(job: &Job<'_>, detour: &Detour, options: &[&str]) -> Result<Attempt, Failure> {
    let attempt = hold_commits(job, detour, options)?;
    job.expect_nothing_open(SOON)?;
    detour.release();
    Ok(attempt)
}

fn lost_commits(ground: &Ground) -> Outcome {
    let detour = Detour::start(ground.bootstrap())?;
    let job = behind(ground, &detour, &HASTY)?;
    let ended = outlive(&job, &detour, &[])?.past(PATIENCE)?.ended.expect(3)?;
    let cause = ["LOST: aborted by its timeout or by another owner of the id", "records)"];
    let cure = ["move its newest file `checkpoint-NUMBER` out of it", "longer than its transactions live"];
    says(&ended, &[cause, cure].concat())?;
    let aside = tempfile::tempdir()?;
    // As many files as are needed: while the message names transactions.
    for number in 0..10 {
        let past = job.start()?.past(PATIENCE)?;
        if past.ended.code() != Some(3) {
            past.ended.expect(0)?;
            Failure::unless(number > 0, "it went on without being told to go back")?;
            job.verify()?;
            return job.expect_nothing_open(Duration::from_secs(10));
        }
        move_newest(&job.state(), aside.path())?;
    }
    Err(Failure::of("no checkpoint is old enough"))
}

/// Moves the newest checkpoint out of a state.
fn move_newest(state: &Path, aside: &Path) -> Outcome {
    let names = std::fs::read_dir(state)?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let newest = names.filter(|name| name.starts_with("checkpoint-")).max();
    let newest = newest.ok_or_else(|| Failure::of("the state has no checkpoint"))?;
    std::fs::rename(state.join(&newest), aside.join(&newest)).map_err(Failure::from)
}

fn passed_over(ground: &Ground) -> Outcome {
    let detour = Detour::start(ground.bootstrap())?;
    let job = behind(ground, &detour, &HASTY)?;
    let mut attempt = outlive(&job, &detour, &["--on-lost", "skip"])?;
    attempt.wait_for_metrics("losses", SOON, |m| {
        m.of("failed_committables_total") >= 1.0 && m.of("lost_transactions_total") >= 1.0
    })?;
    attempt.wait_for_words(
        &["given up, and the job goes on without its ", "LOST: aborted by its timeout"],
        SOON,
    )?;
    // The gap was asked for; everything else is there once.
    let ended = attempt.past(PATIENCE)?.ended.expect(3)?;
    let report = ended.json()?;
    Failure::unless(report["finished"] == true && report["lost"] != 0, format!("{report}"))?;
    for library in Library::ALL {
        let reading = Reading::committed(library, ground.bootstrap(), &job.topic);
        let found = ground.foreign()?.compare(&reading, &job.input())?;
        let gap = found.lost > 0 && found.records + found.lost == PLAN.records;
        let rest = found.duplicated == 0 && found.unexpected == 0 && found.out_of_order == 0;
        Failure::unless(gap && rest, format!("{library:?}: {found:?}"))?;
    }
    job.expect_nothing_open(Duration::from_secs(10))
}

fn pool_exhaustion(ground: &Ground) -> Outcome {
    let detour = Detour::start(ground.bootstrap())?;
    let job = behind(ground, &detour, &PLAN)?;
    let mut attempt = hold_commits(&job, &detour, &["--set", "max.block.ms=6000"])?;
    attempt.wait_for_metrics("no free id", SOON, |m| {
        m.of("free_transactional_ids") == 0.0 && m.of("pending_committables") == 4.0
    })?;
    let numbers = "all 4 transactional ids of the writer are in use: 0 written, 4 waiting for their commit, 0 committed";
    let cure = [
        "nothing is written until one is free",
        "See what the commits wait for (commit timeouts)",
        "more slots",
    ];
    attempt.wait_for_words(&[numbers], SOON)?;
    attempt.wait_for_words(&cure, SOON)?;
    attempt
        .wait_for_words(&["longer than max.block.ms = 6000", "going on from the last checkpoint"], SOON)?;
    detour.release();
    attempt.wait_for_metrics("another recovery", SOON, |m| m.of("recoveries_total") >= 2.0)?;
    cured(&job, attempt)?;
    // More slots: as long a pause of the commits exhausts nothing.
    let roomy = behind(ground, &detour, &PLAN)?;
    let mut attempt = hold_commits(&roomy, &detour, &["--set", "sink.slots=200"])?;
    attempt.wait_for_metrics("many waiting commits, and free ids", SOON, |m| {
        m.of("pending_committables") > 8.0 && m.of("free_transactional_ids") > 0.0
    })?;
    detour.release();
    cured(&roomy, attempt)
}

/// What a dead job leaves, what a job leaves that cannot abort, and what a job leaves that never runs again.
fn leaks(ground: &Ground) -> Outcome {
    let detour = Detour::start(ground.bootstrap())?;
    let mut job = behind(ground, &detour, &Plan { interval_ms: 1_500, ..PLAN })?;
    job.crash("prepared", 3)?;
    let left = job.ids_in(&["Ongoing"])?;
    Failure::unless(!left.is_empty(), "nothing is left open")?;
    let cat = job.command(&["cat", "--topic", &job.topic, "--until-end"]).run(PATIENCE)?.expect(0)?;
    says(&cat, &["open transactions hide later records of ", "if their job is down, start it again"])?;
    let open = job.command(&["txn", "list", "--open", "--prefix", &job.prefix]).run(PATIENCE)?.expect(0)?;
    says(&open, &left.iter().map(String::as_str).collect::<Vec<_>>())?;
    // Started again, it aborts what it left. Then neither records nor aborts come through.
    let mut attempt = job.start_with(&["--set", "delivery.timeout.ms=3000"], None)?;
    attempt.wait_for_metrics("an aborted leftover", SOON, |m| m.of("aborted_transactions_total") == 1.0)?;
    attempt.wait_for("checkpoint", 2, SOON)?;
    attempt.freeze(&job)?;
    detour.hold(PRODUCE);
    detour.hold(END_TXN);
    attempt.running.cont()?;
    let warning = ["the open transaction is left to the next recovery", "until the job is started again"];
    attempt.wait_for_words(&warning, SOON)?;
    // Its next life recovers by another way.
    attempt.kill()?;
    job.bootstrap = ground.bootstrap().to_owned();
    let mut attempt = job.start()?;
    attempt
        .wait_for_metrics("another aborted leftover", SOON, |m| m.of("aborted_transactions_total") >= 1.0)?;
    cured(&job, attempt)?;
    // Its state is lost, too: nobody will ever start it again.
    let gone = Job::new(ground, &PLAN)?;
    gone.crash("prepared", 2)?;
    std::fs::remove_dir_all(gone.state())?;
    let words = ["txn", "leftovers", "--prefix", &gone.prefix, "--abort", "--force"];
    gone.command(&words).run(PATIENCE)?.expect(0)?;
    gone.expect_nothing_open(Duration::from_secs(10))?;
    let anew = Job::new(ground, &PLAN)?;
    cured(&anew, anew.start()?)
}

/// A job is frozen while it writes, and somebody starts a copy of it; then it wakes up.
fn two_owners(ground: &Ground) -> Outcome {
    let detour = Detour::start(ground.bootstrap())?;
    let job = behind(ground, &detour, &PLAN)?;
    let mut attempt = job.start_with(&["--set", "restart-strategy.fixed-delay.delay=5s"], None)?;
    attempt.wait_for("checkpoint", 5, SOON)?;
    attempt.freeze(&job)?;
    // Records are on their way when it falls asleep: the answer to them tells the fence.
    detour.hold(PRODUCE);
    attempt.running.cont()?;
    Failure::unless(detour.wait_held(SOON), "nothing was sent".to_owned())?;
    attempt.running.pause()?;
    let mut copy = job.copy()?;
    copy.bootstrap = ground.bootstrap().to_owned();
    let words = attempt.running.output();
    let taken = job.start()?.past(PATIENCE)?.ended.expect(1)?;
    says(&taken, &["is in use by another process", "a job's state has one owner at a time"])?;
    let mut second = copy.start()?;
    second.wait_for_metrics("the leftover of the other one", SOON, |m| {
        m.of("aborted_transactions_total") == 1.0
    })?;
    cured(&copy, second)?;
    Failure::unless_equal("what the frozen job says", attempt.running.output(), words)?;
    detour.release();
    attempt.running.cont()?;
    attempt.wait_for_metrics("a fence", SOON, |m| m.of("fenced_total") == 1.0)?;
    let cause = ["Another owner has taken the transactional id over", "going on from the last checkpoint"];
    let cure = [
        "If the former process still runs, or the state was copied, stop one of the two",
        "give each its own",
    ];
    attempt.wait_for_words(&[cause, cure].concat(), SOON)?;
    // It does no harm: what the other one has committed stands in its way.
    let ended = attempt.past(PATIENCE)?.ended.expect(1)?;
    says(&ended, &["is not the newest of this job"])?;
    cured(&copy, copy.start()?)
}

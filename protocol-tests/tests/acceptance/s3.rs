//! The state of a job in S3, on a server of somebody else: kills, looks beside the job, and a server that is away or
//! cannot be used.

use std::time::{Duration, Instant};

use kafka_2pc_protocol_tests::harness::{Case, Failure, Ground, Size};
use kafka_2pc_protocol_tests::kafka::Spec;
use kafka_2pc_protocol_tests::program::{Ended, Running};
use kafka_2pc_protocol_tests::s3::{S3, SECRET, Writes};

use crate::Outcome;
use crate::job::{Job, PATIENCE, Plan};
use crate::random::Random;
use crate::rounds::nothing_open;

/// What is killed leaves a lease behind, which the next one waits for.
const PLAN: Plan<'_> = Plan { records: 8_000, rate: 1_000, interval_ms: 200, options: &["--lease", "2s"] };
const SHORT: Plan<'_> = Plan { records: 2_000, ..PLAN };
const KILLS: u32 = 5;

pub(crate) fn cases() -> Vec<Case> {
    let full = Size::from_env() == Size::Full;
    let levels: &[u8] = if full { &[2, 1] } else { &[2] };
    let killed = |&level: &u8| {
        let spec = Spec::default().transaction_version(level);
        Case::clients("s3_keeps_the_state_of_a_pipe_that_is_killed", spec, killed)
    };
    let mut cases: Vec<_> = levels.iter().map(killed).collect();
    cases.extend([
        Case::embedded("s3_that_is_away_for_a_while_costs_nothing", 2, away),
        Case::embedded("s3_that_cannot_be_used_is_told_before_anything_is_written", 2, unusable),
        Case::embedded("s3_costs_a_few_requests_a_checkpoint", 2, counted),
    ]);
    if full {
        cases.push(Case::embedded("s3_that_stays_away_ends_the_job_and_loses_nothing", 2, stays_away));
    }
    cases
}

/// A job with its state in a bucket.
fn job<'a>(ground: &'a Ground, plan: &Plan<'_>, server: &S3) -> Result<Job<'a>, Failure> {
    let mut job = Job::new(ground, plan)?;
    job.place = Some(server.url(&format!("jobs/{}", job.prefix)));
    job.environment = server.environment();
    Ok(job)
}

/// One moment of each kind by name, and others at random.
fn killed(ground: &Ground) -> Outcome {
    let server = S3::start(Writes::Conditional)?;
    let job = job(ground, &PLAN, &server)?;
    for point in ["prepared", "store-half", "durable", "endtxn-sent"] {
        job.crash(point, 2)?;
    }
    let mut random = Random::seeded();
    for kill in 0..KILLS {
        let mut attempt = job.start()?;
        attempt.wait_for("checkpoint", 1, PATIENCE)?;
        if attempt.running.ended_within(random.within(Duration::from_millis(500)))? {
            return Err(attempt
                .past(PATIENCE)?
                .ended
                .strange(&format!("it ended before kill {kill}"))
                .into());
        }
        // Nobody who looks takes the lease.
        let looked = job.look(&["checkpoints", "verify"])?;
        Failure::unless(looked.stdout.contains("no faults"), &looked.stdout)?;
        attempt.kill()?;
    }
    let past = job.start_with(&["-vv"], None)?.finished(PATIENCE)?;
    let told = format!("{}{}", past.ended.stdout, past.ended.stderr);
    Failure::unless(!told.contains(SECRET) && !told.contains("Signature="), "a secret is told")?;
    job.verify()?;
    let timeline = job.look(&["timeline"])?;
    Failure::unless(timeline.stdout.contains("visible"), &timeline.stdout)?;
    nothing_open(ground, &job.prefix)
}

fn away(ground: &Ground) -> Outcome {
    let server = S3::start(Writes::Conditional)?;
    let job = job(ground, &SHORT, &server)?;
    let mut attempt = job.start()?;
    attempt.wait_for("checkpoint", 2, PATIENCE)?;
    server.take_down()?;
    refused(&server, 10)?;
    server.bring_up()?;
    attempt.finished(PATIENCE)?;
    job.verify()
}

/// Waits until the server has turned away so many requests from now on.
fn refused(server: &S3, requests: usize) -> Outcome {
    let count = || server.requests().iter().filter(|request| request.status == 503).count();
    let (before, deadline) = (count(), Instant::now() + PATIENCE);
    while count() < before + requests {
        Failure::unless(Instant::now() < deadline, "nobody asks the server")?;
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn stays_away(ground: &Ground) -> Outcome {
    let server = S3::start(Writes::Conditional)?;
    let job = job(ground, &SHORT, &server)?;
    let options = ["--set", "restart-strategy.fixed-delay.attempts=0"];
    let mut attempt = job.start_with(&options, None)?;
    attempt.wait_for("checkpoint", 2, PATIENCE)?;
    server.take_down()?;
    let ended = attempt.past(2 * PATIENCE)?.ended.expect(1)?;
    expect_told(
        &ended,
        &["does not answer", "ServiceUnavailable", "last complete checkpoint", "goes on from there"],
    )?;
    server.bring_up()?;
    job.finish()?;
    job.verify()
}

fn unusable(ground: &Ground) -> Outcome {
    let server = S3::start(Writes::Conditional)?;
    let mut job = job(ground, &SHORT, &server)?;
    let place = job.place.clone();
    let ended = |job: &Job<'_>| -> Result<Ended, Failure> {
        let running: Running = job.start()?.running;
        Ok(running.wait(PATIENCE)?.expect(1)?)
    };

    job.place = Some("s3://nowhere/p".to_owned());
    expect_told(&ended(&job)?, &["s3://nowhere/p", "there is no such bucket", "Create it"])?;
    job.place = place;

    job.environment.retain(|(name, _)| *name != "AWS_ACCESS_KEY_ID" && *name != "AWS_SECRET_ACCESS_KEY");
    job.environment.push(("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1".to_owned()));
    expect_told(&ended(&job)?, &["no credentials", "AWS_ACCESS_KEY_ID"])?;

    job.environment = server.environment();
    job.environment.push(("AWS_ENDPOINT_URL", "http://127.0.0.1:1".to_owned()));
    expect_told(&ended(&job)?, &["does not answer", "Connection refused", "goes on from there"])?;

    let careless = S3::start(Writes::Unconditional)?;
    job.environment = careless.environment();
    expect_told(&ended(&job)?, &["two jobs could own one state", "If-None-Match"])?;
    Failure::unless(!careless.requests().iter().any(|r| r.path.contains("/heads/")), "it became the owner")?;

    job.environment = server.environment();
    job.finish()?;
    job.verify()
}

/// What is in `docs/sizing.md`.
fn counted(ground: &Ground) -> Outcome {
    let server = S3::start(Writes::Conditional)?;
    let plan = Plan { options: &["--lease", "10m"], ..SHORT };
    let job = job(ground, &plan, &server)?;
    let report = job.finish()?.ended.json()?;
    let checkpoints = report["checkpoints"].as_f64().unwrap_or_default();
    Failure::unless(checkpoints >= 5.0, format!("{checkpoints} checkpoints"))?;
    let counts = server.counts();
    eprintln!("{checkpoints} checkpoints: {counts:?}");
    let of = |method: &str| counts.get(method).copied().unwrap_or_default() as f64;
    // A committable, a checkpoint, a head; what is done once is shared by all.
    let puts = of("PUT") / checkpoints;
    Failure::unless(puts < 4.5, format!("{puts} PUT a checkpoint: {counts:?}"))?;
    let lists = of("LIST") / checkpoints;
    Failure::unless(lists < 2.5, format!("{lists} LIST a checkpoint: {counts:?}"))
}

fn expect_told(ended: &Ended, words: &[&str]) -> Outcome {
    for word in words {
        if !ended.stderr.contains(word) {
            return Err(ended.strange(&format!("it does not say {word:?}")).into());
        }
    }
    let told = format!("{}{}", ended.stdout, ended.stderr);
    Failure::unless(!told.contains(SECRET), "a secret is told")
}

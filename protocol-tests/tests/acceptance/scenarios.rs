//! What can fail between the decision of a checkpoint and its commits, one scenario after the other, with a job of several subtasks.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use kafka_2pc_protocol_tests::foreign::Library;
use kafka_2pc_protocol_tests::harness::{Case, Failure, Ground, Size};
use kafka_2pc_protocol_tests::kafka::{self, KafkaCluster, Spec};

use crate::Outcome;
use crate::job::{Attempt, Past};
use crate::keyed::{EXACTLY_ONCE, Input, KeyedJob, Shape};
use crate::random::Random;
use crate::rounds::nothing_open;

pub(crate) fn cases() -> Vec<Case> {
    let mut levels = vec![2];
    if Size::from_env() == Size::Full {
        levels.push(1);
    }
    let scripted: [(&str, &'static [&'static str]); 3] = [
        ("scenarios_the_process_dies_between_prepare_and_notification", &["prepared", "durable"]),
        ("scenarios_the_process_dies_between_notification_and_commit", &["endtxn-sent", "endtxn-answered"]),
        ("scenarios_the_coordinator_dies_at_the_decision", &["store-half", "durable"]),
    ];
    let mut cases = Vec::new();
    for level in levels {
        let spec = Spec::default().transaction_version(level);
        for (name, points) in scripted {
            let body = move |ground: &Ground| deaths(ground, points);
            cases.push(Case::clients(name, spec.clone(), body));
        }
        let name = "scenarios_the_transaction_coordinator_dies_during_the_commit";
        cases.push(Case::nodes(name, spec.nodes(3), coordinator_deaths));
    }
    cases
}

const RECORDS: u64 = 3_000;
const KEYS: u64 = 50;

fn repetitions(ground: &Ground) -> u64 {
    ground.size().pick(2, 20)
}

fn shape(random: &mut Random) -> Shape {
    let mode = EXACTLY_ONCE[usize::try_from(random.below(3)).unwrap_or(0)];
    Shape { operators: 2, sinks: 2, mode, interval_ms: 100, rate: 3_000 }
}

/// The job dies at a point, and the next run makes good for it.
fn deaths(ground: &Ground, points: &[&str]) -> Outcome {
    let mut random = Random::seeded();
    let input = Input::write(ground, &mut random, RECORDS, KEYS)?;
    for repetition in 0..repetitions(ground) {
        for point in points {
            // The first passage leaves no doubt about what there is to recover; later ones have a past.
            let nth = 1 + (repetition % 2) * random.below(6);
            let job = KeyedJob::new(ground, &input)?;
            let last = death(&job, &shape(&mut random), point, nth);
            let last = last.map_err(|e| Failure::of(format!("{point}:{nth}: {e}")))?;
            let library = Library::ALL[usize::try_from(repetition % 2)?];
            job.verify_with(library).map_err(|e| Failure::of(format!("{point}:{nth}: {e}")))?;
            let report = last.ended.json()?;
            eprintln!("{point}:{nth} resumed {} aborted {}", report["resumed"], report["aborted"]);
            if repetition + 1 == repetitions(ground) {
                nothing_open(ground, &job.prefix)?;
            }
        }
    }
    Ok(())
}

/// Dies, and says how the run after it went, of which it is known what it had to do.
fn death(job: &KeyedJob<'_>, shape: &Shape, point: &str, nth: u64) -> Result<Past, Failure> {
    job.crash(shape, point, nth)?;
    let kept = u64::try_from(job.committable_ids()?.len())?;
    let last = job.finish(&Shape { rate: 0, ..*shape })?;
    let report = last.ended.json()?;
    let number = |field: &str| report[field].as_u64().unwrap_or(0);
    let (resumed, aborted) = (number("resumed"), number("aborted"));
    let told = format!("{kept} committables kept, {report}");
    match (point, nth) {
        // No checkpoint was complete: there is nothing to commit, and what was written is aborted at once.
        ("prepared" | "store-half", 1) => Failure::unless(resumed == 0 && aborted >= 1, told)?,
        ("prepared" | "store-half", _) => Failure::unless(aborted >= 1, told)?,
        // The first checkpoint is complete, and nobody heard of it.
        ("durable", 1) => Failure::unless(resumed == kept && kept >= 1, told)?,
        _ => Failure::unless(resumed >= 1, told)?,
    }
    Failure::unless_equal("restarts", number("restarts"), 0)?;
    Ok(last)
}

const CATCH_UP: Duration = Duration::from_secs(180);

/// Three replicas of everything, so that any one node can be spared: the job goes on by itself. Not every death falls into a commit, so
/// there may have to be another job.
fn coordinator_deaths(ground: &Ground) -> Outcome {
    const JOBS: u32 = 6;
    let wanted = repetitions(ground);
    let mut random = Random::seeded();
    let (mut deaths, mut jobs) = (Deaths::default(), 0);
    while deaths.counted < wanted {
        jobs += 1;
        Failure::unless(jobs <= JOBS, format!("{deaths:?} in {JOBS} jobs, {wanted} were wanted"))?;
        coordinator_deaths_of_a_job(ground, &mut random, wanted, &mut deaths)?;
    }
    eprintln!("coordinators that died: {deaths:?}, jobs: {jobs}");
    Ok(())
}

/// Coordinators that died during a commit, and at other moments.
#[derive(Debug, Default)]
struct Deaths {
    counted: u64,
    uncounted: u64,
}

fn coordinator_deaths_of_a_job(
    ground: &Ground,
    random: &mut Random,
    wanted: u64,
    deaths: &mut Deaths,
) -> Outcome {
    let cluster = ground.cluster()?;
    let rate = 500;
    // Seconds for a death and the return of the node, which takes some 8 on an idle machine.
    let each = ground.size().pick(12, 20);
    let input = Input::write(ground, random, (wanted - deaths.counted + 1) * each * rate, 1_000)?;
    let job = KeyedJob::new(ground, &input)?;
    let shape = Shape { rate, ..shape(random) };
    let mut attempt = job.start(&shape, None)?;
    while deaths.counted < wanted {
        let seen = attempt.trace()?.count("endtxn-answered");
        if !passes(&mut attempt, "endtxn-answered", seen + 8)? {
            break;
        }
        let Some((node, during_commit)) = kill_coordinator(ground, cluster, &job, &mut attempt)? else {
            break;
        };
        *(if during_commit { &mut deaths.counted } else { &mut deaths.uncounted }) += 1;
        cluster.wait_ready()?;
        cluster.start_node(node)?;
        cluster.wait_ready()?;
    }
    let started = Instant::now();
    let last = attempt.finished(Duration::from_secs(wanted * each) + CATCH_UP)?;
    eprintln!("the rest took {:?}: {}", started.elapsed(), last.ended.json()?);
    // The client finds the new coordinator; nothing had to go back to a checkpoint.
    Failure::unless_equal("restarts", last.ended.json()?["restarts"].clone(), 0.into())?;
    job.verify()?;
    nothing_open(ground, &job.prefix)
}

/// Waits until the trace shows this many passages of a point. False when the job ended before.
fn passes(attempt: &mut Attempt, point: &str, passages: usize) -> Result<bool, Failure> {
    let deadline = Instant::now() + CATCH_UP;
    loop {
        if attempt.trace()?.count(point) >= passages {
            return Ok(true);
        }
        if attempt.running.ended_within(Duration::ZERO)? {
            return Ok(false);
        }
        let told = || format!("{point} was not passed {passages} times:\n{}", attempt.running.output());
        if Instant::now() >= deadline {
            return Err(Failure::of(told()));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Waits until a checkpoint is durable, kills the coordinator of one of its transactions at once, and says which node it was, and
/// whether a commit had no answer by then. None when the job ended before.
fn kill_coordinator(
    ground: &Ground,
    cluster: &KafkaCluster,
    job: &KeyedJob<'_>,
    attempt: &mut Attempt,
) -> Result<Option<(u8, bool)>, Failure> {
    let mut coordinators = BTreeMap::new();
    for transaction in kafka::transactions(ground.bootstrap(), &job.prefix)? {
        let id = transaction.transactional_id;
        let node = cluster.coordinator(&id)?;
        coordinators.insert(id, node);
    }
    let before = attempt.trace()?;
    if !passes(attempt, "durable", before.count("durable") + 1)? {
        return Ok(None);
    }
    let newest = job.committable_ids()?.pop();
    let node = newest.and_then(|id| coordinators.get(&id).copied());
    let node = node.or_else(|| coordinators.values().next().copied());
    let node = node.ok_or_else(|| Failure::of("the job has no transactional id"))?;
    cluster.kill(node)?;
    std::thread::sleep(Duration::from_millis(100));
    let trace = attempt.trace()?;
    let unanswered = trace.count("endtxn-sent") > trace.count("endtxn-answered");
    let none_answered = trace.count("endtxn-answered") == before.count("endtxn-answered");
    Ok(Some((node, unanswered || none_answered)))
}

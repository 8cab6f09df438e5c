//! Brokers that die under a running pipe, which goes on by itself.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use kafka_2pc_protocol_tests::harness::{Case, Failure, Ground, Size};
use kafka_2pc_protocol_tests::kafka::{KafkaCluster, Spec};

use crate::Outcome;
use crate::job::{Attempt, Job, Plan};
use crate::random::Random;

pub(crate) fn cases() -> Vec<Case> {
    let mut levels = vec![2];
    if Size::from_env() == Size::Full {
        levels.push(1);
    }
    let spec = |level| Spec::default().transaction_version(level);
    let kills = |level: &u8| {
        let name = "coordinator_kills_during_commits_leave_every_record_once";
        Case::nodes(name, spec(*level).nodes(3), coordinator_kills)
    };
    let restarts = |level: &u8| {
        let name = "single_node_restarts_leave_every_record_once";
        Case::nodes(name, spec(*level), single_node_restarts)
    };
    levels.iter().map(kills).chain(levels.iter().map(restarts)).collect()
}

/// How long the input lasts, whatever happens, and how long the pipe may take after that.
fn plan(seconds: u64) -> Plan<'static> {
    // The longest job is 420 s, and the data set has 100,000 lines.
    let rate = 230;
    Plan { records: seconds * rate, rate, interval_ms: 100, options: &["--repair-hanging"] }
}

const CATCH_UP: Duration = Duration::from_secs(180);

/// Three replicas of everything, so that any one node can be spared. A kill counts if an EndTxn of its node was under way.
fn coordinator_kills(ground: &Ground) -> Outcome {
    let (wanted, seconds) = ground.size().pick((1, 30), (10, 330));
    let cluster = ground.cluster()?;
    let job = Job::new(ground, &Plan { options: &[], ..plan(seconds) })?;
    let mut attempt = job.start()?;
    let (mut counted, mut uncounted) = (0, 0);
    while counted < wanted {
        // Every id of the pool has been used, and the job goes on after the last kill.
        let seen = attempt.trace()?.count("endtxn-answered");
        attempt.wait_for("endtxn-answered", seen + 8, CATCH_UP)?;
        let (node, during_commit) = kill_coordinator(cluster, &job, &mut attempt)?;
        *(if during_commit { &mut counted } else { &mut uncounted }) += 1;
        cluster.wait_ready()?;
        cluster.start_node(node)?;
        cluster.wait_ready()?;
        // On a slow machine the input may end while the last node starts.
        if counted < wanted {
            still_running(&mut attempt)?;
        }
    }
    eprintln!("coordinators killed during a commit: {counted}, at other moments: {uncounted}");
    attempt.finished(Duration::from_secs(seconds) + CATCH_UP)?;
    job.verify()?;
    job.expect_nothing_open(Duration::from_secs(5))
}

/// Waits until a checkpoint is durable, kills the coordinator of its transaction at once, and says which node it was, and whether the
/// commit had no answer by then.
fn kill_coordinator(
    cluster: &KafkaCluster,
    job: &Job<'_>,
    attempt: &mut Attempt,
) -> Result<(u8, bool), Failure> {
    let mut coordinators = BTreeMap::new();
    for transaction in job.transactions()? {
        let id = transaction.transactional_id;
        let node = cluster.coordinator(&id)?;
        coordinators.insert(id, node);
    }
    let seen = attempt.trace()?.count("durable");
    attempt.wait_for("durable", seen + 1, CATCH_UP)?;
    let newest = job.committed_ids()?.pop();
    let node = newest.and_then(|id| coordinators.get(&id).copied());
    let node = node.or_else(|| coordinators.values().next().copied());
    let node = node.ok_or_else(|| Failure::of("the job has no transactional id"))?;
    cluster.kill(node)?;
    std::thread::sleep(Duration::from_millis(100));
    let trace = attempt.trace()?;
    Ok((node, trace.count("endtxn-answered") < seen + 1))
}

/// The only node dies and comes back. Where a marker is lost by that (KAFKA-20734), the pipe writes it.
fn single_node_restarts(ground: &Ground) -> Outcome {
    let (restarts, down, seconds) = ground.size().pick((1, 8, 35), (10, 20, 420));
    let cluster = ground.cluster()?;
    let mut random = Random::seeded();
    let job = Job::new(ground, &plan(seconds))?;
    let mut attempt = job.start()?;
    for number in 1..=restarts {
        let seen = attempt.trace()?.count("checkpoint");
        attempt.wait_for("checkpoint", seen + 5, CATCH_UP)?;
        std::thread::sleep(random.within(Duration::from_secs(1)));
        let phase = attempt.trace()?.phase();
        cluster.kill(1)?;
        std::thread::sleep(Duration::from_secs(down));
        let started = Instant::now();
        cluster.start_node(1)?;
        cluster.wait_ready()?;
        if number < restarts {
            still_running(&mut attempt)?;
        }
        eprintln!("restart {number}: killed in {phase:?}, ready again after {:?}", started.elapsed());
    }
    let past = attempt.finished(Duration::from_secs(seconds) + CATCH_UP)?;
    Failure::unless_equal("hanging", past.ended.json()?["hanging"].clone(), 0.into())?;
    job.verify()?;
    job.expect_nothing_open(Duration::from_secs(5))
}

fn still_running(attempt: &mut Attempt) -> Outcome {
    let ended = attempt.running.ended_within(Duration::ZERO)?;
    Failure::unless(!ended, format!("the pipe ended early:\n{}", attempt.running.output()))
}

//! A partition that has no leader while its transaction is decided. Kafka 4.3 and 4.4 then lose the marker (KAFKA-20734): readers
//! stall, and whoever uses the producer id again decides the old records with the new ones.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kafka_2pc_protocol_tests::foreign::{End, Library, Reading, Step, Writing};
use kafka_2pc_protocol_tests::harness::{Case, Failure, Ground, Size};
use kafka_2pc_protocol_tests::kafka::{self, Described, KafkaCluster, OpenProducer, Spec, Topic};
use kafka_2pc_protocol_tests::program::Ended;
use serde_json::Value;

use crate::Outcome;
use crate::job::{Job, PATIENCE, Plan};

/// Some ten checkpoints.
const PLAN: Plan<'_> = Plan { records: 600, rate: 300, interval_ms: 200, options: &[] };

/// Switches the rule off that an id rests until its last decision is everywhere.
const UNSAFE: [(&str, &str); 1] = [("KAFKA_2PC_UNSAFE_REUSE", "1")];

type Body = fn(&Lonely<'_>) -> Outcome;

pub(crate) fn cases() -> Vec<Case> {
    let full = Size::from_env() == Size::Full;
    // A name, a test, and the levels at which the quick size runs it.
    let bodies: [(&str, Body, &[u8]); 16] = [
        ("commit_waits_for_the_leader", commit_waits, &[2]),
        ("commit_that_does_not_wait_hangs_until_repaired", commit_hangs, &[2, 1]),
        ("commit_is_repaired_by_pipe_when_told", pipe_repairs, &[2]),
        ("commit_is_lost_when_somebody_reuses_its_id", reuse_loses, &[2]),
        ("counter_test_an_id_used_again_at_once_destroys_the_commit", reuse_destroys, &[2]),
        ("fence_hangs_until_repaired", |lonely| abort_hangs(lonely, hang_fence), &[2]),
        ("fence_is_repaired_by_pipe_when_told", |lonely| pipe_repairs_abort(lonely, hang_fence), &[1]),
        ("abort_hangs_until_repaired", |lonely| abort_hangs(lonely, hang_abort), &[1]),
        ("abort_is_repaired_by_pipe_when_told", |lonely| pipe_repairs_abort(lonely, hang_abort), &[]),
        ("fence_is_published_when_somebody_reuses_its_id", reuse_publishes, &[1]),
        (
            "counter_test_an_id_used_again_at_once_publishes_the_fenced",
            |lonely| own_reuse_publishes(lonely, hang_fence),
            &[2],
        ),
        (
            "counter_test_an_id_used_again_at_once_publishes_the_aborted",
            |lonely| own_reuse_publishes(lonely, hang_abort),
            &[],
        ),
        ("recovery_publishes_nothing_twice", |lonely| recovery_fences(lonely, Repair::Later), &[]),
        ("recovery_repairs_its_fence_when_told", |lonely| recovery_fences(lonely, Repair::ByPipe), &[]),
        ("end_of_a_failing_pipe_publishes_nothing_twice", |lonely| failing_pipe(lonely, Repair::Later), &[]),
        ("end_of_a_failing_pipe_is_repaired_when_told", |lonely| failing_pipe(lonely, Repair::ByPipe), &[]),
    ];
    let mut cases = Vec::new();
    for (name, body, quick) in bodies {
        for level in [2, 1].into_iter().filter(|level| full || quick.contains(level)) {
            let spec = Spec::default().nodes(3).transaction_version(level);
            let body = move |ground: &Ground| body(&Lonely::new(ground)?);
            cases.push(Case::nodes(format!("leaderless_{name}"), spec, body));
        }
    }
    cases
}

/// Who writes the markers that a job's own aborts may miss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Repair {
    /// `txn repair --state`, after the job.
    Later,
    /// `pipe --repair-hanging`.
    ByPipe,
}

impl Repair {
    fn options(self) -> &'static [&'static str] {
        match self {
            Self::Later => &[],
            Self::ByPipe => &["--repair-hanging"],
        }
    }
}

/// A job whose topic has one partition with one replica, on a node that does not coordinate its first transaction.
struct Lonely<'a> {
    ground: &'a Ground,
    cluster: &'a KafkaCluster,
    job: Job<'a>,
    node: u8,
}

/// What is known of a transaction whose marker is missing. Requests other than Describe would change it.
#[derive(Debug, PartialEq, Eq)]
struct Hanging {
    described: Option<Described>,
    open: OpenProducer,
}

impl<'a> Lonely<'a> {
    fn new(ground: &'a Ground) -> Result<Self, Failure> {
        let cluster = ground.cluster()?;
        let prefix = ground.fresh("lonely");
        let node = cluster.coordinator(&format!("{prefix}-0-0"))? % 3 + 1;
        let topic = Topic {
            assignment: vec![vec![i32::from(node)]],
            configs: vec![("min.insync.replicas".into(), "1".into())],
            ..Topic::new(&ground.fresh("lonely"), 1)
        };
        kafka::create_topic(ground.bootstrap(), &topic)?;
        let job = Job::on(ground, &PLAN, topic.name, prefix)?;
        Ok(Self { ground, cluster, job, node })
    }

    /// Kills the node, and returns when its partition has no leader.
    fn lose_leader(&self) -> Outcome {
        self.cluster.kill(self.node)?;
        self.cluster.wait_ready().map_err(Failure::from)
    }

    fn bring_back(&self) -> Outcome {
        self.cluster.restore().map_err(Failure::from)
    }

    /// Pipes up to the first checkpoint that is durable and not committed: the file of its committable, and its id.
    fn stop_after_durable(&self) -> Result<(PathBuf, String), Failure> {
        let past = self.job.start_with(&["--stop-after", "durable"], None)?.past(PATIENCE)?;
        let ended = past.ended.expect(0)?;
        let line = ended.json_with("committable")?;
        let word = |name: &str| {
            let word = line[name].as_str().map(str::to_owned);
            word.ok_or_else(|| ended.strange(&format!("it names no {name}")))
        };
        let (file, id) = (PathBuf::from(word("committable")?), word("transactional_id")?);
        Failure::unless(file.is_absolute() && file.is_file(), format!("{} is no file", file.display()))?;
        Ok((file, id))
    }

    fn txn(&self, verb: &str, what: &str, options: &[&str]) -> Result<Ended, Failure> {
        let words: Vec<_> = ["txn", verb, what, "--json"].iter().chain(options).copied().collect();
        Ok(self.job.command(&words).run(PATIENCE)?)
    }

    /// `txn commit FILE`, which must end with this code and this outcome.
    fn commit(
        &self,
        file: &Path,
        options: &[&str],
        expected: (i32, &str),
    ) -> Result<(Ended, Value), Failure> {
        let (code, outcome) = expected;
        let ended = self.txn("commit", &file.display().to_string(), options)?.expect(code)?;
        let told = ended.json()?;
        if told["outcome"] == *outcome {
            return Ok((ended, told));
        }
        Err(ended.strange(&format!("the outcome is not {outcome}")).into())
    }

    fn repair(&self, file: &Path) -> Result<Ended, Failure> {
        Ok(self.txn("repair", &file.display().to_string(), &[])?.expect(0)?)
    }

    fn hanging(&self, id: &str) -> Result<Hanging, Failure> {
        let described = kafka::describe(self.ground.bootstrap(), id)?;
        let open = kafka::open_producers(self.ground.bootstrap(), &self.job.topic, 0)?;
        let mine = described.as_ref().map(|described| described.producer_id);
        let open = open.into_iter().find(|open| Some(open.producer_id) == mine);
        let open = open.ok_or_else(|| Failure::of(format!("nothing of {id} hangs: {described:?}")))?;
        Ok(Hanging { described, open })
    }

    /// How many records foreign readers see.
    fn visible(&self) -> Result<usize, Failure> {
        let venv = self.ground.foreign()?;
        let [one, other] = Library::ALL
            .map(|library| venv.read(&Reading::committed(library, self.ground.bootstrap(), &self.job.topic)));
        let (one, other) = (one?.len(), other?.len());
        Failure::unless_equal("aiokafka against librdkafka", other, one)?;
        Ok(one)
    }

    /// A stock client takes the id and ends a transaction under it: how many records it wrote.
    fn write_as(&self, id: &str, end: End) -> Result<usize, Failure> {
        let writing = Writing::new(self.ground.bootstrap(), &self.job.topic, id);
        self.ground.foreign()?.write(&writing, end)?;
        Ok(usize::try_from(writing.records)?)
    }

    /// True when one of these transactions is aborted within this time.
    fn abort_within(&self, ids: &BTreeSet<String>, limit: Duration) -> Result<bool, Failure> {
        let deadline = Instant::now() + limit;
        let mut aborted = false;
        while !aborted && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(100));
            // A fence leaves an id Empty at once on V1.
            aborted = !self.job.ids_in(&["CompleteAbort", "Empty"])?.is_disjoint(ids);
        }
        Ok(aborted)
    }

    /// Nothing is open in the partition. Markers come a moment after the answer to EndTxn.
    fn expect_free(&self) -> Outcome {
        let patience = Instant::now() + Duration::from_secs(10);
        loop {
            let open = kafka::open_producers(self.ground.bootstrap(), &self.job.topic, 0)?;
            if open.is_empty() || Instant::now() >= patience {
                return Failure::unless_equal("open transactions in the partition", open, Vec::new());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Pipes the rest while something hangs that it must leave alone: it ends with code 1 and names it.
    fn pipe_beside(&self, named: &str) -> Outcome {
        let past = self.job.start()?.past(PATIENCE)?;
        let ended = past.ended.expect(1)?;
        let report = ended.json()?;
        if report["finished"] != true || report["hanging"] == 0 {
            return Err(ended
                .strange("it did not finish its input, or does not say that something hangs")
                .into());
        }
        if !format!("{}{}", ended.stdout, ended.stderr).contains(named) {
            return Err(ended.strange(&format!("it does not name {named}")).into());
        }
        Ok(())
    }
}

fn commit_waits(lonely: &Lonely<'_>) -> Outcome {
    let (file, _) = lonely.stop_after_durable()?;
    lonely.lose_leader()?;
    let (ended, _) = lonely.commit(&file, &["--timeout", "8s"], (1, "pending"))?;
    let told = format!("{}{}", ended.stdout, ended.stderr);
    let partition = format!("{}-0", lonely.job.topic);
    if !told.contains("leader") || !told.contains(&partition) {
        return Err(ended.strange(&format!("it does not say that {partition} has no leader")).into());
    }
    lonely.bring_back()?;
    lonely.commit(&file, &[], (0, "committed"))?;
    lonely.expect_free()?;
    Failure::unless(lonely.visible()? > 0, "nothing is visible")?;
    lonely.repair(&file)?;
    lonely.job.finish()?;
    lonely.job.verify()
}

/// Up to the moment at which a committed transaction hangs, and its node is back: the file, its id and what is known of it.
fn hang_commit(lonely: &Lonely<'_>) -> Result<(PathBuf, String, Hanging), Failure> {
    let (file, id) = lonely.stop_after_durable()?;
    lonely.lose_leader()?;
    lonely.commit(&file, &["--no-wait-for-leader"], (1, "hanging"))?;
    lonely.bring_back()?;
    let hanging = lonely.hanging(&id)?;
    let state = hanging.described.as_ref().map(|described| described.state.as_str());
    Failure::unless_equal("the coordinator's word", state, Some("CompleteCommit"))?;
    Failure::unless_equal("records visible while the commit hangs", lonely.visible()?, 0)?;
    Ok((file, id, hanging))
}

fn commit_hangs(lonely: &Lonely<'_>) -> Outcome {
    let (file, id, before) = hang_commit(lonely)?;
    // Dies in an open transaction, so that the next run has a leftover to abort.
    lonely.job.crash("prepared", 2)?;
    let leftovers = lonely.job.ids_in(&["Ongoing"])?;
    Failure::unless(!leftovers.is_empty() && !leftovers.contains(&id), format!("leftovers: {leftovers:?}"))?;
    lonely.pipe_beside(&file.display().to_string())?;
    Failure::unless_equal("the hanging transaction", lonely.hanging(&id)?, before)?;
    Failure::unless_equal("records visible while the commit hangs", lonely.visible()?, 0)?;
    lonely.repair(&file)?;
    lonely.expect_free()?;
    lonely.job.verify()
}

/// Without the rule that an id rests until its last decision is everywhere, the next abort under it destroys what was
/// committed. The next run sees it, and says what is lost.
fn reuse_destroys(lonely: &Lonely<'_>) -> Outcome {
    let (_, id, _) = hang_commit(lonely)?;
    let past = lonely.job.start_under(&UNSAFE, &[], Some(("prepared", 1)))?.past(PATIENCE)?;
    Failure::unless(past.ended.was_killed(), "it did not die of SIGKILL")?;
    let leftovers = lonely.job.ids_in(&["Ongoing"])?;
    Failure::unless(leftovers.contains(&id), format!("{id} is not used again: {leftovers:?}"))?;
    lonely.txn("abort", &id, &["--force"])?.expect(0)?;
    lonely.expect_free()?;
    Failure::unless_equal("records visible of those that were committed", lonely.visible()?, 0)?;
    lonely.job.start()?.past(PATIENCE)?.ended.expect(3)?;
    Ok(())
}

fn pipe_repairs(lonely: &Lonely<'_>) -> Outcome {
    hang_commit(lonely)?;
    lonely.job.start_with(&["--repair-hanging"], None)?.finished(PATIENCE)?;
    lonely.expect_free()?;
    lonely.job.verify()
}

/// The counterpart: a stock client that uses the id again and aborts takes the committed records with it.
fn reuse_loses(lonely: &Lonely<'_>) -> Outcome {
    let (_, id, _) = hang_commit(lonely)?;
    lonely.write_as(&id, End::Abort)?;
    lonely.expect_free()?;
    Failure::unless_equal("committed records left after another's abort", lonely.visible()?, 0)
}

/// Leaves an aborted transaction under an id of the job without its marker: the id, and what hangs.
type Hang = fn(&Lonely<'_>) -> Result<(String, Hanging), Failure>;

/// An administrator fences a leftover while its partition has no leader.
fn hang_fence(lonely: &Lonely<'_>) -> Result<(String, Hanging), Failure> {
    lonely.job.crash("prepared", 1)?;
    let id = format!("{}-0-0", lonely.job.prefix);
    lonely.lose_leader()?;
    let ended = lonely.txn("abort", &id, &["--force"])?.expect(1)?;
    Failure::unless_equal("the outcome", ended.json()?["outcome"].clone(), "hanging".into())?;
    lonely.bring_back()?;
    let hanging = lonely.hanging(&id)?;
    Ok((id, hanging))
}

/// Its writer ends a transaction by EndTxn while its partition has no leader.
fn hang_abort(lonely: &Lonely<'_>) -> Result<(String, Hanging), Failure> {
    lonely.job.crash("prepared", 1)?;
    let id = format!("{}-0-0", lonely.job.prefix);
    let writing = Writing::new(lonely.ground.bootstrap(), &lonely.job.topic, &id);
    let held = lonely.ground.foreign()?.hold(&writing)?;
    lonely.lose_leader()?;
    Failure::unless_equal("its end", held.abort()?.pop(), Some(Step::Aborted))?;
    lonely.bring_back()?;
    let hanging = lonely.hanging(&id)?;
    let state = hanging.described.as_ref().map(|described| described.state.as_str());
    Failure::unless_equal("the coordinator's word", state, Some("CompleteAbort"))?;
    Ok((id, hanging))
}

fn abort_hangs(lonely: &Lonely<'_>, hang: Hang) -> Outcome {
    let (id, before) = hang(lonely)?;
    lonely.pipe_beside(&id)?;
    Failure::unless_equal("the hanging transaction", lonely.hanging(&id)?, before)?;
    repair_state(lonely)
}

/// The counterpart: a stock client that uses the id again and commits publishes what was aborted.
fn reuse_publishes(lonely: &Lonely<'_>) -> Outcome {
    let (id, _) = hang_fence(lonely)?;
    let committed = lonely.write_as(&id, End::Commit)?;
    lonely.expect_free()?;
    let visible = lonely.visible()?;
    Failure::unless(visible > committed, format!("of {committed} committed records {visible} are visible"))
}

fn pipe_repairs_abort(lonely: &Lonely<'_>, hang: Hang) -> Outcome {
    hang(lonely)?;
    lonely.job.start_with(&["--repair-hanging"], None)?.finished(PATIENCE)?;
    lonely.expect_free()?;
    lonely.job.verify()
}

/// Without the rule that an id rests, the job itself publishes what was aborted.
fn own_reuse_publishes(lonely: &Lonely<'_>, hang: Hang) -> Outcome {
    let (id, before) = hang(lonely)?;
    let past = lonely.job.start_under(&UNSAFE, &[], None)?.past(PATIENCE)?;
    let written = past.ended.json()?["records"].as_u64();
    Failure::unless_equal("records of the job", written, Some(PLAN.records))?;
    let (after, visible) = (kafka::describe(lonely.ground.bootstrap(), &id)?, lonely.visible()?);
    Failure::unless(after != before.described, format!("{id} is not used again: {after:?}"))?;
    lonely.expect_free()?;
    Failure::unless(
        visible > usize::try_from(PLAN.records)?,
        format!("{visible} records are visible: nothing that was aborted is"),
    )
}

/// Recovery itself comes while the partition has no leader. It may fence or wait; nothing is seen twice.
fn recovery_fences(lonely: &Lonely<'_>, repair: Repair) -> Outcome {
    lonely.job.crash("prepared", 1)?;
    let leftovers = lonely.job.ids_in(&["Ongoing"])?;
    lonely.lose_leader()?;
    let attempt = lonely.job.start_with(repair.options(), None)?;
    let fenced = lonely.abort_within(&leftovers, Duration::from_secs(15))?;
    lonely.bring_back()?;
    let ended = attempt.past(PATIENCE)?.ended;
    eprintln!("fenced while leaderless: {fenced}, {:?}", ended.code());
    // A marker that was lost is not written by itself.
    ended.expect(i32::from(fenced && repair == Repair::Later))?;
    if fenced && repair == Repair::Later {
        return repair_state(lonely);
    }
    lonely.expect_free()?;
    lonely.job.verify()
}

/// The pipe gives up a transaction that it can not flush, and aborts it by EndTxn while the partition has no leader.
fn failing_pipe(lonely: &Lonely<'_>, repair: Repair) -> Outcome {
    let options = [&["--set", "delivery.timeout.ms=3000"], repair.options()].concat();
    let mut attempt = lonely.job.start_with(&options, None)?;
    attempt.wait_for("checkpoint", 2, PATIENCE)?;
    lonely.lose_leader()?;
    let open = lonely.job.ids_in(&["Ongoing"])?;
    let aborted = lonely.abort_within(&open, Duration::from_secs(20))?;
    lonely.bring_back()?;
    let ended = attempt.past(PATIENCE)?.ended;
    eprintln!("aborted while leaderless: {aborted}, {:?}", ended.code());
    // It may have tried too often before the node was back.
    let finished = ended.json().is_ok_and(|report| report["finished"] == true);
    let ended =
        if finished { ended } else { lonely.job.start_with(repair.options(), None)?.past(PATIENCE)?.ended };
    if ended.code() == Some(0) || repair == Repair::ByPipe {
        ended.expect(0)?;
        lonely.expect_free()?;
        return lonely.job.verify();
    }
    ended.expect(1)?;
    repair_state(lonely)
}

fn repair_state(lonely: &Lonely<'_>) -> Outcome {
    lonely
        .job
        .command(&["txn", "repair", "--state", &lonely.job.state().display().to_string()])
        .run(PATIENCE)?
        .expect(0)?;
    lonely.expect_free()?;
    lonely.job.verify()
}

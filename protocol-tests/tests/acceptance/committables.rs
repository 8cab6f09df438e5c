//! One process prepares and leaves; another one commits from the file, and says what became of it: committed, committed before, lost, or
//! not to be known.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use kafka_2pc_protocol_tests::foreign::{End, Isolation, Library, Reading, Writing};
use kafka_2pc_protocol_tests::harness::{Case, Failure, Ground};
use kafka_2pc_protocol_tests::kafka::{self, Spec};
use kafka_2pc_protocol_tests::program::{Ended, Program};
use serde_json::Value;

use crate::Outcome;
use crate::job::{Job, PATIENCE, Plan};

/// A second of records in a few checkpoints.
const PLAN: Plan<'_> = Plan { records: 300, rate: 300, interval_ms: 200, options: &[] };

/// Its transactions are aborted after two seconds.
const HASTY: Plan<'_> =
    Plan { options: &["--set", "transaction.timeout.ms=2000", "--tolerated-outage", "0"], ..PLAN };

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for level in [2, 1] {
        let spec = Spec::default().transaction_version(level);
        let forgetful = spec
            .clone()
            .extra("transactional.id.expiration.ms", "3000")
            .extra("transaction.remove.expired.transaction.cleanup.interval.ms", "500");
        cases.extend([
            Case::clients("a_committable_is_committed_by_another_process_once", spec.clone(), committed),
            Case::clients("a_committable_that_timed_out_is_lost_by_name", spec.clone(), timed_out),
            Case::clients("cat_sees_what_foreign_readers_see", spec, cat),
            Case::clients("a_committable_without_log_and_coordinator_is_undecidable", forgetful, undecidable),
        ]);
    }
    cases
}

/// Pipes up to the first checkpoint that is durable and not committed: the file of its committable.
fn leave_open(job: &Job<'_>) -> Result<PathBuf, Failure> {
    let ended = job.start_with(&["--stop-after", "durable"], None)?.past(PATIENCE)?.ended.expect(0)?;
    let line = ended.json_with("committable")?;
    Ok(PathBuf::from(line["committable"].as_str().unwrap_or_default()))
}

/// `txn commit FILE`, which must end with this code and this outcome.
fn commit(job: &Job<'_>, file: &str, (code, outcome): (i32, &str)) -> Result<(Ended, Value), Failure> {
    let ended = job.command(&["txn", "commit", file, "--json"]).run(PATIENCE)?.expect(code)?;
    let told = ended.json()?;
    if told["outcome"] == *outcome {
        return Ok((ended, told));
    }
    Err(ended.strange(&format!("the outcome is not {outcome}")).into())
}

fn committed(ground: &Ground) -> Outcome {
    let job = Job::new(ground, &PLAN)?;
    let file = leave_open(&job)?.display().to_string();
    let before = std::fs::read(&file)?;
    commit(&job, &file, (0, "committed"))?;
    commit(&job, &file, (0, "already-committed"))?;
    let ended = job.command(&["txn", "commit", &file]).run(PATIENCE)?.expect(0)?;
    if !ended.stdout.contains("already committed") {
        return Err(ended.strange("it does not say that it was committed before").into());
    }
    Failure::unless(std::fs::read(&file)? == before, "the file was changed")?;
    // The job goes on behind what somebody else has committed, and it is all there once.
    job.finish()?;
    job.verify()
}

fn timed_out(ground: &Ground) -> Outcome {
    let job = Job::new(ground, &HASTY)?;
    let file = leave_open(&job)?.display().to_string();
    job.expect_nothing_open(Duration::from_secs(15))?;
    let (ended, told) = commit(&job, &file, (3, "lost"))?;
    let described = job.command(&["txn", "describe", &file, "--json"]).run(PATIENCE)?.expect(0)?.json()?;
    let (lost, stored) = (told["partitions"].as_array(), described["partitions"].as_array());
    let place = |p: &Value| (p["topic"].clone(), p["partition"].clone(), p["offset"].clone());
    let places = |list: Option<&Vec<Value>>| list.into_iter().flatten().map(place).collect::<Vec<_>>();
    if lost.is_none_or(Vec::is_empty) || places(lost) != places(stored) {
        return Err(ended.strange("it does not name the partitions and offsets of the file").into());
    }
    let visible = ["cat", "--topic", &job.topic, "--until-end"];
    let seen = job.command(&visible).run(PATIENCE)?.expect(0)?;
    Failure::unless_equal("what readers see", seen.stdout, String::new())
}

fn undecidable(ground: &Ground) -> Outcome {
    let job = Job::new(ground, &PLAN)?;
    let file = leave_open(&job)?.display().to_string();
    let (_, told) = commit(&job, &file, (0, "committed"))?;
    let id = told["transactional_id"].as_str().unwrap_or_default().to_owned();
    forget_records(ground, &job.topic, 3)?;
    let deadline = Instant::now() + Duration::from_secs(30);
    while kafka::describe(ground.bootstrap(), &id)?.is_some() {
        Failure::unless(Instant::now() < deadline, format!("{id} did not expire"))?;
        std::thread::sleep(Duration::from_millis(200));
    }
    let (ended, told) = commit(&job, &file, (4, "undecidable"))?;
    if told["partitions"].as_array().is_none_or(Vec::is_empty) {
        return Err(ended.strange("it names no partition").into());
    }
    Ok(())
}

/// Foreign writers commit, abort and leave open; `cat` shows what a foreign reader of the same isolation sees.
fn cat(ground: &Ground) -> Outcome {
    let (program, venv, topic) = (Program::ensure()?, ground.foreign()?, ground.topic("cat", 2)?);
    let (done, open, later) = (ground.fresh("done"), ground.fresh("open"), ground.fresh("later"));
    for (id, prefix, compression, end) in [
        (&done, "yes", "none", End::Commit),
        (&done, "no", "lz4", End::Abort),
        (&done, "yes-too", "lz4", End::Commit),
        (&open, "open", "none", End::Open),
        (&later, "hidden", "none", End::Commit),
    ] {
        let writing = Writing { prefix, compression, ..Writing::new(ground.bootstrap(), &topic, id) };
        venv.write(&writing, end)?;
    }
    for (isolation, name) in [(Isolation::Committed, "committed"), (Isolation::Uncommitted, "uncommitted")] {
        let reading =
            Reading { isolation, ..Reading::committed(Library::Confluent, ground.bootstrap(), &topic) };
        let mut expected: Vec<_> = venv.read(&reading)?.iter().map(|record| record.text()).collect();
        let words = ["cat", "--topic", &topic, "--until-end", "--isolation", name];
        let whereto = ["--bootstrap", ground.bootstrap()];
        let ended = program.invoke(words.iter().chain(&whereto).copied()).run(PATIENCE)?.expect(0)?;
        let mut seen: Vec<_> = ended.stdout.lines().map(str::to_owned).collect();
        expected.sort();
        seen.sort();
        Failure::unless_equal(name, &seen, &expected)?;
        let warned = ended.stderr.contains("open transactions hide later records");
        Failure::unless_equal("a warning of hidden records", warned, isolation == Isolation::Committed)?;
    }
    forget_records(ground, &topic, 2)?;
    let words = ["cat", "--topic", &topic, "--partition", "0", "--from", "0", "--limit", "1"];
    let whereto = ["--bootstrap", ground.bootstrap()];
    let ended = program.invoke(words.iter().chain(&whereto).copied()).run(PATIENCE)?.expect(1)?;
    if !ended.stderr.contains(&format!("{topic}-0: offset 0 is not there; offsets ")) {
        return Err(ended.strange("it does not name the offset and what is there").into());
    }
    Ok(())
}

/// Removes every record of the topic, as an administrator would.
fn forget_records(ground: &Ground, topic: &str, partitions: i32) -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("offsets.json");
    let partition = |p: i32| format!(r#"{{"topic":"{topic}","partition":{p},"offset":-1}}"#);
    let all: Vec<_> = (0..partitions).map(partition).collect();
    std::fs::write(&path, format!(r#"{{"version":1,"partitions":[{}]}}"#, all.join(",")))?;
    let class = "org.apache.kafka.tools.DeleteRecordsCommand";
    ground.tools()?.run(class, &["--offset-json-file", &path.display().to_string()])?;
    Ok(())
}

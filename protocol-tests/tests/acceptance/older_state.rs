//! A state that is put back although the job has gone on since: refused, and the newest one still goes on. And what Flink's sink keeps of
//! a prepared transaction, which is enough to commit it.

use std::path::Path;

use kafka_2pc_protocol_tests::harness::{Case, Failure, Ground};
use kafka_2pc_protocol_tests::kafka::Spec;

use crate::Outcome;
use crate::job::{Job, PATIENCE, Plan};

/// Two seconds of records in some checkpoints.
const PLAN: Plan<'_> = Plan { records: 600, rate: 300, interval_ms: 200, options: &[] };
const INCREMENTING: Plan<'_> = Plan { options: &["--naming", "incrementing"], ..PLAN };

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for level in [2, 1] {
        let spec = Spec::default().transaction_version(level);
        cases.extend([
            Case::clients("an_older_state_is_refused", spec.clone(), |ground| older_state(ground, &PLAN)),
            Case::clients("an_older_state_is_refused_with_incrementing_names", spec.clone(), |ground| {
                older_state(ground, &INCREMENTING)
            }),
            Case::clients("what_flink_keeps_is_enough_to_commit", spec, flink),
        ]);
    }
    cases
}

/// Copies a folder; what was at its place is gone.
pub(crate) fn copy(from: &Path, to: &Path) -> Outcome {
    _ = std::fs::remove_dir_all(to);
    let copied = std::process::Command::new("cp").arg("-r").args([from, to]).status()?;
    Failure::unless(copied.success(), format!("{} could not be copied", from.display()))
}

fn older_state(ground: &Ground, plan: &Plan<'_>) -> Outcome {
    let job = Job::new(ground, plan)?;
    let folder = tempfile::tempdir()?;
    let (older, newest) = (folder.path().join("older"), folder.path().join("newest"));
    // Each time in another place: between durable and commit, and when the commit is answered.
    job.crash("durable", 2)?;
    copy(&job.state(), &older)?;
    job.crash("endtxn-answered", 3)?;
    copy(&job.state(), &newest)?;
    copy(&older, &job.state())?;
    for _ in 0..2 {
        let ended = job.start()?.past(PATIENCE)?.ended.expect(1)?;
        if !ended.stderr.contains("is not the newest of this job") {
            return Err(ended.strange("it does not say that the state is not the newest").into());
        }
    }
    copy(&newest, &job.state())?;
    job.finish()?;
    job.verify()
}

fn flink(ground: &Ground) -> Outcome {
    let job = Job::new(ground, &PLAN)?;
    let ended = job.start_with(&["--stop-after", "durable"], None)?.past(PATIENCE)?.ended.expect(0)?;
    let line = ended.json_with("committable")?;
    let file = line["committable"].as_str().unwrap_or_default();
    let told = job.command(&["txn", "describe", file, "--json"]).run(PATIENCE)?.expect(0)?.json()?;
    let id = told["transactional_id"].as_str().unwrap_or_default();
    let number = |name: &str| told[name].as_i64().unwrap_or(-1);
    let mut bytes = i16::try_from(number("epoch")).unwrap_or(-1).to_be_bytes().to_vec();
    bytes.extend(number("producer_id").to_be_bytes());
    bytes.extend(u16::try_from(id.len()).unwrap_or(0).to_be_bytes());
    bytes.extend(id.as_bytes());
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("flink");
    std::fs::write(&path, bytes)?;
    let path = path.display().to_string();
    let ended = job.command(&["txn", "commit", "--flink", &path, "--json"]).run(PATIENCE)?.expect(0)?;
    Failure::unless_equal("the outcome", ended.json()?["outcome"].as_str(), Some("committed"))?;
    // The job goes on behind it, and knows that it is committed.
    job.finish()?;
    job.verify()
}

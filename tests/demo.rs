//! The demonstration, run as anybody runs it.
#![cfg(feature = "cli")]

use std::{
    error::Error,
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::Value;

type Outcome = Result<(), Box<dyn Error>>;

/// `demo` on a broker of its own, with its files below `dir`.
fn demo(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kafka-2pc"));
    command.args(["demo", "--json"]).env("TMPDIR", dir).stdin(Stdio::null());
    for name in
        ["KAFKA_BOOTSTRAP", "KAFKA_2PC_CRASH", "KAFKA_2PC_TRACE", "KAFKA_2PC_JOURNAL", "KAFKA_2PC_PARENT"]
    {
        command.env_remove(name);
    }
    command
}

#[test]
fn records_go_in_exactly_once_through_every_kill() -> Outcome {
    let dir = tempfile::tempdir()?;
    let output = demo(dir.path()).output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", output.status);
    assert_eq!(errors, "", "with --json there is nothing to be told");
    let text = String::from_utf8(output.stdout)?;
    let result: Value = serde_json::from_str(text.lines().last().ok_or("nothing was printed")?)?;
    let number = |key: &str| result[key].as_u64().ok_or_else(|| format!("{key} is missing in {text}"));
    assert_eq!((number("in")?, number("visible")?), (100_000, 100_000));
    assert_eq!((number("duplicated")?, number("lost")?), (0, 0));
    assert_eq!((number("unknown")?, number("out_of_order")?), (0, 0));
    assert!(number("resumed")? >= 2, "one between durable and commit, one during commit: {text}");
    assert!(number("aborted")? >= 1, "one between prepare and durable: {text}");
    assert!(number("checkpoints")? >= 50, "{text}");
    assert_eq!(number("kills")?, 5);
    for latency in ["prepare_ms", "commit_ms", "visibility_ms"] {
        let figure =
            |name: &str| result[latency][name].as_f64().ok_or_else(|| format!("{latency} {name}: {text}"));
        assert!(0.0 < figure("p50")? && figure("p50")? <= figure("p99")?, "{text}");
    }
    assert_eq!(fs::read_dir(dir.path())?.count(), 0, "nothing is left on disk");
    Ok(())
}

#[test]
fn an_interrupted_demonstration_leaves_nothing_behind() -> Outcome {
    let dir = tempfile::tempdir()?;
    let mut running = demo(dir.path()).stderr(Stdio::null()).spawn()?;
    let writer = writer(dir.path(), &mut running)?;
    signal("-INT", running.id())?;
    assert_eq!(running.wait()?.code(), Some(1));
    assert!(!is_alive(writer), "the writer ended before the demonstration did");
    assert_eq!(fs::read_dir(dir.path())?.count(), 0, "nothing is left on disk");
    Ok(())
}

#[test]
fn the_writer_ends_with_a_demonstration_that_is_killed() -> Outcome {
    let dir = tempfile::tempdir()?;
    let mut running = demo(dir.path()).stderr(Stdio::null()).spawn()?;
    let writer = writer(dir.path(), &mut running)?;
    signal("-KILL", running.id())?;
    running.wait()?;
    soon(|| (!is_alive(writer)).then_some(())).ok_or("the writer is still there")?;
    Ok(())
}

/// The process id of the writer, once it has completed a checkpoint.
fn writer(dir: &Path, running: &mut Child) -> Result<u32, Box<dyn Error>> {
    let found = soon(|| {
        let directory = fs::read_dir(dir).ok()?.next()?.ok()?;
        let journal = fs::read_to_string(directory.path().join("journal")).ok()?;
        let line = journal.lines().find(|line| line.contains(" checkpoint "))?;
        line.split(' ').nth(1)?.parse().ok()
    });
    found.ok_or_else(|| {
        _ = running.kill();
        "the writer completes no checkpoint".into()
    })
}

fn soon<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    for _ in 0..3000 {
        if let Some(found) = look() {
            return Some(found);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    None
}

fn signal(signal: &str, process: u32) -> Outcome {
    let status = Command::new("kill").args([signal, &process.to_string()]).status()?;
    if status.success() { Ok(()) } else { Err(format!("kill {signal} {process}: {status}").into()) }
}

/// Whether a process still runs; one that has ended and that nobody has asked about runs no more.
fn is_alive(process: u32) -> bool {
    if let Ok(stat) = fs::read_to_string(format!("/proc/{process}/stat")) {
        // The state stands behind the name, which is in parentheses and may hold anything.
        return !stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'));
    }
    let asked = Command::new("kill").args(["-0", &process.to_string()]).stderr(Stdio::null()).status();
    asked.is_ok_and(|status| status.success())
}

//! Crashes on purpose, and a trace of what was about to happen: for tests of recovery.
//!
//! `KAFKA_2PC_CRASH=POINT[:NTH]` kills the process with SIGKILL at the NTH passage of a point, counted from 1.
//! `KAFKA_2PC_TRACE=FILE` appends a line before each passage: milliseconds since the Unix epoch, process id, point,
//! count.
//! `KAFKA_2PC_JOURNAL=FILE` appends what came of it, in the same form: `recovered` with the numbers of transactions committed
//! and aborted, `checkpoint` with its id, `prepare` and `commit` with the microseconds that they took.

use std::{
    collections::HashMap,
    env,
    fs::{File, OpenOptions},
    io::Write,
    sync::{Arc, Mutex, PoisonError},
};

use super::Usage;
use crate::{
    checkpoint::step::{Note, Part, Step, Steps},
    net::Clock,
};

/// Where the environment names the journal.
pub(super) const JOURNAL: &str = "KAFKA_2PC_JOURNAL";

/// Where the environment names the point of death.
pub(super) const CRASH: &str = "KAFKA_2PC_CRASH";

struct Crash {
    at: Option<(Step, u64)>,
    trace: Option<File>,
    journal: Option<File>,
    counts: HashMap<Step, u64>,
}

/// The steps of a job as the environment wants them watched.
pub(super) fn steps() -> Result<Steps, Usage> {
    let at = match env::var(CRASH) {
        Ok(text) => Some(parse(&text).map_err(|e| Usage(format!("{CRASH}: {e}")))?),
        Err(_) => None,
    };
    let (trace, journal) = (appended("KAFKA_2PC_TRACE")?, appended(JOURNAL)?);
    if at.is_none() && trace.is_none() && journal.is_none() {
        return Ok(Steps::default());
    }
    let crash = Arc::new(Mutex::new(Crash { at, trace, journal, counts: HashMap::new() }));
    let noted = Arc::clone(&crash);
    Ok(Steps::new(
        move |step| crash.lock().unwrap_or_else(PoisonError::into_inner).step(step),
        move |note| noted.lock().unwrap_or_else(PoisonError::into_inner).note(note),
    ))
}

/// The file that a variable of the environment names, to be appended to.
fn appended(variable: &str) -> Result<Option<File>, Usage> {
    let Some(path) = env::var_os(variable) else { return Ok(None) };
    let file = OpenOptions::new().create(true).append(true).open(&path);
    file.map(Some).map_err(|e| Usage(format!("{variable}={}: {e}", path.to_string_lossy())))
}

fn parse(text: &str) -> Result<(Step, u64), String> {
    let (name, nth) = text.split_once(':').unwrap_or((text, "1"));
    let nth = nth.parse().ok().filter(|nth| *nth > 0);
    Ok((name.parse()?, nth.ok_or_else(|| format!("{text:?}: the count must be a number from 1"))?))
}

impl Crash {
    fn step(&mut self, step: Step) {
        let count = self.counts.entry(step).or_default();
        *count += 1;
        let count = *count;
        append(&mut self.trace, &format!("{} {count}", step.name()));
        if self.at == Some((step, count)) {
            die();
        }
    }

    fn note(&mut self, note: Note) {
        match note {
            Note::Recovery => append(&mut self.trace, "recovery"),
            Note::Recovered { resumed, aborted } => {
                append(&mut self.trace, "recovered");
                append(&mut self.journal, &format!("recovered {resumed} {aborted}"));
            }
            Note::Prepare => append(&mut self.trace, "prepare"),
            Note::Checkpoint(id) => {
                append(&mut self.trace, &format!("checkpoint {id}"));
                append(&mut self.journal, &format!("checkpoint {id}"));
            }
            Note::Took(part, took) => {
                let part = match part {
                    Part::Prepare => "prepare",
                    Part::Commit => "commit",
                };
                append(&mut self.journal, &format!("{part} {}", took.as_micros()));
            }
        }
    }
}

fn append(file: &mut Option<File>, what: &str) {
    if let Some(file) = file {
        let line = format!("{} {} {what}\n", Clock::wall_ms(), std::process::id());
        // One write, so that lines of several processes do not mix; a full disk must not stop the job.
        _ = file.write_all(line.as_bytes());
    }
}

/// SIGKILL to ourselves: no destructor runs and no buffer is flushed.
fn die() -> ! {
    let pid = rustix::process::getpid();
    _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    // The signal is on its way.
    loop {
        std::thread::park();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_and_counts() {
        assert_eq!(parse("durable").unwrap(), (Step::Durable, 1));
        assert_eq!(parse("endtxn-sent:3").unwrap(), (Step::EndTxnSent, 3));
        for wrong in ["", "nowhere", "durable:0", "durable:x"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}

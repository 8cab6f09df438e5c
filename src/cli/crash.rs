//! Crashes on purpose, and a trace of what was about to happen: for tests of recovery.
//!
//! `KAFKA_2PC_CRASH=POINT[:NTH]` kills the process with SIGKILL at the NTH passage of a point, counted from 1.
//! `KAFKA_2PC_TRACE=FILE` appends a line before each passage: milliseconds since the Unix epoch, process id, point,
//! count.

use std::{
    collections::HashMap,
    env,
    fs::{File, OpenOptions},
    io::Write,
    sync::{Arc, Mutex, PoisonError},
};

use super::Usage;
use crate::{
    checkpoint::step::{Note, Step, Steps},
    net::Clock,
};

struct Crash {
    at: Option<(Step, u64)>,
    trace: Option<File>,
    counts: HashMap<Step, u64>,
}

/// The steps of a job as the environment wants them watched.
pub(super) fn steps() -> Result<Steps, Usage> {
    let at = match env::var("KAFKA_2PC_CRASH") {
        Ok(text) => Some(parse(&text).map_err(|e| Usage(format!("KAFKA_2PC_CRASH: {e}")))?),
        Err(_) => None,
    };
    let trace = match env::var_os("KAFKA_2PC_TRACE") {
        Some(path) => {
            let file = OpenOptions::new().create(true).append(true).open(&path);
            Some(file.map_err(|e| Usage(format!("KAFKA_2PC_TRACE={}: {e}", path.to_string_lossy())))?)
        }
        None => None,
    };
    if at.is_none() && trace.is_none() {
        return Ok(Steps::default());
    }
    let crash = Arc::new(Mutex::new(Crash { at, trace, counts: HashMap::new() }));
    let noted = Arc::clone(&crash);
    Ok(Steps::new(
        move |step| crash.lock().unwrap_or_else(PoisonError::into_inner).step(step),
        move |note| noted.lock().unwrap_or_else(PoisonError::into_inner).note(note),
    ))
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
        self.line(&format!("{} {count}", step.name()));
        if self.at == Some((step, count)) {
            die();
        }
    }

    fn note(&mut self, note: Note) {
        match note {
            Note::Recovery => self.line("recovery"),
            Note::Recovered => self.line("recovered"),
            Note::Prepare => self.line("prepare"),
            Note::Checkpoint(id) => self.line(&format!("checkpoint {id}")),
        }
    }

    fn line(&mut self, what: &str) {
        if let Some(trace) = &mut self.trace {
            let line = format!("{} {} {what}\n", Clock::wall_ms(), std::process::id());
            // One write, so that lines of several processes do not mix; a full disk must not stop the job.
            _ = trace.write_all(line.as_bytes());
        }
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

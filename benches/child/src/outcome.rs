//! What a client tells when it is done.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::process::{cpu_time, peak_memory_bytes};

/// What one run of one client gave.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// Records that are acknowledged, or committed.
    pub records: u64,
    /// Transactions that are committed.
    pub transactions: u64,
    /// Processor seconds of the process, from the first record to the last acknowledgement.
    pub cpu_s: f64,
    /// The same by the clock on the wall.
    pub wall_s: f64,
    /// The most memory that was resident, in bytes.
    pub peak_bytes: u64,
    /// Other numbers by name, times in milliseconds.
    pub numbers: BTreeMap<String, f64>,
}

/// Both clocks, from a start.
#[derive(Debug)]
pub struct Stopwatch {
    wall: Instant,
    cpu: Duration,
}

impl Stopwatch {
    /// Starts now: what connecting and the first handshakes cost is not counted.
    #[must_use]
    pub fn start() -> Self {
        Self { wall: Instant::now(), cpu: cpu_time() }
    }

    /// What was used until now.
    #[must_use]
    pub fn stop(&self) -> Outcome {
        Outcome {
            cpu_s: (cpu_time() - self.cpu).as_secs_f64(),
            wall_s: self.wall.elapsed().as_secs_f64(),
            peak_bytes: peak_memory_bytes().unwrap_or(0),
            ..Outcome::default()
        }
    }
}

impl Outcome {
    /// The same, after this many records.
    #[must_use]
    pub fn records(self, records: u64) -> Self {
        Self { records, ..self }
    }

    /// The same, after this many transactions.
    #[must_use]
    pub fn transactions(self, transactions: u64) -> Self {
        Self { transactions, ..self }
    }

    /// The same, with the median of these times.
    #[must_use]
    pub fn timed(mut self, name: &str, mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        if let Some(median) = times.get(times.len() / 2) {
            self.numbers.insert(name.to_owned(), median.as_secs_f64() * 1e3);
        }
        self
    }

    /// The same, with one more number.
    #[must_use]
    pub fn number(mut self, name: &str, value: f64) -> Self {
        self.numbers.insert(name.to_owned(), value);
        self
    }

    /// One line.
    #[must_use]
    pub fn line(&self) -> String {
        json!({
            "records": self.records,
            "transactions": self.transactions,
            "cpu_s": self.cpu_s,
            "wall_s": self.wall_s,
            "peak_bytes": self.peak_bytes,
            "numbers": self.numbers,
        })
        .to_string()
    }

    /// Reads the last line of an output.
    ///
    /// # Errors
    /// It is not an outcome.
    pub fn parse(output: &str) -> Result<Self> {
        let line = output.lines().last().context("it printed nothing")?;
        let value: Value = serde_json::from_str(line).with_context(|| format!("not an outcome: {line}"))?;
        let number = |name: &str| value[name].as_f64().with_context(|| format!("no {name} in {line}"));
        let count = |name: &str| value[name].as_u64().with_context(|| format!("no {name} in {line}"));
        let numbers = value["numbers"].as_object().context("no numbers")?;
        Ok(Self {
            records: count("records")?,
            transactions: count("transactions")?,
            cpu_s: number("cpu_s")?,
            wall_s: number("wall_s")?,
            peak_bytes: count("peak_bytes")?,
            numbers: numbers
                .iter()
                .filter_map(|(name, number)| Some((name.clone(), number.as_f64()?)))
                .collect(),
        })
    }

    /// Processor seconds of a million records.
    #[must_use]
    pub fn cpu_per_million(&self) -> f64 {
        self.cpu_s / self.records as f64 * 1e6
    }

    /// Records a second.
    #[must_use]
    pub fn records_per_second(&self) -> f64 {
        self.records as f64 / self.wall_s
    }

    /// Commits a second.
    #[must_use]
    pub fn commits_per_second(&self) -> f64 {
        self.transactions as f64 / self.wall_s
    }

    /// Processor milliseconds of a commit.
    #[must_use]
    pub fn cpu_ms_per_commit(&self) -> f64 {
        self.cpu_s / self.transactions as f64 * 1e3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_read() {
        let times = [3, 1, 2].map(Duration::from_millis).to_vec();
        let outcome = Stopwatch::start().stop().records(7).transactions(2).timed("commit", times);
        assert_eq!(outcome.numbers["commit"], 2.0);
        assert_eq!(Outcome::parse(&format!("noise\n{}\n", outcome.line())).unwrap(), outcome);
        assert!(Outcome::parse("{}").is_err());
    }
}

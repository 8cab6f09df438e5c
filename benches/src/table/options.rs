//! The options of `bench-table`.

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use kafka_2pc_bench_child::Runtime;

use crate::rows::ids;

/// How to call it.
pub(crate) const USAGE: &str = "\
usage: bench-table [OPTIONS]

  --rounds N          rounds that count  (7)
  --quick             one round with few records: does everything still run? under a minute
  --only ROW,..       these rows: P1, T, E2 ..
  --peers PATH        the program bench-peers; without it, what is beside this program or in benches/peers/target/release
  --runtime NAME      where asynchronous clients run: current, multi  (current)
  --real HOST:PORT    also the rows on real Kafka, which has the topics bench-1 and bench-12 of 1 and 12 partitions
  --real start        the same on a cluster that kafka-cluster starts and stops
  --svg PATH          draws the ratios
  --json PATH         writes all values";

/// What is measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) rounds: usize,
    pub(crate) size: Size,
    pub(crate) only: Vec<String>,
    pub(crate) peers: Option<PathBuf>,
    pub(crate) runtime: String,
    pub(crate) real: Option<String>,
    pub(crate) svg: Option<PathBuf>,
    pub(crate) json: Option<PathBuf>,
}

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    Quick,
    Full,
}

impl Size {
    pub(crate) fn pick<T>(self, quick: T, full: T) -> T {
        match self {
            Self::Quick => quick,
            Self::Full => full,
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            rounds: 7,
            size: Size::Full,
            only: Vec::new(),
            peers: None,
            runtime: "current".into(),
            real: None,
            svg: None,
            json: None,
        }
    }
}

impl Options {
    /// Reads the words of a command line.
    pub(crate) fn parse(words: impl IntoIterator<Item = String>) -> Result<Self> {
        let mut options = Self::default();
        let mut words = words.into_iter();
        while let Some(name) = words.next() {
            if name == "--quick" {
                (options.size, options.rounds) = (Size::Quick, 1);
                continue;
            }
            let value =
                words.next().with_context(|| format!("{name}: no such option, or its value is missing"))?;
            match name.as_str() {
                "--rounds" => options.rounds = rounds(&value)?,
                "--only" => options.only = only(&value)?,
                "--peers" => options.peers = Some(program(value)?),
                "--runtime" => options.runtime = value.parse::<Runtime>()?.to_string(),
                "--real" => options.real = Some(value),
                "--svg" => options.svg = Some(value.into()),
                "--json" => options.json = Some(value.into()),
                _ => bail!("{name}: no such option"),
            }
        }
        Ok(options)
    }

    /// Is this row asked for? A letter stands for all of its rows.
    pub(crate) fn wants(&self, row: &str) -> bool {
        let matches = |only: &String| row == only || (only.len() == 1 && row.starts_with(only.as_str()));
        self.only.is_empty() || self.only.iter().any(matches)
    }
}

fn rounds(text: &str) -> Result<usize> {
    text.parse().ok().filter(|rounds| *rounds > 0).with_context(|| format!("{text}: not a number of rounds"))
}

fn only(text: &str) -> Result<Vec<String>> {
    let known = ids();
    let row = |row: &str| {
        let row = row.trim().to_uppercase();
        let is_known = known.iter().any(|id| *id == row || (row.len() == 1 && id.starts_with(&row)));
        ensure!(is_known, "{row:?} is no row: {}, or the first letter of some", known.join(", "));
        Ok(row)
    };
    text.split(',').map(row).collect()
}

fn program(path: String) -> Result<PathBuf> {
    let path = PathBuf::from(path);
    ensure!(path.is_file(), "{} is not there", path.display());
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options> {
        Options::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn rows_are_chosen_by_name_or_letter() {
        let options = parse("--only p1,T --rounds 3").unwrap();
        assert!(options.wants("P1") && options.wants("T4") && !options.wants("P2") && !options.wants("E1"));
        assert_eq!(options.rounds, 3);
        assert!(parse("").unwrap().wants("S9"));
        assert_eq!(parse("--quick").unwrap().rounds, 1);
        for wrong in [
            "--what 1",
            "--rounds",
            "--rounds 0",
            "--only P1,Z9",
            "--only P1x",
            "--runtime none",
            "--peers /nowhere/peers",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}

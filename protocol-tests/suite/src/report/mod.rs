//! The report: rows beside brokers.

mod html;
mod markdown;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::incidents::Incident;
use crate::outcome::{Failure, Outcome, Shown};
use crate::run::Finding;
use crate::table::Entry;

/// Everything that is told.
#[derive(Debug)]
pub struct Report<'a> {
    arms: Vec<String>,
    rows: Vec<&'a Entry>,
    incidents: &'a [Incident],
    found: BTreeMap<(&'a str, &'a str), &'a Finding>,
}

/// The chapters of the table, by the letter of their rows.
const CHAPTERS: [(char, &str); 13] = [
    ('A', "Connections, versions, metadata"),
    ('B', "Identity"),
    ('C', "Coordinators"),
    ('D', "Adding partitions"),
    ('E', "Produce and idempotence"),
    ('F', "Offsets in the transaction"),
    ('G', "Ending the transaction"),
    ('H', "The API, cancellation, shutdown"),
    ('I', "Fencing"),
    ('J', "Reading committed data"),
    ('K', "The two-phase sink"),
    ('L', "Hostile input"),
    ('P', "The producer without transactions"),
];

impl<'a> Report<'a> {
    /// A report of these arms, with the rows that were run on any of them.
    #[must_use]
    pub fn new(
        arms: Vec<String>,
        entries: &'a [Entry],
        incidents: &'a [Incident],
        findings: &'a [Finding],
    ) -> Self {
        let found: BTreeMap<_, _> = findings.iter().map(|f| ((f.row.as_str(), f.arm.as_str()), f)).collect();
        let ran = |row: &&Entry| findings.iter().any(|f| f.row == row.id);
        let mut rows: Vec<_> = entries.iter().filter(ran).collect();
        rows.sort_by(|one, other| one.id.cmp(&other.id));
        Self { arms, rows, incidents, found }
    }

    fn at(&self, row: &Entry, arm: &str) -> Option<&'a Finding> {
        self.found.get(&(row.id.as_str(), arm)).copied()
    }

    /// The rows of each chapter that has any.
    fn chapters(&self) -> impl Iterator<Item = (&'static str, Vec<&'a Entry>)> + '_ {
        CHAPTERS.iter().filter_map(|(letter, title)| {
            let rows: Vec<_> = self.rows.iter().copied().filter(|row| row.chapter() == *letter).collect();
            (!rows.is_empty()).then_some((*title, rows))
        })
    }

    /// What went wrong for others and belongs to a row of this report.
    fn incidents(&self) -> impl Iterator<Item = &'a Incident> + '_ {
        let of_a_row = |i: &&Incident| self.rows.iter().any(|row| i.shown.contains(&row.id));
        self.incidents.iter().filter(of_a_row)
    }

    /// What is to be told about single fields: deviations, failures.
    fn remarks(&self) -> impl Iterator<Item = &'a Finding> + '_ {
        let worth = |f: &&Finding| matches!(f.outcome, Outcome::Deviation(_) | Outcome::Fail(_));
        self.found.values().copied().filter(worth)
    }

    /// One line per arm: how many rows of which outcome.
    #[must_use]
    pub fn summary(&self) -> String {
        let lines = self.arms.iter().map(|arm| {
            let mut counts = BTreeMap::<&str, usize>::new();
            for finding in self.found.values().filter(|f| f.arm == *arm) {
                *counts.entry(finding.outcome.word()).or_default() += 1;
            }
            let counts: Vec<_> = counts.iter().map(|(word, count)| format!("{count} {word}")).collect();
            let millis: u64 = self.found.values().filter(|f| f.arm == *arm).map(|f| f.millis).sum();
            format!("{arm}: {} in {:.1} s", counts.join(", "), millis as f64 / 1000.0)
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// Writes `out.md` and `out.html`.
///
/// # Errors
/// They can't be written.
pub fn write(report: &Report<'_>, out: &Path) -> Shown {
    let named = |extension: &str| {
        let mut name = out.as_os_str().to_owned();
        name.push(extension);
        name
    };
    let told = |e: std::io::Error| Failure::wrong(format!("{}: {e}", out.display()));
    fs::write(named(".md"), markdown::render(report)).map_err(told)?;
    fs::write(named(".html"), html::render(report)).map_err(told)
}

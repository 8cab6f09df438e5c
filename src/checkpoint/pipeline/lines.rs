//! Which lines records came from.

use std::{
    fmt,
    ops::{Range, RangeInclusive},
};

use crate::proto::numbers::Culprits;

/// The lines of records, in order: each record has the line behind its predecessor's, but for lines that were passed over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct RecordLines {
    /// A record's number and its line, for the first record and each behind a line without one.
    runs: Vec<(u64, u64)>,
    /// The number of the next record.
    next: u64,
}

/// Lines whose records a broker refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefusedLines {
    /// These.
    Named(Vec<u64>),
    /// At least one of these; the broker did not say which.
    Among(RangeInclusive<u64>),
}

impl RecordLines {
    /// The next record came from this line.
    pub(super) fn took(&mut self, line: u64) {
        if self.runs.is_empty() || self.line(self.next) != line {
            self.runs.push((self.next, line));
        }
        self.next += 1;
    }

    /// How many records there were.
    pub(super) fn count(&self) -> u64 {
        self.next
    }

    /// Nobody will ask for the lines of records before this one.
    pub(super) fn forget_before(&mut self, record: u64) {
        let beyond = self.runs.partition_point(|(first, _)| *first <= record);
        self.runs.drain(..beyond.saturating_sub(1));
    }

    /// Those of some records, which are numbered from 0 in it.
    pub(super) fn part(&self, records: &Range<u64>) -> Self {
        let mut part = Self::default();
        if records.is_empty() {
            return part;
        }
        part.runs.push((0, self.line(records.start)));
        let within = self.runs.iter().filter(|(first, _)| records.start < *first && *first < records.end);
        part.runs.extend(within.map(|(first, line)| (first - records.start, *line)));
        part.next = records.end - records.start;
        part
    }

    /// The first and the last line; `None` if there is no record.
    pub(super) fn all(&self) -> Option<RangeInclusive<u64>> {
        let first = self.runs.first()?.1;
        Some(first..=self.line(self.next - 1))
    }

    pub(super) fn refused(&self, records: &Culprits) -> RefusedLines {
        match records {
            Culprits::Named(numbers) => RefusedLines::Named(numbers.iter().map(|n| self.line(*n)).collect()),
            Culprits::Among(range) => {
                RefusedLines::Among(self.line(*range.start())..=self.line(*range.end()))
            }
        }
    }

    /// The line of a record, which must not be forgotten.
    pub(super) fn line(&self, record: u64) -> u64 {
        let run = self.runs.partition_point(|(first, _)| *first <= record);
        match run.checked_sub(1).and_then(|run| self.runs.get(run)) {
            Some((first, line)) => line + (record - first),
            None => 0,
        }
    }
}

impl fmt::Display for RefusedLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(lines) if lines.len() == 1 => write!(f, "line {}", lines[0]),
            Self::Named(lines) => {
                let lines: Vec<_> = lines.iter().map(u64::to_string).collect();
                write!(f, "lines {}", lines.join(", "))
            }
            Self::Among(lines) => write!(f, "one of the lines {} to {}", lines.start(), lines.end()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(all: &[u64]) -> RecordLines {
        let mut lines = RecordLines::default();
        all.iter().for_each(|line| lines.took(*line));
        lines
    }

    #[test]
    fn records_are_found_behind_lines_that_were_passed_over() {
        assert_eq!(RecordLines::default().all(), None);
        let open = lines(&[4, 5, 7, 8, 12]);
        assert_eq!(open.all(), Some(4..=12));
        assert_eq!(open.refused(&Culprits::Named(vec![1, 2, 4])).to_string(), "lines 5, 7, 12");
        assert_eq!(open.refused(&Culprits::Among(0..=3)).to_string(), "one of the lines 4 to 8");
        assert_eq!(lines(&[13]).refused(&Culprits::Named(vec![0])).to_string(), "line 13");
    }

    #[test]
    fn a_transaction_has_a_part_of_them() {
        let all = [4, 5, 7, 8, 12, 13, 14, 20];
        for (start, end) in (0..8).flat_map(|start| (start..=8).map(move |end| (start, end))) {
            for forgotten in 0..=start {
                let mut whole = lines(&all);
                whole.forget_before(forgotten as u64);
                let part = whole.part(&(start as u64..end as u64));
                let seen: Vec<_> = (0..part.count()).map(|record| part.line(record)).collect();
                assert_eq!(seen, all[start..end], "{start}..{end} without {forgotten}");
                assert_eq!(part.all(), (start < end).then(|| all[start]..=all[end - 1]));
                assert_eq!(whole.count(), 8);
            }
        }
    }

    #[test]
    fn what_is_forgotten_takes_no_memory() {
        let mut lines = RecordLines::default();
        for n in 0..1000 {
            lines.took(2 * n);
            lines.forget_before(n);
            assert!(lines.runs.len() <= 2, "{n}");
        }
    }
}

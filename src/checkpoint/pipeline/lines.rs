//! Records of lines on their way into the transaction, and which lines those of the open one came from.

use std::{fmt, ops::RangeInclusive};

use super::{Job, LineRecord};
use crate::{
    client::Topic,
    proto::numbers::Culprits,
    record::{HeaderRef, RecordRef},
    sink::{SinkWriter, WriteError},
};

/// The lines whose records are in the open transaction, in order: each record has the line behind its predecessor's, but
/// for lines that were passed over.
#[derive(Debug, Default)]
pub(super) struct OpenLines {
    /// A record's number in the transaction and its line, for the first record and each behind a line without one.
    runs: Vec<(u64, u64)>,
    records: u64,
}

/// Lines whose records a broker refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefusedLines {
    /// These.
    Named(Vec<u64>),
    /// At least one of these; the broker did not say which.
    Among(RangeInclusive<u64>),
}

impl OpenLines {
    /// The next record came from this line.
    pub(super) fn took(&mut self, line: u64) {
        if self.records == 0 || self.line(self.records) != line {
            self.runs.push((self.records, line));
        }
        self.records += 1;
    }

    /// The next record begins another transaction.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// The first and the last line; `None` if there is no record.
    pub(super) fn all(&self) -> Option<RangeInclusive<u64>> {
        let first = self.runs.first()?.1;
        Some(first..=self.line(self.records - 1))
    }

    pub(super) fn refused(&self, records: &Culprits) -> RefusedLines {
        match records {
            Culprits::Named(numbers) => RefusedLines::Named(numbers.iter().map(|n| self.line(*n)).collect()),
            Culprits::Among(range) => {
                RefusedLines::Among(self.line(*range.start())..=self.line(*range.end()))
            }
        }
    }

    fn line(&self, record: u64) -> u64 {
        let run = self.runs.partition_point(|(first, _)| *first <= record);
        match run.checked_sub(1).and_then(|run| self.runs.get(run)) {
            Some((first, line)) => line + (record - first),
            None => 0,
        }
    }
}

impl Job {
    /// A line may hold a record in a longer form, with base64 and names.
    pub(super) fn line_limit(&self) -> usize {
        self.sink.request_bytes.saturating_mul(4).max(1 << 20)
    }
}

impl LineRecord<'_> {
    pub(super) async fn write(&self, writer: &mut SinkWriter, topic: &Topic) -> Result<(), WriteError> {
        let headers: Vec<HeaderRef<'_>> =
            self.headers.iter().map(|(key, value)| HeaderRef { key, value: value.as_deref() }).collect();
        let borrowed = RecordRef {
            key: self.key.as_deref(),
            value: self.value.as_deref(),
            headers: &headers,
            timestamp: self.timestamp,
        };
        writer.write(topic, self.partition, borrowed).await
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

    #[test]
    fn records_are_found_behind_lines_that_were_passed_over() {
        let mut open = OpenLines::default();
        assert_eq!(open.all(), None);
        [4, 5, 7, 8, 12].into_iter().for_each(|line| open.took(line));
        assert_eq!(open.all(), Some(4..=12));
        assert_eq!(open.refused(&Culprits::Named(vec![1, 2, 4])).to_string(), "lines 5, 7, 12");
        assert_eq!(open.refused(&Culprits::Among(0..=3)).to_string(), "one of the lines 4 to 8");
        open.clear();
        open.took(13);
        assert_eq!(open.refused(&Culprits::Named(vec![0])).to_string(), "line 13");
    }
}

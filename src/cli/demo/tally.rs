//! Counts what came back against what went in.

use std::collections::HashMap;

use bytes::Bytes;

/// What a comparison of input and topic shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counts {
    /// Records that went in.
    pub(super) input: u64,
    /// Records that came back.
    pub(super) visible: u64,
    /// Records that came back once more than they went in, each time counted.
    pub(super) duplicated: u64,
    /// Records that went in and did not come back.
    pub(super) lost: u64,
    /// Records that came back and never went in.
    pub(super) unknown: u64,
    /// Records that came back behind one of their partition that went in after them.
    pub(super) out_of_order: u64,
}

impl Counts {
    /// True when every record is there once, and nothing else.
    pub(super) fn is_exactly_once(&self) -> bool {
        self.duplicated == 0 && self.lost == 0 && self.unknown == 0
    }
}

struct Line {
    first: usize,
    written: u64,
    seen: u64,
}

/// The comparison while it goes on.
pub(super) struct Tally {
    lines: HashMap<Bytes, Line>,
    /// Where the last record of each partition stood in the input.
    last: HashMap<i32, usize>,
    counts: Counts,
}

impl Tally {
    /// Expects every line of `input` once; equal lines as often as they occur.
    pub(super) fn new(input: &Bytes) -> Self {
        let mut lines: HashMap<Bytes, Line> = HashMap::new();
        let mut count = 0;
        for (at, line) in input.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            lines.entry(input.slice_ref(line)).or_insert(Line { first: at, written: 0, seen: 0 }).written +=
                1;
            count += 1;
        }
        Self { lines, last: HashMap::new(), counts: Counts { input: count, ..Counts::default() } }
    }

    /// A record came back.
    pub(super) fn see(&mut self, partition: i32, value: Option<&[u8]>) {
        self.counts.visible += 1;
        let Some(line) = value.and_then(|value| self.lines.get_mut(value)) else {
            self.counts.unknown += 1;
            return;
        };
        line.seen += 1;
        if line.seen > line.written {
            self.counts.duplicated += 1;
        } else if line.written == 1 {
            // Only of a line that is there once it is known which one came back.
            let last = self.last.entry(partition).or_insert(line.first);
            if *last > line.first {
                self.counts.out_of_order += 1;
            }
            *last = line.first.max(*last);
        }
    }

    /// Nothing more comes.
    pub(super) fn finish(self) -> Counts {
        let missing = |line: &Line| line.written.saturating_sub(line.seen);
        Counts { lost: self.lines.values().map(missing).sum(), ..self.counts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(input: &str, seen: &[(i32, &str)]) -> Counts {
        let mut tally = Tally::new(&Bytes::copy_from_slice(input.as_bytes()));
        for (partition, value) in seen {
            tally.see(*partition, Some(value.as_bytes()));
        }
        tally.finish()
    }

    #[test]
    fn everything_once_is_exactly_once() {
        let counts = counts("a\nb\nc\n", &[(0, "a"), (1, "b"), (0, "c")]);
        assert_eq!(counts, Counts { input: 3, visible: 3, ..Counts::default() });
        assert!(counts.is_exactly_once());
    }

    #[test]
    fn a_last_line_without_an_end_counts_and_an_empty_input_has_none() {
        assert_eq!(counts("a\nb", &[]).input, 2);
        assert_eq!(counts("", &[]), Counts::default());
    }

    #[test]
    fn what_is_missing_is_lost() {
        let counts = counts("a\nb\nc\n", &[(0, "b")]);
        assert_eq!(counts, Counts { input: 3, visible: 1, lost: 2, ..Counts::default() });
        assert!(!counts.is_exactly_once());
    }

    #[test]
    fn what_comes_again_is_duplicated_each_time() {
        let counts = counts("a\nb\n", &[(0, "a"), (0, "b"), (1, "a"), (0, "a")]);
        assert_eq!(counts, Counts { input: 2, visible: 4, duplicated: 2, ..Counts::default() });
        assert!(!counts.is_exactly_once());
    }

    #[test]
    fn a_loss_is_not_made_up_for_by_a_duplicate() {
        let counts = counts("a\nb\n", &[(0, "a"), (0, "a")]);
        assert_eq!(counts, Counts { input: 2, visible: 2, duplicated: 1, lost: 1, ..Counts::default() });
    }

    #[test]
    fn equal_lines_are_expected_as_often_as_they_were_written() {
        assert_eq!(counts("a\na\n", &[(0, "a"), (1, "a")]).duplicated, 0);
        assert_eq!(counts("a\na\n", &[(0, "a")]).lost, 1);
    }

    #[test]
    fn a_record_that_nobody_wrote_is_unknown() {
        let mut tally = Tally::new(&Bytes::from_static(b"a\n"));
        tally.see(0, None);
        tally.see(0, Some(b"x"));
        let counts = tally.finish();
        assert_eq!((counts.unknown, counts.lost, counts.visible), (2, 1, 2));
        assert!(!counts.is_exactly_once());
    }

    #[test]
    fn order_is_watched_within_a_partition_alone() {
        assert_eq!(counts("a\nb\nc\n", &[(0, "b"), (1, "a"), (0, "c")]).out_of_order, 0);
        let swapped = counts("a\nb\nc\n", &[(0, "c"), (0, "a"), (0, "b")]);
        assert_eq!(swapped.out_of_order, 2);
        assert!(swapped.is_exactly_once());
    }
}

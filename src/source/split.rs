//! Splits, and which subtask reads which.

use std::sync::Arc;

use bytes::Bytes;

/// One of the parallel instances of a job's source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subtask {
    /// Its number, from 0.
    pub index: u32,
    /// How many there are (Flink's parallelism).
    pub total: u32,
}

/// Where a reader stands in one split, as it is kept in a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplitState {
    /// The split's name, unique within its source.
    pub split: Arc<str>,
    /// The reader's own bytes.
    pub state: Bytes,
}

impl SplitState {
    /// The state of a split.
    pub fn new(split: impl Into<Arc<str>>, state: impl Into<Bytes>) -> Self {
        Self { split: split.into(), state: state.into() }
    }
}

impl Subtask {
    /// The subtask of a job that has one.
    pub const ONLY: Self = Self { index: 0, total: 1 };

    /// Subtask `index` of `total`.
    ///
    /// # Panics
    /// If `index` is not below `total`.
    #[must_use]
    pub fn new(index: u32, total: u32) -> Self {
        assert!(index < total, "subtask {index} of {total}");
        Self { index, total }
    }

    /// Whether a split belongs to this subtask: it belongs to exactly one of them, whatever their number.
    ///
    /// Splits whose names differ only in a number at the end, as those of a topic's partitions do (`flights-0`,
    /// `flights-1`), are dealt out in turn, beginning at a subtask that the rest of the name decides. That is how
    /// Flink deals out partitions: no subtask has two more of a topic than another.
    #[must_use]
    pub fn owns(self, split: &str) -> bool {
        let name = split.trim_end_matches(|c: char| c.is_ascii_digit());
        // A longer number than this is part of a name, and any value does.
        let number = split[name.len()..].parse::<u64>().unwrap_or_default();
        self.owns_nth(start(name).wrapping_add(number))
    }

    /// Whether the `n`th of things that are dealt out in turn belongs to this subtask.
    #[must_use]
    pub fn owns_nth(self, n: u64) -> bool {
        n % u64::from(self.total.max(1)) == u64::from(self.index)
    }
}

/// Where dealing begins: FNV-1a, cut to 31 bits so that a number can be added. It must never change, for two subtasks
/// of different releases would disagree.
fn start(name: &str) -> u64 {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash ^ (hash >> 32)) & 0x7fff_ffff
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(split: &str, total: u32) -> u32 {
        let owners: Vec<_> = (0..total).filter(|index| Subtask::new(*index, total).owns(split)).collect();
        assert_eq!(owners.len(), 1, "{split} of {total}");
        owners[0]
    }

    #[test]
    fn every_split_belongs_to_exactly_one_subtask() {
        for total in 1..=7 {
            for split in ["", "flights", "flights-0", "7", "a-99999999999999999999999", "ä-3"] {
                owner(split, total);
            }
        }
    }

    #[test]
    fn partitions_of_a_topic_are_dealt_out_in_turn() {
        for total in 1..=5 {
            let first = owner("flights-0", total);
            for partition in 0..12 {
                let owner = owner(&format!("flights-{partition}"), total);
                assert_eq!(owner, (first + partition) % total, "{partition} of {total}");
            }
        }
    }

    #[test]
    fn topics_begin_at_different_subtasks() {
        let firsts: std::collections::HashSet<_> =
            (0..20).map(|t| owner(&format!("topic{t}x-0"), 4)).collect();
        assert_eq!(firsts.len(), 4);
    }

    #[test]
    fn the_owner_of_a_split_never_changes() {
        let owners: Vec<_> = (0..4).map(|p| owner(&format!("flights-{p}"), 3)).collect();
        assert_eq!(owners, [2, 0, 1, 2]);
        assert_eq!(owner("schedule.csv", 16), 5);
    }
}

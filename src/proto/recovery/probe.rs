//! Ids that may be in use although nobody lists them, asked for one by one.
//!
//! Flink probes upward by InitProducerId, which makes every id that it asks for. A description makes none.

use crate::{
    ids::TransactionalId,
    proto::{
        naming::{IdParts, IdPrefix},
        pool::WriterState,
    },
};

/// How many ids of a series are asked for first; with each find it is twice as many. A series ends with as many that
/// nobody knows, for checkpoints without records leave gaps.
const FIRST: u64 = 8;

/// How many at most.
const MOST: u64 = 256;

/// Ids of one prefix and subtask, upward.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Series {
    prefix: IdPrefix,
    subtask: u32,
    /// By how much another subtask is away that belongs to the same owner.
    total: u32,
    first: u64,
    next: u64,
    count: u64,
    found: Found,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Nothing,
    Something,
}

impl Series {
    fn new(prefix: IdPrefix, (subtask, total): (u32, u32), first: u64) -> Self {
        Self { prefix, subtask, total, first, next: first, count: FIRST, found: Found::Nothing }
    }

    fn ids(&self) -> impl Iterator<Item = TransactionalId> + '_ {
        let numbers = self.next..self.next.saturating_add(self.count);
        numbers.map(|number| self.prefix.id(IdParts { subtask: self.subtask, number }))
    }

    /// The series after this one was asked for, if it is not at its end.
    fn after(mut self, found: usize) -> Option<Self> {
        if found > 0 {
            self.next = self.next.saturating_add(self.count);
            self.count = (self.count * 2).min(MOST);
            self.found = Found::Something;
            return Some(self);
        }
        // A run with more subtasks may have left no checkpoint. It had this one, too, so there is more only if this one
        // has something.
        let next = self.subtask.checked_add(self.total)?;
        let again = Self::new(self.prefix, (next, self.total), self.first);
        (self.found == Found::Something).then_some(again)
    }
}

/// What is asked for, round by round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Probe {
    series: Vec<Series>,
}

impl Probe {
    /// Everything that these writers may have used: slots from 0, and numbers behind the checkpoint's.
    pub(super) fn new(writers: &[WriterState], checkpoint: u64) -> Self {
        let mut series = Vec::new();
        for writer in writers {
            let total = writer.ownership.total();
            for prefix in writer.prefixes() {
                for subtask in writer.ownership.owned() {
                    let firsts = [0, checkpoint.saturating_add(1)];
                    // Near the beginning one series covers both.
                    let firsts = if checkpoint < FIRST { &firsts[..1] } else { &firsts[..] };
                    series.extend(
                        firsts.iter().map(|first| Series::new(prefix.clone(), (subtask, total), *first)),
                    );
                }
            }
        }
        Self { series }
    }

    /// The ids of this round; none when everything was asked for.
    pub(super) fn ids(&self) -> Vec<TransactionalId> {
        self.series.iter().flat_map(Series::ids).collect()
    }

    /// The next round. `known` tells of each id of this one, in order, whether its coordinator knows it.
    pub(super) fn after(self, known: &[bool]) -> Self {
        let mut rest = known;
        let step = |series: Series| {
            let count = usize::try_from(series.count).unwrap_or(usize::MAX).min(rest.len());
            let (own, others) = rest.split_at(count);
            rest = others;
            series.after(own.iter().filter(|known| **known).count())
        };
        Self { series: self.series.into_iter().filter_map(step).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::naming::{Naming, Ownership};

    /// Which of the ids that exist are found.
    fn found(checkpoint: u64, exist: &[&str]) -> Vec<String> {
        let prefix = IdPrefix::new("job").unwrap();
        let writer = WriterState::fresh(Naming::Pooled, prefix, Ownership::from_parts([0, 2], 3).unwrap());
        let mut probe = Probe::new(&[writer], checkpoint);
        let mut found = Vec::new();
        for _ in 0..50 {
            let ids = probe.ids();
            if ids.is_empty() {
                found.sort();
                return found;
            }
            let known: Vec<bool> = ids.iter().map(|id| exist.contains(&id.as_str())).collect();
            found.extend(ids.iter().zip(&known).filter(|(_, k)| **k).map(|(id, _)| id.as_str().to_owned()));
            probe = probe.after(&known);
        }
        panic!("it never ends");
    }

    #[test]
    fn slots_and_numbers_behind_the_checkpoint_are_found() {
        let exist = ["job-0-0", "job-0-1", "job-2-7", "job-0-101", "job-0-103", "job-1-0", "job-0-50"];
        assert_eq!(found(100, &exist), ["job-0-0", "job-0-1", "job-0-101", "job-0-103", "job-2-7"]);
        assert_eq!(found(3, &["job-0-4", "job-0-5"]), ["job-0-4", "job-0-5"]);
    }

    #[test]
    fn subtasks_of_a_larger_run_are_asked_for_while_something_is_found() {
        let exist = ["job-0-0", "job-3-0", "job-6-0", "job-12-0"];
        assert_eq!(found(0, &exist), ["job-0-0", "job-3-0", "job-6-0"]);
    }

    #[test]
    fn long_series_are_found_to_their_end() {
        let all: Vec<String> = (20..3000).map(|n| format!("job-2-{n}")).collect();
        let exist: Vec<&str> = all.iter().map(String::as_str).collect();
        assert_eq!(found(20, &exist).len(), 2979);
        assert_eq!(found(u64::MAX, &[]), [""; 0]);
    }
}

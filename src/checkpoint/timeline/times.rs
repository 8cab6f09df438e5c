//! The times of one checkpoint.

use std::{collections::HashMap, sync::Arc};

use super::line::{Key, Stage};

/// That something was passed, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// What.
    pub stage: Stage,
    /// The subtask, where it is of one.
    pub task: Option<Arc<str>>,
    /// Microseconds since the Unix epoch. Within a run, differences are those of a clock that is never set.
    pub at_us: i64,
}

/// When a checkpoint passed what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointTimes {
    /// The run of the job: when it began, in milliseconds since the Unix epoch.
    pub run: i64,
    /// The checkpoint's number.
    pub checkpoint: u64,
    /// In the order of time.
    pub marks: Vec<Mark>,
}

impl CheckpointTimes {
    /// When the last subtask passed this; `None` if none did.
    #[must_use]
    pub fn last(&self, stage: Stage) -> Option<i64> {
        self.marks.iter().filter(|mark| mark.stage == stage).map(|mark| mark.at_us).max()
    }

    /// Microseconds from the trigger until the last subtask passed this; `None` if it did not, or if the trigger is
    /// not known.
    #[must_use]
    pub fn since_trigger(&self, stage: Stage) -> Option<i64> {
        Some(self.last(stage)? - self.last(Stage::Triggered)?)
    }
}

/// The checkpoints of these lines, in the order of their first ones.
pub(super) fn gather(lines: impl Iterator<Item = (Key, Mark)>) -> Vec<CheckpointTimes> {
    let (mut all, mut places) = (Vec::<CheckpointTimes>::new(), HashMap::new());
    for (key, mark) in lines {
        let place = *places.entry(key).or_insert_with(|| {
            all.push(CheckpointTimes { run: key.0, checkpoint: key.1, marks: Vec::new() });
            all.len() - 1
        });
        all[place].marks.push(mark);
    }
    for times in &mut all {
        // Subtasks run side by side: what they tell at the same time is told in the order of stages.
        times.marks.sort_by(|a, b| (a.at_us, a.stage, &a.task).cmp(&(b.at_us, b.stage, &b.task)));
    }
    all
}

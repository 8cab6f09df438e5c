//! Checkpoints whose times are known.

use crate::checkpoint::timeline::{CheckpointTimes, Mark, Stage};

/// So many complete ones, of which every second had records, and one that was given up.
pub(super) fn checkpoints(count: i64) -> Vec<CheckpointTimes> {
    let marks = |n: i64| {
        let mut marks = vec![
            (Stage::Triggered, 0),
            (Stage::AtSource, 1),
            (Stage::AtSink, 3),
            (Stage::Prepared, 10 + n),
            (Stage::Acknowledged, 10 + n),
            (Stage::Durable, 15 + n),
            (Stage::Notified, 15 + n),
        ];
        if n % 2 == 0 {
            marks.extend([(Stage::Committed, 35 + n), (Stage::Visible, 40 + n)]);
        }
        let mark = |(stage, ms): (Stage, i64)| Mark { stage, task: None, at_us: (n * 1_000 + ms) * 1_000 };
        marks.into_iter().map(mark).collect::<Vec<_>>()
    };
    let mut all: Vec<_> = (1..=count)
        .zip(1..)
        .map(|(n, checkpoint)| CheckpointTimes { run: 1, checkpoint, marks: marks(n) })
        .collect();
    let given_up = [(Stage::Triggered, 0), (Stage::GivenUp, 9)];
    let given_up = given_up.map(|(stage, at_us)| Mark { stage, task: None, at_us });
    all.push(CheckpointTimes { run: 2, checkpoint: 9_999, marks: given_up.into() });
    all
}

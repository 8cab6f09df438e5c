//! One event, as a line of the file.

use std::sync::Arc;

use serde_json::{Value, json};

use super::times::Mark;
use crate::checkpoint::runner::{JobEvent, Role, TaskName};

/// What a checkpoint passes, in this order. Operators may be missing, and what follows on a commit is missing where
/// there were no records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// The coordinator triggered it.
    Triggered,
    /// A source has put its barrier among the records.
    AtSource,
    /// The barriers of all inputs have come to an operator, which makes its snapshot now.
    AtOperator,
    /// They have come to a sink, which begins to flush.
    AtSink,
    /// A sink has flushed: everything is acknowledged by the brokers.
    Prepared,
    /// A subtask acknowledged the checkpoint.
    Acknowledged,
    /// It is durable.
    Durable,
    /// A subtask is told that it is complete.
    Notified,
    /// The coordinator of a transaction has answered EndTxn.
    Committed,
    /// The commit is on every partition of a transaction: readers see its records.
    Visible,
    /// The checkpoint was given up.
    GivenUp,
}

impl Stage {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Triggered,
        Self::AtSource,
        Self::AtOperator,
        Self::AtSink,
        Self::Prepared,
        Self::Acknowledged,
        Self::Durable,
        Self::Notified,
        Self::Committed,
        Self::Visible,
        Self::GivenUp,
    ];

    /// Its name in the file, and for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Triggered => "triggered",
            Self::AtSource => "at-source",
            Self::AtOperator => "at-operator",
            Self::AtSink => "at-sink",
            Self::Prepared => "prepared",
            Self::Acknowledged => "acknowledged",
            Self::Durable => "durable",
            Self::Notified => "notified",
            Self::Committed => "committed",
            Self::Visible => "visible",
            Self::GivenUp => "given-up",
        }
    }
}

/// Which checkpoint of which run a line is about. Ids of checkpoints that were given up may come again in another run.
pub(super) type Key = (i64, u64);

/// The checkpoint and the stage of an event, and the subtask that it is of; `None` for what is no stage.
pub(super) fn of<'a>(
    event: &JobEvent<'a>,
    role: impl Fn(&str) -> Role,
) -> Option<(u64, Stage, Option<&'a TaskName>)> {
    Some(match *event {
        JobEvent::Triggered { checkpoint, .. } => (checkpoint, Stage::Triggered, None),
        JobEvent::Snapshot { checkpoint, task } => {
            let stage = match role(&task.uid) {
                Role::Source => Stage::AtSource,
                Role::Operator => Stage::AtOperator,
                Role::Sink => Stage::AtSink,
            };
            (checkpoint, stage, Some(task))
        }
        JobEvent::Prepared { checkpoint, task, .. } => (checkpoint, Stage::Prepared, Some(task)),
        JobEvent::Acknowledged { checkpoint, task } => (checkpoint, Stage::Acknowledged, Some(task)),
        JobEvent::Stored { checkpoint } => (checkpoint, Stage::Durable, None),
        JobEvent::Notified { checkpoint, task } => (checkpoint, Stage::Notified, Some(task)),
        JobEvent::Committed { checkpoint, task, .. } => (checkpoint, Stage::Committed, Some(task)),
        JobEvent::Visible { checkpoint, task, .. } => (checkpoint, Stage::Visible, Some(task)),
        JobEvent::Aborted { checkpoint, .. } => (checkpoint, Stage::GivenUp, None),
        JobEvent::Recovered { .. }
        | JobEvent::NotCommitted { .. }
        | JobEvent::GivenUp { .. }
        | JobEvent::Fenced { .. }
        | JobEvent::Usage { .. } => return None,
    })
}

/// The line, with its end.
pub(super) fn write((run, checkpoint): Key, mark: &Mark) -> String {
    let line = json!({
        "run": run,
        "checkpoint": checkpoint,
        "event": mark.stage.name(),
        "task": mark.task.as_deref(),
        "at_us": mark.at_us,
    });
    format!("{line}\n")
}

/// What a line says; `None` for one that is torn, or that a newer release wrote.
pub(super) fn read(line: &str) -> Option<(Key, Mark)> {
    let line: Value = serde_json::from_str(line).ok()?;
    let name = line["event"].as_str()?;
    let mark = Mark {
        stage: Stage::ALL.into_iter().find(|stage| stage.name() == name)?,
        task: line["task"].as_str().map(Arc::from),
        at_us: line["at_us"].as_i64()?,
    };
    Some(((line["run"].as_i64()?, line["checkpoint"].as_u64()?), mark))
}

//! What the source of a job knows of its records that the job's sink and its checkpoints do not: their lines.

use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{SOURCE, lines::RecordLines};
use crate::{
    checkpoint::runner::{JobEvent, TaskError},
    source::InputPosition,
};

/// Shared by the source and by whoever is told what happens.
#[derive(Debug, Clone, Default)]
pub(super) struct Ledger(Arc<Mutex<Books>>);

#[derive(Debug, Default)]
struct Books {
    lines: RecordLines,
    /// Where the source stood at the barriers of checkpoints that are not known to be durable.
    marks: BTreeMap<u64, Mark>,
    /// The checkpoint for whose barrier the source tells its position now.
    marking: Option<u64>,
    durable: Mark,
    /// The newest checkpoint that was given up.
    given_up: u64,
}

/// How far the source is, since the run began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Mark {
    pub(super) records: u64,
    pub(super) lines: u64,
    /// Of input.
    pub(super) bytes: u64,
    /// The position itself, in bytes.
    pub(super) at: u64,
}

impl Mark {
    /// Lines that were passed over.
    pub(super) fn skipped(&self) -> u64 {
        self.lines.saturating_sub(self.records)
    }
}

impl Ledger {
    fn books(&self) -> MutexGuard<'_, Books> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next records are of these lines.
    pub(super) fn took(&self, lines: &[u64]) {
        let mut books = self.books();
        lines.iter().for_each(|line| books.lines.took(*line));
    }

    /// The source stands here, and began there. It counts for the checkpoint whose barrier is put among the records now.
    pub(super) fn stands(&self, at: &InputPosition, began: &InputPosition) {
        let mut books = self.books();
        let Some(checkpoint) = books.marking.take() else { return };
        let mark = Mark {
            records: books.lines.count(),
            lines: at.lines.saturating_sub(began.lines),
            bytes: at.bytes.saturating_sub(began.bytes),
            at: at.bytes,
        };
        books.marks.insert(checkpoint, mark);
    }

    /// Something happened in the job. The mark of a checkpoint that is durable now.
    pub(super) fn event(&self, event: &JobEvent<'_>) -> Option<Mark> {
        let mut books = self.books();
        match event {
            JobEvent::Snapshot { checkpoint, task } if *task.uid == *SOURCE => {
                books.marking = Some(*checkpoint);
            }
            JobEvent::Aborted { checkpoint, .. } => books.given_up = *checkpoint,
            JobEvent::Stored { checkpoint } => {
                let later = books.marks.split_off(&(checkpoint + 1));
                let passed = std::mem::replace(&mut books.marks, later);
                // The last one of a run holds no other position than the one before.
                let mark = passed.into_values().next_back()?;
                books.durable = mark;
                // These are prepared: no broker refuses them any more.
                books.lines.forget_before(mark.records);
                return Some(mark);
            }
            _ => {}
        }
        None
    }

    /// Where the newest durable checkpoint ends.
    pub(super) fn durable(&self) -> Mark {
        self.books().durable
    }

    /// Where the newest barrier stands.
    pub(super) fn newest(&self) -> Mark {
        let books = self.books();
        books.marks.last_key_value().map_or(books.durable, |(_, mark)| *mark)
    }

    /// The newest checkpoint that was given up.
    pub(super) fn given_up(&self) -> u64 {
        self.books().given_up
    }

    /// The lines of these records.
    pub(super) fn lines_of(&self, records: &Range<u64>) -> RecordLines {
        self.books().lines.part(records)
    }

    /// The line of the record that a sink could not take, or 0.
    pub(super) fn line_behind(&self, error: &TaskError) -> u64 {
        match error {
            TaskError::Write { transaction, .. } => self.books().lines.line(transaction.end),
            _ => 0,
        }
    }
}

//! Who must still hear that a checkpoint is durable.

use std::time::Duration;

use crate::ids::Moment;

/// The newest durable checkpoint, and how far each subtask has confirmed. A notification covers those before it, so
/// only the newest is ever repeated.
#[derive(Debug)]
pub(super) struct Notices {
    newest: u64,
    confirmed: Vec<u64>,
    repeat_at: Moment,
}

impl Notices {
    /// Nothing is durable, and nobody has to hear of anything.
    pub(super) fn new(subtasks: usize) -> Self {
        Self { newest: 0, confirmed: vec![0; subtasks], repeat_at: Moment(0) }
    }

    /// `checkpoint` is durable: everybody is to be told, and told again after `repeat`.
    pub(super) fn durable(&mut self, checkpoint: u64, now: Moment, repeat: Duration) {
        self.newest = checkpoint;
        self.repeat_at = now.after(repeat);
    }

    /// The checkpoint that everybody must have heard of.
    pub(super) fn newest(&self) -> u64 {
        self.newest
    }

    /// Takes a confirmation; one of a checkpoint that nobody was told of means nothing.
    pub(super) fn confirm(&mut self, checkpoint: u64, subtask: usize) {
        if checkpoint > self.newest {
            return;
        }
        if let Some(confirmed) = self.confirmed.get_mut(subtask) {
            *confirmed = checkpoint.max(*confirmed);
        }
    }

    /// Who has not confirmed the newest.
    pub(super) fn open(&self) -> impl Iterator<Item = usize> {
        let open = self.confirmed.iter().enumerate().filter(|(_, confirmed)| **confirmed < self.newest);
        open.map(|(subtask, _)| subtask)
    }

    /// When to tell those again who have not confirmed.
    pub(super) fn repeat_at(&self) -> Option<Moment> {
        self.open().next().map(|_| self.repeat_at)
    }
}

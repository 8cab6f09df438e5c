//! A checkpoint whose acknowledgements are being collected.

use crate::{ids::Moment, proto::checkpoint::CheckpointKind};

/// What has come in so far.
#[derive(Debug)]
pub(super) struct Pending<A> {
    pub(super) kind: CheckpointKind,
    pub(super) triggered: Moment,
    acks: Vec<Option<A>>,
}

impl<A> Pending<A> {
    pub(super) fn new(kind: CheckpointKind, subtasks: usize, triggered: Moment) -> Self {
        Self { kind, triggered, acks: (0..subtasks).map(|_| None).collect() }
    }

    /// Takes an acknowledgement; the first of a subtask counts.
    pub(super) fn ack(&mut self, subtask: usize, state: A) {
        if let Some(slot) = self.acks.get_mut(subtask) {
            slot.get_or_insert(state);
        }
    }

    /// Who has not acknowledged.
    pub(super) fn missing(&self) -> impl Iterator<Item = usize> {
        self.acks.iter().enumerate().filter(|(_, ack)| ack.is_none()).map(|(subtask, _)| subtask)
    }

    /// What was handed over, by subtask.
    pub(super) fn into_states(self) -> Vec<A> {
        self.acks.into_iter().flatten().collect()
    }
}

//! When a checkpoint begins, whether it is complete, and who must still hear of it.

use std::{collections::VecDeque, marker::PhantomData};

use super::Misuse;
use crate::ids::Moment;

mod interface;

pub use interface::{AbortCause, ConfigError, CoordinatorConfig, CoordinatorEffect, CoordinatorInput};

/// The coordinator of one run of a job. `A` is what a subtask hands over with its acknowledgement.
#[derive(Debug)]
pub struct Coordinator<A> {
    effects: VecDeque<CoordinatorEffect<A>>,
    acks: PhantomData<A>,
}

impl<A> Coordinator<A> {
    /// Begins. `subtasks` is how many must acknowledge; `restored` the checkpoint that the job begins from (0 for
    /// none): all are notified of it again, and ids go on from it.
    ///
    /// # Errors
    /// [`ConfigError`] when the settings allow no checkpoint.
    pub fn new(
        _config: CoordinatorConfig,
        _subtasks: usize,
        _restored: u64,
        _now: Moment,
    ) -> Result<Self, ConfigError> {
        Ok(Self { effects: VecDeque::new(), acks: PhantomData })
    }

    /// Says which subtasks are sources, so that the job can come to its end. Without it, it has none and runs on.
    ///
    /// # Errors
    /// [`ConfigError::UnknownSource`] when one of them is no subtask.
    pub fn with_sources(self, _sources: impl IntoIterator<Item = usize>) -> Result<Self, ConfigError> {
        Ok(self)
    }

    /// Takes a fact.
    ///
    /// # Errors
    /// [`Misuse`] when the fact cannot be.
    pub fn handle(&mut self, _now: Moment, _input: CoordinatorInput<A>) -> Result<(), Misuse> {
        Ok(())
    }

    /// The next intent.
    pub fn poll_effect(&mut self) -> Option<CoordinatorEffect<A>> {
        self.effects.pop_front()
    }

    /// When to send [`CoordinatorInput::Tick`].
    #[must_use]
    pub fn next_deadline(&self) -> Option<Moment> {
        None
    }
}

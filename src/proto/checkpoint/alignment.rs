//! At which record of each input channel a subtask's snapshot is cut.

use std::collections::VecDeque;

use super::Misuse;
use crate::ids::Moment;

mod interface;

pub use interface::{AlignmentEffect, AlignmentInput, Barrier, Cut, Mode};

/// The alignment of one subtask.
#[derive(Debug)]
pub struct Alignment {
    effects: VecDeque<AlignmentEffect>,
}

impl Alignment {
    /// Begins with `channels` input channels, none of which has brought anything.
    #[must_use]
    pub fn new(_mode: Mode, _channels: usize) -> Self {
        Self { effects: VecDeque::new() }
    }

    /// Takes a fact.
    ///
    /// # Errors
    /// [`Misuse`] when the fact cannot be: an unknown or ended channel, a blocked channel that was read, or a barrier
    /// that is not the next one of its channel.
    pub fn handle(&mut self, _now: Moment, _input: AlignmentInput) -> Result<(), Misuse> {
        Ok(())
    }

    /// The next intent.
    pub fn poll_effect(&mut self) -> Option<AlignmentEffect> {
        self.effects.pop_front()
    }

    /// When to send [`AlignmentInput::Tick`].
    #[must_use]
    pub fn next_deadline(&self) -> Option<Moment> {
        None
    }
}

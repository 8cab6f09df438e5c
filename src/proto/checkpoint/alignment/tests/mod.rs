//! The alignment, rule by rule, and in a simulated subtask.

use std::time::Duration;

use super::{Alignment, AlignmentEffect as Effect, AlignmentInput as Input, Barrier, Cut, Mode};
use crate::{
    ids::Moment,
    proto::checkpoint::{CheckpointKind as Kind, Misuse},
};

mod aligned;
mod ending;
mod misuse;
mod several;
mod simulation;
mod subtask;
mod unaligned;

const MILLIS: u64 = 1000;

fn aligned() -> Mode {
    Mode::ExactlyOnce { aligned_timeout: None }
}

fn at_once() -> Mode {
    Mode::ExactlyOnce { aligned_timeout: Some(Duration::ZERO) }
}

fn after(millis: u64) -> Mode {
    Mode::ExactlyOnce { aligned_timeout: Some(Duration::from_millis(millis)) }
}

/// A periodic barrier of a checkpoint that was triggered 100 ms for each of its number after the start.
fn barrier(checkpoint: u64) -> Barrier {
    Barrier { checkpoint, kind: Kind::Periodic, triggered: Moment(checkpoint * 100 * MILLIS) }
}

/// An alignment, and the time.
struct Subject {
    alignment: Alignment,
    now: Moment,
}

impl Subject {
    fn new(mode: Mode, channels: usize) -> Self {
        Self { alignment: Alignment::new(mode, channels), now: Moment(100 * MILLIS) }
    }

    fn effects(&mut self) -> Vec<Effect> {
        std::iter::from_fn(|| self.alignment.poll_effect()).collect()
    }

    fn give(&mut self, input: Input) -> Vec<Effect> {
        self.alignment.handle(self.now, input).unwrap();
        self.effects()
    }

    fn announced(&mut self, channel: usize, checkpoint: u64) -> Vec<Effect> {
        self.give(Input::Announced { channel, barrier: barrier(checkpoint) })
    }

    fn reached(&mut self, channel: usize, checkpoint: u64) -> Vec<Effect> {
        self.give(Input::Reached { channel, barrier: barrier(checkpoint) })
    }

    fn tick(&mut self, millis: u64) -> Vec<Effect> {
        self.now = Moment(millis * MILLIS);
        self.give(Input::Tick)
    }

    fn deadline(&self) -> Option<u64> {
        self.alignment.next_deadline().map(|at| at.0 / MILLIS)
    }
}

fn block(channel: usize) -> Effect {
    Effect::Block { channel }
}

fn unblock(channel: usize) -> Effect {
    Effect::Unblock { channel }
}

fn snapshot(checkpoint: u64, cut: Cut) -> Effect {
    Effect::Snapshot { barrier: barrier(checkpoint), cut }
}

fn capture(checkpoint: u64, channel: usize) -> Effect {
    Effect::Capture { checkpoint, channel }
}

fn complete(checkpoint: u64) -> Effect {
    Effect::Complete { checkpoint }
}

fn give_up(checkpoint: u64) -> Effect {
    Effect::GiveUp { checkpoint }
}

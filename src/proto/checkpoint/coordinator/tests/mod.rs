//! The coordinator, rule by rule, and under random facts.

use std::time::Duration;

use super::{
    AbortCause, ConfigError, Coordinator, CoordinatorConfig, CoordinatorEffect as Effect,
    CoordinatorInput as Input,
};
use crate::{
    ids::Moment,
    proto::checkpoint::{CheckpointKind as Kind, Misuse},
};

mod acknowledging;
mod ending;
mod failing;
mod notifying;
mod random;
mod triggering;

/// What a subtask hands over: the checkpoint, and its own number.
type State = (u64, usize);

const SECOND: u64 = 1_000_000;

/// A coordinator, and the time in seconds.
struct Job {
    coordinator: Coordinator<State>,
    subtasks: usize,
    now: Moment,
}

/// One checkpoint a second, and one failure is one too many.
fn config() -> CoordinatorConfig {
    CoordinatorConfig::default()
}

fn tolerant(failures: u32) -> CoordinatorConfig {
    CoordinatorConfig { tolerable_failures: failures, ..config() }
}

fn concurrent(checkpoints: usize) -> CoordinatorConfig {
    CoordinatorConfig { max_concurrent: checkpoints, ..tolerant(9) }
}

impl Job {
    /// Begins at 0 s; the last subtask is a sink, the others are sources.
    fn new(config: CoordinatorConfig, subtasks: usize) -> Self {
        Self::restored(config, subtasks, 0)
    }

    fn restored(config: CoordinatorConfig, subtasks: usize, restored: u64) -> Self {
        let coordinator = Coordinator::new(config, subtasks, restored, Moment(0)).unwrap();
        let coordinator = coordinator.with_sources(0..subtasks - 1).unwrap();
        Self { coordinator, subtasks, now: Moment(0) }
    }

    fn effects(&mut self) -> Vec<Effect<State>> {
        std::iter::from_fn(|| self.coordinator.poll_effect()).collect()
    }

    fn give(&mut self, input: Input<State>) -> Vec<Effect<State>> {
        self.coordinator.handle(self.now, input).unwrap();
        self.effects()
    }

    /// Moves the clock to this many tenths of a second.
    fn tick(&mut self, tenths: u64) -> Vec<Effect<State>> {
        self.now = Moment(tenths * SECOND / 10);
        self.give(Input::Tick)
    }

    fn ack(&mut self, checkpoint: u64, subtask: usize) -> Vec<Effect<State>> {
        self.give(Input::Ack { checkpoint, subtask, state: (checkpoint, subtask) })
    }

    fn ack_all(&mut self, checkpoint: u64) -> Vec<Effect<State>> {
        (0..self.subtasks).flat_map(|subtask| self.ack(checkpoint, subtask)).collect()
    }

    fn confirm_all(&mut self, checkpoint: u64) -> Vec<Effect<State>> {
        let confirmed = |subtask| Input::Confirmed { checkpoint, subtask };
        (0..self.subtasks).flat_map(|subtask| self.give(confirmed(subtask))).collect()
    }

    fn stored(&mut self, checkpoint: u64) -> Vec<Effect<State>> {
        self.give(Input::Stored { checkpoint })
    }

    fn store_failed(&mut self, checkpoint: u64) -> Vec<Effect<State>> {
        self.give(Input::StoreFailed { checkpoint, cause: "disk".to_owned() })
    }

    fn decline(&mut self, checkpoint: u64) -> Vec<Effect<State>> {
        self.give(Input::Decline { checkpoint, subtask: 0, cause: "no".to_owned() })
    }

    /// Takes a checkpoint from its first acknowledgement to its last confirmation.
    fn take(&mut self, checkpoint: u64) -> Vec<Effect<State>> {
        let mut effects = self.ack_all(checkpoint);
        effects.extend(self.stored(checkpoint));
        effects.extend(self.confirm_all(checkpoint));
        effects
    }

    fn deadline(&self) -> Option<u64> {
        self.coordinator.next_deadline().map(|at| at.0 / (SECOND / 10))
    }
}

fn triggered(checkpoint: u64, kind: Kind) -> Effect<State> {
    Effect::Trigger { checkpoint, kind }
}

fn periodic(checkpoint: u64) -> Effect<State> {
    triggered(checkpoint, Kind::Periodic)
}

fn store(checkpoint: u64, kind: Kind, subtasks: usize) -> Effect<State> {
    let states = (0..subtasks).map(|subtask| (checkpoint, subtask)).collect();
    Effect::Store { checkpoint, kind, states }
}

fn notify(checkpoint: u64, subtask: usize) -> Effect<State> {
    Effect::Notify { checkpoint, subtask }
}

fn declined() -> AbortCause {
    AbortCause::Declined { subtask: 0, cause: "no".to_owned() }
}

fn abort(checkpoint: u64, cause: AbortCause) -> Effect<State> {
    Effect::Abort { checkpoint, cause }
}

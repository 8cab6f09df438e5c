//! When a checkpoint begins, whether it is complete, and who must still hear of it.
//!
//! ```text
//!   Trigger ──► collecting ── every Ack ──► complete ── its turn ──► storing ── Stored ──► durable: Notify
//!                   │                                                   │
//!                   └─ timeout, Decline, a newer one complete ─► Abort ◄┘ StoreFailed
//! ```
//! The rules that make it safe:
//! - Nothing is stored without the acknowledgement of every subtask, and nobody is notified before it is durable.
//! - Ids grow by one, and are never used again: a checkpoint whose store failed may be durable.
//! - Stores are in the order of checkpoints. So when one is complete, older ones that are not can never be stored,
//!   and are subsumed; nothing is lost by it, since the newer one holds all that they would have held.
//! - The checkpoint that a job begins from is notified again: whoever decided it may have died before it told anybody.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{CheckpointKind, Misuse};
use crate::ids::Moment;

mod clock;
mod interface;
#[cfg(any(test, feature = "fuzzing"))]
pub mod model;
mod notices;
mod pending;
mod schedule;

use clock::NEVER;
pub use interface::{AbortCause, ConfigError, CoordinatorConfig, CoordinatorEffect, CoordinatorInput};
use notices::Notices;
use pending::Pending;
use schedule::Schedule;

/// Where the job is on its way to its end.
///
/// ```text
///            Suspend asked for, or all sources ended              allowed              durable          all confirmed
///   Running ───────────────────────────────────────► Stopping ───────────► Last ───────────────► Leaving ───────► Over
///      │                                                 ▲        failed    │                                      ▲
///      │                                                 └──────────────────┤      more failures than tolerated    │
///      └────────────────────────────────────────────────────────────────────┴──────────────────────────────────────┘
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Course {
    Running,
    /// The last checkpoint is to be triggered, not before the moment.
    Stopping(CheckpointKind, Moment),
    /// It is under way.
    Last(u64, CheckpointKind),
    /// It is durable, and not confirmed by all.
    Leaving(u64, CheckpointKind),
    Over,
}

/// Whether somebody waits for a checkpoint by hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manual {
    NotAsked,
    Asked,
}

/// The coordinator of one run of a job. `A` is what a subtask hands over with its acknowledgement.
#[derive(Debug)]
pub struct Coordinator<A> {
    config: CoordinatorConfig,
    subtasks: usize,
    /// Sources that have not come to their end.
    running_sources: BTreeSet<usize>,
    sources: BTreeSet<usize>,
    newest: u64,
    collecting: BTreeMap<u64, Pending<A>>,
    complete: VecDeque<(u64, CheckpointKind, Vec<A>)>,
    storing: Option<(u64, CheckpointKind)>,
    course: Course,
    manual: Manual,
    schedule: Schedule,
    notices: Notices,
    /// In a row.
    failures: u32,
    effects: VecDeque<CoordinatorEffect<A>>,
}

impl<A> Coordinator<A> {
    /// Begins. `subtasks` is how many must acknowledge; `restored` the checkpoint that the job begins from (0 for
    /// none): all are notified of it again, and ids go on from it.
    ///
    /// # Errors
    /// [`ConfigError`] when the settings allow no checkpoint.
    pub fn new(
        config: CoordinatorConfig,
        subtasks: usize,
        restored: u64,
        now: Moment,
    ) -> Result<Self, ConfigError> {
        config.check()?;
        if subtasks == 0 {
            return Err(ConfigError::NoSubtasks);
        }
        let mut coordinator = Self {
            config,
            subtasks,
            running_sources: BTreeSet::new(),
            sources: BTreeSet::new(),
            newest: restored,
            collecting: BTreeMap::new(),
            complete: VecDeque::new(),
            storing: None,
            course: Course::Running,
            manual: Manual::NotAsked,
            schedule: Schedule::new(config.interval, config.min_pause, now),
            notices: Notices::new(subtasks),
            failures: 0,
            effects: VecDeque::new(),
        };
        if restored > 0 {
            coordinator.durable(now, restored);
        }
        Ok(coordinator)
    }

    /// Says which subtasks are sources, so that the job can come to its end. Without it, it has none and runs on.
    ///
    /// # Errors
    /// [`ConfigError::UnknownSource`] when one of them is no subtask.
    pub fn with_sources(mut self, sources: impl IntoIterator<Item = usize>) -> Result<Self, ConfigError> {
        self.sources = sources.into_iter().collect();
        if let Some(&subtask) = self.sources.range(self.subtasks..).next() {
            return Err(ConfigError::UnknownSource { subtask, subtasks: self.subtasks });
        }
        self.running_sources = self.sources.clone();
        Ok(self)
    }

    /// Lets ids go on after this one, if it is greater than the restored one: the newest that an earlier run of the job
    /// has used. Otherwise what failed there after the restored checkpoint is numbered again.
    #[must_use]
    pub fn with_ids_after(mut self, checkpoint: u64) -> Self {
        self.newest = self.newest.max(checkpoint);
        self
    }

    /// The newest id that was used.
    #[must_use]
    pub fn newest_id(&self) -> u64 {
        self.newest
    }

    /// Takes a command or a fact. After [`CoordinatorEffect::Fail`] and [`CoordinatorEffect::Finished`] all of them
    /// are taken, and change nothing.
    ///
    /// # Errors
    /// [`Misuse`] when the fact cannot be: an unknown subtask, the end of a subtask that is no source, the answer of a
    /// store that was not asked, or a command for a kind that is not given by hand.
    pub fn handle(&mut self, now: Moment, input: CoordinatorInput<A>) -> Result<(), Misuse> {
        if self.course == Course::Over {
            return Ok(());
        }
        match input {
            CoordinatorInput::Tick => {}
            CoordinatorInput::Idle => {
                if self.course == Course::Running && self.schedule.due() <= now {
                    self.schedule.begun(now);
                }
            }
            CoordinatorInput::Trigger(kind) => self.asked(now, kind)?,
            CoordinatorInput::Ack { checkpoint, subtask, state } => {
                self.known(subtask)?;
                self.acked(checkpoint, subtask, state);
            }
            CoordinatorInput::Decline { checkpoint, subtask, cause } => {
                self.known(subtask)?;
                if let Some(pending) = self.collecting.remove(&checkpoint) {
                    let cause = AbortCause::Declined { subtask, cause };
                    self.failed(now, (checkpoint, pending.kind), cause);
                }
            }
            CoordinatorInput::Stored { checkpoint } => {
                let (_, kind) = self.answered(checkpoint)?;
                self.failures = 0;
                self.schedule.ended(now);
                self.durable(now, checkpoint);
                if self.course == Course::Last(checkpoint, kind) {
                    self.course = Course::Leaving(checkpoint, kind);
                }
            }
            CoordinatorInput::StoreFailed { checkpoint, cause } => {
                let stored = self.answered(checkpoint)?;
                self.failed(now, stored, AbortCause::Store(cause));
            }
            CoordinatorInput::Confirmed { checkpoint, subtask } => {
                self.known(subtask)?;
                self.notices.confirm(checkpoint, subtask);
            }
            CoordinatorInput::Ended { subtask } => {
                if !self.sources.contains(&subtask) {
                    return Err(Misuse);
                }
                self.running_sources.remove(&subtask);
                if self.running_sources.is_empty() && self.course == Course::Running {
                    self.course = Course::Stopping(CheckpointKind::Final, now);
                }
            }
        }
        self.look_at_clock(now);
        Ok(())
    }

    /// The next intent.
    pub fn poll_effect(&mut self) -> Option<CoordinatorEffect<A>> {
        self.effects.pop_front()
    }

    /// When to send [`CoordinatorInput::Tick`].
    #[must_use]
    pub fn next_deadline(&self) -> Option<Moment> {
        if self.course == Course::Over {
            return None;
        }
        let timeouts = self.collecting.values().map(|pending| self.deadline_of(pending));
        let begin = match self.course {
            Course::Running => self.below_limit().then(|| self.schedule.due()),
            Course::Stopping(kind, not_before) => self.may_stop(kind).then_some(not_before),
            Course::Last(..) | Course::Leaving(..) | Course::Over => None,
        };
        let first = timeouts.chain(begin).chain(self.notices.repeat_at()).min();
        first.filter(|at| *at < NEVER)
    }

    fn known(&self, subtask: usize) -> Result<(), Misuse> {
        if subtask < self.subtasks { Ok(()) } else { Err(Misuse) }
    }

    /// The store has answered for this checkpoint.
    fn answered(&mut self, checkpoint: u64) -> Result<(u64, CheckpointKind), Misuse> {
        self.storing.take_if(|(storing, _)| *storing == checkpoint).ok_or(Misuse)
    }

    fn asked(&mut self, now: Moment, kind: CheckpointKind) -> Result<(), Misuse> {
        match (kind, self.course) {
            (CheckpointKind::Manual, Course::Running) => self.manual = Manual::Asked,
            (CheckpointKind::Suspend, Course::Running) => self.course = Course::Stopping(kind, now),
            // The last checkpoint answers these, too.
            (CheckpointKind::Manual | CheckpointKind::Suspend, _) => {}
            (CheckpointKind::Periodic | CheckpointKind::Final, _) => return Err(Misuse),
        }
        Ok(())
    }

    fn acked(&mut self, checkpoint: u64, subtask: usize, state: A) {
        let Some(pending) = self.collecting.get_mut(&checkpoint) else { return };
        pending.ack(subtask, state);
        if pending.missing().next().is_some() {
            return;
        }
        let newer = self.collecting.split_off(&(checkpoint + 1));
        let older = std::mem::replace(&mut self.collecting, newer);
        for (id, pending) in older {
            if id == checkpoint {
                self.complete.push_back((id, pending.kind, pending.into_states()));
                if cfg!(planted_bug = "commit-before-durable") {
                    self.effects.extend(
                        (0..self.subtasks).map(|subtask| CoordinatorEffect::Notify { checkpoint, subtask }),
                    );
                }
            } else {
                let cause = AbortCause::Subsumed { by: checkpoint };
                self.effects.push_back(CoordinatorEffect::Abort { checkpoint: id, cause });
            }
        }
    }

    fn durable(&mut self, now: Moment, checkpoint: u64) {
        self.notices.durable(checkpoint, now, self.config.notify_retry);
        self.notify();
    }

    fn notify(&mut self) {
        let checkpoint = self.notices.newest();
        let notify = |subtask| CoordinatorEffect::Notify { checkpoint, subtask };
        self.effects.extend(self.notices.open().map(notify));
    }

    fn failed(&mut self, now: Moment, (checkpoint, kind): (u64, CheckpointKind), cause: AbortCause) {
        self.effects.push_back(CoordinatorEffect::Abort { checkpoint, cause: cause.clone() });
        self.schedule.ended(now);
        self.failures = self.failures.saturating_add(1);
        if self.failures > self.config.tolerable_failures {
            self.effects.push_back(CoordinatorEffect::Fail(cause));
            self.course = Course::Over;
        } else if self.course == Course::Last(checkpoint, kind) {
            self.course = Course::Stopping(kind, self.schedule.pause_until());
        }
    }
}

#[cfg(test)]
mod tests;

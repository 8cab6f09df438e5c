//! Ends one prepared transaction under its own identity, from whatever process, and proves what became of it.
//!
//! ```text
//! Finding ─► Level ─► (Describing) ─► (Leaders) ─► Ending ──decided──► Committed
//!   ▲  only before an EndTxn 5  │                    │
//!   └──── moved, no answer ─────┼────────────────────┤ the transaction moved on
//!                               ▼                    ▼
//!                       state of the same ◄──── Describing
//!                       transaction: decided         │ another transaction, none, or blind
//!                                                    ▼
//!                                              Reading the logs ─► AlreadyCommitted / Lost / Undecidable
//! ```
//! - Only the answer "done" for this very identity, or evidence, is a success. A refusal is never taken for a loss,
//!   and no answer is never taken for either: the same request goes out again, never the opposite one. Sending it
//!   again burns nothing that is still needed, for nothing else will be written under this identity.
//! - An EndTxn 5 is sent only after the coordinator's own connection told a level above 0, and told it again after each wait. A
//!   broker at level 0 that gets one leaves the id unusable; there the transaction is described first, and ended with version
//!   4 if open.

mod facts;
mod judge;
mod outcome;
mod story;
#[cfg(test)]
mod tests;

use std::{collections::VecDeque, time::Duration};

pub use facts::{
    Alarm, CoordinatorState, Decision, Described, First, Leaderless, PartitionMeta, ResumeEffect,
    ResumeInput, ResumeOptions, TransactionView,
};
pub use judge::{SameTransaction, same_transaction};
pub use outcome::{
    CommitError, CoordinatorSaw, Evidence, LossCause, LostPartition, Outcome, PendingCause, Undecidable,
};

use super::{
    backoff::{self, Backoff},
    committable::Committable,
    evidence::PartitionVerdict,
    verdict::{FindCoordinatorVerdict, ResumeVerdict},
};
use crate::ids::Moment;

/// The highest EndTxn version that belongs to transactions V1.
const V1_END_TXN: i16 = 4;
/// The EndTxn version that belongs to transactions V2.
const V2_END_TXN: i16 = 5;
/// How long the coordinator may be ending the transaction before an alarm is raised.
const CONCURRENT_ALARM: Duration = Duration::from_secs(10);
/// How long there may be no decision before an alarm is raised, and how far the ones after it are apart.
const SLOW_ALARM: Duration = Duration::from_secs(5);
const SLOW_AGAIN: Duration = Duration::from_secs(60);
/// What is added to the transaction's timeout, and the least that is tried.
const GRACE: Duration = Duration::from_secs(60);
/// How long to try when the committable tells no deadline: Kafka's cap on timeouts, and the grace.
const BLIND_PATIENCE: Duration = Duration::from_secs(900 + 60);

/// A fact that was not asked for; the machine's state is as before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this fact was not asked for")]
pub struct Misuse;

/// Why the id is described.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    /// Before anything is sent.
    First,
    /// The coordinator refused the end.
    Evidence,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Finding,
    /// Where it leads if the level is what it was.
    Level(Option<Step>),
    Describing(Why),
    Leaders,
    Ending,
    Reading {
        coordinator: CoordinatorSaw,
        seen: Vec<Seen>,
    },
    Waiting {
        until: Moment,
        then: Step,
    },
    Done(Result<Outcome, CommitError>),
}

/// Where a wait leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Find,
    Describe(Why),
    CheckLeaders,
    End,
}

/// What is known of one partition's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Asked,
    Wait(Moment),
    Verdict(PartitionVerdict),
}

/// The versions of EndTxn that were sent, as a latch each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct SentVersions {
    v1: Option<i16>,
    v2: Option<i16>,
}

/// The machine for one committable.
#[derive(Debug)]
pub struct Resume {
    committable: Committable,
    options: ResumeOptions,
    state: State,
    backoff: Backoff,
    level: Option<i16>,
    sent: SentVersions,
    tries: u32,
    cause: PendingCause,
    since: Moment,
    begun: Moment,
    /// When the next alarm is due if there is no decision by then.
    slow_at: Moment,
    concurrent_since: Option<Moment>,
    alarmed: Vec<std::mem::Discriminant<Alarm>>,
    deadline: Moment,
    half_left: Option<Moment>,
    effects: VecDeque<ResumeEffect>,
}

impl Resume {
    /// Begins.
    #[must_use]
    pub fn new(now: Moment, committable: Committable, options: ResumeOptions) -> Self {
        let left = committable
            .deadline_ms
            .map(|d| Duration::from_millis(u64::try_from(d.saturating_sub(options.wall_ms)).unwrap_or(0)));
        let patience = options.patience.unwrap_or_else(|| left.map_or(BLIND_PATIENCE, |left| left + GRACE));
        let half = committable.timeout_ms.and_then(|t| u64::try_from(t / 2).ok()).map(Duration::from_millis);
        let half_left = left.zip(half).and_then(|(left, half)| left.checked_sub(half)).map(|d| now.after(d));
        let mut resume = Self {
            backoff: Backoff::new(Duration::from_millis(20), Duration::from_secs(1), options.seed),
            committable,
            options,
            state: State::Finding,
            level: None,
            sent: SentVersions::default(),
            tries: 0,
            cause: PendingCause::NoAnswerYet,
            since: now,
            begun: now,
            slow_at: now.after(SLOW_ALARM),
            concurrent_since: None,
            alarmed: Vec::new(),
            deadline: now.after(patience),
            half_left,
            effects: VecDeque::new(),
        };
        resume.take(now, Step::Find);
        resume
    }

    /// Takes a fact.
    ///
    /// # Errors
    /// [`Misuse`] when the fact answers nothing that is under way.
    pub fn handle(&mut self, now: Moment, input: ResumeInput) -> Result<(), Misuse> {
        match (&self.state, input) {
            (State::Done(_), _) => return Err(Misuse),
            (_, ResumeInput::Tick) => self.tick(now),
            (State::Finding, ResumeInput::Coordinator(verdict)) => self.coordinator(now, verdict),
            (State::Level(behind), ResumeInput::FeatureLevel(level)) => {
                let behind = *behind;
                self.feature_level(now, level, behind);
            }
            (State::Describing(why), ResumeInput::Described(described)) => {
                let why = *why;
                self.described(now, why, described);
            }
            (State::Leaders, ResumeInput::Partitions(partitions)) => self.leaders(now, &partitions),
            (State::Ending, ResumeInput::EndTxn(verdict)) => self.ended(now, verdict),
            (State::Reading { .. }, ResumeInput::Log { partition, verdict }) => {
                self.log_seen(partition, Seen::Verdict(verdict))?;
            }
            (State::Reading { .. }, ResumeInput::LogUnavailable { partition }) => {
                let until = now.after(self.backoff.clone().next_wait());
                self.log_seen(partition, Seen::Wait(until))?;
                self.backoff.next_wait();
                self.note(now, PendingCause::EvidenceUnavailable);
            }
            (
                State::Finding | State::Level(_) | State::Describing(_) | State::Leaders | State::Ending,
                ResumeInput::NoAnswer,
            ) => self.no_answer(now),
            (
                State::Finding
                | State::Level(_)
                | State::Describing(_)
                | State::Leaders
                | State::Ending
                | State::Reading { .. }
                | State::Waiting { .. },
                _,
            ) => return Err(Misuse),
        }
        Ok(())
    }

    /// The next intent.
    pub fn poll_effect(&mut self) -> Option<ResumeEffect> {
        self.effects.pop_front()
    }

    /// When to send [`ResumeInput::Tick`].
    #[must_use]
    pub fn next_deadline(&self) -> Option<Moment> {
        let wait = match &self.state {
            State::Done(_) => return None,
            State::Waiting { until, .. } => Some(*until),
            State::Reading { seen, .. } => seen.iter().filter_map(|s| s.until()).min(),
            State::Finding | State::Level(_) | State::Describing(_) | State::Leaders | State::Ending => None,
        };
        let own = self.deadline.min(self.slow_at);
        Some(wait.map_or(own, |wait| wait.min(own)))
    }

    /// The answer, once there is one.
    #[must_use]
    pub fn result(&self) -> Option<&Result<Outcome, CommitError>> {
        match &self.state {
            State::Done(result) => Some(result),
            State::Finding
            | State::Level(_)
            | State::Describing(_)
            | State::Leaders
            | State::Ending
            | State::Reading { .. }
            | State::Waiting { .. } => None,
        }
    }

    /// The committable, as it was given.
    #[must_use]
    pub fn committable(&self) -> &Committable {
        &self.committable
    }

    /// How many times EndTxn was sent. More than once burns the identity on V1; here nothing will be written under
    /// it anyway.
    #[must_use]
    pub fn tries(&self) -> u32 {
        self.tries
    }

    /// The version of the EndTxn that decided, as far as it is known: the one that was sent, or the pinned one when
    /// an earlier process must have sent it. `None` when two versions were sent, or none was pinned.
    #[must_use]
    pub fn end_txn_version(&self) -> Option<i16> {
        match (self.sent.v1, self.sent.v2) {
            (Some(v1), None) => Some(v1),
            (None, Some(v2)) => Some(v2),
            (Some(_), Some(_)) => None,
            (None, None) => self.committable.end_txn_version,
        }
    }

    fn tick(&mut self, now: Moment) {
        if now >= self.deadline {
            let pending = CommitError::Pending { cause: self.cause, since: self.since, tries: self.tries };
            return self.finish(Err(pending));
        }
        if now >= self.slow_at {
            self.slow_at = now.after(SLOW_AGAIN);
            let slow = Alarm::Slow { cause: self.cause, waited: now.since(self.begun) };
            self.effects.push_back(ResumeEffect::Alarm(slow));
        }
        match &mut self.state {
            State::Waiting { until, then } if *until <= now => {
                let then = *then;
                self.after_wait(now, then);
            }
            State::Reading { seen, .. } => {
                let due =
                    seen.iter_mut().enumerate().filter(|(_, s)| s.until().is_some_and(|until| until <= now));
                let due: Vec<usize> = due
                    .map(|(partition, seen)| {
                        *seen = Seen::Asked;
                        partition
                    })
                    .collect();
                self.read_evidence(due);
            }
            State::Waiting { .. }
            | State::Finding
            | State::Level(_)
            | State::Describing(_)
            | State::Leaders
            | State::Ending
            | State::Done(_) => {}
        }
    }

    fn coordinator(&mut self, now: Moment, verdict: FindCoordinatorVerdict) {
        match verdict {
            FindCoordinatorVerdict::Found => self.after_found(now),
            FindCoordinatorVerdict::Retry | FindCoordinatorVerdict::Abortable => {
                self.wait(now, Step::Find, PendingCause::CoordinatorUnavailable);
            }
            FindCoordinatorVerdict::Denied => self.finish(Err(CommitError::Denied)),
            FindCoordinatorVerdict::Fatal => self.finish(Err(CommitError::Unsupported)),
        }
    }

    fn after_found(&mut self, now: Moment) {
        match self.pinned() {
            // The level matters for version 5 alone: version 4 and older mean the same at every level.
            Some(version) if version < V2_END_TXN => self.before_end(now),
            Some(_) | None => self.read_level(None),
        }
    }

    fn read_level(&mut self, behind: Option<Step>) {
        self.state = State::Level(behind);
        self.effects.push_back(ResumeEffect::ReadFeatureLevel);
    }

    fn feature_level(&mut self, now: Moment, level: i16, behind: Option<Step>) {
        let same = self.level.replace(level) == Some(level);
        match behind.filter(|_| same) {
            Some(step) => self.take(now, step),
            None => self.before_end(now),
        }
    }

    /// While it waited, operators may have changed the level, and an EndTxn 5 at level 0 would leave the id unusable.
    fn after_wait(&mut self, now: Moment, then: Step) {
        let leads_to_end = match then {
            Step::Describe(Why::First) | Step::CheckLeaders | Step::End => true,
            // Both lead to a lookup, or to evidence.
            Step::Describe(Why::Evidence) | Step::Find => false,
        };
        if leads_to_end && self.pinned().is_none_or(|version| version >= V2_END_TXN) {
            return self.read_level(Some(then));
        }
        self.take(now, then);
    }

    /// Describes first where that is asked for or needed, and only until an EndTxn was sent, except at level 0.
    fn before_end(&mut self, now: Moment) {
        let pinned_above_level = self.level.is_some_and(|level| level < 1);
        let unpinned = self.committable.end_txn_version.is_none();
        let asked_for = self.options.first == First::Describe && self.tries == 0;
        if pinned_above_level || unpinned || asked_for {
            self.take(now, Step::Describe(Why::First));
        } else {
            self.take(now, Step::CheckLeaders);
        }
    }

    fn leaders(&mut self, now: Moment, partitions: &[PartitionMeta]) {
        let leaderless = |meta: &PartitionMeta| matches!(meta, PartitionMeta::Known { leader: None, .. });
        let early = self.half_left.is_some_and(|moment| now < moment);
        if early && partitions.iter().any(leaderless) {
            self.alarm(Alarm::Leaderless);
            return self.wait(now, Step::CheckLeaders, PendingCause::Leaderless);
        }
        self.take(now, Step::End);
    }

    fn ended(&mut self, now: Moment, verdict: ResumeVerdict) {
        if verdict != ResumeVerdict::Concurrent {
            self.concurrent_since = None;
        }
        match verdict {
            ResumeVerdict::Decided => match self.options.decision {
                Decision::Commit => self.finish(Ok(Outcome::Committed)),
                Decision::Abort => self.finish(Ok(Outcome::Aborted)),
            },
            ResumeVerdict::Concurrent => {
                let since = *self.concurrent_since.get_or_insert(now);
                // That is also what a stuck id answers to every other version, for ever.
                if self.cause == PendingCause::Stuck {
                    return self.wait(now, Step::Find, PendingCause::Stuck);
                }
                if now.since(since) >= CONCURRENT_ALARM {
                    self.alarm(Alarm::Concurrent { since });
                }
                self.wait_soon(now, Step::End, PendingCause::Concurrent);
            }
            ResumeVerdict::Loading => self.wait(now, Step::End, PendingCause::CoordinatorLoading),
            ResumeVerdict::Relookup => self.wait(now, Step::Find, PendingCause::CoordinatorUnavailable),
            ResumeVerdict::NotKnown => self.wait(now, Step::Find, PendingCause::NotKnown),
            ResumeVerdict::AskEvidence => self.take(now, Step::Describe(Why::Evidence)),
            ResumeVerdict::Stuck => {
                self.alarm(Alarm::Stuck);
                self.wait(now, Step::Find, PendingCause::Stuck);
            }
            ResumeVerdict::Denied => self.finish(Err(CommitError::Denied)),
            ResumeVerdict::Refused => self.finish(Err(CommitError::Unsupported)),
        }
    }

    fn no_answer(&mut self, now: Moment) {
        let (then, cause) = match &self.state {
            State::Finding => (Step::Find, PendingCause::CoordinatorUnavailable),
            State::Leaders => (Step::CheckLeaders, PendingCause::NoAnswerYet),
            // The refusal that asked for evidence stands: after a new lookup the end is tried again, and refused
            // again, which costs two round trips and is always right.
            State::Level(_)
            | State::Describing(_)
            | State::Ending
            | State::Reading { .. }
            | State::Waiting { .. }
            | State::Done(_) => (Step::Find, PendingCause::NotKnown),
        };
        self.wait(now, then, cause);
    }

    fn take(&mut self, now: Moment, step: Step) {
        let (state, effect) = match step {
            Step::Find => {
                // Another connection may belong to another broker, at another level.
                self.level = None;
                (State::Finding, ResumeEffect::FindCoordinator)
            }
            Step::Describe(why) => (State::Describing(why), ResumeEffect::Describe),
            Step::CheckLeaders if self.skips_leaders(now) => return self.take(now, Step::End),
            Step::CheckLeaders => (State::Leaders, ResumeEffect::CheckLeaders),
            Step::End => return self.send_end(),
        };
        self.state = state;
        self.effects.push_back(effect);
    }

    fn skips_leaders(&self, now: Moment) -> bool {
        let late = self.half_left.is_none_or(|moment| now >= moment);
        // Once an EndTxn may have been carried out, waiting protects nothing.
        let ignored = self.options.leaderless == Leaderless::Ignore || self.tries > 0;
        ignored || late || self.committable.partitions.is_empty()
    }

    /// The version of EndTxn that the transaction began with.
    fn pinned(&self) -> Option<i16> {
        self.committable.end_txn_version.filter(|_| !cfg!(planted_bug = "ignore-the-pinned-version"))
    }

    fn send_end(&mut self) {
        let level = self.level.unwrap_or(0);
        let version = match self.pinned() {
            Some(version) if version < V2_END_TXN && !cfg!(planted_bug = "ignore-the-pinned-version") => {
                version
            }
            Some(version) if level >= 1 => version,
            None if level >= 2 => V2_END_TXN,
            Some(_) | None => V1_END_TXN,
        };
        let latch = if version >= V2_END_TXN { &mut self.sent.v2 } else { &mut self.sent.v1 };
        *latch = Some(version);
        self.tries = self.tries.saturating_add(1);
        self.state = State::Ending;
        self.effects.push_back(ResumeEffect::EndTxn { version, decision: self.options.decision });
    }

    fn wait(&mut self, now: Moment, then: Step, cause: PendingCause) {
        self.note(now, cause);
        self.state = State::Waiting { until: now.after(self.backoff.next_wait()), then };
    }

    /// The same where it takes milliseconds, as a rule.
    fn wait_soon(&mut self, now: Moment, then: Step, cause: PendingCause) {
        self.note(now, cause);
        let soon = backoff::soon(self.backoff.tries());
        let wait = self.backoff.next_wait();
        let until = now.after(soon.map_or(wait, |soon| wait.min(soon)));
        self.state = State::Waiting { until, then };
    }

    fn note(&mut self, now: Moment, cause: PendingCause) {
        if self.cause != cause {
            self.cause = cause;
            self.since = now;
        }
    }

    /// Each kind of alarm is raised once.
    fn alarm(&mut self, alarm: Alarm) {
        let kind = std::mem::discriminant(&alarm);
        if !self.alarmed.contains(&kind) {
            self.alarmed.push(kind);
            self.effects.push_back(ResumeEffect::Alarm(alarm));
        }
    }

    fn finish(&mut self, result: Result<Outcome, CommitError>) {
        self.state = State::Done(result);
    }
}

impl Seen {
    fn until(self) -> Option<Moment> {
        match self {
            Self::Wait(until) => Some(until),
            Self::Asked | Self::Verdict(_) => None,
        }
    }
}

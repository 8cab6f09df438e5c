//! Judging what the coordinator and the logs tell.

use super::{
    CommitError, CoordinatorSaw, CoordinatorState, Decision, Described, Evidence, LossCause, LostPartition,
    Misuse, Outcome, PendingCause, Resume, ResumeEffect, Seen, State, Step, TransactionView, Undecidable,
    Why,
};
use crate::{
    ids::Moment,
    proto::{
        committable::{Committable, CommittablePartition},
        evidence::{LogProof, combine},
    },
};

/// Whether a coordinator's entry describes the transaction of a committable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SameTransaction {
    /// It does, and the identity is still its own.
    AtItsEpoch,
    /// It does, with the epoch or producer id that its end left behind.
    MovedOn,
    /// It describes another one, or it cannot be told.
    No,
}

/// Compares by the start time, which identifies a transaction of an id as long as the id is not used again before
/// the committable is gone; the pair must be the transaction's own, one epoch more, or a producer id that was
/// given out when the epochs were used up.
///
/// A committable without a start time is recognised by its own pair alone, which no other transaction has.
#[must_use]
pub fn same_transaction(committable: &Committable, view: &TransactionView) -> SameTransaction {
    let own = committable.identity;
    let found = view.identity;
    let at_its_epoch = found == own;
    let Some(start_ms) = committable.start_ms else {
        return if at_its_epoch { SameTransaction::AtItsEpoch } else { SameTransaction::No };
    };
    if view.start_ms != start_ms {
        return SameTransaction::No;
    }
    let next = found.producer_id == own.producer_id && i32::from(found.epoch.0) == i32::from(own.epoch.0) + 1;
    let rotated = found.producer_id != own.producer_id && found.epoch.0 == 0;
    match (at_its_epoch, next || rotated) {
        (true, _) => SameTransaction::AtItsEpoch,
        (false, true) => SameTransaction::MovedOn,
        (false, false) => SameTransaction::No,
    }
}

impl Resume {
    pub(super) fn described(&mut self, now: Moment, why: Why, described: Described) {
        match described {
            Described::Transaction(view) => self.judge_view(now, why, view),
            Described::NotFound => self.ask_logs(CoordinatorSaw::NotFound),
            Described::Relookup => self.wait(now, Step::Find, PendingCause::CoordinatorUnavailable),
            Described::Retry => self.wait(now, Step::Describe(why), PendingCause::CoordinatorLoading),
            // Describing first was a courtesy; without it the end itself tells. Where it is a need, the logs do.
            Described::Blind if why == Why::First && self.may_end_unseen() => {
                self.take(now, Step::CheckLeaders)
            }
            Described::Blind => self.ask_logs(CoordinatorSaw::Blind),
        }
    }

    fn may_end_unseen(&self) -> bool {
        let at_level_0 = self.level.is_some_and(|level| level < 1);
        self.committable.end_txn_version.is_some() && !at_level_0
    }

    fn judge_view(&mut self, now: Moment, why: Why, view: TransactionView) {
        let same = same_transaction(&self.committable, &view);
        match (same, view.state) {
            (SameTransaction::No, _) => self.ask_logs(CoordinatorSaw::Another(view)),
            (SameTransaction::AtItsEpoch, CoordinatorState::Ongoing) => match why {
                Why::First => self.take(now, Step::CheckLeaders),
                Why::Evidence => self.wait(now, Step::Find, PendingCause::StillOngoing),
            },
            (SameTransaction::MovedOn, CoordinatorState::Ongoing | CoordinatorState::Empty)
            | (SameTransaction::AtItsEpoch, CoordinatorState::Empty) => {
                self.ask_logs(CoordinatorSaw::Another(view));
            }
            (_, CoordinatorState::PrepareCommit | CoordinatorState::CompleteCommit) => {
                self.finish(Ok(Outcome::AlreadyCommitted(Evidence::Coordinator(view))));
            }
            (_, CoordinatorState::PrepareAbort | CoordinatorState::CompleteAbort) => {
                let cause = match same {
                    SameTransaction::AtItsEpoch => LossCause::AbortedOnRequest(view),
                    SameTransaction::MovedOn | SameTransaction::No => LossCause::FencedOrTimedOut(view),
                };
                let all = self.committable.partitions.iter().map(LostPartition::all_of).collect();
                self.lost(all, cause);
            }
            // On its way to one of the states above.
            (_, CoordinatorState::PrepareEpochFence | CoordinatorState::Dead | CoordinatorState::Unknown) => {
                self.wait(now, Step::Describe(why), PendingCause::Concurrent);
            }
        }
    }

    fn ask_logs(&mut self, coordinator: CoordinatorSaw) {
        let count = self.committable.partitions.len();
        self.state = State::Reading { coordinator, seen: vec![Seen::Asked; count] };
        self.read_evidence((0..count).collect());
        self.judge_logs();
    }

    pub(super) fn read_evidence(&mut self, partitions: Vec<usize>) {
        let end_txn_version = self.end_txn_version();
        let read = |partition| ResumeEffect::ReadEvidence { partition, end_txn_version };
        self.effects.extend(partitions.into_iter().map(read));
    }

    pub(super) fn log_seen(&mut self, partition: usize, now_known: Seen) -> Result<(), Misuse> {
        let State::Reading { seen, .. } = &mut self.state else { return Err(Misuse) };
        match seen.get_mut(partition) {
            Some(slot @ Seen::Asked) => *slot = now_known,
            Some(Seen::Wait(_) | Seen::Verdict(_)) | None => return Err(Misuse),
        }
        self.judge_logs();
        Ok(())
    }

    /// Judges when every partition has shown what it can: an abort on one outweighs a commit on another.
    fn judge_logs(&mut self) {
        let State::Reading { coordinator, seen } = &self.state else { return };
        let verdict = |(partition, seen): (&CommittablePartition, &Seen)| match seen {
            Seen::Verdict(verdict) => Some((partition.topic_partition(), *verdict)),
            Seen::Asked | Seen::Wait(_) => None,
        };
        let verdicts: Option<Vec<_>> = self.committable.partitions.iter().zip(seen).map(verdict).collect();
        let Some(verdicts) = verdicts else { return };
        match combine(&verdicts) {
            LogProof::Committed { proven_by } => {
                self.finish(Ok(Outcome::AlreadyCommitted(Evidence::Log { proven_by })));
            }
            LogProof::Lost { partitions } => {
                let lost =
                    |p: &&CommittablePartition| partitions.iter().any(|(tp, _)| *tp == p.topic_partition());
                let named =
                    self.committable.partitions.iter().filter(lost).map(LostPartition::all_of).collect();
                self.lost(named, LossCause::Log(partitions));
            }
            LogProof::Nothing => {
                let coordinator = coordinator.clone();
                let why = Undecidable { coordinator, partitions: verdicts };
                self.finish(Ok(Outcome::Undecidable(Box::new(why))));
            }
        }
    }

    fn lost(&mut self, partitions: Vec<LostPartition>, cause: LossCause) {
        let result: Result<Outcome, CommitError> = match self.options.decision {
            Decision::Commit => Ok(Outcome::Lost { partitions, cause }),
            Decision::Abort => Ok(Outcome::Aborted),
        };
        self.finish(result);
    }
}

impl LostPartition {
    fn all_of(partition: &CommittablePartition) -> Self {
        Self { partition: partition.topic_partition(), offset: partition.offset, records: partition.records }
    }
}

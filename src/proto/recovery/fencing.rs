//! The second half of a recovery: leftovers are fenced, and it is seen that their aborts arrive.
//!
//! ```text
//! Fence ──granted──────────────────────────────► Settle ──► done
//!   ▲ └──late──► Describe ──decided, markers wait──► avoided, pending
//!   │               │
//!   └── not decided ┘ (so often)
//! ```

use std::collections::BTreeMap;

use super::{FenceAnswer, Leftover, Recovery, RecoveryEffect, RecoveryError, State};
use crate::{
    ids::{TopicId, TopicPartition, TransactionalId},
    proto::{
        resume::{CoordinatorState, Decision, Described, TransactionView},
        settle::{DecidedBy, SettleError, SettlePartition, SettleTarget, Settled},
    },
};

/// How often a leftover is fenced that is still not decided when the time for it is over: its coordinator may be away.
const FENCES: u32 = 2;

impl Recovery {
    pub(super) fn fence(&mut self, leftovers: Vec<Leftover>) {
        if leftovers.is_empty() || cfg!(planted_bug = "skip-the-leftovers") {
            return self.done();
        }
        self.fences += 1;
        self.effects.push_back(RecoveryEffect::Fence(leftovers.iter().map(|(id, _)| id.clone()).collect()));
        self.state = State::Fencing(leftovers);
    }

    pub(super) fn fenced(&mut self, leftovers: Vec<Leftover>, answers: &[FenceAnswer]) {
        let (mut failed, mut late) = (Vec::new(), Vec::new());
        for (leftover, answer) in leftovers.into_iter().zip(answers) {
            match answer {
                FenceAnswer::Fenced => self.ended.push(leftover),
                FenceAnswer::Late => late.push(leftover),
                FenceAnswer::Failed => failed.push(leftover),
            }
        }
        if !failed.is_empty() {
            return self.not_fenced(failed);
        }
        if late.is_empty() {
            return self.settle();
        }
        self.effects.push_back(RecoveryEffect::Describe(late.iter().map(|(id, _)| id.clone()).collect()));
        self.state = State::Late(late);
    }

    /// What coordinators say of leftovers whose fence was late. One that is decided can be left to its markers: whatever
    /// they say, nobody can change it any more. Whoever may still commit his transaction must be fenced.
    pub(super) fn late(&mut self, described: Vec<(Leftover, Described)>) {
        let mut again = Vec::new();
        for (leftover, described) in described {
            let Described::Transaction(now) = described else {
                again.push(leftover);
                continue;
            };
            match now.state {
                CoordinatorState::PrepareAbort | CoordinatorState::PrepareCommit => {
                    self.recovered.avoid.insert(leftover.0.clone());
                    self.recovered.pending.push(leftover.0);
                }
                // It came to its end in this moment. Who uses the id next would have to fence it, so nobody does.
                CoordinatorState::Empty
                | CoordinatorState::CompleteCommit
                | CoordinatorState::CompleteAbort => {
                    self.recovered.avoid.insert(leftover.0.clone());
                    self.ended.push(leftover);
                }
                // `PrepareEpochFence` is not in the coordinator's log yet, and falls back to `Ongoing`.
                CoordinatorState::Ongoing
                | CoordinatorState::PrepareEpochFence
                | CoordinatorState::Dead
                | CoordinatorState::Unknown => again.push(leftover),
            }
        }
        if again.is_empty() {
            self.settle();
        } else if self.fences < FENCES {
            self.fence(again);
        } else {
            self.not_fenced(again);
        }
    }

    fn not_fenced(&mut self, leftovers: Vec<Leftover>) {
        let ids = leftovers.into_iter().map(|(id, _)| id).collect();
        self.state = State::Done(Err(RecoveryError::NotFenced(ids)));
    }

    fn settle(&mut self) {
        let ended = std::mem::take(&mut self.ended);
        if ended.is_empty() {
            return self.done();
        }
        let targets: Vec<SettleTarget> =
            ended.iter().map(|(id, view)| self.settle_target(id, view)).collect();
        self.effects.push_back(RecoveryEffect::Settle(targets));
        self.state = State::Settling(ended.into_iter().map(|(id, _)| id).collect());
    }

    /// Every partition that the transaction held, by its coordinator or by the partitions themselves.
    fn settle_target(&self, id: &TransactionalId, view: &TransactionView) -> SettleTarget {
        let mut partitions: BTreeMap<TopicPartition, TopicId> =
            view.partitions.iter().map(|p| (p.clone(), TopicId::UNKNOWN)).collect();
        let open = self.open_of(Some(view.identity.producer_id));
        partitions.extend(open.map(|open| (open.partition.clone(), open.topic_id)));
        let partitions = partitions
            .into_iter()
            .map(|(partition, topic_id)| SettlePartition { partition, topic_id, offset: None })
            .collect();
        let (decision, by) = match view.state {
            // Who decided these is not known, and with it the epoch of their markers.
            CoordinatorState::PrepareCommit => (Decision::Commit, None),
            CoordinatorState::PrepareAbort => (Decision::Abort, None),
            CoordinatorState::Ongoing => (Decision::Abort, Some(DecidedBy::fence(self.restored.level))),
            CoordinatorState::Empty
            | CoordinatorState::CompleteCommit
            | CoordinatorState::CompleteAbort
            | CoordinatorState::PrepareEpochFence
            | CoordinatorState::Dead
            | CoordinatorState::Unknown => (Decision::Abort, None),
        };
        SettleTarget { transactional_id: id.clone(), identity: view.identity, decision, by, partitions }
    }

    pub(super) fn settled(&mut self, results: Vec<(TransactionalId, Result<Settled, SettleError>)>) {
        for (id, result) in results {
            match result {
                Ok(_) => self.recovered.aborted.push(id),
                Err(SettleError::Hanging(hanging)) => self.recovered.retired.push(*hanging),
                Err(SettleError::Pending { .. } | SettleError::Denied { .. }) => {
                    self.recovered.avoid.insert(id);
                }
            }
        }
        self.done();
    }
}

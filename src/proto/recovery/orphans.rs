//! Is the restored checkpoint the newest one?
//!
//! A sink sends a commit only when a complete checkpoint lists it, and a checkpoint that no longer lists it remembers it
//! ([`History`]). So a commit that the restored checkpoint neither lists nor remembers is of a later one. And an id that
//! a checkpoint lists is used again only when a later one is complete that does not. An ordinary crash leaves neither:
//! what it leaves beyond its newest checkpoint is open, or aborted.

use super::{Orphan, OrphanProof, Recovery};
use crate::{
    ids::TransactionalId,
    proto::{
        pool::{History, LastUse},
        resume::{CoordinatorState, TransactionView},
    },
};

impl Recovery {
    /// True when an id's last commit must be compared with what the checkpoint knows.
    pub(super) fn needs_explanation(&self, id: &TransactionalId, state: Option<CoordinatorState>) -> bool {
        state == Some(CoordinatorState::CompleteCommit) && self.history(id).is_some_and(|h| !h.is_past(id))
    }

    fn history(&self, id: &TransactionalId) -> Option<&History> {
        self.restored.writers.iter().find(|writer| writer.owns(id))?.history.as_ref()
    }

    pub(super) fn perhaps_orphan(&mut self, id: &TransactionalId, view: &TransactionView) {
        let Some(proof) = self.orphan_proof(id, view) else { return };
        let start_ms = (view.start_ms >= 0).then_some(view.start_ms);
        let orphan = Orphan { transactional_id: id.clone(), proof, identity: view.identity, start_ms };
        self.recovered.orphans.push(orphan);
    }

    fn orphan_proof(&self, id: &TransactionalId, view: &TransactionView) -> Option<OrphanProof> {
        let history = self.history(id)?;
        let committables = self.restored.committables.iter().map(|(committable, _)| committable);
        let listed: Vec<LastUse> =
            committables.filter(|c| c.transactional_id == *id).map(LastUse::of).collect();
        if listed.iter().any(|last| last.is(view)) {
            return None;
        }
        match view.state {
            // An ordinary leftover is not committed: a commit is sent only when a complete checkpoint lists it, and a
            // checkpoint that no longer lists it remembers it.
            CoordinatorState::PrepareCommit | CoordinatorState::CompleteCommit => {
                (!history.explains(id, view)).then_some(OrphanProof::Committed)
            }
            CoordinatorState::Ongoing => {
                let later = |last: &LastUse| last.start_ms.is_some_and(|start| start < view.start_ms);
                listed.iter().any(later).then_some(OrphanProof::UsedAgain)
            }
            CoordinatorState::Empty
            | CoordinatorState::PrepareAbort
            | CoordinatorState::CompleteAbort
            | CoordinatorState::PrepareEpochFence
            | CoordinatorState::Dead
            | CoordinatorState::Unknown => None,
        }
    }
}

//! The transactional ids of one writer, and when each may be used again.
//!
//! ```text
//! Free ─► Active ─prepare(n)─► Prepared(n) ─decided─► Decided ─┬─ settled ────────────────────┐
//!           │                      │                           └─ dropped by a durable        ├─► Free
//!           └──abort───────────────┴─────────────────►             checkpoint after n ────────┘
//!                                                          hanging ─► Retired, for good
//! ```
//! Used again too early, an id destroys what it was used for: before the answer it would abort the transaction,
//! before the checkpoint that drops its committable is durable a restart could not tell whose commit it proves, and
//! before it is settled the next end of the same producer id would decide the records of this one (KAFKA-20734).

mod history;
mod pressure;
mod slot;
mod state;

use std::collections::{BTreeMap, BTreeSet};

use super::{
    naming::{IdParts, IdPrefix, Naming, Ownership},
    recovery::{Orphan, OrphanProof, Recovered},
    settle::CommittedButHanging,
};
use crate::ids::{Identity, TransactionalId};

pub use history::{History, LastUse};
pub use pressure::{Blocked, PoolExhausted, Pressure};
pub use slot::{Listed, Reuse, Slot, SlotState, Visible};
pub use state::WriterState;

/// How many transactions of a writer may be open, prepared or undecided at once, by default.
pub const DEFAULT_SLOTS: usize = 4;

/// A step that the slot's state does not allow; nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("transactional id slot {slot} is not in a state that allows this")]
pub struct Misuse {
    /// The slot.
    pub slot: Slot,
}

/// The ids of one writer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    reuse: Reuse,
    naming: Naming,
    prefix: IdPrefix,
    /// Prefixes of earlier runs, whose leftovers are still ours to end.
    former_prefixes: Vec<IdPrefix>,
    ownership: Ownership,
    capacity: usize,
    slots: BTreeMap<Slot, SlotState>,
    /// Hanging transactions under ids that this pool does not give out: of former prefixes and other subtasks.
    retired_elsewhere: Vec<CommittedButHanging>,
    /// Such ids that recovery could not judge: a later restart looks at them again, whoever owns them then.
    avoided_elsewhere: BTreeSet<TransactionalId>,
    /// What ids were used for last; `None` if it is not known of all of them.
    history: Option<History>,
}

impl Pool {
    /// A pool of at most `capacity` transactions at once (at least one).
    #[must_use]
    pub fn new(naming: Naming, prefix: IdPrefix, ownership: Ownership, capacity: usize) -> Self {
        let capacity = capacity.max(1);
        Self {
            reuse: Reuse::default(),
            naming,
            prefix,
            former_prefixes: Vec::new(),
            ownership,
            capacity,
            slots: BTreeMap::new(),
            retired_elsewhere: Vec::new(),
            avoided_elsewhere: BTreeSet::new(),
            history: Some(History::default()),
        }
    }

    /// The same pool under another rule of reuse.
    #[must_use]
    pub fn with_reuse(self, reuse: Reuse) -> Self {
        Self { reuse, ..self }
    }

    /// The id of a slot.
    #[must_use]
    pub fn id(&self, slot: Slot) -> TransactionalId {
        self.prefix.id(IdParts { subtask: self.ownership.subtask(), number: slot })
    }

    /// The slot of one of this pool's own ids.
    #[must_use]
    pub fn slot(&self, id: &TransactionalId) -> Option<Slot> {
        let parts = self.prefix.parse(id.as_str())?;
        (parts.subtask == self.ownership.subtask()).then_some(parts.number)
    }

    /// True for the ids of its prefix and of former ones whose subtask it owns.
    #[must_use]
    pub fn answers_for(&self, id: &TransactionalId) -> bool {
        let owned = |parts: IdParts| self.ownership.owns(parts.subtask);
        let prefixes = [&self.prefix].into_iter().chain(&self.former_prefixes);
        prefixes.filter_map(|prefix| prefix.parse(id.as_str())).any(owned)
    }

    /// Takes a free slot for the transaction that the next checkpoint, `checkpoint`, will prepare.
    ///
    /// # Errors
    /// [`PoolExhausted`] tells what the slots are waiting for.
    pub fn take(&mut self, checkpoint: u64) -> Result<Slot, PoolExhausted> {
        let slot = self.next(checkpoint)?;
        self.slots.insert(slot, SlotState::Active);
        Ok(slot)
    }

    /// The slot that [`take`](Self::take) would take.
    ///
    /// # Errors
    /// As there.
    pub fn next(&self, checkpoint: u64) -> Result<Slot, PoolExhausted> {
        let count = |which: fn(&SlotState) -> bool| self.slots.values().filter(|s| which(s)).count();
        let active = count(|s| matches!(s, SlotState::Active));
        let prepared = count(|s| matches!(s, SlotState::Prepared(_)));
        // What is settled waits for the next durable checkpoint alone, and that may stand behind the very records that
        // want a slot: so it is not counted. There are at most `capacity` of these: the newest durable checkpoint lists
        // them all, and each was counted when it was listed.
        let decided = count(|s| matches!(s, SlotState::Decided { visible: Visible::NotKnown, .. }));
        let capacity = self.capacity;
        // Nor are retired and avoided slots: the job goes on with other ids.
        if active + prepared + decided >= capacity {
            return Err(PoolExhausted { capacity, active, prepared, decided });
        }
        let first = match self.naming {
            Naming::Pooled => 0,
            Naming::Incrementing => {
                let highest =
                    self.history.as_ref().and_then(|h| h.highest(&self.prefix, self.ownership.subtask()));
                checkpoint.max(highest.map_or(0, |highest| highest.saturating_add(1)))
            }
        };
        let exhausted = PoolExhausted { capacity, active, prepared, decided };
        (first..=u64::MAX).find(|slot| !self.slots.contains_key(slot)).ok_or(exhausted)
    }

    /// The slot's transaction, `last`, is a committable of `checkpoint`.
    ///
    /// # Errors
    /// [`Misuse`] unless the slot is active.
    pub fn prepared(&mut self, slot: Slot, checkpoint: u64, last: LastUse) -> Result<(), Misuse> {
        match self.slots.get_mut(&slot) {
            Some(state @ SlotState::Active) => *state = SlotState::Prepared(checkpoint),
            Some(_) | None => return Err(Misuse { slot }),
        }
        self.remember(&self.id(slot), last);
        Ok(())
    }

    /// This transaction under an id of this prefix, or of a former one, is known: it is listed in the checkpoint that
    /// the writer begins with.
    pub fn remember(&mut self, id: &TransactionalId, last: LastUse) {
        let Some(history) = &mut self.history else { return };
        match self.naming {
            Naming::Pooled => history.used(id.clone(), last),
            Naming::Incrementing => {
                if let Some((prefix, parts)) = IdPrefix::split(id.as_str()) {
                    history.counted(&prefix, parts);
                }
            }
        }
    }

    /// The slot's transaction never reached a broker; the id is free at once.
    ///
    /// # Errors
    /// [`Misuse`] unless the slot is active.
    pub fn unused(&mut self, slot: Slot) -> Result<(), Misuse> {
        match self.slots.get(&slot) {
            Some(SlotState::Active) => self.slots.remove(&slot),
            Some(_) | None => return Err(Misuse { slot }),
        };
        Ok(())
    }

    /// The slot's transaction failed or was given up, and is being aborted by its producer. Whether that reaches every
    /// partition is not looked at before the next restart, and the id is not used until then.
    ///
    /// # Errors
    /// [`Misuse`] unless the slot is active.
    pub fn given_up(&mut self, slot: Slot) -> Result<(), Misuse> {
        match self.slots.get_mut(&slot) {
            Some(SlotState::Active) if self.reuse == Reuse::AtOnce => _ = self.slots.remove(&slot),
            Some(state @ SlotState::Active) => *state = SlotState::Avoided,
            Some(_) | None => return Err(Misuse { slot }),
        }
        Ok(())
    }

    /// Whether the prepared transaction that the slot holds is this pair's. An answer about one of before, which comes late
    /// or once more, must not free the id of a transaction that is still to be committed.
    #[must_use]
    pub fn holds_prepared(&self, slot: Slot, identity: Identity) -> bool {
        matches!(self.slots.get(&slot), Some(SlotState::Prepared(_))) && self.is_last(slot, identity)
    }

    /// The same for a transaction that is decided, and not known to be everywhere yet: that one of before is settled says
    /// nothing of this one.
    #[must_use]
    pub fn holds_decided(&self, slot: Slot, identity: Identity) -> bool {
        let decided = matches!(self.slots.get(&slot), Some(SlotState::Decided { .. }));
        decided && self.is_last(slot, identity)
    }

    fn is_last(&self, slot: Slot, identity: Identity) -> bool {
        let last = self.history.as_ref().and_then(|history| history.last(&self.id(slot)));
        last.is_none_or(|last| last.identity == identity)
    }

    /// Whether the slot's id shows the newest commit of this writer. As long as its coordinator has nothing newer under the id,
    /// an older copy of the state is known by that; so nothing is asked for the id before a newer transaction is decided.
    #[must_use]
    pub fn shows_the_newest_commit(&self, slot: Slot) -> bool {
        let Some(history) = &self.history else { return false };
        let Some(last) = history.last(&self.id(slot)) else { return false };
        let is_decided = |id: &TransactionalId| {
            let state = self.slot(id).and_then(|slot| self.slots.get(&slot));
            !matches!(state, Some(SlotState::Prepared(_)))
        };
        // One whose beginning was not told may be the newest.
        let is_newer = |other: &LastUse| last.start_ms.is_some() && other.start_ms > last.start_ms;
        !history.pooled().any(|(id, other)| is_decided(id) && is_newer(other))
    }

    /// The slot's transaction is decided: committed, or aborted before it was prepared (then no checkpoint lists it).
    ///
    /// # Errors
    /// [`Misuse`] unless the slot is active or prepared.
    pub fn decided(&mut self, slot: Slot) -> Result<(), Misuse> {
        let listed = match self.slots.get(&slot) {
            Some(SlotState::Active) => Listed::No,
            Some(SlotState::Prepared(_)) => Listed::Maybe,
            Some(SlotState::Decided { .. } | SlotState::Retired(_) | SlotState::Avoided) | None => {
                return Err(Misuse { slot });
            }
        };
        match self.reuse {
            Reuse::WhenSettled if !cfg!(planted_bug = "reuse-an-id-early") => {
                _ = self.slots.insert(slot, SlotState::Decided { listed, visible: Visible::NotKnown });
            }
            Reuse::WhenSettled | Reuse::AtOnce => _ = self.slots.remove(&slot),
        }
        Ok(())
    }

    /// The decision is on every partition.
    ///
    /// # Errors
    /// [`Misuse`] unless the slot is decided.
    pub fn settled(&mut self, slot: Slot) -> Result<(), Misuse> {
        match self.slots.get_mut(&slot) {
            Some(SlotState::Decided { visible, .. }) => *visible = Visible::Everywhere,
            Some(_) | None => return Err(Misuse { slot }),
        }
        self.free();
        Ok(())
    }

    /// The slot's transaction hangs: it is retired. A repair does not bring it back, for nothing is won by it.
    ///
    /// # Errors
    /// [`Misuse`] unless the slot is decided.
    pub fn retire(&mut self, slot: Slot, hanging: CommittedButHanging) -> Result<(), Misuse> {
        match self.slots.get_mut(&slot) {
            Some(state @ SlotState::Decided { .. }) => *state = SlotState::Retired(Box::new(hanging)),
            Some(_) | None => return Err(Misuse { slot }),
        }
        Ok(())
    }

    /// A checkpoint is durable that lists exactly these committables of ours.
    pub fn durable(&mut self, listed_ids: &BTreeSet<TransactionalId>) {
        let still_listed: BTreeSet<Slot> = listed_ids.iter().filter_map(|id| self.slot(id)).collect();
        for (slot, state) in &mut self.slots {
            match state {
                SlotState::Decided { listed, .. } if !still_listed.contains(slot) => *listed = Listed::No,
                SlotState::Decided { .. }
                | SlotState::Active
                | SlotState::Prepared(_)
                | SlotState::Retired(_)
                | SlotState::Avoided => {}
            }
        }
        self.free();
    }

    /// After a restart: this id is named by a restored committable of `checkpoint`, or was found hanging.
    pub fn adopt(&mut self, slot: Slot, state: SlotState) {
        self.slots.insert(slot, state);
    }

    /// What recovery found: hanging transactions retire their ids, and those that it could not judge are avoided.
    pub fn recovered(&mut self, recovered: &Recovered) {
        if self.reuse == Reuse::AtOnce {
            return;
        }
        recovered.retired.iter().for_each(|hanging| self.adopt_retired(hanging));
        for Orphan { transactional_id, proof, identity, start_ms } in &recovered.orphans {
            let last = LastUse { identity: *identity, end_txn_version: None, start_ms: *start_ms };
            match proof {
                // It is accepted, and explains itself from now on.
                OrphanProof::Committed => self.remember(transactional_id, last),
                OrphanProof::UsedAgain => {}
            }
        }
        for id in &recovered.avoid {
            match self.slot(id) {
                Some(slot) => _ = self.slots.entry(slot).or_insert(SlotState::Avoided),
                None => _ = self.avoided_elsewhere.insert(id.clone()),
            }
        }
    }

    fn adopt_retired(&mut self, hanging: &CommittedButHanging) {
        match self.slot(&hanging.transactional_id) {
            Some(slot) => {
                self.slots.insert(slot, SlotState::Retired(Box::new(hanging.clone())));
            }
            None if self.retired_elsewhere.contains(hanging) => {}
            None => self.retired_elsewhere.push(hanging.clone()),
        }
    }

    /// True when a free slot is given out again; with incrementing names it is not.
    #[must_use]
    pub fn gives_out_again(&self) -> bool {
        match self.naming {
            Naming::Pooled => true,
            Naming::Incrementing => false,
        }
    }

    /// Where a slot stands; `None` when it is free.
    #[must_use]
    pub fn state(&self, slot: Slot) -> Option<&SlotState> {
        self.slots.get(&slot)
    }

    /// Every slot that is not free, in order.
    pub fn slots(&self) -> impl Iterator<Item = (Slot, &SlotState)> {
        self.slots.iter().map(|(slot, state)| (*slot, state))
    }

    /// How many transactions may be open, prepared or not yet settled at once.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    fn free(&mut self) {
        let done = SlotState::Decided { listed: Listed::No, visible: Visible::Everywhere };
        self.slots.retain(|_, state| *state != done);
    }

    /// What a checkpoint keeps of the pool. Prepared slots are not part of it: their committables are.
    #[must_use]
    pub fn state_to_keep(&self) -> WriterState {
        let mut active: Vec<_> = self.avoided_elsewhere.iter().cloned().collect();
        let mut retired = self.retired_elsewhere.clone();
        for (slot, state) in &self.slots {
            match state {
                // A restart looks at them, even where a listing hides them.
                SlotState::Active | SlotState::Avoided => active.push(self.id(*slot)),
                SlotState::Retired(hanging) => retired.push((**hanging).clone()),
                SlotState::Prepared(_) | SlotState::Decided { .. } => {}
            }
        }
        WriterState {
            naming: self.naming,
            prefix: self.prefix.clone(),
            former_prefixes: self.former_prefixes.clone(),
            ownership: self.ownership.clone(),
            active,
            retired,
            history: self.history.clone(),
        }
    }

    /// The pool of a restart, whose state was dealt out by [`WriterState::deal`]: retired ids stay retired, active ones
    /// are leftovers and not the pool's business.
    #[must_use]
    pub fn restore(state: &WriterState, capacity: usize) -> Self {
        let mut pool = Self::new(state.naming, state.prefix.clone(), state.ownership.clone(), capacity);
        pool.former_prefixes.clone_from(&state.former_prefixes);
        pool.history.clone_from(&state.history);
        state.retired.iter().for_each(|hanging| pool.adopt_retired(hanging));
        pool
    }
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;

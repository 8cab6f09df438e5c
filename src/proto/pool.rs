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

use std::collections::{BTreeMap, BTreeSet};

use super::{
    naming::{IdParts, IdPrefix, Naming, NamingError, Ownership},
    sealed::{Fields, Reader, Seal, StateError},
    settle::CommittedButHanging,
};
use crate::{
    ids::{TopicPartition, TransactionalId},
    proto::{
        recovery::Recovered,
        resume::Decision,
        settle::{DecidedBy, HangingPartition, OpenTransaction},
    },
};

/// How many transactions of a writer may be open, prepared or undecided at once, by default.
pub const DEFAULT_SLOTS: usize = 4;

const SEAL: Seal = Seal { what: "writer state", magic: *b"K2PW", newest: 1 };

/// A slot's number.
pub type Slot = u64;

/// Where a slot stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SlotState {
    /// Its transaction is being written.
    Active,
    /// Its transaction is a committable of this checkpoint.
    Prepared(u64),
    /// Its transaction is decided.
    Decided {
        /// Whether a durable checkpoint no longer lists the committable.
        listed: Listed,
        /// Whether the decision is on every partition.
        visible: Visible,
    },
    /// Its transaction hangs; neither the id nor its producer id is used again.
    Retired(Box<CommittedButHanging>),
    /// Whether something of its producer id is open is not known: it is not used in this run.
    Avoided,
}

/// Whether a restart could still find the committable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listed {
    /// The newest durable checkpoint may list it.
    Maybe,
    /// It does not.
    No,
}

/// Whether the decision has reached every partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visible {
    /// Not known.
    NotKnown,
    /// It has.
    Everywhere,
}

/// Why there is no slot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "all {capacity} transactional ids of the writer are in use: {active} written, {prepared} waiting for their \
     commit, {decided} committed and waiting to be settled or dropped"
)]
pub struct PoolExhausted {
    /// How many may be in use.
    pub capacity: usize,
    /// Being written.
    pub active: usize,
    /// Prepared and not decided.
    pub prepared: usize,
    /// Decided, and not free yet.
    pub decided: usize,
}

/// A step that the slot's state does not allow; nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("transactional id slot {slot} is not in a state that allows this")]
pub struct Misuse {
    /// The slot.
    pub slot: Slot,
}

/// When an id whose transaction is decided is used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reuse {
    /// When no durable checkpoint lists it, and the decision is on every partition.
    #[default]
    WhenSettled,
    /// At once. **It loses records and doubles others**: for tests that show what the rule is good for.
    AtOnce,
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

    /// Takes a free slot for the transaction that the next checkpoint, `checkpoint`, will prepare.
    ///
    /// # Errors
    /// [`PoolExhausted`] tells what the slots are waiting for.
    pub fn take(&mut self, checkpoint: u64) -> Result<Slot, PoolExhausted> {
        let count = |which: fn(&SlotState) -> bool| self.slots.values().filter(|s| which(s)).count();
        let active = count(|s| matches!(s, SlotState::Active));
        let prepared = count(|s| matches!(s, SlotState::Prepared(_)));
        let decided = count(|s| matches!(s, SlotState::Decided { .. }));
        let capacity = self.capacity;
        // Retired and avoided slots are not counted: the job goes on with other ids.
        if active + prepared + decided >= capacity {
            return Err(PoolExhausted { capacity, active, prepared, decided });
        }
        let first = match self.naming {
            Naming::Pooled => 0,
            Naming::Incrementing => checkpoint,
        };
        let exhausted = PoolExhausted { capacity, active, prepared, decided };
        let slot = (first..=u64::MAX).find(|slot| !self.slots.contains_key(slot)).ok_or(exhausted)?;
        self.slots.insert(slot, SlotState::Active);
        Ok(slot)
    }

    /// The slot's transaction is a committable of `checkpoint`.
    ///
    /// # Errors
    /// [`Misuse`] unless the slot is active.
    pub fn prepared(&mut self, slot: Slot, checkpoint: u64) -> Result<(), Misuse> {
        match self.slots.get_mut(&slot) {
            Some(state @ SlotState::Active) => *state = SlotState::Prepared(checkpoint),
            Some(_) | None => return Err(Misuse { slot }),
        }
        Ok(())
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
            Reuse::WhenSettled => {
                _ = self.slots.insert(slot, SlotState::Decided { listed, visible: Visible::NotKnown });
            }
            Reuse::AtOnce => _ = self.slots.remove(&slot),
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
        for slot in recovered.avoid.iter().filter_map(|id| self.slot(id)).collect::<Vec<_>>() {
            self.slots.entry(slot).or_insert(SlotState::Avoided);
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

    fn free(&mut self) {
        let done = SlotState::Decided { listed: Listed::No, visible: Visible::Everywhere };
        self.slots.retain(|_, state| *state != done);
    }

    /// What a checkpoint keeps of the pool. Prepared slots are not part of it: their committables are.
    #[must_use]
    pub fn state_to_keep(&self) -> WriterState {
        let mut active = Vec::new();
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
        }
    }

    /// The pool of a restart: retired ids stay retired, active ones are leftovers and not the pool's business.
    ///
    /// # Errors
    /// [`NamingError::Migration`] when the naming cannot be continued like this.
    pub fn restore(
        state: &WriterState,
        naming: Naming,
        prefix: IdPrefix,
        capacity: usize,
    ) -> Result<Self, NamingError> {
        let naming = state.naming.continue_as(naming)?;
        let mut pool = Self::new(naming, prefix, state.ownership.clone(), capacity);
        let former = state.former_prefixes.iter().chain([&state.prefix]);
        pool.former_prefixes = former.filter(|p| **p != pool.prefix).cloned().collect();
        state.retired.iter().for_each(|hanging| pool.adopt_retired(hanging));
        Ok(pool)
    }
}

/// What a writer keeps in a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriterState {
    /// How ids are numbered.
    pub naming: Naming,
    /// The prefix of the run that wrote it.
    pub prefix: IdPrefix,
    /// Prefixes of the runs before.
    pub former_prefixes: Vec<IdPrefix>,
    /// The subtasks whose ids are owned.
    pub ownership: Ownership,
    /// Ids whose transactions were being written: leftovers after a crash, even where a listing hides them.
    pub active: Vec<TransactionalId>,
    /// Transactions that hang, with what was decided. Their ids are never used, fenced or aborted.
    pub retired: Vec<CommittedButHanging>,
}

impl WriterState {
    /// True when this writer, or the run before it whose state it continues, makes ids like this one.
    #[must_use]
    pub fn owns(&self, id: &TransactionalId) -> bool {
        let mut prefixes = self.former_prefixes.iter().chain([&self.prefix]);
        prefixes.any(|p| p.parse(id.as_str()).is_some_and(|parts| self.ownership.owns(parts.subtask)))
    }

    /// The state as it is kept: one share per owned subtask, so that a later restart with more subtasks can deal
    /// them out again. The first share holds what is known of ids.
    #[must_use]
    pub fn shares(&self) -> Vec<Self> {
        let with = |ownership: Ownership| match ownership.subtask() == self.ownership.subtask() {
            true => Self { ownership, ..self.clone() },
            false => Self { ownership, active: Vec::new(), retired: Vec::new(), ..self.clone() },
        };
        self.ownership.shares().into_iter().map(with).collect()
    }

    /// The state of subtask `subtask` of `parallelism` from the shares that were dealt to it; `None` for none.
    ///
    /// # Errors
    /// [`NamingError`], see [`Ownership::restore`].
    pub fn join(subtask: u32, parallelism: u32, shares: &[Self]) -> Result<Option<Self>, NamingError> {
        let Some(first) = shares.first() else { return Ok(None) };
        let ownerships: Vec<Ownership> = shares.iter().map(|share| share.ownership.clone()).collect();
        let prefixes = shares.iter().flat_map(|share| share.former_prefixes.iter().chain([&share.prefix]));
        let former: BTreeSet<IdPrefix> =
            prefixes.filter(|prefix| **prefix != first.prefix).cloned().collect();
        Ok(Some(Self {
            naming: first.naming,
            prefix: first.prefix.clone(),
            former_prefixes: former.into_iter().collect(),
            ownership: Ownership::restore(subtask, parallelism, &ownerships)?,
            active: shares.iter().flat_map(|share| share.active.iter().cloned()).collect(),
            retired: shares.iter().flat_map(|share| share.retired.iter().cloned()).collect(),
        }))
    }

    /// The bytes to be kept, in the newest format.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let owned: Vec<u32> = self.ownership.owned().collect();
        let fields = Fields::default()
            .u8(match self.naming {
                Naming::Incrementing => 0,
                Naming::Pooled => 1,
            })
            .text(self.prefix.as_str())
            .list(&self.former_prefixes, |fields, p| fields.text(p.as_str()))
            .list(&owned, |fields, subtask| fields.u64(u64::from(*subtask)))
            .u64(u64::from(self.ownership.total()))
            .list(&self.active, |fields, id| fields.text(id.as_str()))
            .list(&self.retired, write_hanging);
        SEAL.seal(fields)
    }

    /// The state of kept bytes.
    ///
    /// # Errors
    /// [`StateError`] tells something else, a newer release's format, a torn end and damage apart.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, StateError> {
        let mut fields = SEAL.open(bytes)?;
        let naming = match fields.u8()? {
            0 => Naming::Incrementing,
            1 => Naming::Pooled,
            _ => return fields.damaged("its naming is unknown"),
        };
        let prefix = read_prefix(&mut fields)?;
        let former_prefixes = fields.list(read_prefix)?;
        let owned = fields.list(read_subtask)?;
        let total = read_subtask(&mut fields)?;
        let Ok(ownership) = Ownership::from_parts(owned, total) else {
            return fields.damaged("its subtasks contradict each other");
        };
        let active = fields.list(|fields| fields.text().map(TransactionalId::new))?;
        let retired = fields.list(read_hanging)?;
        fields.finish(Self { naming, prefix, former_prefixes, ownership, active, retired })
    }
}

fn read_prefix(fields: &mut Reader<'_>) -> Result<IdPrefix, StateError> {
    let text = fields.text()?;
    IdPrefix::new(&text).or_else(|_| fields.damaged("a prefix is empty or too long"))
}

fn read_subtask(fields: &mut Reader<'_>) -> Result<u32, StateError> {
    let subtask = fields.u64()?;
    u32::try_from(subtask).or_else(|_| fields.damaged("a subtask is out of range"))
}

fn write_hanging(fields: Fields, hanging: &CommittedButHanging) -> Fields {
    let decision = match hanging.decision {
        Decision::Commit => 0,
        Decision::Abort => 1,
    };
    let head = fields.text(hanging.transactional_id.as_str()).identity(hanging.identity).u8(decision);
    let head = head.option(hanging.by.map(by_tag), Fields::u8);
    head.list(&hanging.partitions, |fields, p| {
        fields
            .text(&p.partition.topic)
            .i32(p.partition.partition)
            .raw(&p.topic_id.0)
            .option(p.offset, Fields::i64)
            .i64(p.open.start_offset)
            .i16(p.open.producer_epoch.0)
            .i32(p.open.coordinator_epoch)
    })
}

fn by_tag(by: DecidedBy) -> u8 {
    match by {
        DecidedBy::EndTxnV1 => 1,
        DecidedBy::EndTxnV2 => 2,
        DecidedBy::FenceV1 => 3,
        DecidedBy::FenceV2 => 4,
    }
}

fn read_by(fields: &mut Reader<'_>) -> Result<DecidedBy, StateError> {
    match fields.u8()? {
        1 => Ok(DecidedBy::EndTxnV1),
        2 => Ok(DecidedBy::EndTxnV2),
        3 => Ok(DecidedBy::FenceV1),
        4 => Ok(DecidedBy::FenceV2),
        _ => fields.damaged("how a decision came about is unknown"),
    }
}

fn read_hanging(fields: &mut Reader<'_>) -> Result<CommittedButHanging, StateError> {
    let transactional_id = TransactionalId::new(fields.text()?);
    let identity = fields.identity()?;
    let decision = match fields.u8()? {
        0 => Decision::Commit,
        1 => Decision::Abort,
        _ => return fields.damaged("a decision is neither commit nor abort"),
    };
    let by = fields.option(read_by)?;
    let partitions = fields.list(|fields| {
        Ok(HangingPartition {
            partition: TopicPartition::new(fields.text()?, fields.i32()?),
            topic_id: fields.topic_id()?,
            offset: fields.option(Reader::i64)?,
            open: OpenTransaction {
                start_offset: fields.i64()?,
                producer_epoch: crate::ids::ProducerEpoch(fields.i16()?),
                coordinator_epoch: fields.i32()?,
            },
        })
    })?;
    Ok(CommittedButHanging { transactional_id, identity, decision, by, partitions })
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;

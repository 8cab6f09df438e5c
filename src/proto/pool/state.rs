//! What a checkpoint keeps of a writer.

use super::history::History;
use crate::{
    ids::{TopicPartition, TransactionalId},
    proto::{
        naming::{IdParts, IdPrefix, Naming, NamingError, Ownership},
        resume::Decision,
        sealed::{Fields, Reader, Seal, StateError},
        settle::{CommittedButHanging, DecidedBy, HangingPartition, OpenTransaction},
    },
};

const SEAL: Seal = Seal { what: "writer state", magic: *b"K2PW", newest: 2 };

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
    /// What ids were used for last. `None` if that is not known, for a release before wrote the state.
    pub history: Option<History>,
}

impl WriterState {
    /// The state of a writer that has written nothing.
    #[must_use]
    pub fn fresh(naming: Naming, prefix: IdPrefix, ownership: Ownership) -> Self {
        let (active, retired, former_prefixes) = (Vec::new(), Vec::new(), Vec::new());
        let history = Some(History::default());
        Self { naming, prefix, former_prefixes, ownership, active, retired, history }
    }

    /// The states with which `parallelism` subtasks begin, in their order, from everything that the checkpoint holds of
    /// the writers before; none at all for a first start. What is known of an id goes to whoever owns it now.
    ///
    /// # Errors
    /// [`NamingError::Migration`] when the naming cannot be continued like this; see [`Ownership::deal`] for the rest.
    pub fn deal(
        states: &[Self],
        parallelism: u32,
        naming: Naming,
        prefix: &IdPrefix,
    ) -> Result<Vec<Self>, NamingError> {
        states.iter().try_for_each(|state| state.naming.continue_as(naming).map(|_| ()))?;
        let ownerships: Vec<Ownership> = states.iter().map(|state| state.ownership.clone()).collect();
        let prefixes = states.iter().flat_map(|state| state.former_prefixes.iter().chain([&state.prefix]));
        let mut former: Vec<IdPrefix> = Vec::new();
        for other in prefixes.filter(|p| *p != prefix) {
            if !former.contains(other) {
                former.push(other.clone());
            }
        }
        let fresh = |ownership| Self {
            former_prefixes: former.clone(),
            ..Self::fresh(naming, prefix.clone(), ownership)
        };
        let mut dealt: Vec<Self> =
            Ownership::deal(&ownerships, parallelism)?.into_iter().map(fresh).collect();
        for state in states {
            for id in &state.active {
                let owner = Self::owner(&dealt, id);
                dealt[owner].active.push(id.clone());
            }
            for hanging in &state.retired {
                let owner = Self::owner(&dealt, &hanging.transactional_id);
                dealt[owner].retired.push(hanging.clone());
            }
            if let Some(history) = &state.history {
                let parts = history.deal(dealt.len(), |id| Self::owner(&dealt, id));
                for (state, part) in dealt.iter_mut().zip(parts) {
                    state.history.iter_mut().for_each(|history| history.absorb(part.clone()));
                }
            }
        }
        if states.iter().any(|state| state.history.is_none()) {
            dealt.iter_mut().for_each(|state| state.history = None);
        }
        Ok(dealt)
    }

    /// Which of these states, those of all subtasks of a run in their order, answers for an id. An id of no prefix of
    /// theirs, which a stranger's committable may name, is the first one's.
    #[must_use]
    pub fn owner(all: &[Self], id: &TransactionalId) -> usize {
        all.iter().position(|state| state.owns(id)).unwrap_or(0)
    }

    /// True for an id of this prefix, or of a former one, whose subtask this writer answers for.
    #[must_use]
    pub fn owns(&self, id: &TransactionalId) -> bool {
        let owned = |parts: IdParts| self.ownership.owns(parts.subtask);
        self.prefixes().any(|prefix| prefix.parse(id.as_str()).is_some_and(owned))
    }

    /// The prefix and those of the runs before.
    pub fn prefixes(&self) -> impl Iterator<Item = &IdPrefix> {
        [&self.prefix].into_iter().chain(&self.former_prefixes)
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
            .list(&self.retired, write_hanging)
            .option(self.history.as_ref(), |fields, history| history.write(fields));
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
        // Format 1 ends here.
        let history = if fields.is_empty() { None } else { fields.option(History::read)? };
        fields.finish(Self { naming, prefix, former_prefixes, ownership, active, retired, history })
    }
}

pub(super) fn read_prefix(fields: &mut Reader<'_>) -> Result<IdPrefix, StateError> {
    let text = fields.text()?;
    IdPrefix::new(&text).or_else(|_| fields.damaged("a prefix is empty or too long"))
}

pub(super) fn read_subtask(fields: &mut Reader<'_>) -> Result<u32, StateError> {
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

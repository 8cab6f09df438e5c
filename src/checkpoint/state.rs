//! What a checkpoint holds.

use std::sync::Arc;

use super::handle::{OperatorState, StateHandle};
use crate::{
    ids::TopicId,
    proto::{
        committable::Committable,
        pool::WriterState,
        recovery::CommitStatus,
        resume::Decision,
        sealed::{Fields, Reader, Seal, StateError},
    },
    source::InputPosition,
};

const SEAL: Seal = Seal { what: "checkpoint", magic: *b"K2PK", newest: 2 };

/// The source of a job that pipes lines. Earlier releases kept its [`InputPosition`] alone under this uid.
pub(super) const INPUT: &str = "input";

/// One consistent point of a job: everything before the sources' positions is in the listed committables or in
/// transactions that were committed earlier, and nothing after them is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Its number; it grows from one checkpoint to the next.
    pub id: u64,
    /// The owner of the store that wrote it: a number that grows with each owner. The store sets it, whatever stands
    /// here; 0 where it is not known.
    pub owner_epoch: u64,
    /// The job, as it named itself at its first start.
    pub job_id: Arc<str>,
    /// The cluster that the job writes to.
    pub cluster_id: Arc<str>,
    /// The topic that it writes to.
    pub topic: Arc<str>,
    /// The topic's id, which tells it from a later one of the same name; [`TopicId::UNKNOWN`] on brokers before 2.8.
    pub topic_id: TopicId,
    /// State of sources and operators, by their uid.
    pub operators: Vec<OperatorState>,
    /// The transactions that a successor must commit, or must know about.
    pub committables: Vec<ListedCommittable>,
    /// The state of every writer share, of every subtask.
    pub writers: Vec<WriterState>,
}

/// A committable and what is known of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedCommittable {
    /// The committable.
    pub committable: Committable,
    /// What is known of it.
    pub status: CommitStatus,
}

impl Checkpoint {
    /// The state of an operator.
    #[must_use]
    pub fn operator(&self, uid: &str) -> Option<&OperatorState> {
        self.operators.iter().find(|operator| &*operator.uid == uid)
    }

    /// Every state that lies outside of the checkpoint.
    pub(super) fn stored_states(&self) -> impl Iterator<Item = &Arc<str>> {
        self.operators.iter().flat_map(|operator| &operator.subtasks).filter_map(|handle| match handle {
            StateHandle::Stored { name, .. } => Some(name),
            StateHandle::Inline(_) => None,
        })
    }

    /// Where the job stands in its input of lines; `None` for a job of another kind.
    ///
    /// # Errors
    /// [`StateError`] if the operator `input` holds something else.
    pub fn input(&self) -> Result<Option<InputPosition>, StateError> {
        match self.operator(INPUT).map(|operator| &*operator.subtasks) {
            None => Ok(None),
            Some([StateHandle::Inline(_)]) => match &self.splits(INPUT)?[..] {
                [split] => InputPosition::from_split(split).map(Some),
                _ => Err(StateError::Foreign { what: "position in an input of lines" }),
            },
            Some(_) => Err(StateError::Foreign { what: "position in an input of lines" }),
        }
    }

    /// The same with another position in its input of lines, as earlier releases kept it.
    #[must_use]
    pub fn with_input(mut self, position: &InputPosition) -> Self {
        let subtasks = vec![StateHandle::Inline(position.to_bytes())];
        self.operators.retain(|operator| &*operator.uid != INPUT);
        self.operators.push(OperatorState { uid: INPUT.into(), subtasks });
        self
    }

    /// The bytes to be kept, in the newest format.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.to_bytes_of(self.owner_epoch)
    }

    /// The bytes to be kept by this owner.
    pub(super) fn to_bytes_of(&self, owner_epoch: u64) -> Vec<u8> {
        let fields = Fields::default()
            .u64(self.id)
            .u64(owner_epoch)
            .text(&self.job_id)
            .text(&self.cluster_id)
            .text(&self.topic)
            .raw(&self.topic_id.0)
            .list(&self.operators, |fields, operator| {
                fields.text(&operator.uid).list(&operator.subtasks, |fields, handle| handle.write(fields))
            })
            .list(&self.committables, |fields, listed| {
                fields.u8(status_tag(listed.status)).bytes(&listed.committable.to_bytes())
            })
            .list(&self.writers, |fields, writer| fields.bytes(&writer.to_bytes()));
        SEAL.seal(fields)
    }

    /// The checkpoint of kept bytes, of this format or an older one.
    ///
    /// # Errors
    /// [`StateError`] tells something else, a newer release's format, a torn end and damage apart.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, StateError> {
        let (format, mut fields) = SEAL.open_any(bytes)?;
        let checkpoint =
            if format == 1 { Self::read_first_format(&mut fields)? } else { Self::read(&mut fields)? };
        fields.finish(checkpoint)
    }

    fn read(fields: &mut Reader<'_>) -> Result<Self, StateError> {
        Ok(Self {
            id: fields.u64()?,
            owner_epoch: fields.u64()?,
            job_id: fields.text()?,
            cluster_id: fields.text()?,
            topic: fields.text()?,
            topic_id: fields.topic_id()?,
            operators: fields.list(|fields| {
                Ok(OperatorState { uid: fields.text()?, subtasks: fields.list(StateHandle::read)? })
            })?,
            committables: fields.list(read_listed)?,
            writers: fields.list(|fields| WriterState::from_bytes(fields.bytes()?))?,
        })
    }

    /// Format 1 knew one input and neither owners nor the topic's id.
    fn read_first_format(fields: &mut Reader<'_>) -> Result<Self, StateError> {
        let checkpoint = Self {
            id: fields.u64()?,
            owner_epoch: 0,
            job_id: fields.text()?,
            cluster_id: fields.text()?,
            topic: fields.text()?,
            topic_id: TopicId::UNKNOWN,
            operators: Vec::new(),
            committables: Vec::new(),
            writers: Vec::new(),
        };
        let position = InputPosition::read(fields)?;
        Ok(Self {
            committables: fields.list(read_listed)?,
            writers: fields.list(|fields| WriterState::from_bytes(fields.bytes()?))?,
            ..checkpoint.with_input(&position)
        })
    }
}

fn read_listed(fields: &mut Reader<'_>) -> Result<ListedCommittable, StateError> {
    let status = read_status(fields)?;
    Ok(ListedCommittable { committable: Committable::from_bytes(fields.bytes()?)?, status })
}

fn status_tag(status: CommitStatus) -> u8 {
    match status {
        CommitStatus::Pending => 0,
        CommitStatus::Decided(Decision::Commit) => 1,
        CommitStatus::Decided(Decision::Abort) => 2,
    }
}

fn read_status(fields: &mut Reader<'_>) -> Result<CommitStatus, StateError> {
    match fields.u8()? {
        0 => Ok(CommitStatus::Pending),
        1 => Ok(CommitStatus::Decided(Decision::Commit)),
        2 => Ok(CommitStatus::Decided(Decision::Abort)),
        _ => fields.damaged("the status of a committable is unknown"),
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;

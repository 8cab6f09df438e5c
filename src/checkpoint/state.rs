//! What a checkpoint holds.

use std::sync::Arc;

use crate::{
    proto::{
        committable::Committable,
        pool::WriterState,
        recovery::CommitStatus,
        resume::Decision,
        sealed::{Fields, Reader, Seal, StateError},
    },
    source::InputPosition,
};

const SEAL: Seal = Seal { what: "checkpoint", magic: *b"K2PK", newest: 1 };

/// One consistent point of a job: everything before the input position is in the listed committables or in
/// transactions that were committed earlier, and nothing after it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Its number; it grows from one checkpoint to the next.
    pub id: u64,
    /// The job, as it named itself at its first start.
    pub job_id: Arc<str>,
    /// The cluster that the job writes to.
    pub cluster_id: Arc<str>,
    /// The topic that it writes to.
    pub topic: Arc<str>,
    /// Where it stands in its input.
    pub input: InputPosition,
    /// The transactions that a successor must commit, or must know about.
    pub committables: Vec<ListedCommittable>,
    /// The state of every writer share.
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
    /// The bytes to be kept, in the newest format.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let names =
            Fields::default().u64(self.id).text(&self.job_id).text(&self.cluster_id).text(&self.topic);
        let fields = self
            .input
            .write(names)
            .list(&self.committables, |fields, listed| {
                fields.u8(status_tag(listed.status)).bytes(&listed.committable.to_bytes())
            })
            .list(&self.writers, |fields, writer| fields.bytes(&writer.to_bytes()));
        SEAL.seal(fields)
    }

    /// The checkpoint of kept bytes.
    ///
    /// # Errors
    /// [`StateError`] tells something else, a newer release's format, a torn end and damage apart.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, StateError> {
        let mut fields = SEAL.open(bytes)?;
        let checkpoint = Self {
            id: fields.u64()?,
            job_id: fields.text()?,
            cluster_id: fields.text()?,
            topic: fields.text()?,
            input: InputPosition::read(&mut fields)?,
            committables: fields.list(|fields| {
                let status = read_status(fields)?;
                Ok(ListedCommittable { committable: Committable::from_bytes(fields.bytes()?)?, status })
            })?,
            writers: fields.list(|fields| WriterState::from_bytes(fields.bytes()?))?,
        };
        fields.finish(checkpoint)
    }
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

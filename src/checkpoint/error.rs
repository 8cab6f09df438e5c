//! Why state cannot be read or kept.

use std::{io, path::PathBuf, sync::Arc};

use crate::{ids::TopicId, proto::sealed::StateError};

/// Why state cannot be read or kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Another process owns the state.
    #[error("{} is in use by another process ({holder}); a job's state has one owner at a time", path.display())]
    Locked {
        /// The lock, or the state itself where it has no lock of its own.
        path: PathBuf,
        /// How that process calls itself.
        holder: Arc<str>,
    },
    /// This was the owner, and another one has taken the state over: nothing more may be written. Stop the job.
    #[error(
        "{}: this was owner {epoch} of the state, and {holder} has taken it over as owner {by}; this job must stop",
        path.display()
    )]
    Fenced {
        /// The state.
        path: PathBuf,
        /// The epoch of this owner.
        epoch: u64,
        /// The epoch of the new one.
        by: u64,
        /// How the new one calls itself.
        holder: Arc<str>,
    },
    /// The state was given up by [`close`](super::CheckpointStore::close).
    #[error("{}: this store is closed", path.display())]
    Closed {
        /// The state.
        path: PathBuf,
    },
    /// A checkpoint names a state that the store does not hold. Nothing was written.
    #[error("checkpoint {checkpoint} names the state `{name}`, which is not in the store")]
    UnknownState {
        /// The checkpoint that was to be written.
        checkpoint: u64,
        /// The state's name.
        name: Arc<str>,
    },
    /// The state belongs to something else.
    #[error("this state belongs to the {what} `{found}`, not to `{wanted}`; use another state directory")]
    Foreign {
        /// What differs: `job`, `cluster`, `topic` or `input`.
        what: &'static str,
        /// What was expected.
        wanted: Arc<str>,
        /// What the state says.
        found: Arc<str>,
    },
    /// The topic has another id than the one that the job wrote to: it was deleted, and created again.
    #[error(
        "the topic `{topic}` was deleted and created again: this state belongs to the former one (id {then}), not to \
         the present one (id {now}). What this state counts as written is not in the present topic. To write all of \
         the input into it, use another state directory"
    )]
    TopicRecreated {
        /// The topic's name.
        topic: Arc<str>,
        /// Its id when the checkpoint was written.
        then: TopicId,
        /// Its id now.
        now: TopicId,
    },
    /// The state belongs to a job of another kind.
    #[error("this state belongs to a job of another kind, `{job}`: {why}; use another state directory")]
    OtherKind {
        /// The job.
        job: Arc<str>,
        /// What tells.
        why: String,
    },
    /// The state of a subtask, which a checkpoint names, is missing or is not what was put.
    #[error("{}: {why}. A crash does not cause this; restore the file from a backup", path.display())]
    BadState {
        /// Where it should lie.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A newer release wrote it.
    #[error("{}: {cause}; run that release, or a newer one", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// What is in it.
        cause: StateError,
    },
    /// The newest checkpoint cannot be read. A crash cannot do that: a checkpoint gets its name only when it is
    /// whole. Going on from an older one would write records again that are committed already.
    #[error(
        "{}: {cause}. A crash does not cause this; restore the file from a backup. {}",
        path.display(), remedy(older.as_ref())
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: StateError,
        /// An older checkpoint that is whole.
        older: Option<PathBuf>,
    },
    /// A checkpoint that is not newer than the newest.
    #[error("checkpoint {found} does not follow checkpoint {newest}")]
    OutOfOrder {
        /// The newest checkpoint.
        newest: u64,
        /// The one that was to be written.
        found: u64,
    },
    /// The device is full. Nothing was lost: the checkpoint before is still the newest.
    #[error("{}: the device is full; the last checkpoint is intact", path.display())]
    Full {
        /// The file that could not be written.
        path: PathBuf,
    },
    /// The checkpoint has its name, but whether the name survives a power loss is not known. Stop, and start again.
    #[error("{}: the directory cannot be synced: {source}", path.display())]
    NotSynced {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The checkpoint was written, and whether it is complete is not known: the store did not answer. Stop, and start
    /// again; or [`load`](super::CheckpointStore::load), which tells, before anything else is written.
    #[error("{}: whether the checkpoint is complete is not known: {why}", path.display())]
    Uncertain {
        /// The state.
        path: PathBuf,
        /// What happened.
        why: String,
    },
    /// The object store did not answer, or could not serve, for as long as was tried. Nothing is lost: the checkpoint
    /// before is still the newest.
    #[error(
        "{}: the object store does not answer: {why}. What the last complete checkpoint holds is safe: when the store can \
         be reached again, the same command goes on from there",
        path.display()
    )]
    Unavailable {
        /// The object.
        path: PathBuf,
        /// What happened.
        why: String,
    },
    /// The object store has no such bucket.
    #[error(
        "{}: there is no such bucket: {why}. Create it, or look at its name, the region and the endpoint",
        path.display()
    )]
    NoBucket {
        /// The object.
        path: PathBuf,
        /// What the store said.
        why: String,
    },
    /// The object store does not let us.
    #[error(
        "{}: the object store refuses: {why}. A job lists, reads, puts and deletes objects below its prefix; whoever \
         looks at a state lists and reads",
        path.display()
    )]
    Denied {
        /// The object.
        path: PathBuf,
        /// What the store said.
        why: String,
    },
    /// There is nothing to sign requests with.
    #[error(
        "{}: no credentials: the environment names none, and this machine has no role ({why}). Set AWS_ACCESS_KEY_ID and \
         AWS_SECRET_ACCESS_KEY, or AWS_SKIP_SIGNATURE=true for a store that wants none",
        path.display()
    )]
    NoCredentials {
        /// The object.
        path: PathBuf,
        /// What was tried.
        why: String,
    },
    /// The object store cannot create an object only if there is none, which ownership is made of. Nothing was written
    /// but an object that is removed again.
    #[error(
        "{}: this store overwrites what it was told to create only if there is none ({why}): two jobs could own one state, \
         and write everything twice. Use a store with conditional writes (PUT with If-None-Match: *), or a directory",
        path.display()
    )]
    NoConditionalPut {
        /// The state.
        path: PathBuf,
        /// What it did.
        why: String,
    },
    /// Anything else.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

fn remedy(older: Option<&PathBuf>) -> String {
    match older {
        None => "No older checkpoint is used in its place.".to_owned(),
        Some(older) => format!(
            "{} is older and whole; if it is used instead (by moving the damaged file away), everything that was \
             committed after it is written a second time",
            older.display()
        ),
    }
}

impl StoreError {
    /// What cannot be read, because of a newer release or because of damage.
    pub(super) fn unreadable(path: PathBuf, cause: StateError, older: Option<PathBuf>) -> Self {
        match cause {
            StateError::Newer { .. } => Self::Newer { path, cause },
            cause => Self::Damaged { path, cause, older },
        }
    }

    /// True when the same job, started again from its last checkpoint, may go through: the store was away, or did not
    /// say whether a checkpoint is complete.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Uncertain { .. })
    }

    /// What the error is about, where it has a place.
    #[cfg(feature = "object-store")]
    pub(super) fn path(&self) -> &std::path::Path {
        match self {
            Self::Locked { path, .. }
            | Self::Fenced { path, .. }
            | Self::Closed { path }
            | Self::BadState { path, .. }
            | Self::Newer { path, .. }
            | Self::Damaged { path, .. }
            | Self::Full { path }
            | Self::NotSynced { path, .. }
            | Self::Uncertain { path, .. }
            | Self::Unavailable { path, .. }
            | Self::NoBucket { path, .. }
            | Self::Denied { path, .. }
            | Self::NoCredentials { path, .. }
            | Self::NoConditionalPut { path, .. }
            | Self::Io { path, .. } => path,
            Self::UnknownState { .. }
            | Self::Foreign { .. }
            | Self::TopicRecreated { .. }
            | Self::OtherKind { .. }
            | Self::OutOfOrder { .. } => std::path::Path::new(""),
        }
    }

    pub(super) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full { path },
            _ => Self::Io { path, source },
        }
    }
}

//! What every store of checkpoints promises.

use std::{io, path::PathBuf, sync::Arc};

use super::state::Checkpoint;
use crate::proto::{committable::Committable, sealed::StateError};

/// A place for the checkpoints of one job.
///
/// A store holds one owner at a time, and never a checkpoint that is half written: whenever the process dies,
/// [`load`](Self::load) finds either the checkpoint before or the one that was being written, whole.
pub trait CheckpointStore: Send {
    /// The newest checkpoint, if there is one.
    ///
    /// # Errors
    /// [`StoreError`]; above all damage, which is never passed over for an older checkpoint.
    fn load(&mut self) -> Result<Option<Checkpoint>, StoreError>;

    /// Makes a checkpoint durable. When it returns, a power loss does not undo it. `observer` sees the points that
    /// it passes.
    ///
    /// # Errors
    /// [`StoreError`]. The checkpoint before is then still the newest, except after
    /// [`StoreError::NotSynced`], when either may be.
    fn write(
        &mut self,
        checkpoint: &Checkpoint,
        observer: &mut dyn FnMut(StorePoint),
    ) -> Result<(), StoreError>;
}

/// A store that also keeps prepared transactions one by one, from which they can be committed by hand.
pub trait JobStore: CheckpointStore {
    /// Keeps a committable; the path of its file, if the store has files.
    ///
    /// # Errors
    /// [`StoreError`].
    fn keep(&mut self, committable: &Committable) -> Result<Option<PathBuf>, StoreError>;

    /// The committables that were kept and that the newest checkpoint does not list.
    ///
    /// # Errors
    /// [`StoreError`].
    fn unlisted(&mut self) -> Result<Vec<Committable>, StoreError>;

    /// Forgets a committable that is decided or aborted.
    ///
    /// # Errors
    /// [`StoreError`].
    fn forget(&mut self, committable: &Committable) -> Result<(), StoreError>;
}

/// A point that the writing of a checkpoint passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StorePoint {
    /// Half of the checkpoint's bytes are written, under a temporary name.
    Half,
    /// The checkpoint is durable.
    Durable,
}

impl StorePoint {
    /// Its name for scripts that crash a job on purpose: `store-half`, `durable`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Half => "store-half",
            Self::Durable => "durable",
        }
    }
}

/// What a job's state must belong to. `None` accepts anything, for a job that does not know yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Binding {
    /// The job.
    pub job_id: Option<Arc<str>>,
    /// The cluster.
    pub cluster_id: Option<Arc<str>>,
    /// The topic.
    pub topic: Option<Arc<str>>,
    /// The input's source.
    pub source: Option<Arc<str>>,
}

impl Binding {
    /// Refuses a checkpoint of something else.
    ///
    /// # Errors
    /// [`StoreError::Foreign`] names the first difference.
    pub fn check(&self, checkpoint: &Checkpoint) -> Result<(), StoreError> {
        let differences = [
            ("job", &self.job_id, &checkpoint.job_id),
            ("cluster", &self.cluster_id, &checkpoint.cluster_id),
            ("topic", &self.topic, &checkpoint.topic),
            ("input", &self.source, &checkpoint.input.source),
        ];
        for (what, wanted, found) in differences {
            match wanted {
                Some(wanted) if wanted != found => {
                    return Err(StoreError::Foreign { what, wanted: wanted.clone(), found: found.clone() });
                }
                Some(_) | None => {}
            }
        }
        Ok(())
    }
}

/// Why state cannot be read or kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Another process owns the state.
    #[error("{} is in use by another process; a job's state has one owner at a time", path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
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
        None => "There is no older checkpoint.".to_owned(),
        Some(older) => format!(
            "{} is older and whole; if it is used instead (by moving the damaged file away), everything that was \
             committed after it is written a second time",
            older.display()
        ),
    }
}

impl StoreError {
    pub(super) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full { path },
            _ => Self::Io { path, source },
        }
    }
}

//! Reading a directory of checkpoints, with or without owning it.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::{
    error::StoreError,
    files::{files, name},
    names::{COMMITTABLE, checkpoint_id},
    owner::Owner,
    state::Checkpoint,
};
use crate::proto::{committable::Committable, sealed::StateError};

/// The newest checkpoint in `dir`, without owning it: for looking at a running job.
///
/// # Errors
/// [`StoreError::Damaged`] when the newest cannot be read; never an older one instead.
pub fn read_newest(dir: &Path) -> Result<Option<Checkpoint>, StoreError> {
    loop {
        let mut paths = checkpoints(dir)?;
        let Some((_, path)) = paths.pop() else { return Ok(None) };
        match read_checkpoint(&path) {
            Ok(checkpoint) => return Ok(Some(checkpoint)),
            // A running job has removed it in this moment: there are newer ones.
            Err(ReadError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                let older = paths.into_iter().rev().map(|(_, older)| older);
                return Err(error.of(&path, older.into_iter().find(|older| read_checkpoint(older).is_ok())));
            }
        }
    }
}

/// The committable in a file.
///
/// # Errors
/// [`StoreError::Io`], [`StoreError::Newer`] or [`StoreError::Damaged`].
pub fn read_committable(path: &Path) -> Result<Committable, StoreError> {
    let bytes = fs::read(path).map_err(StoreError::io(path))?;
    Committable::from_bytes(&bytes).map_err(|cause| ReadError::State(cause).of(path, None))
}

/// The prepared transactions that lie in `dir` one by one, each with its file. One that a running job removes meanwhile is
/// not among them.
///
/// # Errors
/// [`StoreError`], also for one that cannot be read.
pub fn read_committables(dir: &Path) -> Result<Vec<(PathBuf, Committable)>, StoreError> {
    let paths = files(&committables_dir(dir))?.into_iter();
    let mut found = Vec::new();
    for path in paths.filter(|path| name(path).ends_with(COMMITTABLE)) {
        match read_committable(&path) {
            Ok(committable) => found.push((path, committable)),
            Err(_) if !path.exists() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// Who owns the state in `dir`, or was the last to own it.
pub(super) fn read_owner(dir: &Path) -> Result<Option<Owner>, StoreError> {
    let path = dir.join(OWNER);
    match fs::read(&path) {
        Ok(bytes) => {
            let owner = Owner::from_bytes(&bytes).map_err(|cause| ReadError::State(cause).of(&path, None))?;
            Ok(Some(owner))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::io(path)(error)),
    }
}

/// The file that tells the owner.
pub(super) const OWNER: &str = "owner";

pub(super) enum ReadError {
    Io(io::Error),
    State(StateError),
}

impl ReadError {
    pub(super) fn of(self, path: &Path, older: Option<PathBuf>) -> StoreError {
        let path = path.to_owned();
        match self {
            Self::Io(source) => StoreError::Io { path, source },
            Self::State(cause) => StoreError::unreadable(path, cause, older),
        }
    }
}

pub(super) fn read_checkpoint(path: &Path) -> Result<Checkpoint, ReadError> {
    let bytes = fs::read(path).map_err(ReadError::Io)?;
    Checkpoint::from_bytes(&bytes).map_err(ReadError::State)
}

/// Every checkpoint file, oldest first.
pub(super) fn checkpoints(dir: &Path) -> Result<Vec<(u64, PathBuf)>, StoreError> {
    let all = files(dir)?.into_iter();
    let mut found: Vec<_> = all.filter_map(|path| checkpoint_id(name(&path)).map(|id| (id, path))).collect();
    found.sort();
    Ok(found)
}

pub(super) fn committables_dir(dir: &Path) -> PathBuf {
    dir.join("committables")
}

pub(super) fn states_dir(dir: &Path) -> PathBuf {
    dir.join("states")
}

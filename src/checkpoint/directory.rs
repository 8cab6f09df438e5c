//! Checkpoints in a directory.
//!
//! ```text
//! DIR/lock                          held while a job runs; the operating system frees it when the process dies
//! DIR/checkpoint-<20 digits>        the newest two
//! DIR/*.tmp                         what a crash left half written; removed at the next start
//! DIR/committables/<id>.committable one prepared transaction each, written before the checkpoint that lists it
//! DIR/states/<name>.state           large state of one subtask each, written before the checkpoint that names it
//! ```
//! A file gets its name only after its bytes are synced, and the directory is synced after that: a name tells that
//! the file is whole. Files are readable by their owner alone.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use futures::{FutureExt, future::BoxFuture};

use super::{
    binding::Binding,
    directory_states::DirectoryStates,
    error::StoreError,
    files::{TEMPORARY, files, make_dir, name, options, readable_name, remove, sync_dir, write_whole},
    state::Checkpoint,
    store::{CheckpointStore, JobStore, StateStore, StorePoint},
};
use crate::{
    net::Clock,
    proto::{committable::Committable, sealed::StateError},
};

const CHECKPOINT: &str = "checkpoint-";
const COMMITTABLE: &str = ".committable";
/// How many checkpoints are kept.
const KEPT: usize = 2;

/// The store.
#[derive(Debug)]
pub struct DirectoryStore {
    dir: PathBuf,
    binding: Binding,
    newest: Option<u64>,
    states: DirectoryStates,
}

/// A committable that lies in a file of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittableFile {
    /// The file.
    pub path: PathBuf,
    /// What is in it.
    pub committable: Committable,
}

impl DirectoryStore {
    /// Opens the state in `dir`, making the directory if there is none, and removes what a crash left half written.
    ///
    /// # Errors
    /// [`StoreError::Locked`] while another process holds it; what [`load`](CheckpointStore::load) returns for state
    /// that cannot be used.
    pub fn open(dir: impl Into<PathBuf>, binding: Binding) -> Result<Self, StoreError> {
        let dir = dir.into();
        make_dir(&dir)?;
        make_dir(&committables_dir(&dir))?;
        make_dir(&states_dir(&dir))?;
        let path = dir.join("lock");
        let lock = options().create(true).truncate(false).open(&path).map_err(StoreError::io(&path))?;
        match fs4::FileExt::try_lock(&lock) {
            Ok(()) => {}
            Err(fs4::TryLockError::WouldBlock) => return Err(StoreError::Locked { path }),
            Err(fs4::TryLockError::Error(source)) => return Err(StoreError::Io { path, source }),
        }
        for dir in [dir.clone(), committables_dir(&dir), states_dir(&dir)] {
            for path in files(&dir)?.into_iter().filter(|path| name(path).ends_with(TEMPORARY)) {
                fs::remove_file(&path).map_err(StoreError::io(path))?;
            }
        }
        let states = DirectoryStates::new(states_dir(&dir), Clock::seed(), lock);
        let mut store = Self { dir, binding, newest: None, states };
        store.newest = store.newest()?.map(|checkpoint| checkpoint.id);
        Ok(store)
    }

    /// Keeps a prepared transaction in a file of its own, from which it can be described, committed or aborted by
    /// hand. Keeping the same one again changes nothing.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn keep_committable(&mut self, committable: &Committable) -> Result<PathBuf, StoreError> {
        let dir = committables_dir(&self.dir);
        let path = dir.join(committable_name(committable));
        let bytes = committable.to_bytes();
        match fs::read(&path) {
            Ok(kept) if kept == bytes => return Ok(path),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(StoreError::io(&path)(error)),
        }
        write_whole(&path, &bytes, &mut || {})?;
        sync_dir(&dir)?;
        Ok(path)
    }

    /// Removes the file of a transaction that is decided, or that a fence has aborted. None being there is fine.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn forget_committable(&mut self, committable: &Committable) -> Result<(), StoreError> {
        remove(&committables_dir(&self.dir).join(committable_name(committable)))
    }

    /// The prepared transactions with a file that the newest checkpoint does not list: prepared, but their
    /// checkpoint never became durable. They are leftovers, to be aborted and never to be committed.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn unlisted_files(&self) -> Result<Vec<CommittableFile>, StoreError> {
        let listed = self.newest()?.map(|checkpoint| listed_names(&checkpoint)).unwrap_or_default();
        let paths = files(&committables_dir(&self.dir))?.into_iter();
        paths
            .filter(|path| name(path).ends_with(COMMITTABLE) && !listed.contains(name(path)))
            .map(|path| Ok(CommittableFile { committable: read_committable(&path)?, path }))
            .collect()
    }

    /// Where the file of a committable lies, or would lie.
    #[must_use]
    pub fn committable_path(&self, committable: &Committable) -> PathBuf {
        committables_dir(&self.dir).join(committable_name(committable))
    }

    /// The directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    fn newest(&self) -> Result<Option<Checkpoint>, StoreError> {
        let newest = read_newest(&self.dir)?;
        newest.iter().try_for_each(|checkpoint| self.binding.check(checkpoint))?;
        Ok(newest)
    }

    fn write_checkpoint(
        &mut self,
        checkpoint: &Checkpoint,
        observer: &mut (dyn FnMut(StorePoint) + Send),
    ) -> Result<(), StoreError> {
        self.binding.check(checkpoint)?;
        match self.newest {
            Some(newest) if checkpoint.id <= newest => {
                return Err(StoreError::OutOfOrder { newest, found: checkpoint.id });
            }
            Some(_) | None => {}
        }
        for listed in &checkpoint.committables {
            self.keep_committable(&listed.committable)?;
        }
        let path = self.dir.join(format!("{CHECKPOINT}{:020}", checkpoint.id));
        write_whole(&path, &checkpoint.to_bytes(), &mut || observer(StorePoint::Half))?;
        self.newest = Some(checkpoint.id);
        sync_dir(&self.dir)?;
        observer(StorePoint::Durable);
        // The checkpoint is kept whatever becomes of the old files; the next one tries to remove them again.
        let _ = self.prune(checkpoint);
        Ok(())
    }

    /// Removes checkpoints beyond those that are kept, and the files of committables that `newest` dropped.
    fn prune(&self, newest: &Checkpoint) -> Result<(), StoreError> {
        let paths = checkpoints(&self.dir)?;
        let still_listed = listed_names(newest);
        // What an older checkpoint listed and this one does not is decided and settled. What none listed may be
        // prepared for the next checkpoint at this very moment, and stays.
        for (id, path) in &paths {
            if *id == newest.id {
                continue;
            }
            let dropped = match read_checkpoint(path) {
                Ok(older) => listed_names(&older),
                Err(_) => BTreeSet::new(),
            };
            for name in dropped.difference(&still_listed) {
                remove(&committables_dir(&self.dir).join(name))?;
            }
        }
        let beyond = paths.len().saturating_sub(KEPT);
        paths.iter().take(beyond).try_for_each(|(_, path)| remove(path))
    }
}

impl CheckpointStore for DirectoryStore {
    fn load(&mut self) -> BoxFuture<'_, Result<Option<Checkpoint>, StoreError>> {
        async move { self.newest() }.boxed()
    }

    /// A checkpoint is small, and is written where it is: what is large lies in files of its own.
    fn write<'a>(
        &'a mut self,
        checkpoint: &'a Checkpoint,
        observer: &'a mut (dyn FnMut(StorePoint) + Send),
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        async move { self.write_checkpoint(checkpoint, observer) }.boxed()
    }

    fn states(&self) -> Arc<dyn StateStore> {
        Arc::new(self.states.clone())
    }
}

impl JobStore for DirectoryStore {
    fn keep<'a>(
        &'a mut self,
        committable: &'a Committable,
    ) -> BoxFuture<'a, Result<Option<PathBuf>, StoreError>> {
        async move { self.keep_committable(committable).map(Some) }.boxed()
    }

    fn unlisted(&mut self) -> BoxFuture<'_, Result<Vec<Committable>, StoreError>> {
        let only = |files: Vec<CommittableFile>| files.into_iter().map(|file| file.committable).collect();
        async move { self.unlisted_files().map(only) }.boxed()
    }

    fn forget<'a>(&'a mut self, committable: &'a Committable) -> BoxFuture<'a, Result<(), StoreError>> {
        async move { self.forget_committable(committable) }.boxed()
    }
}

/// The newest checkpoint in `dir`, without owning it: for looking at a running job.
///
/// # Errors
/// [`StoreError::Damaged`] when the newest cannot be read; never an older one instead.
pub fn read_newest(dir: &Path) -> Result<Option<Checkpoint>, StoreError> {
    let mut paths = checkpoints(dir)?;
    let Some((_, path)) = paths.pop() else { return Ok(None) };
    match read_checkpoint(&path) {
        Ok(checkpoint) => Ok(Some(checkpoint)),
        Err(ReadError::Io(source)) => Err(StoreError::Io { path, source }),
        Err(ReadError::State(cause @ StateError::Newer { .. })) => Err(StoreError::Newer { path, cause }),
        Err(ReadError::State(cause)) => {
            let older =
                paths.into_iter().rev().map(|(_, older)| older).find(|older| read_checkpoint(older).is_ok());
            Err(StoreError::Damaged { path, cause, older })
        }
    }
}

/// The committable in a file.
///
/// # Errors
/// [`StoreError::Io`], [`StoreError::Newer`] or [`StoreError::Damaged`].
pub fn read_committable(path: &Path) -> Result<Committable, StoreError> {
    let bytes = fs::read(path).map_err(StoreError::io(path))?;
    Committable::from_bytes(&bytes).map_err(|cause| match cause {
        StateError::Newer { .. } => StoreError::Newer { path: path.to_owned(), cause },
        _ => StoreError::Damaged { path: path.to_owned(), cause, older: None },
    })
}

enum ReadError {
    Io(io::Error),
    State(StateError),
}

fn read_checkpoint(path: &Path) -> Result<Checkpoint, ReadError> {
    let bytes = fs::read(path).map_err(ReadError::Io)?;
    Checkpoint::from_bytes(&bytes).map_err(ReadError::State)
}

fn states_dir(dir: &Path) -> PathBuf {
    dir.join("states")
}

fn committables_dir(dir: &Path) -> PathBuf {
    dir.join("committables")
}

/// No two prepared transactions have one name: none has another's producer id and epoch.
fn committable_name(committable: &Committable) -> String {
    let (id, identity) = (committable.transactional_id.as_str(), committable.identity);
    format!("{}.{}.{}{COMMITTABLE}", readable_name(id), identity.producer_id, identity.epoch)
}

fn listed_names(checkpoint: &Checkpoint) -> BTreeSet<String> {
    checkpoint.committables.iter().map(|listed| committable_name(&listed.committable)).collect()
}

/// Every checkpoint file, oldest first.
fn checkpoints(dir: &Path) -> Result<Vec<(u64, PathBuf)>, StoreError> {
    let id = |path: &Path| -> Option<u64> {
        let digits = name(path).strip_prefix(CHECKPOINT)?;
        (digits.len() == 20).then(|| digits.parse().ok())?
    };
    let mut found: Vec<_> =
        files(dir)?.into_iter().filter_map(|path| id(&path).map(|id| (id, path))).collect();
    found.sort();
    Ok(found)
}

#[cfg(test)]
#[path = "directory_tests.rs"]
mod tests;

//! Checkpoints in a directory.
//!
//! ```text
//! DIR/lock                          held while a job runs; the operating system frees it when the process dies
//! DIR/owner                         the owner's epoch, which grows each time the state is opened, and its name
//! DIR/checkpoint-<20 digits>        the newest two, or as many as are wanted
//! DIR/*.tmp                         what a crash left half written; removed at the next start
//! DIR/committables/<id>.committable one prepared transaction each, written before the checkpoint that lists it
//! DIR/states/<name>.state           large state of one subtask each, written before the checkpoint that names it
//! ```
//! A file gets its name only after its bytes are synced, and the directory is synced after that: a name tells that
//! the file is whole. Files are readable by their owner alone.

use std::{
    collections::VecDeque,
    fs::{self, File},
    io,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
};

use futures::{FutureExt, future::BoxFuture};

use super::{
    binding::Binding,
    directory_read::{
        OWNER, ReadError, checkpoints, committables_dir, read_checkpoint, read_committable, read_newest,
        read_owner, states_dir,
    },
    directory_states::DirectoryStates,
    error::StoreError,
    files::{Disk, TEMPORARY, files, name, options},
    kept::{Item, Kept},
    names::{COMMITTABLE, checkpoint_name, committable_name, state_owner},
    owner::Owner,
    state::Checkpoint,
    store::{CheckpointStore, JobStore, StateStore, StorePoint},
};
use crate::proto::committable::Committable;

/// The store.
#[derive(Debug)]
pub struct DirectoryStore {
    dir: PathBuf,
    disk: Disk,
    binding: Binding,
    owner: Owner,
    /// Whether the owner's file says so.
    claimed: bool,
    /// Whether the newest checkpoint may go away with a power loss.
    unsynced: bool,
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
    /// The state is free for the next owner when this and what [`states`](CheckpointStore::states) gave are dropped.
    ///
    /// # Errors
    /// [`StoreError::Locked`] while another process holds it; what [`load`](CheckpointStore::load) returns for state
    /// that cannot be used.
    pub fn open(dir: impl Into<PathBuf>, binding: Binding) -> Result<Self, StoreError> {
        Self::open_on(Disk::default(), dir.into(), binding)
    }

    pub(super) fn open_on(disk: Disk, dir: PathBuf, binding: Binding) -> Result<Self, StoreError> {
        disk.make_dir(&dir)?;
        let lock = lock(&dir)?;
        for dir in [dir.clone(), committables_dir(&dir), states_dir(&dir)] {
            disk.make_dir(&dir)?;
            for path in files(&dir)?.into_iter().filter(|path| name(path).ends_with(TEMPORARY)) {
                disk.remove(&path)?;
            }
        }
        let newest = read_newest(&dir)?;
        newest.iter().try_for_each(|checkpoint| binding.check(checkpoint))?;
        let former = read_owner(&dir)?.map_or(0, |owner| owner.epoch);
        let epoch = former.max(newest.map_or(0, |checkpoint| checkpoint.owner_epoch)) + 1;
        let owner = Owner { epoch, holder: Owner::this_process() };
        let kept = take_stock(&dir, epoch)?;
        let states = DirectoryStates::new(states_dir(&dir), disk.clone(), epoch, kept, lock);
        let mut store = Self { dir, disk, binding, owner, claimed: false, unsynced: true, states };
        match store.claim() {
            // A full device must not keep anybody from committing what is prepared.
            Ok(()) | Err(StoreError::Full { .. }) => {}
            Err(error) => return Err(error),
        }
        store.settle()?;
        store.prune();
        Ok(store)
    }

    /// `state.checkpoints.num-retained`: how many checkpoints are kept, from the next one on. Default 2.
    #[must_use]
    pub fn num_retained(self, checkpoints: NonZeroUsize) -> Self {
        self.states.kept().retain(checkpoints);
        self
    }

    /// The number that tells this owner from those before: it stands in every checkpoint that this one writes.
    #[must_use]
    pub fn owner_epoch(&self) -> u64 {
        self.owner.epoch
    }

    /// Keeps a prepared transaction in a file of its own, from which it can be described, committed or aborted by
    /// hand. Keeping the same one again changes nothing.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn keep_committable(&mut self, committable: &Committable) -> Result<PathBuf, StoreError> {
        let path = self.committable_path(committable);
        let bytes = committable.to_bytes();
        match fs::read(&path) {
            Ok(kept) if kept == bytes => return Ok(path),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(StoreError::io(&path)(error)),
        }
        self.disk.write_whole(&path, &bytes, &mut || {})?;
        Ok(path)
    }

    /// Removes the file of a transaction that is decided, or that a fence has aborted. None being there is fine.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn forget_committable(&mut self, committable: &Committable) -> Result<(), StoreError> {
        self.disk.remove(&self.committable_path(committable))
    }

    /// The prepared transactions with a file that no kept checkpoint lists: prepared, but their checkpoint never
    /// became durable. They are leftovers, to be aborted and never to be committed.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn unlisted_files(&self) -> Result<Vec<CommittableFile>, StoreError> {
        let paths = files(&committables_dir(&self.dir))?.into_iter();
        paths
            .filter(|path| name(path).ends_with(COMMITTABLE) && !self.states.kept().lists(name(path)))
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

    /// Says in the state that it is ours. Refuses if it is somebody else's by now, which a lock that works prevents.
    fn claim(&mut self) -> Result<(), StoreError> {
        if let Some(now) = read_owner(&self.dir)?.filter(|now| now.epoch > self.owner.epoch) {
            let (path, epoch) = (self.dir.clone(), self.owner.epoch);
            return Err(StoreError::Fenced { path, epoch, by: now.epoch, holder: now.holder });
        }
        if !self.claimed {
            self.disk.write_whole(&self.dir.join(OWNER), &self.owner.to_bytes(), &mut || {})?;
            self.claimed = true;
        }
        Ok(())
    }

    /// A process that died, or a device that failed, between naming a checkpoint and syncing its name leaves it durable
    /// or not. Nobody may act on it before it is.
    fn settle(&mut self) -> Result<(), StoreError> {
        if self.unsynced {
            self.disk.sync_dir(&self.dir)?;
            self.unsynced = false;
        }
        Ok(())
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
        self.settle()?;
        self.claim()?;
        self.states.kept().check(checkpoint)?;
        for listed in &checkpoint.committables {
            self.keep_committable(&listed.committable)?;
        }
        let name = checkpoint_name(checkpoint.id);
        let path = self.dir.join(&name);
        let bytes = checkpoint.to_bytes_of(self.owner.epoch);
        let written = self.disk.write_whole(&path, &bytes, &mut || observer(StorePoint::Half));
        // It has its name also when the directory could not be synced.
        if matches!(written, Ok(()) | Err(StoreError::NotSynced { .. })) {
            self.states.kept().complete(name.into(), checkpoint);
        }
        self.unsynced = matches!(written, Err(StoreError::NotSynced { .. }));
        written?;
        observer(StorePoint::Durable);
        self.prune();
        Ok(())
    }

    /// Removes what may go. The checkpoint is kept whatever becomes of that; the next one tries again.
    fn prune(&self) {
        let mut items: VecDeque<_> = self.states.kept().removable().into_iter().collect();
        while let Some(item) = items.pop_front() {
            let path = match &item {
                Item::Committable(name) => committables_dir(&self.dir).join(&**name),
                Item::Checkpoint(name) => self.dir.join(&**name),
                Item::State(name) => self.states.path(name),
            };
            match self.disk.remove(&path) {
                Ok(()) => items.extend(self.states.kept().gone(&item)),
                Err(error) => tracing::debug!(%error, "to be removed after the next checkpoint"),
            }
        }
    }
}

impl CheckpointStore for DirectoryStore {
    fn load(&mut self) -> BoxFuture<'_, Result<Option<Checkpoint>, StoreError>> {
        async move { self.settle().and_then(|()| self.newest()) }.boxed()
    }

    /// A checkpoint is small, and is written where it is: what is large lies in files of its own.
    fn write<'a>(
        &'a mut self,
        checkpoint: &'a Checkpoint,
        observer: &'a mut (dyn FnMut(StorePoint) + Send),
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        async move { self.write_checkpoint(checkpoint, observer) }.boxed()
    }

    fn recovered(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            for unlisted in self.unlisted_files()? {
                self.forget_committable(&unlisted.committable)?;
            }
            Ok(())
        }
        .boxed()
    }

    fn keep<'a>(
        &'a mut self,
        committable: &'a Committable,
    ) -> BoxFuture<'a, Result<Option<PathBuf>, StoreError>> {
        async move { self.keep_committable(committable).map(Some) }.boxed()
    }

    fn place(&self, committable: &Committable) -> Option<PathBuf> {
        Some(self.committable_path(committable))
    }

    fn states(&self) -> Arc<dyn StateStore> {
        Arc::new(self.states.clone())
    }
}

impl JobStore for DirectoryStore {
    fn unlisted(&mut self) -> BoxFuture<'_, Result<Vec<Committable>, StoreError>> {
        let only = |files: Vec<CommittableFile>| files.into_iter().map(|file| file.committable).collect();
        async move { self.unlisted_files().map(only) }.boxed()
    }

    fn forget<'a>(&'a mut self, committable: &'a Committable) -> BoxFuture<'a, Result<(), StoreError>> {
        async move { self.forget_committable(committable) }.boxed()
    }
}

fn lock(dir: &Path) -> Result<File, StoreError> {
    let path = dir.join("lock");
    let lock = options().create(true).truncate(false).open(&path).map_err(StoreError::io(&path))?;
    match fs4::FileExt::try_lock(&lock) {
        Ok(()) => Ok(lock),
        Err(fs4::TryLockError::WouldBlock) => {
            let owner = read_owner(dir).ok().flatten();
            let holder = owner.map_or_else(|| "not known which".into(), |owner| owner.holder);
            Err(StoreError::Locked { path, holder })
        }
        Err(fs4::TryLockError::Error(source)) => Err(StoreError::Io { path, source }),
    }
}

/// What is in the directory, and what of it nothing needs.
fn take_stock(dir: &Path, epoch: u64) -> Result<Kept, StoreError> {
    let mut kept = Kept::new(committable_name);
    let mut all_read = true;
    for (_, path) in checkpoints(dir)? {
        match read_checkpoint(&path) {
            Ok(checkpoint) => kept.found(name(&path).into(), &checkpoint),
            // The newest can be read, or nothing would have come so far. What this one names is not known.
            Err(ReadError::State(_)) => all_read = false,
            Err(ReadError::Io(error)) => return Err(StoreError::io(path)(error)),
        }
    }
    if all_read {
        let states = files(&states_dir(dir))?;
        let orphans = states.iter().map(|path| name(path)).filter(|name| {
            state_owner(name).is_some_and(|owner| owner < epoch) && !kept.names(&Arc::from(*name))
        });
        let orphans: Vec<_> = orphans.map(|name| Item::State(name.into())).collect();
        kept.leftovers(orphans);
    }
    Ok(kept)
}

#[cfg(test)]
#[path = "directory_tests.rs"]
mod tests;

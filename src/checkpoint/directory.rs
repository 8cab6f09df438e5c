//! Checkpoints in a directory.
//!
//! ```text
//! DIR/lock                          held while a job runs; the operating system frees it when the process dies
//! DIR/checkpoint-<20 digits>        the newest two
//! DIR/*.tmp                         what a crash left half written; removed at the next start
//! DIR/committables/<id>.committable one prepared transaction each, written before the checkpoint that lists it
//! ```
//! A file gets its name only after its bytes are synced, and the directory is synced after that: a name tells that
//! the file is whole. Files are readable by their owner alone.

use std::{
    collections::BTreeSet,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use super::{
    state::Checkpoint,
    store::{Binding, CheckpointStore, JobStore, StoreError, StorePoint},
};
use crate::proto::{committable::Committable, sealed::StateError};

const CHECKPOINT: &str = "checkpoint-";
const TEMPORARY: &str = ".tmp";
const COMMITTABLE: &str = ".committable";
/// How many checkpoints are kept.
const KEPT: usize = 2;

/// The store.
#[derive(Debug)]
pub struct DirectoryStore {
    dir: PathBuf,
    binding: Binding,
    newest: Option<u64>,
    /// Closing the file frees the lock.
    _lock: File,
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
        let path = dir.join("lock");
        let lock = options().create(true).truncate(false).open(&path).map_err(StoreError::io(&path))?;
        match fs4::FileExt::try_lock(&lock) {
            Ok(()) => {}
            Err(fs4::TryLockError::WouldBlock) => return Err(StoreError::Locked { path }),
            Err(fs4::TryLockError::Error(source)) => return Err(StoreError::Io { path, source }),
        }
        for dir in [dir.clone(), committables_dir(&dir)] {
            for path in files(&dir)?.into_iter().filter(|path| name(path).ends_with(TEMPORARY)) {
                fs::remove_file(&path).map_err(StoreError::io(path))?;
            }
        }
        let mut store = Self { dir, binding, newest: None, _lock: lock };
        store.newest = store.load()?.map(|checkpoint| checkpoint.id);
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
        write_whole(&path, &bytes, &mut |_| {})?;
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
    pub fn unlisted(&mut self) -> Result<Vec<CommittableFile>, StoreError> {
        let listed = self.load()?.map(|checkpoint| listed_names(&checkpoint)).unwrap_or_default();
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
    fn load(&mut self) -> Result<Option<Checkpoint>, StoreError> {
        let newest = read_newest(&self.dir)?;
        newest.iter().try_for_each(|checkpoint| self.binding.check(checkpoint))?;
        Ok(newest)
    }

    fn write(
        &mut self,
        checkpoint: &Checkpoint,
        observer: &mut dyn FnMut(StorePoint),
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
        write_whole(&path, &checkpoint.to_bytes(), observer)?;
        self.newest = Some(checkpoint.id);
        sync_dir(&self.dir)?;
        observer(StorePoint::Durable);
        // The checkpoint is kept whatever becomes of the old files; the next one tries to remove them again.
        let _ = self.prune(checkpoint);
        Ok(())
    }
}

impl JobStore for DirectoryStore {
    fn keep(&mut self, committable: &Committable) -> Result<Option<PathBuf>, StoreError> {
        self.keep_committable(committable).map(Some)
    }

    fn unlisted(&mut self) -> Result<Vec<Committable>, StoreError> {
        Ok(Self::unlisted(self)?.into_iter().map(|file| file.committable).collect())
    }

    fn forget(&mut self, committable: &Committable) -> Result<(), StoreError> {
        self.forget_committable(committable)
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

fn committables_dir(dir: &Path) -> PathBuf {
    dir.join("committables")
}

/// A name that is unique and harmless: what could not stand in a file name is replaced, and a checksum of the whole
/// id keeps apart what became equal.
fn committable_name(committable: &Committable) -> String {
    let id = committable.transactional_id.as_str();
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '_' };
    let readable: String = id.chars().take(80).map(plain).collect();
    let checksum = crc32c::crc32c(id.as_bytes());
    let identity = committable.identity;
    format!("{readable}.{checksum:08x}.{}.{}{COMMITTABLE}", identity.producer_id, identity.epoch)
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

fn files(dir: &Path) -> Result<Vec<PathBuf>, StoreError> {
    match fs::read_dir(dir) {
        Ok(entries) => {
            entries.map(|e| e.map(|e| e.path())).collect::<Result<_, _>>().map_err(StoreError::io(dir))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(StoreError::io(dir)(error)),
    }
}

fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or("")
}

/// Writes under a temporary name, syncs, and gives the file its own name. The caller syncs the directory.
fn write_whole(path: &Path, bytes: &[u8], observer: &mut dyn FnMut(StorePoint)) -> Result<(), StoreError> {
    let temporary = path.with_file_name(format!("{}{TEMPORARY}", name(path)));
    let mut write = || {
        let mut file = options().create(true).truncate(true).open(&temporary)?;
        let (first, second) = bytes.split_at(bytes.len() / 2);
        file.write_all(first)?;
        observer(StorePoint::Half);
        file.write_all(second)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    write().map_err(|error| {
        // What is left of it only takes space; the next start removes it, too.
        let _ = fs::remove_file(&temporary);
        StoreError::io(path)(error)
    })
}

fn remove(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StoreError::io(path)(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(unix)]
fn options() -> OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    options
}

#[cfg(not(unix))]
fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    options
}

fn make_dir(dir: &Path) -> Result<(), StoreError> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir).map_err(StoreError::io(dir))
}

#[cfg(unix)]
fn sync_dir(dir: &Path) -> Result<(), StoreError> {
    let sync = || File::open(dir)?.sync_all();
    sync().map_err(|source| StoreError::NotSynced { path: dir.to_owned(), source })
}

/// Directories cannot be opened for syncing here; the file system orders the rename itself.
#[cfg(not(unix))]
fn sync_dir(_dir: &Path) -> Result<(), StoreError> {
    Ok(())
}

#[cfg(test)]
#[path = "directory_tests.rs"]
mod tests;

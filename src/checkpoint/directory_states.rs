//! Large state in a directory: one file each, whole before its checkpoint names it.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use futures::{FutureExt, future::BoxFuture};

use super::{
    error::StoreError,
    files::Disk,
    handle::{INLINE_STATE_BYTES, StateHandle},
    kept::{Item, Kept},
    names::StateName,
    store::StateStore,
};

/// The state files of one owner. Clones share them; the lock is held until the last one is gone, for it may be
/// writing.
#[derive(Debug, Clone)]
pub(super) struct DirectoryStates(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    dir: PathBuf,
    disk: Disk,
    owner_epoch: u64,
    next: AtomicU64,
    kept: Mutex<Kept>,
    /// Closing the file frees the lock.
    _lock: File,
}

impl DirectoryStates {
    pub(super) fn new(dir: PathBuf, disk: Disk, owner_epoch: u64, kept: Kept, lock: File) -> Self {
        let kept = Mutex::new(kept);
        Self(Arc::new(Inner { dir, disk, owner_epoch, next: AtomicU64::new(0), kept, _lock: lock }))
    }

    /// The store's books.
    pub(super) fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.dir.join(name)
    }

    fn unique_name(&self, label: &str) -> Arc<str> {
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        StateName { label, owner_epoch: self.0.owner_epoch, number }.to_string().into()
    }
}

impl StateStore for DirectoryStates {
    fn put(&self, name: &str, bytes: Bytes) -> BoxFuture<'_, Result<StateHandle, StoreError>> {
        if bytes.len() <= INLINE_STATE_BYTES {
            return async move { Ok(StateHandle::Inline(bytes)) }.boxed();
        }
        let (name, states) = (self.unique_name(name), self.clone());
        blocking(self.path(&name), move || {
            states.0.disk.write_whole(&states.path(&name), &bytes, &mut || {})?;
            states.kept().put(Arc::clone(&name));
            Ok(StateHandle::stored(name, &bytes))
        })
    }

    fn get<'a>(&'a self, handle: &'a StateHandle) -> BoxFuture<'a, Result<Bytes, StoreError>> {
        match handle {
            StateHandle::Inline(bytes) => async move { Ok(bytes.clone()) }.boxed(),
            StateHandle::Stored { name, .. } => {
                let (path, handle) = (self.path(name), handle.clone());
                blocking(path.clone(), move || read_state(&path, &handle))
            }
        }
    }

    fn discard<'a>(&'a self, handle: &'a StateHandle) -> BoxFuture<'a, Result<(), StoreError>> {
        let StateHandle::Stored { name, .. } = handle else { return async { Ok(()) }.boxed() };
        if !self.kept().discard(name) {
            return async { Ok(()) }.boxed();
        }
        let (name, states) = (Arc::clone(name), self.clone());
        blocking(self.path(&name), move || {
            let removed = states.0.disk.remove(&states.path(&name));
            if removed.is_err() {
                states.kept().leftovers([Item::State(name)]);
            }
            removed
        })
    }
}

/// The state in a file, if it is what the handle says.
pub(super) fn read_state(path: &Path, handle: &StateHandle) -> Result<Bytes, StoreError> {
    let bad = |why: String| StoreError::BadState { path: path.to_owned(), why };
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(bad("it is missing".to_owned())),
        Err(error) => return Err(StoreError::io(path)(error)),
    };
    match handle.fault(&bytes) {
        None => Ok(bytes.into()),
        Some(why) => Err(bad(why)),
    }
}

/// Large files are read and written where that does not hold up other tasks.
fn blocking<'a, T: Send + 'static>(
    path: PathBuf,
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> BoxFuture<'a, Result<T, StoreError>> {
    async move {
        let done = tokio::task::spawn_blocking(work).await;
        done.unwrap_or_else(|ended| Err(StoreError::Io { path, source: io::Error::other(ended) }))
    }
    .boxed()
}

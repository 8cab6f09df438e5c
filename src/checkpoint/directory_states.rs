//! Large state in a directory: one file each, whole before its checkpoint names it.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use futures::{FutureExt, future::BoxFuture};

use super::{
    error::StoreError,
    files::{readable_name, sync_dir, write_whole},
    handle::{INLINE_STATE_BYTES, StateHandle},
    store::StateStore,
};

/// What the names of state files end with.
pub(super) const STATE: &str = ".state";

/// The files of one owner. Clones share them; the lock is held until the last one is gone, for one may be writing.
#[derive(Debug, Clone)]
pub(super) struct DirectoryStates(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    dir: PathBuf,
    /// A number that no other owner has.
    owner: u64,
    next: AtomicU64,
    /// Closing the file frees the lock.
    _lock: File,
}

impl DirectoryStates {
    pub(super) fn new(dir: PathBuf, owner: u64, lock: File) -> Self {
        Self(Arc::new(Inner { dir, owner, next: AtomicU64::new(0), _lock: lock }))
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.dir.join(name)
    }

    /// A name that no other state has: the owner and a number make it so.
    fn unique_name(&self, label: &str) -> Arc<str> {
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        format!("{}.{}.{number}{STATE}", readable_name(label), self.0.owner).into()
    }
}

impl StateStore for DirectoryStates {
    fn put(&self, name: &str, bytes: Bytes) -> BoxFuture<'_, Result<StateHandle, StoreError>> {
        if bytes.len() <= INLINE_STATE_BYTES {
            return async move { Ok(StateHandle::Inline(bytes)) }.boxed();
        }
        let (name, states) = (self.unique_name(name), self.clone());
        blocking(self.path(&name), move || {
            let path = states.path(&name);
            write_whole(&path, &bytes, &mut || {})?;
            sync_dir(&states.0.dir)?;
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

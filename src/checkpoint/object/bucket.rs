//! Objects below one prefix of an object store.

use std::{error::Error as _, io, path::PathBuf, sync::Arc};

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode, PutOptions, path::Path};

use crate::checkpoint::error::StoreError;

/// Where kinds of objects lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Folder {
    Heads,
    Checkpoints,
    States,
    Committables,
}

/// Whether an object was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Created {
    Now,
    Before,
}

#[derive(Debug, Clone)]
pub(super) struct Bucket {
    store: Arc<dyn ObjectStore>,
    root: Path,
}

impl Folder {
    fn name(self) -> &'static str {
        match self {
            Self::Heads => "heads",
            Self::Checkpoints => "checkpoints",
            Self::States => "states",
            Self::Committables => "committables",
        }
    }
}

impl Bucket {
    pub(super) fn new(store: Arc<dyn ObjectStore>, prefix: &str) -> Self {
        Self { store, root: Path::from(prefix) }
    }

    /// The prefix, for messages.
    pub(super) fn root(&self) -> PathBuf {
        PathBuf::from(self.root.as_ref())
    }

    /// The object's location, for messages.
    pub(super) fn path(&self, folder: Folder, name: &str) -> PathBuf {
        PathBuf::from(self.location(folder, name).as_ref())
    }

    pub(super) async fn put(&self, folder: Folder, name: &str, bytes: Bytes) -> Result<(), StoreError> {
        let put = self.store.put(&self.location(folder, name), bytes.into()).await;
        put.map(|_| ()).map_err(|error| self.error(folder, name, error))
    }

    /// Makes an object, unless there is one: of many that try at once, one succeeds.
    pub(super) async fn create(
        &self,
        folder: Folder,
        name: &str,
        bytes: Bytes,
    ) -> Result<Created, StoreError> {
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        match self.store.put_opts(&self.location(folder, name), bytes.into(), options).await {
            Ok(_) => Ok(Created::Now),
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(Created::Before),
            Err(error) => Err(self.error(folder, name, error)),
        }
    }

    /// The object's bytes, if there is one.
    pub(super) async fn read(&self, folder: Folder, name: &str) -> Result<Option<Bytes>, StoreError> {
        let read = async { self.store.get(&self.location(folder, name)).await?.bytes().await };
        match read.await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.error(folder, name, error)),
        }
    }

    /// Removes an object. None being there is fine.
    pub(super) async fn remove(&self, folder: Folder, name: &str) -> Result<(), StoreError> {
        match self.store.delete(&self.location(folder, name)).await {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.error(folder, name, error)),
        }
    }

    /// The names in a folder, sorted.
    pub(super) async fn names(&self, folder: Folder) -> Result<Vec<String>, StoreError> {
        let below = self.location(folder, "");
        let found: Result<Vec<_>, _> = self.store.list(Some(&below)).try_collect().await;
        let found = found.map_err(|error| self.error(folder, "", error))?;
        let mut names: Vec<_> =
            found.iter().filter_map(|meta| Some(meta.location.filename()?.to_owned())).collect();
        names.sort();
        Ok(names)
    }

    fn location(&self, folder: Folder, name: &str) -> Path {
        Path::from(format!("{}/{}/{name}", self.root, folder.name()))
    }

    fn error(&self, folder: Folder, name: &str, error: Error) -> StoreError {
        StoreError::io(self.path(folder, name))(as_io(error))
    }
}

/// The same as an error of the operating system; a full disk below a store of files stays one.
fn as_io(error: Error) -> io::Error {
    let mut cause = error.source();
    while let Some(inner) = cause {
        if let Some(io) = inner.downcast_ref::<io::Error>() {
            return io::Error::new(io.kind(), error);
        }
        cause = inner.source();
    }
    io::Error::other(error)
}

//! Objects below one prefix of an object store.

use std::{path::PathBuf, sync::Arc};

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::{Error, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions, path::Path};

use super::failure::{Request, failure};
use crate::checkpoint::error::StoreError;

/// Where kinds of objects lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::checkpoint) enum Folder {
    Heads,
    Checkpoints,
    States,
    Committables,
    Timeline,
    Probes,
}

/// Whether an object was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Created {
    Now,
    Before,
}

#[derive(Debug, Clone)]
pub(in crate::checkpoint) struct Bucket {
    store: Arc<dyn ObjectStore>,
    root: Path,
    /// What messages call it.
    name: Option<Arc<str>>,
}

impl Folder {
    fn name(self) -> &'static str {
        match self {
            Self::Heads => "heads",
            Self::Checkpoints => "checkpoints",
            Self::States => "states",
            Self::Committables => "committables",
            Self::Timeline => "timeline",
            Self::Probes => "probes",
        }
    }
}

impl Bucket {
    pub(super) fn new(store: Arc<dyn ObjectStore>, prefix: &str, name: Option<Arc<str>>) -> Self {
        Self { store, root: Path::from(prefix), name }
    }

    /// Whether what messages name can be found by others.
    pub(super) fn is_named(&self) -> bool {
        self.name.is_some()
    }

    /// The prefix, for messages.
    pub(super) fn root(&self) -> PathBuf {
        self.shown(&self.root)
    }

    /// The object's location, for messages.
    pub(super) fn path(&self, folder: Folder, name: &str) -> PathBuf {
        self.shown(&self.location(folder, name))
    }

    fn shown(&self, location: &Path) -> PathBuf {
        match &self.name {
            None => PathBuf::from(location.as_ref()),
            Some(name) => PathBuf::from(format!("{name}/{location}")),
        }
    }

    pub(in crate::checkpoint) async fn put(
        &self,
        folder: Folder,
        name: &str,
        bytes: Bytes,
    ) -> Result<(), StoreError> {
        let put = self.store.put(&self.location(folder, name), bytes.into()).await;
        put.map(|_| ()).map_err(|error| self.error(Request::Put, (folder, name), error))
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
            Err(error @ (Error::NotImplemented { .. } | Error::NotSupported { .. })) => {
                let why = error.to_string();
                Err(StoreError::NoConditionalPut { path: self.root(), why })
            }
            Err(error) => Err(self.error(Request::Put, (folder, name), error)),
        }
    }

    /// The object's bytes, if there is one.
    pub(in crate::checkpoint) async fn read(
        &self,
        folder: Folder,
        name: &str,
    ) -> Result<Option<Bytes>, StoreError> {
        let read = async { self.store.get(&self.location(folder, name)).await?.bytes().await };
        match read.await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.error(Request::Get, (folder, name), error)),
        }
    }

    /// Removes an object. None being there is fine.
    pub(in crate::checkpoint) async fn remove(&self, folder: Folder, name: &str) -> Result<(), StoreError> {
        match self.store.delete(&self.location(folder, name)).await {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.error(Request::Delete, (folder, name), error)),
        }
    }

    /// The names in a folder, sorted.
    pub(in crate::checkpoint) async fn names(&self, folder: Folder) -> Result<Vec<String>, StoreError> {
        let found = self.list(folder).await?;
        let mut names: Vec<_> =
            found.iter().filter_map(|meta| Some(meta.location.filename()?.to_owned())).collect();
        names.sort();
        Ok(names)
    }

    /// What a folder holds, in no order.
    pub(super) async fn list(&self, folder: Folder) -> Result<Vec<ObjectMeta>, StoreError> {
        let below = self.location(folder, "");
        let found: Result<Vec<_>, _> = self.store.list(Some(&below)).try_collect().await;
        found.map_err(|error| self.error(Request::List, (folder, ""), error))
    }

    fn location(&self, folder: Folder, name: &str) -> Path {
        Path::from(format!("{}/{}/{name}", self.root, folder.name()))
    }

    fn error(&self, request: Request, (folder, name): (Folder, &str), error: Error) -> StoreError {
        failure(self.path(folder, name), request, error)
    }
}

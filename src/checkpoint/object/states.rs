//! Large state in an object store: one object each, there before its checkpoint names it.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use futures::{FutureExt, future::BoxFuture};

use super::{
    bucket::{Bucket, Folder},
    lease::Lease,
};
use crate::checkpoint::{
    error::StoreError,
    handle::{INLINE_STATE_BYTES, StateHandle},
    kept::{Item, Kept},
    names::StateName,
    store::StateStore,
};

/// The state objects of one owner, and the store's books. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct ObjectStates(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    bucket: Bucket,
    lease: Arc<Lease>,
    owner_epoch: u64,
    next: AtomicU64,
    kept: Mutex<Kept>,
}

impl ObjectStates {
    pub(super) fn new(bucket: Bucket, lease: Arc<Lease>, owner_epoch: u64, kept: Kept) -> Self {
        Self(Arc::new(Inner { bucket, lease, owner_epoch, next: AtomicU64::new(0), kept: Mutex::new(kept) }))
    }

    pub(super) fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number that this owner has not used before.
    pub(super) fn next_number(&self) -> u64 {
        self.0.next.fetch_add(1, Ordering::Relaxed)
    }

    async fn keep(&self, label: &str, bytes: Bytes) -> Result<StateHandle, StoreError> {
        if bytes.len() <= INLINE_STATE_BYTES {
            return Ok(StateHandle::Inline(bytes));
        }
        // Another owner would only have to clear away what this one still puts.
        self.0.lease.check()?;
        let name = StateName { label, owner_epoch: self.0.owner_epoch, number: self.next_number() };
        let name: Arc<str> = name.to_string().into();
        let handle = StateHandle::stored(Arc::clone(&name), &bytes);
        self.0.bucket.put(Folder::States, &name, bytes).await?;
        self.kept().put(name);
        Ok(handle)
    }

    async fn find(&self, handle: &StateHandle) -> Result<Bytes, StoreError> {
        let name = match handle {
            StateHandle::Inline(bytes) => return Ok(bytes.clone()),
            StateHandle::Stored { name, .. } => name,
        };
        let path: PathBuf = self.0.bucket.path(Folder::States, name);
        let Some(bytes) = self.0.bucket.read(Folder::States, name).await? else {
            return Err(StoreError::BadState { path, why: "it is missing".to_owned() });
        };
        match handle.fault(&bytes) {
            None => Ok(bytes),
            Some(why) => Err(StoreError::BadState { path, why }),
        }
    }
}

impl StateStore for ObjectStates {
    fn put(&self, name: &str, bytes: Bytes) -> BoxFuture<'_, Result<StateHandle, StoreError>> {
        let label = name.to_owned();
        async move { self.keep(&label, bytes).await }.boxed()
    }

    fn get<'a>(&'a self, handle: &'a StateHandle) -> BoxFuture<'a, Result<Bytes, StoreError>> {
        self.find(handle).boxed()
    }

    fn discard<'a>(&'a self, handle: &'a StateHandle) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            let StateHandle::Stored { name, .. } = handle else { return Ok(()) };
            if !self.kept().discard(name) {
                return Ok(());
            }
            // Written down first: this future may be dropped.
            let item = Item::State(Arc::clone(name));
            self.kept().leftovers([item.clone()]);
            self.0.bucket.remove(Folder::States, name).await?;
            self.kept().gone(&item);
            Ok(())
        }
        .boxed()
    }
}

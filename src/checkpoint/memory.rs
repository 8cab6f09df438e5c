//! A store that forgets everything when the process ends.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use futures::{FutureExt, future::BoxFuture};

use super::{
    error::StoreError,
    handle::{INLINE_STATE_BYTES, StateHandle},
    state::Checkpoint,
    store::{CheckpointStore, JobStore, StateStore, StorePoint},
};
use crate::proto::committable::Committable;

/// Keeps the newest checkpoint in memory: every checkpoint is still atomic, and nothing survives a crash.
#[derive(Debug, Default)]
pub struct MemoryStore {
    newest: Option<Checkpoint>,
    states: Arc<States>,
}

#[derive(Debug, Default)]
struct States(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    next: u64,
    kept: BTreeMap<Arc<str>, Bytes>,
}

impl States {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, name: &str, bytes: Bytes) -> StateHandle {
        if bytes.len() <= INLINE_STATE_BYTES {
            return StateHandle::Inline(bytes);
        }
        let mut inner = self.inner();
        inner.next += 1;
        let name: Arc<str> = format!("{name}.{}", inner.next).into();
        let handle = StateHandle::stored(Arc::clone(&name), &bytes);
        inner.kept.insert(name, bytes);
        handle
    }
}

impl StateStore for States {
    fn put(&self, name: &str, bytes: Bytes) -> BoxFuture<'_, Result<StateHandle, StoreError>> {
        let handle = self.keep(name, bytes);
        async move { Ok(handle) }.boxed()
    }

    fn get<'a>(&'a self, handle: &'a StateHandle) -> BoxFuture<'a, Result<Bytes, StoreError>> {
        let found = match handle {
            StateHandle::Inline(bytes) => Ok(bytes.clone()),
            StateHandle::Stored { name, .. } => match self.inner().kept.get(name) {
                None => {
                    Err(StoreError::BadState { path: PathBuf::from(&**name), why: "it is missing".into() })
                }
                Some(bytes) => match handle.fault(bytes) {
                    None => Ok(bytes.clone()),
                    Some(why) => Err(StoreError::BadState { path: PathBuf::from(&**name), why }),
                },
            },
        };
        async move { found }.boxed()
    }
}

impl CheckpointStore for MemoryStore {
    fn load(&mut self) -> BoxFuture<'_, Result<Option<Checkpoint>, StoreError>> {
        async move { Ok(self.newest.clone()) }.boxed()
    }

    fn write<'a>(
        &'a mut self,
        checkpoint: &'a Checkpoint,
        observer: &'a mut (dyn FnMut(StorePoint) + Send),
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            observer(StorePoint::Half);
            let former = self.newest.replace(checkpoint.clone());
            observer(StorePoint::Durable);
            let named: BTreeSet<_> = checkpoint.stored_states().collect();
            let mut states = self.states.inner();
            for dropped in former.iter().flat_map(Checkpoint::stored_states) {
                if !named.contains(dropped) {
                    states.kept.remove(dropped);
                }
            }
            Ok(())
        }
        .boxed()
    }

    fn states(&self) -> Arc<dyn StateStore> {
        Arc::clone(&self.states) as Arc<dyn StateStore>
    }
}

impl JobStore for MemoryStore {
    fn keep<'a>(&'a mut self, _: &'a Committable) -> BoxFuture<'a, Result<Option<PathBuf>, StoreError>> {
        async { Ok(None) }.boxed()
    }

    fn unlisted(&mut self) -> BoxFuture<'_, Result<Vec<Committable>, StoreError>> {
        async { Ok(Vec::new()) }.boxed()
    }

    fn forget<'a>(&'a mut self, _: &'a Committable) -> BoxFuture<'a, Result<(), StoreError>> {
        async { Ok(()) }.boxed()
    }
}

//! A store that forgets everything when the process ends.

use std::{
    collections::{BTreeMap, VecDeque},
    num::NonZeroUsize,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use futures::{FutureExt, future::BoxFuture};

use super::{
    error::StoreError,
    handle::{INLINE_STATE_BYTES, StateHandle},
    kept::{Item, Kept},
    names::{StateName, checkpoint_name, committable_name},
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

#[derive(Debug)]
struct States(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    next: u64,
    bytes: BTreeMap<Arc<str>, Bytes>,
    kept: Kept,
}

impl Default for States {
    fn default() -> Self {
        let mut kept = Kept::new(committable_name);
        kept.retain(NonZeroUsize::MIN);
        Self(Mutex::new(Inner { next: 0, bytes: BTreeMap::new(), kept }))
    }
}

impl States {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn put(&mut self, label: &str, bytes: Bytes) -> StateHandle {
        if bytes.len() <= INLINE_STATE_BYTES {
            return StateHandle::Inline(bytes);
        }
        self.next += 1;
        let name: Arc<str> = StateName { label, owner_epoch: 0, number: self.next }.to_string().into();
        let handle = StateHandle::stored(Arc::clone(&name), &bytes);
        self.kept.put(Arc::clone(&name));
        self.bytes.insert(name, bytes);
        handle
    }

    fn find(&self, handle: &StateHandle) -> Result<Bytes, StoreError> {
        let name = match handle {
            StateHandle::Inline(bytes) => return Ok(bytes.clone()),
            StateHandle::Stored { name, .. } => name,
        };
        let bad = |why| StoreError::BadState { path: PathBuf::from(&**name), why };
        let bytes = self.bytes.get(name).ok_or_else(|| bad("it is missing".to_owned()))?;
        handle.fault(bytes).map_or_else(|| Ok(bytes.clone()), |why| Err(bad(why)))
    }

    fn prune(&mut self) {
        let mut items: VecDeque<_> = self.kept.removable().into_iter().collect();
        while let Some(item) = items.pop_front() {
            if let Item::State(name) = &item {
                self.bytes.remove(name);
            }
            items.extend(self.kept.gone(&item));
        }
    }
}

impl StateStore for States {
    fn put(&self, name: &str, bytes: Bytes) -> BoxFuture<'_, Result<StateHandle, StoreError>> {
        let handle = self.inner().put(name, bytes);
        async move { Ok(handle) }.boxed()
    }

    fn get<'a>(&'a self, handle: &'a StateHandle) -> BoxFuture<'a, Result<Bytes, StoreError>> {
        let found = self.inner().find(handle);
        async move { found }.boxed()
    }

    fn discard<'a>(&'a self, handle: &'a StateHandle) -> BoxFuture<'a, Result<(), StoreError>> {
        let mut inner = self.inner();
        if let StateHandle::Stored { name, .. } = handle {
            if inner.kept.discard(name) {
                inner.bytes.remove(name);
            }
        }
        async { Ok(()) }.boxed()
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
            self.states.inner().kept.check(checkpoint)?;
            observer(StorePoint::Half);
            self.newest = Some(checkpoint.clone());
            observer(StorePoint::Durable);
            let mut states = self.states.inner();
            states.kept.complete(checkpoint_name(checkpoint.id).into(), checkpoint);
            states.prune();
            Ok(())
        }
        .boxed()
    }

    fn states(&self) -> Arc<dyn StateStore> {
        Arc::clone(&self.states) as Arc<dyn StateStore>
    }
}

impl JobStore for MemoryStore {
    fn unlisted(&mut self) -> BoxFuture<'_, Result<Vec<Committable>, StoreError>> {
        async { Ok(Vec::new()) }.boxed()
    }

    fn forget<'a>(&'a mut self, _: &'a Committable) -> BoxFuture<'a, Result<(), StoreError>> {
        async { Ok(()) }.boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::{
        Binding,
        suite_tests::{Place, cases},
    };

    /// One store, from the beginning to the end of a test.
    struct Memory;

    impl Place for Memory {
        async fn open(&self, _: Binding) -> Result<Box<dyn JobStore>, StoreError> {
            Ok(Box::new(MemoryStore::default()))
        }

        async fn open_retaining(&self, _: usize) -> Box<dyn JobStore> {
            Box::new(MemoryStore::default())
        }

        async fn names(&self) -> Vec<String> {
            Vec::new()
        }

        async fn read(&self, _: &str) -> Vec<u8> {
            Vec::new()
        }

        async fn overwrite(&self, _: &str, _: &[u8]) {}

        async fn remove(&self, _: &str) {}
    }

    cases! { (Memory)
        a_checkpoint_that_names_state_which_is_not_there_is_refused
        an_observer_sees_half_a_checkpoint_and_then_a_durable_one
        checkpoints_only_go_forward
    }

    #[tokio::test]
    async fn state_goes_with_the_last_checkpoint_that_names_it() {
        let mut store = MemoryStore::default();
        let states = store.states();
        let large = || Bytes::from(vec![7; INLINE_STATE_BYTES + 1]);
        let (once, always) =
            (states.put("x", large()).await.unwrap(), states.put("x", large()).await.unwrap());
        let checkpoint = crate::checkpoint::suite_tests::checkpoint;
        store.write(&checkpoint(1, &[], &[&once, &always]), &mut |_| {}).await.unwrap();
        assert_eq!(states.get(&once).await.unwrap(), large());
        store.write(&checkpoint(2, &[], &[&always]), &mut |_| {}).await.unwrap();
        assert!(matches!(states.get(&once).await, Err(StoreError::BadState { .. })));
        assert_eq!(states.get(&always).await.unwrap(), large());
        assert_eq!(store.load().await.unwrap().unwrap().id, 2);
    }
}

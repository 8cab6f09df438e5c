//! Checkpoints in an object store (feature `object-store`).
//!
//! ```text
//! PREFIX/heads/<number>                   who owns the state, and which checkpoints are complete; the highest counts
//! PREFIX/checkpoints/checkpoint-<id>-..   complete when a head names it
//! PREFIX/states/<name>.state              large state of one subtask each, put before the checkpoint that names it
//! PREFIX/committables/<id>.committable    one prepared transaction each, put before the checkpoint that lists it
//! PREFIX/timeline/<run>-<piece>.ndjson    when each checkpoint passed what; nothing depends on them
//! PREFIX/probes/conditional-put           stays: whoever opens the state sees that it cannot be created again
//! ```
//! There are no locks in an object store, so ownership is a lease: the owner's head is followed by another one every
//! third of `lease_duration`, and by another one for each checkpoint. Who wants the state watches the head for a whole
//! `lease_duration`, by its own clock, and takes over only if it did not move. The clocks of machines need not agree.
//! An owner that was asleep for longer finds at its next checkpoint that it is fenced: heads are only ever created, one
//! after the other, so that it cannot follow a head that another one has followed already.

mod bucket;
mod failure;
mod head;
mod inspect;
mod lease;
mod location;
mod probe;
mod states;
mod stock;

use std::{num::NonZeroUsize, path::PathBuf, sync::Arc, time::Duration};

use futures::{
    FutureExt,
    future::{BoxFuture, join_all, try_join_all},
};
use object_store::ObjectStore;

pub(super) use self::bucket::{Bucket, Folder};
use self::{
    head::{Advanced, Head, Heads, Numbered},
    lease::{Lease, wait_for},
    states::ObjectStates,
};
pub use self::{
    inspect::ObjectState,
    location::{LocationError, ObjectLocation},
};
use crate::{
    checkpoint::{
        binding::Binding,
        error::StoreError,
        kept::{DEFAULT_RETAINED, Item},
        names::{COMMITTABLE, attempt_name, committable_name},
        owner::Owner,
        state::Checkpoint,
        store::{CheckpointStore, JobStore, StateStore, StorePoint},
    },
    net::{Background, Clock},
    proto::committable::Committable,
};

/// Settings of an [`ObjectCheckpointStore`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ObjectStoreConfig {
    /// Everything lies below this prefix. Jobs must not share one.
    pub prefix: String,
    /// What messages call the bucket, such as `s3://bucket`: then what they name is a URL, which the program takes.
    /// Default: nothing, and the names of objects stand alone.
    pub bucket: Option<Arc<str>>,
    /// What the state must belong to. Default: anything.
    pub binding: Binding,
    /// `state.checkpoints.num-retained`: how many checkpoints are kept. Default 2.
    pub num_retained: NonZeroUsize,
    /// How long an owner may be silent before another one takes over. Default 10 s. It should be longer than any pause
    /// of the process and any time in which the store does not answer; a job that is taken over in error stops, and
    /// loses nothing. Where owner and challenger differ, the longer one counts.
    pub lease_duration: Duration,
    /// How this owner calls itself, for messages. Default: the number of the process.
    pub holder: Arc<str>,
    /// The clock that leases are measured with.
    pub clock: Clock,
}

impl ObjectStoreConfig {
    /// Defaults for everything but the prefix.
    #[must_use]
    pub fn new(prefix: impl Into<String>) -> Self {
        Self {
            prefix: prefix.into(),
            bucket: None,
            binding: Binding::default(),
            num_retained: DEFAULT_RETAINED,
            lease_duration: Duration::from_secs(10),
            holder: Owner::this_process(),
            clock: Clock::start(),
        }
    }
}

/// The store. It works with every [`ObjectStore`] that can create an object unless it exists (`PutMode::Create`), which
/// is tried out when it is opened, and whose listings show what was created before. For local files, `LocalFileSystem::with_fsync(true)` makes them
/// durable; [`DirectoryStore`](crate::checkpoint::DirectoryStore) is better at it.
///
/// ```
/// # async fn example() -> Result<(), kafka_2pc::checkpoint::StoreError> {
/// use std::sync::Arc;
///
/// use kafka_2pc::checkpoint::{
///     CheckpointStore, ObjectCheckpointStore, ObjectStoreConfig, object_store::memory::InMemory,
/// };
///
/// let bucket = Arc::new(InMemory::new());
/// let mut store = ObjectCheckpointStore::open(bucket, ObjectStoreConfig::new("jobs/orders")).await?;
/// assert!(store.load().await?.is_none());
/// store.close().await
/// # }
/// ```
///
/// Dropping it is like a crash: the next owner waits for `lease_duration`. [`close`](CheckpointStore::close) frees the
/// state at once.
#[derive(Debug)]
pub struct ObjectCheckpointStore {
    bucket: Bucket,
    binding: Binding,
    owner: Owner,
    lease: Arc<Lease>,
    states: ObjectStates,
    _renewal: Background<()>,
}

impl ObjectCheckpointStore {
    /// Takes the state over, if nobody owns it or its owner gives no sign of life for `lease_duration`, and removes what
    /// a crash left half done. Must be called within a tokio runtime, which the lease is renewed in.
    ///
    /// # Errors
    /// [`StoreError::Locked`] while its owner is alive; [`StoreError::NoConditionalPut`] for a store that could not keep
    /// two owners apart; what [`load`](CheckpointStore::load) returns for state that cannot be used.
    ///
    /// # Cancel safety
    /// Cancel safe; the state may have been taken over, and the next owner has to wait.
    pub async fn open(store: Arc<dyn ObjectStore>, config: ObjectStoreConfig) -> Result<Self, StoreError> {
        let ObjectStoreConfig { prefix, bucket, binding, num_retained, lease_duration, holder, clock } =
            config;
        let bucket = Bucket::new(store, &prefix, bucket);
        probe::conditional_put(&bucket).await?;
        let heads = Heads::new(bucket.clone());
        let former = match stock::usable(&bucket, &binding, &heads).await? {
            Some(found) => Some(wait_for(&heads, (clock, lease_duration), found).await?),
            None => None,
        };
        let (number, epoch, kept) = match former {
            Some(Numbered { number, head }) => (number + 1, head.owner.epoch + 1, head.kept),
            None => (1, 1, Vec::new()),
        };
        let owner = Owner { epoch, holder };
        let lease_ms = u64::try_from(lease_duration.as_millis()).unwrap_or(u64::MAX);
        let head = Head { owner: owner.clone(), nonce: Clock::seed(), lease_ms, free: false, kept };
        let at = Numbered { number, head };
        if let Advanced::Found(found) = heads.advance(&at).await? {
            return Err(heads.locked(&found.head));
        }
        let mut kept = stock::take(&bucket, &binding, &at.head).await?;
        kept.retain(num_retained);
        let lease = Arc::new(Lease::new(heads, bucket.root(), at));
        let renewal = Background::start(Arc::clone(&lease).renew(clock, lease_duration));
        let states = ObjectStates::new(bucket.clone(), Arc::clone(&lease), epoch, kept);
        let store = Self { bucket, binding, owner, lease, states, _renewal: renewal };
        store.prune().await;
        Ok(store)
    }

    /// The number that tells this owner from those before: it stands in every checkpoint that this one writes.
    #[must_use]
    pub fn owner_epoch(&self) -> u64 {
        self.owner.epoch
    }

    async fn newest(&mut self) -> Result<Option<Checkpoint>, StoreError> {
        let names = self.lease.kept().await?;
        if self.states.kept().names_kept() != names {
            // An attempt whose answer was lost has been done.
            stock::correct(&self.bucket, &self.states, &names).await?;
        }
        stock::newest(&self.bucket, &self.binding, &names).await
    }

    async fn write_checkpoint(
        &mut self,
        checkpoint: &Checkpoint,
        observer: &mut (dyn FnMut(StorePoint) + Send),
    ) -> Result<(), StoreError> {
        self.binding.check(checkpoint)?;
        self.lease.check()?;
        self.states.kept().check(checkpoint)?;
        let new: Vec<_> = {
            let kept = self.states.kept();
            let all = checkpoint.committables.iter().map(|listed| &listed.committable);
            all.filter(|committable| !kept.lists(&committable_name(committable))).collect()
        };
        try_join_all(new.into_iter().map(|committable| self.keep_committable(committable))).await?;
        let name = attempt_name(checkpoint.id, self.owner.epoch, self.states.next_number());
        let name: Arc<str> = name.into();
        let bytes = checkpoint.to_bytes_of(self.owner.epoch);
        self.bucket.put(Folder::Checkpoints, &name, bytes.into()).await?;
        observer(StorePoint::Half);
        let kept = self.states.kept().names_with(&name);
        self.lease.complete(kept).await?;
        self.states.kept().complete(name, checkpoint);
        observer(StorePoint::Durable);
        self.prune().await;
        Ok(())
    }

    async fn keep_committable(&self, committable: &Committable) -> Result<(), StoreError> {
        let name = committable_name(committable);
        self.bucket.put(Folder::Committables, &name, committable.to_bytes().into()).await
    }

    async fn unlisted_committables(&self) -> Result<Vec<Committable>, StoreError> {
        let mut unlisted = Vec::new();
        for name in self.bucket.names(Folder::Committables).await? {
            if !name.ends_with(COMMITTABLE) || self.states.kept().lists(&name) {
                continue;
            }
            let Some(bytes) = self.bucket.read(Folder::Committables, &name).await? else { continue };
            let path = self.bucket.path(Folder::Committables, &name);
            let read = Committable::from_bytes(&bytes);
            unlisted.push(read.map_err(|cause| StoreError::unreadable(path, cause, None))?);
        }
        Ok(unlisted)
    }

    /// Removes what may go, one kind after the other. The checkpoint is kept whatever becomes of that; the next one
    /// tries again.
    async fn prune(&self) {
        for kind in [Folder::Committables, Folder::Checkpoints, Folder::States] {
            let items = self.states.kept().removable();
            let of_kind =
                items.iter().map(|item| (item, place(item))).filter(|(_, (folder, _))| *folder == kind);
            let removals = of_kind
                .map(|(item, (folder, name))| async move { (item, self.bucket.remove(folder, name).await) });
            for (item, removed) in join_all(removals).await {
                match removed {
                    Ok(()) => drop(self.states.kept().gone(item)),
                    Err(error) => tracing::debug!(%error, "to be removed after the next checkpoint"),
                }
            }
        }
    }
}

/// Where a thing lies.
fn place(item: &Item) -> (Folder, &str) {
    match item {
        Item::Committable(name) => (Folder::Committables, name),
        Item::Checkpoint(name) => (Folder::Checkpoints, name),
        Item::State(name) => (Folder::States, name),
    }
}

impl CheckpointStore for ObjectCheckpointStore {
    fn load(&mut self) -> BoxFuture<'_, Result<Option<Checkpoint>, StoreError>> {
        self.newest().boxed()
    }

    /// [`StorePoint::Half`]: the checkpoint's object is there, and no head names it.
    fn write<'a>(
        &'a mut self,
        checkpoint: &'a Checkpoint,
        observer: &'a mut (dyn FnMut(StorePoint) + Send),
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.write_checkpoint(checkpoint, observer).boxed()
    }

    fn recovered(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            for unlisted in self.unlisted_committables().await? {
                self.forget(&unlisted).await?;
            }
            Ok(())
        }
        .boxed()
    }

    fn keep<'a>(
        &'a mut self,
        committable: &'a Committable,
    ) -> BoxFuture<'a, Result<Option<PathBuf>, StoreError>> {
        async move { self.keep_committable(committable).await.map(|()| self.place(committable)) }.boxed()
    }

    /// Its URL, if the bucket has a name.
    fn place(&self, committable: &Committable) -> Option<PathBuf> {
        let name = committable_name(committable);
        self.bucket.is_named().then(|| self.bucket.path(Folder::Committables, &name))
    }

    fn states(&self) -> Arc<dyn StateStore> {
        Arc::new(self.states.clone())
    }

    fn close(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.lease.release().boxed()
    }
}

impl JobStore for ObjectCheckpointStore {
    fn unlisted(&mut self) -> BoxFuture<'_, Result<Vec<Committable>, StoreError>> {
        self.unlisted_committables().boxed()
    }

    fn forget<'a>(&'a mut self, committable: &'a Committable) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            self.lease.check()?;
            self.bucket.remove(Folder::Committables, &committable_name(committable)).await
        }
        .boxed()
    }
}

#[cfg(test)]
#[path = "faulty_tests.rs"]
mod faulty;
#[cfg(test)]
#[path = "object_tests.rs"]
mod tests;

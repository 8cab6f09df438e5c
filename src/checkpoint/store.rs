//! What every store of checkpoints promises.

use std::{path::PathBuf, sync::Arc};

use bytes::Bytes;
use futures::{FutureExt, future::BoxFuture};

use super::{error::StoreError, handle::StateHandle, state::Checkpoint};
use crate::proto::committable::Committable;

/// A place for the checkpoints of one job.
///
/// A store holds one owner at a time, and never a checkpoint that is half written: whenever the process dies,
/// [`load`](Self::load) finds either the checkpoint before or the one that was being written, whole.
pub trait CheckpointStore: Send {
    /// The newest checkpoint, if there is one.
    ///
    /// # Errors
    /// [`StoreError`]; above all damage, which is never passed over for an older checkpoint.
    ///
    /// # Cancel safety
    /// Cancel safe.
    fn load(&mut self) -> BoxFuture<'_, Result<Option<Checkpoint>, StoreError>>;

    /// Makes a checkpoint durable. When it is done, a power loss does not undo it. `observer` sees the points that
    /// it passes.
    ///
    /// # Errors
    /// [`StoreError`]. The checkpoint before is then still the newest, except after
    /// [`StoreError::NotSynced`] and [`StoreError::Uncertain`], when either may be. [`StoreError::Fenced`]: another owner has taken over, and the
    /// job must stop.
    ///
    /// # Cancel safety
    /// Dropping the future is like a crash: either checkpoint may be the newest.
    fn write<'a>(
        &'a mut self,
        checkpoint: &'a Checkpoint,
        observer: &'a mut (dyn FnMut(StorePoint) + Send),
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Recovery is done: what the newest checkpoint does not list is aborted. A store that keeps prepared transactions
    /// one by one forgets those.
    ///
    /// # Errors
    /// [`StoreError`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    fn recovered(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        async { Ok(()) }.boxed()
    }

    /// Keeps a prepared transaction by itself, from where it can be committed by hand; where it lies, if others can find it
    /// there ([`place`](Self::place)). One that a durable checkpoint lists is kept already. A store that keeps none does
    /// nothing.
    ///
    /// # Errors
    /// [`StoreError`].
    ///
    /// # Cancel safety
    /// Cancel safe; it may be kept all the same.
    fn keep<'a>(
        &'a mut self,
        committable: &'a Committable,
    ) -> BoxFuture<'a, Result<Option<PathBuf>, StoreError>> {
        _ = committable;
        async { Ok(None) }.boxed()
    }

    /// Where a prepared transaction lies that is kept by itself, or would lie, if others can find it there: the path of its
    /// file, or its URL. `None` for a store that keeps none, or does not tell.
    fn place(&self, committable: &Committable) -> Option<PathBuf> {
        _ = committable;
        None
    }

    /// Where large state goes, usable from many subtasks while checkpoints are written.
    fn states(&self) -> Arc<dyn StateStore>;

    /// Gives the state up, so that the next owner need not wait. Nothing can be written after it. Where the operating
    /// system frees the state when the store is dropped, this does nothing.
    ///
    /// # Errors
    /// [`StoreError`]; the next owner has to wait then.
    ///
    /// # Cancel safety
    /// Cancel safe; it may be given up all the same.
    fn close(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        async { Ok(()) }.boxed()
    }
}

/// A place for the state of subtasks, beside the checkpoints that name it.
///
/// A subtask puts its state first, and hands the handle to the checkpoint: when a checkpoint is durable, so is every
/// state that it names.
pub trait StateStore: Send + Sync {
    /// Makes `bytes` durable. `name` is for people, and need not be unique: the store adds what makes it so. State of
    /// at most [`INLINE_STATE_BYTES`](super::INLINE_STATE_BYTES) stays in the handle, and so in the checkpoint.
    ///
    /// # Errors
    /// [`StoreError`]; nothing was kept then.
    ///
    /// # Cancel safety
    /// Cancel safe: what was kept without a handle is removed later.
    fn put(&self, name: &str, bytes: Bytes) -> BoxFuture<'_, Result<StateHandle, StoreError>>;

    /// The bytes behind a handle, after a look at their length and checksum.
    ///
    /// # Errors
    /// [`StoreError`]; above all [`StoreError::BadState`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    fn get<'a>(&'a self, handle: &'a StateHandle) -> BoxFuture<'a, Result<Bytes, StoreError>>;

    /// Removes state that was put for a checkpoint which was declined. State that a durable checkpoint names stays.
    /// What is not discarded is removed when the store is opened the next time.
    ///
    /// # Errors
    /// [`StoreError`]; it is tried again later.
    ///
    /// # Cancel safety
    /// Cancel safe.
    fn discard<'a>(&'a self, handle: &'a StateHandle) -> BoxFuture<'a, Result<(), StoreError>> {
        _ = handle;
        async { Ok(()) }.boxed()
    }
}

/// A store whose prepared transactions, which it keeps one by one, can be looked at and forgotten.
pub trait JobStore: CheckpointStore {
    /// The committables that were kept and that the newest checkpoint does not list.
    ///
    /// # Errors
    /// [`StoreError`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    fn unlisted(&mut self) -> BoxFuture<'_, Result<Vec<Committable>, StoreError>>;

    /// Forgets a committable that is decided or aborted.
    ///
    /// # Errors
    /// [`StoreError`].
    ///
    /// # Cancel safety
    /// Cancel safe; it may be forgotten all the same.
    fn forget<'a>(&'a mut self, committable: &'a Committable) -> BoxFuture<'a, Result<(), StoreError>>;
}

/// A point that the writing of a checkpoint passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StorePoint {
    /// Half of the checkpoint's bytes are written, under a temporary name.
    Half,
    /// The checkpoint is durable.
    Durable,
}

impl StorePoint {
    /// Its name for scripts that crash a job on purpose: `store-half`, `durable`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Half => "store-half",
            Self::Durable => "durable",
        }
    }
}

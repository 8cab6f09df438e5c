//! What a handle that takes records and the task that sends them share.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use tokio::sync::{Notify, futures::Notified, watch};

use super::error::SendError;
use crate::proto::cause::{Cause, CauseKind};

/// The first failure, and the memory of batches that are on their way.
#[derive(Debug, Default)]
pub(super) struct Link {
    failed: AtomicBool,
    cause: Mutex<Option<Cause>>,
    /// Bytes of closed batches that are not acknowledged.
    unacked: AtomicUsize,
    freed: Notify,
}

/// What is known of a batch; `None` while it is under way.
pub(super) type BatchState = Option<BatchFate>;

/// What became of a batch.
#[derive(Debug, Clone)]
pub(super) enum BatchFate {
    /// It is stored, at this offset if that was told; or it is not.
    Known(Result<Option<i64>, Cause>),
    /// It went on in parts, which begin at these records of it.
    Split(Vec<(i32, watch::Receiver<BatchState>)>),
}

/// Counts as a batch of its partition that waits for its turn, until it leaves for the first time.
#[derive(Debug)]
pub(super) struct Waiting(Arc<AtomicUsize>);

impl Waiting {
    pub(super) fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The fate of one record. Await it after a flush, or while writing more.
#[derive(Debug, Clone)]
pub struct Delivery {
    state: watch::Receiver<BatchState>,
    index: i32,
}

impl Link {
    /// Nothing goes on after this. The first cause is kept.
    pub(super) fn fail(&self, cause: Cause) {
        let mut slot = self.cause.lock().unwrap_or_else(PoisonError::into_inner);
        slot.get_or_insert(cause);
        self.failed.store(true, Ordering::Release);
        self.freed.notify_waiters();
    }

    /// Why nothing goes on.
    pub(super) fn cause(&self) -> Cause {
        let cause = self.cause.lock().unwrap_or_else(PoisonError::into_inner).clone();
        cause.unwrap_or_else(ended)
    }

    /// Whether records can be taken.
    pub(super) fn check(&self) -> Result<(), SendError> {
        if self.failed.load(Ordering::Relaxed) {
            return Err(SendError::Failed(self.cause()));
        }
        Ok(())
    }

    /// Bytes of closed batches that are not acknowledged.
    pub(super) fn unacked(&self) -> usize {
        self.unacked.load(Ordering::Acquire)
    }

    /// A batch of so many bytes was closed.
    pub(super) fn hold(&self, bytes: usize) {
        self.unacked.fetch_add(bytes, Ordering::AcqRel);
    }

    /// A batch of so many bytes was stored, or given up.
    pub(super) fn free(&self, bytes: usize) {
        self.unacked.fetch_sub(bytes, Ordering::AcqRel);
        self.freed.notify_waiters();
    }

    /// Whoever waits for memory looks again.
    pub(super) fn stir(&self) {
        self.freed.notify_waiters();
    }

    /// Done when memory became free, or everything failed, after this was called.
    pub(super) fn listen(&self) -> Notified<'_> {
        self.freed.notified()
    }

    /// The same, after it was first polled.
    pub(super) async fn freed(self: Arc<Self>) {
        self.listen().await;
    }
}

impl Delivery {
    pub(super) fn new(state: watch::Receiver<BatchState>, index: i32) -> Self {
        Self { state, index }
    }

    /// Waits for the record to be stored. The offset is `None` if the broker recognised a retry without telling
    /// where it is.
    ///
    /// # Errors
    /// The cause if it will never be stored. From a [`Producer`](super::Producer) it may be one whose
    /// [`outcome_unknown`](Cause::outcome_unknown) is true: then the record may be stored.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn stored(mut self) -> Result<Option<i64>, Cause> {
        loop {
            let fate = self.state.wait_for(Option::is_some).await.ok().and_then(|s| s.clone());
            let parts = match fate {
                Some(BatchFate::Known(result)) => {
                    return result.map(|base| base.map(|base| base + i64::from(self.index)));
                }
                Some(BatchFate::Split(parts)) => parts,
                None => return Err(gone()),
            };
            let part = parts.into_iter().rev().find(|(first, _)| *first <= self.index);
            let (first, state) = part.ok_or_else(gone)?;
            (self.index, self.state) = (self.index - first, state);
        }
    }
}

/// What is left of a task that gave no cause.
pub(super) fn ended() -> Cause {
    Cause::new(CauseKind::Dropped, "the writer's task ended")
}

fn gone() -> Cause {
    Cause::new(CauseKind::Dropped, "nobody sends the record any more")
}

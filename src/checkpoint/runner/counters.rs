//! What the subtasks of a run tell while it goes on, beside their reports.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use super::summary::LostTransaction;
use crate::proto::settle::CommittedButHanging;

/// It is told at once: a run that ends early tells it as well.
#[derive(Debug, Default)]
pub(super) struct Counters {
    hanging: Mutex<Vec<CommittedButHanging>>,
    lost: Mutex<Vec<LostTransaction>>,
    changed: AtomicBool,
}

impl Counters {
    pub(super) fn hanging(&self, found: CommittedButHanging) {
        let mut hanging = lock(&self.hanging);
        if !hanging.contains(&found) {
            hanging.push(found);
        }
    }

    pub(super) fn lost(&self, lost: LostTransaction) {
        lock(&self.lost).push(lost);
    }

    pub(super) fn take_hanging(&self) -> Vec<CommittedButHanging> {
        std::mem::take(&mut *lock(&self.hanging))
    }

    pub(super) fn take_lost(&self) -> Vec<LostTransaction> {
        std::mem::take(&mut *lock(&self.lost))
    }

    /// The next checkpoint will hold something else than the last one.
    pub(super) fn changed(&self) {
        self.changed.store(true, Ordering::Release);
    }

    /// Whether it will; what comes from now on belongs to the one behind.
    pub(super) fn take_changed(&self) -> bool {
        self.changed.swap(false, Ordering::AcqRel)
    }

    pub(super) fn is_changed(&self) -> bool {
        self.changed.load(Ordering::Acquire)
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

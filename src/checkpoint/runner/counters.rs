//! What a run counts while it goes on.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use crate::{checkpoint::pipeline::LostTransaction, proto::settle::CommittedButHanging, record::Record};

#[derive(Debug, Default)]
pub(super) struct Counters {
    records: AtomicU64,
    bytes: AtomicU64,
    hanging: Mutex<Vec<CommittedButHanging>>,
    lost: Mutex<Vec<LostTransaction>>,
}

impl Counters {
    pub(super) fn written(&self, record: &Record) {
        let length = |part: &Option<bytes::Bytes>| part.as_ref().map_or(0, bytes::Bytes::len);
        let bytes = length(&record.key) + length(&record.value);
        self.records.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn records(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn hanging(&self, found: &[CommittedButHanging]) {
        self.hanging.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(found);
    }

    pub(super) fn lost(&self, found: &[LostTransaction]) {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(found);
    }

    pub(super) fn take_lost(&self) -> Vec<LostTransaction> {
        std::mem::take(&mut *self.lost.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn take_hanging(&self) -> Vec<CommittedButHanging> {
        std::mem::take(&mut *self.hanging.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

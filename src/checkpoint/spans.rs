//! Spans of the log: one of each checkpoint, from its trigger until what it lists is settled, and in it those of its steps.
//!
//! ```text
//! checkpoint ── prepare (each sink) ── store ── commit, settle (each transaction)
//! ```
//! Each has the job and the checkpoint as fields. A step is there at every level at which it may say something.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use tracing::{Span, info_span, warn_span};

use super::runner::TaskName;

/// The checkpoints of a run that are under way. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct Spans {
    job: Arc<str>,
    open: Arc<Mutex<BTreeMap<u64, Span>>>,
}

impl Spans {
    /// None yet.
    pub(super) fn new(job: Arc<str>) -> Self {
        Self { job, open: Arc::default() }
    }

    /// It is triggered.
    pub(super) fn begin(&self, checkpoint: u64) {
        let span = info_span!(parent: None, "checkpoint", job = &*self.job, checkpoint);
        self.open.lock().unwrap_or_else(PoisonError::into_inner).insert(checkpoint, span);
    }

    /// Its span; none if it is not under way. It is open for as long as one of its steps or a clone is kept.
    pub(super) fn of(&self, checkpoint: u64) -> Span {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.get(&checkpoint).cloned().unwrap_or_else(Span::none)
    }

    /// It is stored, or given up: what is left of it keeps it open.
    pub(super) fn end(&self, checkpoint: u64) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&checkpoint);
    }

    /// The flush of a sink.
    pub(super) fn prepare(&self, checkpoint: u64, task: &TaskName) -> Span {
        warn_span!(parent: &self.of(checkpoint), "prepare", job = &*self.job, checkpoint, %task)
    }

    /// What makes it durable.
    pub(super) fn store(&self, checkpoint: u64) -> Span {
        warn_span!(parent: &self.of(checkpoint), "store", job = &*self.job, checkpoint)
    }

    /// The commit of what it lists; `span` is its own.
    pub(super) fn commit(&self, span: &Span, checkpoint: u64) -> Span {
        warn_span!(parent: span, "commit", job = &*self.job, checkpoint)
    }

    /// The look whether a commit is on every partition.
    pub(super) fn settle(&self, span: &Span, checkpoint: u64) -> Span {
        warn_span!(parent: span, "settle", job = &*self.job, checkpoint)
    }
}

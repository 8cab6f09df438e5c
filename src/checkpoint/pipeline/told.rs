//! What the job tells of its checkpoints, as a job of the runner tells it.

use std::sync::Arc;

use tracing::Span;

use super::{Job, PipelineError, SINK, SOURCE};
use crate::{
    checkpoint::{
        runner::{JobEvent, TaskName, UsageTeller},
        spans::Spans,
    },
    ids::{Moment, TransactionalId},
    net::Clock,
    proto::{cause::Cause, checkpoint::CheckpointKind, committable::Committable, resume::Outcome},
    sink::{RecoveryReport, SinkWriter},
};

/// Tells an observer.
pub(super) struct Told {
    clock: Clock,
    source: TaskName,
    sink: TaskName,
    /// Checkpoints whose commits are not visible yet, with the transaction.
    open: Vec<Open>,
    pub(super) spans: Spans,
    usage: Option<UsageTeller>,
}

struct Open {
    checkpoint: u64,
    id: TransactionalId,
    since: Moment,
    span: Span,
}

/// When a checkpoint came where, before it is known whether there will be one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Prepared {
    pub(super) began: Moment,
    pub(super) prepared: Moment,
}

impl Told {
    pub(super) fn new(clock: Clock, job: Arc<str>) -> Self {
        let task = |uid: &str| TaskName { uid: Arc::from(uid), index: 0 };
        Self {
            clock,
            source: task(SOURCE),
            sink: task(SINK),
            open: Vec::new(),
            spans: Spans::new(job),
            usage: None,
        }
    }

    /// A checkpoint was triggered and prepared. Reading stops for it, so that its barrier is everywhere at once.
    pub(super) fn prepared(
        &self,
        job: &Job,
        checkpoint: u64,
        at: Prepared,
        committable: Option<&Committable>,
    ) {
        let (source, sink) = (&self.source, &self.sink);
        let kind = CheckpointKind::Periodic;
        let transactional_id = committable.map(|c| &c.transactional_id);
        let tell = |at, event: JobEvent<'_>| job.observer.event(at, &event);
        tell(at.began, JobEvent::Triggered { checkpoint, kind });
        tell(at.began, JobEvent::Snapshot { checkpoint, task: source });
        tell(at.began, JobEvent::Snapshot { checkpoint, task: sink });
        tell(at.prepared, JobEvent::Prepared { checkpoint, task: sink, transactional_id });
        tell(at.prepared, JobEvent::Acknowledged { checkpoint, task: source });
        tell(at.prepared, JobEvent::Acknowledged { checkpoint, task: sink });
    }

    /// It is durable, and everybody knows.
    pub(super) fn durable(&self, job: &Job, checkpoint: u64) {
        let now = self.clock.now();
        self.spans.end(checkpoint);
        job.observer.event(now, &JobEvent::Stored { checkpoint });
        for task in [&self.source, &self.sink] {
            job.observer.event(now, &JobEvent::Notified { checkpoint, task });
        }
    }

    /// The span of its flush.
    pub(super) fn prepare(&self, checkpoint: u64) -> Span {
        self.spans.prepare(checkpoint, &self.sink)
    }

    /// Its commit begins, under this span.
    pub(super) fn committing(&mut self, checkpoint: u64, committable: &Committable, span: Span) -> Span {
        let (id, since) = (committable.transactional_id.clone(), self.clock.now());
        let commit = self.spans.commit(&span, checkpoint);
        self.open.push(Open { checkpoint, id, since, span });
        commit
    }

    /// The span of the look at a commit; what is not of this run is of the restored checkpoint.
    pub(super) fn settling(&self, id: &TransactionalId, restored: u64) -> Span {
        match self.open.iter().find(|open| open.id == *id) {
            Some(open) => self.spans.settle(&open.span, open.checkpoint),
            None => self.spans.settle(&Span::none(), restored),
        }
    }

    /// A commit is decided.
    pub(super) fn committed(&self, job: &Job, id: &TransactionalId, outcome: &Outcome) {
        let now = self.clock.now();
        for Open { checkpoint, id: transactional_id, since, .. } in self.open.iter().filter(|o| o.id == *id) {
            let (checkpoint, took) = (*checkpoint, now.since(*since));
            let task = &self.sink;
            let event = JobEvent::Committed { checkpoint, task, transactional_id, took, outcome };
            job.observer.event(now, &event);
        }
    }

    /// The sink is recovered.
    pub(super) fn recovered(&self, job: &Job, report: &RecoveryReport) {
        job.observer.event(self.clock.now(), &JobEvent::Recovered { report });
    }

    /// A commit failed.
    pub(super) fn not_committed(&self, job: &Job, id: &TransactionalId) {
        let event = JobEvent::NotCommitted { task: &self.sink, transactional_id: id };
        job.observer.event(self.clock.now(), &event);
    }

    /// The job goes on without it.
    pub(super) fn given_up(&self, job: &Job, transactional_id: &TransactionalId) {
        let event = JobEvent::GivenUp { task: &self.sink, transactional_id };
        job.observer.event(self.clock.now(), &event);
    }

    /// The loop begins: from now on it is told what the sink holds.
    pub(super) fn tick(&mut self, job: &Job, writer: &SinkWriter) {
        let told = || (job.observer.clone(), self.clock);
        self.usage.get_or_insert_with(|| UsageTeller::start(told(), self.sink.clone(), writer.meter()));
    }

    /// The run ends.
    pub(super) fn ended(&mut self, job: &Job, writer: &SinkWriter, error: Option<&PipelineError>) {
        if error.and_then(PipelineError::failure).is_some_and(Cause::is_taken) {
            job.observer.event(self.clock.now(), &JobEvent::Fenced { task: &self.sink });
        }
        self.tick(job, writer);
        if let Some(usage) = self.usage.take() {
            usage.end();
        }
    }

    /// A commit is on every partition.
    pub(super) fn settled(&mut self, job: &Job, id: &TransactionalId) {
        let now = self.clock.now();
        for Open { checkpoint, id: transactional_id, .. } in self.open.iter().filter(|o| o.id == *id) {
            let event = JobEvent::Visible { checkpoint: *checkpoint, task: &self.sink, transactional_id };
            job.observer.event(now, &event);
        }
        self.forget(id);
    }

    /// Nothing more will be known of it.
    pub(super) fn forget(&mut self, id: &TransactionalId) {
        self.open.retain(|open| open.id != *id);
    }
}

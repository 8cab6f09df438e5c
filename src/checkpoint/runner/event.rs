//! What happens in a job, for whoever draws timelines, counts, or logs.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use crate::{
    ids::{Moment, TransactionalId},
    net::{Background, Clock},
    proto::{
        checkpoint::{CheckpointKind, coordinator::AbortCause},
        resume::Outcome,
    },
    sink::{RecoveryReport, SinkMeter, SinkUsage},
};

/// A subtask: its operator, and its number among the operator's subtasks.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskName {
    /// The uid of the source, operator or sink.
    pub uid: Arc<str>,
    /// The number.
    pub index: u32,
}

impl fmt::Display for TaskName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.uid, self.index)
    }
}

/// What a subtask is in its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// It brings records.
    Source,
    /// It changes records.
    Operator,
    /// It writes records.
    Sink,
}

/// Something that happened. A checkpoint passes these in about this order. The one that a new state begins with has the
/// number 0, and is only triggered: nothing of the job is in it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum JobEvent<'a> {
    /// The coordinator triggered it.
    Triggered {
        /// The checkpoint.
        checkpoint: u64,
        /// Why.
        kind: CheckpointKind,
    },
    /// Its barrier came to a subtask, which makes its snapshot now.
    Snapshot {
        /// The checkpoint.
        checkpoint: u64,
        /// The subtask.
        task: &'a TaskName,
    },
    /// A sink has flushed: everything is acknowledged by the brokers.
    Prepared {
        /// The checkpoint.
        checkpoint: u64,
        /// The subtask.
        task: &'a TaskName,
        /// The transaction; `None` if there were no records.
        transactional_id: Option<&'a TransactionalId>,
    },
    /// A subtask acknowledged it.
    Acknowledged {
        /// The checkpoint.
        checkpoint: u64,
        /// The subtask.
        task: &'a TaskName,
    },
    /// It is durable.
    Stored {
        /// The checkpoint.
        checkpoint: u64,
    },
    /// A subtask is told that it is complete.
    Notified {
        /// The checkpoint.
        checkpoint: u64,
        /// The subtask.
        task: &'a TaskName,
    },
    /// The transaction coordinator has decided: committed.
    Committed {
        /// The checkpoint.
        checkpoint: u64,
        /// The subtask.
        task: &'a TaskName,
        /// The transaction.
        transactional_id: &'a TransactionalId,
        /// From the notification on.
        took: Duration,
        /// How it is known.
        outcome: &'a Outcome,
    },
    /// The commit has reached every partition: readers see the records.
    Visible {
        /// The checkpoint.
        checkpoint: u64,
        /// The subtask.
        task: &'a TaskName,
        /// The transaction.
        transactional_id: &'a TransactionalId,
    },
    /// It was given up.
    Aborted {
        /// The checkpoint.
        checkpoint: u64,
        /// Why.
        cause: &'a AbortCause,
    },
    /// The sink is recovered; the job begins, for the first time or again.
    Recovered {
        /// What was done.
        report: &'a RecoveryReport,
    },
    /// A commit failed, or could not be proven. The job ends, or gives it up.
    NotCommitted {
        /// The subtask.
        task: &'a TaskName,
        /// The transaction.
        transactional_id: &'a TransactionalId,
    },
    /// The job goes on without the records of a transaction, which are lost, or may be (`OnLost::Skip`). Those that
    /// recovery gave up are in its report.
    GivenUp {
        /// The subtask.
        task: &'a TaskName,
        /// The transaction.
        transactional_id: &'a TransactionalId,
    },
    /// A broker refused records of a sink's transaction, or its identity, since somebody else has ended it: a newer owner of its id,
    /// or its timeout. The sink ends; the job may go back to its last checkpoint.
    Fenced {
        /// The subtask.
        task: &'a TaskName,
    },
    /// What a sink holds: about once a second, and when it ends.
    Usage {
        /// The subtask.
        task: &'a TaskName,
        /// The numbers.
        usage: SinkUsage,
    },
}

type OnEvent = dyn Fn(Moment, &JobEvent<'_>) + Send + Sync;

/// Is told of every [`JobEvent`], in the thread where it happens: it must not wait.
#[derive(Clone)]
pub struct Observer(Arc<OnEvent>);

impl Observer {
    /// Calls `on_event`, with the moment by the clock of the job's client.
    pub fn new(on_event: impl Fn(Moment, &JobEvent<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(on_event))
    }

    /// Tells both, this one first.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self::new(move |at, event| {
            self.event(at, event);
            other.event(at, event);
        })
    }

    pub(in crate::checkpoint) fn event(&self, at: Moment, event: &JobEvent<'_>) {
        (self.0)(at, event);
    }
}

impl Default for Observer {
    /// Ignores everything.
    fn default() -> Self {
        Self::new(|_, _| {})
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}

/// Tells what a sink holds, and logs what comes near to its timeout, for as long as this is kept. It does so beside the sink's own
/// task, which may wait for a flush, a store or memory at the very moment at which somebody looks.
#[derive(Debug)]
pub(super) struct UsageTeller {
    told: Told,
    _ticking: Background<()>,
}

/// How far two reports of a sink's usage are apart.
const USAGE_EVERY: Duration = Duration::from_secs(1);

impl UsageTeller {
    /// Tells `observer` at once, and then again and again.
    pub(super) fn start((observer, clock): (Observer, Clock), task: TaskName, meter: SinkMeter) -> Self {
        let told = Told { observer, clock, task, meter, over: Arc::new(Mutex::new(false)) };
        let ticking = told.clone();
        let ticking = Background::start(async move {
            loop {
                ticking.tell();
                ticking.meter.log_deadlines();
                ticking.clock.sleep_until(Some(ticking.clock.now().after(USAGE_EVERY))).await;
            }
        });
        Self { told, _ticking: ticking }
    }

    /// Tells for the last time.
    pub(super) fn end(self) {
        self.told.tell();
    }
}

impl Drop for UsageTeller {
    fn drop(&mut self) {
        // A tick that is under way on another thread comes before this. None comes later, when another writer of the same
        // subtask begins to count anew.
        *self.told.over.lock().unwrap_or_else(PoisonError::into_inner) = true;
    }
}

#[derive(Debug, Clone)]
struct Told {
    observer: Observer,
    clock: Clock,
    task: TaskName,
    meter: SinkMeter,
    over: Arc<Mutex<bool>>,
}

impl Told {
    fn tell(&self) {
        let over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        if !*over {
            let usage = self.meter.usage();
            self.observer.event(self.clock.now(), &JobEvent::Usage { task: &self.task, usage });
        }
    }
}

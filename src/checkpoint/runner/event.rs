//! What happens in a job, for whoever draws timelines, counts, or logs.

use std::{fmt, sync::Arc, time::Duration};

use crate::{
    ids::{Moment, TransactionalId},
    proto::checkpoint::{CheckpointKind, coordinator::AbortCause},
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

/// Something that happened. A checkpoint passes these in about this order.
#[derive(Debug, Clone, PartialEq, Eq)]
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

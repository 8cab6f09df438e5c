//! Why a run ends early.

use std::ops::Range;

use super::{event::TaskName, graph::GraphError, operator::OperatorError, summary::gone_records};
use crate::{
    checkpoint::StoreError,
    client::{ClientError, ConsumerError, SendError, TopicError},
    ids::TopicPartition,
    proto::{
        cause::Cause,
        checkpoint::{
            Misuse,
            coordinator::{AbortCause, ConfigError},
        },
        committable::Committable,
        naming::IdPrefix,
        resume::CommitError,
        sealed::StateError,
    },
    sink::{Committed, PrepareCommitError, PrepareFailure, RecoverError, SinkConfigError, WriteError},
    source::SourceError,
};

/// Why a run ended early. What the last complete checkpoint holds is safe; run it again to go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The graph can't be run.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// The settings can't work.
    #[error(transparent)]
    Checkpoints(#[from] ConfigError),
    /// The sink's settings can't work.
    #[error(transparent)]
    Sink(#[from] SinkConfigError),
    /// The state can't be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A part of the state can't be read.
    #[error("the state of `{uid}`: {cause}")]
    State {
        /// Whose state.
        uid: String,
        /// What is wrong with it.
        cause: StateError,
    },
    /// The restored checkpoint has state that nothing in the graph takes: it would be lost.
    #[error(
        "the restored checkpoint has state of `{uid}`, which is not in the pipeline; give its successor this uid, or begin with new state"
    )]
    Orphaned {
        /// Whose state.
        uid: String,
    },
    /// The topic can't be used.
    #[error(transparent)]
    Topic(#[from] TopicError),
    /// The cluster does not answer.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// Another job of this process writes under the same prefix: each would abort the other's transactions. Nothing was
    /// touched.
    #[error(
        "another job of this process uses the transactional id prefix `{}`: give each job one of its own",
        prefix.as_str()
    )]
    PrefixInUse {
        /// The prefix.
        prefix: IdPrefix,
    },
    /// Recovery did not finish.
    #[error(transparent)]
    Recover(#[from] RecoverError),
    /// A subtask gave up.
    #[error(transparent)]
    Task(#[from] TaskError),
    /// The job was told to stop before its recovery was done. Transactions of the last complete checkpoint may not be
    /// committed yet: run it again.
    #[error(
        "stopped before the recovery was done: what the last complete checkpoint lists may not be committed; run it again"
    )]
    Stopped,
    /// Too many checkpoints failed, the last one because its store is full or fails.
    #[error("a checkpoint failed: not stored: {0}")]
    NotStored(#[source] StoreError),
    /// Too many checkpoints failed.
    #[error("a checkpoint failed: {0}")]
    Checkpoint(AbortCause),
}

/// Why a subtask gave up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TaskError {
    /// A source can't be read. If it stopped before a line that is no record
    /// ([`SourceError::BadLine`]), everything before that is committed.
    #[error("{task}: {error}")]
    Source {
        /// The subtask.
        task: TaskName,
        /// Why.
        error: SourceError,
    },
    /// An operator failed.
    #[error("{task}: {error}")]
    Operator {
        /// The subtask.
        task: TaskName,
        /// Why.
        error: OperatorError,
    },
    /// A record can't be written, or the transaction can only be aborted.
    #[error("{task}: {error}")]
    Write {
        /// The subtask.
        task: TaskName,
        /// The records of the open transaction, as numbers from 0 of all that the subtask took since the job began or went
        /// back; the record that it could not take has the next number.
        transaction: Range<u64>,
        /// Why.
        error: Box<WriteError>,
    },
    /// A transaction was not prepared.
    #[error("{task}: {error}")]
    Prepare {
        /// The subtask.
        task: TaskName,
        /// Its records, as numbers from 0 of all that the subtask took since the job began or went back.
        transaction: Range<u64>,
        /// Why.
        error: Box<PrepareCommitError>,
    },
    /// A committable of a complete checkpoint is not committed.
    #[error("not committed: {} ({}): {}", .0.committable.transactional_id, .0.committable.identity, .0.story())]
    NotCommitted(Box<Committed>),
    /// The topic was deleted while records of a complete checkpoint were on their way to its readers.
    #[error(
        "LOST: the topic was deleted between prepare and commit: {}",
        gone_records(committable, partitions)
    )]
    Gone {
        /// What was committed.
        committable: Box<Committable>,
        /// Where its records are gone.
        partitions: Vec<TopicPartition>,
    },
    /// The alignment was told what can't be; that is a bug.
    #[error("a barrier came that can't be ({0}); please report it")]
    Misuse(#[from] Misuse),
    /// A task panicked; that is a bug, perhaps in an operator.
    #[error("a task panicked")]
    Panicked,
}

impl RunError {
    /// What was not committed, by recovery or later.
    #[must_use]
    pub fn not_committed(&self) -> &[Committed] {
        match self {
            Self::Recover(RecoverError::NotCommitted(all)) => all,
            Self::Task(TaskError::NotCommitted(one)) => std::slice::from_ref(one),
            _ => &[],
        }
    }

    /// True when records of a complete checkpoint are proven to be lost.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Task(TaskError::Gone { .. }))
            || self.not_committed().iter().any(Committed::is_lost)
    }

    /// True when it can't be told whether records of a complete checkpoint are committed.
    #[must_use]
    pub fn is_undecidable(&self) -> bool {
        self.not_committed().iter().any(Committed::is_undecidable)
    }

    /// True when the same job, started again from its last checkpoint, may go through.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        let cause = match self {
            Self::Task(TaskError::Write { error, .. }) if matches!(**error, WriteError::Blocked(_)) => {
                // Recovery waits for the commits, as long as they may take.
                return true;
            }
            Self::Task(TaskError::Prepare { error, .. })
                if matches!(error.source, PrepareFailure::TooOld(_)) =>
            {
                // A checkpoint that comes in time is all that it needs.
                return true;
            }
            Self::Checkpoint(_) | Self::NotStored(_) => return true,
            Self::Store(error) => return error.is_transient(),
            Self::Task(TaskError::NotCommitted(one)) => return may_pass(std::slice::from_ref(one)),
            Self::Recover(RecoverError::NotCommitted(all)) => return may_pass(all),
            Self::Recover(RecoverError::Leftovers(_)) => return true,
            Self::Task(error) if error.failure().is_some() => error.failure(),
            _ => return self.no_answer(),
        };
        cause.is_some_and(|cause| cause.kind.is_transient())
    }

    /// True when no broker answered.
    fn no_answer(&self) -> bool {
        let error = match self {
            Self::Recover(RecoverError::Client(error))
            | Self::Client(error)
            | Self::Topic(TopicError::Client(error)) => error,
            Self::Task(TaskError::Source {
                error:
                    SourceError::Client(error)
                    | SourceError::Topic(TopicError::Client(error))
                    | SourceError::Consumer(ConsumerError::Client(error)),
                ..
            }) => error,
            _ => return false,
        };
        matches!(error, ClientError::Unreachable(_) | ClientError::Call(_))
    }
}

/// True when nothing is decided against any of these: a commit may be tried again.
fn may_pass(all: &[Committed]) -> bool {
    all.iter().all(|one| one.result.as_ref().is_err_and(CommitError::is_retriable))
}

impl TaskError {
    /// Why the open transaction failed, if it did.
    fn failure(&self) -> Option<&Cause> {
        match self {
            Self::Write { error, .. } => match &**error {
                WriteError::Send(SendError::Failed(cause)) => Some(cause),
                _ => None,
            },
            Self::Prepare { error, .. } => match &error.source {
                PrepareFailure::Failed(failed) => Some(&failed.cause),
                PrepareFailure::TooOld(_) => None,
            },
            _ => None,
        }
    }

    /// True when a broker says that somebody else has ended the transaction.
    pub(super) fn is_taken(&self) -> bool {
        self.failure().is_some_and(Cause::is_taken)
    }
}

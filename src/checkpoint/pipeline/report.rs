//! What a job tells when it is over.

use std::{ops::RangeInclusive, time::Duration};

use super::{
    HangingTransaction, LostTransaction, OpenCommittable,
    ledger::Ledger,
    lines::{RecordLines, RefusedLines},
};
use crate::{
    checkpoint::{
        StoreError,
        runner::{RunError, TaskError, gone_records},
    },
    client::{ClientError, SendError, TopicError},
    ids::TopicPartition,
    proto::{cause::Cause, checkpoint::coordinator::AbortCause, committable::Committable},
    sink::{Committed, PrepareCommitError, PrepareFailure, RecoverError, SinkConfigError, WriteError},
    source::{InputError, SourceError},
};

/// What a job did.
#[derive(Debug, Default)]
pub struct Summary {
    /// Records that this run wrote; after an error, those of complete checkpoints.
    pub records: u64,
    /// Bytes of input that this run consumed.
    pub bytes: u64,
    /// Lines that were passed over; after an error, those before the last complete checkpoint.
    pub skipped: u64,
    /// Checkpoints that became complete.
    pub checkpoints: u64,
    /// Transactions of an earlier run that recovery committed.
    pub resumed: u64,
    /// Leftovers that recovery aborted.
    pub aborted: u64,
    /// Decided transactions whose marker is missing on a partition, now.
    pub hanging: Vec<HangingTransaction>,
    /// Transactions of complete checkpoints whose records are lost, or may be, and that were passed over.
    pub lost: Vec<LostTransaction>,
    /// True when the input was consumed to its end.
    pub finished: bool,
    /// Committables that were left open on purpose.
    pub open: Vec<OpenCommittable>,
    /// The first line that is no record, if the job stopped at one.
    pub bad_line: Option<(u64, String)>,
}

impl Summary {
    /// This run's summary and the next one's together.
    #[must_use]
    pub fn and(self, next: Self) -> Self {
        Self {
            records: self.records + next.records,
            bytes: self.bytes + next.bytes,
            skipped: self.skipped + next.skipped,
            checkpoints: self.checkpoints + next.checkpoints,
            resumed: self.resumed + next.resumed,
            aborted: self.aborted + next.aborted,
            lost: self.lost.into_iter().chain(next.lost).collect(),
            ..next
        }
    }
}

/// Why a job ended early. What the last complete checkpoint holds is safe; run it again to go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PipelineError {
    /// The input can't be used.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The state can't be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The topic can't be used.
    #[error(transparent)]
    Topic(#[from] TopicError),
    /// The cluster does not answer.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The settings can't work.
    #[error(transparent)]
    Config(#[from] SinkConfigError),
    /// Recovery did not finish.
    #[error(transparent)]
    Recover(#[from] RecoverError),
    /// A line was parsed, and its record can't be written.
    #[error("line {line}: {error}")]
    Record {
        /// The line.
        line: u64,
        /// What is wrong with it.
        error: WriteError,
    },
    /// A broker refused records for what they are. Their transaction is aborted; the position before it is kept.
    #[error(
        "{lines}: the broker refused the record: {cause}. Nothing of its transaction, lines {} to {}, is in the topic",
        transaction.start(), transaction.end()
    )]
    Refused {
        /// Where the records came from.
        lines: RefusedLines,
        /// The first and the last line of the transaction.
        transaction: RangeInclusive<u64>,
        /// What the broker said.
        cause: Box<Cause>,
    },
    /// The transaction can only be aborted.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A checkpoint was not prepared.
    #[error(transparent)]
    Prepare(#[from] PrepareCommitError),
    /// A checkpoint was not prepared in time. Its transaction is aborted; the position before it is kept.
    #[error(
        "checkpoint {checkpoint} was not prepared within {timeout:?} (execution.checkpointing.timeout): brokers have not \
         acknowledged all of its records. Look at their produce latency and under-replicated partitions; a shorter \
         interval makes a checkpoint smaller"
    )]
    CheckpointTimeout {
        /// The checkpoint.
        checkpoint: u64,
        /// How long it may take.
        timeout: Duration,
    },
    /// Background work panicked; that is a bug.
    #[error("a background task panicked; please report it")]
    Panicked,
    /// Committables of a complete checkpoint are not committed.
    #[error("not committed: {}", stories(.0))]
    NotCommitted(Vec<Committed>),
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
    /// Something else ended the run.
    #[error(transparent)]
    Run(RunError),
}

impl PipelineError {
    /// In this job's words, and with its lines. `timeout` is that of checkpoints.
    pub(super) fn of(error: RunError, ledger: &Ledger, timeout: Duration) -> Self {
        let refused = |cause: &Cause, lines: &RecordLines| {
            let (records, transaction) = (cause.records.as_ref()?, lines.all()?);
            let (lines, cause) = (lines.refused(records), Box::new(cause.clone()));
            Some(Self::Refused { lines, transaction, cause })
        };
        match error {
            RunError::Task(error @ (TaskError::Write { .. } | TaskError::Prepare { .. })) => {
                let line = ledger.line_behind(&error);
                let (error, lines) = match error {
                    TaskError::Write { transaction, error, .. } => {
                        ((*error).into(), ledger.lines_of(&transaction))
                    }
                    TaskError::Prepare { transaction, error, .. } => {
                        (Self::Prepare(*error), ledger.lines_of(&transaction))
                    }
                    other => (Self::Run(other.into()), RecordLines::default()),
                };
                match (error.failure().and_then(|cause| refused(cause, &lines)), error) {
                    (Some(refused), _) => refused,
                    (None, Self::Write(error @ WriteError::Send(SendError::Seal(_)))) => {
                        Self::Record { line, error }
                    }
                    (None, error) => error,
                }
            }
            RunError::Task(TaskError::Source { error: SourceError::Input { error, .. }, .. }) => error.into(),
            RunError::Task(TaskError::NotCommitted(one)) => Self::NotCommitted(vec![*one]),
            RunError::Task(TaskError::Gone { committable, partitions }) => {
                Self::Gone { committable, partitions }
            }
            RunError::Task(TaskError::Panicked) => Self::Panicked,
            RunError::Checkpoint(AbortCause::Timeout { .. }) => {
                Self::CheckpointTimeout { checkpoint: ledger.given_up(), timeout }
            }
            RunError::Store(error) | RunError::NotStored(error) => error.into(),
            RunError::Topic(error) => error.into(),
            RunError::Client(error) => error.into(),
            RunError::Sink(error) => error.into(),
            RunError::Recover(error) => error.into(),
            error => Self::Run(error),
        }
    }

    /// What was not committed, by recovery or later.
    #[must_use]
    pub fn not_committed(&self) -> &[Committed] {
        match self {
            Self::NotCommitted(all) | Self::Recover(RecoverError::NotCommitted(all)) => all,
            _ => &[],
        }
    }

    /// True when records of a complete checkpoint are proven to be lost.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Gone { .. }) || self.not_committed().iter().any(Committed::is_lost)
    }

    /// True when it can't be told whether records of a complete checkpoint are committed.
    #[must_use]
    pub fn is_undecidable(&self) -> bool {
        self.not_committed().iter().any(Committed::is_undecidable)
    }

    /// Why the open transaction failed, if it did.
    fn failure(&self) -> Option<&Cause> {
        match self {
            Self::Write(WriteError::Send(SendError::Failed(cause))) => Some(cause),
            Self::Prepare(PrepareCommitError { source: PrepareFailure::Failed(e), .. }) => Some(&e.cause),
            _ => None,
        }
    }

    /// True when the same job, started again from its last checkpoint, may go through.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        let cause = match self {
            // Recovery waits for the commits, as long as they may take.
            Self::Write(WriteError::Blocked(_)) | Self::CheckpointTimeout { .. } => return true,
            Self::Store(error) => return error.is_transient(),
            // A checkpoint that comes in time is all that it needs.
            Self::Prepare(PrepareCommitError { source: PrepareFailure::TooOld(_), .. }) => return true,
            _ => self.failure(),
        };
        cause.is_some_and(|cause| cause.kind.is_transient())
    }
}

fn stories(all: &[Committed]) -> String {
    let story = |c: &Committed| {
        let id = &c.committable.transactional_id;
        format!("{id} ({}): {}", c.committable.identity, c.story())
    };
    all.iter().map(story).collect::<Vec<_>>().join("; ")
}

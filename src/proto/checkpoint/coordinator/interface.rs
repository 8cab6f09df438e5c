//! What the coordinator is told, and what it asks for.

use std::time::Duration;

use crate::proto::checkpoint::CheckpointKind;

/// When checkpoints are taken, and how much trouble is put up with. The names in quotes are Flink's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoordinatorConfig {
    /// From one periodic checkpoint to the next (`execution.checkpointing.interval`). Default 1 s; [`Duration::MAX`]
    /// for none.
    pub interval: Duration,
    /// From the trigger to the last acknowledgement (`execution.checkpointing.timeout`). Default 10 min.
    pub timeout: Duration,
    /// From the end of a checkpoint, good or bad, to the next periodic one (`execution.checkpointing.min-pause`).
    /// Default none.
    pub min_pause: Duration,
    /// How many may be under way when a periodic one begins
    /// (`execution.checkpointing.max-concurrent-checkpoints`). Default 1.
    pub max_concurrent: usize,
    /// How many may fail in a row before the job must restart
    /// (`execution.checkpointing.tolerable-failed-checkpoints`). Default 0: the first failure restarts it.
    pub tolerable_failures: u32,
    /// From one notification to its repetition, while a subtask has not confirmed. Default 1 s.
    pub notify_retry: Duration,
}

impl Default for CoordinatorConfig {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(1),
            timeout: Duration::from_secs(600),
            min_pause: Duration::ZERO,
            max_concurrent: 1,
            tolerable_failures: 0,
            notify_retry: Duration::from_secs(1),
        }
    }
}

impl CoordinatorConfig {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let broken = [
            (self.interval.is_zero(), ConfigError::NoInterval),
            (self.timeout.is_zero(), ConfigError::NoTimeout),
            (self.max_concurrent == 0, ConfigError::NoConcurrency),
            (self.notify_retry.is_zero(), ConfigError::NoNotifyRetry),
        ];
        broken.into_iter().find(|(broken, _)| *broken).map_or(Ok(()), |(_, error)| Err(error))
    }
}

/// Why a coordinator cannot begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The interval is zero: checkpoints would be all that the job does.
    #[error("the checkpoint interval is zero")]
    NoInterval,
    /// The timeout is zero: every checkpoint would fail.
    #[error("the checkpoint timeout is zero")]
    NoTimeout,
    /// No checkpoint is allowed.
    #[error("the number of concurrent checkpoints is zero")]
    NoConcurrency,
    /// Notifications would be repeated without a pause.
    #[error("the pause between notifications is zero")]
    NoNotifyRetry,
    /// Nobody would acknowledge.
    #[error("the job has no subtasks")]
    NoSubtasks,
    /// A source is none of the subtasks.
    #[error("source {subtask} is not one of {subtasks} subtasks")]
    UnknownSource {
        /// The source.
        subtask: usize,
        /// How many subtasks there are.
        subtasks: usize,
    },
}

/// A command or a fact. Subtasks are numbered from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CoordinatorInput<A> {
    /// The deadline passed (or nothing): look at the clock.
    Tick,
    /// The same, when nothing has happened since the last checkpoint was triggered: a periodic one that is due is left out.
    Idle,
    /// By hand ([`CheckpointKind::Manual`]), or the job is to stop ([`CheckpointKind::Suspend`]); the other kinds
    /// are the coordinator's own, and asking for them is misuse.
    ///
    /// Like Flink's savepoints, these wait neither for the pause nor for the limit, but for a running store. Requests
    /// that wait become one, and a manual one also waits for the acknowledgements of the last manual one. Once the
    /// last checkpoint of the job is asked for, a manual request is answered by that one.
    Trigger(CheckpointKind),
    /// A subtask has made its snapshot. Repeated, late and unknown ones change nothing.
    Ack {
        /// The checkpoint.
        checkpoint: u64,
        /// Who acknowledges.
        subtask: usize,
        /// What goes into the checkpoint.
        state: A,
    },
    /// A subtask cannot make its snapshot. Late and unknown ones change nothing.
    Decline {
        /// The checkpoint.
        checkpoint: u64,
        /// Who declines.
        subtask: usize,
        /// Why, for people.
        cause: String,
    },
    /// The store made it durable.
    Stored {
        /// The checkpoint.
        checkpoint: u64,
    },
    /// It did not, or it is not known whether it did.
    StoreFailed {
        /// The checkpoint.
        checkpoint: u64,
        /// Why, for people.
        cause: String,
    },
    /// A subtask has acted on the notification; this counts for every earlier one. Repeated, late and unknown ones
    /// change nothing.
    Confirmed {
        /// The checkpoint.
        checkpoint: u64,
        /// Who confirms.
        subtask: usize,
    },
    /// A source came to its end. It must still take barriers. When every source of
    /// [`Coordinator::with_sources`](super::Coordinator::with_sources) has, a [`CheckpointKind::Final`] is triggered
    /// as soon as the limit allows it; the pause is over when nothing is left to do. Repeated ones change nothing; of
    /// a subtask that is no source it is misuse.
    Ended {
        /// The source.
        subtask: usize,
    },
}

/// An intent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CoordinatorEffect<A> {
    /// Send barriers into the sources.
    Trigger {
        /// The new checkpoint.
        checkpoint: u64,
        /// What its barriers say.
        kind: CheckpointKind,
    },
    /// Every acknowledgement is in: make it durable. In the order of checkpoints, one at a time; the next comes only
    /// after [`CoordinatorInput::Stored`] or [`CoordinatorInput::StoreFailed`]. There is no timeout for it.
    Store {
        /// The checkpoint.
        checkpoint: u64,
        /// Why it was taken.
        kind: CheckpointKind,
        /// What the subtasks handed over, by subtask.
        states: Vec<A>,
    },
    /// It is durable. This tells of every earlier one, too: what a sink has prepared up to here is to be committed.
    /// Repeated until it is confirmed, or until a newer one takes its place.
    Notify {
        /// The checkpoint.
        checkpoint: u64,
        /// Whom to tell.
        subtask: usize,
    },
    /// It failed, and takes no acknowledgements any more: subtasks drop what they hold for it alone. What a sink has
    /// prepared is not that; see the [module](crate::proto::checkpoint).
    Abort {
        /// The checkpoint.
        checkpoint: u64,
        /// Why.
        cause: AbortCause,
    },
    /// More failures in a row than tolerated: the job must restart. Nothing follows. A store that is running must end
    /// before somebody looks for the checkpoint to restart from.
    Fail(AbortCause),
    /// The Suspend or Final checkpoint is durable and confirmed by all: the job may end. Nothing follows.
    Finished {
        /// The checkpoint.
        checkpoint: u64,
        /// How the job ends.
        kind: CheckpointKind,
    },
}

/// Why a checkpoint failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AbortCause {
    /// Not every subtask acknowledged in time.
    #[error(
        "subtasks {missing:?} did not acknowledge within {after:?} (execution.checkpointing.timeout): slow operators and \
         full queues, or brokers that do not acknowledge the records of a sink. Find the part that takes the time \
         (`kafka-2pc timeline`)"
    )]
    Timeout {
        /// Who is missing.
        missing: Vec<usize>,
        /// The timeout.
        after: Duration,
    },
    /// A subtask could not make its snapshot.
    #[error("subtask {subtask} declined: {cause}")]
    Declined {
        /// Who.
        subtask: usize,
        /// Why, in its words.
        cause: String,
    },
    /// A newer one was complete first; this is not counted as a failure.
    #[error("checkpoint {by} was complete first")]
    Subsumed {
        /// The newer one.
        by: u64,
    },
    /// The store failed. The checkpoint may be durable all the same.
    #[error("not stored: {0}")]
    Store(String),
}

//! Why a writer did not do what it was asked for.

use crate::{
    client::{PrepareError, SendError},
    proto::{
        deadline::TooOld,
        pool::{Blocked, PoolExhausted},
    },
};

/// A record was not written.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// Every transactional id is in use: older checkpoints are not committed yet. Try again after a commit.
    #[error(transparent)]
    Exhausted(#[from] PoolExhausted),
    /// That has lasted for longer than `max.block.ms`.
    #[error(transparent)]
    Blocked(#[from] Blocked),
    /// The memory for records that are not acknowledged is full (`buffer.memory`); only [`SinkWriter::try_write`](super::SinkWriter::try_write)
    /// says so, `write` waits.
    #[error("the buffer is full")]
    Full,
    /// The record or the transaction is at fault.
    #[error(transparent)]
    Send(#[from] SendError),
}

impl WriteError {
    /// True when waiting for a commit helps.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        matches!(self, Self::Exhausted(_))
    }
}

/// A checkpoint was not prepared. The transaction is aborted in the background, and its records must be written
/// again.
#[derive(Debug, Clone, thiserror::Error)]
#[error("checkpoint {checkpoint}: {source}")]
pub struct PrepareCommitError {
    /// The checkpoint.
    pub checkpoint: u64,
    /// Why.
    #[source]
    pub source: PrepareFailure,
}

/// Why a checkpoint was not prepared.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum PrepareFailure {
    /// A record was not stored.
    #[error(transparent)]
    Failed(#[from] PrepareError),
    /// The broker aborts the transaction before anybody could commit it. Restarting the job helps, if its checkpoints
    /// come sooner then.
    #[error(transparent)]
    TooOld(#[from] TooOld),
}

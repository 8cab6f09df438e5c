//! Why an administrator's question has no answer.

use crate::{client::ClientError, proto::cause::Cause, wire::code::ErrorCode};

/// Why there is no answer, or nothing was done.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    /// A right is missing.
    #[error("{what}: access is denied")]
    Denied {
        /// What was asked for.
        what: String,
    },
    /// The brokers are too old for the question.
    #[error("{what}: the broker has no such request")]
    Unsupported {
        /// What was asked for.
        what: String,
    },
    /// A broker refused for good.
    #[error("{what}: {code}")]
    Refused {
        /// What was asked for.
        what: String,
        /// The broker's error code.
        code: ErrorCode,
    },
    /// Whoever knows did not answer in time (`max.block.ms`).
    #[error("{what}: {why}")]
    Unavailable {
        /// What was asked for.
        what: String,
        /// What stood in the way last.
        why: String,
    },
    /// The id could not be taken over.
    #[error(transparent)]
    Fence(#[from] Cause),
    /// No usable answer.
    #[error(transparent)]
    Client(#[from] ClientError),
}

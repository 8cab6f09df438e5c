//! Why a source gives nothing more.

use super::lines::InputError;
use crate::{
    client::{ClientError, ConsumerError, OffsetsError, TopicError},
    proto::sealed::StateError,
};

/// Why a source can't go on. Trying again makes sense only with other settings, other input or another checkpoint:
/// what waiting cures, a source waits for by itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// A topic can't be used.
    #[error(transparent)]
    Topic(#[from] TopicError),
    /// A partition can't be read: it is gone or another one, the offset is not there, or a broker refuses.
    #[error(transparent)]
    Consumer(#[from] ConsumerError),
    /// Where a consumer group stands can't be told.
    #[error(transparent)]
    Offsets(#[from] OffsetsError),
    /// The cluster gives no usable answer.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// An input of lines can't be used.
    #[error("{}{error}", prefix(input, error))]
    Input {
        /// The input.
        input: String,
        /// Why.
        #[source]
        error: InputError,
    },
    /// A line is no record. What came before it was handed out, and the position is before it.
    #[error("{input}, line {line}: {why}")]
    BadLine {
        /// The input.
        input: String,
        /// The line's number, from 1.
        line: u64,
        /// What is wrong with it.
        why: String,
    },
    /// The state of a split, from a checkpoint, can't be used.
    #[error("the state of the split {split}: {error}")]
    State {
        /// The split.
        split: String,
        /// What is wrong with its state.
        #[source]
        error: StateError,
    },
    /// The checkpoint belongs to a source with other settings.
    #[error("the checkpoint does not belong to this source: {0}")]
    Mismatch(String),
    /// The source can't work with its settings.
    #[error("{0}")]
    Settings(String),
    /// A source of one's own says why.
    #[error(transparent)]
    Other(#[from] Box<dyn std::error::Error + Send + Sync>),
}

impl SourceError {
    /// An error of a source of one's own.
    pub fn other(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Other(error.into())
    }

    /// True when the source stopped at something that is no record: a job commits what came before it, and ends.
    #[must_use]
    pub fn is_stop(&self) -> bool {
        matches!(self, Self::BadLine { .. })
    }

    pub(crate) fn state(split: &str) -> impl FnOnce(StateError) -> Self {
        let split = split.to_owned();
        |error| Self::State { split, error }
    }
}

/// The input's name, where the error does not begin with it.
fn prefix(input: &str, error: &InputError) -> String {
    if matches!(error, InputError::Io { .. }) { String::new() } else { format!("{input}: ") }
}

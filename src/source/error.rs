//! Why a source gives nothing more.

use crate::proto::sealed::StateError;

/// Why a source can't go on. Trying again makes sense only with other settings, other input or another checkpoint:
/// what waiting cures, a source waits for by itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
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
}

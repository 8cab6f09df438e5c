//! Spans of the log.

use tracing::{Span, warn_span};

/// The commit of what a checkpoint lists. It is there at every level at which a commit says something.
pub(super) fn commit(job: &str, checkpoint: u64) -> Span {
    warn_span!("commit", job, checkpoint)
}

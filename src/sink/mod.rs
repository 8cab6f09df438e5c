//! The two-phase-commit sink: a writer that prepares, a committer that commits what was prepared, and the
//! recovery that must come before both after a restart.
//!
//! ```text
//!            write ..  prepare_commit(n)          checkpoint n durable         commit            settled
//! Writer   ─────────────────┬──────────────────────────────────────────────────────────────────────────
//!                           └─► committables ──► (kept with the checkpoint) ──► Committer ──► slot is free again
//! ```
//! The writer goes on with another transactional id at once; it never waits for a commit, unless every id of its
//! pool is in use.

mod committer;
mod config;
mod lanes;
mod recovery;
mod usage;
mod writer;

pub use committer::{Committed, Committer};
pub use config::{SinkConfig, SinkConfigError};
pub use recovery::{RecoverError, RecoveryPhase, RecoveryReport, Share, Sink, SinkState};
pub use usage::{SinkMeter, SinkUsage, Taken};
pub use writer::{PrepareCommitError, PrepareFailure, SinkWriter, WriteError};

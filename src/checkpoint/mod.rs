//! Checkpoints: what a job keeps so that it can go on after any crash, and where it keeps it.
//!
//! [`CheckpointStore`] is what a store promises, and what users may implement; [`pipeline`] is a job that uses one.

mod binding;
mod directory;
mod directory_read;
mod directory_states;
mod error;
mod files;
mod handle;
mod inspect;
mod kept;
mod memory;
#[cfg(feature = "metrics")]
pub mod metrics;
mod names;
#[cfg(feature = "object-store")]
mod object;
mod owner;
pub mod pipeline;
pub mod runner;
mod spans;
mod state;
pub mod step;
mod store;
pub mod timeline;

/// The crate whose stores [`ObjectCheckpointStore`] takes.
#[cfg(feature = "object-store")]
pub use ::object_store;
pub use binding::Binding;
pub use directory::{CommittableFile, DirectoryStore};
pub use directory_read::{read_committable, read_committables, read_newest};
pub use error::StoreError;
pub use handle::{INLINE_STATE_BYTES, OperatorState, StateHandle};
pub use inspect::{CheckpointFile, Fault, Verified, read_checkpoints, verify};
pub use memory::MemoryStore;
#[cfg(feature = "object-store")]
pub use object::{LocationError, ObjectCheckpointStore, ObjectLocation, ObjectState, ObjectStoreConfig};
pub use state::{Checkpoint, ListedCommittable};
pub use store::{CheckpointStore, JobStore, StateStore, StorePoint};

pub use crate::{
    proto::recovery::CommitStatus,
    source::{InputHash, InputPosition},
};

#[cfg(test)]
mod suite_tests;

//! Checkpoints: what a job keeps so that it can go on after any crash, and where it keeps it.
//!
//! Synchronous files and bytes; no network.

mod directory;
mod hash;
mod state;
mod store;

pub use directory::{CommittableFile, DirectoryStore, read_committable, read_newest};
pub use hash::InputHash;
pub use state::{Checkpoint, InputPosition, ListedCommittable};
pub use store::{Binding, CheckpointStore, StoreError, StorePoint};

pub use crate::proto::recovery::CommitStatus;

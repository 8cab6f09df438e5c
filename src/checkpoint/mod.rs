//! Checkpoints: what a job keeps so that it can go on after any crash, and where it keeps it.
//!
//! The stores are synchronous files and bytes; [`pipeline`] is the job that uses them.

mod directory;
mod memory;
pub mod pipeline;
mod state;
pub mod step;
mod store;

pub use directory::{CommittableFile, DirectoryStore, read_committable, read_newest};
pub use memory::MemoryStore;
pub use state::{Checkpoint, ListedCommittable};
pub use store::{Binding, CheckpointStore, JobStore, StoreError, StorePoint};

pub use crate::{
    proto::recovery::CommitStatus,
    source::{InputHash, InputPosition},
};

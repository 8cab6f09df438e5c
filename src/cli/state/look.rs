//! A state, looked at beside its owner.

use std::path::PathBuf;

use anyhow::Context as _;

use crate::checkpoint::{
    Checkpoint, CheckpointFile, ObjectState, StoreError, Verified, read_checkpoints, read_committables,
    read_newest,
    timeline::{CheckpointTimes, read_timeline},
    verify,
};
use crate::proto::committable::Committable;

/// A state that is there.
#[derive(Debug)]
pub(in crate::cli) enum Look {
    Directory(PathBuf),
    Objects(ObjectState),
}

impl Look {
    pub(in crate::cli) async fn newest(&self) -> Result<Option<Checkpoint>, StoreError> {
        match self {
            Self::Directory(dir) => read_newest(dir),
            Self::Objects(state) => state.newest().await,
        }
    }

    pub(in crate::cli) async fn checkpoints(&self) -> Result<Vec<CheckpointFile>, StoreError> {
        match self {
            Self::Directory(dir) => read_checkpoints(dir),
            Self::Objects(state) => state.checkpoints().await,
        }
    }

    pub(in crate::cli) async fn verify(&self) -> Result<Verified, StoreError> {
        match self {
            Self::Directory(dir) => verify(dir),
            Self::Objects(state) => state.verify().await,
        }
    }

    /// The committables that lie in it one by one, and where.
    pub(in crate::cli) async fn committables(&self) -> Result<Vec<(PathBuf, Committable)>, StoreError> {
        match self {
            Self::Directory(dir) => read_committables(dir),
            Self::Objects(state) => state.committables().await,
        }
    }

    pub(in crate::cli) async fn timeline(&self) -> anyhow::Result<Vec<CheckpointTimes>> {
        match self {
            Self::Directory(dir) => read_timeline(dir).with_context(|| dir.display().to_string()),
            Self::Objects(state) => Ok(state.timeline().await?),
        }
    }
}

//! A store that forgets everything when the process ends.

use std::path::PathBuf;

use super::{
    state::Checkpoint,
    store::{CheckpointStore, JobStore, StoreError, StorePoint},
};
use crate::proto::committable::Committable;

/// Keeps the newest checkpoint in memory: every checkpoint is still atomic, and nothing survives a crash.
#[derive(Debug, Default)]
pub struct MemoryStore(Option<Checkpoint>);

impl CheckpointStore for MemoryStore {
    fn load(&mut self) -> Result<Option<Checkpoint>, StoreError> {
        Ok(self.0.clone())
    }

    fn write(
        &mut self,
        checkpoint: &Checkpoint,
        observer: &mut dyn FnMut(StorePoint),
    ) -> Result<(), StoreError> {
        observer(StorePoint::Half);
        self.0 = Some(checkpoint.clone());
        observer(StorePoint::Durable);
        Ok(())
    }
}

impl JobStore for MemoryStore {
    fn keep(&mut self, _: &Committable) -> Result<Option<PathBuf>, StoreError> {
        Ok(None)
    }

    fn unlisted(&mut self) -> Result<Vec<Committable>, StoreError> {
        Ok(Vec::new())
    }

    fn forget(&mut self, _: &Committable) -> Result<(), StoreError> {
        Ok(())
    }
}

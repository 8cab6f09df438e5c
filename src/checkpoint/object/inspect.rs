//! Looking at the state in an object store without owning it, also beside a running job.

use std::{collections::BTreeSet, path::PathBuf, sync::Arc};

use object_store::{ObjectMeta, ObjectStore};

use super::{
    bucket::{Bucket, Folder},
    head::Heads,
    stock,
};
use crate::{
    checkpoint::{
        binding::Binding,
        error::StoreError,
        handle::StateHandle,
        inspect::{CheckpointFile, Fault, Verified},
        names::{COMMITTABLE, STATE, attempt_id},
        state::Checkpoint,
    },
    proto::{committable::Committable, sealed::StateError},
};

/// A state in an object store, to be looked at: nothing is changed, and its owner is not disturbed.
#[derive(Debug, Clone)]
pub struct ObjectState {
    bucket: Bucket,
    heads: Heads,
}

impl ObjectState {
    /// The state below `prefix`; messages call the bucket `bucket`, such as `s3://bucket`.
    #[must_use]
    pub fn new(store: Arc<dyn ObjectStore>, prefix: &str, bucket: Option<Arc<str>>) -> Self {
        let bucket = Bucket::new(store, prefix, bucket);
        Self { heads: Heads::new(bucket.clone()), bucket }
    }

    pub(in crate::checkpoint) fn bucket(&self) -> &Bucket {
        &self.bucket
    }

    /// Whether there is a state here.
    ///
    /// # Errors
    /// [`StoreError`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn exists(&self) -> Result<bool, StoreError> {
        Ok(self.heads.highest().await?.is_some())
    }

    /// Whether the last owner has given the state up, or there was none.
    ///
    /// # Errors
    /// [`StoreError`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn is_free(&self) -> Result<bool, StoreError> {
        Ok(self.heads.highest().await?.is_none_or(|at| at.head.free))
    }

    /// The newest checkpoint.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] when it cannot be read; never an older one instead.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn newest(&self) -> Result<Option<Checkpoint>, StoreError> {
        let binding = Binding::default();
        match stock::usable(&self.bucket, &binding, &self.heads).await? {
            Some(at) => stock::newest(&self.bucket, &binding, &at.head.kept).await,
            None => Ok(None),
        }
    }

    /// Every checkpoint that is kept, oldest first. One that a running job removes meanwhile is not among them.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be asked.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn checkpoints(&self) -> Result<Vec<CheckpointFile>, StoreError> {
        let Some(at) = self.heads.highest().await? else { return Ok(Vec::new()) };
        let objects = self.bucket.list(Folder::Checkpoints).await?;
        let mut found = Vec::new();
        for name in &at.head.kept {
            let meta = objects.iter().find(|meta| meta.location.filename() == Some(&**name));
            if let Some(file) = self.checkpoint(name, meta).await? {
                found.push(file);
            }
        }
        Ok(found)
    }

    async fn checkpoint(
        &self,
        name: &Arc<str>,
        meta: Option<&ObjectMeta>,
    ) -> Result<Option<CheckpointFile>, StoreError> {
        let path = self.bucket.path(Folder::Checkpoints, name);
        let bytes = self.bucket.read(Folder::Checkpoints, name).await?;
        let read = match &bytes {
            Some(bytes) => Checkpoint::from_bytes(bytes),
            None if !self.is_kept(name).await? => return Ok(None),
            None => Err(StateError::Damaged { what: "checkpoint", why: "it is missing" }),
        };
        Ok(Some(CheckpointFile {
            id: attempt_id(name).unwrap_or_default(),
            bytes: bytes.map_or(0, |bytes| bytes.len() as u64),
            modified: meta.map(|meta| meta.last_modified.into()),
            checkpoint: read.map_err(|cause| StoreError::unreadable(path.clone(), cause, None)),
            path,
        }))
    }

    /// Whether the head names a checkpoint now.
    async fn is_kept(&self, name: &Arc<str>) -> Result<bool, StoreError> {
        Ok(self.heads.highest().await?.is_some_and(|at| at.head.kept.contains(name)))
    }

    /// The prepared transactions that lie there one by one, with the URL of each.
    ///
    /// # Errors
    /// [`StoreError`], also for one that cannot be read.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn committables(&self) -> Result<Vec<(PathBuf, Committable)>, StoreError> {
        let mut found = Vec::new();
        for name in self.committable_names().await? {
            if let Some(committable) = self.committable(&name).await? {
                found.push((self.bucket.path(Folder::Committables, &name), committable));
            }
        }
        Ok(found)
    }

    /// One of them, by its name, if it is there.
    ///
    /// # Errors
    /// [`StoreError`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn committable(&self, name: &str) -> Result<Option<Committable>, StoreError> {
        let Some(bytes) = self.bucket.read(Folder::Committables, name).await? else { return Ok(None) };
        let path = self.bucket.path(Folder::Committables, name);
        let read = Committable::from_bytes(&bytes);
        read.map(Some).map_err(|cause| StoreError::unreadable(path, cause, None))
    }

    async fn committable_names(&self) -> Result<Vec<String>, StoreError> {
        let names = self.bucket.names(Folder::Committables).await?.into_iter();
        Ok(names.filter(|name| name.ends_with(COMMITTABLE)).collect())
    }

    /// Reads everything and compares it with its checksums.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be asked; faults of objects are in the result.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn verify(&self) -> Result<Verified, StoreError> {
        let mut verified = Verified::default();
        let mut named = BTreeSet::new();
        let files = match self.checkpoints().await {
            Ok(files) => files,
            Err(error @ (StoreError::Damaged { .. } | StoreError::Newer { .. })) => {
                verified.fault(error.path().to_owned(), &error);
                Vec::new()
            }
            Err(error) => return Err(error),
        };
        for file in files {
            verified.checkpoints += 1;
            match &file.checkpoint {
                Ok(checkpoint) => {
                    verified.check_id(&file, checkpoint);
                    named.extend(checkpoint.stored_states().cloned());
                    self.states_of(&mut verified, &file, checkpoint).await?;
                }
                Err(error) => verified.fault(file.path, error),
            }
        }
        let states = self.bucket.names(Folder::States).await?;
        let unnamed = |name: &&String| name.ends_with(STATE) && !named.contains(name.as_str());
        verified.unnamed = states.iter().filter(unnamed).count();
        for name in self.committable_names().await? {
            match self.committable(&name).await {
                Ok(found) => verified.committables += usize::from(found.is_some()),
                Err(error @ (StoreError::Damaged { .. } | StoreError::Newer { .. })) => {
                    verified.fault(self.bucket.path(Folder::Committables, &name), &error);
                }
                Err(error) => return Err(error),
            }
        }
        verified.faults.dedup();
        Ok(verified)
    }

    async fn states_of(
        &self,
        verified: &mut Verified,
        file: &CheckpointFile,
        checkpoint: &Checkpoint,
    ) -> Result<(), StoreError> {
        for operator in &checkpoint.operators {
            for (subtask, handle) in operator.subtasks.iter().enumerate() {
                let StateHandle::Stored { name, .. } = handle else { continue };
                let why = match self.bucket.read(Folder::States, name).await? {
                    Some(bytes) => handle.fault(&bytes),
                    // The job has removed both meanwhile.
                    None if !self.is_there(file).await? => return Ok(()),
                    None => Some("it is missing".to_owned()),
                };
                let Some(why) = why else {
                    verified.states += 1;
                    continue;
                };
                let of =
                    format!("checkpoint {}, operator `{}`, subtask {subtask}", checkpoint.id, operator.uid);
                let path = self.bucket.path(Folder::States, name);
                verified.faults.push(Fault { path, why: format!("{why} ({of})") });
            }
        }
        Ok(())
    }

    async fn is_there(&self, file: &CheckpointFile) -> Result<bool, StoreError> {
        let name = file.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        Ok(self.bucket.read(Folder::Checkpoints, name).await?.is_some())
    }
}

//! What lies in an object store, read back.

use std::sync::Arc;

use super::{
    bucket::{Bucket, Folder},
    head::{Head, Heads, Numbered},
    states::ObjectStates,
};
use crate::{
    checkpoint::{
        binding::Binding,
        error::StoreError,
        kept::{Item, Kept},
        names::{attempt_owner, committable_name, state_owner},
        state::Checkpoint,
    },
    proto::sealed::StateError,
};

/// The head, if there is one. State that cannot be used is not taken over, and not waited for.
pub(super) async fn usable(
    bucket: &Bucket,
    binding: &Binding,
    heads: &Heads,
) -> Result<Option<Numbered>, StoreError> {
    let mut found = heads.highest().await?;
    while let Some(at) = &found {
        let Err(error) = newest(bucket, binding, &at.head.kept).await else { break };
        // Its owner is alive and may have removed what was looked for.
        let now = heads.highest().await?;
        match &now {
            Some(now) if now.head.kept != at.head.kept => {}
            Some(_) | None => return Err(error),
        }
        found = now;
    }
    Ok(found)
}

/// The newest of these checkpoints, if there is one. Never an older one instead.
pub(super) async fn newest(
    bucket: &Bucket,
    binding: &Binding,
    kept: &[Arc<str>],
) -> Result<Option<Checkpoint>, StoreError> {
    let Some((name, older)) = kept.split_last() else { return Ok(None) };
    match read(bucket, name).await? {
        Ok(checkpoint) => {
            binding.check(&checkpoint)?;
            Ok(Some(checkpoint))
        }
        Err(cause) => {
            let mut whole = None;
            for name in older {
                if matches!(read(bucket, name).await, Ok(Ok(_))) {
                    whole = Some(bucket.path(Folder::Checkpoints, name));
                }
            }
            Err(StoreError::unreadable(bucket.path(Folder::Checkpoints, name), cause, whole))
        }
    }
}

/// The books of a new owner: what the head names, and what nothing needs.
pub(super) async fn take(bucket: &Bucket, binding: &Binding, head: &Head) -> Result<Kept, StoreError> {
    newest(bucket, binding, &head.kept).await?;
    let mut kept = Kept::new(committable_name);
    let mut all_read = true;
    for name in &head.kept {
        match read(bucket, name).await? {
            Ok(checkpoint) => kept.found(Arc::clone(name), &checkpoint),
            // What an older one names is not known if it cannot be read.
            Err(_) => all_read = false,
        }
    }
    let older = |owner: Option<u64>| owner.is_some_and(|owner| owner < head.owner.epoch);
    let attempts = bucket.names(Folder::Checkpoints).await?.into_iter();
    let failed =
        attempts.filter(|name| older(attempt_owner(name)) && !head.kept.iter().any(|k| **k == **name));
    let mut orphans: Vec<_> = failed.map(|name| Item::Checkpoint(name.into())).collect();
    if all_read {
        let states = bucket.names(Folder::States).await?.into_iter().map(Arc::from);
        orphans.extend(states.filter(|name| older(state_owner(name)) && !kept.names(name)).map(Item::State));
    }
    kept.leftovers(orphans);
    Ok(kept)
}

/// Brings the books up to a head that names a checkpoint which they do not know.
pub(super) async fn correct(
    bucket: &Bucket,
    states: &ObjectStates,
    names: &[Arc<str>],
) -> Result<(), StoreError> {
    for name in names {
        if states.kept().knows(name) {
            continue;
        }
        let checkpoint = read(bucket, name)
            .await?
            .map_err(|cause| StoreError::unreadable(bucket.path(Folder::Checkpoints, name), cause, None))?;
        states.kept().complete(Arc::clone(name), &checkpoint);
    }
    Ok(())
}

/// A checkpoint that a head names is there: if not, that is damage as well.
async fn read(bucket: &Bucket, name: &str) -> Result<Result<Checkpoint, StateError>, StoreError> {
    match bucket.read(Folder::Checkpoints, name).await? {
        Some(bytes) => Ok(Checkpoint::from_bytes(&bytes)),
        None => Ok(Err(StateError::Damaged { what: "checkpoint", why: "it is missing" })),
    }
}

//! Where the records of a state come from: offsets mean nothing in another cluster or topic.

use std::sync::Arc;

use crate::{
    checkpoint::{Checkpoint, StoreError},
    proto::sealed::{Fields, Seal, StateError},
    source::SplitState,
};

/// The name of the split that tells it. No partition's name begins so.
const SPLIT: &str = "@origin";
const SEAL: Seal = Seal { what: "origin of a mirror", magic: *b"K2PM", newest: 1 };

/// A topic of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Origin {
    /// The cluster's id; empty where the brokers do not tell.
    pub(super) cluster: Arc<str>,
    /// The topic's name. Its id stands with each partition's offset.
    pub(super) topic: Arc<str>,
}

impl Origin {
    /// As it is kept among the splits of the source.
    pub(super) fn split(&self) -> SplitState {
        SplitState::new(SPLIT, SEAL.seal(Fields::default().text(&self.cluster).text(&self.topic)))
    }

    fn read(bytes: &[u8]) -> Result<Self, StateError> {
        let mut fields = SEAL.open(bytes)?;
        let origin = Self { cluster: fields.text()?, topic: fields.text()? };
        fields.finish(origin)
    }

    /// Whether this split tells of an origin, and not of a partition.
    pub(super) fn is_told_by(split: &SplitState) -> bool {
        &*split.split == SPLIT
    }

    /// Refuses a state with records of somewhere else.
    ///
    /// # Errors
    /// [`StoreError::Foreign`], or [`StoreError::OtherKind`] for the state of a job that is no mirror.
    pub(super) fn check(&self, checkpoint: &Checkpoint) -> Result<(), StoreError> {
        let other = |why: String| StoreError::OtherKind { job: Arc::clone(&checkpoint.job_id), why };
        let splits = checkpoint.splits(super::SOURCE).map_err(|e| other(e.to_string()))?;
        let told = splits.iter().find(|split| Self::is_told_by(split));
        let Some(told) = told else {
            // A mirror that has not copied anything yet tells nothing.
            let empty = checkpoint.operators.is_empty();
            let why = "it does not say which topic it is a copy of".to_owned();
            return if empty { Ok(()) } else { Err(other(why)) };
        };
        let found = Self::read(&told.state).map_err(|e| other(e.to_string()))?;
        let known = !self.cluster.is_empty() && !found.cluster.is_empty();
        if known && self.cluster != found.cluster {
            let (wanted, found) = (Arc::clone(&self.cluster), found.cluster);
            return Err(StoreError::Foreign { what: "source cluster", wanted, found });
        }
        if self.topic != found.topic {
            let (wanted, found) = (Arc::clone(&self.topic), found.topic);
            return Err(StoreError::Foreign { what: "source topic", wanted, found });
        }
        Ok(())
    }
}

//! What a checkpoint holds for the nodes of a graph.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::{error::RunError, graph::Node, in_flight};
use crate::{
    checkpoint::{Checkpoint, StateHandle, StateStore},
    proto::sealed::StateError,
    record::Record,
    source::SplitState,
};

/// Under which uid a checkpoint says that the job was finished.
pub(super) const JOB: &str = "@job";
pub(super) const FINISHED: &[u8] = b"finished";
/// Follows an operator's uid in that of its records in flight.
pub(super) const IN_FLIGHT: &str = "/in-flight";

/// The state of every operator, by its uid, read.
#[derive(Debug, Default)]
pub(super) struct Restored {
    states: BTreeMap<String, Vec<Bytes>>,
}

impl Checkpoint {
    /// Whether all sources of its job, which runs on [`Pipeline`](super::Pipeline), had come to their end.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        let finished =
            |handle: &StateHandle| matches!(handle, StateHandle::Inline(bytes) if bytes == FINISHED);
        self.operator(JOB).is_some_and(|job| job.subtasks.iter().any(finished))
    }

    /// Every split of a source of its job, which runs on [`Pipeline`](super::Pipeline); none if it has no such source.
    ///
    /// # Errors
    /// [`StateError`] if the operator of this uid holds something else.
    pub fn splits(&self, uid: &str) -> Result<Vec<SplitState>, StateError> {
        let mut all = Vec::new();
        for handle in self.operator(uid).iter().flat_map(|operator| &operator.subtasks) {
            // Positions are small, and stay in the checkpoint.
            if let StateHandle::Inline(bytes) = handle {
                if !bytes.is_empty() {
                    all.extend(in_flight::splits_from_bytes(bytes)?);
                }
            }
        }
        Ok(all)
    }
}

/// For each input: the records.
pub(super) type Captured = Vec<(usize, Vec<Record>)>;

impl Restored {
    /// Reads everything, and refuses state that no node takes.
    pub(super) async fn read(
        checkpoint: &Checkpoint,
        nodes: &[Node],
        states: &dyn StateStore,
    ) -> Result<Self, RunError> {
        let known = |uid: &str| {
            let plain = uid.strip_suffix(IN_FLIGHT).unwrap_or(uid);
            uid == JOB || nodes.iter().any(|node| &*node.uid == plain)
        };
        let mut restored = Self::default();
        for operator in &checkpoint.operators {
            let mut all = Vec::new();
            for handle in &operator.subtasks {
                all.push(match handle {
                    StateHandle::Inline(bytes) => bytes.clone(),
                    StateHandle::Stored { .. } => states.get(handle).await?,
                });
            }
            let empty = all.iter().all(Bytes::is_empty);
            if !empty && !known(&operator.uid) {
                return Err(RunError::Orphaned { uid: operator.uid.to_string() });
            }
            restored.states.insert(operator.uid.to_string(), all);
        }
        Ok(restored)
    }

    pub(super) fn is_finished(&self) -> bool {
        self.blobs(JOB).iter().any(|state| &state[..] == FINISHED)
    }

    /// The state of every former subtask that had any.
    pub(super) fn blobs(&self, uid: &str) -> Vec<Bytes> {
        self.all(uid).filter(|bytes| !bytes.is_empty()).cloned().collect()
    }

    pub(super) fn splits(&self, uid: &str) -> Result<Vec<SplitState>, RunError> {
        let mut all = Vec::new();
        for bytes in self.blobs(uid) {
            let splits = in_flight::splits_from_bytes(&bytes);
            all.extend(splits.map_err(|cause| RunError::State { uid: uid.to_owned(), cause })?);
        }
        Ok(all)
    }

    /// By former subtask: the records that were on their way to it.
    pub(super) fn in_flight(&self, uid: &str) -> Result<Vec<Captured>, RunError> {
        let read = |bytes: &Bytes| {
            if bytes.is_empty() {
                return Ok(Vec::new());
            }
            in_flight::from_bytes(bytes).map_err(|cause| RunError::State { uid: uid.to_owned(), cause })
        };
        self.all(&format!("{uid}{IN_FLIGHT}")).map(read).collect()
    }

    fn all(&self, uid: &str) -> impl Iterator<Item = &Bytes> {
        self.states.get(uid).into_iter().flatten()
    }
}

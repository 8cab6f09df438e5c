//! What a job's state must belong to.

use std::sync::Arc;

use super::{error::StoreError, state::Checkpoint};
use crate::ids::TopicId;

/// What a job's state must belong to. `None` accepts anything, for a job that does not know yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Binding {
    /// The job.
    pub job_id: Option<Arc<str>>,
    /// The cluster.
    pub cluster_id: Option<Arc<str>>,
    /// The topic.
    pub topic: Option<Arc<str>>,
    /// The topic's id now. A checkpoint that does not know the topic's id is accepted.
    pub topic_id: Option<TopicId>,
    /// The input's source, for a job that pipes lines.
    pub source: Option<Arc<str>>,
}

impl Binding {
    /// Refuses a checkpoint of something else.
    ///
    /// # Errors
    /// [`StoreError::Foreign`], [`StoreError::OtherKind`] or [`StoreError::TopicRecreated`] names the first
    /// difference.
    pub fn check(&self, checkpoint: &Checkpoint) -> Result<(), StoreError> {
        let differences = [
            ("job", &self.job_id, &checkpoint.job_id),
            ("cluster", &self.cluster_id, &checkpoint.cluster_id),
            ("topic", &self.topic, &checkpoint.topic),
        ];
        for (what, wanted, found) in differences {
            differs(what, wanted.as_ref(), found)?;
        }
        if self.source.is_some() {
            let input = position(checkpoint)?;
            differs("input", self.source.as_ref(), &input.source)?;
        }
        match self.topic_id {
            Some(now) if now.is_known() && checkpoint.topic_id.is_known() && now != checkpoint.topic_id => {
                Err(StoreError::TopicRecreated {
                    topic: Arc::clone(&checkpoint.topic),
                    then: checkpoint.topic_id,
                    now,
                })
            }
            Some(_) | None => Ok(()),
        }
    }
}

fn differs(what: &'static str, wanted: Option<&Arc<str>>, found: &Arc<str>) -> Result<(), StoreError> {
    match wanted {
        Some(wanted) if wanted != found => {
            Err(StoreError::Foreign { what, wanted: Arc::clone(wanted), found: Arc::clone(found) })
        }
        Some(_) | None => Ok(()),
    }
}

/// Where a job that pipes lines stands.
pub(super) fn position(checkpoint: &Checkpoint) -> Result<crate::source::InputPosition, StoreError> {
    let other = |why: String| StoreError::OtherKind { job: Arc::clone(&checkpoint.job_id), why };
    match checkpoint.input() {
        Ok(Some(position)) => Ok(position),
        Ok(None) => Err(other("it holds no position in an input of lines".to_owned())),
        Err(cause) => Err(other(format!("its operator `input`: {cause}"))),
    }
}

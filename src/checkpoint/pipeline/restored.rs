//! What a job begins with: its newest checkpoint, or its first.

use std::sync::Arc;

use super::{Job, report::PipelineError};
use crate::{
    checkpoint::{Binding, Checkpoint, InputPosition, JobStore, StoreError, binding::position},
    client::{Client, Topic},
};

/// The checkpoint that a job goes on from.
pub(super) struct Restored {
    pub(super) checkpoint: Checkpoint,
    /// The position in it.
    pub(super) position: InputPosition,
    /// Nothing may be written; what the checkpoint lists is still looked after, so that its loss is told.
    pub(super) refused: Option<StoreError>,
}

impl Restored {
    pub(super) async fn load(
        client: &Client,
        store: &mut dyn JobStore,
        job: &Job,
        topic: &Topic,
    ) -> Result<Self, PipelineError> {
        let cluster_id = client.cluster_id().await?.unwrap_or_else(|| Arc::from(""));
        let Some(mut checkpoint) = store.load().await? else {
            // The job's id, and with it the names of its transactions, must outlive a crash before the first
            // checkpoint: otherwise nobody could find its leftovers.
            let position = InputPosition { source: Arc::from(job.source.name()), ..InputPosition::default() };
            let checkpoint = first_checkpoint(job, cluster_id, topic).with_input(&position);
            store.write(&checkpoint, &mut |_| {}).await?;
            return Ok(Self { checkpoint, position, refused: None });
        };
        let position = position(&checkpoint)?;
        let binding = Binding { topic_id: Some(topic.id()), ..Binding::default() };
        let refused = match binding.check(&checkpoint) {
            Err(error) if checkpoint.committables.is_empty() => return Err(error.into()),
            checked => checked.err(),
        };
        if !checkpoint.topic_id.is_known() {
            // An older release did not keep it, or the brokers did not tell.
            checkpoint.topic_id = topic.id();
        }
        Ok(Self { checkpoint, position, refused })
    }
}

fn first_checkpoint(job: &Job, cluster_id: Arc<str>, topic: &Topic) -> Checkpoint {
    Checkpoint {
        id: 0,
        owner_epoch: 0,
        job_id: Arc::clone(&job.job_id),
        cluster_id,
        topic: Arc::from(job.topic.as_str()),
        topic_id: topic.id(),
        operators: Vec::new(),
        committables: Vec::new(),
        writers: Vec::new(),
    }
}

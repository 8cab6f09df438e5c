//! A topic that is not the one that the checkpoint means: nothing may be written into it.

use super::error::{RunError, TaskError};
use crate::{
    checkpoint::{Binding, Checkpoint, CommitStatus},
    client::Topic,
    proto::{
        resume::{First, Outcome},
        settle::Settled,
    },
    sink::Sink,
};

/// Refuses a topic that was deleted and created anew. A transaction that was on its way then is a loss, which is the
/// worse news.
pub(super) async fn refuse(sink: &Sink, checkpoint: &Checkpoint, topic: &Topic) -> Result<(), RunError> {
    let binding = Binding { topic_id: Some(topic.id()), ..Binding::default() };
    let Err(refused) = binding.check(checkpoint) else { return Ok(()) };
    let committer = sink.committer();
    for listed in &checkpoint.committables {
        let committable = listed.committable.clone();
        if listed.status == CommitStatus::Pending {
            let committed = committer.commit_one(committable.clone(), First::EndTxn).await;
            let done = matches!(&committed.result, Ok(r) if matches!(r.outcome, Outcome::Committed | Outcome::AlreadyCommitted(_)));
            if !done {
                return Err(TaskError::NotCommitted(Box::new(committed)).into());
            }
        }
        if let Ok(Settled { gone }) = committer.settle(&committable).await {
            if !gone.is_empty() {
                return Err(TaskError::Gone { committable: Box::new(committable), partitions: gone }.into());
            }
        }
    }
    Err(refused.into())
}

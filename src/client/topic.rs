//! A topic, resolved once.

use std::sync::Arc;

use super::{
    error::{ClientError, TopicError},
    router::Router,
};
use crate::{
    ids::{TopicId, TopicName},
    net::Clock,
    proto::{backoff::Backoff, verdict::MetadataVerdict},
    wire::code::ErrorCode,
};

/// What is not known then.
const NO_IDS: &str =
    "the brokers have no topic ids: if this topic is deleted and created again, it is taken for the same";

/// A topic that was looked up. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Topic(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    name: TopicName,
    id: TopicId,
    partitions: i32,
}

impl Topic {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &TopicName {
        &self.0.name
    }

    /// Its id; unknown where brokers speak no Metadata 10 (Kafka before 2.8, others). Then nothing tells this topic from
    /// one that is created under its name after it was deleted, and the log warns of that.
    #[must_use]
    pub fn id(&self) -> TopicId {
        self.0.id
    }

    /// One that was not looked up.
    #[cfg(test)]
    pub(super) fn sample(name: &str, partitions: i32) -> Self {
        Self(Arc::new(Inner { name: name.into(), id: TopicId::UNKNOWN, partitions }))
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || (self.0.id == other.0.id && self.0.name == other.0.name)
    }

    /// How many partitions it had when it was looked up.
    #[must_use]
    pub fn partitions(&self) -> i32 {
        self.0.partitions
    }
}

pub(super) async fn resolve(router: &Router, name: &str) -> Result<Topic, TopicError> {
    let topic_name: TopicName = Arc::from(name);
    let deadline = router.clock.now().after(router.config.max_block);
    let mut backoff =
        Backoff::new(std::time::Duration::from_millis(50), std::time::Duration::from_secs(1), Clock::seed());
    loop {
        let error = match router.metadata(Some(vec![topic_name.clone()])).await {
            Err(e @ ClientError::Unreachable(_)) => TopicError::Client(e),
            Err(e) => return Err(e.into()),
            Ok(answer) => {
                let Some(t) = answer.topics.iter().find(|t| t.name == topic_name) else {
                    return Err(TopicError::Missing(name.to_owned()));
                };
                match t.verdict {
                    // A topic that is just being made may be told without its partitions.
                    MetadataVerdict::Leaderless if t.partitions.is_empty() => {
                        TopicError::Missing(name.to_owned())
                    }
                    MetadataVerdict::Retry if t.code.is_none() => TopicError::Missing(name.to_owned()),
                    MetadataVerdict::Known | MetadataVerdict::Leaderless => {
                        let partitions = i32::try_from(t.partitions.len()).unwrap_or(i32::MAX);
                        if !t.id.is_known() {
                            tracing::warn!("{NO_IDS}: {name}");
                        }
                        return Ok(Topic(Arc::new(Inner { name: topic_name, id: t.id, partitions })));
                    }
                    MetadataVerdict::Missing => return Err(TopicError::Missing(name.to_owned())),
                    MetadataVerdict::Denied => return Err(TopicError::Denied(name.to_owned())),
                    MetadataVerdict::InvalidName => return Err(TopicError::InvalidName(name.to_owned())),
                    MetadataVerdict::Failed => return Err(refused(name, t.code)),
                    MetadataVerdict::Retry | MetadataVerdict::Rebootstrap => refused(name, t.code),
                }
            }
        };
        if router.clock.now() >= deadline {
            return Err(error);
        }
        tokio::time::sleep(backoff.next_wait()).await;
    }
}

fn refused(name: &str, code: ErrorCode) -> TopicError {
    let what = format!("metadata of topic {name}");
    TopicError::Client(ClientError::Refused { what, code, detail: String::new() })
}

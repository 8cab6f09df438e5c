//! What partition leaders know of producers.

use super::Admin;
use crate::{
    client::look,
    ids::TopicPartition,
    proto::verdict::{self, DescribeProducersVerdict},
};

pub use crate::exchange::OpenProducer as ProducerState;

/// Why the producers of a partition are not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum ProducersUnknown {
    /// It has no leader now, or the leader does not answer.
    #[error("no leader answers")]
    Unavailable,
    /// READ on the topic is missing.
    #[error("READ on the topic is missing")]
    Denied,
    /// The broker has no such request (before 2.8), or refuses it for another reason.
    #[error("the broker does not tell")]
    Unsupported,
}

impl Admin {
    /// The producers that each partition remembers, in the order of the question; one request per leader. Leaders that
    /// moved or do not answer are looked for once more, and not waited for.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn describe_producers(
        &self,
        partitions: &[TopicPartition],
    ) -> Vec<(TopicPartition, Result<Vec<ProducerState>, ProducersUnknown>)> {
        let mut found: Vec<_> =
            partitions.iter().map(|p| (p.clone(), Err(ProducersUnknown::Unavailable))).collect();
        for _ in 0..2 {
            let left: Vec<_> = found
                .iter()
                .filter(|(_, known)| matches!(known, Err(ProducersUnknown::Unavailable)))
                .map(|(place, _)| place.clone())
                .collect();
            if left.is_empty() {
                break;
            }
            _ = look::partitions(&self.router, &left).await;
            for answer in look::producers(&self.router, &left).await.into_iter().flatten() {
                let known = match verdict::describe_producers(0, answer.code) {
                    DescribeProducersVerdict::Described => Ok(answer.producers),
                    DescribeProducersVerdict::Denied => Err(ProducersUnknown::Denied),
                    DescribeProducersVerdict::RetryAfterMetadata | DescribeProducersVerdict::Retry => {
                        Err(ProducersUnknown::Unavailable)
                    }
                    DescribeProducersVerdict::Unsupported | DescribeProducersVerdict::Failed => {
                        Err(ProducersUnknown::Unsupported)
                    }
                };
                if let Some((_, slot)) = found.iter_mut().find(|(place, _)| *place == answer.partition) {
                    *slot = known;
                }
            }
        }
        found
    }
}

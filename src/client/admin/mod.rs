//! Looking at transactions from outside, and ending those that nobody will end.

mod error;
mod producers;
mod topics;
mod transactions;

use std::sync::Arc;

pub use error::AdminError;
pub use producers::{ProducerState, ProducersUnknown};
pub use transactions::{
    Blind, TransactionDescription, TransactionFilter, TransactionListing, TransactionSummary,
};

use super::{Client, router::Router};
use crate::{
    ids::TopicPartition,
    proto::{resume::PartitionMeta, verdict::MetadataVerdict},
};

/// The administrator's view of a cluster. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Admin {
    router: Arc<Router>,
}

impl Client {
    /// The administrator's view of the cluster.
    #[must_use]
    pub fn admin(&self) -> Admin {
        Admin { router: Arc::clone(&self.router) }
    }
}

impl Admin {
    /// Every partition of every topic that we may see, in order.
    ///
    /// # Errors
    /// [`AdminError::Client`] if no broker answers.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn all_partitions(&self) -> Result<Vec<TopicPartition>, AdminError> {
        let answer = self.router.metadata(None).await?;
        let known = answer
            .topics
            .iter()
            .filter(|t| matches!(t.verdict, MetadataVerdict::Known | MetadataVerdict::Leaderless));
        let mut all: Vec<_> = known
            .flat_map(|t| t.partitions.iter().map(|p| TopicPartition::new(t.name.clone(), p.index)))
            .collect();
        all.sort();
        Ok(all)
    }

    /// Those of `partitions` that exist and have no leader now.
    ///
    /// # Errors
    /// [`AdminError::Unavailable`] if no broker answers.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn leaderless(&self, partitions: &[TopicPartition]) -> Result<Vec<TopicPartition>, AdminError> {
        let metas = super::look::partitions(&self.router, partitions).await;
        let metas = metas.ok_or_else(|| AdminError::Unavailable {
            what: "the partitions' leaders".to_owned(),
            why: "no broker answered".to_owned(),
        })?;
        let pairs = partitions.iter().zip(metas);
        let leaderless = pairs.filter(|(_, meta)| matches!(meta, PartitionMeta::Known { leader: None, .. }));
        Ok(leaderless.map(|(partition, _)| partition.clone()).collect())
    }
}

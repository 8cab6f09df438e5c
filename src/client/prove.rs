//! What can be proven about a committable without touching it.

use std::sync::Arc;

use futures::future::join_all;

use super::{evidence, look, router::Router};
use crate::{
    ids::TopicPartition,
    proto::{
        committable::Committable,
        evidence::PartitionVerdict,
        repair::{self, Proven, RepairRefused},
        resume::{Described, ResumeInput},
    },
};

/// Everything that the cluster shows about one committable. Nothing was sent that changes anything.
#[derive(Debug, Clone)]
pub struct Examined {
    /// What the coordinator says of the id.
    pub coordinator: Described,
    /// What the log of each partition shows; `None` where it can't be read now.
    pub partitions: Vec<(TopicPartition, Option<PartitionVerdict>)>,
    /// The finalized level of `transaction.version`, if a broker told.
    pub level: Option<i16>,
}

impl Examined {
    /// The decision that this proves, and how it came about.
    ///
    /// # Errors
    /// [`RepairRefused`]: there is none yet, or none is proven.
    pub fn proven(&self, committable: &Committable) -> Result<Proven, RepairRefused> {
        let seen = |(place, verdict): &(TopicPartition, Option<PartitionVerdict>)| {
            verdict.map(|verdict| (place.clone(), verdict))
        };
        let seen: Vec<_> = self.partitions.iter().filter_map(seen).collect();
        repair::proven_decision(committable, &self.coordinator, &seen, self.level)
    }
}

pub(super) async fn examine(router: &Arc<Router>, committable: &Committable) -> Examined {
    let mut coordinator = Described::Retry;
    for _ in 0..20 {
        coordinator = look::described(router, &committable.transactional_id).await;
        if !matches!(coordinator, Described::Retry | Described::Relookup) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let logs = committable.partitions.iter().enumerate().map(|(at, partition)| async move {
        let log = evidence::read(router, committable, at, committable.end_txn_version).await;
        let verdict = match log {
            ResumeInput::Log { verdict, .. } => Some(verdict),
            _ => None,
        };
        (partition.topic_partition(), verdict)
    });
    let partitions = join_all(logs).await;
    let level = match router.coordinator(&committable.transactional_id).await {
        Ok(Ok(node)) => router.profile(node).await.ok().map(|profile| profile.transaction_version.level()),
        Ok(Err(_)) | Err(_) => None,
    };
    Examined { coordinator, partitions, level }
}

//! Whether a decision has reached every partition, for people and scripts.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    client::Client,
    ids::TopicPartition,
    proto::{
        committable::{Committable, CommittablePartition},
        resume::CoordinatorState,
        settle::{CommittedButHanging, SettleError, SettleTarget},
    },
};

/// What became of a decision.
#[derive(Debug, Clone)]
pub(super) enum Settlement {
    /// It is on every partition; on these only because their topic is gone.
    Everywhere { gone: Vec<TopicPartition> },
    /// Its marker is missing on some, for good.
    Hanging(Box<CommittedButHanging>),
    /// The coordinator is done, and these partitions have no leader: nobody has written their marker.
    Leaderless(Vec<TopicPartition>),
    /// Markers are on their way.
    Pending(Vec<TopicPartition>),
    /// It can't be looked at.
    Denied(Vec<TopicPartition>),
}

/// Looks for at most `patience`.
pub(super) async fn settle(client: &Client, target: SettleTarget, patience: Duration) -> Settlement {
    let id = target.transactional_id.clone();
    match client.settle(target, patience).await {
        Ok(settled) => Settlement::Everywhere { gone: settled.gone },
        Err(SettleError::Hanging(hanging)) => Settlement::Hanging(hanging),
        Err(SettleError::Denied { partitions }) => Settlement::Denied(partitions),
        Err(SettleError::Pending { partitions }) => {
            let admin = client.admin();
            let leaderless = admin.leaderless(&partitions).await.unwrap_or_default();
            let described = admin.describe_transaction(&id).await.ok().flatten();
            let done = described.is_some_and(|d| {
                matches!(
                    d.state,
                    CoordinatorState::CompleteCommit
                        | CoordinatorState::CompleteAbort
                        | CoordinatorState::Empty
                )
            });
            // A coordinator that waits for a leader stays in its Prepare state; one that is done while there is no
            // leader has dropped the marker, unless it got it out in the moment before.
            if done && !leaderless.is_empty() {
                Settlement::Leaderless(leaderless)
            } else {
                Settlement::Pending(partitions)
            }
        }
    }
}

impl Settlement {
    /// What is to be said about it; nothing if all is well.
    pub(super) fn story(&self) -> Option<String> {
        match self {
            Self::Everywhere { gone } if gone.is_empty() => None,
            Self::Everywhere { gone } => {
                Some(format!("the topic was deleted and its records are gone: {}", names(gone)))
            }
            Self::Hanging(hanging) => {
                let partitions = hanging.partitions.iter().map(|p| {
                    let (place, since) = (&p.partition, p.open.start_offset);
                    format!(
                        "{place} (open since offset {since}, coordinator epoch {})",
                        p.open.coordinator_epoch
                    )
                });
                Some(format!(
                    "{} hangs: its marker is missing on {}; readers stall there until `kafka-2pc txn repair`",
                    hanging.identity,
                    partitions.collect::<Vec<_>>().join(", ")
                ))
            }
            Self::Leaderless(partitions) => Some(format!(
                "it hangs: its coordinator is done with it, but {} had no leader to take the marker; when there is one, \
                 `kafka-2pc txn repair` writes it",
                names(partitions)
            )),
            Self::Pending(partitions) => {
                Some(format!("its markers are not on all partitions yet: {}", names(partitions)))
            }
            Self::Denied(partitions) => Some(format!(
                "without READ and DESCRIBE it can't be known whether readers see it: {}",
                names(partitions)
            )),
        }
    }

    /// The partitions that it is about, or all of the committable's if it is about none.
    pub(super) fn partitions(&self, committable: &Committable) -> Vec<Value> {
        let chosen = |places: &[TopicPartition]| -> Vec<Value> {
            let of = committable.partitions.iter().filter(|p| places.contains(&p.topic_partition()));
            of.map(partition).collect()
        };
        match self {
            Self::Everywhere { gone } if !gone.is_empty() => chosen(gone),
            Self::Everywhere { .. } | Self::Denied(_) => {
                committable.partitions.iter().map(partition).collect()
            }
            Self::Leaderless(places) | Self::Pending(places) => chosen(places),
            Self::Hanging(hanging) => hanging
                .partitions
                .iter()
                .map(|p| {
                    json!({
                        "topic": &*p.partition.topic,
                        "partition": p.partition.partition,
                        "offset": p.offset,
                        "open_since": p.open.start_offset,
                        "producer_epoch": p.open.producer_epoch.0,
                        "coordinator_epoch": p.open.coordinator_epoch,
                    })
                })
                .collect(),
        }
    }
}

/// A partition of a committable.
pub(super) fn partition(p: &CommittablePartition) -> Value {
    json!({ "topic": &*p.topic, "partition": p.partition, "offset": p.offset, "records": p.records })
}

/// Names in a row.
pub(super) fn names(partitions: &[TopicPartition]) -> String {
    partitions.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

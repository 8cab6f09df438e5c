//! The cure for a transaction that hangs: WriteTxnMarkers with the decision that is proven, and nothing else.
//!
//! `kafka-transactions abort` on a committed transaction destroys its records. So a repair is planned only from a
//! decision that somebody can prove, and only where something of this very transaction is open.

use super::{
    committable::Committable,
    evidence::{LogProof, PartitionVerdict, combine},
    resume::{CoordinatorState, Decision, Described, SameTransaction, TransactionView, same_transaction},
    settle::{CommittedButHanging, DecidedBy, HangingPartition},
};
use crate::ids::{Identity, TopicPartition};

/// One marker to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MarkerToWrite {
    /// Where.
    pub partition: TopicPartition,
    /// Producer id and the epoch of the marker.
    pub identity: Identity,
    /// What it says.
    pub decision: Decision,
    /// The coordinator epoch: the newest that the partition has seen, at least 0.
    pub coordinator_epoch: i32,
    /// `TransactionVersion` of WriteTxnMarkers 2 (Kafka 4.2 and newer); older brokers know version 1 without it.
    pub transaction_version: i8,
}

/// Why nothing is written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RepairRefused {
    /// Nothing is decided.
    #[error("the transaction is open: commit it or abort it")]
    Open,
    /// Nothing proves what was decided. It may be committed.
    #[error("what was decided is not proven; it may be committed")]
    NotProven,
    /// It was aborted, and what exactly wrote the markers is not proven: there is no commit to repair.
    #[error(
        "it was aborted, so there is no commit to repair: its records on {} are lost",
        places(partitions)
    )]
    Aborted {
        /// Where that is proven.
        partitions: Vec<TopicPartition>,
    },
    /// The coordinator still holds the transaction open or writes its markers.
    #[error("the coordinator is not done with the transaction; it will write the markers itself")]
    StillDeciding,
    /// The coordinator cannot be asked whether it is done.
    #[error("the coordinator does not tell whether it is done with the transaction")]
    Blind,
    /// Records of a later transaction of the producer id are open on the partition as well; one marker decides both.
    #[error(
        "a later transaction of the producer id is open on {partition}, too; one marker would decide both"
    )]
    Entangled {
        /// The partition.
        partition: TopicPartition,
    },
    /// What is open begins behind the stored offset: it is not this transaction.
    #[error("what is open on {partition} is not this transaction")]
    NotOpen {
        /// The partition.
        partition: TopicPartition,
    },
    /// There is no epoch after 32767.
    #[error("the marker's epoch would be above 32767")]
    NoEpochLeft,
}

/// A decision, and how it came about.
pub type Proven = (Decision, DecidedBy);

/// The decision on a committable's transaction, as its coordinator and the logs prove it. `logs` are the partitions
/// whose log could be read, `level` is the finalized level of `transaction.version`.
///
/// # Errors
/// [`RepairRefused::Open`] and [`RepairRefused::StillDeciding`] while there is no decision, or the coordinator carries it
/// out; [`RepairRefused::NotProven`] when nothing tells. An abort in one log proves nothing for the other partitions, for
/// an administrator may have written it: [`RepairRefused::Aborted`] names those that show one.
pub fn proven_decision(
    committable: &Committable,
    coordinator: &Described,
    logs: &[(TopicPartition, PartitionVerdict)],
    level: Option<i16>,
) -> Result<Proven, RepairRefused> {
    let pinned = committable.end_txn_version.map(DecidedBy::end_txn);
    let same = match coordinator {
        Described::Transaction(view) => {
            (same_transaction(committable, view) != SameTransaction::No).then_some(view)
        }
        Described::NotFound | Described::Relookup | Described::Retry | Described::Blind => None,
    };
    if let Some(view) = same {
        match view.state {
            CoordinatorState::PrepareCommit
            | CoordinatorState::PrepareAbort
            | CoordinatorState::PrepareEpochFence
            | CoordinatorState::Dead => return Err(RepairRefused::StillDeciding),
            CoordinatorState::Ongoing if view.identity == committable.identity => {
                return Err(RepairRefused::Open);
            }
            CoordinatorState::CompleteCommit => {
                return pinned.map(|by| (Decision::Commit, by)).ok_or(RepairRefused::NotProven);
            }
            CoordinatorState::CompleteAbort => {
                let aborted = || {
                    let all = committable.partitions.iter().map(|p| p.topic_partition());
                    RepairRefused::Aborted { partitions: all.collect() }
                };
                let level = level.ok_or_else(aborted)?;
                let rotated = view.identity.producer_id != committable.identity.producer_id;
                let proven = if rotated {
                    // The epochs were used up: only an end on V2 gives out a producer id by itself.
                    Some((Decision::Abort, DecidedBy::FenceV2))
                } else {
                    decision_in_view(view, committable.identity, level)
                };
                return proven.ok_or_else(aborted);
            }
            CoordinatorState::Ongoing | CoordinatorState::Empty | CoordinatorState::Unknown => {}
        }
    }
    match (combine(logs), pinned) {
        (LogProof::Committed { .. }, Some(by)) => Ok((Decision::Commit, by)),
        (LogProof::Lost { partitions }, _) => Err(RepairRefused::Aborted {
            partitions: partitions.into_iter().map(|(place, _)| place).collect(),
        }),
        (LogProof::Committed { .. } | LogProof::Nothing, _) => Err(RepairRefused::NotProven),
    }
}

/// The decision that a coordinator still shows for the transaction that is open as `open` on some partition, and how
/// it came about. `level` is the finalized level of `transaction.version`. `None` when the entry is about another
/// transaction or shows no decision.
#[must_use]
pub fn decision_in_view(view: &TransactionView, open: Identity, level: i16) -> Option<(Decision, DecidedBy)> {
    let decision = match view.state {
        CoordinatorState::CompleteCommit => Decision::Commit,
        CoordinatorState::CompleteAbort => Decision::Abort,
        CoordinatorState::Empty
        | CoordinatorState::Ongoing
        | CoordinatorState::PrepareCommit
        | CoordinatorState::PrepareAbort
        | CoordinatorState::PrepareEpochFence
        | CoordinatorState::Dead
        | CoordinatorState::Unknown => return None,
    };
    let raised = i32::from(view.identity.epoch.0) - i32::from(open.epoch.0);
    match (view.identity.producer_id == open.producer_id, raised, level >= 2, decision) {
        (true, 0, _, _) => Some((decision, DecidedBy::EndTxnV1)),
        (true, 1, true, _) => Some((decision, DecidedBy::EndTxnV2)),
        // Below level 2 only a fence raises the epoch by one and leaves CompleteAbort.
        (true, 1, false, Decision::Abort) => Some((decision, DecidedBy::FenceV1)),
        _ => None,
    }
}

fn places(partitions: &[TopicPartition]) -> String {
    partitions.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// The identity of the decision's markers, and the transaction version that belongs to it.
fn marker_of(identity: Identity, by: DecidedBy) -> Option<(Identity, i8)> {
    let raised = || Some(Identity::new(identity.producer_id.0, identity.epoch.0.checked_add(1)?));
    match by {
        DecidedBy::EndTxnV1 => Some((identity, 0)),
        DecidedBy::FenceV1 => Some((raised()?, 0)),
        DecidedBy::EndTxnV2 | DecidedBy::FenceV2 => Some((raised()?, 2)),
    }
}

/// Plans the markers that finish a hanging transaction. `now` is what its coordinator says after the partitions were
/// found open.
///
/// # Errors
/// [`RepairRefused`] names the reason; then nothing may be written anywhere.
pub fn plan_repair(
    hanging: &CommittedButHanging,
    now: &Described,
) -> Result<Vec<MarkerToWrite>, RepairRefused> {
    let by = hanging.by.ok_or(RepairRefused::NotProven)?;
    coordinator_is_done(hanging, now)?;
    let (identity, transaction_version) =
        marker_of(hanging.identity, by).ok_or(RepairRefused::NoEpochLeft)?;
    let marker = |p: &HangingPartition| -> Result<MarkerToWrite, RepairRefused> {
        if p.offset.is_some_and(|offset| p.open.start_offset > offset) || p.open.start_offset < 0 {
            return Err(RepairRefused::NotOpen { partition: p.partition.clone() });
        }
        if p.open.producer_epoch != hanging.identity.epoch {
            return Err(RepairRefused::Entangled { partition: p.partition.clone() });
        }
        Ok(MarkerToWrite {
            partition: p.partition.clone(),
            identity,
            decision: hanging.decision,
            coordinator_epoch: p.open.coordinator_epoch.max(0),
            transaction_version,
        })
    };
    hanging.partitions.iter().map(marker).collect()
}

fn coordinator_is_done(hanging: &CommittedButHanging, now: &Described) -> Result<(), RepairRefused> {
    let view = match now {
        Described::Transaction(view) => view,
        Described::NotFound => return Ok(()),
        Described::Relookup | Described::Retry | Described::Blind => return Err(RepairRefused::Blind),
    };
    match view.state {
        CoordinatorState::PrepareCommit | CoordinatorState::PrepareAbort => Err(RepairRefused::StillDeciding),
        CoordinatorState::PrepareEpochFence | CoordinatorState::Dead => Err(RepairRefused::StillDeciding),
        CoordinatorState::Ongoing if view.identity.producer_id == hanging.identity.producer_id => {
            Err(RepairRefused::StillDeciding)
        }
        CoordinatorState::Unknown => Err(RepairRefused::Blind),
        CoordinatorState::Ongoing
        | CoordinatorState::Empty
        | CoordinatorState::CompleteCommit
        | CoordinatorState::CompleteAbort => Ok(()),
    }
}

#[cfg(test)]
#[path = "repair_tests.rs"]
mod tests;

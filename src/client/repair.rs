//! Writes the marker of a proven decision where its coordinator lost it (KAFKA-20734).

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::{
    look,
    router::{Purpose, Router},
    settle,
};
use crate::{
    exchange::{Marker, WriteTxnMarkers},
    ids::{Identity, NodeId, TopicPartition},
    net::CallError,
    proto::{
        repair::{MarkerToWrite, RepairRefused, plan_repair},
        resume::Decision,
        settle::{CommittedButHanging, SettleError, SettleTarget},
        verdict::{self, WriteMarkerVerdict},
    },
    wire::code::ErrorCode,
};

/// Why a hanging decision was not repaired. Trying again is always right.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RepairError {
    /// The decision is not proven, or the marker would decide more than this transaction. Nothing was written.
    #[error("refused: {0}")]
    Refused(#[from] RepairRefused),
    /// A partition has no leader now.
    #[error("{partition} has no leader now")]
    NoLeader {
        /// The partition.
        partition: TopicPartition,
    },
    /// A broker refused the marker; ALTER on the cluster is needed.
    #[error("{partition}: {}", code.name())]
    Marker {
        /// The partition.
        partition: TopicPartition,
        /// The broker's code.
        code: ErrorCode,
    },
    /// A broker did not answer.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The markers are written, and something is still open.
    #[error("after the repair: {0}")]
    NotSettled(SettleError),
}

/// How long the state of things is asked for before and after.
const PATIENCE: Duration = Duration::from_secs(10);

/// Repairs, and sees that it worked. Repairing what is settled writes nothing.
pub(crate) async fn repair(router: &Arc<Router>, hanging: &CommittedButHanging) -> Result<(), RepairError> {
    // What was found open may have been ended since: only what is open now is written to.
    let hanging = match settle::settle(router, SettleTarget::again(hanging), PATIENCE).await {
        Ok(_) => return Ok(()),
        Err(SettleError::Hanging(hanging)) => *hanging,
        Err(e) => return Err(RepairError::NotSettled(e)),
    };
    let described = look::described(router, &hanging.transactional_id).await;
    let markers = plan_repair(&hanging, &described)?;
    for (node, marker) in by_leader(router, markers)? {
        write(router, node, marker).await?;
    }
    match settle::settle(router, SettleTarget::again(&hanging), PATIENCE).await {
        Ok(_) => Ok(()),
        Err(e) => Err(RepairError::NotSettled(e)),
    }
}

fn by_leader(router: &Router, markers: Vec<MarkerToWrite>) -> Result<Vec<(NodeId, Marker)>, RepairError> {
    // One request holds markers of one producer; partitions differ in their coordinator epoch at most.
    type Same = (NodeId, Identity, i32, i8);
    let mut groups: BTreeMap<Same, Marker> = BTreeMap::new();
    for m in markers {
        let Some(node) = router.leader(&m.partition) else {
            return Err(RepairError::NoLeader { partition: m.partition });
        };
        let marker = Marker {
            identity: m.identity,
            commit: m.decision == Decision::Commit,
            coordinator_epoch: m.coordinator_epoch,
            transaction_version: m.transaction_version,
            partitions: Vec::new(),
        };
        let same = (node, m.identity, m.coordinator_epoch, m.transaction_version);
        groups.entry(same).or_insert(marker).partitions.push(m.partition);
    }
    Ok(groups.into_iter().map(|((node, ..), marker)| (node, marker)).collect())
}

async fn write(router: &Arc<Router>, node: NodeId, marker: Marker) -> Result<(), RepairError> {
    let answer = router.ask(node, Purpose::Control, WriteTxnMarkers { marker }).await?;
    for (partition, code) in answer {
        router.answered(node, &partition, code);
        match verdict::write_marker(0, code) {
            WriteMarkerVerdict::Written => {}
            WriteMarkerVerdict::RetryAfterMetadata
            | WriteMarkerVerdict::Retry
            | WriteMarkerVerdict::CoordinatorFenced
            | WriteMarkerVerdict::EpochRefused
            | WriteMarkerVerdict::Denied
            | WriteMarkerVerdict::Unsupported
            | WriteMarkerVerdict::Failed => return Err(RepairError::Marker { partition, code }),
        }
    }
    Ok(())
}

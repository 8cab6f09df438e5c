use super::*;
use crate::{
    ids::{ProducerEpoch, TopicId, TransactionalId},
    proto::settle::OpenTransaction,
};

const OURS: Identity = Identity { producer_id: crate::ids::ProducerId(7), epoch: ProducerEpoch(3) };

fn hanging(decision: Decision) -> CommittedButHanging {
    let open = OpenTransaction { start_offset: 8, producer_epoch: OURS.epoch, coordinator_epoch: 2 };
    let partition = TopicPartition::new("t", 1);
    CommittedButHanging {
        transactional_id: TransactionalId::new("id"),
        identity: OURS,
        decision,
        partitions: vec![HangingPartition { partition, topic_id: TopicId([1; 16]), offset: Some(10), open }],
    }
}

fn proof(decision: Decision, by: DecidedBy) -> Option<ProvenDecision> {
    Some(ProvenDecision { identity: OURS, decision, by })
}

fn view(state: CoordinatorState, epoch: i16) -> TransactionView {
    TransactionView { state, start_ms: 1, identity: Identity::new(7, epoch), partitions: vec![] }
}

fn complete() -> Described {
    Described::Transaction(view(CoordinatorState::CompleteCommit, 4))
}

#[test]
fn markers_carry_the_epoch_and_version_of_their_decision() {
    for (decision, by, epoch, version) in [
        (Decision::Commit, DecidedBy::EndTxnV1, 3, 0),
        (Decision::Commit, DecidedBy::EndTxnV2, 4, 2),
        (Decision::Abort, DecidedBy::EndTxnV1, 3, 0),
        (Decision::Abort, DecidedBy::EndTxnV2, 4, 2),
        (Decision::Abort, DecidedBy::FenceV1, 4, 0),
        (Decision::Abort, DecidedBy::FenceV2, 4, 2),
    ] {
        let plan = plan_repair(&hanging(decision), proof(decision, by), &complete()).unwrap();
        assert_eq!(plan.len(), 1);
        assert_eq!((plan[0].identity, plan[0].transaction_version), (Identity::new(7, epoch), version));
        assert_eq!((plan[0].decision, plan[0].coordinator_epoch), (decision, 2));
    }
}

#[test]
fn nothing_is_written_without_proof_or_before_the_coordinator_is_done() {
    let commit = hanging(Decision::Commit);
    let proven = proof(Decision::Commit, DecidedBy::EndTxnV2);
    assert_eq!(plan_repair(&commit, None, &complete()), Err(RepairRefused::NotProven));
    for state in [CoordinatorState::PrepareCommit, CoordinatorState::PrepareAbort, CoordinatorState::Ongoing]
    {
        let now = Described::Transaction(view(state, 4));
        assert_eq!(plan_repair(&commit, proven, &now), Err(RepairRefused::StillDeciding));
    }
    assert_eq!(plan_repair(&commit, proven, &Described::Blind), Err(RepairRefused::Blind));
    assert!(plan_repair(&commit, proven, &Described::NotFound).is_ok());
}

#[test]
fn the_proof_must_be_of_this_transaction_and_this_decision() {
    let abort = proof(Decision::Abort, DecidedBy::EndTxnV2);
    let refused = plan_repair(&hanging(Decision::Commit), abort, &complete());
    assert_eq!(refused, Err(RepairRefused::AnotherTransaction));
    let mut other = hanging(Decision::Commit);
    other.identity = Identity::new(7, 2);
    let proven = proof(Decision::Commit, DecidedBy::EndTxnV2);
    assert_eq!(plan_repair(&other, proven, &complete()), Err(RepairRefused::AnotherTransaction));
}

#[test]
fn only_what_is_open_of_this_transaction_alone_is_decided() {
    let proven = proof(Decision::Commit, DecidedBy::EndTxnV2);
    let mut behind = hanging(Decision::Commit);
    behind.partitions[0].open.start_offset = 11;
    assert!(matches!(plan_repair(&behind, proven, &complete()), Err(RepairRefused::NotOpen { .. })));
    let mut entangled = hanging(Decision::Commit);
    entangled.partitions[0].open.producer_epoch = ProducerEpoch(4);
    assert!(matches!(plan_repair(&entangled, proven, &complete()), Err(RepairRefused::Entangled { .. })));
}

#[test]
fn there_is_no_epoch_after_the_last() {
    let mut last = hanging(Decision::Commit);
    last.identity = Identity::new(7, i16::MAX);
    let proven =
        Some(ProvenDecision { identity: last.identity, decision: Decision::Commit, by: DecidedBy::EndTxnV2 });
    assert_eq!(plan_repair(&last, proven, &complete()), Err(RepairRefused::NoEpochLeft));
}

#[test]
fn a_coordinator_proves_only_the_transaction_that_it_ended_last() {
    use CoordinatorState as S;
    let by = |state, epoch, level| ProvenDecision::from_view(&view(state, epoch), OURS, level).map(|p| p.by);
    assert_eq!(by(S::CompleteCommit, 3, 1), Some(DecidedBy::EndTxnV1));
    assert_eq!(by(S::CompleteCommit, 4, 2), Some(DecidedBy::EndTxnV2));
    // Below level 2 the epoch of a commit does not rise: this is the next transaction's.
    assert_eq!(by(S::CompleteCommit, 4, 1), None);
    assert_eq!(by(S::CompleteAbort, 4, 1), Some(DecidedBy::FenceV1));
    assert_eq!(by(S::CompleteCommit, 5, 2), None);
    assert_eq!(by(S::Empty, 4, 2), None);
    assert_eq!(by(S::PrepareCommit, 4, 2), None);
    let rotated = TransactionView { identity: Identity::new(9, 0), ..view(S::CompleteCommit, 0) };
    assert_eq!(ProvenDecision::from_view(&rotated, OURS, 2), None);
}

#[test]
fn a_partial_loss_proves_no_decision() {
    let committable = Committable {
        transactional_id: TransactionalId::new("id"),
        identity: OURS,
        end_txn_version: Some(5),
        start_ms: None,
        timeout_ms: None,
        deadline_ms: None,
        cluster_id: None,
        partitions: vec![],
    };
    let proven = ProvenDecision::from_outcome(&committable, &Outcome::Committed).unwrap();
    assert_eq!((proven.decision, proven.by), (Decision::Commit, DecidedBy::EndTxnV2));
    let lost = Outcome::Lost { partitions: vec![], cause: crate::proto::resume::LossCause::Log(vec![]) };
    assert_eq!(ProvenDecision::from_outcome(&committable, &lost), None);
}

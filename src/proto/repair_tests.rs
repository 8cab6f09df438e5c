use super::*;
use crate::{
    ids::{ProducerEpoch, TopicId, TransactionalId},
    proto::settle::OpenTransaction,
};

const OURS: Identity = Identity { producer_id: crate::ids::ProducerId(7), epoch: ProducerEpoch(3) };

fn hanging(decision: Decision, by: DecidedBy) -> CommittedButHanging {
    let open = OpenTransaction { start_offset: 8, producer_epoch: OURS.epoch, coordinator_epoch: 2 };
    let partition = TopicPartition::new("t", 1);
    CommittedButHanging {
        transactional_id: TransactionalId::new("id"),
        identity: OURS,
        decision,
        by: Some(by),
        partitions: vec![HangingPartition { partition, topic_id: TopicId([1; 16]), offset: Some(10), open }],
    }
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
        let plan = plan_repair(&hanging(decision, by), &complete()).unwrap();
        assert_eq!(plan.len(), 1);
        assert_eq!((plan[0].identity, plan[0].transaction_version), (Identity::new(7, epoch), version));
        assert_eq!((plan[0].decision, plan[0].coordinator_epoch), (decision, 2));
    }
}

fn commit() -> CommittedButHanging {
    hanging(Decision::Commit, DecidedBy::EndTxnV2)
}

#[test]
fn nothing_is_written_without_proof_or_before_the_coordinator_is_done() {
    let unproven = CommittedButHanging { by: None, ..commit() };
    assert_eq!(plan_repair(&unproven, &complete()), Err(RepairRefused::NotProven));
    for state in [CoordinatorState::PrepareCommit, CoordinatorState::PrepareAbort, CoordinatorState::Ongoing]
    {
        let now = Described::Transaction(view(state, 4));
        assert_eq!(plan_repair(&commit(), &now), Err(RepairRefused::StillDeciding));
    }
    assert_eq!(plan_repair(&commit(), &Described::Blind), Err(RepairRefused::Blind));
    assert!(plan_repair(&commit(), &Described::NotFound).is_ok());
}

#[test]
fn only_what_is_open_of_this_transaction_alone_is_decided() {
    let mut behind = commit();
    behind.partitions[0].open.start_offset = 11;
    assert!(matches!(plan_repair(&behind, &complete()), Err(RepairRefused::NotOpen { .. })));
    let mut entangled = commit();
    entangled.partitions[0].open.producer_epoch = ProducerEpoch(4);
    assert!(matches!(plan_repair(&entangled, &complete()), Err(RepairRefused::Entangled { .. })));
}

#[test]
fn there_is_no_epoch_after_the_last() {
    let last = CommittedButHanging { identity: Identity::new(7, i16::MAX), ..commit() };
    assert_eq!(plan_repair(&last, &complete()), Err(RepairRefused::NoEpochLeft));
}

#[test]
fn a_coordinator_proves_only_the_transaction_that_it_ended_last() {
    use CoordinatorState as S;
    let by = |state, epoch, level| decision_in_view(&view(state, epoch), OURS, level).map(|(_, by)| by);
    assert_eq!(by(S::CompleteCommit, 3, 1), Some(DecidedBy::EndTxnV1));
    assert_eq!(by(S::CompleteCommit, 4, 2), Some(DecidedBy::EndTxnV2));
    // Below level 2 the epoch of a commit does not rise: this is the next transaction's.
    assert_eq!(by(S::CompleteCommit, 4, 1), None);
    assert_eq!(by(S::CompleteAbort, 4, 1), Some(DecidedBy::FenceV1));
    assert_eq!(by(S::CompleteCommit, 5, 2), None);
    assert_eq!(by(S::Empty, 4, 2), None);
    assert_eq!(by(S::PrepareCommit, 4, 2), None);
    let rotated = TransactionView { identity: Identity::new(9, 0), ..view(S::CompleteCommit, 0) };
    assert_eq!(decision_in_view(&rotated, OURS, 2), None);
}

fn committable(version: i16) -> Committable {
    Committable {
        transactional_id: TransactionalId::new("id"),
        identity: OURS,
        end_txn_version: Some(version),
        start_ms: Some(1),
        timeout_ms: None,
        deadline_ms: None,
        cluster_id: None,
        partitions: vec![],
    }
}

fn proven(version: i16, now: &Described, logs: &[PartitionVerdict]) -> Result<Proven, RepairRefused> {
    let logs: Vec<_> = (0..).zip(logs).map(|(p, verdict)| (TopicPartition::new("t", p), *verdict)).collect();
    proven_decision(&committable(version), now, &logs, Some(if version >= 5 { 2 } else { 1 }))
}

fn shows(state: CoordinatorState, identity: Identity) -> Described {
    Described::Transaction(TransactionView { state, start_ms: 1, identity, partitions: vec![] })
}

#[test]
fn a_coordinator_that_still_knows_the_transaction_proves_its_decision() {
    use CoordinatorState::{CompleteAbort, CompleteCommit};
    let next = Identity::new(7, 4);
    let rotated = Identity::new(8, 0);
    for (version, state, identity, expected) in [
        (4, CompleteCommit, OURS, (Decision::Commit, DecidedBy::EndTxnV1)),
        (5, CompleteCommit, next, (Decision::Commit, DecidedBy::EndTxnV2)),
        (5, CompleteCommit, rotated, (Decision::Commit, DecidedBy::EndTxnV2)),
        (4, CompleteAbort, OURS, (Decision::Abort, DecidedBy::EndTxnV1)),
        (4, CompleteAbort, next, (Decision::Abort, DecidedBy::FenceV1)),
        (5, CompleteAbort, next, (Decision::Abort, DecidedBy::EndTxnV2)),
        (5, CompleteAbort, rotated, (Decision::Abort, DecidedBy::FenceV2)),
    ] {
        assert_eq!(proven(version, &shows(state, identity), &[]), Ok(expected), "{state:?} {identity}");
    }
}

#[test]
fn an_open_transaction_or_one_being_decided_is_left_alone() {
    assert_eq!(proven(5, &shows(CoordinatorState::Ongoing, OURS), &[]), Err(RepairRefused::Open));
    for state in [CoordinatorState::PrepareCommit, CoordinatorState::PrepareAbort] {
        let now = shows(state, Identity::new(7, 4));
        assert_eq!(proven(5, &now, &[]), Err(RepairRefused::StillDeciding));
    }
}

#[test]
fn a_commit_in_one_log_proves_the_decision_and_an_abort_in_one_does_not() {
    let stalls = PartitionVerdict::NoMarkerYet { last_stable_offset: 3 };
    let own =
        PartitionVerdict::Committed { marker_epoch: 4, records: crate::proto::evidence::RecordsLeft::Yes };
    let aborted = PartitionVerdict::Aborted { marker_epoch: 4 };
    let later = shows(CoordinatorState::Empty, Identity::new(7, 9));
    for now in [Described::NotFound, Described::Blind, later] {
        assert_eq!(proven(5, &now, &[stalls, own]), Ok((Decision::Commit, DecidedBy::EndTxnV2)));
        assert_eq!(proven(5, &now, &[stalls]), Err(RepairRefused::NotProven));
        for logs in [[stalls, aborted], [own, aborted]] {
            let partitions = vec![TopicPartition::new("t", 1)];
            assert_eq!(proven(5, &now, &logs), Err(RepairRefused::Aborted { partitions }));
        }
    }
}

#[test]
fn an_abort_is_told_even_if_nothing_shows_how_it_came_about() {
    // Without the level nobody knows which epoch the markers carry.
    let now = shows(CoordinatorState::CompleteAbort, Identity::new(7, 4));
    let told = proven_decision(&committable(5), &now, &[], None);
    assert_eq!(told, Err(RepairRefused::Aborted { partitions: vec![] }));
}

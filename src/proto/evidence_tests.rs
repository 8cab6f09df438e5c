use super::*;
use crate::ids::TransactionalId;

const OURS: Identity =
    Identity { producer_id: crate::ids::ProducerId(7), epoch: crate::ids::ProducerEpoch(3) };
const TOPIC: TopicId = TopicId([1; 16]);

fn committable(version: Option<i16>) -> Committable {
    Committable {
        transactional_id: TransactionalId::new("t"),
        identity: OURS,
        end_txn_version: version,
        start_ms: Some(1),
        timeout_ms: None,
        deadline_ms: None,
        cluster_id: None,
        partitions: vec![CommittablePartition {
            topic: "t".into(),
            partition: 0,
            topic_id: TOPIC,
            offset: 10,
            records: 5,
        }],
    }
}

/// Batches of one offset each, at the offsets of their places from `base`.
fn log(base: i64, kinds: &[(i64, i16, BatchKind)]) -> Vec<LogBatch> {
    let at = |(offset, (id, epoch, kind)): (i64, &(i64, i16, BatchKind))| LogBatch {
        base_offset: offset,
        last_offset: offset,
        identity: Identity::new(*id, *epoch),
        kind: *kind,
    };
    (base..).zip(kinds).map(at).collect()
}

/// Drives the machine over a whole log, two batches per read.
fn run(
    machine: &mut PartitionEvidence,
    topic: TopicId,
    batches: &[LogBatch],
    stable: i64,
) -> PartitionVerdict {
    let start = batches.first().map_or(0, |b| b.base_offset);
    let high_watermark = batches.last().map_or(0, |b| b.last_offset + 1);
    for _ in 0..100 {
        let Some(effect) = machine.poll_effect() else { break };
        let fact = match effect {
            EvidenceEffect::CheckTopic => EvidenceInput::Topic(topic),
            EvidenceEffect::FindLogStart => EvidenceInput::LogStart(start),
            EvidenceEffect::Read { from } if from < start || from > high_watermark => {
                EvidenceInput::OutOfRange
            }
            EvidenceEffect::Read { from } => EvidenceInput::Batches {
                batches: batches.iter().filter(|b| b.last_offset >= from).take(2).copied().collect(),
                high_watermark,
                last_stable_offset: stable,
            },
        };
        machine.handle(Moment(0), fact).unwrap();
    }
    machine.verdict().unwrap()
}

fn verdict(version: Option<i16>, batches: &[LogBatch]) -> PartitionVerdict {
    let c = committable(version);
    run(&mut PartitionEvidence::new(&c, version, &c.partitions[0]), TOPIC, batches, 10)
}

use BatchKind::{EmptyControl, Ends, Plain, Transactional};
use Marker::{Abort, Commit};

const DATA: (i64, i16, BatchKind) = (7, 3, Transactional);
const OTHER: (i64, i16, BatchKind) = (8, 0, Transactional);

#[test]
fn own_commit_epoch_depends_on_the_pinned_version() {
    let at = |epoch| log(10, &[DATA, OTHER, (8, 0, Ends(Commit)), (7, epoch, Ends(Commit))]);
    let committed = |marker_epoch| PartitionVerdict::Committed { marker_epoch, records: RecordsLeft::Yes };
    assert_eq!(verdict(Some(4), &at(3)), committed(3));
    assert_eq!(verdict(Some(5), &at(4)), committed(4));
    assert_eq!(verdict(Some(4), &at(4)), PartitionVerdict::CommitOfOtherEpoch { marker_epoch: 4 });
    assert_eq!(verdict(Some(5), &at(3)), PartitionVerdict::CommitOfOtherEpoch { marker_epoch: 3 });
    assert_eq!(verdict(Some(5), &at(9)), PartitionVerdict::CommitOfOtherEpoch { marker_epoch: 9 });
    assert_eq!(verdict(None, &at(3)), committed(3));
    assert_eq!(verdict(None, &at(4)), PartitionVerdict::CommitOfOtherEpoch { marker_epoch: 4 });
}

#[test]
fn an_abort_of_any_epoch_aborts() {
    for (version, epoch) in [(4, 3), (4, 4), (5, 4), (5, 9)] {
        let batches = log(10, &[DATA, (7, epoch, Ends(Abort)), (7, 3, Ends(Commit))]);
        assert_eq!(verdict(Some(version), &batches), PartitionVerdict::Aborted { marker_epoch: epoch });
    }
}

#[test]
fn the_commit_epoch_after_the_last_epoch_is_not_wrapped() {
    let mut c = committable(Some(5));
    c.identity = Identity::new(7, i16::MAX);
    let batches = log(10, &[(7, i16::MAX, Transactional), (7, i16::MAX, Ends(Commit))]);
    let mut machine = PartitionEvidence::new(&c, Some(5), &c.partitions[0]);
    let seen = run(&mut machine, TOPIC, &batches, 10);
    assert_eq!(seen, PartitionVerdict::CommitOfOtherEpoch { marker_epoch: i16::MAX });
}

#[test]
fn somebody_elses_record_at_the_offset_is_no_evidence() {
    let batches = log(10, &[OTHER, (7, 9, Ends(Commit))]);
    assert_eq!(verdict(Some(5), &batches), PartitionVerdict::Gone);
    let plain = log(10, &[(7, 3, Plain), (7, 5, Ends(Commit))]);
    assert_eq!(verdict(Some(5), &plain), PartitionVerdict::Gone);
    let older = log(10, &[(7, 2, Transactional), (7, 5, Ends(Commit))]);
    assert_eq!(verdict(Some(5), &older), PartitionVerdict::Gone);
}

#[test]
fn a_topic_created_anew_is_told_by_its_id() {
    let c = committable(Some(5));
    let mut machine = PartitionEvidence::new(&c, Some(5), &c.partitions[0]);
    let found = TopicId([2; 16]);
    let seen = run(&mut machine, found, &log(10, &[DATA, (7, 4, Ends(Commit))]), 12);
    assert_eq!(seen, PartitionVerdict::TopicRecreated { found });
    let mut machine = PartitionEvidence::new(&c, Some(5), &c.partitions[0]);
    machine.handle(Moment(0), EvidenceInput::TopicMissing).unwrap();
    assert_eq!(machine.verdict(), Some(PartitionVerdict::TopicMissing));
}

#[test]
fn removed_records_leave_the_marker_as_the_only_proof() {
    let marker = |epoch, marker| log(40, &[OTHER, (7, epoch, Ends(marker)), OTHER]);
    let committed = |marker_epoch| PartitionVerdict::Committed { marker_epoch, records: RecordsLeft::No };
    assert_eq!(verdict(Some(4), &marker(3, Commit)), committed(3));
    assert_eq!(verdict(Some(5), &marker(4, Commit)), committed(4));
    assert_eq!(verdict(Some(4), &marker(3, Abort)), PartitionVerdict::Aborted { marker_epoch: 3 });
    // On V1 this abort may be a fence of ours, or the end of the transaction after ours.
    assert_eq!(verdict(Some(4), &marker(4, Abort)), PartitionVerdict::Gone);
    assert_eq!(verdict(Some(5), &marker(5, Commit)), PartitionVerdict::Gone);
    assert_eq!(verdict(None, &marker(3, Commit)), PartitionVerdict::Gone);
    assert_eq!(verdict(Some(5), &[]), PartitionVerdict::Gone);
}

#[test]
fn without_a_known_topic_id_a_lone_marker_proves_nothing() {
    let mut c = committable(Some(5));
    c.partitions[0].topic_id = TopicId::UNKNOWN;
    let mut machine = PartitionEvidence::new(&c, Some(5), &c.partitions[0]);
    assert_eq!(run(&mut machine, TOPIC, &log(40, &[(7, 4, Ends(Commit))]), 41), PartitionVerdict::Gone);
    let mut machine = PartitionEvidence::new(&c, Some(5), &c.partitions[0]);
    let seen = run(&mut machine, TOPIC, &log(10, &[DATA, (7, 4, Ends(Commit))]), 12);
    assert!(matches!(seen, PartitionVerdict::Committed { .. }));
}

#[test]
fn a_control_batch_without_its_record_is_passed_over() {
    let batches = log(10, &[DATA, (7, 4, EmptyControl), (7, 5, Ends(Abort))]);
    assert_eq!(verdict(Some(5), &batches), PartitionVerdict::Aborted { marker_epoch: 5 });
    let c = committable(Some(5));
    let mut machine = PartitionEvidence::new(&c, Some(5), &c.partitions[0]);
    let seen = run(&mut machine, TOPIC, &log(10, &[DATA, (7, 4, EmptyControl)]), 12);
    assert_eq!(seen, PartitionVerdict::MarkerGone);
}

#[test]
fn nothing_that_ends_it_is_no_claim() {
    let batches = log(10, &[DATA, DATA, OTHER]);
    assert_eq!(verdict(Some(5), &batches), PartitionVerdict::NoMarkerYet { last_stable_offset: 10 });
}

#[test]
fn reading_ends_where_the_log_ended_when_it_began() {
    let c = committable(Some(5));
    let mut machine = PartitionEvidence::new(&c, Some(5), &c.partitions[0]);
    machine.handle(Moment(0), EvidenceInput::Topic(TOPIC)).unwrap();
    for round in 0..5 {
        let batches = log(10 + round, &[DATA]);
        let fact = EvidenceInput::Batches { batches, high_watermark: 13 + round, last_stable_offset: 10 };
        if machine.handle(Moment(0), fact).is_err() {
            assert_eq!(round, 3);
            break;
        }
    }
    assert!(machine.verdict().is_some());
}

#[test]
fn an_empty_answer_before_the_end_says_nothing() {
    let c = committable(Some(5));
    let mut machine = PartitionEvidence::new(&c, Some(5), &c.partitions[0]);
    machine.handle(Moment(0), EvidenceInput::Topic(TOPIC)).unwrap();
    let empty = EvidenceInput::Batches { batches: vec![], high_watermark: 12, last_stable_offset: 10 };
    while machine.poll_effect().is_some() {}
    machine.handle(Moment(0), empty).unwrap();
    assert_eq!(machine.verdict(), None);
    let seen = run(&mut machine, TOPIC, &log(10, &[DATA, (7, 4, Ends(Commit))]), 12);
    assert!(matches!(seen, PartitionVerdict::Committed { .. }));
}

#[test]
fn an_unasked_fact_changes_nothing() {
    let c = committable(Some(5));
    let mut machine = PartitionEvidence::new(&c, Some(5), &c.partitions[0]);
    assert_eq!(machine.handle(Moment(0), EvidenceInput::LogStart(0)), Err(Misuse));
    assert_eq!(machine.poll_effect(), Some(EvidenceEffect::CheckTopic));
    assert_eq!(machine.verdict(), None);
}

#[test]
fn one_abort_outweighs_commits_and_one_own_commit_proves_all() {
    let tp = |i| TopicPartition::new("t", i);
    let committed = (tp(0), PartitionVerdict::Committed { marker_epoch: 4, records: RecordsLeft::Yes });
    let aborted = (tp(1), PartitionVerdict::Aborted { marker_epoch: 4 });
    let other = (tp(2), PartitionVerdict::CommitOfOtherEpoch { marker_epoch: 6 });
    let gone = (tp(3), PartitionVerdict::Gone);
    let lost = combine(&[committed.clone(), aborted.clone(), other.clone()]);
    assert_eq!(lost, LogProof::Lost { partitions: vec![aborted] });
    let proof = combine(&[other.clone(), gone.clone(), committed]);
    assert_eq!(proof, LogProof::Committed { proven_by: vec![tp(0)] });
    assert_eq!(combine(&[other, gone]), LogProof::Nothing);
    assert_eq!(combine(&[]), LogProof::Nothing);
}

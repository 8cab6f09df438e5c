//! Offsets, the last stable offset, the aborted index, duplicates and markers.

use super::marker::testing::{data, idempotent, plain};
use super::*;
use kafka_protocol::error::ResponseError::*;

const RULES: AppendRules =
    AppendRules { leader_epoch: 4, first_sequence: FirstSequence::Any, append_time_ms: None };

const MARKERS: MarkerRules = MarkerRules { leader_epoch: 4, repeated: RepeatedMarker::Taken, now_ms: 1000 };

fn append(log: &mut PartitionLog, batch: &Batch) -> Result<i64, ResponseError> {
    log.append(batch, RULES).map(|appended| appended.base_offset)
}

fn marker(id: i64, epoch: i16, outcome: Outcome, version: i8) -> Marker {
    Marker {
        producer_id: id,
        producer_epoch: epoch,
        coordinator_epoch: 2,
        outcome,
        transaction_version: version,
    }
}

pub(super) fn end(
    log: &mut PartitionLog,
    id: i64,
    epoch: i16,
    outcome: Outcome,
) -> Result<(), ResponseError> {
    log.append_marker(&marker(id, epoch, outcome, 1), MARKERS)
}

fn producer(log: &PartitionLog, id: i64) -> Producer {
    log.producers().find(|(known, _)| *known == id).unwrap().1.clone()
}

#[test]
fn offsets_count_records_and_markers() {
    let mut log = PartitionLog::default();
    assert_eq!(append(&mut log, &data(1, 0, 0, 3)), Ok(0));
    assert_eq!(append(&mut log, &data(1, 0, 3, 2)), Ok(3));
    end(&mut log, 1, 0, Outcome::Commit).unwrap();
    assert_eq!(log.high_watermark(), 6);
}

#[test]
fn the_last_stable_offset_is_the_first_of_the_earliest_open_transaction() {
    let mut log = PartitionLog::default();
    append(&mut log, &data(1, 0, 0, 2)).unwrap();
    append(&mut log, &data(2, 0, 0, 1)).unwrap();
    assert_eq!(log.last_stable_offset(), 0);
    end(&mut log, 1, 0, Outcome::Commit).unwrap();
    assert_eq!(log.last_stable_offset(), 2);
    end(&mut log, 2, 0, Outcome::Abort).unwrap();
    assert_eq!(log.last_stable_offset(), log.high_watermark());
}

#[test]
fn read_committed_ends_at_the_last_stable_offset() {
    let mut log = PartitionLog::default();
    append(&mut log, &data(1, 0, 0, 2)).unwrap();
    end(&mut log, 1, 0, Outcome::Commit).unwrap();
    append(&mut log, &data(2, 0, 0, 1)).unwrap();
    let committed = log.read(0, Isolation::ReadCommitted, usize::MAX).unwrap();
    let all = log.read(0, Isolation::ReadUncommitted, usize::MAX).unwrap();
    assert_eq!(all.records.len() - committed.records.len(), data(2, 0, 0, 1).bytes().len());
    assert!(committed.aborted.is_empty());
}

#[test]
fn aborted_transactions_are_listed_where_they_overlap_the_read() {
    let mut log = PartitionLog::default();
    append(&mut log, &data(1, 0, 0, 2)).unwrap();
    append(&mut log, &data(2, 0, 0, 1)).unwrap();
    end(&mut log, 1, 0, Outcome::Abort).unwrap();
    end(&mut log, 2, 0, Outcome::Commit).unwrap();
    append(&mut log, &data(3, 0, 0, 1)).unwrap();
    end(&mut log, 3, 0, Outcome::Abort).unwrap();
    let aborted = |from| log.read(from, Isolation::ReadCommitted, usize::MAX).unwrap().aborted;
    let first = Aborted { producer_id: 1, first_offset: 0, last_offset: 3 };
    let second = Aborted { producer_id: 3, first_offset: 5, last_offset: 6 };
    assert_eq!(aborted(0), [first, second]);
    assert_eq!(aborted(3), [first, second]);
    assert_eq!(aborted(4), [second]);
    let one_batch = log.read(0, Isolation::ReadCommitted, 1).unwrap();
    assert_eq!(one_batch.aborted, [first]);
}

#[test]
fn a_read_starts_with_the_batch_that_holds_the_offset_and_returns_at_least_one() {
    let mut log = PartitionLog::default();
    append(&mut log, &plain(3)).unwrap();
    append(&mut log, &plain(1)).unwrap();
    let read = log.read(2, Isolation::ReadUncommitted, 1).unwrap();
    assert_eq!(read.records[..8], 0i64.to_be_bytes());
    assert_eq!(read.records[12..16], 4i32.to_be_bytes());
    assert!(log.read(4, Isolation::ReadUncommitted, 1).unwrap().records.is_empty());
    assert_eq!(log.read(5, Isolation::ReadUncommitted, 1).unwrap_err(), OffsetOutOfRange);
}

#[test]
fn each_of_the_last_five_batches_is_recognised_and_no_other() {
    let mut log = PartitionLog::default();
    for n in 0..6 {
        append(&mut log, &data(1, 0, n * 2, 2)).unwrap();
    }
    for n in 1..6 {
        assert_eq!(append(&mut log, &data(1, 0, n * 2, 2)), Ok(i64::from(n) * 2));
    }
    assert_eq!(append(&mut log, &data(1, 0, 0, 2)), Err(OutOfOrderSequenceNumber));
    assert_eq!(append(&mut log, &data(1, 0, 10, 1)), Err(OutOfOrderSequenceNumber));
    assert_eq!(append(&mut log, &data(1, 0, 13, 1)), Err(OutOfOrderSequenceNumber));
    assert_eq!(log.high_watermark(), 12);
}

#[test]
fn sequences_wrap_from_int_max_to_zero() {
    let mut log = PartitionLog::default();
    append(&mut log, &data(1, 0, i32::MAX - 1, 2)).unwrap();
    assert_eq!(append(&mut log, &data(1, 0, 0, 1)), Ok(2));
    assert_eq!(append(&mut log, &data(1, 0, 1, 1)), Ok(3));
}

#[test]
fn a_new_epoch_starts_at_zero_and_fences_the_old_one() {
    let mut log = PartitionLog::default();
    append(&mut log, &data(1, 3, 0, 1)).unwrap();
    end(&mut log, 1, 3, Outcome::Commit).unwrap();
    assert_eq!(append(&mut log, &data(1, 4, 1, 1)), Err(OutOfOrderSequenceNumber));
    append(&mut log, &data(1, 4, 0, 1)).unwrap();
    assert_eq!(append(&mut log, &data(1, 3, 1, 1)), Err(InvalidProducerEpoch));
}

#[test]
fn without_state_any_first_sequence_is_taken_except_on_v2() {
    let mut log = PartitionLog::default();
    let v2 = AppendRules { first_sequence: FirstSequence::Zero, ..RULES };
    assert_eq!(log.append(&data(1, 0, 5, 1), v2).unwrap_err(), OutOfOrderSequenceNumber);
    assert_eq!(append(&mut log, &data(1, 0, 5, 1)), Ok(0));
}

#[test]
fn v1_markers_keep_the_sequences_and_v2_markers_forget_them() {
    let mut log = PartitionLog::default();
    append(&mut log, &data(1, 0, 0, 2)).unwrap();
    end(&mut log, 1, 0, Outcome::Commit).unwrap();
    assert_eq!(append(&mut log, &data(1, 0, 0, 2)), Ok(0), "a restart at 0 is taken for a duplicate");
    assert_eq!(append(&mut log, &data(1, 0, 2, 1)), Ok(3));
    log.append_marker(&marker(1, 1, Outcome::Commit, 2), MARKERS).unwrap();
    assert_eq!(producer(&log, 1).last_sequence(), -1);
    assert_eq!(append(&mut log, &data(1, 0, 3, 1)), Err(InvalidProducerEpoch));
    assert_eq!(append(&mut log, &data(1, 1, 0, 1)), Ok(5));
}

#[test]
fn a_v2_marker_needs_a_higher_epoch_while_something_is_open() {
    let mut log = PartitionLog::default();
    append(&mut log, &data(1, 5, 0, 1)).unwrap();
    let write =
        |log: &mut PartitionLog, epoch| log.append_marker(&marker(1, epoch, Outcome::Commit, 2), MARKERS);
    assert_eq!(write(&mut log, 5), Err(InvalidProducerEpoch));
    write(&mut log, 6).unwrap();
    write(&mut log, 6).unwrap();
    assert_eq!(write(&mut log, 5), Err(InvalidProducerEpoch));
    assert_eq!(log.high_watermark(), 3);
}

#[test]
fn markers_of_an_older_coordinator_are_fenced() {
    let mut log = PartitionLog::default();
    append(&mut log, &data(1, 0, 0, 1)).unwrap();
    end(&mut log, 1, 0, Outcome::Commit).unwrap();
    let zombie = Marker { coordinator_epoch: 1, ..marker(1, 0, Outcome::Abort, 1) };
    assert_eq!(log.append_marker(&zombie, MARKERS), Err(TransactionCoordinatorFenced));
}

#[test]
fn one_marker_closes_everything_that_was_open_for_the_producer() {
    let mut log = PartitionLog::default();
    append(&mut log, &data(1, 0, 0, 1)).unwrap(); // its marker is never written
    append(&mut log, &data(1, 1, 0, 1)).unwrap();
    assert_eq!(producer(&log, 1).open_from, Some(0));
    end(&mut log, 1, 1, Outcome::Abort).unwrap();
    let aborted = log.read(0, Isolation::ReadCommitted, usize::MAX).unwrap().aborted;
    assert_eq!(aborted, [Aborted { producer_id: 1, first_offset: 0, last_offset: 2 }]);
}

#[test]
fn a_marker_without_a_transaction_is_kept_but_aborts_nothing() {
    let mut log = PartitionLog::default();
    end(&mut log, 1, 0, Outcome::Abort).unwrap();
    assert_eq!((log.high_watermark(), log.last_stable_offset()), (1, 1));
    assert!(log.read(0, Isolation::ReadCommitted, usize::MAX).unwrap().aborted.is_empty());
}

#[test]
fn plain_writes_inside_a_transaction_are_refused() {
    let mut log = PartitionLog::default();
    append(&mut log, &data(1, 0, 0, 1)).unwrap();
    assert_eq!(append(&mut log, &idempotent(1, 0, 1, 1)), Err(InvalidTxnState));
}

#[test]
fn deleting_records_of_an_open_transaction_moves_the_last_stable_offset_with_the_log_start() {
    let mut log = PartitionLog::default();
    append(&mut log, &data(1, 0, 0, 3)).unwrap();
    append(&mut log, &data(1, 0, 3, 1)).unwrap();
    assert_eq!(log.delete_before(1), Ok(1));
    assert_eq!(log.last_stable_offset(), 0, "the batch that holds the log start begins below it");
    assert_eq!(log.delete_before(3), Ok(3));
    assert_eq!(log.last_stable_offset(), 3);
    assert_eq!(log.delete_before(-1), Ok(4));
    assert_eq!(log.delete_before(9), Err(OffsetOutOfRange));
    assert_eq!(log.read(0, Isolation::ReadUncommitted, 1).unwrap_err(), OffsetOutOfRange);
    assert!(log.has_ongoing(1, 0));
}

#[test]
fn idle_producers_are_forgotten_and_open_ones_kept() {
    let mut log = PartitionLog::default();
    append(&mut log, &data(1, 0, 0, 1)).unwrap();
    append(&mut log, &data(2, 0, 0, 1)).unwrap();
    end(&mut log, 2, 0, Outcome::Commit).unwrap();
    log.forget_idle_producers();
    assert_eq!(log.producers().map(|(id, _)| id).collect::<Vec<_>>(), [1]);
}

#[test]
fn before_kafka_19999_a_repeated_marker_is_refused_and_a_first_one_taken() {
    let mut log = PartitionLog::default();
    append(&mut log, &data(1, 0, 0, 2)).unwrap();
    let strict = MarkerRules { repeated: RepeatedMarker::Refused, ..MARKERS };
    let end = |log: &mut PartitionLog, rules| log.append_marker(&marker(1, 1, Outcome::Commit, 2), rules);
    assert_eq!(end(&mut log, strict), Ok(()));
    assert_eq!(end(&mut log, strict), Err(InvalidProducerEpoch));
    assert_eq!(end(&mut log, MARKERS), Ok(()));
}

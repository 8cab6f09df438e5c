use proptest::prelude::*;

use super::*;

const A: i64 = 1;
const B: i64 = 2;

fn seen(last_offset: i64, producer: i64, content: BatchContent) -> BatchSeen {
    BatchSeen { last_offset, producer_id: (producer >= 0).then_some(ProducerId(producer)), content }
}

fn data(last: i64, producer: i64) -> BatchSeen {
    seen(last, producer, BatchContent::Transactional)
}

fn ends(at: i64, producer: i64, control: ControlType) -> BatchSeen {
    seen(at, producer, BatchContent::Control(Some(control)))
}

fn abort(at: i64, producer: i64) -> BatchSeen {
    ends(at, producer, ControlType::Abort)
}

fn aborted(list: &[(i64, i64)]) -> Vec<AbortedTransaction> {
    list.iter().map(|&(producer_id, first_offset)| AbortedTransaction { producer_id, first_offset }).collect()
}

/// The last offsets of the batches that are handed out.
fn read(filter: &mut Filter, log: &[BatchSeen]) -> Vec<i64> {
    let judged = log.iter().map(|batch| (batch.last_offset, filter.judge(batch)));
    judged.filter(|(_, sight)| matches!(sight, Sight::Deliver { .. })).map(|(last, _)| last).collect()
}

#[track_caller]
fn reads(list: &[(i64, i64)], log: &[BatchSeen], expected: &[i64]) {
    let mut filter = Filter::committed(0, &aborted(list));
    assert_eq!(read(&mut filter, log), expected);
    assert_eq!(filter.position(), log.last().unwrap().last_offset + 1);
}

#[test]
fn an_aborted_transaction_is_passed_over_and_what_is_around_it_is_not() {
    let log = [data(3, A), data(5, B), data(6, A), abort(7, A), data(9, A), ends(10, B, ControlType::Commit)];
    reads(&[(A, 0)], &log, &[5, 9]);
}

#[test]
fn the_list_may_be_in_any_order_and_name_a_producer_several_times() {
    let log = [data(0, A), abort(1, A), data(2, B), data(3, A), abort(4, A), abort(5, B), data(6, A)];
    for list in [[(A, 0), (B, 2), (A, 3)], [(A, 3), (B, 2), (A, 0)], [(B, 2), (A, 3), (A, 0)]] {
        reads(&list, &log, &[6]);
    }
}

#[test]
fn entries_behind_the_payload_touch_nothing() {
    reads(&[(A, 50), (B, 7)], &[data(0, A), data(6, B)], &[0, 6]);
}

#[test]
fn an_abort_without_data_takes_no_other_entry() {
    let log = [abort(0, B), data(1, A), abort(2, B), data(3, A), abort(4, A), data(5, B)];
    reads(&[(A, 1)], &log, &[5]);
}

#[test]
fn two_aborts_of_one_producer_in_a_row_end_one_transaction() {
    let log = [data(0, A), abort(1, A), abort(2, A), data(3, A), ends(4, A, ControlType::Commit)];
    reads(&[(A, 0)], &log, &[3]);
}

#[test]
fn a_commit_or_an_unknown_control_record_ends_no_abort() {
    let log = [data(0, A), ends(1, B, ControlType::Commit), ends(2, A, ControlType::Other(7)), data(3, A)];
    reads(&[(A, 0)], &log, &[]);
}

#[test]
fn an_empty_control_batch_is_no_marker() {
    let log = [data(0, A), seen(1, A, BatchContent::Control(None)), data(2, A), abort(3, A), data(4, A)];
    reads(&[(A, 0)], &log, &[4]);
}

#[test]
fn records_outside_of_transactions_are_read_whoever_wrote_them() {
    let plain = |last, producer| seen(last, producer, BatchContent::Plain);
    reads(&[(A, 0)], &[data(0, A), plain(1, A), plain(2, -1), abort(3, A)], &[1, 2]);
}

#[test]
fn a_reader_of_everything_sees_no_list() {
    let mut filter = Filter::uncommitted(0);
    let log = [data(0, A), abort(1, A), data(2, A)];
    assert_eq!(read(&mut filter, &log), [0, 2]);
}

#[test]
fn a_first_batch_that_begins_early_is_cut_at_the_position() {
    let mut filter = Filter::committed(5, &[]);
    assert_eq!(filter.judge(&data(4, A)), Sight::Behind);
    assert_eq!(filter.position(), 5, "the position never goes back");
    assert_eq!(filter.judge(&data(9, A)), Sight::Deliver { from: 5 });
    assert_eq!(filter.position(), 10);
}

#[test]
fn a_transaction_that_began_before_the_position_is_passed_over() {
    let mut filter = Filter::committed(5, &aborted(&[(A, 0)]));
    assert_eq!(filter.judge(&data(8, A)), Sight::Aborted);
    assert_eq!(filter.position(), 9);
}

/// One step of a made-up log.
#[derive(Debug, Clone, Copy)]
enum Step {
    Write { producer: i64, records: i64 },
    Plain { producer: i64, records: i64 },
    End { producer: i64, commit: bool },
    Empty { producer: i64 },
}

/// A batch, and whether a reader of committed records sees it.
struct Entry {
    first: i64,
    batch: BatchSeen,
    visible: bool,
}

/// Plays the steps as a broker would, and ends every transaction: the log, and (producer, first offset, marker's
/// offset) of what was aborted.
fn play(steps: &[Step]) -> (Vec<Entry>, Vec<(i64, i64, i64)>) {
    let mut log: Vec<Entry> = Vec::new();
    let mut list = Vec::new();
    let close = (0..4).map(|producer| Step::End { producer, commit: producer % 2 == 0 });
    for step in steps.iter().copied().chain(close) {
        let first = log.last().map_or(0, |e| e.batch.last_offset + 1);
        let mut push = |records: i64, producer, content, visible| {
            log.push(Entry { first, batch: seen(first + records - 1, producer, content), visible });
        };
        match step {
            Step::Write { producer, records } => push(records, producer, BatchContent::Transactional, true),
            Step::Plain { producer, records } => push(records, producer, BatchContent::Plain, true),
            Step::Empty { producer } => push(1, producer, BatchContent::Control(None), false),
            Step::End { producer, commit } => {
                let control = if commit { ControlType::Commit } else { ControlType::Abort };
                push(1, producer, BatchContent::Control(Some(control)), false);
                let mut begun = None;
                for entry in log.iter_mut().rev().skip(1) {
                    if entry.batch.producer_id != Some(ProducerId(producer)) {
                        continue;
                    }
                    match entry.batch.content {
                        BatchContent::Control(Some(_)) => break,
                        BatchContent::Control(None) | BatchContent::Plain => {}
                        BatchContent::Transactional => {
                            entry.visible = commit;
                            begun = Some(entry.first);
                        }
                    }
                }
                list.extend(begun.filter(|_| !commit).map(|begun| (producer, begun, first)));
            }
        }
    }
    (log, list)
}

fn any_step() -> impl Strategy<Value = Step> {
    let producer = 0..4i64;
    prop_oneof![
        4 => (producer.clone(), 1..4i64).prop_map(|(producer, records)| Step::Write { producer, records }),
        1 => (producer.clone(), 1..4i64).prop_map(|(producer, records)| Step::Plain { producer, records }),
        2 => (producer.clone(), any::<bool>()).prop_map(|(producer, commit)| Step::End { producer, commit }),
        1 => producer.prop_map(|producer| Step::Empty { producer }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// From wherever a fetch begins, with the list as a broker cuts it and in any order.
    #[test]
    fn exactly_what_was_not_aborted_is_read(
        steps in proptest::collection::vec(any_step(), 0..40),
        start in 0..1_000i64,
        shuffle in any::<i64>(),
    ) {
        let (log, list) = play(&steps);
        let end = log.last().map_or(0, |e| e.batch.last_offset + 1);
        let start = start * end / 1_000;
        let payload: Vec<_> = log.iter().filter(|e| e.batch.last_offset >= start).collect();
        let list = list.iter().filter(|(.., marker)| *marker >= start);
        let mut list: Vec<_> = list.map(|&(producer, first, _)| (producer, first)).collect();
        list.sort_by_key(|(producer, first)| (first ^ shuffle).wrapping_mul(producer | 1));
        let mut filter = Filter::committed(start, &aborted(&list));
        for entry in payload {
            let from = filter.position();
            let sight = filter.judge(&entry.batch);
            prop_assert_eq!(matches!(sight, Sight::Deliver { .. }), entry.visible, "{:?}", entry.batch);
            prop_assert!(filter.position() > from);
        }
        prop_assert_eq!(filter.position(), end);
    }
}

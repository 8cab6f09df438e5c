//! One test per cell of the coordinator's decision tables, and the transitions between them.

use super::end_txn::{Decision, decide};
use super::entry::{Entry, Pair, State};
use super::init_producer_id::{Decision as InitDecision, Request};
use super::*;
use crate::broker::log::marker::Outcome::{Abort, Commit};
use crate::wire::versions::TransactionVersion::{V1, V2};

const ID: i64 = 7;
const EPOCH: i16 = 5;
const LAST_EPOCH: i16 = 32766;

fn at(state: State, id: i64, epoch: i16) -> Entry {
    let mut entry = Entry::fresh(id, 60_000, 0);
    entry.pair = Pair { id, epoch };
    entry.previous_id = id;
    entry.state = state;
    entry
}

/// An entry whose producer id was rotated from `ID` by the end of its last transaction.
fn rotated(state: State) -> Entry {
    let mut entry = at(state, ID + 1, 0);
    entry.previous_id = ID;
    entry
}

fn who(epoch: i16) -> Pair {
    Pair { id: ID, epoch }
}

/// One test per row: `name: entry, asking pair, outcome, version => decision`.
macro_rules! cells {
    ($($name:ident: $entry:expr, $who:expr, $outcome:expr, $version:expr => $expected:expr;)*) => {
        $(#[test]
        fn $name() {
            assert_eq!(decide(&$entry, $who, $outcome, $version), $expected);
        })*
    };
}

mod end_txn_v1 {
    use super::*;
    use State::*;
    use kafka_protocol::error::ResponseError::*;

    cells! {
        other_producer_id: at(Ongoing, ID + 1, EPOCH), who(EPOCH), Commit, V1 => Err(InvalidProducerIdMapping);
        other_producer_id_while_preparing: at(PrepareCommit, ID + 1, EPOCH), who(EPOCH), Commit, V1
            => Err(InvalidProducerIdMapping);
        older_epoch_commit: at(Ongoing, ID, EPOCH + 1), who(EPOCH), Commit, V1 => Err(ProducerFenced);
        older_epoch_abort: at(Ongoing, ID, EPOCH + 1), who(EPOCH), Abort, V1 => Err(ProducerFenced);
        newer_epoch: at(Ongoing, ID, EPOCH - 1), who(EPOCH), Commit, V1 => Err(ProducerFenced);
        older_epoch_while_preparing: at(PrepareAbort, ID, EPOCH + 1), who(EPOCH), Commit, V1 => Err(ProducerFenced);
        older_epoch_after_completion: at(CompleteAbort, ID, EPOCH + 1), who(EPOCH), Commit, V1 => Err(ProducerFenced);
        ongoing_commit: at(Ongoing, ID, EPOCH), who(EPOCH), Commit, V1 => Ok(Decision::Prepare);
        ongoing_abort: at(Ongoing, ID, EPOCH), who(EPOCH), Abort, V1 => Ok(Decision::Prepare);
        prepare_commit_commit: at(PrepareCommit, ID, EPOCH), who(EPOCH), Commit, V1 => Err(ConcurrentTransactions);
        prepare_commit_abort: at(PrepareCommit, ID, EPOCH), who(EPOCH), Abort, V1 => Err(ConcurrentTransactions);
        prepare_abort_commit: at(PrepareAbort, ID, EPOCH), who(EPOCH), Commit, V1 => Err(ConcurrentTransactions);
        prepare_abort_abort: at(PrepareAbort, ID, EPOCH), who(EPOCH), Abort, V1 => Err(ConcurrentTransactions);
        complete_commit_commit: at(CompleteCommit, ID, EPOCH), who(EPOCH), Commit, V1 => Ok(Decision::Repeated);
        complete_commit_abort: at(CompleteCommit, ID, EPOCH), who(EPOCH), Abort, V1 => Err(InvalidTxnState);
        complete_abort_commit: at(CompleteAbort, ID, EPOCH), who(EPOCH), Commit, V1 => Err(InvalidTxnState);
        complete_abort_abort: at(CompleteAbort, ID, EPOCH), who(EPOCH), Abort, V1 => Ok(Decision::Repeated);
        empty_commit: at(Empty, ID, EPOCH), who(EPOCH), Commit, V1 => Err(InvalidTxnState);
        empty_abort: at(Empty, ID, EPOCH), who(EPOCH), Abort, V1 => Err(InvalidTxnState);
        after_a_v2_end: at(CompleteCommit, ID, EPOCH + 1), who(EPOCH), Commit, V1 => Err(ProducerFenced);
        after_a_rotation: rotated(CompleteCommit), who(LAST_EPOCH), Commit, V1 => Err(InvalidProducerIdMapping);
        while_rotating: at(PrepareCommit, ID, i16::MAX), who(LAST_EPOCH), Commit, V1 => Err(ProducerFenced);
    }
}

mod end_txn_v2 {
    use super::*;
    use State::*;
    use kafka_protocol::error::ResponseError::*;

    cells! {
        preparing_commit: at(PrepareCommit, ID, EPOCH + 1), who(EPOCH), Commit, V2 => Err(ConcurrentTransactions);
        preparing_abort: at(PrepareAbort, ID, EPOCH + 1), who(EPOCH), Abort, V2 => Err(ConcurrentTransactions);
        preparing_wins_over_producer_id: at(PrepareAbort, ID + 1, EPOCH), who(EPOCH), Commit, V2
            => Err(ConcurrentTransactions);
        preparing_wins_over_epoch: at(PrepareCommit, ID, EPOCH + 9), who(EPOCH), Commit, V2
            => Err(ConcurrentTransactions);
        other_producer_id: at(Ongoing, ID + 1, EPOCH), who(EPOCH), Commit, V2 => Err(InvalidProducerIdMapping);
        ongoing_commit: at(Ongoing, ID, EPOCH), who(EPOCH), Commit, V2 => Ok(Decision::Prepare);
        ongoing_abort: at(Ongoing, ID, EPOCH), who(EPOCH), Abort, V2 => Ok(Decision::Prepare);
        ongoing_bumped_commit: at(Ongoing, ID, EPOCH + 1), who(EPOCH), Commit, V2 => Err(ProducerFenced);
        ongoing_bumped_abort: at(Ongoing, ID, EPOCH + 1), who(EPOCH), Abort, V2 => Err(ProducerFenced);
        ongoing_newer_epoch: at(Ongoing, ID, EPOCH), who(EPOCH + 1), Commit, V2 => Err(ProducerFenced);
        complete_commit_repeated_commit: at(CompleteCommit, ID, EPOCH + 1), who(EPOCH), Commit, V2
            => Ok(Decision::Repeated);
        complete_commit_repeated_abort: at(CompleteCommit, ID, EPOCH + 1), who(EPOCH), Abort, V2
            => Err(InvalidTxnState);
        complete_commit_current_commit: at(CompleteCommit, ID, EPOCH), who(EPOCH), Commit, V2 => Err(InvalidTxnState);
        complete_commit_current_abort: at(CompleteCommit, ID, EPOCH), who(EPOCH), Abort, V2 => Ok(Decision::Prepare);
        complete_commit_otherwise_commit: at(CompleteCommit, ID, EPOCH + 2), who(EPOCH), Commit, V2
            => Err(ProducerFenced);
        complete_commit_otherwise_abort: at(CompleteCommit, ID, EPOCH + 2), who(EPOCH), Abort, V2
            => Err(ProducerFenced);
        complete_abort_repeated_commit: at(CompleteAbort, ID, EPOCH + 1), who(EPOCH), Commit, V2
            => Err(InvalidTxnState);
        complete_abort_repeated_abort: at(CompleteAbort, ID, EPOCH + 1), who(EPOCH), Abort, V2
            => Ok(Decision::Repeated);
        complete_abort_current_commit: at(CompleteAbort, ID, EPOCH), who(EPOCH), Commit, V2 => Err(InvalidTxnState);
        complete_abort_current_abort: at(CompleteAbort, ID, EPOCH), who(EPOCH), Abort, V2 => Ok(Decision::Prepare);
        complete_abort_otherwise_commit: at(CompleteAbort, ID, EPOCH + 2), who(EPOCH), Commit, V2
            => Err(ProducerFenced);
        complete_abort_otherwise_abort: at(CompleteAbort, ID, EPOCH + 2), who(EPOCH), Abort, V2
            => Err(ProducerFenced);
        empty_current_commit: at(Empty, ID, EPOCH), who(EPOCH), Commit, V2 => Err(InvalidTxnState);
        empty_current_abort: at(Empty, ID, EPOCH), who(EPOCH), Abort, V2 => Ok(Decision::Prepare);
        empty_bumped_commit: at(Empty, ID, EPOCH + 1), who(EPOCH), Commit, V2 => Err(ProducerFenced);
        empty_bumped_abort: at(Empty, ID, EPOCH + 1), who(EPOCH), Abort, V2 => Err(ProducerFenced);
        rotated_commit_repeated: rotated(CompleteCommit), who(LAST_EPOCH), Commit, V2 => Ok(Decision::Repeated);
        rotated_abort_repeated: rotated(CompleteAbort), who(LAST_EPOCH), Abort, V2 => Ok(Decision::Repeated);
        rotated_abort_then_commit: rotated(CompleteAbort), who(LAST_EPOCH), Commit, V2 => Err(InvalidTxnState);
        rotated_but_not_from_the_last_epoch: rotated(CompleteCommit), who(EPOCH), Commit, V2
            => Err(InvalidProducerIdMapping);
        committed_by_v1: at(CompleteCommit, ID, EPOCH), who(EPOCH), Commit, V2 => Err(InvalidTxnState);
    }
}

const TXN: &str = "txn";

fn partition() -> TopicPartition {
    TopicPartition::new("t", 0)
}

fn init(c: &mut Coordinator, expected: Option<Pair>, now: i64) -> Result<InitDecision, ResponseError> {
    c.init_producer_id(TXN, Request { expected, timeout_ms: 60_000 }, now)
}

fn ready(c: &mut Coordinator, expected: Option<Pair>) -> Pair {
    match init(c, expected, 1).unwrap() {
        InitDecision::Ready(pair) => pair,
        InitDecision::Fence => panic!("an open transaction was fenced"),
    }
}

/// A coordinator whose id is at `epoch`, and its pair.
fn coordinator(version: TransactionVersion, epoch: i16) -> (Coordinator, Pair) {
    let mut c = Coordinator::new(900_000, version);
    let mut pair = ready(&mut c, None);
    pair.epoch = epoch;
    c.entry_mut(TXN).unwrap().pair = pair;
    (c, pair)
}

fn open(c: &mut Coordinator, pair: Pair, now: i64) {
    c.add_partitions(TXN, pair, &[partition()], now).unwrap();
}

fn complete(c: &mut Coordinator, now: i64) -> &Entry {
    c.entry_mut(TXN).unwrap().complete(now);
    c.entry(TXN).unwrap()
}

#[test]
fn a_new_id_starts_at_epoch_0_and_every_init_raises_it() {
    let mut c = Coordinator::new(900_000, V2);
    assert_eq!(ready(&mut c, None), Pair { id: 0, epoch: 0 });
    assert_eq!(ready(&mut c, None), Pair { id: 0, epoch: 1 });
    assert_eq!(c.entry(TXN).unwrap().start_ms, -1);
}

#[test]
fn timeouts_outside_the_brokers_limit_are_refused() {
    let mut c = Coordinator::new(900_000, V2);
    for timeout_ms in [0, -1, 900_001] {
        let refused = c.init_producer_id(TXN, Request { expected: None, timeout_ms }, 0);
        assert_eq!(refused, Err(ResponseError::InvalidTransactionTimeout), "{timeout_ms}");
    }
    assert!(c.entry(TXN).is_none());
}

#[test]
fn an_init_that_names_its_pair_may_be_repeated_once_answered() {
    let (mut c, pair) = coordinator(V1, EPOCH);
    let next = ready(&mut c, Some(pair));
    assert_eq!(next.epoch, EPOCH + 1);
    assert_eq!(ready(&mut c, Some(pair)), next);
}

#[test]
fn after_a_failover_the_repeated_init_is_fenced_and_the_new_pair_works() {
    let (mut c, pair) = coordinator(V1, EPOCH);
    let next = ready(&mut c, Some(pair));
    c.reloaded(|_| true);
    assert_eq!(init(&mut c, Some(pair), 1), Err(ResponseError::ProducerFenced));
    assert_eq!(ready(&mut c, Some(next)).epoch, EPOCH + 2);
}

#[test]
fn a_bare_init_fences_the_pair_before_it() {
    let (mut c, pair) = coordinator(V2, EPOCH);
    ready(&mut c, None);
    assert_eq!(init(&mut c, Some(pair), 1), Err(ResponseError::ProducerFenced));
    assert_eq!(init(&mut c, Some(Pair { id: ID + 99, epoch: 0 }), 1), Err(ResponseError::ProducerFenced));
}

#[test]
fn an_exhausted_epoch_rotates_the_producer_id() {
    for named in [false, true] {
        let (mut c, pair) = coordinator(V1, LAST_EPOCH);
        let expected = named.then_some(pair);
        let rotated = ready(&mut c, expected);
        assert_eq!((rotated.id, rotated.epoch), (pair.id + 1, 0));
        if named {
            assert_eq!(ready(&mut c, expected), rotated);
        }
        ready(&mut c, None);
        assert_eq!(init(&mut c, Some(pair), 1), Err(ResponseError::ProducerFenced));
    }
}

#[test]
fn fencing_an_open_transaction_raises_the_epoch_twice() {
    for version in [V1, V2] {
        let (mut c, pair) = coordinator(version, EPOCH);
        open(&mut c, pair, 10);
        assert_eq!(init(&mut c, None, 20), Ok(InitDecision::Fence));
        let fenced = c.entry(TXN).unwrap();
        assert_eq!((fenced.state, fenced.pair.epoch, fenced.start_ms), (State::PrepareAbort, EPOCH + 1, 10));
        assert_eq!(fenced.marker(0).unwrap().producer_epoch, EPOCH + 1);
        assert_eq!(init(&mut c, None, 21), Err(ResponseError::ConcurrentTransactions));
        assert_eq!(complete(&mut c, 22).state, State::CompleteAbort);
        assert_eq!(ready(&mut c, None).epoch, EPOCH + 2, "{version:?}");
    }
}

#[test]
fn an_own_open_transaction_fences_itself_on_v1_only() {
    for (version, again) in [(V1, Err(ResponseError::ProducerFenced)), (V2, Ok(EPOCH + 1))] {
        let (mut c, pair) = coordinator(version, EPOCH);
        open(&mut c, pair, 10);
        assert_eq!(init(&mut c, Some(pair), 20), Ok(InitDecision::Fence));
        complete(&mut c, 21);
        let second = init(&mut c, Some(pair), 22).map(|decision| match decision {
            InitDecision::Ready(pair) => pair.epoch,
            InitDecision::Fence => -1,
        });
        assert_eq!(second, again, "{version:?}");
    }
}

#[test]
fn a_fence_at_the_last_epoch_shows_32767_and_rotates() {
    for (version, after) in [(V1, (0, i16::MAX)), (V2, (1, 0))] {
        let (mut c, pair) = coordinator(version, LAST_EPOCH);
        open(&mut c, pair, 10);
        assert_eq!(init(&mut c, None, 20), Ok(InitDecision::Fence));
        assert_eq!(c.entry(TXN).unwrap().marker(0).unwrap().producer_epoch, i16::MAX);
        let entry = complete(&mut c, 21);
        assert_eq!((entry.pair.id, entry.pair.epoch), after, "{version:?}");
        let next = ready(&mut c, None);
        assert_eq!(next, if version == V1 { Pair { id: 1, epoch: 0 } } else { Pair { id: 1, epoch: 1 } });
    }
}

#[test]
fn a_v2_end_raises_the_epoch_in_prepare_and_a_v1_end_never() {
    for (version, epoch) in [(V1, EPOCH), (V2, EPOCH + 1)] {
        let (mut c, pair) = coordinator(V2, EPOCH);
        open(&mut c, pair, 10);
        let ended = c.end_txn(TXN, pair, (Commit, version), 20).unwrap();
        assert_eq!(ended, Ended::Prepared(Pair { epoch, ..pair }));
        let entry = c.entry(TXN).unwrap();
        assert_eq!((entry.state, entry.pair.epoch), (State::PrepareCommit, epoch));
        assert_eq!(entry.marker(3).unwrap().producer_epoch, epoch);
        let entry = complete(&mut c, 21);
        assert_eq!((entry.state, entry.start_ms, entry.partitions.len()), (State::CompleteCommit, 10, 0));
    }
}

#[test]
fn a_v2_commit_at_the_last_epoch_rotates_on_completion() {
    let (mut c, pair) = coordinator(V2, LAST_EPOCH);
    open(&mut c, pair, 10);
    let next = Pair { id: pair.id + 1, epoch: 0 };
    assert_eq!(c.end_txn(TXN, pair, (Commit, V2), 20), Ok(Ended::Prepared(next)));
    assert_eq!(c.entry(TXN).unwrap().pair, Pair { epoch: i16::MAX, ..pair });
    let entry = complete(&mut c, 21);
    assert_eq!((entry.pair, entry.start_ms), (next, 10));
    assert_eq!(c.end_txn(TXN, pair, (Commit, V2), 22), Ok(Ended::Already(next)));
    open(&mut c, next, 30);
    assert_eq!(c.end_txn(TXN, pair, (Commit, V2), 31), Err(ResponseError::InvalidProducerIdMapping));
}

#[test]
fn a_v2_abort_of_nothing_destroys_the_start_time() {
    let (mut c, pair) = coordinator(V2, EPOCH);
    open(&mut c, pair, 10);
    let Ok(Ended::Prepared(next)) = c.end_txn(TXN, pair, (Commit, V2), 20) else { panic!() };
    complete(&mut c, 21);
    let ended = c.end_txn(TXN, next, (Abort, V2), 40);
    assert_eq!(ended, Ok(Ended::Prepared(Pair { epoch: EPOCH + 2, ..pair })));
    assert_eq!(c.entry(TXN).unwrap().start_ms, 40);
}

#[test]
fn the_start_time_is_that_of_the_first_partition() {
    let (mut c, pair) = coordinator(V1, EPOCH);
    open(&mut c, pair, 10);
    c.add_partitions(TXN, pair, &[TopicPartition::new("t", 1)], 15).unwrap();
    open(&mut c, pair, 16);
    assert_eq!(c.entry(TXN).unwrap().start_ms, 10);
    c.end_txn(TXN, pair, (Commit, V1), 20).unwrap();
    complete(&mut c, 21);
    open(&mut c, pair, 30);
    assert_eq!(c.entry(TXN).unwrap().start_ms, 30);
    assert_eq!(c.entry(TXN).unwrap().partitions.len(), 1);
}

#[test]
fn adding_is_refused_while_preparing_and_to_strangers() {
    let (mut c, pair) = coordinator(V1, EPOCH);
    let add = |c: &mut Coordinator, pair| c.add_partitions(TXN, pair, &[partition()], 1);
    assert_eq!(add(&mut c, Pair { epoch: EPOCH - 1, ..pair }), Err(ResponseError::ProducerFenced));
    assert_eq!(add(&mut c, Pair { id: 99, ..pair }), Err(ResponseError::InvalidProducerIdMapping));
    assert_eq!(c.add_partitions("unknown", pair, &[], 1), Err(ResponseError::InvalidProducerIdMapping));
    open(&mut c, pair, 10);
    c.end_txn(TXN, pair, (Commit, V1), 20).unwrap();
    assert_eq!(add(&mut c, Pair { id: 99, ..pair }), Err(ResponseError::ConcurrentTransactions));
}

#[test]
fn verification_finds_only_added_partitions_of_an_open_transaction() {
    let (mut c, pair) = coordinator(V1, EPOCH);
    assert_eq!(c.verify(TXN, pair, &partition()), Err(ResponseError::TransactionAbortable));
    open(&mut c, pair, 10);
    assert_eq!(c.verify(TXN, pair, &partition()), Ok(()));
    assert_eq!(c.verify(TXN, pair, &TopicPartition::new("t", 1)), Err(ResponseError::TransactionAbortable));
    c.end_txn(TXN, pair, (Commit, V1), 20).unwrap();
    assert_eq!(c.verify(TXN, pair, &partition()), Err(ResponseError::ConcurrentTransactions));
    complete(&mut c, 21);
    assert_eq!(c.verify(TXN, pair, &partition()), Err(ResponseError::TransactionAbortable));
}

#[test]
fn the_sweep_fences_what_is_older_than_its_timeout() {
    for version in [V1, V2] {
        let (mut c, pair) = coordinator(version, EPOCH);
        open(&mut c, pair, 10);
        assert!(c.sweep(60_010, |_| true).is_empty());
        assert!(c.sweep(60_011, |_| false).is_empty());
        assert_eq!(c.sweep(60_011, |_| true), [TXN]);
        let entry = complete(&mut c, 60_012);
        assert_eq!((entry.state, entry.pair.epoch, entry.start_ms), (State::CompleteAbort, EPOCH + 1, 10));
    }
}

#[test]
fn a_timeout_of_int_max_never_fires() {
    let (mut c, pair) = coordinator(V2, EPOCH);
    open(&mut c, pair, 0);
    c.entry_mut(TXN).unwrap().timeout_ms = i32::MAX;
    assert!(c.sweep(i64::MAX, |_| true).is_empty());
}

#[test]
fn only_idle_ids_expire_and_they_come_back_with_a_new_producer_id() {
    let (mut c, pair) = coordinator(V2, EPOCH);
    open(&mut c, pair, 10);
    assert!(!c.expire(TXN));
    c.end_txn(TXN, pair, (Commit, V2), 20).unwrap();
    assert!(!c.expire(TXN));
    complete(&mut c, 21);
    assert!(c.expire(TXN));
    assert_eq!(c.end_txn(TXN, pair, (Commit, V2), 22), Err(ResponseError::InvalidProducerIdMapping));
    assert_eq!(ready(&mut c, Some(pair)), Pair { id: pair.id + 1, epoch: 0 });
}

#[test]
fn keys_are_spread_by_javas_string_hash() {
    // "hello".hashCode() == 99162322 in Java.
    assert_eq!(partition_for("hello", 50), 99_162_322 % 50);
    // "orders".hashCode() == -1008770331.
    assert_eq!(partition_for("orders", 50), 31);
    assert_eq!(partition_for("", 50), 0);
    // "polygenelubricants".hashCode() is Integer.MIN_VALUE: its absolute value does not exist.
    assert_eq!(partition_for("polygenelubricants", 50), 0);
}

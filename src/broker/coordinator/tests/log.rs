//! Transitions that last or fail, failovers, and levels that change.

use super::*;
use kafka_protocol::error::ResponseError::{ConcurrentTransactions, NotCoordinator, UnsupportedVersion};

/// A coordinator whose log is held, with an open transaction of this pair.
fn held(version: TransactionVersion) -> (Coordinator, Pair) {
    let (mut c, pair) = coordinator(version, EPOCH);
    open(&mut c, pair, 10);
    c.hold_appends();
    (c, pair)
}

#[test]
fn an_end_that_lasts_keeps_everybody_else_out_and_is_there_when_released() {
    for version in [V1, V2] {
        let (mut c, pair) = held(version);
        let Ok(Ended::Prepared(next, append)) = c.end_txn(TXN, pair, (Commit, version), 20) else { panic!() };
        assert_ne!(append, Appended::Now);
        assert_eq!(c.outcome(TXN, append), Ok(false));
        let entry = c.entry(TXN).unwrap();
        assert_eq!((entry.state, entry.pair), (State::Ongoing, pair), "as Describe shows it");
        assert_eq!(c.end_txn(TXN, pair, (Commit, version), 21), Err(ConcurrentTransactions));
        assert_eq!(init(&mut c, None, 21), Err(ConcurrentTransactions));
        assert!(c.sweep(i64::MAX, |_| true).is_empty(), "no timeout fires into it");
        c.release_appends();
        assert_eq!(c.outcome(TXN, append), Ok(true));
        let entry = c.entry(TXN).unwrap();
        assert_eq!((entry.state, entry.pair), (State::PrepareCommit, next));
    }
}

#[test]
fn a_failover_loses_what_was_not_appended() {
    let (mut c, pair) = held(V2);
    let Ok(Ended::Prepared(_, append)) = c.end_txn(TXN, pair, (Commit, V2), 20) else { panic!() };
    c.reloaded(|_| true);
    assert_eq!(c.outcome(TXN, append), Err(NotCoordinator));
    assert_eq!(c.entry(TXN).unwrap().state, State::Ongoing);
    c.release_appends();
    assert!(matches!(c.end_txn(TXN, pair, (Abort, V2), 30), Ok(Ended::Prepared(_, Appended::Now))));
}

#[test]
fn a_first_init_that_was_not_appended_leaves_no_id() {
    let mut c = Coordinator::new(rules(V2));
    c.hold_appends();
    let Ok(Initialized::Ready(_, append)) = init(&mut c, None, 1) else { panic!() };
    assert_eq!(c.outcome(TXN, append), Ok(false));
    c.reloaded(|_| true);
    assert!(c.entry(TXN).is_none());
    assert_eq!(c.outcome(TXN, append), Err(NotCoordinator));
}

#[test]
fn a_fence_that_could_not_be_appended_raises_the_epoch_once() {
    let (mut c, _) = held(V1);
    let Ok(Initialized::Fenced(append)) = init(&mut c, None, 20) else { panic!() };
    c.fail_appends();
    assert_eq!(c.outcome(TXN, append), Err(NotCoordinator));
    assert_eq!(c.entry(TXN).unwrap().pair.epoch, EPOCH + 1);
    c.release_appends();
    assert!(matches!(init(&mut c, None, 30), Ok(Initialized::Fenced(Appended::Now))));
    assert_eq!(complete(&mut c, 31).pair.epoch, EPOCH + 1);
    assert_eq!(ready(&mut c, None).epoch, EPOCH + 2);
}

#[test]
fn a_failover_begins_with_all_markers_again() {
    let (mut c, pair) = coordinator(V2, EPOCH);
    open(&mut c, pair, 10);
    c.add_partitions(TXN, pair, &[TopicPartition::new("t", 1)], 11).unwrap();
    c.end_txn(TXN, pair, (Commit, V2), 20).unwrap();
    let entry = c.entry_mut(TXN).unwrap();
    entry.partitions.remove(&partition());
    entry.given_up = true;
    c.reloaded(|_| true);
    let entry = c.entry(TXN).unwrap();
    assert_eq!((entry.partitions.len(), entry.given_up, entry.state), (2, false, State::PrepareCommit));
    assert_eq!((entry.start_ms, entry.pair.epoch), (10, EPOCH + 1));
    assert_eq!(c.end_txn(TXN, pair, (Commit, V2), 21), Err(ConcurrentTransactions));
}

#[test]
fn held_fences_let_a_commit_fail_and_an_abort_through() {
    for version in [V1, V2] {
        let (mut c, pair) = coordinator(version, EPOCH);
        open(&mut c, pair, 10);
        c.hold_fences();
        assert_eq!(init(&mut c, None, 20), Ok(Initialized::Fencing));
        assert_eq!(init(&mut c, None, 20), Err(ConcurrentTransactions));
        assert_eq!(c.end_txn(TXN, pair, (Commit, version), 21), Err(ResponseError::UnknownServerError));
        assert_eq!(c.release_fences(22), [(TXN.to_owned(), Appended::Now)]);
        let entry = c.entry(TXN).unwrap();
        assert_eq!((entry.state, entry.pair.epoch), (State::PrepareAbort, EPOCH + 1));

        let (mut c, pair) = coordinator(version, EPOCH);
        open(&mut c, pair, 10);
        c.hold_fences();
        assert_eq!(init(&mut c, None, 20), Ok(Initialized::Fencing));
        assert!(matches!(c.end_txn(TXN, pair, (Abort, version), 21), Ok(Ended::Prepared(..))));
        assert!(c.release_fences(22).is_empty());
    }
}

#[test]
fn kafka_19367_a_fence_raises_the_epoch_twice() {
    let mut c = Coordinator::new(Rules { fence_bumps: Bumps::Twice, ..rules(V2) });
    let pair = ready(&mut c, None);
    open(&mut c, pair, 10);
    assert_eq!(init(&mut c, None, 20), Ok(Initialized::Fenced(Appended::Now)));
    assert_eq!(complete(&mut c, 21).pair.epoch, pair.epoch + 2);
    assert_eq!(ready(&mut c, None).epoch, pair.epoch + 3);
}

#[test]
fn ids_expire_when_they_were_idle_for_long_enough() {
    let (mut c, pair) = coordinator(V2, EPOCH);
    c.expire_idle(100, 100, |_| true);
    assert!(c.entry(TXN).is_some(), "it moved at 1");
    c.expire_idle(100, 101, |_| false);
    open(&mut c, pair, 10);
    c.expire_idle(100, 1000, |_| true);
    assert!(c.entry(TXN).is_some(), "an open transaction never expires");
    c.end_txn(TXN, pair, (Commit, V2), 20).unwrap();
    complete(&mut c, 21);
    c.hold_appends();
    c.expire_idle(100, 121, |_| true);
    assert_eq!(init(&mut c, None, 122), Err(ConcurrentTransactions), "the tombstone is on its way");
    c.release_appends();
    assert!(c.entry(TXN).is_none());
}

#[test]
fn levels_change_between_transactions() {
    let (mut c, pair) = coordinator(V1, EPOCH);
    open(&mut c, pair, 10);
    c.set_level(V2);
    assert_eq!(c.features(), (V2, 2));
    assert!(matches!(c.end_txn(TXN, pair, (Commit, V1), 20), Ok(Ended::Prepared(..))), "as it was begun");
    complete(&mut c, 21);
    let pair = ready(&mut c, Some(pair));
    c.add_implicitly(TXN, pair, &partition(), 30).unwrap();
    let next = Pair { epoch: pair.epoch + 1, ..pair };
    assert_eq!(c.end_txn(TXN, pair, (Commit, V2), 31), Ok(Ended::Prepared(next, Appended::Now)));
    complete(&mut c, 32);
    c.add_implicitly(TXN, next, &partition(), 40).unwrap();
    c.set_level(V1);
    assert!(c.sweep(100_000, |_| true).len() == 1, "the sweep follows the level of the moment");
    assert_eq!(complete(&mut c, 41).pair.epoch, next.epoch + 1);
}

#[test]
fn level_0_is_stuck_after_a_request_of_level_2_until_a_failover() {
    let (mut c, pair) = coordinator(TransactionVersion::V0, EPOCH);
    assert_eq!(c.add_implicitly(TXN, pair, &partition(), 5), Err(UnsupportedVersion));
    assert_eq!(init(&mut c, None, 6), Err(ConcurrentTransactions));
    c.reloaded(|_| true);
    open(&mut c, pair, 10);
    assert_eq!(c.end_txn(TXN, pair, (Commit, V2), 20), Err(UnsupportedVersion));
    assert_eq!(c.end_txn(TXN, pair, (Commit, V1), 21), Err(ConcurrentTransactions));
    assert!(c.sweep(i64::MAX, |_| true).is_empty(), "not even the timeout ends it");
    c.set_level(V2);
    assert_eq!(c.end_txn(TXN, pair, (Commit, V2), 22), Err(ConcurrentTransactions));
    c.reloaded(|_| true);
    assert!(matches!(c.end_txn(TXN, pair, (Commit, V1), 23), Ok(Ended::Prepared(..))));
}

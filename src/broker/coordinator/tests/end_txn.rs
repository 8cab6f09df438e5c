//! EndTxn: one test per cell of its two tables.

use super::*;
use crate::broker::coordinator::end_txn::{Decision, decide};

/// An entry with a transition under way.
fn pending(state: State, pending: Pending) -> Entry {
    Entry { pending: Some(pending), ..at(state, ID, EPOCH) }
}

/// An append that lasts; to what does not matter.
fn append() -> Pending {
    Pending::Append(Box::new(at(State::Ongoing, ID, EPOCH)))
}

/// One test per row: `name: entry, asking pair, outcome, version => decision`.
macro_rules! cells {
    ($($name:ident: $entry:expr, $who:expr, $outcome:expr, $version:expr => $expected:expr;)*) => {
        $(#[test]
        fn $name() {
            assert_eq!(decide(&$entry, $who, $outcome, ($version, AfterAbort::InvalidTxnState)), $expected);
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
        a_transition_under_way_commit: pending(Ongoing, append()), who(EPOCH), Commit, V1 => Err(ConcurrentTransactions);
        a_transition_under_way_abort: pending(Ongoing, append()), who(EPOCH), Abort, V1 => Err(ConcurrentTransactions);
        a_transition_under_way_to_a_stranger: pending(Ongoing, append()), who(EPOCH - 1), Commit, V1
            => Err(ProducerFenced);
        a_first_add_under_way: pending(Empty, append()), who(EPOCH), Abort, V1 => Err(ConcurrentTransactions);
        an_expiry_under_way: pending(CompleteCommit, Pending::Tombstone), who(EPOCH), Commit, V1
            => Err(ConcurrentTransactions);
        stuck_commit: pending(Ongoing, Pending::Stuck), who(EPOCH), Commit, V1 => Err(ConcurrentTransactions);
        being_fenced_commit: pending(Ongoing, Pending::EpochFence), who(EPOCH), Commit, V1 => Err(UnknownServerError);
        being_fenced_abort: pending(Ongoing, Pending::EpochFence), who(EPOCH), Abort, V1 => Ok(Decision::Prepare);
        being_fenced_to_a_stranger: pending(Ongoing, Pending::EpochFence), who(EPOCH - 1), Commit, V1
            => Err(ProducerFenced);
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
        a_transition_under_way_commit: pending(Ongoing, append()), who(EPOCH), Commit, V2 => Err(ConcurrentTransactions);
        a_transition_under_way_to_a_stranger: pending(Ongoing, append()), who(EPOCH - 1), Commit, V2
            => Err(ConcurrentTransactions);
        a_new_owner_under_way: pending(CompleteAbort, append()), who(EPOCH), Abort, V2 => Err(ConcurrentTransactions);
        an_expiry_under_way: pending(Empty, Pending::Tombstone), who(EPOCH), Abort, V2 => Err(ConcurrentTransactions);
        stuck_commit: pending(Ongoing, Pending::Stuck), who(EPOCH), Commit, V2 => Err(ConcurrentTransactions);
        being_fenced_commit: pending(Ongoing, Pending::EpochFence), who(EPOCH), Commit, V2 => Err(UnknownServerError);
        being_fenced_abort: pending(Ongoing, Pending::EpochFence), who(EPOCH), Abort, V2 => Ok(Decision::Prepare);
        being_fenced_to_a_stranger: pending(Ongoing, Pending::EpochFence), who(EPOCH - 1), Commit, V2
            => Err(ProducerFenced);
    }
}

#[test]
fn after_kafka_20785_an_aborted_transaction_is_fenced() {
    let aborted = at(State::CompleteAbort, ID, EPOCH + 1);
    let end = |outcome, rule| decide(&aborted, who(EPOCH), outcome, (V2, rule));
    assert_eq!(end(Commit, AfterAbort::InvalidTxnState), Err(ResponseError::InvalidTxnState));
    assert_eq!(end(Commit, AfterAbort::ProducerFenced), Err(ResponseError::ProducerFenced));
    for rule in [AfterAbort::InvalidTxnState, AfterAbort::ProducerFenced] {
        assert_eq!(end(Abort, rule), Ok(Decision::Repeated));
        assert_eq!(decide(&aborted, who(EPOCH), Commit, (V1, rule)), Err(ResponseError::ProducerFenced));
    }
}

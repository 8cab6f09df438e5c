//! InitProducerId: one test per cell.

use super::*;
use crate::broker::coordinator::init_producer_id::{Decision, init};
use kafka_protocol::error::ResponseError::{ConcurrentTransactions, ProducerFenced};

/// What comes of it: the pair that is answered and the epoch that may be repeated, or nothing for a fence.
type Outcome = Result<Option<(i64, i16, i16)>, ResponseError>;

fn asked(mut entry: Entry, expected: Option<Pair>) -> Outcome {
    let request = Request { expected, timeout_ms: 1 };
    match init(&mut entry, request, || ID + 100, 9)? {
        Decision::Fence => Ok(None),
        Decision::Ready(pair) => {
            let reset = (entry.state, entry.start_ms, entry.timeout_ms, entry.partitions.len());
            assert_eq!(reset, (Empty, -1, 1, 0));
            Ok(Some((pair.id, pair.epoch, entry.last_epoch)))
        }
    }
}

/// An entry that may be repeated once from `EPOCH - 1`.
fn bumped(state: State) -> Entry {
    Entry { last_epoch: EPOCH - 1, ..at(state, ID, EPOCH) }
}

const BARE: Option<Pair> = None;

fn own(epoch: i16) -> Option<Pair> {
    Some(who(epoch))
}

fn other(epoch: i16) -> Option<Pair> {
    Some(Pair { id: ID + 1, epoch })
}

macro_rules! cells {
    ($($name:ident: $entry:expr, $expected:expr => $outcome:expr;)*) => {
        $(#[test]
        fn $name() {
            assert_eq!(asked($entry, $expected), $outcome);
        })*
    };
}

use State::*;

cells! {
    a_new_id: Entry::fresh(ID, 60_000, 0), BARE => Ok(Some((ID, 0, -1)));
    an_expired_id_by_its_old_pair: Entry::fresh(ID, 60_000, 0), other(EPOCH) => Ok(Some((ID, 0, -1)));
    empty_bare: at(Empty, ID, EPOCH), BARE => Ok(Some((ID, EPOCH + 1, -1)));
    empty_own: at(Empty, ID, EPOCH), own(EPOCH) => Ok(Some((ID, EPOCH + 1, EPOCH)));
    empty_own_repeated: bumped(Empty), own(EPOCH - 1) => Ok(Some((ID, EPOCH, EPOCH - 1)));
    empty_own_repeated_after_a_failover: at(Empty, ID, EPOCH), own(EPOCH - 1) => Err(ProducerFenced);
    empty_own_older: bumped(Empty), own(EPOCH - 2) => Err(ProducerFenced);
    empty_own_newer: at(Empty, ID, EPOCH), own(EPOCH + 1) => Err(ProducerFenced);
    empty_other_producer_id: at(Empty, ID, EPOCH), other(EPOCH) => Err(ProducerFenced);
    complete_commit_bare: at(CompleteCommit, ID, EPOCH), BARE => Ok(Some((ID, EPOCH + 1, -1)));
    complete_commit_own: at(CompleteCommit, ID, EPOCH), own(EPOCH) => Ok(Some((ID, EPOCH + 1, EPOCH)));
    complete_commit_before_the_v2_bump: bumped(CompleteCommit), own(EPOCH - 1) => Ok(Some((ID, EPOCH, EPOCH - 1)));
    complete_commit_stale: at(CompleteCommit, ID, EPOCH), own(EPOCH - 1) => Err(ProducerFenced);
    complete_abort_bare: at(CompleteAbort, ID, EPOCH), BARE => Ok(Some((ID, EPOCH + 1, -1)));
    complete_abort_own: at(CompleteAbort, ID, EPOCH), own(EPOCH) => Ok(Some((ID, EPOCH + 1, EPOCH)));
    complete_abort_stale: at(CompleteAbort, ID, EPOCH), own(EPOCH - 1) => Err(ProducerFenced);
    ongoing_bare: at(Ongoing, ID, EPOCH), BARE => Ok(None);
    ongoing_own: at(Ongoing, ID, EPOCH), own(EPOCH) => Ok(None);
    ongoing_other_producer_id: at(Ongoing, ID, EPOCH), other(EPOCH) => Err(ProducerFenced);
    prepare_commit_bare: at(PrepareCommit, ID, EPOCH), BARE => Err(ConcurrentTransactions);
    prepare_commit_own: at(PrepareCommit, ID, EPOCH), own(EPOCH) => Err(ConcurrentTransactions);
    prepare_abort_bare: at(PrepareAbort, ID, EPOCH), BARE => Err(ConcurrentTransactions);
    prepare_abort_other_producer_id: at(PrepareAbort, ID, EPOCH), other(EPOCH) => Err(ConcurrentTransactions);
    being_fenced: Entry { pending: Some(Pending::EpochFence), ..at(Ongoing, ID, EPOCH) }, BARE
        => Err(ConcurrentTransactions);
    expiring: Entry { pending: Some(Pending::Tombstone), ..at(Empty, ID, EPOCH) }, BARE => Err(ConcurrentTransactions);
    exhausted_bare: at(Empty, ID, LAST_EPOCH), BARE => Ok(Some((ID + 100, 0, -1)));
    exhausted_own: at(CompleteCommit, ID, LAST_EPOCH), own(LAST_EPOCH) => Ok(Some((ID + 100, 0, LAST_EPOCH)));
    exhausted_by_a_fence_bare: at(CompleteAbort, ID, i16::MAX), BARE => Ok(Some((ID + 100, 0, -1)));
    rotated_by_v2_and_repeated: Entry { last_epoch: LAST_EPOCH, ..rotated(CompleteCommit) }, own(LAST_EPOCH)
        => Ok(Some((ID + 1, 0, LAST_EPOCH)));
    rotated_and_stale: rotated(CompleteCommit), own(EPOCH) => Err(ProducerFenced);
}

//! EndTxn: the two decision tables of the coordinator. The version of the request alone chooses between them.

use kafka_protocol::error::ResponseError;

use super::entry::{EXHAUSTED_EPOCH, Entry, Pair, State};
use crate::broker::log::marker::Outcome;
use crate::wire::versions::TransactionVersion;

/// What EndTxn leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    /// A repeated request: the same answer again.
    Repeated,
    /// Enter the `Prepare` state.
    Prepare,
}

/// Decides a request of `who`.
///
/// # Errors
/// The code to answer; PRODUCER_FENCED still has to be turned into INVALID_PRODUCER_EPOCH for old versions.
pub(crate) fn decide(
    entry: &Entry,
    who: Pair,
    outcome: Outcome,
    version: TransactionVersion,
) -> Result<Decision, ResponseError> {
    match version {
        TransactionVersion::V0 | TransactionVersion::V1 => decide_v1(entry, who, outcome),
        TransactionVersion::V2 => decide_v2(entry, who, outcome),
    }
}

/// EndTxn 0 to 4. Order of checks: producer id, epoch, pending, state.
fn decide_v1(entry: &Entry, who: Pair, outcome: Outcome) -> Result<Decision, ResponseError> {
    if who.id != entry.pair.id {
        return Err(ResponseError::InvalidProducerIdMapping);
    }
    if who.epoch != entry.pair.epoch {
        return Err(ResponseError::ProducerFenced);
    }
    if entry.is_pending() {
        return Err(ResponseError::ConcurrentTransactions);
    }
    match (entry.state, outcome) {
        (State::PrepareCommit | State::PrepareAbort, _) => Err(ResponseError::ConcurrentTransactions),
        (State::Ongoing, _) => Ok(Decision::Prepare),
        (State::CompleteCommit, Outcome::Commit) | (State::CompleteAbort, Outcome::Abort) => {
            Ok(Decision::Repeated)
        }
        (State::CompleteCommit, Outcome::Abort)
        | (State::CompleteAbort, Outcome::Commit)
        | (State::Empty, _) => Err(ResponseError::InvalidTxnState),
    }
}

/// EndTxn 5. Order of checks: pending, producer id, epoch, state.
fn decide_v2(entry: &Entry, who: Pair, outcome: Outcome) -> Result<Decision, ResponseError> {
    if entry.is_pending() {
        return Err(ResponseError::ConcurrentTransactions);
    }
    // The first answer had raised the epoch, or had given a new producer id because the epoch was used up.
    let bumped = who.id == entry.pair.id && who.epoch.checked_add(1) == Some(entry.pair.epoch);
    let rotated = who.id == entry.previous_id && who.epoch == EXHAUSTED_EPOCH && entry.pair.epoch == 0;
    if who.id != entry.pair.id && !rotated {
        return Err(ResponseError::InvalidProducerIdMapping);
    }
    let current = who == entry.pair;
    let repeated = bumped || rotated;
    match (entry.state, outcome) {
        (State::Ongoing, _) if current => Ok(Decision::Prepare),
        (State::Ongoing, _) => Err(ResponseError::ProducerFenced),
        (State::CompleteCommit, Outcome::Commit) | (State::CompleteAbort, Outcome::Abort) if repeated => {
            Ok(Decision::Repeated)
        }
        (State::CompleteCommit | State::CompleteAbort, _) if repeated => Err(ResponseError::InvalidTxnState),
        (State::Empty | State::CompleteCommit | State::CompleteAbort, _) if !current => {
            Err(ResponseError::ProducerFenced)
        }
        (State::Empty | State::CompleteCommit | State::CompleteAbort, Outcome::Abort) => {
            Ok(Decision::Prepare)
        }
        (State::Empty | State::CompleteCommit | State::CompleteAbort, Outcome::Commit) => {
            Err(ResponseError::InvalidTxnState)
        }
        (State::PrepareCommit | State::PrepareAbort, _) => Err(ResponseError::ConcurrentTransactions),
    }
}

//! InitProducerId with a transactional id: a new epoch, a rotated producer id, or a fence.

use kafka_protocol::error::ResponseError;

use super::entry::{EXHAUSTED_EPOCH, Entry, Pair, State};

/// What InitProducerId leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    /// The pair to answer; the entry is `Empty` now.
    Ready(Pair),
    /// A transaction is open: fence it, and answer CONCURRENT_TRANSACTIONS.
    Fence,
}

/// Who asks, and for what.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    /// The pair that the producer believes to own (KIP-360), or nothing.
    pub(crate) expected: Option<Pair>,
    pub(crate) timeout_ms: i32,
}

/// Decides, and moves the entry unless it answers `Fence`.
///
/// # Errors
/// CONCURRENT_TRANSACTIONS, PRODUCER_FENCED, and UNKNOWN_SERVER_ERROR where Kafka's coordinator throws.
pub(crate) fn init(
    entry: &mut Entry,
    request: Request,
    next_id: impl FnOnce() -> i64,
    now_ms: i64,
) -> Result<Decision, ResponseError> {
    if entry.is_pending() {
        return Err(ResponseError::ConcurrentTransactions);
    }
    if request.expected.is_some_and(|pair| !is_known_id(entry, pair)) {
        return Err(ResponseError::ProducerFenced);
    }
    if entry.state == State::Ongoing {
        return Ok(Decision::Fence);
    }
    let expected_epoch = request.expected.map(|pair| pair.epoch);
    if entry.epoch_is_exhausted() && expected_epoch.is_none_or(|epoch| epoch == entry.pair.epoch) {
        entry.last_epoch = expected_epoch.map_or(-1, |_| entry.pair.epoch);
        let id = next_id();
        entered(entry, request.timeout_ms, now_ms);
        entry.pair = Pair { id, epoch: 0 };
    } else {
        let (epoch, last_epoch) = bumped(entry, expected_epoch)?;
        entered(entry, request.timeout_ms, now_ms);
        entry.pair.epoch = epoch;
        entry.last_epoch = last_epoch;
    }
    Ok(Decision::Ready(entry.pair))
}

/// The expected producer id is the current one, or the one before a rotation whose answer may have been lost.
fn is_known_id(entry: &Entry, pair: Pair) -> bool {
    entry.pair.epoch == -1
        || pair.id == entry.pair.id
        || (pair.id == entry.previous_id && pair.epoch >= EXHAUSTED_EPOCH)
}

/// The next epoch, and the epoch whose owner may repeat its request.
fn bumped(entry: &Entry, expected: Option<i16>) -> Result<(i16, i16), ResponseError> {
    if entry.epoch_is_exhausted() {
        return Err(ResponseError::UnknownServerError);
    }
    let current = entry.pair.epoch;
    match expected {
        None => Ok((current + 1, -1)),
        Some(epoch) if current == -1 || epoch == current => Ok((current + 1, current)),
        Some(epoch) if epoch == entry.last_epoch => Ok((current, entry.last_epoch)),
        Some(_) => Err(ResponseError::ProducerFenced),
    }
}

fn entered(entry: &mut Entry, timeout_ms: i32, now_ms: i64) {
    entry.state = State::Empty;
    entry.timeout_ms = timeout_ms;
    entry.partitions.clear();
    entry.start_ms = -1;
    entry.moved(now_ms);
}

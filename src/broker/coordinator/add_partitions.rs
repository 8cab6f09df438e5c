//! Adding partitions to a transaction, and asking whether they were added.

use kafka_protocol::error::ResponseError;

use super::entry::{Entry, Pair, State};
use crate::ids::TopicPartition;

/// When a request that meets a pending transition learns of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PendingAdd {
    /// Kafka 4: before producer id and epoch are looked at.
    BeforePair,
    /// Kafka 3: after that.
    AfterPair,
}

/// Adds partitions, beginning a transaction if none is open.
///
/// # Errors
/// CONCURRENT_TRANSACTIONS, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED.
pub(crate) fn add(
    entry: &mut Entry,
    who: Pair,
    partitions: &[TopicPartition],
    order: PendingAdd,
    now_ms: i64,
) -> Result<(), ResponseError> {
    if order == PendingAdd::BeforePair && entry.is_pending() {
        return Err(ResponseError::ConcurrentTransactions);
    }
    same_pair(entry, who)?;
    if entry.is_pending() {
        return Err(ResponseError::ConcurrentTransactions);
    }
    let known = entry.state == State::Ongoing && partitions.iter().all(|p| entry.partitions.contains(p));
    if !known {
        entry.add(partitions.iter().cloned(), now_ms);
    }
    Ok(())
}

/// Is this partition part of the producer's open transaction?
///
/// # Errors
/// As [`add`], and TRANSACTION_ABORTABLE when it is not.
pub(crate) fn verify(entry: &Entry, who: Pair, partition: &TopicPartition) -> Result<(), ResponseError> {
    same_pair(entry, who)?;
    if matches!(entry.state, State::PrepareCommit | State::PrepareAbort) {
        return Err(ResponseError::ConcurrentTransactions);
    }
    if entry.partitions.contains(partition) { Ok(()) } else { Err(ResponseError::TransactionAbortable) }
}

fn same_pair(entry: &Entry, who: Pair) -> Result<(), ResponseError> {
    if who.id != entry.pair.id {
        return Err(ResponseError::InvalidProducerIdMapping);
    }
    if who.epoch != entry.pair.epoch {
        return Err(ResponseError::ProducerFenced);
    }
    Ok(())
}

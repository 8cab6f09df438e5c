//! What a partition remembers of every producer: epoch, its last five batches, its open transaction.

use std::collections::VecDeque;

use kafka_protocol::error::ResponseError;

use super::marker::Marker;
use crate::wire::batch::BatchHeader;

/// How many batches are remembered for duplicate detection (Kafka's `NUM_BATCHES_TO_RETAIN`).
const REMEMBERED_BATCHES: usize = 5;

/// What becomes of a V2 marker with the epoch that the partition has already, when nothing is open there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RepeatedMarker {
    /// It is written once more (KAFKA-19999).
    Taken,
    /// It is refused.
    Refused,
}

/// What a first batch without remembered state may start at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FirstSequence {
    /// Anything: state may have expired (transactions V1 and idempotent producers).
    Any,
    /// Only 0 (transactions V2 since Kafka 4.1).
    Zero,
}

#[derive(Debug, Clone, Copy)]
struct Remembered {
    first_sequence: i32,
    last_sequence: i32,
    base_offset: i64,
    timestamp: i64,
}

impl Remembered {
    fn last_offset(&self) -> i64 {
        // Sequences wrap to 0 behind the largest.
        self.base_offset + i64::from(self.last_sequence.wrapping_sub(self.first_sequence) & i32::MAX)
    }
}

/// One producer id on one partition.
#[derive(Debug, Clone)]
pub(crate) struct Producer {
    /// -1 while nothing is known.
    pub(crate) epoch: i16,
    pub(crate) last_timestamp: i64,
    /// -1 before the first marker.
    pub(crate) coordinator_epoch: i32,
    /// The first offset of the transaction that is open here.
    pub(crate) open_from: Option<i64>,
    batches: VecDeque<Remembered>,
}

/// A batch that was appended before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Duplicate {
    pub(crate) base_offset: i64,
    pub(crate) timestamp: i64,
}

impl Default for Producer {
    fn default() -> Self {
        Self {
            epoch: -1,
            last_timestamp: -1,
            coordinator_epoch: -1,
            open_from: None,
            batches: VecDeque::new(),
        }
    }
}

impl Producer {
    /// The sequence of the last remembered record; -1 when none is.
    pub(crate) fn last_sequence(&self) -> i32 {
        self.batches.back().map_or(-1, |b| b.last_sequence)
    }

    /// The last offset of what the producer wrote in its present epoch, if it did.
    pub(crate) fn last_data_offset(&self) -> Option<i64> {
        self.batches.back().map(Remembered::last_offset)
    }

    /// The log ends at `end` now.
    pub(crate) fn truncated(&mut self, end: i64) {
        self.batches.retain(|batch| batch.last_offset() < end);
        self.open_from = self.open_from.filter(|first| *first < end);
    }

    /// The same batch, if it is one of the last five of the same epoch.
    pub(crate) fn duplicate(&self, batch: &BatchHeader) -> Option<Duplicate> {
        let same = |b: &&Remembered| {
            b.first_sequence == batch.base_sequence && b.last_sequence == batch.last_sequence()
        };
        (self.epoch == batch.producer_epoch)
            .then(|| self.batches.iter().find(same))
            .flatten()
            .map(|b| Duplicate { base_offset: b.base_offset, timestamp: b.timestamp })
    }

    /// May this batch, which is no duplicate, be appended?
    pub(crate) fn check(&self, batch: &BatchHeader, first: FirstSequence) -> Result<(), ResponseError> {
        if batch.producer_epoch < self.epoch {
            return Err(ResponseError::InvalidProducerEpoch);
        }
        let unknown = self.epoch == -1;
        let in_sequence = if unknown {
            first == FirstSequence::Any || batch.base_sequence == 0
        } else if batch.producer_epoch != self.epoch {
            batch.base_sequence == 0
        } else {
            let last = self.last_sequence();
            last.checked_add(1).unwrap_or(0) == batch.base_sequence
        };
        if !in_sequence {
            return Err(ResponseError::OutOfOrderSequenceNumber);
        }
        if self.open_from.is_some() && !batch.is_transactional() {
            return Err(ResponseError::InvalidTxnState);
        }
        Ok(())
    }

    /// Remembers a batch that was appended.
    pub(crate) fn appended(&mut self, batch: &BatchHeader) {
        self.raise_epoch(batch.producer_epoch);
        if self.batches.len() == REMEMBERED_BATCHES {
            self.batches.pop_front();
        }
        self.batches.push_back(Remembered {
            first_sequence: batch.base_sequence,
            last_sequence: batch.last_sequence(),
            base_offset: batch.base_offset,
            timestamp: batch.max_timestamp,
        });
        self.last_timestamp = batch.max_timestamp;
        if batch.is_transactional() && self.open_from.is_none() {
            self.open_from = Some(batch.base_offset);
        }
    }

    /// Remembers a batch that a group coordinator wrote for the producer.
    pub(crate) fn carried(&mut self, batch: &BatchHeader) {
        self.raise_epoch(batch.producer_epoch);
        self.last_timestamp = batch.max_timestamp;
        self.open_from.get_or_insert(batch.base_offset);
    }

    /// May this marker be appended?
    ///
    /// A version 2 marker must carry an epoch above the last one; the same epoch is a retry, when nothing is open.
    pub(crate) fn check_marker(
        &self,
        marker: &Marker,
        repeated: RepeatedMarker,
    ) -> Result<(), ResponseError> {
        let may_repeat = repeated == RepeatedMarker::Taken && self.open_from.is_none();
        let stale = if marker.transaction_version >= 2 {
            marker.producer_epoch < self.epoch || (marker.producer_epoch == self.epoch && !may_repeat)
        } else {
            marker.producer_epoch < self.epoch
        };
        if stale {
            return Err(ResponseError::InvalidProducerEpoch);
        }
        if marker.coordinator_epoch < self.coordinator_epoch {
            return Err(ResponseError::TransactionCoordinatorFenced);
        }
        Ok(())
    }

    /// Takes the marker, and tells where the transaction that it closes had begun.
    pub(crate) fn marked(&mut self, marker: &Marker, timestamp: i64) -> Option<i64> {
        self.raise_epoch(marker.producer_epoch);
        self.coordinator_epoch = marker.coordinator_epoch;
        self.last_timestamp = timestamp;
        self.open_from.take()
    }

    fn raise_epoch(&mut self, epoch: i16) {
        if self.epoch != epoch {
            self.epoch = epoch;
            self.batches.clear();
        }
    }
}

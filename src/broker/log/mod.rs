//! A partition's log: offsets, producer state, the last stable offset and the aborted index. Pure.
//!
//! ```text
//! start                      last stable offset        high watermark = end
//!   |--- decided ... markers ---|--- open transactions ---|
//! ```

mod compact;
mod epochs;
pub(crate) mod marker;
pub(crate) mod producers;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use bytes::{Bytes, BytesMut};
use kafka_protocol::error::ResponseError;

use self::marker::{Marker, Outcome};
use self::producers::{FirstSequence, Producer, RepeatedMarker};
use crate::record::StoredRecord;
use crate::wire::batch::Batch;

/// An aborted transaction of the index that read_committed fetches carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Aborted {
    pub(crate) producer_id: i64,
    pub(crate) first_offset: i64,
    /// The marker's offset.
    pub(crate) last_offset: i64,
}

/// How far a reader may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Isolation {
    ReadUncommitted,
    ReadCommitted,
}

impl Isolation {
    /// From the wire: 1 is read_committed.
    pub(crate) fn from_wire(level: i8) -> Self {
        if level == 1 { Self::ReadCommitted } else { Self::ReadUncommitted }
    }
}

/// Where a produced batch stands now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Appended {
    pub(crate) base_offset: i64,
    /// -1 unless the topic uses LogAppendTime.
    pub(crate) append_time: i64,
}

/// What a fetch of one partition found.
#[derive(Debug, Clone, Default)]
pub(crate) struct Read {
    pub(crate) records: Bytes,
    /// The transactions that were aborted in there.
    pub(crate) aborted: Vec<Aborted>,
}

/// How a batch is to be appended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AppendRules {
    pub(crate) leader_epoch: i32,
    pub(crate) first_sequence: FirstSequence,
    /// Now, when the topic stamps batches with the broker's time.
    pub(crate) append_time_ms: Option<i64>,
}

/// How a marker is to be appended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MarkerRules {
    pub(crate) leader_epoch: i32,
    pub(crate) repeated: RepeatedMarker,
    pub(crate) now_ms: i64,
}

/// One partition's log.
#[derive(Debug, Default)]
pub(crate) struct PartitionLog {
    start: i64,
    end: i64,
    batches: VecDeque<Batch>,
    producers: BTreeMap<i64, Producer>,
    aborted: Vec<Aborted>,
}

impl PartitionLog {
    pub(crate) fn start_offset(&self) -> i64 {
        self.start
    }

    pub(crate) fn high_watermark(&self) -> i64 {
        self.end
    }

    /// The first offset of the earliest open transaction, or the high watermark.
    ///
    /// When records below it were deleted, Kafka reports the first offset of the batch that holds the log start:
    /// it can lie below the log start.
    pub(crate) fn last_stable_offset(&self) -> i64 {
        let open = self.producers.values().filter_map(|p| p.open_from).min();
        match open {
            None => self.end,
            Some(first) if first >= self.start => first,
            Some(_) => self.batches.front().map_or(self.start, |b| b.header().base_offset.min(self.start)),
        }
    }

    pub(crate) fn end_for(&self, isolation: Isolation) -> i64 {
        match isolation {
            Isolation::ReadUncommitted => self.high_watermark(),
            Isolation::ReadCommitted => self.last_stable_offset(),
        }
    }

    /// Is a transaction of exactly this producer open here? Then its next batch needs no verification.
    pub(crate) fn has_ongoing(&self, producer_id: i64, epoch: i16) -> bool {
        self.producers.get(&producer_id).is_some_and(|p| p.open_from.is_some() && p.epoch == epoch)
    }

    pub(crate) fn producers(&self) -> impl Iterator<Item = (i64, &Producer)> {
        self.producers.iter().map(|(id, p)| (*id, p))
    }

    /// Forgets a producer that has no open transaction (`producer.id.expiration.ms`); an open one is exempt.
    pub(crate) fn forget_idle_producers(&mut self) {
        self.producers.retain(|_, p| p.open_from.is_some());
    }

    /// Appends a client's batch, or finds it among the producer's last five.
    ///
    /// # Errors
    /// The code that Produce answers.
    pub(crate) fn append(&mut self, batch: &Batch, rules: AppendRules) -> Result<Appended, ResponseError> {
        let header = batch.header();
        if header.producer_id >= 0 {
            let unknown = Producer::default();
            let producer = self.producers.get(&header.producer_id).unwrap_or(&unknown);
            if let Some(known) = producer.duplicate(header) {
                let append_time = rules.append_time_ms.map_or(-1, |_| known.timestamp);
                return Ok(Appended { base_offset: known.base_offset, append_time });
            }
            producer.check(header, rules.first_sequence)?;
        }
        let stored = self.placed(batch, rules.leader_epoch, rules.append_time_ms)?;
        let header = *stored.header();
        if header.producer_id >= 0 {
            self.producers.entry(header.producer_id).or_default().appended(&header);
        }
        let base_offset = header.base_offset;
        self.push(stored);
        Ok(Appended { base_offset, append_time: rules.append_time_ms.unwrap_or(-1) })
    }

    /// Appends what a group coordinator writes for a transaction. It has no sequences of its own, so none are checked.
    ///
    /// # Errors
    /// INVALID_PRODUCER_EPOCH.
    pub(crate) fn append_for_group(&mut self, batch: &Batch, leader_epoch: i32) -> Result<(), ResponseError> {
        let header = batch.header();
        let known = self.producers.get(&header.producer_id).map_or(-1, |producer| producer.epoch);
        if header.producer_epoch < known {
            return Err(ResponseError::InvalidProducerEpoch);
        }
        let stored = self.placed(batch, leader_epoch, None)?;
        self.producers.entry(header.producer_id).or_default().carried(stored.header());
        self.push(stored);
        Ok(())
    }

    /// Appends a control batch and closes the producer's open transaction, whatever its epoch.
    ///
    /// # Errors
    /// INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED.
    pub(crate) fn append_marker(&mut self, marker: &Marker, rules: MarkerRules) -> Result<(), ResponseError> {
        let producer = self.producers.entry(marker.producer_id).or_default();
        producer.check_marker(marker, rules.repeated)?;
        let closed = producer.marked(marker, rules.now_ms);
        let stored = self.placed(&marker.batch(rules.now_ms)?, rules.leader_epoch, None)?;
        if let (Some(first_offset), Outcome::Abort) = (closed, marker.outcome) {
            let last_offset = stored.header().base_offset;
            self.aborted.push(Aborted { producer_id: marker.producer_id, first_offset, last_offset });
        }
        self.push(stored);
        Ok(())
    }

    fn placed(&self, batch: &Batch, epoch: i32, append_time: Option<i64>) -> Result<Batch, ResponseError> {
        batch.placed(self.end, epoch, append_time).map_err(|_| ResponseError::UnknownServerError)
    }

    fn push(&mut self, batch: Batch) {
        self.end = batch.header().next_offset();
        self.batches.push_back(batch);
    }

    /// Reads whole batches from the one that holds `from`; the first comes even if it exceeds `max_bytes`.
    ///
    /// # Errors
    /// OFFSET_OUT_OF_RANGE.
    pub(crate) fn read(
        &self,
        from: i64,
        isolation: Isolation,
        max_bytes: usize,
    ) -> Result<Read, ResponseError> {
        if from < self.start || from > self.end {
            return Err(ResponseError::OffsetOutOfRange);
        }
        let limit = self.end_for(isolation);
        let first = self.batches.partition_point(|b| b.header().last_offset() < from);
        let mut taken: Vec<&Batch> = Vec::new();
        let mut bytes = 0;
        for batch in self.batches.range(first..).take_while(|b| b.header().base_offset < limit) {
            if !taken.is_empty() && bytes + batch.bytes().len() > max_bytes {
                break;
            }
            bytes += batch.bytes().len();
            taken.push(batch);
        }
        let last = taken.last().map(|last| last.header().last_offset());
        let aborted = last.map_or_else(Vec::new, |last| self.aborted_within(from, last));
        Ok(Read { records: joined(&taken, bytes), aborted })
    }

    fn aborted_within(&self, from: i64, last: i64) -> Vec<Aborted> {
        self.aborted.iter().filter(|a| a.last_offset >= from && a.first_offset <= last).copied().collect()
    }

    /// The bytes that a fetch from `from` would find, counted up to `enough`.
    pub(crate) fn readable_bytes(&self, from: i64, isolation: Isolation, enough: usize) -> usize {
        let limit = self.end_for(isolation);
        let first = self.batches.partition_point(|b| b.header().last_offset() < from);
        let mut bytes = 0;
        for batch in self.batches.range(first..).take_while(|b| b.header().base_offset < limit) {
            bytes += batch.bytes().len();
            if bytes >= enough {
                break;
            }
        }
        bytes
    }

    /// The first record below `limit` that is not older than `timestamp`: its offset and its own timestamp.
    ///
    /// A batch whose codec this build does not have answers with its first offset.
    pub(crate) fn offset_at(&self, timestamp: i64, limit: i64) -> Option<(i64, i64)> {
        let mut batches = self.batches.iter().filter(|b| !b.header().is_control());
        let holder = batches.find(|b| b.header().max_timestamp >= timestamp)?;
        let found = match holder.records() {
            Ok(mut records) => {
                let late = |r: &StoredRecord| r.offset >= self.start && r.timestamp >= timestamp;
                records.find_map(|r| r.ok().filter(late)).map(|r| (r.offset, r.timestamp))
            }
            Err(_) => Some((holder.header().base_offset.max(self.start), holder.header().max_timestamp)),
        };
        found.filter(|(offset, _)| *offset < limit)
    }

    /// A record with the newest timestamp, as ListOffsets asks with -3.
    pub(crate) fn newest(&self) -> Option<(i64, i64)> {
        let data = self.batches.iter().filter(|b| !b.header().is_control());
        let newest = data.map(|b| b.header().max_timestamp).max()?;
        self.offset_at(newest, self.end)
    }

    /// Moves the log's start (DeleteRecords) and tells where it is then; -1 means the high watermark.
    ///
    /// # Errors
    /// OFFSET_OUT_OF_RANGE beyond the high watermark.
    pub(crate) fn delete_before(&mut self, offset: i64) -> Result<i64, ResponseError> {
        let offset = if offset == -1 { self.end } else { offset };
        if offset < 0 || offset > self.end {
            return Err(ResponseError::OffsetOutOfRange);
        }
        self.start = self.start.max(offset);
        let start = self.start;
        let gone = self.batches.partition_point(|b| b.header().last_offset() < start);
        self.batches.drain(..gone);
        self.aborted.retain(|a| a.last_offset >= start);
        Ok(self.start)
    }
}

fn joined(batches: &[&Batch], bytes: usize) -> Bytes {
    match batches {
        [only] => only.bytes().clone(),
        _ => {
            let mut buf = BytesMut::with_capacity(bytes);
            batches.iter().for_each(|b| buf.extend_from_slice(b.bytes()));
            buf.freeze()
        }
    }
}

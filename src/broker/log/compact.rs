//! Compaction, as Kafka's `LogCleaner` does it when it has passed over a log often enough.
//!
//! - Of each key the newest record stays that is not aborted. Here a batch stays whole as long as one of its records does.
//! - A marker goes when nothing of its transaction is left, and an abort takes its entry of the aborted index along.
//! - The last batch of a producer stays without its records, so that its epoch and sequence are not forgotten: its last
//!   data of the present epoch, or the marker if there is none. So on transactions V2, whose markers raise the epoch, a
//!   control batch is left that does not say any more what it was.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;

use super::PartitionLog;
use crate::wire::batch::{Batch, BatchHeader};

/// What becomes of a batch.
enum Fate {
    Kept,
    Emptied,
    Gone,
}

impl PartitionLog {
    /// Compacts everything below the last stable offset.
    pub(crate) fn compact(&mut self) {
        let stable = self.last_stable_offset();
        let newest = self.newest_by_key(stable);
        let mut left: BTreeSet<i64> = BTreeSet::new();
        let mut batches = VecDeque::new();
        for batch in std::mem::take(&mut self.batches) {
            let header = *batch.header();
            let fate = if header.base_offset >= stable {
                Fate::Kept
            } else if header.is_control() {
                self.fate_of_marker(&header, left.remove(&header.producer_id))
            } else {
                let fate = self.fate_of_data(&batch, &newest);
                if header.is_transactional() && !matches!(fate, Fate::Gone) {
                    left.insert(header.producer_id);
                }
                fate
            };
            match fate {
                Fate::Kept => batches.push_back(batch),
                // It was read before, so that it can be read without its records.
                Fate::Emptied => batches.extend(batch.emptied()),
                Fate::Gone => {}
            }
        }
        self.batches = batches;
    }

    fn newest_by_key(&self, stable: i64) -> BTreeMap<Bytes, i64> {
        let data = self.batches.iter().filter(|batch| {
            let header = batch.header();
            header.base_offset < stable && !header.is_control() && !self.is_aborted(header)
        });
        let records = data.filter_map(|batch| batch.records().ok()).flatten().filter_map(Result::ok);
        records.filter_map(|record| Some((record.key?, record.offset))).collect()
    }

    fn is_aborted(&self, batch: &BatchHeader) -> bool {
        batch.is_transactional()
            && self.aborted.iter().any(|aborted| {
                aborted.producer_id == batch.producer_id
                    && (aborted.first_offset..aborted.last_offset).contains(&batch.base_offset)
            })
    }

    fn fate_of_data(&self, batch: &Batch, newest: &BTreeMap<Bytes, i64>) -> Fate {
        let header = batch.header();
        let stays = |key: &Option<Bytes>, offset| {
            key.as_ref().is_some_and(|key| newest.get(key).is_some_and(|newest| *newest == offset))
        };
        let records = batch.records().into_iter().flatten().filter_map(Result::ok);
        if !self.is_aborted(header) && records.into_iter().any(|r| stays(&r.key, r.offset)) {
            return Fate::Kept;
        }
        let producer = self.producers.get(&header.producer_id);
        let is_last = producer.and_then(|p| p.last_data_offset()) == Some(header.last_offset());
        if is_last { Fate::Emptied } else { Fate::Gone }
    }

    fn fate_of_marker(&mut self, marker: &BatchHeader, has_data: bool) -> Fate {
        if has_data {
            return Fate::Kept;
        }
        self.aborted.retain(|aborted| aborted.last_offset != marker.base_offset);
        let producer = self.producers.get(&marker.producer_id);
        let is_last =
            producer.is_some_and(|p| p.last_data_offset().is_none() && p.epoch == marker.producer_epoch);
        if is_last { Fate::Emptied } else { Fate::Gone }
    }
}

#[cfg(test)]
mod tests {
    use super::super::marker::Outcome;
    use super::super::marker::testing::keyed;
    use super::super::producers::FirstSequence;
    use super::super::tests::end;
    use super::super::{AppendRules, Isolation};
    use super::*;
    use crate::ids::Identity;
    use crate::wire::batch::{Batches, Stamp};

    fn append(log: &mut PartitionLog, key: &str, stamp: Stamp) {
        let rules = AppendRules { leader_epoch: 0, first_sequence: FirstSequence::Any, append_time_ms: None };
        log.append(&keyed(key, stamp), rules).unwrap();
    }

    fn within(id: i64, epoch: i16, base_sequence: i32) -> Stamp {
        Stamp::Transactional { identity: Identity::new(id, epoch), base_sequence }
    }

    /// Base offset and record count of what is left, `!` at control batches.
    fn left(log: &PartitionLog) -> Vec<String> {
        let payload = log.read(0, Isolation::ReadUncommitted, 1 << 20).unwrap().records;
        let shown = Batches::new(payload).map(|batch| {
            let header = *batch.unwrap().header();
            let mark = if header.is_control() { "!" } else { "" };
            format!("{}{mark}x{}", header.base_offset, header.count)
        });
        shown.collect()
    }

    #[test]
    fn the_newest_record_of_a_key_stays_and_the_log_ends_where_it_did() {
        let mut log = PartitionLog::default();
        for key in ["a", "b", "a"] {
            append(&mut log, key, Stamp::Anonymous);
        }
        log.compact();
        assert_eq!((left(&log), log.high_watermark()), (vec!["1x1".to_owned(), "2x1".to_owned()], 3));
    }

    #[test]
    fn on_v1_the_last_data_of_a_producer_stays_empty_with_its_marker() {
        let mut log = PartitionLog::default();
        append(&mut log, "a", within(1, 0, 0));
        append(&mut log, "a", within(1, 0, 1));
        end(&mut log, 1, 0, Outcome::Abort).unwrap();
        append(&mut log, "a", Stamp::Anonymous);
        log.compact();
        assert_eq!(left(&log), ["1x0", "2!x1", "3x1"]);
        assert_eq!(log.aborted.len(), 1);
    }

    #[test]
    fn on_v2_a_marker_is_left_that_does_not_say_what_it_was() {
        let mut log = PartitionLog::default();
        append(&mut log, "a", within(1, 0, 0));
        end(&mut log, 1, 1, Outcome::Abort).unwrap();
        append(&mut log, "b", within(1, 1, 0));
        end(&mut log, 1, 2, Outcome::Commit).unwrap();
        append(&mut log, "b", Stamp::Anonymous);
        log.compact();
        assert_eq!(left(&log), ["3!x0", "4x1"], "the first marker is not the producer's last batch");
        assert!(log.aborted.is_empty());
    }

    #[test]
    fn aborted_records_overwrite_nothing_and_open_transactions_are_left_alone() {
        let mut log = PartitionLog::default();
        append(&mut log, "a", Stamp::Anonymous);
        append(&mut log, "a", within(1, 0, 0));
        end(&mut log, 1, 1, Outcome::Abort).unwrap();
        append(&mut log, "a", within(2, 0, 0));
        append(&mut log, "a", Stamp::Anonymous);
        log.compact();
        assert_eq!(left(&log), ["0x1", "2!x0", "3x1", "4x1"]);
    }
}

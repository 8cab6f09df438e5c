//! Leader epochs of a log, and a log that lost its end.

use super::PartitionLog;

impl PartitionLog {
    /// The largest epoch that is not above `epoch`, and where it ends; nothing for an epoch above the leader's.
    pub(crate) fn end_of_epoch(&self, epoch: i32, leader_epoch: i32) -> Option<(i32, i64)> {
        if epoch >= leader_epoch {
            return (epoch == leader_epoch).then_some((epoch, self.end));
        }
        let of = |batch: &crate::wire::batch::Batch| batch.header().partition_leader_epoch;
        let known = self.batches.iter().map(of).filter(|known| *known <= epoch).max();
        let next = self.batches.iter().find(|batch| of(batch) > epoch);
        Some((known.unwrap_or(epoch), next.map_or(self.end, |batch| batch.header().base_offset)))
    }

    /// Forgets everything from `offset` on, as a log does that follows a leader which never had it. What producers wrote
    /// there was never written; a transaction that was aborted there is open again, one that was committed there stays so.
    pub(crate) fn truncate(&mut self, offset: i64) {
        let kept = self.batches.partition_point(|batch| batch.header().last_offset() < offset);
        self.batches.truncate(kept);
        self.end = self.batches.back().map_or(self.start, |batch| batch.header().next_offset());
        let end = self.end;
        for lost in self.aborted.iter().filter(|a| a.last_offset >= end && a.first_offset < end) {
            self.producers.entry(lost.producer_id).or_default().open_from = Some(lost.first_offset);
        }
        self.aborted.retain(|aborted| aborted.last_offset < end);
        self.producers.values_mut().for_each(|producer| producer.truncated(end));
    }
}

#[cfg(test)]
mod tests {
    use super::super::marker::Outcome;
    use super::super::marker::testing::{data, plain};
    use super::super::producers::FirstSequence;
    use super::super::{AppendRules, Isolation};
    use super::*;

    fn rules(leader_epoch: i32) -> AppendRules {
        AppendRules { leader_epoch, first_sequence: FirstSequence::Any, append_time_ms: None }
    }

    #[test]
    fn an_epoch_ends_where_the_next_one_begins() {
        let mut log = PartitionLog::default();
        for epoch in [0, 0, 2, 5] {
            log.append(&plain(2), rules(epoch)).unwrap();
        }
        let ends = [0, 1, 2, 4, 5, 6, 7].map(|epoch| log.end_of_epoch(epoch, 6));
        let known = [(0, 4), (0, 4), (2, 6), (2, 6), (5, 8), (6, 8)].map(Some);
        assert_eq!((&ends[..6], ends[6]), (&known[..], None));
        log.delete_before(4).unwrap();
        assert_eq!(
            log.end_of_epoch(0, 6),
            Some((0, 4)),
            "nothing of it is left, and where it ended is known"
        );
    }

    #[test]
    fn what_was_cut_off_was_never_written() {
        let mut log = PartitionLog::default();
        log.append(&data(1, 0, 0, 2), rules(0)).unwrap();
        log.append(&data(1, 0, 2, 1), rules(0)).unwrap();
        log.append(&data(2, 0, 0, 1), rules(0)).unwrap();
        super::super::tests::end(&mut log, 1, 0, Outcome::Abort).unwrap();
        log.truncate(2);
        assert_eq!((log.high_watermark(), log.last_stable_offset()), (2, 0), "its abort is gone too");
        assert!(log.read(0, Isolation::ReadCommitted, 1000).unwrap().aborted.is_empty());
        assert!(!log.has_ongoing(2, 0));
        // The same batch is no duplicate of one that is gone.
        assert_eq!(log.append(&data(1, 0, 2, 1), rules(1)).unwrap().base_offset, 2);
    }
}

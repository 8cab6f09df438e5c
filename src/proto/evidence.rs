//! What the log of a partition proves about a transaction, when its coordinator has moved on.
//!
//! ```text
//! topic id ──not the stored one──► TopicRecreated / TopicMissing
//!   │ same
//! read from the stored offset ──out of range, or the batch there is not ours──► read from the log's start
//!   │ our batch is there                                                          │
//! first control record of the producer id after it, of whatever epoch             only a control record of our
//!   COMMIT of our commit epoch  ► Committed                                       own commit epoch counts
//!   COMMIT of another epoch     ► CommitOfOtherEpoch                                ► Committed / Aborted
//!   ABORT                       ► Aborted                                         none ► Gone
//!   none                        ► NoMarkerYet, or MarkerGone when nothing is open there
//! ```
//! A control batch whose record compaction removed tells nothing and is passed over. "Visible and not in the list of
//! aborted transactions" is no evidence either, for the same compaction empties that list.

use std::collections::VecDeque;

use super::committable::{Committable, CommittablePartition};
use crate::ids::{Identity, Moment, TopicId, TopicPartition};

/// What a control record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Marker {
    /// The producer's open transaction on this partition is committed.
    Commit,
    /// It is aborted.
    Abort,
}

/// What kind of batch stands in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BatchKind {
    /// Records outside of any transaction, or control records that do not end one.
    Plain,
    /// Records of a transaction. Compaction may have removed every one of them and kept the batch.
    Transactional,
    /// A control batch that ends a transaction; its epoch is the batch's.
    Ends(Marker),
    /// A control batch without its record.
    EmptyControl,
}

/// The header of one batch in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LogBatch {
    /// Its first offset.
    pub base_offset: i64,
    /// Its last offset.
    pub last_offset: i64,
    /// Producer id and epoch; -1 and -1 without a producer.
    pub identity: Identity,
    /// What it holds.
    pub kind: BatchKind,
}

/// A fact about the partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EvidenceInput {
    /// Metadata: the topic has this id; zero when the broker does not tell ids.
    Topic(TopicId),
    /// Metadata: there is no such topic or partition.
    TopicMissing,
    /// Batches in the order of the log, as a fetch without isolation returned them. They may begin before the
    /// offset that was asked for.
    Batches {
        /// The batches; none when the end is reached.
        batches: Vec<LogBatch>,
        /// The offset up to which the log is replicated.
        high_watermark: i64,
        /// The first offset that is not stable.
        last_stable_offset: i64,
    },
    /// The offset that was asked for is not in the log.
    OutOfRange,
    /// The first offset of the log.
    LogStart(i64),
    /// The right to read the topic is missing.
    Denied,
}

/// What the machine wants to know next. A question that cannot be answered now is asked again by the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvidenceEffect {
    /// Metadata of the topic.
    CheckTopic,
    /// A fetch of the partition, without isolation, from this offset.
    Read {
        /// Where to begin.
        from: i64,
    },
    /// The first offset of the log.
    FindLogStart,
}

/// What one partition showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PartitionVerdict {
    /// Our own commit ends our records here. It proves the decision for every partition.
    Committed {
        /// The epoch of the control record.
        marker_epoch: i16,
        /// Whether our records are still there.
        records: RecordsLeft,
    },
    /// An abort ends our records here; readers do not see them.
    Aborted {
        /// The epoch of the control record. One more than the transaction's after a fence or a timeout.
        marker_epoch: i16,
    },
    /// A commit that is not our own ends our records here: readers see them, but a later transaction of the
    /// producer id closed ours (or somebody wrote the marker by hand). It proves no decision.
    CommitOfOtherEpoch {
        /// The epoch of the control record.
        marker_epoch: i16,
    },
    /// Our records are there, and nothing ends them: open, prepared, or hanging.
    NoMarkerYet {
        /// The first offset that is not stable.
        last_stable_offset: i64,
    },
    /// Our records are there and nothing is open, but no control record is left. No claim.
    MarkerGone,
    /// Neither our records nor our control record are left. No claim.
    Gone,
    /// The topic was deleted and created again; our records are gone.
    TopicRecreated {
        /// The new topic's id.
        found: TopicId,
    },
    /// The topic or partition was deleted.
    TopicMissing,
    /// The right to read the topic is missing. No claim.
    Denied,
}

/// Whether the records themselves are still in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RecordsLeft {
    /// The batch at the stored offset is ours.
    Yes,
    /// Retention, compaction or DeleteRecords removed it; only the control record is left.
    No,
}

/// A fact that was not asked for; the machine's state is as before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this fact was not asked for")]
pub struct Misuse;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Topic,
    /// Reading from the stored offset: has our batch been seen, and where does the next read begin?
    FromOffset {
        ours: bool,
        next: i64,
    },
    LogStart,
    /// Reading from the log's start, for a control record of our own.
    FromStart {
        next: i64,
    },
    Done(PartitionVerdict),
}

/// The machine for one partition.
#[derive(Debug, Clone)]
pub struct PartitionEvidence {
    identity: Identity,
    commit_epoch: Option<i32>,
    topic_id: TopicId,
    offset: i64,
    state: State,
    /// The end of the log when reading began: what is appended later is no business of ours, and reading ends.
    end: Option<i64>,
    effects: VecDeque<EvidenceEffect>,
}

impl PartitionEvidence {
    /// Begins to look at `partition` of `committable`. `end_txn_version` is the version of the EndTxn that was
    /// really sent, which is the committable's unless a cluster at level 0 forced version 4.
    #[must_use]
    pub fn new(
        committable: &Committable,
        end_txn_version: Option<i16>,
        partition: &CommittablePartition,
    ) -> Self {
        let sent = Committable { end_txn_version, partitions: Vec::new(), ..committable.clone() };
        Self {
            identity: committable.identity,
            commit_epoch: sent.commit_epoch(),
            topic_id: partition.topic_id,
            offset: partition.offset,
            state: State::Topic,
            end: None,
            effects: VecDeque::from([EvidenceEffect::CheckTopic]),
        }
    }

    /// Takes a fact.
    ///
    /// # Errors
    /// [`Misuse`] when the fact answers no question that is open.
    pub fn handle(&mut self, _now: Moment, input: EvidenceInput) -> Result<(), Misuse> {
        let next = match (self.state, input) {
            (State::Done(_), _) => return Err(Misuse),
            (_, EvidenceInput::Denied) => State::Done(PartitionVerdict::Denied),
            (_, EvidenceInput::TopicMissing) => State::Done(PartitionVerdict::TopicMissing),
            (State::Topic, EvidenceInput::Topic(found)) => self.topic(found),
            // Removed before or while we read: the records are no evidence any more, the marker may be.
            (State::FromOffset { .. }, EvidenceInput::OutOfRange) => self.look_from_start(),
            (
                State::FromOffset { ours, next },
                EvidenceInput::Batches { batches, high_watermark, last_stable_offset },
            ) => {
                let end = *self.end.get_or_insert(high_watermark);
                self.scan_from_offset(Scan { batches: &batches, next, end }, ours, last_stable_offset)
            }
            (State::LogStart, EvidenceInput::LogStart(start)) => State::FromStart { next: start },
            // The start moved while we read: what was removed cannot be found any more.
            (State::FromStart { .. }, EvidenceInput::OutOfRange) => State::LogStart,
            (State::FromStart { next }, EvidenceInput::Batches { batches, high_watermark, .. }) => {
                let end = *self.end.get_or_insert(high_watermark);
                self.scan_from_start(&Scan { batches: &batches, next, end })
            }
            (
                State::Topic | State::LogStart | State::FromOffset { .. } | State::FromStart { .. },
                EvidenceInput::Topic(_)
                | EvidenceInput::Batches { .. }
                | EvidenceInput::OutOfRange
                | EvidenceInput::LogStart(_),
            ) => return Err(Misuse),
        };
        self.enter(next);
        Ok(())
    }

    /// The next question, if one is to be asked.
    pub fn poll_effect(&mut self) -> Option<EvidenceEffect> {
        self.effects.pop_front()
    }

    /// The machine waits for nothing but answers.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Moment> {
        None
    }

    /// What the partition showed, once everything is read.
    #[must_use]
    pub fn verdict(&self) -> Option<PartitionVerdict> {
        match self.state {
            State::Done(verdict) => Some(verdict),
            State::Topic | State::LogStart | State::FromOffset { .. } | State::FromStart { .. } => None,
        }
    }

    fn enter(&mut self, state: State) {
        self.state = state;
        let effect = match state {
            State::Topic => EvidenceEffect::CheckTopic,
            State::FromOffset { next, .. } | State::FromStart { next } => EvidenceEffect::Read { from: next },
            State::LogStart => EvidenceEffect::FindLogStart,
            State::Done(_) => return,
        };
        self.effects.push_back(effect);
    }

    fn topic(&self, found: TopicId) -> State {
        if self.topic_id.is_known() && found.is_known() && found != self.topic_id {
            return State::Done(PartitionVerdict::TopicRecreated { found });
        }
        if self.offset < 0 {
            return self.look_from_start();
        }
        State::FromOffset { ours: false, next: self.offset }
    }

    /// Without our batch as an anchor only the topic's id tells that this is still the log it was: a topic that was
    /// created anew holds a stray marker of ours, and somebody else's records.
    fn look_from_start(&self) -> State {
        if self.topic_id.is_known() { State::LogStart } else { State::Done(PartitionVerdict::Gone) }
    }

    fn scan_from_offset(&self, scan: Scan<'_>, ours: bool, last_stable_offset: i64) -> State {
        let mut ours = ours;
        for batch in scan.batches.iter().filter(|b| b.last_offset >= scan.next) {
            if !ours {
                let covers = batch.base_offset <= self.offset;
                if !covers || batch.kind != BatchKind::Transactional || batch.identity != self.identity {
                    return self.look_from_start();
                }
                ours = true;
            } else if let Some(marker) = self.marker_of_ours(batch) {
                return State::Done(self.judge(marker, batch.identity.epoch.0, RecordsLeft::Yes));
            }
        }
        match scan.rest() {
            Some(next) => State::FromOffset { ours, next },
            None if !ours => self.look_from_start(),
            None if last_stable_offset <= self.offset => {
                State::Done(PartitionVerdict::NoMarkerYet { last_stable_offset })
            }
            None => State::Done(PartitionVerdict::MarkerGone),
        }
    }

    fn scan_from_start(&self, scan: &Scan<'_>) -> State {
        let own = scan.batches.iter().filter(|b| b.last_offset >= scan.next).find_map(|batch| {
            let marker = self.marker_of_ours(batch)?;
            let epoch = batch.identity.epoch.0;
            // Any other epoch may belong to another transaction; above all an abort of one epoch more on V1.
            (self.commit_epoch == Some(i32::from(epoch))).then_some((marker, epoch))
        });
        match (own, scan.rest()) {
            (Some((marker, epoch)), _) => State::Done(self.judge(marker, epoch, RecordsLeft::No)),
            (None, Some(next)) => State::FromStart { next },
            (None, None) => State::Done(PartitionVerdict::Gone),
        }
    }

    fn marker_of_ours(&self, batch: &LogBatch) -> Option<Marker> {
        match batch.kind {
            BatchKind::Ends(marker) if batch.identity.producer_id == self.identity.producer_id => {
                Some(marker)
            }
            BatchKind::Ends(_) | BatchKind::Plain | BatchKind::Transactional | BatchKind::EmptyControl => {
                None
            }
        }
    }

    fn judge(&self, marker: Marker, marker_epoch: i16, records: RecordsLeft) -> PartitionVerdict {
        // Without a pinned version only the lower of the two commit epochs cannot be a later transaction's.
        let own = self.commit_epoch.unwrap_or(i32::from(self.identity.epoch.0));
        match marker {
            Marker::Abort => PartitionVerdict::Aborted { marker_epoch },
            Marker::Commit if i32::from(marker_epoch) == own => {
                PartitionVerdict::Committed { marker_epoch, records }
            }
            Marker::Commit => PartitionVerdict::CommitOfOtherEpoch { marker_epoch },
        }
    }
}

/// One answer, and where the reading stands.
struct Scan<'a> {
    batches: &'a [LogBatch],
    next: i64,
    end: i64,
}

impl Scan<'_> {
    /// Where the next read begins, if the end is not reached. An answer without batches that lies before the end
    /// says nothing, and the same read is asked for again.
    fn rest(&self) -> Option<i64> {
        let after = self.batches.iter().map(|b| b.last_offset.saturating_add(1)).max();
        let next = after.map_or(self.next, |after| after.max(self.next));
        (next < self.end).then_some(next)
    }
}

/// What all partitions together prove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogProof {
    /// One partition's own commit proves the decision for all.
    Committed {
        /// The partitions that showed it.
        proven_by: Vec<TopicPartition>,
    },
    /// These partitions' records are aborted.
    Lost {
        /// Exactly the partitions that showed an abort.
        partitions: Vec<(TopicPartition, PartitionVerdict)>,
    },
    /// The log proves nothing.
    Nothing,
}

/// Combines what every partition showed: an abort anywhere is a loss, a commit of our own anywhere proves the
/// decision, and everything else proves nothing.
#[must_use]
pub fn combine(verdicts: &[(TopicPartition, PartitionVerdict)]) -> LogProof {
    let aborted: Vec<_> =
        verdicts.iter().filter(|(_, v)| matches!(v, PartitionVerdict::Aborted { .. })).cloned().collect();
    if !aborted.is_empty() {
        return LogProof::Lost { partitions: aborted };
    }
    let committed = verdicts.iter().filter(|(_, v)| matches!(v, PartitionVerdict::Committed { .. }));
    let proven_by: Vec<_> = committed.map(|(partition, _)| partition.clone()).collect();
    if proven_by.is_empty() { LogProof::Nothing } else { LogProof::Committed { proven_by } }
}

#[cfg(test)]
#[path = "evidence_tests.rs"]
mod tests;

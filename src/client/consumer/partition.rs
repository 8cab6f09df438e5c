//! One assigned partition: where reading stands, and what it does next.

use std::{ops::Range, time::Duration};

use super::{
    ConsumerError, ConsumerRecord, OutOfRangePolicy, Start,
    budget::Held,
    buffer::{After, Buffer, Payload},
    read::{FetchSettings, Fetched, Want},
};
use crate::{
    client::ClientError,
    exchange::{Isolation, MetadataAnswer},
    ids::{Moment, TopicId, TopicPartition},
    net::Clock,
    proto::{backoff::Backoff, truncation, verdict::MetadataVerdict},
    record::StoredRecord,
    wire::{
        batch::{BatchError, Tail},
        fetch::EpochEnd,
    },
};

/// How long a topic that was there may be missing: a broker that just started does not know all topics yet.
const MISSING_PATIENCE: Duration = Duration::from_secs(5);

/// So many tries in a row are nobody's business: a leader that moves takes as many.
const SILENT_TRIES: u32 = 8;

/// What a partition does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Its leader is to be found, or its topic's id to be checked.
    FindLeader,
    /// It is to be fetched.
    Idle,
    /// A fetch from the position is under way.
    Busy,
    /// Where its log begins and ends is being looked up.
    Ranging,
    /// Fetched batches wait to be taken.
    Buffered,
}

pub(super) struct Partition {
    pub(super) place: TopicPartition,
    /// Changes with every seek, so that answers to older questions are known.
    pub(super) generation: u64,
    pub(super) step: Step,
    /// Set with every change of the position, for those who watch it.
    pub(super) moved: bool,
    at: Start,
    leader_epoch: Option<i32>,
    topic_id: TopicId,
    buffer: Buffer,
    max_bytes: i32,
    wake: Moment,
    backoff: Backoff,
    seen: bool,
    missing_since: Option<Moment>,
}

/// What a partition had to hand out.
pub(super) enum Next {
    Nothing,
    Records(Vec<ConsumerRecord>),
    /// It had something buffered, and all of one answer is handed out.
    Drained,
}

impl Partition {
    pub(super) fn new(place: TopicPartition, start: Start, generation: u64) -> Self {
        Self {
            place,
            generation,
            step: Step::FindLeader,
            moved: false,
            at: start,
            leader_epoch: None,
            topic_id: TopicId::UNKNOWN,
            buffer: Buffer::default(),
            max_bytes: 0,
            wake: Moment::default(),
            backoff: Backoff::new(Duration::from_millis(50), Duration::from_secs(1), Clock::seed()),
            seen: false,
            missing_since: None,
        }
    }

    /// Its topic must have this id, if it is known.
    pub(super) fn of_topic(self, topic_id: TopicId) -> Self {
        Self { topic_id, ..self }
    }

    pub(super) fn topic_id(&self) -> TopicId {
        self.topic_id
    }

    pub(super) fn leader_epoch(&self) -> Option<i32> {
        self.leader_epoch
    }

    /// What was read before the position stood at this epoch.
    pub(super) fn set_leader_epoch(&mut self, epoch: Option<i32>) {
        self.leader_epoch = epoch;
    }

    pub(super) fn seek(&mut self, start: Start, generation: u64) {
        self.generation = generation;
        self.buffer = Buffer::default();
        self.leader_epoch = None;
        self.go_to(start);
        if self.step != Step::FindLeader {
            self.step = Step::Idle;
        }
    }

    pub(super) fn position(&self) -> Option<i64> {
        match self.at {
            Start::Offset(offset) => Some(offset),
            Start::Beginning | Start::End => None,
        }
    }

    fn go_to(&mut self, at: Start) {
        self.moved |= self.at != at;
        self.at = at;
    }

    /// When it wants to go on, if it waits for nothing but the clock.
    pub(super) fn wake(&self) -> Option<Moment> {
        matches!(self.step, Step::FindLeader | Step::Idle).then_some(self.wake)
    }

    pub(super) fn is_due(&self, now: Moment) -> bool {
        self.wake().is_some_and(|wake| wake <= now)
    }

    /// Whether a fetch is of use now: from its position, or ahead of it.
    pub(super) fn wants(&self, now: Moment) -> bool {
        match self.step {
            Step::Idle => self.is_due(now),
            Step::Buffered => self.buffer.next().is_some(),
            Step::FindLeader | Step::Busy | Step::Ranging => false,
        }
    }

    /// What is to be fetched, which is under way from now on.
    pub(super) fn ask(&mut self, settings: &FetchSettings) -> Want {
        let (at, last_epoch) = match self.buffer.next() {
            Some(behind) => {
                self.buffer.asked();
                (Start::Offset(behind.offset), known(behind.leader_epoch))
            }
            None => {
                self.step = Step::Busy;
                (self.at, self.leader_epoch)
            }
        };
        Want {
            place: self.place.clone(),
            topic_id: self.topic_id,
            generation: self.generation,
            at,
            max_bytes: self.max_bytes.max(settings.max_partition_bytes),
            last_epoch,
        }
    }

    /// What it holds of the budget.
    pub(super) fn held(&self) -> Held {
        self.buffer.held()
    }

    pub(super) fn retry(&mut self, now: Moment, step: Step) {
        self.step = step;
        self.wake = now.after(self.backoff.next_wait());
        // That is after some seconds, and then about once a minute.
        if self.backoff.tries() % 60 == SILENT_TRIES {
            tracing::warn!(
                partition = %self.place, position = self.position(), tries = self.backoff.tries(),
                "the partition can't be read for now; still trying"
            );
        }
    }

    /// Metadata of its topic came, or did not.
    pub(super) fn found(
        &mut self,
        now: Moment,
        answer: &Result<MetadataAnswer, ClientError>,
    ) -> Result<(), ConsumerError> {
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                self.look_again(now);
                return match error {
                    ClientError::Unreachable(_) | ClientError::Call(_) => Ok(()),
                    ClientError::AnotherCluster(_) | ClientError::Refused { .. } => Err(error.clone().into()),
                };
            }
        };
        let Some(topic) = answer.topics.iter().find(|t| t.name == self.place.topic) else {
            self.look_again(now);
            return Ok(());
        };
        match topic.verdict {
            MetadataVerdict::Known | MetadataVerdict::Leaderless => {
                self.check_id(now, topic.id)?;
                match topic.partitions.iter().find(|p| p.index == self.place.partition) {
                    None => self.is_missing(now),
                    Some(found) => {
                        (self.seen, self.missing_since) = (true, None);
                        match found.leader {
                            None => self.look_again(now),
                            Some(_) if self.step == Step::FindLeader => self.step = Step::Idle,
                            Some(_) => {}
                        }
                        Ok(())
                    }
                }
            }
            MetadataVerdict::Missing => self.is_missing(now),
            MetadataVerdict::Denied => {
                self.look_again(now);
                Err(ConsumerError::Denied(self.place.clone()))
            }
            MetadataVerdict::InvalidName | MetadataVerdict::Failed => {
                self.look_again(now);
                Err(ConsumerError::Refused { partition: self.place.clone(), code: topic.code })
            }
            MetadataVerdict::Retry | MetadataVerdict::Rebootstrap => {
                self.look_again(now);
                Ok(())
            }
        }
    }

    /// Whether metadata shows its topic.
    pub(super) fn is_seen_in(&self, answer: &Result<MetadataAnswer, ClientError>) -> bool {
        let topics = answer.iter().flat_map(|answer| &answer.topics);
        let ours = topics.filter(|topic| topic.name == self.place.topic).map(|topic| topic.verdict);
        ours.into_iter().any(|v| matches!(v, MetadataVerdict::Known | MetadataVerdict::Leaderless))
    }

    /// Looks again later, if it was looking; a fetch that is under way is left alone.
    fn look_again(&mut self, now: Moment) {
        if self.step == Step::FindLeader {
            self.retry(now, Step::FindLeader);
        }
    }

    fn is_missing(&mut self, now: Moment) -> Result<(), ConsumerError> {
        self.look_again(now);
        let since = *self.missing_since.get_or_insert(now);
        if self.seen && now.since(since) < MISSING_PATIENCE {
            return Ok(());
        }
        Err(ConsumerError::Missing(self.place.clone()))
    }

    fn check_id(&mut self, now: Moment, found: TopicId) -> Result<(), ConsumerError> {
        if !self.topic_id.is_known() {
            self.topic_id = found;
        }
        if !found.is_known() || found == self.topic_id {
            return Ok(());
        }
        // Whatever was fetched may be the new topic's already.
        self.buffer = Buffer::default();
        self.retry(now, Step::FindLeader);
        let (topic, expected) = (self.place.topic.clone(), self.topic_id);
        Err(ConsumerError::Recreated { topic, expected, found })
    }

    /// An answer to a fetch came; tells the step that follows from it.
    pub(super) fn fetched(
        &mut self,
        now: Moment,
        (isolation, policy): (Isolation, OutOfRangePolicy),
        (at, fetched): (Start, Fetched),
    ) -> Result<Step, ConsumerError> {
        if let Start::Offset(offset) = at {
            if self.buffer.expects(offset) {
                self.fetched_ahead(isolation, offset, fetched);
                return Ok(Step::Buffered);
            }
        }
        if self.step != Step::Busy || self.at != at {
            // What was asked ahead of something that could not be read.
            return Ok(Step::Idle);
        }
        match fetched {
            Fetched::Start(offset) => {
                self.go_to(Start::Offset(offset));
                self.step = Step::Idle;
            }
            Fetched::Payload(payload) => {
                let payload = Payload::new(isolation, self.position().unwrap_or(0), payload);
                let payload = payload.map_err(|source| self.unreadable(now, source))?;
                self.backoff.reset();
                self.keep(payload);
            }
            Fetched::OutOfRange => self.step = Step::Ranging,
            Fetched::Diverged(end) => self.diverged(now, policy, end)?,
            Fetched::Moved => self.retry(now, Step::FindLeader),
            Fetched::Retry => self.retry(now, Step::Idle),
            Fetched::Denied => {
                self.retry(now, Step::Idle);
                return Err(ConsumerError::Denied(self.place.clone()));
            }
            Fetched::Refused(code) => {
                self.retry(now, Step::Idle);
                return Err(ConsumerError::Refused { partition: self.place.clone(), code });
            }
        }
        Ok(self.step)
    }

    fn keep(&mut self, payload: Payload) {
        self.step = if payload.is_empty() { Step::Idle } else { Step::Buffered };
        if !payload.is_empty() {
            self.buffer.begin(payload);
        }
    }

    /// What was fetched ahead waits for its turn. If it is no payload that can be read, it is fetched again when the position
    /// is there, and means then what it means.
    fn fetched_ahead(&mut self, isolation: Isolation, offset: i64, fetched: Fetched) {
        let payload = match fetched {
            Fetched::Payload(payload) => Payload::new(isolation, offset, payload).ok(),
            Fetched::Start(_)
            | Fetched::OutOfRange
            | Fetched::Diverged(_)
            | Fetched::Moved
            | Fetched::Retry
            | Fetched::Denied
            | Fetched::Refused(_) => None,
        };
        self.buffer.came(payload);
    }

    /// The leader's log is another one than what was read last stood in.
    fn diverged(
        &mut self,
        now: Moment,
        policy: OutOfRangePolicy,
        end: EpochEnd,
    ) -> Result<(), ConsumerError> {
        self.retry(now, Step::Idle);
        let position = self.position().unwrap_or(0);
        let Some(kept) = truncation::kept(position, self.leader_epoch, end) else { return Ok(()) };
        match policy {
            OutOfRangePolicy::Error => {
                Err(ConsumerError::Truncated { partition: self.place.clone(), position, kept })
            }
            OutOfRangePolicy::Earliest | OutOfRangePolicy::Latest => {
                tracing::warn!(
                    partition = %self.place, position, kept,
                    "the log was truncated: reading goes on where it is still the one that was read"
                );
                self.leader_epoch = None;
                self.go_to(Start::Offset(kept));
                Ok(())
            }
        }
    }

    /// What was fetched can't be read; it is fetched once more.
    fn unreadable(&mut self, now: Moment, source: BatchError) -> ConsumerError {
        self.buffer = Buffer::default();
        self.retry(now, Step::Idle);
        let (partition, offset) = (self.place.clone(), self.position().unwrap_or(-1));
        ConsumerError::Unreadable { partition, offset, source }
    }

    /// The position was not in the log, and this is what the log holds.
    pub(super) fn out_of_range(
        &mut self,
        now: Moment,
        policy: OutOfRangePolicy,
        range: Result<Range<i64>, ConsumerError>,
    ) -> Result<(), ConsumerError> {
        self.retry(now, Step::FindLeader);
        let (available, wanted) = (range?, self.position().unwrap_or(-1));
        // A record may have come, or a leader with more of the log, since the answer that said otherwise.
        if available.contains(&wanted) || wanted == available.end {
            // Or it is the epoch of what was read last that the leader can't place.
            self.leader_epoch = None;
            return Ok(());
        }
        let start = match policy {
            OutOfRangePolicy::Error => {
                let partition = self.place.clone();
                return Err(ConsumerError::OutOfRange { partition, wanted, available });
            }
            OutOfRangePolicy::Earliest => available.start,
            OutOfRangePolicy::Latest => available.end,
        };
        let skipped = start.saturating_sub(wanted);
        tracing::warn!(
            partition = %self.place, wanted, start, skipped,
            "the position is not in the log: reading goes on elsewhere"
        );
        self.leader_epoch = None;
        self.go_to(Start::Offset(start));
        Ok(())
    }

    /// The records of the next buffered batch that has any.
    pub(super) fn next_records(&mut self, now: Moment) -> Result<Next, ConsumerError> {
        let (topic, partition) = (self.place.topic.clone(), self.place.partition);
        let placed = |record: StoredRecord| ConsumerRecord { topic: topic.clone(), partition, record };
        loop {
            let Some(payload) = self.buffer.reading() else { return Ok(Next::Nothing) };
            match payload.next(placed) {
                Some(Ok((records, epoch))) => {
                    let position = payload.position();
                    self.leader_epoch = known(epoch);
                    self.go_to(Start::Offset(position));
                    if !records.is_empty() {
                        self.moved = false;
                        return Ok(Next::Records(records));
                    }
                }
                Some(Err(source)) => return Err(self.unreadable(now, source)),
                None => {
                    if let Tail::FirstCut { needed_bytes, .. } = payload.tail() {
                        let needed = needed_bytes.and_then(|bytes| i32::try_from(bytes).ok());
                        self.max_bytes = needed.unwrap_or(self.max_bytes).max(self.max_bytes);
                    }
                    self.step = match self.buffer.finish() {
                        After::Nothing => Step::Idle,
                        After::Asked => Step::Busy,
                        After::Here => Step::Buffered,
                    };
                    return Ok(Next::Drained);
                }
            }
        }
    }
}

/// A leader epoch that says something.
fn known(epoch: i32) -> Option<i32> {
    (epoch >= 0).then_some(epoch)
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use tracing::{Event, Level, Metadata, Subscriber, span};

    use super::*;
    use crate::wire::fetch::FetchPartition;

    /// Counts warnings.
    #[derive(Clone, Default)]
    struct Warnings(Arc<AtomicUsize>);

    impl Subscriber for Warnings {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            *metadata.level() == Level::WARN
        }

        fn event(&self, _: &Event<'_>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }

        fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
            span::Id::from_u64(1)
        }

        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
        fn enter(&self, _: &span::Id) {}
        fn exit(&self, _: &span::Id) {}
    }

    #[test]
    fn a_partition_that_can_not_be_read_is_reported_after_a_while_and_then_now_and_then() {
        let warnings = Warnings::default();
        let mut partition = Partition::new(TopicPartition::new("t", 0), Start::Beginning, 1);
        let mut told = Vec::new();
        tracing::subscriber::with_default(warnings.clone(), || {
            for tries in 1..=70 {
                partition.retry(Moment::default(), Step::Idle);
                if warnings.0.swap(0, Ordering::Relaxed) > 0 {
                    told.push(tries);
                }
            }
        });
        assert_eq!(told, [8, 68]);
    }

    #[test]
    fn what_lies_before_the_position_as_a_whole_stops_nothing_and_brings_nothing_back() {
        use crate::{
            record::{Compression, RecordRef},
            wire::batch::{BatchBuilder, Stamp},
        };
        let mut builder = BatchBuilder::with_buffer(Vec::new());
        builder.append(&RecordRef::value(b"x"), 0).unwrap();
        let mut sealed = builder.seal(Compression::None).unwrap();
        sealed.stamp(Stamp::Anonymous);
        let records = sealed.freeze();
        let payload = || {
            let records = records.clone();
            Fetched::Payload(FetchPartition {
                index: 0,
                error_code: 0,
                high_watermark: 9,
                last_stable_offset: 9,
                log_start_offset: 0,
                aborted_transactions: None,
                preferred_read_replica: None,
                diverging: None,
                current_leader: None,
                records,
            })
        };
        let how = (Isolation::Uncommitted, OutOfRangePolicy::Error);
        let now = Moment::default();
        for early in [false, true] {
            let mut p = Partition::new(TopicPartition::new("t", 0), Start::Offset(5), 1);
            p.step = Step::Idle;
            let first = p.ask(&FetchSettings::default());
            p.fetched(now, how, (first.at, payload())).unwrap();
            assert_eq!(p.step, Step::Buffered);
            let ahead = p.wants(now).then(|| p.ask(&FetchSettings::default()));
            let ahead = ahead.map(|w| w.at);
            if let (true, Some(at)) = (early, ahead) {
                p.fetched(now, how, (at, payload())).unwrap();
            }
            while !matches!(p.next_records(now).unwrap(), Next::Nothing) {}
            if let (false, Some(at)) = (early, ahead) {
                p.fetched(now, how, (at, payload())).unwrap();
            }
            while !matches!(p.next_records(now).unwrap(), Next::Nothing) {}
            assert_eq!((p.position(), p.step), (Some(5), Step::Idle), "early: {early}, ahead: {ahead:?}");
        }
    }
}

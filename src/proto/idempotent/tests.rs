//! The table of answers, cell by cell, and what holds beyond one answer.

use std::time::Duration;

use super::*;
use crate::proto::{outbox::Produce, topics::Looked};

const NODE: NodeId = NodeId(1);
const SECOND: u64 = 1_000_000;
const TIMEOUT: u64 = 120 * SECOND;

/// The topic's id, and that of another one of its name.
const OLD: TopicId = TopicId([1; 16]);
const NEW: TopicId = TopicId([2; 16]);

/// The machine with everything that it asked for answered, but for Produce.
struct Bench {
    machine: Idempotent,
    now: u64,
    sent: Vec<(Produce, Vec<Identity>)>,
    told: Vec<Effect>,
    granted: i64,
    /// What brokers tell of the topic.
    topic: TopicNow,
}

fn p(partition: i32) -> TopicPartition {
    TopicPartition::new("t", partition)
}

fn pair(producer_id: i64, epoch: i16) -> Identity {
    Identity::new(producer_id, epoch)
}

impl Bench {
    fn new() -> Self {
        Self::from_epoch(0)
    }

    fn from_epoch(epoch: i16) -> Self {
        let limits = Limits {
            in_flight: 5,
            first_batch: FirstBatch::Pipelined,
            request_bytes: 1 << 20,
            retry: Duration::from_millis(100),
            retry_max: Duration::from_secs(1),
        };
        let machine = Idempotent::new(limits, 1);
        let mut bench = Self {
            machine,
            now: 0,
            sent: Vec::new(),
            told: Vec::new(),
            granted: 7,
            topic: TopicNow::Known(OLD),
        };
        assert_eq!(bench.machine.poll_effect(), Some(Effect::Initialize));
        bench.tell(Input::Initialized(InitFact::Granted(pair(7, epoch))));
        bench
    }

    fn tell(&mut self, input: Input) {
        self.machine.handle(Moment(self.now), input);
        while let Some(effect) = self.machine.poll_effect() {
            match effect {
                Effect::Produce { produce, identities } => self.sent.push((produce, identities)),
                Effect::FindLeaders(partitions) => {
                    let leaders = partitions.into_iter().map(|p| (p, Some(NODE))).collect();
                    let topics = vec![("t".into(), self.topic)];
                    self.machine.handle(Moment(self.now), Input::Leaders(Looked { leaders, topics }));
                }
                Effect::Initialize => {
                    self.granted += 1;
                    let granted = InitFact::Granted(pair(self.granted, 0));
                    self.machine.handle(Moment(self.now), Input::Initialized(granted));
                }
                told @ (Effect::Split(_)
                | Effect::Stored { .. }
                | Effect::Failed { .. }
                | Effect::Restarted { .. }
                | Effect::Flushed) => self.told.push(told),
            }
        }
    }

    fn push(&mut self, ids: &[u64]) {
        self.push_to(OLD, ids);
    }

    fn push_to(&mut self, topic: TopicId, ids: &[u64]) {
        for id in ids {
            let deadline = Moment(self.now + TIMEOUT);
            let batch = Batch { id: BatchId(*id), topic, records: 10, bytes: 100, deadline };
            self.tell(Input::Batch { partition: p(0), batch, leader: Some(NODE) });
        }
    }

    /// A partition whose first batch is stored, so that five may be under way, and these batches on their way.
    fn flying(ids: &[u64]) -> Self {
        let mut bench = Self::new();
        bench.push(&[0]);
        bench.answer(0, stored(0));
        bench.told.clear();
        bench.push(ids);
        assert_eq!(bench.under_way(), ids);
        bench
    }

    fn answer(&mut self, batch: u64, fact: ProduceFact) {
        let at = self.sent.iter().position(|(r, _)| r.items[0].batch == BatchId(batch)).expect("it was sent");
        let (produce, _) = self.sent.remove(at);
        let item = &produce.items[0];
        let facts = vec![(item.partition.clone(), item.batch, fact)];
        self.tell(Input::Produced { request: produce.request, facts });
    }

    fn lose(&mut self, batch: u64) {
        let at = self.sent.iter().position(|(r, _)| r.items[0].batch == BatchId(batch)).expect("it was sent");
        let (produce, _) = self.sent.remove(at);
        self.tell(Input::ProduceLost(produce.request));
    }

    fn wait(&mut self, micros: u64) {
        self.now += micros;
        self.tell(Input::Tick);
    }

    fn under_way(&self) -> Vec<u64> {
        self.sent.iter().flat_map(|(r, _)| r.items.iter().map(|i| i.batch.0)).collect()
    }

    /// The batch, identity and sequence of what was sent last.
    fn last(&self) -> (u64, Identity, i32) {
        let (produce, identities) = self.sent.last().expect("something was sent");
        (produce.items[0].batch.0, identities[0], produce.items[0].sequence)
    }

    /// What was told, by batch: stored or the kind of the failure.
    fn fates(&mut self) -> Vec<(u64, Result<Option<i64>, CauseKind>)> {
        let fate = |effect| match effect {
            Effect::Stored { batch, offset } => Some((batch.0, Ok(offset))),
            Effect::Failed { batch, cause } => Some((batch.0, Err(cause.kind))),
            Effect::Split(_) | Effect::Restarted { .. } | Effect::Flushed => None,
            Effect::Initialize | Effect::Produce { .. } | Effect::FindLeaders(_) => None,
        };
        self.told.drain(..).filter_map(fate).collect()
    }
}

fn stored(offset: i64) -> ProduceFact {
    ProduceFact::Plain(BatchFact::Stored(Some(offset)))
}

fn plain(fact: BatchFact<Cause>) -> ProduceFact {
    ProduceFact::Plain(fact)
}

fn cause(kind: CauseKind) -> Cause {
    Cause::new(kind, "said by the broker")
}

#[test]
fn a_first_batch_leaves_alone_and_the_others_follow_in_sequence() {
    let mut b = Bench::new();
    b.push(&[0, 1, 2]);
    assert_eq!(b.under_way(), [0]);
    assert_eq!(b.last(), (0, pair(7, 0), 0));
    b.answer(0, stored(0));
    assert_eq!(b.under_way(), [1, 2]);
    assert_eq!(b.last(), (2, pair(7, 0), 20));
}

#[test]
fn what_asks_for_a_retry_is_sent_again_as_it_was() {
    let again = [
        BatchFact::Retry,
        BatchFact::NotSent,
        BatchFact::MaybeStored,
        BatchFact::RetryAfterMetadata,
        BatchFact::RetryAt(NodeId(1)),
    ];
    for fact in again {
        let mut b = Bench::flying(&[1]);
        b.answer(1, plain(fact.clone()));
        b.wait(SECOND);
        assert_eq!(b.last(), (1, pair(7, 0), 10), "{fact:?}");
        b.answer(1, stored(10));
        assert_eq!(b.fates(), [(1, Ok(Some(10)))]);
    }
}

#[test]
fn a_duplicate_is_stored_without_an_offset() {
    let mut b = Bench::flying(&[1]);
    b.answer(1, plain(BatchFact::Stored(None)));
    assert_eq!(b.fates(), [(1, Ok(None))]);
}

#[test]
fn a_gap_behind_a_missing_batch_is_waited_for() {
    let mut b = Bench::flying(&[1, 2]);
    b.answer(1, plain(BatchFact::Retry));
    b.answer(2, plain(BatchFact::OutOfOrder));
    b.wait(SECOND);
    assert_eq!(b.under_way(), [1]);
    b.answer(1, stored(10));
    b.wait(SECOND);
    assert_eq!(b.last(), (2, pair(7, 0), 20));
    b.answer(2, stored(20));
    assert_eq!(b.fates(), [(1, Ok(Some(10))), (2, Ok(Some(20)))]);
}

#[test]
fn a_gap_with_nothing_missing_begins_anew_with_the_next_epoch() {
    let mut b = Bench::flying(&[1, 2]);
    b.lose(2);
    b.answer(1, plain(BatchFact::OutOfOrder));
    b.wait(SECOND);
    assert_eq!(b.last(), (2, pair(7, 0), 20), "a log that knows nothing of us may have it");
    b.answer(2, plain(BatchFact::OutOfOrder));
    b.wait(SECOND);
    assert_eq!(b.last(), (1, pair(7, 1), 0), "it does not");
    b.answer(1, stored(10));
    assert_eq!(b.last(), (2, pair(7, 1), 10));
}

#[test]
fn a_gap_before_what_is_stored_is_none() {
    for (known, fate) in [(true, Ok(None)), (false, Err(CauseKind::OutcomeUnknown))] {
        let mut b = Bench::flying(&[1, 2]);
        b.lose(1);
        b.answer(2, stored(20));
        b.wait(SECOND);
        b.answer(1, plain(if known { BatchFact::Stored(None) } else { BatchFact::OutOfOrder }));
        assert_eq!(b.fates(), [(2, Ok(Some(20))), (1, fate)]);
        b.push(&[3]);
        assert_eq!(b.last(), (3, pair(7, 0), 30));
    }
}

#[test]
fn a_refused_batch_leaves_its_sequence_to_the_next_one() {
    let mut b = Bench::flying(&[1]);
    b.answer(1, plain(BatchFact::Refused(cause(CauseKind::Refused))));
    b.push(&[2]);
    assert_eq!(b.last(), (2, pair(7, 0), 10));
    assert_eq!(b.fates(), [(1, Err(CauseKind::Refused))]);
}

#[test]
fn a_refused_batch_with_others_behind_it_begins_a_new_epoch_for_them() {
    let mut b = Bench::flying(&[1, 2, 3]);
    b.answer(1, plain(BatchFact::Refused(cause(CauseKind::Denied))));
    assert_eq!(b.under_way(), [2, 3], "what is under way is waited for");
    b.answer(2, plain(BatchFact::OutOfOrder));
    b.lose(3);
    b.push(&[4]);
    b.wait(SECOND);
    assert_eq!(b.last(), (3, pair(7, 0), 30), "it may be stored");
    b.answer(3, plain(BatchFact::OutOfOrder));
    b.wait(SECOND);
    assert_eq!(b.last(), (2, pair(7, 1), 0));
    b.answer(2, stored(10));
    assert_eq!(b.under_way(), [3, 4]);
    assert_eq!(b.last(), (4, pair(7, 1), 20));
    assert_eq!(b.fates(), [(1, Err(CauseKind::Denied)), (2, Ok(Some(10)))]);
}

#[test]
fn a_refusal_after_a_try_without_an_answer_says_that_it_may_be_stored() {
    let mut b = Bench::flying(&[1]);
    b.lose(1);
    b.wait(SECOND);
    b.answer(1, plain(BatchFact::Refused(cause(CauseKind::Denied))));
    assert_eq!(b.fates(), [(1, Err(CauseKind::OutcomeUnknown))]);
    b.push(&[2]);
    assert_eq!(b.last(), (2, pair(7, 1), 0), "its sequence may be taken");
}

#[test]
fn an_answer_that_says_nothing_gives_the_batch_up_as_unknown() {
    let mut b = Bench::flying(&[1]);
    b.answer(1, ProduceFact::Unclear(cause(CauseKind::Refused)));
    assert_eq!(b.fates(), [(1, Err(CauseKind::OutcomeUnknown))]);
}

#[test]
fn a_batch_that_expires_unsent_or_refused_is_certainly_not_stored() {
    let mut b = Bench::flying(&[1]);
    b.answer(1, plain(BatchFact::Retry));
    b.push(&[2]);
    b.now += TIMEOUT;
    b.push(&[3]);
    assert_eq!(b.fates(), [(1, Err(CauseKind::DeliveryTimeout)), (2, Err(CauseKind::DeliveryTimeout))]);
    assert_eq!(b.last(), (3, pair(7, 0), 10), "nobody has seen that sequence");
}

#[test]
fn a_batch_that_is_under_way_is_waited_for_beyond_its_time() {
    let mut b = Bench::flying(&[1]);
    b.wait(2 * TIMEOUT);
    assert_eq!(b.fates(), []);
    assert_eq!(b.machine.next_deadline(Moment(b.now)), None, "and does not keep the driver busy");
    b.answer(1, stored(10));
    assert_eq!(b.fates(), [(1, Ok(Some(10)))]);
}

#[test]
fn a_batch_that_expires_without_an_answer_is_unknown_and_the_next_one_begins_anew() {
    let mut b = Bench::flying(&[1]);
    b.wait(TIMEOUT);
    b.lose(1);
    b.push(&[2]);
    assert_eq!(b.fates(), [(1, Err(CauseKind::OutcomeUnknown))]);
    b.wait(SECOND);
    assert_eq!(b.last(), (2, pair(7, 1), 0));
}

#[test]
fn what_may_be_stored_behind_an_unknown_batch_is_resolved_under_its_own_identity() {
    for (taken, epoch) in [(true, 0), (false, 1)] {
        let mut b = Bench::flying(&[1]);
        b.now += SECOND;
        b.push(&[2]);
        b.now += TIMEOUT - SECOND;
        b.lose(1);
        b.lose(2);
        assert_eq!(b.fates(), [(1, Err(CauseKind::OutcomeUnknown))]);
        b.wait(SECOND / 2);
        assert_eq!(b.last(), (2, pair(7, 0), 20));
        let answer = if taken { stored(20) } else { plain(BatchFact::OutOfOrder) };
        b.answer(2, answer);
        let fate = if taken { Ok(Some(20)) } else { Err(CauseKind::OutcomeUnknown) };
        assert_eq!(b.fates(), [(2, fate)]);
        b.push(&[3]);
        b.wait(SECOND);
        let sequence = if taken { 30 } else { 0 };
        assert_eq!(b.last(), (3, pair(7, epoch), sequence), "what is taken proves that the one before was");
    }
}

#[test]
fn what_was_refused_behind_an_unknown_batch_goes_on_under_the_next_epoch() {
    let mut b = Bench::flying(&[1]);
    b.now += SECOND;
    b.push(&[2]);
    b.now += TIMEOUT - SECOND;
    b.answer(2, plain(BatchFact::OutOfOrder));
    b.lose(1);
    b.wait(SECOND / 2);
    assert_eq!(b.last(), (2, pair(7, 1), 0));
}

#[test]
fn an_identity_that_is_gone_is_replaced_by_a_new_producer_id() {
    let mut b = Bench::flying(&[1, 2]);
    b.answer(1, ProduceFact::IdentityGone(cause(CauseKind::Fenced)));
    b.answer(2, ProduceFact::IdentityGone(cause(CauseKind::Fenced)));
    b.wait(SECOND);
    assert_eq!(b.last(), (1, pair(8, 0), 0));
    b.answer(1, stored(10));
    assert_eq!(b.last(), (2, pair(8, 0), 10));
}

#[test]
fn an_identity_that_is_gone_after_a_try_without_an_answer_leaves_the_batch_unknown() {
    let mut b = Bench::flying(&[1]);
    b.lose(1);
    b.wait(SECOND);
    b.answer(1, ProduceFact::IdentityGone(cause(CauseKind::Fenced)));
    assert_eq!(b.fates(), [(1, Err(CauseKind::OutcomeUnknown))]);
    b.push(&[2]);
    assert_eq!(b.last(), (2, pair(8, 0), 0));
}

#[test]
fn the_last_epoch_is_followed_by_a_new_producer_id() {
    let mut b = Bench::from_epoch(i16::MAX - 1);
    b.push(&[0]);
    for (batch, identity) in [(1, pair(7, i16::MAX)), (2, pair(8, 0))] {
        b.answer(batch - 1, ProduceFact::Unclear(cause(CauseKind::Refused)));
        b.push(&[batch]);
        assert_eq!(b.last(), (batch, identity, 0));
    }
}

#[test]
fn sequences_wrap_behind_the_largest() {
    let mut b = Bench::new();
    let deadline = Moment(TIMEOUT);
    for (id, records, sequence) in [(0, i32::MAX, 0), (1, 5, i32::MAX), (2, 1, 4)] {
        let batch = Batch { id: BatchId(id), topic: OLD, records, bytes: 100, deadline };
        b.tell(Input::Batch { partition: p(0), batch, leader: Some(NODE) });
        assert_eq!(b.last(), (id, pair(7, 0), sequence));
        b.answer(id, stored(0));
    }
}

#[test]
fn a_batch_that_is_too_large_is_split_within_its_sequences() {
    let mut b = Bench::flying(&[1, 2]);
    b.answer(1, ProduceFact::TooLarge(cause(CauseKind::RecordTooLarge)));
    b.answer(2, plain(BatchFact::OutOfOrder));
    b.tell(Input::Flush);
    assert_eq!(b.told, [Effect::Split(BatchId(1))]);
    b.told.clear();
    let part =
        |id, records| Batch { id: BatchId(id), topic: OLD, records, bytes: 50, deadline: Moment(TIMEOUT) };
    b.tell(Input::Split { batch: BatchId(1), parts: vec![part(3, 4), part(4, 6)] });
    b.wait(SECOND);
    for (batch, sequence) in [(3, 10), (4, 14), (2, 20)] {
        assert_eq!(b.last(), (batch, pair(7, 0), sequence));
        assert_eq!(b.told.iter().filter(|e| **e == Effect::Flushed).count(), 0, "parts count for a flush");
        b.answer(batch, stored(i64::from(sequence)));
        b.wait(SECOND);
    }
    assert_eq!(b.told.last(), Some(&Effect::Flushed));
}

#[test]
fn a_batch_that_cannot_be_split_is_refused() {
    for (lost, kind) in [(false, CauseKind::RecordTooLarge), (true, CauseKind::OutcomeUnknown)] {
        let mut b = Bench::flying(&[1]);
        if lost {
            b.lose(1);
            b.wait(SECOND);
        }
        b.answer(1, ProduceFact::TooLarge(cause(CauseKind::RecordTooLarge)));
        if !lost {
            b.tell(Input::Split { batch: BatchId(1), parts: Vec::new() });
        }
        assert_eq!(b.fates(), [(1, Err(kind))]);
    }
}

#[test]
fn a_refused_producer_id_fails_what_waits_for_it_and_is_asked_for_again() {
    let mut b = Bench::new();
    b.machine.identity = None;
    b.machine.initializing = Call::Asked;
    b.push(&[0]);
    b.tell(Input::Initialized(InitFact::Refused(cause(CauseKind::Denied))));
    assert_eq!(b.fates(), [(0, Err(CauseKind::Denied))]);
    b.push(&[1]);
    b.wait(SECOND);
    assert_eq!(b.last(), (1, pair(8, 0), 0));
    assert!(!b.machine.is_idle());
}

#[test]
fn a_flush_waits_for_what_came_before_it_and_for_nothing_else() {
    let mut b = Bench::flying(&[1]);
    b.tell(Input::Flush);
    b.push(&[2]);
    b.answer(1, plain(BatchFact::Refused(cause(CauseKind::Refused))));
    assert_eq!(b.told.last(), Some(&Effect::Flushed), "a failed batch holds no flush up");
    assert!(!b.machine.is_idle());
}

#[test]
fn partitions_restart_by_themselves() {
    let mut b = Bench::flying(&[1]);
    b.answer(1, ProduceFact::Unclear(cause(CauseKind::Refused)));
    let batch =
        |id| Batch { id: BatchId(id), topic: OLD, records: 10, bytes: 100, deadline: Moment(TIMEOUT) };
    b.machine.accept(Moment(0), Input::Batch { partition: p(0), batch: batch(2), leader: Some(NODE) });
    b.tell(Input::Batch { partition: p(1), batch: batch(3), leader: Some(NODE) });
    assert_eq!(b.under_way(), [2, 3], "one request, two epochs");
    assert_eq!(b.sent[0].1, [pair(7, 1), pair(7, 0)]);
}

#[test]
fn after_a_long_pause_a_batch_leaves_alone() {
    let mut b = Bench::flying(&[]);
    b.wait(u64::try_from(PAUSE.as_micros()).expect("short"));
    b.push(&[1, 2]);
    assert_eq!(b.under_way(), [1]);
    b.answer(1, stored(10));
    assert_eq!(b.under_way(), [2]);
}

/// A log that was created anew takes any first sequence: what was refused before it was there is not in it.
#[test]
fn what_every_try_refused_is_not_told_to_be_stored_because_a_later_one_is() {
    let mut b = Bench::flying(&[1, 2]);
    b.answer(1, plain(BatchFact::Retry));
    b.answer(2, stored(0));
    b.wait(SECOND);
    assert_eq!(b.under_way(), [1]);
    b.answer(1, plain(BatchFact::OutOfOrder));
    assert_eq!(b.fates(), [(2, Ok(Some(0))), (1, Err(CauseKind::SequenceGap))]);
    b.push(&[3]);
    assert_eq!(b.last(), (3, pair(7, 0), 30), "and leaves no gap");
}

#[test]
fn what_expires_behind_its_successor_is_told_as_far_as_it_is_known() {
    for (lost, kind) in [(true, CauseKind::OutcomeUnknown), (false, CauseKind::DeliveryTimeout)] {
        let mut b = Bench::flying(&[1, 2]);
        if lost {
            b.lose(1);
        } else {
            b.answer(1, plain(BatchFact::Retry));
        }
        b.now += TIMEOUT;
        b.answer(2, stored(0));
        assert_eq!(b.fates(), [(2, Ok(Some(0))), (1, Err(kind))]);
        b.push(&[3]);
        assert_eq!(b.last(), (3, pair(7, 0), 30));
    }
}

/// The old log refused the first, the new one took the second.
#[test]
fn a_partition_whose_later_batch_is_stored_has_not_lost_its_history() {
    let mut b = Bench::flying(&[1, 2]);
    b.answer(1, plain(BatchFact::OutOfOrder));
    b.answer(2, stored(0));
    b.wait(SECOND);
    assert_eq!(b.last(), (1, pair(7, 0), 10), "not behind the second under another epoch");
    b.answer(1, plain(BatchFact::OutOfOrder));
    assert_eq!(b.fates(), [(2, Ok(Some(0))), (1, Err(CauseKind::SequenceGap))]);
}

/// The new log took the second, and its answer was lost.
#[test]
fn what_may_be_stored_behind_a_lost_history_is_not_sent_under_another_identity() {
    let mut b = Bench::flying(&[1, 2]);
    b.lose(2);
    b.answer(1, plain(BatchFact::OutOfOrder));
    b.wait(SECOND);
    assert_eq!(b.last(), (2, pair(7, 0), 20));
    b.answer(2, plain(BatchFact::Stored(None)));
    b.wait(SECOND);
    assert_eq!(b.last(), (1, pair(7, 0), 10));
    b.answer(1, plain(BatchFact::OutOfOrder));
    assert_eq!(b.fates(), [(2, Ok(None)), (1, Err(CauseKind::SequenceGap))]);
}

#[test]
fn what_is_for_a_topic_that_was_created_anew_fails_and_what_is_for_the_new_one_goes_on() {
    let mut b = Bench::flying(&[1, 2, 3, 4, 5]);
    b.push(&[6]);
    b.push_to(NEW, &[7, 8]);
    b.topic = TopicNow::Known(NEW);
    b.answer(1, plain(BatchFact::TopicIdUnknown));
    assert_eq!(b.fates(), [1, 6].map(|id| (id, Err(CauseKind::UnknownTopic))), "the rest is under way");
    for id in [2, 3, 4, 5] {
        b.answer(id, plain(BatchFact::TopicIdUnknown));
    }
    assert_eq!(b.fates(), [2, 3, 4, 5].map(|id| (id, Err(CauseKind::UnknownTopic))));
    b.wait(SECOND);
    assert_eq!(b.under_way(), [7], "under the next epoch, alone at first");
    assert_eq!(b.sent[0].0.items[0].topic, NEW);
    b.answer(7, stored(0));
    b.answer(8, stored(10));
    assert_eq!(b.fates(), [(7, Ok(Some(0))), (8, Ok(Some(10)))]);
}

#[test]
fn a_leader_that_does_not_know_the_topic_yet_gets_the_same_batch_again() {
    let mut b = Bench::flying(&[1]);
    for _ in 0..5 {
        b.answer(1, plain(BatchFact::TopicIdUnknown));
        assert_eq!(b.fates(), []);
        b.wait(2 * SECOND);
        assert_eq!(b.last(), (1, pair(7, 0), 10));
    }
}

#[test]
fn what_may_be_stored_in_a_topic_that_is_gone_is_told_as_unknown() {
    let mut b = Bench::flying(&[1]);
    b.lose(1);
    b.wait(2 * SECOND);
    b.topic = TopicNow::Known(NEW);
    b.answer(1, plain(BatchFact::TopicIdUnknown));
    assert_eq!(b.fates(), [(1, Err(CauseKind::OutcomeUnknown))]);
}

/// A log that knows nothing of the producer takes any sequence first: were the first batch refused and the next one taken, the
/// first could not be stored any more.
#[test]
fn the_first_batch_for_a_topic_that_was_created_anew_leaves_alone() {
    let mut bench = Bench::flying(&[1]);
    bench.push_to(NEW, &[2, 3]);
    assert_eq!(bench.under_way(), [1], "behind the last one of the old topic");
    bench.answer(1, stored(10));
    assert_eq!(bench.under_way(), [2]);
    bench.answer(2, stored(0));
    assert_eq!(bench.under_way(), [3]);
    bench.push_to(NEW, &[4, 5]);
    assert_eq!(bench.under_way(), [3, 4, 5]);
}

use super::*;
use crate::{
    ids::{Identity, TopicId},
    proto::{
        outbox::{FirstBatch, Produce},
        topics::{Looked, MISSED, TopicNow},
    },
};

mod offsets;

const NODE: NodeId = NodeId(1);

/// The topic's id, and that of another one of its name.
const OLD: TopicId = TopicId([1; 16]);
const NEW: TopicId = TopicId([2; 16]);

struct Rig {
    t: Transaction,
    now: Moment,
    next: u64,
}

impl Rig {
    fn new(version: TransactionVersion) -> Self {
        let limits = Limits {
            in_flight: 5,
            first_batch: FirstBatch::Pipelined,
            request_bytes: 1 << 20,
            retry: Duration::from_millis(100),
            retry_max: Duration::from_secs(1),
        };
        Self { t: Transaction::new(version, limits, 1), now: Moment(1), next: 0 }
    }

    fn feed(&mut self, input: Input) -> Vec<Effect> {
        self.t.handle(self.now, input).unwrap();
        std::iter::from_fn(|| self.t.poll_effect()).collect()
    }

    fn write(&mut self, partition: i32) -> Vec<Effect> {
        self.next += 1;
        let deadline = self.now.after(Duration::from_secs(120));
        let batch = Batch { id: BatchId(self.next), topic: OLD, records: 10, bytes: 100, deadline };
        self.feed(Input::Batch { partition: p(partition), batch, leader: None })
    }

    fn leaders(&mut self, partitions: &[i32]) -> Vec<Effect> {
        self.look(partitions, TopicNow::Known(OLD))
    }

    /// These partitions are led, and this is told of the topic.
    fn look(&mut self, partitions: &[i32], now: TopicNow) -> Vec<Effect> {
        let leaders = partitions.iter().map(|i| (p(*i), Some(NODE))).collect();
        self.feed(Input::Leaders(Looked { leaders, topics: vec![("t".into(), now)] }))
    }

    /// Asks for the end; every topic is still the same.
    fn end(&mut self, goal: Goal) -> Vec<Effect> {
        let anew = goal == Goal::Commit;
        assert_eq!(self.feed(Input::End(goal)), [Effect::CheckTopics { anew }]);
        self.feed(Input::TopicsChecked(vec![("t".into(), TopicNow::Known(OLD))]))
    }

    fn later(&mut self) -> Vec<Effect> {
        self.now = self.now.after(Duration::from_secs(2));
        self.feed(Input::Tick)
    }

    fn answer(&mut self, produce: &Produce, fact: BatchFact<Cause>) -> Vec<Effect> {
        let facts = produce.items.iter().map(|i| (i.partition.clone(), i.batch, fact.clone())).collect();
        self.feed(Input::Produced { request: produce.request, facts })
    }

    /// A V2 transaction with one batch in flight.
    fn in_flight() -> (Self, Produce) {
        let mut rig = Self::new(TransactionVersion::V2);
        assert_eq!(rig.write(0), [Effect::FindLeaders(vec![p(0)])]);
        let sent = produce(&rig.leaders(&[0]));
        (rig, sent)
    }
}

fn p(partition: i32) -> TopicPartition {
    TopicPartition::new("t", partition)
}

fn produce(effects: &[Effect]) -> Produce {
    let sent =
        effects.iter().find_map(|e| if let Effect::Produce(sent) = e { Some(sent.clone()) } else { None });
    sent.unwrap_or_else(|| panic!("no Produce in {effects:?}"))
}

fn denied() -> Cause {
    Cause::new(CauseKind::Denied, "TOPIC_AUTHORIZATION_FAILED")
}

fn finish(effects: &[Effect]) -> Option<&Finish> {
    effects.iter().find_map(|e| if let Effect::Finished(finish) = e { Some(finish) } else { None })
}

#[test]
fn partitions_that_begin_are_added_together_before_their_first_batches() {
    let mut rig = Rig::new(TransactionVersion::V1);
    let began = |partition| Input::Began { partitions: vec![p(partition)] };
    assert_eq!(rig.feed(began(0)), []);
    assert_eq!(rig.feed(began(1)), [], "others may follow at once");
    let due = rig.t.next_deadline(rig.now).unwrap();
    assert_eq!(due, rig.now.after(ADD_WAIT));
    rig.now = due;
    assert_eq!(rig.feed(Input::Tick), [Effect::AddPartitions(vec![p(0), p(1)])]);
    assert_eq!(rig.feed(Input::Added(AddFact::Added)), []);
    // A batch waits for nobody.
    assert_eq!(rig.feed(began(2)), []);
    assert!(rig.write(3).contains(&Effect::AddPartitions(vec![p(2), p(3)])));
    rig.feed(Input::Added(AddFact::Added));
    assert!(!rig.write(0).iter().any(|e| matches!(e, Effect::AddPartitions(_))), "it is a member");
    let mut v2 = Rig::new(TransactionVersion::V2);
    v2.feed(began(0));
    assert_eq!(v2.t.next_deadline(v2.now), None, "the leader adds it");
}

#[test]
fn a_partition_that_was_added_and_got_no_batch_is_no_empty_transaction() {
    let mut rig = Rig::new(TransactionVersion::V1);
    rig.feed(Input::Began { partitions: vec![p(0)] });
    rig.later();
    rig.feed(Input::Added(AddFact::Added));
    let effects = rig.feed(Input::End(Goal::Prepare));
    assert!(matches!(&effects[..], [Effect::Failed(_)]), "{effects:?}");
    assert_eq!(rig.feed(Input::End(Goal::Abort)), [Effect::Abort]);
    let mut unasked = Rig::new(TransactionVersion::V1);
    unasked.feed(Input::Began { partitions: vec![p(0)] });
    assert_eq!(unasked.feed(Input::End(Goal::Prepare)), [Effect::Finished(Finish::Empty)]);
}

#[test]
fn prepare_waits_for_every_acknowledgement_and_for_the_start_time() {
    let (mut rig, sent) = Rig::in_flight();
    assert_eq!(rig.end(Goal::Prepare), []);
    let effects = rig.answer(&sent, BatchFact::Stored(Some(7)));
    assert_eq!(effects, [Effect::Stored { batch: BatchId(1), offset: Some(7) }, Effect::Describe]);
    let effects = rig.feed(Input::Described { start_ms: Some(99) });
    let Some(Finish::Prepared(evidence)) = finish(&effects) else { panic!("{effects:?}") };
    assert_eq!(evidence.start_ms, Some(99));
    assert_eq!(evidence.partitions[&p(0)], Acked { offset: 7, records: 10 });
}

#[test]
fn a_commit_that_follows_at_once_asks_for_no_evidence() {
    let (mut rig, sent) = Rig::in_flight();
    rig.end(Goal::Commit);
    let effects = rig.answer(&sent, BatchFact::Stored(Some(7)));
    assert!(matches!(finish(&effects), Some(Finish::Prepared(_))), "{effects:?}");
}

#[test]
fn after_prepare_nothing_is_taken_any_more() {
    let (mut rig, sent) = Rig::in_flight();
    rig.end(Goal::Commit);
    rig.answer(&sent, BatchFact::Stored(Some(7)));
    let batch = Batch { id: BatchId(9), topic: OLD, records: 1, bytes: 1, deadline: rig.now };
    assert_eq!(rig.t.handle(rig.now, Input::Batch { partition: p(0), batch, leader: None }), Err(Misuse));
    assert_eq!(rig.t.handle(rig.now, Input::End(Goal::Abort)), Err(Misuse));
    assert_eq!(rig.t.poll_effect(), None);
}

#[test]
fn an_empty_transaction_never_becomes_a_committable() {
    for version in [TransactionVersion::V1, TransactionVersion::V2] {
        let mut rig = Rig::new(version);
        assert_eq!(rig.feed(Input::End(Goal::Prepare)), [Effect::Finished(Finish::Empty)]);
    }
}

#[test]
fn a_record_that_was_taken_but_could_not_leave_is_no_empty_transaction() {
    let mut rig = Rig::new(TransactionVersion::V2);
    rig.write(0);
    rig.feed(Input::Leaders(vec![(p(0), None)].into()));
    assert_eq!(finish(&rig.feed(Input::End(Goal::Prepare))), None);
    rig.now = rig.now.after(Duration::from_secs(121));
    let effects = rig.feed(Input::Tick);
    assert_eq!(effects[0], Effect::Discarded(vec![BatchId(1)]));
    assert!(matches!(&effects[1], Effect::Failed(c) if c.kind == CauseKind::DeliveryTimeout));
    assert_eq!(
        finish(&rig.feed(Input::End(Goal::Abort))),
        Some(&Finish::Aborted { next: None, used: false }),
        "nothing reached a broker"
    );
}

#[test]
fn a_refused_record_leaves_abort_as_the_only_way() {
    let (mut rig, sent) = Rig::in_flight();
    let effects = rig.answer(&sent, BatchFact::Refused(denied()));
    assert_eq!(effects, [Effect::Failed(denied().on(p(0))), Effect::Discarded(vec![BatchId(1)])]);
    assert_eq!(rig.feed(Input::End(Goal::Prepare)), [Effect::Failed(denied().on(p(0)))]);
    assert_eq!(rig.feed(Input::End(Goal::Abort)), [Effect::Abort]);
    let next = Some(Identity::new(5, 2));
    assert_eq!(
        rig.feed(Input::Aborted(AbortFact::Done(next))),
        [Effect::Finished(Finish::Aborted { next, used: true })]
    );
}

#[test]
fn abort_waits_for_what_is_in_flight_and_is_asked_again_until_answered() {
    let (mut rig, sent) = Rig::in_flight();
    assert_eq!(rig.feed(Input::End(Goal::Abort)), [], "Produce is in flight");
    let lost = rig.feed(Input::ProduceLost(sent.request));
    assert_eq!(lost, [Effect::Discarded(vec![BatchId(1)]), Effect::Abort]);
    assert_eq!(rig.feed(Input::Aborted(AbortFact::Retry)), []);
    assert_eq!(rig.later(), [Effect::Abort]);
    assert_eq!(rig.feed(Input::Aborted(AbortFact::CoordinatorMoved)), [Effect::ForgetCoordinator]);
    assert_eq!(rig.later(), [Effect::Abort]);
    let done = rig.feed(Input::Aborted(AbortFact::Done(None)));
    assert_eq!(finish(&done), Some(&Finish::Aborted { next: None, used: true }));
}

#[test]
fn a_lost_answer_is_asked_again_with_the_same_batch() {
    let (mut rig, sent) = Rig::in_flight();
    assert_eq!(rig.feed(Input::ProduceLost(sent.request)), [Effect::FindLeaders(vec![p(0)])]);
    assert_eq!(rig.leaders(&[0]), [], "the wait is not over");
    let again = produce(&rig.later());
    assert_eq!((again.items, again.node), (sent.items, sent.node));
}

#[test]
fn version_1_adds_partitions_before_it_produces_and_one_request_at_a_time() {
    let mut rig = Rig::new(TransactionVersion::V1);
    assert_eq!(rig.write(0), [Effect::AddPartitions(vec![p(0)]), Effect::FindLeaders(vec![p(0)])]);
    rig.leaders(&[0]);
    assert_eq!(rig.write(1), [Effect::FindLeaders(vec![p(1)])], "one add is under way");
    rig.leaders(&[1]);
    let effects = rig.feed(Input::Added(AddFact::Added));
    assert_eq!(effects[0], Effect::AddPartitions(vec![p(1)]));
    assert_eq!(produce(&effects).items.len(), 1);
    let sent = produce(&rig.feed(Input::Added(AddFact::Added)));
    assert_eq!(sent.items[0].partition, p(1));
}

#[test]
fn a_partition_that_is_being_added_is_not_asked_for_again() {
    for (fact, again) in [(AddFact::Added, 0), (AddFact::Retry, 1)] {
        let mut rig = Rig::new(TransactionVersion::V1);
        assert_eq!(rig.write(0)[0], Effect::AddPartitions(vec![p(0)]));
        let mut effects = rig.write(0);
        effects.extend(rig.feed(Input::Added(fact)));
        effects.extend(rig.later());
        let adds = effects.iter().filter(|e| matches!(e, Effect::AddPartitions(_))).count();
        assert_eq!(adds, again);
    }
}

#[test]
fn a_batch_that_is_refused_because_somebody_else_owns_the_id_is_discarded() {
    let (mut rig, sent) = Rig::in_flight();
    let fenced = Cause::new(CauseKind::Fenced, "PRODUCER_FENCED");
    let effects = rig.answer(&sent, BatchFact::Refused(fenced));
    assert_eq!(effects[0], Effect::Discarded(vec![BatchId(1)]));
    assert!(matches!(finish(&effects), Some(Finish::Fenced(_))), "{effects:?}");
}

#[test]
fn a_late_answer_to_an_abort_that_was_given_up_ends_nothing_again() {
    let (mut rig, sent) = Rig::in_flight();
    rig.feed(Input::End(Goal::Abort));
    assert!(rig.answer(&sent, BatchFact::Stored(Some(7))).contains(&Effect::Abort));
    rig.now = rig.now.after(Duration::from_secs(61));
    assert!(matches!(finish(&rig.feed(Input::Tick)), Some(Finish::Abandoned(_))));
    for late in [
        Input::Aborted(AbortFact::Done(None)),
        Input::Added(AddFact::CoordinatorMoved),
        Input::OffsetsAdded(AddFact::CoordinatorMoved),
        Input::OffsetsCommitted(OffsetsFact::CoordinatorMoved),
    ] {
        assert_eq!(rig.feed(late), []);
    }
}

#[test]
fn what_is_known_together_leaves_together_for_the_leaders_that_are_known() {
    for version in [TransactionVersion::V1, TransactionVersion::V2] {
        let mut rig = Rig::new(version);
        for partition in [0, 1, 2] {
            let batch = Batch {
                id: BatchId(10 + partition),
                topic: OLD,
                records: 1,
                bytes: 100,
                deadline: rig.now.after(Duration::from_secs(120)),
            };
            let partition = p(i32::try_from(partition).unwrap());
            let input = Input::Batch { partition, batch, leader: Some(NODE) };
            rig.t.accept(rig.now, input).unwrap();
            assert_eq!(rig.t.poll_effect(), None);
        }
        let mut effects = rig.feed(Input::Tick);
        if version < TransactionVersion::V2 {
            assert_eq!(effects, [Effect::AddPartitions(vec![p(0), p(1), p(2)])]);
            effects = rig.feed(Input::Added(AddFact::Added));
        }
        assert!(
            matches!(&effects[..], [Effect::Produce(request)] if request.items.len() == 3),
            "{effects:?}"
        );
    }
}

#[test]
fn a_leader_that_refused_is_looked_up_and_not_taken_from_what_was_known() {
    let mut rig = Rig::new(TransactionVersion::V2);
    let deadline = rig.now.after(Duration::from_secs(120));
    let batch = |id| Batch { id: BatchId(id), topic: OLD, records: 1, bytes: 100, deadline };
    let known = |id| Input::Batch { partition: p(0), batch: batch(id), leader: Some(NODE) };
    let sent = produce(&rig.feed(known(10)));
    let effects = rig.answer(&sent, BatchFact::RetryAfterMetadata);
    assert_eq!(effects, [Effect::FindLeaders(vec![p(0)])]);
    assert_eq!(rig.feed(known(11)), []);
}

#[test]
fn prepare_waits_for_an_add_that_is_under_way() {
    let mut rig = Rig::new(TransactionVersion::V1);
    rig.write(0);
    rig.leaders(&[0]);
    rig.end(Goal::Commit);
    assert_eq!(rig.feed(Input::Added(AddFact::RetrySoon)), []);
    assert_eq!(rig.later(), [Effect::AddPartitions(vec![p(0)])]);
    let sent = produce(&rig.feed(Input::Added(AddFact::Added)));
    assert!(finish(&rig.answer(&sent, BatchFact::Stored(Some(0)))).is_some());
}

#[test]
fn an_abort_after_an_unanswered_add_sends_the_end() {
    let mut rig = Rig::new(TransactionVersion::V1);
    rig.write(0);
    assert_eq!(rig.feed(Input::End(Goal::Abort)), [Effect::Discarded(vec![BatchId(1)])]);
    rig.feed(Input::Added(AddFact::Retry));
    assert_eq!(rig.later(), [Effect::Abort], "the add may have been carried out");
}

#[test]
fn fencing_ends_it_at_once_and_sends_nothing_more() {
    let (mut rig, sent) = Rig::in_flight();
    let cause = Cause::new(CauseKind::Fenced, "PRODUCER_FENCED");
    let effects = rig.answer(&sent, BatchFact::Refused(cause.clone()));
    assert_eq!(finish(&effects), Some(&Finish::Fenced(cause.on(p(0)))));
    assert_eq!(rig.later(), []);
}

#[test]
fn a_gap_is_an_abort_and_never_a_new_identity() {
    let (mut rig, sent) = Rig::in_flight();
    let effects = rig.answer(&sent, BatchFact::OutOfOrder);
    assert!(matches!(&effects[0], Effect::Failed(c) if c.kind == CauseKind::SequenceGap), "{effects:?}");
}

#[test]
fn flush_is_answered_when_all_is_acknowledged() {
    let (mut rig, sent) = Rig::in_flight();
    assert_eq!(rig.feed(Input::Flush), []);
    let effects = rig.answer(&sent, BatchFact::Stored(None));
    assert_eq!(effects.last(), Some(&Effect::Flushed));
}

#[test]
fn every_batch_of_a_failed_transaction_is_told_its_fate() {
    let (mut rig, sent) = Rig::in_flight();
    rig.write(1);
    let other = produce(&rig.leaders(&[1]));
    let effects = rig.answer(&sent, BatchFact::Refused(denied()));
    let failed = denied().on(p(0));
    assert_eq!(effects, [Effect::Failed(failed), Effect::Discarded(vec![BatchId(1)])]);
    // The other one was under way; its answer would have asked for a retry.
    assert_eq!(rig.answer(&other, BatchFact::Retry), [Effect::Discarded(vec![BatchId(2)])]);
    assert_eq!(rig.t.next_deadline(rig.now), None);
}

#[test]
fn a_deadline_that_has_passed_is_not_due_again() {
    let (mut rig, _) = Rig::in_flight();
    rig.now = rig.now.after(Duration::from_secs(121));
    let effects = rig.feed(Input::Tick);
    assert!(
        matches!(&effects[..], [Effect::Failed(c)] if c.kind == CauseKind::DeliveryTimeout),
        "{effects:?}"
    );
    assert_eq!(rig.t.next_deadline(rig.now), None, "the batch is still under way, and nothing more is due");
}

#[test]
fn an_abort_that_nobody_answers_is_given_up() {
    let (mut rig, sent) = Rig::in_flight();
    rig.answer(&sent, BatchFact::Stored(Some(1)));
    rig.feed(Input::End(Goal::Abort));
    for _ in 0..29 {
        rig.feed(Input::Aborted(AbortFact::CoordinatorMoved));
        assert_eq!(finish(&rig.later()), None);
    }
    rig.feed(Input::Aborted(AbortFact::Retry));
    let effects = rig.later();
    assert!(matches!(finish(&effects), Some(Finish::Abandoned(_))), "{effects:?}");
    assert_eq!(rig.t.next_deadline(rig.now), None);
}

#[test]
fn a_topic_that_was_replaced_is_never_prepared() {
    let (mut rig, sent) = Rig::in_flight();
    assert_eq!(rig.feed(Input::End(Goal::Prepare)), [Effect::CheckTopics { anew: false }]);
    rig.feed(Input::Described { start_ms: Some(1) });
    assert_eq!(finish(&rig.answer(&sent, BatchFact::Stored(Some(7)))), None, "the check is not answered");
    assert_failed(&rig.feed(Input::TopicsChecked(vec![("t".into(), TopicNow::Known(NEW))])));
}

fn assert_failed(effects: &[Effect]) {
    let failed = |e: &Effect| matches!(e, Effect::Failed(cause) if cause.kind == CauseKind::UnknownTopic);
    assert!(effects.iter().any(failed), "{effects:?}");
    assert!(!effects.iter().any(|e| matches!(e, Effect::Produce(_))), "{effects:?}");
}

#[test]
fn a_topic_whose_id_the_leader_does_not_know_yet_gets_the_same_batch_again() {
    let (mut rig, mut sent) = Rig::in_flight();
    for _ in 0..5 {
        assert_eq!(rig.answer(&sent, BatchFact::TopicIdUnknown), [Effect::FindLeaders(vec![p(0)])]);
        assert_eq!(rig.look(&[0], TopicNow::Known(OLD)), [], "after a wait");
        let again = produce(&rig.later());
        assert_eq!(again.items, sent.items);
        sent = again;
    }
}

#[test]
fn a_topic_whose_id_no_leader_knows_any_more_fails_the_transaction() {
    let (mut rig, sent) = Rig::in_flight();
    assert_eq!(sent.items[0].topic, OLD);
    rig.answer(&sent, BatchFact::TopicIdUnknown);
    assert_failed(&rig.look(&[0], TopicNow::Known(NEW)));
    let (mut rig, sent) = Rig::in_flight();
    rig.answer(&sent, BatchFact::TopicIdUnknown);
    for _ in 1..MISSED {
        let missing = Looked { leaders: vec![(p(0), None)], topics: vec![("t".into(), TopicNow::Missing)] };
        assert_eq!(rig.feed(Input::Leaders(missing)), []);
        assert_eq!(rig.later(), [Effect::FindLeaders(vec![p(0)])]);
    }
    assert_failed(&rig.look(&[], TopicNow::Missing));
}

#[test]
fn topics_are_asked_for_behind_the_last_batches_where_those_tell() {
    for goal in [Goal::Prepare, Goal::Commit] {
        let mut rig = Rig::new(TransactionVersion::V2);
        rig.t = rig.t.batches_tell(true);
        rig.write(0);
        // It has not left: its leader is not known yet.
        assert_eq!(rig.feed(Input::End(goal)), []);
        let sent = produce(&rig.leaders(&[0]));
        let effects = rig.answer(&sent, BatchFact::Stored(Some(7)));
        assert!(effects.contains(&Effect::CheckTopics { anew: goal == Goal::Commit }), "{effects:?}");
        assert_eq!(finish(&effects), None);
        rig.feed(Input::Described { start_ms: None });
        let effects = rig.feed(Input::TopicsChecked(vec![("t".into(), TopicNow::Known(OLD))]));
        assert!(matches!(finish(&effects), Some(Finish::Prepared(_))), "{effects:?}");
    }
}

#[test]
fn topics_are_asked_for_beside_the_last_batches_where_a_partition_has_none() {
    let mut rig = Rig::new(TransactionVersion::V2);
    rig.t = rig.t.batches_tell(true);
    rig.write(0);
    let sent = produce(&rig.leaders(&[0]));
    rig.answer(&sent, BatchFact::Stored(Some(7)));
    rig.later();
    rig.write(1);
    assert_eq!(rig.feed(Input::End(Goal::Prepare)), [Effect::CheckTopics { anew: false }]);
    let mut rig = Rig::new(TransactionVersion::V2);
    rig.t = rig.t.batches_tell(true);
    rig.write(0);
    rig.leaders(&[0]);
    assert_eq!(
        rig.feed(Input::End(Goal::Commit)),
        [Effect::CheckTopics { anew: true }],
        "it has left before"
    );
}

/// Whoever writes has looked the topic up again in between.
#[test]
fn a_transaction_writes_to_one_topic_of_a_name() {
    let (mut rig, sent) = Rig::in_flight();
    let deadline = rig.now.after(Duration::from_secs(120));
    let batch = Batch { id: BatchId(9), topic: NEW, records: 1, bytes: 1, deadline };
    let effects = rig.feed(Input::Batch { partition: p(1), batch, leader: Some(NODE) });
    assert_failed(&effects);
    assert!(effects.contains(&Effect::Discarded(vec![BatchId(9)])), "{effects:?}");
    assert_eq!(rig.t.topic_id(&"t".into()), Some(OLD));
    rig.answer(&sent, BatchFact::Stored(Some(1)));
    assert_eq!(rig.feed(Input::End(Goal::Abort)), [Effect::Abort]);
}

#[test]
fn what_came_together_is_pipelined() {
    let mut rig = Rig::new(TransactionVersion::V2);
    for id in 1..=5 {
        let deadline = rig.now.after(Duration::from_secs(120));
        let batch = Batch { id: BatchId(id), topic: OLD, records: 10, bytes: 100, deadline };
        rig.t.accept(rig.now, Input::Batch { partition: p(0), batch, leader: Some(NODE) }).unwrap();
    }
    rig.t.accept(rig.now, Input::Flush).unwrap();
    let effects = rig.feed(Input::Tick);
    let sent = effects.iter().filter(|e| matches!(e, Effect::Produce(_))).count();
    assert_eq!(sent, 5, "there is room for five in flight, and nothing more will come");
}

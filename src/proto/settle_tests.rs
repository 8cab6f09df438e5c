use super::*;
use crate::{ids::NodeId, proto::resume::TransactionView};

const TOPIC: TopicId = TopicId([1; 16]);

fn target() -> SettleTarget {
    let partition =
        |i| SettlePartition { partition: TopicPartition::new("t", i), topic_id: TOPIC, offset: Some(10) };
    SettleTarget {
        transactional_id: TransactionalId::new("id"),
        identity: Identity::new(7, 3),
        decision: Decision::Commit,
        by: Some(DecidedBy::EndTxnV2),
        partitions: vec![partition(0), partition(1)],
    }
}

fn machine() -> Settle {
    Settle::new(Moment(0), target(), SETTLE_PATIENCE, 1)
}

fn known() -> PartitionMeta {
    PartitionMeta::Known { topic_id: TOPIC, leader: Some(NodeId(1)) }
}

fn open(start_offset: i64) -> ProducersSeen {
    let epoch = ProducerEpoch(3);
    ProducersSeen::Open(OpenTransaction { start_offset, producer_epoch: epoch, coordinator_epoch: 2 })
}

fn view(state: CoordinatorState) -> SettleInput {
    let view = TransactionView { state, start_ms: 1, identity: Identity::new(7, 4), partitions: vec![] };
    SettleInput::Described(Described::Transaction(view))
}

/// Gives a fact and passes the wait that may follow.
fn give(settle: &mut Settle, fact: SettleInput) -> Option<SettleEffect> {
    let now = settle.next_deadline().map_or(Moment(0), |_| Moment(0));
    settle.handle(now, fact).unwrap();
    if let (State::Waiting(until), None) = (settle.state.clone(), settle.effects.front()) {
        settle.handle(until, SettleInput::Tick).unwrap();
    }
    settle.poll_effect()
}

fn producers_of(settle: &mut Settle, seen: Vec<ProducersSeen>) -> Option<SettleEffect> {
    let metas = vec![known(); seen.len()];
    if matches!(settle.state, State::Topics(_)) {
        settle.poll_effect();
        give(settle, SettleInput::Topics(metas));
    }
    give(settle, SettleInput::Producers(seen))
}

/// The same, and once more after each of the first waits.
fn still(settle: &mut Settle, seen: Vec<ProducersSeen>) -> Option<SettleEffect> {
    let left = |s: &ProducersSeen| !matches!(s, ProducersSeen::NothingOpen);
    let again: Vec<_> = seen.iter().copied().filter(left).collect();
    producers_of(settle, seen);
    for _ in 1..EARLY {
        producers_of(settle, again.clone());
    }
    producers_of(settle, again)
}

#[test]
fn where_markers_are_late_the_first_look_waits() {
    let mut settle = machine().later(Moment(0));
    assert_eq!(settle.poll_effect(), None);
    let until = settle.next_deadline().unwrap();
    assert!(until <= Moment(0).after(FIRST_WAIT));
    settle.handle(until, SettleInput::Tick).unwrap();
    assert_eq!(settle.poll_effect(), Some(SettleEffect::CheckTopics(vec![0, 1])));
}

#[test]
fn in_the_first_milliseconds_only_the_producers_are_asked_again() {
    let mut settle = machine();
    settle.poll_effect();
    give(&mut settle, SettleInput::Topics(vec![known(), known()]));
    for _ in 0..EARLY {
        let asked = give(&mut settle, SettleInput::Producers(vec![open(5), open(5)]));
        assert_eq!(asked, Some(SettleEffect::DescribeProducers(vec![0, 1])));
    }
    let asked = give(&mut settle, SettleInput::Producers(vec![open(5), open(5)]));
    assert_eq!(asked, Some(SettleEffect::DescribeTransaction));
    let asked = give(&mut settle, view(CoordinatorState::PrepareCommit));
    assert_eq!(asked, Some(SettleEffect::CheckTopics(vec![0, 1])), "it takes long");
}

#[test]
fn nothing_open_at_or_below_the_stored_offsets_is_settled() {
    let mut settle = machine();
    assert_eq!(settle.poll_effect(), Some(SettleEffect::CheckTopics(vec![0, 1])));
    let asked = give(&mut settle, SettleInput::Topics(vec![known(), known()]));
    assert_eq!(asked, Some(SettleEffect::DescribeProducers(vec![0, 1])));
    // A later transaction of the same producer id may be open behind it.
    give(&mut settle, SettleInput::Producers(vec![ProducersSeen::NothingOpen, open(11)]));
    assert_eq!(settle.result(), Some(&Ok(Settled::default())));
}

#[test]
fn what_is_open_after_the_coordinator_is_done_hangs() {
    for state in [CoordinatorState::CompleteCommit, CoordinatorState::CompleteAbort, CoordinatorState::Empty]
    {
        let mut settle = machine();
        let asked = still(&mut settle, vec![ProducersSeen::NothingOpen, open(10)]);
        assert_eq!(asked, Some(SettleEffect::DescribeTransaction));
        // Looked at once more, for the marker may have been written in between.
        assert_eq!(give(&mut settle, view(state)), Some(SettleEffect::CheckTopics(vec![1])));
        producers_of(&mut settle, vec![open(10)]);
        let Some(Err(SettleError::Hanging(hanging))) = settle.result() else { panic!() };
        assert_eq!(hanging.partitions.len(), 1);
        assert_eq!(hanging.partitions[0].partition.partition, 1);
        assert_eq!(hanging.partitions[0].open.coordinator_epoch, 2);
    }
}

#[test]
fn a_marker_that_came_in_between_settles() {
    let mut settle = machine();
    still(&mut settle, vec![open(5), open(10)]);
    give(&mut settle, view(CoordinatorState::CompleteCommit));
    producers_of(&mut settle, vec![ProducersSeen::NothingOpen, ProducersSeen::NothingOpen]);
    assert_eq!(settle.result(), Some(&Ok(Settled::default())));
}

#[test]
fn while_the_coordinator_prepares_it_is_pending_and_never_hangs() {
    let mut settle = machine();
    for _ in 0..20 {
        producers_of(&mut settle, vec![open(5); 2]);
        if settle.state == State::Coordinator {
            give(&mut settle, view(CoordinatorState::PrepareCommit));
        }
    }
    assert_eq!(settle.result(), None);
    settle.handle(Moment(0).after(SETTLE_PATIENCE), SettleInput::Tick).unwrap();
    assert!(
        matches!(settle.result(), Some(Err(SettleError::Pending { partitions })) if partitions.len() == 2)
    );
}

#[test]
fn a_leader_that_does_not_answer_is_asked_again() {
    let mut settle = machine();
    let asked = producers_of(&mut settle, vec![ProducersSeen::Unavailable, ProducersSeen::NothingOpen]);
    assert_eq!(asked, Some(SettleEffect::CheckTopics(vec![0])));
}

#[test]
fn deleted_and_recreated_topics_are_told() {
    let mut settle = machine();
    settle.poll_effect();
    let anew = PartitionMeta::Known { topic_id: TopicId([2; 16]), leader: Some(NodeId(1)) };
    give(&mut settle, SettleInput::Topics(vec![PartitionMeta::Missing, anew]));
    assert!(matches!(settle.result(), Some(Ok(settled)) if settled.gone.len() == 2));
}

#[test]
fn without_the_right_to_read_it_is_not_known() {
    let mut settle = machine();
    producers_of(&mut settle, vec![ProducersSeen::Denied, ProducersSeen::NothingOpen]);
    assert!(
        matches!(settle.result(), Some(Err(SettleError::Denied { partitions })) if partitions.len() == 1)
    );
}

#[test]
fn after_a_fence_any_open_transaction_of_the_producer_id_counts() {
    let mut target = target();
    target.partitions[1].offset = None;
    let mut settle = Settle::new(Moment(0), target, SETTLE_PATIENCE, 1);
    let asked = still(&mut settle, vec![ProducersSeen::NothingOpen, open(99)]);
    assert_eq!(asked, Some(SettleEffect::DescribeTransaction));
}

#[test]
fn a_marker_read_in_the_log_settles_its_partition() {
    let mut settle = machine();
    still(&mut settle, vec![open(5), ProducersSeen::NothingOpen]);
    settle.handle(Moment(0), SettleInput::MarkerSeen(0)).unwrap();
    give(&mut settle, view(CoordinatorState::CompleteCommit));
    assert_eq!(settle.result(), Some(&Ok(Settled::default())));
    assert_eq!(settle.handle(Moment(0), SettleInput::Tick), Err(Misuse));
}

#[test]
fn an_answer_of_the_wrong_length_changes_nothing() {
    let mut settle = machine();
    assert_eq!(settle.handle(Moment(0), SettleInput::Topics(vec![known()])), Err(Misuse));
    assert_eq!(settle.poll_effect(), Some(SettleEffect::CheckTopics(vec![0, 1])));
}

#[test]
fn a_partial_loss_is_no_decision() {
    let committable = Committable {
        transactional_id: TransactionalId::new("id"),
        identity: Identity::new(7, 3),
        end_txn_version: Some(5),
        start_ms: None,
        timeout_ms: None,
        deadline_ms: None,
        cluster_id: None,
        partitions: vec![],
    };
    let target = SettleTarget::from_outcome(&committable, &Outcome::Committed).unwrap();
    assert_eq!((target.decision, target.by), (Decision::Commit, Some(DecidedBy::EndTxnV2)));
    let lost = Outcome::Lost { partitions: vec![], cause: crate::proto::resume::LossCause::Log(vec![]) };
    assert_eq!(SettleTarget::from_outcome(&committable, &lost), None);
}

/// Few may look at `__consumer_offsets`, and no record depends on it. On a topic of records the same is not known.
#[test]
fn a_groups_partition_is_waited_for_where_it_may_be_looked_at() {
    let of_group = || {
        let mut target = target();
        target.partitions[1] = SettlePartition {
            partition: TopicPartition::new(OFFSETS_TOPIC, 3),
            topic_id: TOPIC,
            offset: None,
        };
        Settle::new(Moment(0), target, SETTLE_PATIENCE, 1)
    };
    let mut seen = of_group();
    let asked = still(&mut seen, vec![ProducersSeen::NothingOpen, open(7)]);
    assert_eq!(asked, Some(SettleEffect::DescribeTransaction), "its marker is missing");
    let mut denied = of_group();
    producers_of(&mut denied, vec![ProducersSeen::NothingOpen, ProducersSeen::Denied]);
    assert_eq!(denied.result(), Some(&Ok(Settled::default())));
    let mut hidden = of_group();
    hidden.poll_effect();
    let asked = give(&mut hidden, SettleInput::Topics(vec![known(), PartitionMeta::Denied]));
    assert_eq!(asked, Some(SettleEffect::DescribeProducers(vec![0])));
    give(&mut hidden, SettleInput::Producers(vec![ProducersSeen::NothingOpen]));
    assert_eq!(hidden.result(), Some(&Ok(Settled::default())));
    let mut records = machine();
    producers_of(&mut records, vec![ProducersSeen::NothingOpen, ProducersSeen::Denied]);
    assert!(matches!(records.result(), Some(Err(SettleError::Denied { .. }))));
}

#[test]
fn without_an_answer_about_the_topic_nothing_that_is_not_open_is_settled() {
    let mut settle = machine();
    settle.poll_effect();
    settle.handle(Moment(0), SettleInput::Topics(vec![PartitionMeta::NotKnown; 2])).unwrap();
    if let Some(SettleEffect::DescribeProducers(places)) = settle.poll_effect() {
        settle
            .handle(Moment(0), SettleInput::Producers(vec![ProducersSeen::NothingOpen; places.len()]))
            .unwrap();
    }
    assert_eq!(settle.result(), None, "the topic may be another one, in which nothing of ours is open");
}

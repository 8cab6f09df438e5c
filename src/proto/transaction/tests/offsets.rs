//! Offsets of a consumer group: which coordinator is asked when, what is tried again, and what waits for them.

use std::sync::Arc;

use super::*;
use crate::{
    ids::GroupId,
    proto::offsets::{ConsumerGroupMetadata, GroupOffsets, OffsetAndMetadata},
};

fn group() -> GroupId {
    GroupId::new("g")
}

fn offsets(offset: i64) -> Arc<GroupOffsets> {
    let group = ConsumerGroupMetadata::new(group());
    Arc::new(GroupOffsets { group, offsets: [(p(7), OffsetAndMetadata::new(offset))].into() })
}

fn kept() -> OffsetsFact {
    OffsetsFact::Stored { on: Some(TopicPartition::new("__consumer_offsets", 3)) }
}

impl Rig {
    fn offsets(&mut self, offset: i64) -> Vec<Effect> {
        let deadline = self.now.after(Duration::from_secs(120));
        self.feed(Input::Offsets { offsets: offsets(offset), deadline })
    }
}

#[test]
fn before_v2_the_group_is_added_first_and_once() {
    for version in [TransactionVersion::V0, TransactionVersion::V1] {
        let mut rig = Rig::new(version);
        assert_eq!(rig.offsets(1), [Effect::AddOffsets(group())]);
        assert_eq!(rig.offsets(2), []);
        let added = rig.feed(Input::OffsetsAdded(AddFact::Added));
        assert_eq!(added, [Effect::CommitOffsets(offsets(1))]);
        let effects = rig.feed(Input::OffsetsCommitted(kept()));
        let next = [Effect::OffsetsStored, Effect::CommitOffsets(offsets(2)), Effect::Describe];
        assert_eq!(effects, next);
    }
}

#[test]
fn on_v2_the_group_adds_itself() {
    let mut rig = Rig::new(TransactionVersion::V2);
    assert_eq!(rig.offsets(1), [Effect::CommitOffsets(offsets(1))]);
}

/// The first partition and the first group come at once: one request that adds is under way at a time.
#[test]
fn partitions_and_groups_are_added_one_after_the_other() {
    let mut rig = Rig::new(TransactionVersion::V1);
    assert_eq!(rig.write(0)[0], Effect::AddPartitions(vec![p(0)]));
    assert_eq!(rig.offsets(1), []);
    assert!(rig.feed(Input::Added(AddFact::Added)).contains(&Effect::AddOffsets(group())));
}

#[test]
fn prepare_waits_for_offsets_and_names_their_partition_without_records() {
    let mut rig = Rig::new(TransactionVersion::V2);
    rig.offsets(1);
    assert_eq!(rig.feed(Input::End(Goal::Prepare)), []);
    let effects = rig.feed(Input::OffsetsCommitted(kept()));
    assert_eq!(effects, [Effect::OffsetsStored, Effect::Describe, Effect::CheckTopics { anew: false }]);
    rig.feed(Input::TopicsChecked(Vec::new()));
    let effects = rig.feed(Input::Described { start_ms: Some(5) });
    let Some(Finish::Prepared(evidence)) = finish(&effects) else { panic!("{effects:?}") };
    let place = TopicPartition::new("__consumer_offsets", 3);
    assert_eq!(evidence.partitions, [(place, Acked { offset: -1, records: 0 })].into());
    assert_eq!(evidence.start_ms, Some(5));
}

/// A cluster that does not show its own topics leaves a committable without partitions, not an empty transaction.
#[test]
fn offsets_alone_are_no_empty_transaction_also_where_their_partition_is_hidden() {
    let mut rig = Rig::new(TransactionVersion::V2);
    rig.offsets(1);
    rig.feed(Input::OffsetsCommitted(OffsetsFact::Stored { on: None }));
    let effects = rig.feed(Input::End(Goal::Commit));
    assert!(matches!(finish(&effects), Some(Finish::Prepared(_))), "{effects:?}");
}

#[test]
fn what_may_pass_is_tried_again_and_a_coordinator_that_moved_is_looked_up() {
    let mut rig = Rig::new(TransactionVersion::V2);
    rig.offsets(1);
    for fact in [OffsetsFact::Retry, OffsetsFact::RetrySoon] {
        assert_eq!(rig.feed(Input::OffsetsCommitted(fact)), [], "not at once");
        assert_eq!(rig.later(), [Effect::CommitOffsets(offsets(1))]);
    }
    let moved = rig.feed(Input::OffsetsCommitted(OffsetsFact::CoordinatorMoved));
    assert_eq!(moved, [Effect::ForgetGroupCoordinator(group())]);
    assert_eq!(rig.later(), [Effect::CommitOffsets(offsets(1))]);
    let mut rig = Rig::new(TransactionVersion::V1);
    rig.offsets(1);
    let moved = rig.feed(Input::OffsetsAdded(AddFact::CoordinatorMoved));
    assert_eq!(moved, [Effect::ForgetCoordinator], "that of the transaction");
    assert_eq!(rig.later(), [Effect::AddOffsets(group())]);
}

#[test]
fn a_refusal_leaves_abort_and_the_abort_is_sent() {
    let moved = Cause::new(CauseKind::GroupMoved, "ILLEGAL_GENERATION");
    for version in [TransactionVersion::V1, TransactionVersion::V2] {
        let mut rig = Rig::new(version);
        rig.offsets(1);
        if version == TransactionVersion::V1 {
            rig.feed(Input::OffsetsAdded(AddFact::Added));
        }
        let failed = rig.feed(Input::OffsetsCommitted(OffsetsFact::Refused(moved.clone())));
        assert_eq!(failed, [Effect::Failed(moved.clone())]);
        assert_eq!(rig.offsets(2), [], "the failure was said");
        assert_eq!(rig.feed(Input::End(Goal::Prepare)), [Effect::Failed(moved.clone())]);
        assert_eq!(rig.feed(Input::End(Goal::Abort)), [Effect::Abort]);
    }
    let fenced = Cause::new(CauseKind::Fenced, "PRODUCER_FENCED");
    let mut rig = Rig::new(TransactionVersion::V2);
    rig.offsets(1);
    let effects = rig.feed(Input::OffsetsCommitted(OffsetsFact::Fenced(fenced.clone())));
    assert_eq!(finish(&effects), Some(&Finish::Fenced(fenced)));
}

/// One that arrives behind the marker would be of a transaction that nobody ends.
#[test]
fn an_abort_waits_for_the_request_that_is_under_way_and_forgets_the_others() {
    let mut rig = Rig::new(TransactionVersion::V2);
    rig.offsets(1);
    rig.offsets(2);
    assert_eq!(rig.feed(Input::End(Goal::Abort)), []);
    assert_eq!(rig.feed(Input::OffsetsCommitted(OffsetsFact::Retry)), [Effect::Abort]);
    let mut rig = Rig::new(TransactionVersion::V2);
    rig.offsets(1);
    rig.feed(Input::OffsetsCommitted(OffsetsFact::Retry));
    assert_eq!(rig.feed(Input::End(Goal::Abort)), [Effect::Abort], "what only waits is not waited for");
}

#[test]
fn offsets_that_nobody_takes_are_given_up_in_time() {
    let mut rig = Rig::new(TransactionVersion::V2);
    rig.offsets(1);
    rig.feed(Input::OffsetsCommitted(OffsetsFact::Retry));
    rig.now = rig.now.after(Duration::from_secs(121));
    let effects = rig.feed(Input::Tick);
    assert!(matches!(&effects[0], Effect::Failed(c) if c.kind == CauseKind::DeliveryTimeout), "{effects:?}");
}

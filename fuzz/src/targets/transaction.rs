//! The machine of one transaction.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use kafka_2pc::{
    ids::{GroupId, Identity, NodeId, TopicPartition},
    proto::{
        cause::{Cause, CauseKind},
        offsets::{ConsumerGroupMetadata, GroupOffsets, OFFSETS_TOPIC, OffsetAndMetadata},
        outbox::BatchFact,
        transaction::{AbortFact, AddFact, Goal, OffsetsFact},
    },
    wire::versions::TransactionVersion,
};

mod model;

use self::model::Model;
use crate::input::Input;

const MOST_EVENTS: usize = 400;
/// Rounds in which everybody answers, until it must be over.
const MOST_ROUNDS: usize = 10_000;

/// Decisions: a version of transactions, and commands, answers and time in any order. Answers are given to what was asked,
/// and late; commands come at any moment.
///
/// Every effect is right to a model that knows the effects only; `Model` has the rules. When everybody answers, the
/// transaction comes to its end, and every batch was either stored or discarded, once.
pub fn transaction(input: &[u8]) {
    let mut choices = Input::new(input);
    let version = [TransactionVersion::V1, TransactionVersion::V2][usize::from(choices.pick(2))];
    let mut model = Model::new(version, u64::from(choices.byte()));
    for _ in 0..MOST_EVENTS {
        if choices.is_empty() {
            break;
        }
        happen(&mut model, &mut choices);
    }
    come_to_the_end(&mut model);
}

fn happen(model: &mut Model, choices: &mut Input<'_>) {
    let decision = choices.byte();
    let more = decision / 16;
    match decision % 16 {
        0..=3 => model.write(partition(more % 3), 1 + i32::from(more)),
        4 => model.offsets(offsets(more % 2)),
        5 => model.flush(),
        6 => model.end([Goal::Prepare, Goal::Commit, Goal::Abort][usize::from(more) % 3]),
        7 => model.added(add_fact(more)),
        8 | 9 => {
            let facts = std::iter::from_fn(|| Some(batch_fact(choices)));
            model.produced(usize::from(more), facts);
        }
        10 => model.produce_lost(usize::from(more)),
        11 => model.leaders(|index| (more & (1 << (index % 4)) == 0).then_some(NodeId(i32::from(more) % 2))),
        12 if more.is_multiple_of(4) => model.topic_replaced(),
        12 => model.topics_checked(),
        13 => model.described(more.is_multiple_of(2).then_some(i64::from(more))),
        14 if model.aborts() => model.aborted(abort_fact(more)),
        14 => model.offsets_committed(offsets_fact(more)),
        _ if more.is_multiple_of(4) => model.wait(Duration::from_secs(20 * u64::from(more))),
        _ if more % 4 == 1 => model.wait(Duration::from_millis(u64::from(choices.byte()))),
        _ => model.deadline(),
    }
}

fn come_to_the_end(model: &mut Model) {
    for _ in 0..MOST_ROUNDS {
        if model.is_over() {
            model.is_settled();
            return;
        }
        if model.wants_an_end() {
            model.end(if model.has_failed() { Goal::Abort } else { Goal::Commit });
        }
        model.added(AddFact::Added);
        model.leaders(|_| Some(NodeId(1)));
        model.produced(0, std::iter::repeat_with(|| Some(BatchFact::Stored(Some(1)))));
        model.offsets_committed(OffsetsFact::Stored { on: None });
        model.topics_checked();
        model.described(Some(1));
        model.aborted(AbortFact::Done(None));
        if model.waits() {
            model.deadline();
        }
    }
    panic!("the transaction does not end: {model:#?}");
}

fn partition(index: u8) -> TopicPartition {
    TopicPartition::new("t", i32::from(index))
}

fn offsets(group: u8) -> Arc<GroupOffsets> {
    let group = ConsumerGroupMetadata::new(GroupId::new(format!("g{group}")));
    Arc::new(GroupOffsets { group, offsets: BTreeMap::from([(partition(0), OffsetAndMetadata::new(5))]) })
}

fn cause(kind: CauseKind) -> Cause {
    Cause::new(kind, "so it was decided")
}

fn add_fact(decision: u8) -> AddFact {
    match decision {
        0 => AddFact::Retry,
        1 => AddFact::RetrySoon,
        2 => AddFact::CoordinatorMoved,
        3 => AddFact::Refused(cause(CauseKind::Denied)),
        4 => AddFact::Fenced(cause(CauseKind::Fenced)),
        _ => AddFact::Added,
    }
}

fn offsets_fact(decision: u8) -> OffsetsFact {
    match decision {
        0 => OffsetsFact::Retry,
        1 => OffsetsFact::RetrySoon,
        2 => OffsetsFact::CoordinatorMoved,
        3 => OffsetsFact::Refused(cause(CauseKind::GroupMoved)),
        4 => OffsetsFact::Fenced(cause(CauseKind::Fenced)),
        5 => OffsetsFact::Stored { on: Some(TopicPartition::new(OFFSETS_TOPIC, 1)) },
        _ => OffsetsFact::Stored { on: None },
    }
}

fn abort_fact(decision: u8) -> AbortFact {
    match decision {
        0 => AbortFact::Retry,
        1 => AbortFact::CoordinatorMoved,
        2 => AbortFact::Refused(cause(CauseKind::InvalidState)),
        3 => AbortFact::Fenced(cause(CauseKind::Fenced)),
        4 => AbortFact::NothingOpen,
        5 => AbortFact::Done(Some(Identity::new(1, 2))),
        _ => AbortFact::Done(None),
    }
}

/// What an answer says of a batch; `None` where it does not mention it.
fn batch_fact(choices: &mut Input<'_>) -> Option<BatchFact<Cause>> {
    Some(match choices.pick(16) {
        0 => BatchFact::RetryAfterMetadata,
        1 => BatchFact::RetryAt(NodeId(1)),
        2 => BatchFact::Retry,
        3 => BatchFact::RetrySoon,
        4 => BatchFact::OutOfOrder,
        5 => BatchFact::Refused(cause(CauseKind::RecordTooLarge)),
        6 => BatchFact::Refused(cause(CauseKind::Fenced)),
        7 => return None,
        8 => BatchFact::Stored(None),
        9 => BatchFact::TopicIdUnknown,
        number => BatchFact::Stored(Some(i64::from(number))),
    })
}

//! Answers as the machines of `proto` take them: verdicts, with the story for people beside them.

use super::{Described, Ended, Produced};
use crate::{
    ids::{GroupId, Identity, TopicPartition},
    proto::{
        cause::{Cause, CauseKind},
        idempotent::{InitFact, ProduceFact},
        initialize,
        numbers::Numbers,
        offsets::GroupOffsets,
        outbox::BatchFact,
        resume::{self, CoordinatorState, TransactionView},
        transaction::{AbortFact, AddFact, OffsetsFact},
        verdict::{
            self, AddOffsetsVerdict, AddPartitionVerdict, DescribeTransactionsVerdict, EndTxnVerdict,
            IdempotentVerdict, InitProducerIdVerdict, ProduceVerdict, TxnOffsetCommitVerdict,
        },
    },
    wire::code::ErrorCode,
};

/// What an InitProducerId answer means.
#[must_use]
pub fn initialized(code: ErrorCode, identity: Identity, timeout_ms: i32) -> initialize::Input {
    let verdict = verdict::init_producer_id(0, code);
    let detail = match verdict {
        InitProducerIdVerdict::TimeoutRefused => format!(
            "transaction.timeout.ms = {timeout_ms} exceeds the broker's transaction.max.timeout.ms (900000 unless \
             its operator changed it): lower the one or raise the other"
        ),
        _ => code.name().to_owned(),
    };
    initialize::Input::Answered { verdict, identity, detail }
}

/// What a Produce answer means for one batch, which holds these records.
#[must_use]
pub fn produced(version: i16, p: &Produced, records: &Numbers) -> BatchFact<Cause> {
    let cause = |kind| said(p, kind);
    BatchFact::Refused(match verdict::produce(version, p.code) {
        ProduceVerdict::Acked | ProduceVerdict::Duplicate => return BatchFact::Stored(p.offset),
        ProduceVerdict::RetryAfterMetadata => {
            return p.leader.map_or(BatchFact::RetryAfterMetadata, |(leader, _)| BatchFact::RetryAt(leader));
        }
        ProduceVerdict::TopicIdUnknown => return BatchFact::TopicIdUnknown,
        ProduceVerdict::Retry | ProduceVerdict::MaybeStored => return BatchFact::Retry,
        ProduceVerdict::RetrySoon => return BatchFact::RetrySoon,
        ProduceVerdict::OutOfOrder => return BatchFact::OutOfOrder,
        ProduceVerdict::TooLarge => Cause::new(
            CauseKind::RecordTooLarge,
            "MESSAGE_TOO_LARGE: a batch exceeds the broker's limit; raise the topic's max.message.bytes, or lower \
             max.request.size and batch.size to it, so that the record at fault is named",
        )
        .of(records.culprits(&[])),
        ProduceVerdict::Rejected => cause(CauseKind::Refused).of(records.culprits(&p.records)),
        ProduceVerdict::Unacceptable | ProduceVerdict::Fatal => cause(CauseKind::Refused),
        ProduceVerdict::TopicDenied | ProduceVerdict::Denied => cause(CauseKind::Denied),
        ProduceVerdict::Abortable => cause(CauseKind::InvalidState),
        ProduceVerdict::Fenced => cause(CauseKind::Fenced),
        ProduceVerdict::Stuck => cause(CauseKind::Unsupported),
    })
}

/// What an InitProducerId answer without a transactional id means. Asking again is always safe: it costs a number.
#[must_use]
pub fn granted(code: ErrorCode, identity: Identity) -> InitFact {
    use InitProducerIdVerdict as V;
    let refused = |kind| InitFact::Refused(Cause::new(kind, format!("InitProducerId: {}", code.name())));
    match verdict::init_producer_id(0, code) {
        V::Granted => InitFact::Granted(identity),
        V::Retry | V::RetrySoon | V::Relookup | V::NotKnown => InitFact::Retry,
        V::Denied => refused(CauseKind::Denied),
        V::Unsupported => refused(CauseKind::Unsupported),
        V::Fenced | V::TimeoutRefused | V::Abortable | V::Fatal => refused(CauseKind::Refused),
    }
}

/// What a Produce answer means for one batch of an idempotent producer, which holds these records.
#[must_use]
pub fn produced_once(p: &Produced, records: &Numbers) -> ProduceFact {
    use IdempotentVerdict as V;
    let cause = |kind| said(p, kind);
    ProduceFact::Plain(match verdict::produce_idempotent(p.code) {
        V::Acked | V::Duplicate => BatchFact::Stored(p.offset),
        V::RetryAfterMetadata => {
            p.leader.map_or(BatchFact::RetryAfterMetadata, |(leader, _)| BatchFact::RetryAt(leader))
        }
        V::TopicIdUnknown => BatchFact::TopicIdUnknown,
        V::Retry => BatchFact::Retry,
        V::MaybeStored => BatchFact::MaybeStored,
        V::OutOfOrder => BatchFact::OutOfOrder,
        V::TooLarge => {
            let detail = "MESSAGE_TOO_LARGE: the record exceeds the topic's max.message.bytes";
            let cause = Cause::new(CauseKind::RecordTooLarge, detail).of(records.culprits(&[]));
            return ProduceFact::TooLarge(cause);
        }
        V::Rejected => BatchFact::Refused(cause(CauseKind::Refused).of(records.culprits(&p.records))),
        V::Unacceptable => BatchFact::Refused(cause(CauseKind::Refused)),
        V::Fatal => BatchFact::Refused(cause(CauseKind::Unsupported)),
        V::Denied => BatchFact::Refused(cause(CauseKind::Denied)),
        V::InvalidState => BatchFact::Refused(cause(CauseKind::Refused)),
        V::IdentityGone => return ProduceFact::IdentityGone(cause(CauseKind::SequenceGap)),
        V::Unclear => return ProduceFact::Unclear(cause(CauseKind::OutcomeUnknown)),
    })
}

/// A cause in the broker's own words.
fn said(p: &Produced, kind: CauseKind) -> Cause {
    let colon = if p.message.is_empty() { "" } else { ": " };
    Cause::new(kind, format!("{}{colon}{}", p.code.name(), p.message))
}

/// What an AddPartitionsToTxn answer means as a whole: the worst partition decides, and one that the answer
/// leaves out is asked for again.
#[must_use]
pub fn added(asked: &[TopicPartition], answer: &[(TopicPartition, ErrorCode)]) -> AddFact {
    let mut whole = AddFact::Added;
    for partition in asked {
        let code = answer.iter().find(|(p, _)| p == partition).map(|(_, code)| *code);
        let fact = code.map_or(AddFact::Retry, |code| add_fact(partition, code));
        if severity(&fact) > severity(&whole) {
            whole = fact;
        }
    }
    whole
}

fn add_fact(partition: &TopicPartition, code: ErrorCode) -> AddFact {
    let cause = |kind| Cause::new(kind, code.name()).on(partition.clone());
    match verdict::add_partition(0, code) {
        AddPartitionVerdict::Added => AddFact::Added,
        AddPartitionVerdict::RetrySoon => AddFact::RetrySoon,
        AddPartitionVerdict::Retry
        | AddPartitionVerdict::RetryAfterMetadata
        | AddPartitionVerdict::NotKnown
        | AddPartitionVerdict::NotAttempted => AddFact::Retry,
        AddPartitionVerdict::Relookup => AddFact::CoordinatorMoved,
        AddPartitionVerdict::TopicDenied | AddPartitionVerdict::Denied => {
            AddFact::Refused(cause(CauseKind::Denied))
        }
        AddPartitionVerdict::Abortable | AddPartitionVerdict::Contradiction => {
            AddFact::Refused(cause(CauseKind::InvalidState))
        }
        AddPartitionVerdict::Unacceptable | AddPartitionVerdict::Fatal => {
            AddFact::Refused(cause(CauseKind::Refused))
        }
        AddPartitionVerdict::Fenced => AddFact::Fenced(cause(CauseKind::Fenced)),
    }
}

fn severity(fact: &AddFact) -> u8 {
    match fact {
        AddFact::Added => 0,
        AddFact::RetrySoon => 1,
        AddFact::Retry => 2,
        AddFact::CoordinatorMoved => 3,
        AddFact::Refused(_) => 4,
        AddFact::Fenced(_) => 5,
    }
}

/// What an AddOffsetsToTxn answer means.
#[must_use]
pub fn offsets_added(group: &GroupId, code: ErrorCode) -> AddFact {
    let cause = |kind| Cause::new(kind, of_group(group, code));
    match verdict::add_offsets(0, code) {
        AddOffsetsVerdict::Added => AddFact::Added,
        AddOffsetsVerdict::RetrySoon => AddFact::RetrySoon,
        AddOffsetsVerdict::Retry | AddOffsetsVerdict::NotKnown => AddFact::Retry,
        AddOffsetsVerdict::Relookup => AddFact::CoordinatorMoved,
        AddOffsetsVerdict::GroupDenied | AddOffsetsVerdict::Denied => {
            AddFact::Refused(cause(CauseKind::Denied))
        }
        AddOffsetsVerdict::Abortable | AddOffsetsVerdict::Contradiction => {
            AddFact::Refused(cause(CauseKind::InvalidState))
        }
        AddOffsetsVerdict::Fatal => AddFact::Refused(cause(CauseKind::Refused)),
        AddOffsetsVerdict::Fenced => AddFact::Fenced(cause(CauseKind::Fenced)),
    }
}

/// What a TxnOffsetCommit answer means as a whole: the worst partition decides, and all are asked for again if one that
/// the answer leaves out, or refuses for now, is among them.
#[must_use]
pub fn offsets_committed(
    asked: &GroupOffsets,
    (version, answer): (i16, &[(TopicPartition, ErrorCode)]),
) -> OffsetsFact {
    let mut whole = OffsetsFact::Stored { on: None };
    for partition in asked.offsets.keys() {
        let code = answer.iter().find(|(p, _)| p == partition).map(|(_, code)| *code);
        let fact = code.map_or(OffsetsFact::Retry, |code| {
            offsets_fact(&asked.group.group_id, partition, (version, code))
        });
        if fact.severity() > whole.severity() {
            whole = fact;
        }
    }
    whole
}

fn offsets_fact(
    group: &GroupId,
    partition: &TopicPartition,
    (version, code): (i16, ErrorCode),
) -> OffsetsFact {
    let cause = |kind| Cause::new(kind, of_group(group, code)).on(partition.clone());
    OffsetsFact::Refused(match verdict::txn_offset_commit(version, code) {
        TxnOffsetCommitVerdict::Stored => return OffsetsFact::Stored { on: None },
        TxnOffsetCommitVerdict::Retry => return OffsetsFact::Retry,
        TxnOffsetCommitVerdict::RetrySoon => return OffsetsFact::RetrySoon,
        TxnOffsetCommitVerdict::Relookup => return OffsetsFact::CoordinatorMoved,
        TxnOffsetCommitVerdict::Fenced => return OffsetsFact::Fenced(cause(CauseKind::Fenced)),
        TxnOffsetCommitVerdict::GroupMoved => cause(CauseKind::GroupMoved),
        TxnOffsetCommitVerdict::GroupDenied
        | TxnOffsetCommitVerdict::TopicDenied
        | TxnOffsetCommitVerdict::Denied => cause(CauseKind::Denied),
        TxnOffsetCommitVerdict::Unacceptable | TxnOffsetCommitVerdict::Fatal => cause(CauseKind::Refused),
        TxnOffsetCommitVerdict::Abortable => cause(CauseKind::InvalidState),
        TxnOffsetCommitVerdict::Stuck => cause(CauseKind::Unsupported),
    })
}

fn of_group(group: &GroupId, code: ErrorCode) -> String {
    format!("offsets of the consumer group {group}: {}", code.name())
}

/// What an answer to the live producer's EndTxn(abort) means.
#[must_use]
pub fn aborted(ended: Ended) -> AbortFact {
    let cause = |kind| Cause::new(kind, ended.code.name());
    match verdict::end_txn(0, ended.code) {
        EndTxnVerdict::Done => AbortFact::Done(ended.next),
        EndTxnVerdict::Retry | EndTxnVerdict::NotKnown => AbortFact::Retry,
        EndTxnVerdict::Relookup => AbortFact::CoordinatorMoved,
        // Nothing of this identity is open: its timeout has ended it, or an abort whose answer was lost.
        EndTxnVerdict::InvalidState | EndTxnVerdict::IdentityGone => AbortFact::NothingOpen,
        EndTxnVerdict::Fenced => AbortFact::Fenced(cause(CauseKind::Fenced)),
        EndTxnVerdict::Abortable => AbortFact::Refused(cause(CauseKind::InvalidState)),
        EndTxnVerdict::Denied => AbortFact::Refused(cause(CauseKind::Denied)),
        EndTxnVerdict::Stuck => AbortFact::Refused(cause(CauseKind::Unsupported)),
        EndTxnVerdict::Fatal => AbortFact::Refused(cause(CauseKind::Refused)),
    }
}

/// What a coordinator's entry means to the machines.
#[must_use]
pub fn described(d: &Described) -> resume::Described {
    match verdict::describe_transactions(0, d.code) {
        DescribeTransactionsVerdict::Described => resume::Described::Transaction(view(d)),
        DescribeTransactionsVerdict::NotFound => resume::Described::NotFound,
        DescribeTransactionsVerdict::Relookup => resume::Described::Relookup,
        DescribeTransactionsVerdict::Retry => resume::Described::Retry,
        DescribeTransactionsVerdict::Denied
        | DescribeTransactionsVerdict::Unsupported
        | DescribeTransactionsVerdict::Failed => resume::Described::Blind,
    }
}

fn view(d: &Described) -> TransactionView {
    TransactionView {
        state: d.state,
        start_ms: d.start_ms.unwrap_or(-1),
        identity: d.identity,
        partitions: d.partitions.clone(),
    }
}

/// The start time of the transaction that `identity` has open now, if the entry is about it.
#[must_use]
pub fn start_of_open(d: &Described, identity: Identity) -> Option<i64> {
    let ours = d.code.is_none() && d.identity == identity && d.state == CoordinatorState::Ongoing;
    d.start_ms.filter(|_| ours)
}

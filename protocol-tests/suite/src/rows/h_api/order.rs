//! Calls out of order, and at the same time.

use std::time::Duration;

use kafka_2pc::client::{SendError, Topic, Transaction, TransactionalProducer, TrySendError};
use kafka_2pc::ids::{Identity, Moment, TopicId, TopicPartition, TransactionalId};
use kafka_2pc::proto::committable::Committable;
use kafka_2pc::proto::outbox::{Batch, BatchId, FirstBatch, Limits};
use kafka_2pc::proto::resume::{Decision, First, Leaderless, Resume, ResumeInput, ResumeOptions};
use kafka_2pc::proto::transaction::{self as machine, Goal, Input};
use kafka_2pc::proto::verdict::ResumeVerdict;
use kafka_2pc::record::RecordRef;
use kafka_2pc::wire::versions::TransactionVersion;

use super::super::copies;
use crate::bench::Bench;
use crate::outcome::{Shown, equal, holds};

const NOW: Moment = Moment(0);

type State = fn() -> machine::Transaction;
type Command = fn() -> Input;

/// A transaction's machine as it is when it begins.
pub(in crate::rows) fn empty(version: TransactionVersion) -> machine::Transaction {
    let second = Duration::from_secs(1);
    let limits = Limits {
        first_batch: FirstBatch::Pipelined,
        in_flight: 5,
        request_bytes: 1 << 20,
        retry: second,
        retry_max: second,
    };
    machine::Transaction::new(version, limits, 1)
}

/// A command that comes after the end was asked for is refused, and nothing has changed then. The same holds for facts
/// that nobody asked for.
pub(super) async fn h01(_: &Bench) -> Shown {
    let states: [(&str, State); 3] = [("draining", draining), ("aborting", aborting), ("done", done)];
    let commands: [(&str, Command); 5] = [
        ("a batch", || batch(2)),
        ("flush", || Input::Flush),
        ("prepare", || Input::End(Goal::Prepare)),
        ("commit", || Input::End(Goal::Commit)),
        ("abort", || Input::End(Goal::Abort)),
    ];
    for (state, made) in states {
        for (name, command) in commands {
            let mut machine = made();
            let before = format!("{machine:?}");
            let taken = machine.handle(NOW, command()).is_ok();
            // What is being flushed for a commit can still be thrown away.
            equal(&format!("{name} while {state}: taken"), taken, (state, name) == ("draining", "abort"))?;
            if !taken {
                equal(&format!("{name} while {state}: the state"), format!("{machine:?}"), before)?;
                equal("effects", machine.poll_effect(), None)?;
            }
        }
    }

    let mut resume = Resume::new(NOW, committable(), options());
    let before = format!("{resume:?}");
    for input in [ResumeInput::EndTxn(ResumeVerdict::Decided), ResumeInput::FeatureLevel(2)] {
        holds(resume.handle(NOW, input).is_err(), "an answer that was not asked for was taken")?;
        equal("the state", format!("{resume:?}"), before.clone())?;
    }
    equal("a result without an answer", resume.result(), None)
}

/// Two calls on one transaction at the same time can't be written: the calls borrow it for themselves or take it, and
/// nothing copies it. Ending what was prepared can be asked for by many, and is right each time.
pub(super) async fn h02(_: &Bench) -> Shown {
    let _: fn(&mut Transaction, &Topic, Option<i32>, RecordRef<'_>) -> Result<(), TrySendError> =
        Transaction::try_send;
    let _: fn(&mut Transaction) -> Result<(), SendError> = Transaction::tick;
    let _: fn(TransactionalProducer) -> Transaction = TransactionalProducer::begin;
    equal("a transaction can be copied", copies!(Transaction), false)?;
    equal("a producer can be copied", copies!(TransactionalProducer), false)?;
    equal("a committable can be copied", copies!(Committable), true)?;
    let both = |decision| {
        let mut resume = Resume::new(NOW, committable(), ResumeOptions { decision, ..options() });
        std::iter::from_fn(|| resume.poll_effect()).count()
    };
    equal("first requests of two ends", (both(Decision::Commit), both(Decision::Abort)), (1, 1))
}

fn draining() -> machine::Transaction {
    ended(Goal::Prepare)
}

fn aborting() -> machine::Transaction {
    let mut machine = empty(TransactionVersion::V1);
    // AddPartitionsToTxn is under way from here on, and the abort waits for it.
    assert!(machine.handle(NOW, batch(1)).is_ok() && machine.handle(NOW, Input::End(Goal::Abort)).is_ok());
    while machine.poll_effect().is_some() {}
    machine
}

fn done() -> machine::Transaction {
    let mut machine = empty(TransactionVersion::V2);
    assert!(machine.handle(NOW, Input::End(Goal::Commit)).is_ok());
    while machine.poll_effect().is_some() {}
    machine
}

fn ended(goal: Goal) -> machine::Transaction {
    let mut machine = empty(TransactionVersion::V2);
    assert!(machine.handle(NOW, batch(1)).is_ok() && machine.handle(NOW, Input::End(goal)).is_ok());
    while machine.poll_effect().is_some() {}
    machine
}

fn batch(id: u64) -> Input {
    let batch = Batch {
        id: BatchId(id),
        topic: TopicId::UNKNOWN,
        records: 1,
        bytes: 100,
        deadline: Moment(1_000_000_000),
    };
    Input::Batch { partition: TopicPartition::new("t", 0), batch, leader: None }
}

fn committable() -> Committable {
    Committable {
        transactional_id: TransactionalId::new("id"),
        identity: Identity::new(1, 0),
        end_txn_version: Some(5),
        start_ms: Some(1),
        timeout_ms: Some(60_000),
        deadline_ms: Some(60_001),
        cluster_id: None,
        partitions: Vec::new(),
    }
}

fn options() -> ResumeOptions {
    ResumeOptions {
        decision: Decision::Commit,
        first: First::EndTxn,
        leaderless: Leaderless::Wait,
        patience: None,
        wall_ms: 1,
        seed: 1,
    }
}

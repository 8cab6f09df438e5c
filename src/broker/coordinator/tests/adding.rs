//! Adding partitions, and asking whether they were added (KIP-890, part 1).

use super::*;
use crate::broker::coordinator::add_partitions::{add, verify};
use kafka_protocol::error::ResponseError::{
    ConcurrentTransactions, InvalidProducerIdMapping, ProducerFenced, TransactionAbortable,
};

/// Adds to an entry; true when that was written.
fn added(mut entry: Entry, who: Pair, order: PendingAdd) -> Result<bool, ResponseError> {
    let before = entry.appends;
    add(&mut entry, who, &[partition()], order, 1)?;
    assert_eq!(entry.state, Ongoing);
    Ok(entry.appends != before)
}

fn holding(state: State) -> Entry {
    Entry { partitions: [partition()].into(), ..at(state, ID, EPOCH) }
}

macro_rules! cells {
    ($($name:ident: $entry:expr, $who:expr => added $added:expr, in Kafka 3 $old:expr, verified $verified:expr;)*) => {
        $(#[test]
        fn $name() {
            assert_eq!(added($entry, $who, PendingAdd::BeforePair), $added);
            assert_eq!(added($entry, $who, PendingAdd::AfterPair), $old);
            assert_eq!(verify(&$entry, $who, &partition()), $verified);
        })*
    };
}

use State::*;

cells! {
    empty: at(Empty, ID, EPOCH), who(EPOCH)
        => added Ok(true), in Kafka 3 Ok(true), verified Err(TransactionAbortable);
    ongoing_without_it: at(Ongoing, ID, EPOCH), who(EPOCH)
        => added Ok(true), in Kafka 3 Ok(true), verified Err(TransactionAbortable);
    ongoing_with_it: holding(Ongoing), who(EPOCH)
        => added Ok(false), in Kafka 3 Ok(false), verified Ok(());
    complete_commit: at(CompleteCommit, ID, EPOCH), who(EPOCH)
        => added Ok(true), in Kafka 3 Ok(true), verified Err(TransactionAbortable);
    complete_abort: at(CompleteAbort, ID, EPOCH), who(EPOCH)
        => added Ok(true), in Kafka 3 Ok(true), verified Err(TransactionAbortable);
    prepare_commit: holding(PrepareCommit), who(EPOCH)
        => added Err(ConcurrentTransactions), in Kafka 3 Err(ConcurrentTransactions), verified Err(ConcurrentTransactions);
    prepare_abort: holding(PrepareAbort), who(EPOCH)
        => added Err(ConcurrentTransactions), in Kafka 3 Err(ConcurrentTransactions), verified Err(ConcurrentTransactions);
    prepare_abort_stranger: holding(PrepareAbort), who(EPOCH - 1)
        => added Err(ConcurrentTransactions), in Kafka 3 Err(ProducerFenced), verified Err(ProducerFenced);
    being_fenced: Entry { pending: Some(Pending::EpochFence), ..holding(Ongoing) }, who(EPOCH)
        => added Err(ConcurrentTransactions), in Kafka 3 Err(ConcurrentTransactions), verified Ok(());
    older_epoch: holding(Ongoing), who(EPOCH - 1)
        => added Err(ProducerFenced), in Kafka 3 Err(ProducerFenced), verified Err(ProducerFenced);
    newer_epoch: holding(Ongoing), who(EPOCH + 1)
        => added Err(ProducerFenced), in Kafka 3 Err(ProducerFenced), verified Err(ProducerFenced);
    other_producer_id: holding(Ongoing), Pair { id: ID + 1, epoch: EPOCH }
        => added Err(InvalidProducerIdMapping), in Kafka 3 Err(InvalidProducerIdMapping),
           verified Err(InvalidProducerIdMapping);
}

#[test]
fn adding_is_refused_while_preparing_and_to_strangers() {
    let (mut c, pair) = coordinator(V1, EPOCH);
    let add = |c: &mut Coordinator, pair| c.add_partitions(TXN, pair, &[partition()], 1);
    assert_eq!(add(&mut c, Pair { epoch: EPOCH - 1, ..pair }), Err(ProducerFenced));
    assert_eq!(add(&mut c, Pair { id: 99, ..pair }), Err(InvalidProducerIdMapping));
    assert_eq!(c.add_partitions("unknown", pair, &[], 1), Err(InvalidProducerIdMapping));
    open(&mut c, pair, 10);
    c.end_txn(TXN, pair, (Commit, V1), 20).unwrap();
    assert_eq!(add(&mut c, Pair { id: 99, ..pair }), Err(ConcurrentTransactions));
}

#[test]
fn verification_finds_only_added_partitions_of_an_open_transaction() {
    let (mut c, pair) = coordinator(V1, EPOCH);
    assert_eq!(c.verify(TXN, pair, &partition()), Err(TransactionAbortable));
    open(&mut c, pair, 10);
    assert_eq!(c.verify(TXN, pair, &partition()), Ok(()));
    assert_eq!(c.verify(TXN, pair, &TopicPartition::new("t", 1)), Err(TransactionAbortable));
    c.end_txn(TXN, pair, (Commit, V1), 20).unwrap();
    assert_eq!(c.verify(TXN, pair, &partition()), Err(ConcurrentTransactions));
    complete(&mut c, 21);
    assert_eq!(c.verify(TXN, pair, &partition()), Err(TransactionAbortable));
}

//! The whole table, code by code, beside `table.txt`, which was checked by hand; and the rows that decide.

use super::*;
use crate::wire::code::ErrorCode as E;

fn row(code: E) -> String {
    let cells = [
        format!("{:?}", produce(11, code)),
        format!("{:?}", produce(12, code)),
        format!("{:?}", find_coordinator(4, code)),
        format!("{:?}", init_producer_id(4, code)),
        format!("{:?}", add_partition(3, code)),
        format!("{:?}", end_txn(5, code)),
        format!("{:?}", end_txn_on_resume(5, code)),
        format!("{:?}", describe_transactions(0, code)),
        format!("{:?}", list_transactions(1, code)),
        format!("{:?}", describe_producers(0, code)),
        format!("{:?}", write_marker(1, code)),
        format!("{:?}", fetch(12, code)),
        format!("{:?}", list_offsets(6, code)),
        format!("{:?}", metadata(12, code)),
        format!("{:?}", create_topic(7, code)),
        format!("{:?}", add_offsets(3, code)),
        format!("{:?}", txn_offset_commit(4, code)),
        format!("{:?}", txn_offset_commit(5, code)),
        format!("{:?}", offset_fetch(8, code)),
        format!("{:?}", produce_idempotent(code)),
    ];
    format!("{} {}: {}", code.code(), code.name(), cells.join(" "))
}

fn rows() -> String {
    let head = "code: produce-11 produce-12 find-coordinator init-producer-id add-partition end-txn end-txn-resumed \
                describe-transactions list-transactions describe-producers write-marker fetch list-offsets metadata \
                create-topic add-offsets txn-offset-commit-4 txn-offset-commit-5 offset-fetch \
                produce-idempotent";
    let codes = E::NAMED.iter().copied().chain([E::Unknown(999)]);
    [head.to_owned()].into_iter().chain(codes.map(row)).collect::<Vec<_>>().join("\n") + "\n"
}

#[test]
fn every_code_has_the_consequence_that_the_table_says() {
    let expected = include_str!("table.txt");
    for (found, expected) in rows().lines().zip(expected.lines()) {
        assert_eq!(found, expected);
    }
    assert_eq!(rows().lines().count(), expected.lines().count());
}

#[test]
fn only_none_decides() {
    for code in E::NAMED.iter().copied().chain([E::Unknown(137), E::Unknown(i16::MAX), E::Unknown(-2)]) {
        assert_eq!(end_txn(5, code) == EndTxnVerdict::Done, code == E::None, "{code}");
        assert_eq!(end_txn_on_resume(4, code) == ResumeVerdict::Decided, code == E::None, "{code}");
        assert_eq!(produce(12, code) == ProduceVerdict::Acked, code == E::None, "{code}");
        assert_eq!(produce_idempotent(code) == IdempotentVerdict::Acked, code == E::None, "{code}");
        assert_eq!(write_marker(2, code) == WriteMarkerVerdict::Written, code == E::None, "{code}");
        assert_eq!(add_offsets(3, code) == AddOffsetsVerdict::Added, code == E::None, "{code}");
        assert_eq!(txn_offset_commit(5, code) == TxnOffsetCommitVerdict::Stored, code == E::None, "{code}");
    }
}

#[test]
fn a_committer_asks_for_evidence_exactly_when_the_transaction_moved_on() {
    let asked: Vec<E> =
        E::NAMED.iter().copied().filter(|c| end_txn_on_resume(5, *c) == ResumeVerdict::AskEvidence).collect();
    assert_eq!(
        asked,
        [
            E::InvalidProducerEpoch,
            E::InvalidTxnState,
            E::InvalidProducerIdMapping,
            E::UnknownProducerId,
            E::ProducerFenced,
            E::TransactionAbortable,
        ]
    );
}

#[test]
fn an_unknown_server_error_leaves_the_decision_open() {
    assert_eq!(end_txn(5, E::UnknownServerError), EndTxnVerdict::NotKnown);
    assert_eq!(end_txn_on_resume(4, E::UnknownServerError), ResumeVerdict::NotKnown);
    assert_eq!(end_txn_on_resume(4, E::RequestTimedOut), ResumeVerdict::NotKnown);
    assert_eq!(end_txn_on_resume(4, E::Unknown(1234)), ResumeVerdict::NotKnown);
}

#[test]
fn unsupported_version_of_a_transactional_request_means_a_stuck_id() {
    assert_eq!(end_txn(5, E::UnsupportedVersion), EndTxnVerdict::Stuck);
    assert_eq!(end_txn_on_resume(5, E::UnsupportedVersion), ResumeVerdict::Stuck);
    assert_eq!(produce(12, E::UnsupportedVersion), ProduceVerdict::Stuck);
    assert_eq!(produce(11, E::UnsupportedVersion), ProduceVerdict::Fatal);
}

#[test]
fn fencing_reads_the_same_in_old_and_new_words() {
    for code in [E::InvalidProducerEpoch, E::ProducerFenced] {
        assert_eq!(init_producer_id(3, code), InitProducerIdVerdict::Fenced);
        assert_eq!(add_partition(1, code), AddPartitionVerdict::Fenced);
        assert_eq!(end_txn(1, code), EndTxnVerdict::Fenced);
    }
    assert_eq!(produce(11, E::InvalidProducerEpoch), ProduceVerdict::Abortable);
    assert_eq!(produce(11, E::ProducerFenced), ProduceVerdict::Fenced);
}

/// What is refused whatever the records hold is refused again by every later try.
#[test]
fn a_topic_that_no_client_may_write_is_not_a_reason_to_begin_again() {
    for version in [11, 12] {
        for code in [E::InvalidTopicException, E::UnsupportedCompressionType, E::InvalidRequiredAcks] {
            assert_eq!(produce(version, code), ProduceVerdict::Unacceptable, "{code}");
        }
    }
    assert_eq!(add_partition(3, E::InvalidTopicException), AddPartitionVerdict::Unacceptable);
    assert_eq!(add_partition(3, E::InvalidRequest), AddPartitionVerdict::Fatal);
    assert_eq!(add_partition(3, E::InvalidTxnState), AddPartitionVerdict::Contradiction);
}

/// As Java's TransactionManager has them: a group that moved on ends the transaction, not the producer.
#[test]
fn offsets_of_a_group_fail_as_in_javas_client() {
    use TxnOffsetCommitVerdict as V;
    for (code, verdict) in [
        (E::IllegalGeneration, V::GroupMoved),
        (E::UnknownMemberId, V::GroupMoved),
        (E::FencedInstanceId, V::GroupMoved),
        (E::StaleMemberEpoch, V::GroupMoved),
        (E::GroupAuthorizationFailed, V::GroupDenied),
        (E::NotCoordinator, V::Relookup),
        (E::CoordinatorLoadInProgress, V::Retry),
        (E::UnknownTopicOrPartition, V::Retry),
        (E::ConcurrentTransactions, V::RetrySoon),
        (E::TransactionAbortable, V::Abortable),
        (E::ProducerFenced, V::Fenced),
        (E::InvalidProducerEpoch, V::Fenced),
        (E::OffsetMetadataTooLarge, V::Unacceptable),
    ] {
        assert_eq!(txn_offset_commit(4, code), verdict, "{code}");
    }
    assert_eq!(txn_offset_commit(5, E::UnsupportedVersion), V::Stuck);
    assert_eq!(add_offsets(3, E::GroupAuthorizationFailed), AddOffsetsVerdict::GroupDenied);
    assert_eq!(offset_fetch(8, E::UnstableOffsetCommit), OffsetFetchVerdict::Retry);
}

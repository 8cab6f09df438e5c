//! The requests that a transaction coordinator answers, and FindCoordinator.

use super::ErrorCode;
use crate::ids::CoordinatorKey;

/// What a FindCoordinator answer means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FindCoordinatorVerdict {
    /// The answer names the node.
    Found,
    /// No coordinator yet (the internal topic is being made, or has no leader): back off, again.
    Retry,
    /// DESCRIBE on the transactional id is missing.
    Denied,
    /// KIP-890's "abort this transaction".
    Abortable,
    /// The broker cannot answer this request at all.
    Fatal,
}

/// What an InitProducerId answer means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InitProducerIdVerdict {
    /// The answer carries the identity.
    Granted,
    /// Loading or busy: back off, again.
    Retry,
    /// `CONCURRENT_TRANSACTIONS`: the id's former transaction is being ended; again soon.
    RetrySoon,
    /// Look the coordinator up, again.
    Relookup,
    /// Not known whether it was carried out. The bare form can be sent again; the form with an own pair may find
    /// that its own first try has fenced it.
    NotKnown,
    /// The pair that was named is not the newest.
    Fenced,
    /// The right to the transactional id, or the cluster, is missing.
    Denied,
    /// The transaction timeout is above the broker's `transaction.max.timeout.ms`.
    TimeoutRefused,
    /// KIP-890's "abort this transaction".
    Abortable,
    /// The broker cannot do this.
    Unsupported,
    /// Nothing that a retry would change.
    Fatal,
}

/// What an AddPartitionsToTxn answer means for one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AddPartitionVerdict {
    /// It belongs to the transaction now.
    Added,
    /// Not added; back off, again.
    Retry,
    /// `CONCURRENT_TRANSACTIONS`: again in 20 ms when it is the transaction's first partition.
    RetrySoon,
    /// Not added; refresh the metadata, again.
    RetryAfterMetadata,
    /// Look the coordinator up, again.
    Relookup,
    /// Not known whether it was added; again.
    NotKnown,
    /// Not added because of another partition in the same request; that one's verdict decides.
    NotAttempted,
    /// No client can make this topic a part of a transaction: abort, and name the topic.
    Unacceptable,
    /// The right to write to this topic is missing: abort, and name the topic.
    TopicDenied,
    /// The right to the transactional id is missing.
    Denied,
    /// Abort the transaction; the identity must be renewed.
    Abortable,
    /// A newer owner exists.
    Fenced,
    /// The coordinator's state contradicts ours: abort the transaction.
    Contradiction,
    /// The request can never be answered better.
    Fatal,
}

/// What an EndTxn answer means to the live producer that sent it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EndTxnVerdict {
    /// Decided as asked.
    Done,
    /// An ending is under way, or the coordinator loads: back off, the same request again.
    Retry,
    /// Look the coordinator up, the same request again.
    Relookup,
    /// Not known whether it was carried out: the same request again, never the opposite one.
    NotKnown,
    /// KIP-890's "abort this transaction"; an answer to a commit only.
    Abortable,
    /// The epoch moved on: fenced or timed out, or this very decision was carried out before. Ask for evidence.
    Fenced,
    /// The entry is not in a state that this request ends: ask for evidence.
    InvalidState,
    /// The coordinator knows another producer id, or none: ask for evidence.
    IdentityGone,
    /// The right to the transactional id is missing; nothing was decided.
    Denied,
    /// `UNSUPPORTED_VERSION`: the id is stuck until its coordinator moves.
    Stuck,
    /// Refused as malformed; nothing was decided.
    Fatal,
}

/// What an EndTxn answer means to a committer that resumed the transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ResumeVerdict {
    /// Decided as asked, for this very identity.
    Decided,
    /// `CONCURRENT_TRANSACTIONS`: an ending is under way; back off, the same request again.
    Concurrent,
    /// The coordinator loads: back off, the same request again.
    Loading,
    /// Look the coordinator up, the same request again.
    Relookup,
    /// Not known whether it was carried out: the same request again, never the opposite one.
    NotKnown,
    /// The transaction is no longer what the committable says: ask for evidence.
    AskEvidence,
    /// `UNSUPPORTED_VERSION`: the id is stuck until its coordinator moves.
    Stuck,
    /// The right to the transactional id is missing; nothing was decided.
    Denied,
    /// Refused as malformed; nothing was decided.
    Refused,
}

/// What a user is told of a FindCoordinator answer that names nobody.
///
/// The topic behind a coordinator is created at its first use. A broker alone can't create it with the defaults of a cluster,
/// and answers COORDINATOR_NOT_AVAILABLE for ever (`KafkaApis.getCoordinator`, `AutoTopicCreationManager`).
#[must_use]
pub fn no_coordinator(key: &CoordinatorKey, code: ErrorCode, message: &str) -> String {
    let colon = if message.is_empty() { "" } else { ": " };
    let hint = match (code, key) {
        (ErrorCode::CoordinatorNotAvailable, CoordinatorKey::Transaction(_)) => {
            " (if this lasts: the cluster may have fewer brokers than transaction.state.log.replication.factor, 3 unless \
             set, or transaction.state.log.min.isr, 2 unless set, want)"
        }
        (ErrorCode::CoordinatorNotAvailable, CoordinatorKey::Group(_)) => {
            " (if this lasts: the cluster may have fewer brokers than offsets.topic.replication.factor, 3 unless set, wants)"
        }
        _ => "",
    };
    format!("{}{colon}{message}{hint}", code.name())
}

/// The consequence of `code` in a FindCoordinator answer.
#[must_use]
pub fn find_coordinator(_version: i16, code: ErrorCode) -> FindCoordinatorVerdict {
    use ErrorCode as E;
    use FindCoordinatorVerdict as V;
    match code {
        E::None => V::Found,
        coordinator_moved!() | E::CoordinatorLoadInProgress | perhaps_done!() | busy!() => V::Retry,
        stale_leader!() | topic_unknown!() => V::Retry,
        denied!() => V::Denied,
        E::TransactionAbortable => V::Abortable,
        E::UnknownServerError | E::Unknown(_) => V::Retry,
        E::UnsupportedVersion | E::InvalidRequest | foreign!() | E::RebootstrapRequired => V::Fatal,
        bad_records!()
        | bad_format!()
        | bad_position!()
        | bad_sequence!()
        | session_lost!()
        | bad_topic!() => V::Fatal,
        E::CorruptMessage | E::MessageTooLarge | epoch_fenced!() | E::InvalidTxnState => V::Fatal,
        E::InvalidProducerIdMapping | E::InvalidTransactionTimeout | E::ConcurrentTransactions => V::Fatal,
        E::TransactionCoordinatorFenced | E::OperationNotAttempted => V::Fatal,
        E::TransactionalIdNotFound | E::InvalidRegularExpression => V::Fatal,
    }
}

/// The consequence of `code` in an InitProducerId answer.
#[must_use]
pub fn init_producer_id(_version: i16, code: ErrorCode) -> InitProducerIdVerdict {
    use ErrorCode as E;
    use InitProducerIdVerdict as V;
    match code {
        E::None => V::Granted,
        E::CoordinatorLoadInProgress | busy!() => V::Retry,
        E::ConcurrentTransactions => V::RetrySoon,
        coordinator_moved!() => V::Relookup,
        // The coordinator writes before it answers, so these may hide a bump that was stored.
        perhaps_done!() | stale_leader!() | topic_unknown!() => V::NotKnown,
        E::UnknownServerError | E::Unknown(_) => V::NotKnown,
        epoch_fenced!() => V::Fenced,
        denied!() => V::Denied,
        E::InvalidTransactionTimeout => V::TimeoutRefused,
        E::TransactionAbortable => V::Abortable,
        E::UnsupportedVersion => V::Unsupported,
        E::InvalidRequest | foreign!() | E::RebootstrapRequired => V::Fatal,
        bad_records!()
        | bad_format!()
        | bad_position!()
        | bad_sequence!()
        | session_lost!()
        | bad_topic!() => V::Fatal,
        E::CorruptMessage | E::MessageTooLarge | E::InvalidTxnState | E::InvalidProducerIdMapping => V::Fatal,
        E::TransactionCoordinatorFenced | E::OperationNotAttempted => V::Fatal,
        E::TransactionalIdNotFound | E::InvalidRegularExpression => V::Fatal,
    }
}

/// The consequence of `code` for one partition of an AddPartitionsToTxn answer.
#[must_use]
pub fn add_partition(_version: i16, code: ErrorCode) -> AddPartitionVerdict {
    use AddPartitionVerdict as V;
    use ErrorCode as E;
    match code {
        E::None => V::Added,
        E::CoordinatorLoadInProgress | busy!() => V::Retry,
        E::ConcurrentTransactions => V::RetrySoon,
        topic_unknown!() | stale_leader!() => V::RetryAfterMetadata,
        coordinator_moved!() => V::Relookup,
        perhaps_done!() | E::UnknownServerError => V::NotKnown,
        E::OperationNotAttempted => V::NotAttempted,
        E::TopicAuthorizationFailed => V::TopicDenied,
        E::TransactionalIdAuthorizationFailed | E::ClusterAuthorizationFailed => V::Denied,
        E::GroupAuthorizationFailed | E::SecurityDisabled | E::SaslAuthenticationFailed => V::Denied,
        E::TransactionAbortable | E::InvalidProducerIdMapping | bad_sequence!() => V::Abortable,
        epoch_fenced!() => V::Fenced,
        E::InvalidTxnState => V::Contradiction,
        E::UnsupportedVersion | E::InvalidRequest => V::Fatal,
        E::InvalidTopicException => V::Unacceptable,
        // Java too treats every other code of a partition as a reason to abort.
        E::Unknown(_)
        | foreign!()
        | E::RebootstrapRequired
        | bad_records!()
        | bad_format!()
        | bad_position!()
        | session_lost!() => V::Abortable,
        bad_settings!() | E::CorruptMessage | E::MessageTooLarge => V::Abortable,
        E::InvalidTransactionTimeout => V::Abortable,
        E::TransactionCoordinatorFenced => V::Abortable,
        E::TransactionalIdNotFound | E::InvalidRegularExpression => V::Abortable,
    }
}

/// The consequence of `code` in an EndTxn answer to the live producer.
///
/// A code that EndTxn is never answered with says nothing about the decision: not known.
#[must_use]
pub fn end_txn(_version: i16, code: ErrorCode) -> EndTxnVerdict {
    use EndTxnVerdict as V;
    use ErrorCode as E;
    match code {
        E::None => V::Done,
        E::ConcurrentTransactions | E::CoordinatorLoadInProgress => V::Retry,
        coordinator_moved!() => V::Relookup,
        E::TransactionAbortable => V::Abortable,
        epoch_fenced!() => V::Fenced,
        E::InvalidTxnState => V::InvalidState,
        E::InvalidProducerIdMapping | E::UnknownProducerId => V::IdentityGone,
        denied!() => V::Denied,
        E::UnsupportedVersion => V::Stuck,
        E::InvalidRequest => V::Fatal,
        E::UnknownServerError | E::Unknown(_) | foreign!() | E::RebootstrapRequired => V::NotKnown,
        perhaps_done!() | busy!() | stale_leader!() | topic_unknown!() => V::NotKnown,
        bad_records!() | bad_format!() | bad_position!() | session_lost!() | bad_topic!() => V::NotKnown,
        E::OutOfOrderSequenceNumber | E::DuplicateSequenceNumber => V::NotKnown,
        E::CorruptMessage | E::MessageTooLarge | E::InvalidTransactionTimeout => V::NotKnown,
        E::TransactionCoordinatorFenced | E::OperationNotAttempted => V::NotKnown,
        E::TransactionalIdNotFound | E::InvalidRegularExpression => V::NotKnown,
    }
}

/// The consequence of `code` in an EndTxn answer to a committer.
///
/// As [`end_txn`], but whatever says that the transaction moved on asks for evidence: it may have been committed
/// by an earlier try. `TRANSACTION_ABORTABLE` is no exception.
#[must_use]
pub fn end_txn_on_resume(version: i16, code: ErrorCode) -> ResumeVerdict {
    use ResumeVerdict as V;
    match end_txn(version, code) {
        EndTxnVerdict::Done => V::Decided,
        EndTxnVerdict::Retry if code == ErrorCode::CoordinatorLoadInProgress => V::Loading,
        EndTxnVerdict::Retry => V::Concurrent,
        EndTxnVerdict::Relookup => V::Relookup,
        EndTxnVerdict::NotKnown if cfg!(planted_bug = "unknown-is-committed") => V::Decided,
        EndTxnVerdict::NotKnown => V::NotKnown,
        EndTxnVerdict::Fenced if cfg!(planted_bug = "fenced-is-committed") => V::Decided,
        EndTxnVerdict::Abortable | EndTxnVerdict::Fenced => V::AskEvidence,
        EndTxnVerdict::InvalidState | EndTxnVerdict::IdentityGone => V::AskEvidence,
        EndTxnVerdict::Denied => V::Denied,
        EndTxnVerdict::Stuck => V::Stuck,
        EndTxnVerdict::Fatal => V::Refused,
    }
}

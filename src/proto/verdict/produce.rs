//! Produce, per partition, inside a transaction and without one.

use super::ErrorCode;

/// What a Produce answer means for one batch of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProduceVerdict {
    /// Stored; the answer carries its base offset.
    Acked,
    /// Stored before; the offset is not told.
    Duplicate,
    /// Not stored here: find the leader again, then resend the identical bytes.
    RetryAfterMetadata,
    /// Not stored, for this broker has no such topic of that id (Produce 13): ask whether the topic is still the one that was
    /// written to, and if it is resend the identical bytes.
    TopicIdUnknown,
    /// Not stored: resend the identical bytes after a back-off.
    Retry,
    /// `CONCURRENT_TRANSACTIONS`: the transaction before this one still ends; resend soon (20 ms).
    RetrySoon,
    /// It may be stored: resend the identical bytes, the sequence number tells the broker.
    MaybeStored,
    /// A gap before this batch. Resend while an earlier batch of the partition is unanswered; if none is, abort.
    OutOfOrder,
    /// The batch is too large: split it if it holds several records, otherwise abort.
    TooLarge,
    /// The broker refuses these records for what they are: abort, and tell the caller.
    Rejected,
    /// The broker takes nothing like this into this topic, whatever the records hold: abort, and tell the caller.
    Unacceptable,
    /// The right to write to this topic is missing: abort, and name the topic.
    TopicDenied,
    /// The transaction cannot commit any more: abort it.
    Abortable,
    /// A newer owner exists: nothing more can be done under this identity.
    Fenced,
    /// The right to use the transactional id, or the cluster, is missing.
    Denied,
    /// `UNSUPPORTED_VERSION` to Produce 12 and newer: the coordinator's entry is stuck until it moves.
    Stuck,
    /// The request can never be answered better.
    Fatal,
}

/// The consequence of `code` in an answer to a transactional Produce of `version`.
#[must_use]
pub fn produce(version: i16, code: ErrorCode) -> ProduceVerdict {
    use ErrorCode as E;
    use ProduceVerdict as V;
    match code {
        E::None => V::Acked,
        E::DuplicateSequenceNumber => V::Duplicate,
        stale_leader!() | E::UnknownTopicOrPartition => V::RetryAfterMetadata,
        topic_id_unknown!() => V::TopicIdUnknown,
        busy!() | E::CorruptMessage => V::Retry,
        // Before Produce 12 brokers turn the coordinator's answers into NOT_ENOUGH_REPLICAS; newer ones may not.
        coordinator_moved!() | E::CoordinatorLoadInProgress => V::Retry,
        E::ConcurrentTransactions => V::RetrySoon,
        perhaps_done!() if cfg!(planted_bug = "ack-on-timeout") => V::Acked,
        perhaps_done!() => V::MaybeStored,
        E::OutOfOrderSequenceNumber => V::OutOfOrder,
        E::MessageTooLarge => V::TooLarge,
        bad_records!() => V::Rejected,
        // An internal topic, for one: Kafka lets no client write into it. The same request is refused for ever.
        bad_format!() | E::InvalidTopicException => V::Unacceptable,
        E::TopicAuthorizationFailed => V::TopicDenied,
        // A Produce is not told the truth about fencing (KIP-588): the abort that follows is.
        E::InvalidProducerEpoch | E::InvalidTxnState | E::TransactionAbortable => V::Abortable,
        E::UnknownProducerId | E::InvalidProducerIdMapping => V::Abortable,
        E::ProducerFenced => V::Fenced,
        E::TransactionalIdAuthorizationFailed | E::ClusterAuthorizationFailed => V::Denied,
        E::GroupAuthorizationFailed | E::SecurityDisabled | E::SaslAuthenticationFailed => V::Denied,
        E::UnsupportedVersion if version >= 12 => V::Stuck,
        E::UnsupportedVersion | E::InvalidRequest => V::Fatal,
        // Whether it was stored is not known, and nobody can ask again: only an abort is safe.
        E::UnknownServerError | E::Unknown(_) | foreign!() | E::RebootstrapRequired => V::Abortable,
        bad_position!() | session_lost!() | bad_settings!() => V::Abortable,
        E::InvalidTransactionTimeout | E::TransactionCoordinatorFenced => V::Abortable,
        E::OperationNotAttempted | E::TransactionalIdNotFound | E::InvalidRegularExpression => V::Abortable,
    }
}

/// What a Produce answer means for one batch of an idempotent producer without transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IdempotentVerdict {
    /// Stored; the answer carries its base offset.
    Acked,
    /// Stored before; the offset is not told.
    Duplicate,
    /// Find the leader again, then resend the identical bytes. It may be stored: a leader that ceases to be one says the
    /// same of what it has appended already.
    RetryAfterMetadata,
    /// Not stored, for this broker has no such topic of that id (Produce 13): ask whether the topic is still the one that was
    /// written to, and if it is resend the identical bytes.
    TopicIdUnknown,
    /// Not stored: resend the identical bytes after a back-off.
    Retry,
    /// It may be stored: resend the identical bytes, the sequence number tells the broker.
    MaybeStored,
    /// A gap before this batch, or a producer of which the broker knows nothing.
    OutOfOrder,
    /// The batch is too large: split it if it holds several records.
    TooLarge,
    /// The broker refuses these records for what they are.
    Rejected,
    /// The broker takes nothing like this into this topic, whatever the records hold.
    Unacceptable,
    /// A right is missing.
    Denied,
    /// The producer id has a transaction open, which belongs to nobody that we know.
    InvalidState,
    /// The broker knows a newer epoch, or nothing of the producer id: go on under another one.
    IdentityGone,
    /// The request can never be answered better.
    Fatal,
    /// Whether it was stored is not said.
    Unclear,
}

/// The consequence of `code` in an answer to a Produce without a transactional id, of any version.
#[must_use]
pub fn produce_idempotent(code: ErrorCode) -> IdempotentVerdict {
    use ErrorCode as E;
    use IdempotentVerdict as V;
    match code {
        E::None => V::Acked,
        E::DuplicateSequenceNumber => V::Duplicate,
        stale_leader!() | E::UnknownTopicOrPartition => V::RetryAfterMetadata,
        topic_id_unknown!() => V::TopicIdUnknown,
        busy!() | E::CorruptMessage => V::Retry,
        coordinator_moved!() | E::CoordinatorLoadInProgress | E::ConcurrentTransactions => V::Retry,
        perhaps_done!() => V::MaybeStored,
        E::OutOfOrderSequenceNumber | E::UnknownProducerId => V::OutOfOrder,
        E::MessageTooLarge => V::TooLarge,
        bad_records!() => V::Rejected,
        bad_format!() | E::InvalidTopicException => V::Unacceptable,
        denied!() => V::Denied,
        E::InvalidTxnState | E::TransactionAbortable => V::InvalidState,
        epoch_fenced!() | E::InvalidProducerIdMapping => V::IdentityGone,
        E::UnsupportedVersion | E::InvalidRequest => V::Fatal,
        E::UnknownServerError | E::Unknown(_) | foreign!() | E::RebootstrapRequired => V::Unclear,
        bad_position!() | session_lost!() | bad_settings!() => V::Unclear,
        E::InvalidTransactionTimeout | E::TransactionCoordinatorFenced => V::Unclear,
        E::OperationNotAttempted | E::TransactionalIdNotFound | E::InvalidRegularExpression => V::Unclear,
    }
}

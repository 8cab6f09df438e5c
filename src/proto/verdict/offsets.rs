//! Offsets of a group inside a transaction: AddOffsetsToTxn, TxnOffsetCommit; and OffsetFetch.

use super::ErrorCode;

/// What an AddOffsetsToTxn answer means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AddOffsetsVerdict {
    /// The group's partition of `__consumer_offsets` belongs to the transaction now.
    Added,
    /// Not added; back off, again.
    Retry,
    /// `CONCURRENT_TRANSACTIONS`: the transaction before this one still ends; again soon.
    RetrySoon,
    /// Look the transaction coordinator up, again.
    Relookup,
    /// Not known whether it was added; again.
    NotKnown,
    /// READ on the group is missing: abort, and name the group.
    GroupDenied,
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

/// What a TxnOffsetCommit answer means for one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TxnOffsetCommitVerdict {
    /// The offset counts when the transaction commits.
    Stored,
    /// Back off, again. Whether it was stored does not matter: the same offset again changes nothing.
    Retry,
    /// `CONCURRENT_TRANSACTIONS`: the transaction before this one still ends; again soon.
    RetrySoon,
    /// Look the group coordinator up, again.
    Relookup,
    /// The member is none any more, or of an older generation: abort, for its partitions are read by others.
    GroupMoved,
    /// READ on the group is missing: abort, and name the group.
    GroupDenied,
    /// READ on the topic is missing: abort, and name the topic.
    TopicDenied,
    /// The right to the transactional id is missing.
    Denied,
    /// The broker does not keep such an offset: abort.
    Unacceptable,
    /// The transaction cannot commit any more: abort it.
    Abortable,
    /// A newer owner of the transactional id exists.
    Fenced,
    /// `UNSUPPORTED_VERSION` to version 5 and newer: the coordinator's entry is stuck until it moves.
    Stuck,
    /// The request can never be answered better.
    Fatal,
}

/// What an OffsetFetch answer means, for the group or for one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OffsetFetchVerdict {
    /// The answer tells the offset, or that there is none.
    Told,
    /// Back off, again; so also while a transaction holds an offset back (`UNSTABLE_OFFSET_COMMIT`).
    Retry,
    /// Look the group coordinator up, again.
    Relookup,
    /// DESCRIBE on the group or the topic is missing.
    Denied,
    /// The request can never be answered better.
    Failed,
}

/// The consequence of `code` in an AddOffsetsToTxn answer.
#[must_use]
pub fn add_offsets(_version: i16, code: ErrorCode) -> AddOffsetsVerdict {
    use AddOffsetsVerdict as V;
    use ErrorCode as E;
    match code {
        E::None => V::Added,
        E::CoordinatorLoadInProgress | busy!() => V::Retry,
        E::ConcurrentTransactions => V::RetrySoon,
        coordinator_moved!() => V::Relookup,
        perhaps_done!() | stale_leader!() | topic_unknown!() | E::UnknownServerError => V::NotKnown,
        E::GroupAuthorizationFailed => V::GroupDenied,
        E::TransactionalIdAuthorizationFailed | E::ClusterAuthorizationFailed => V::Denied,
        E::TopicAuthorizationFailed | E::SecurityDisabled | E::SaslAuthenticationFailed => V::Denied,
        E::TransactionAbortable | E::InvalidProducerIdMapping | bad_sequence!() => V::Abortable,
        epoch_fenced!() => V::Fenced,
        E::InvalidTxnState => V::Contradiction,
        E::UnsupportedVersion | E::InvalidRequest => V::Fatal,
        E::Unknown(_) | foreign!() | E::RebootstrapRequired | bad_records!() | bad_format!() => V::Abortable,
        bad_position!() | session_lost!() | bad_topic!() => V::Abortable,
        E::CorruptMessage | E::MessageTooLarge | E::InvalidTransactionTimeout => V::Abortable,
        E::TransactionCoordinatorFenced | E::OperationNotAttempted => V::Abortable,
        E::TransactionalIdNotFound | E::InvalidRegularExpression => V::Abortable,
    }
}

/// The consequence of `code` for one partition of an answer to TxnOffsetCommit of `version`.
#[must_use]
pub fn txn_offset_commit(version: i16, code: ErrorCode) -> TxnOffsetCommitVerdict {
    use ErrorCode as E;
    use TxnOffsetCommitVerdict as V;
    match code {
        E::None => V::Stored,
        E::CoordinatorLoadInProgress | topic_unknown!() | stale_leader!() => V::Retry,
        busy!() | E::NetworkException | E::NotEnoughReplicasAfterAppend | E::UnknownServerError => V::Retry,
        E::ConcurrentTransactions => V::RetrySoon,
        // As in Java: a coordinator that can't write in time may be about to move.
        coordinator_moved!() | E::RequestTimedOut => V::Relookup,
        group_moved!() => V::GroupMoved,
        E::GroupAuthorizationFailed => V::GroupDenied,
        E::TopicAuthorizationFailed => V::TopicDenied,
        E::TransactionalIdAuthorizationFailed | E::ClusterAuthorizationFailed => V::Denied,
        E::SecurityDisabled | E::SaslAuthenticationFailed => V::Denied,
        bad_offsets!() | E::InvalidTopicException | bad_format!() => V::Unacceptable,
        epoch_fenced!() => V::Fenced,
        E::TransactionAbortable | E::InvalidTxnState | E::InvalidProducerIdMapping => V::Abortable,
        bad_sequence!() | E::UnstableOffsetCommit => V::Abortable,
        E::UnsupportedVersion if version >= 5 => V::Stuck,
        E::UnsupportedVersion | E::InvalidRequest => V::Fatal,
        E::Unknown(_) | strange!() | E::RebootstrapRequired | bad_records!() => V::Abortable,
        bad_position!() | session_lost!() | bad_settings!() => V::Abortable,
        E::CorruptMessage | E::MessageTooLarge | E::InvalidTransactionTimeout => V::Abortable,
        E::TransactionCoordinatorFenced | E::OperationNotAttempted => V::Abortable,
        E::TransactionalIdNotFound | E::InvalidRegularExpression => V::Abortable,
    }
}

/// The consequence of `code` in an OffsetFetch answer.
#[must_use]
pub fn offset_fetch(_version: i16, code: ErrorCode) -> OffsetFetchVerdict {
    use ErrorCode as E;
    use OffsetFetchVerdict as V;
    match code {
        E::None => V::Told,
        E::UnstableOffsetCommit | E::CoordinatorLoadInProgress | busy!() | perhaps_done!() => V::Retry,
        stale_leader!() | E::UnknownServerError | E::ConcurrentTransactions => V::Retry,
        coordinator_moved!() => V::Relookup,
        denied!() => V::Denied,
        topic_unknown!() | group_moved!() | bad_offsets!() | strange!() | E::Unknown(_) => V::Failed,
        E::UnsupportedVersion | E::InvalidRequest | E::RebootstrapRequired => V::Failed,
        bad_records!() | bad_format!() | bad_position!() | bad_sequence!() | session_lost!() => V::Failed,
        bad_topic!() | E::CorruptMessage | E::MessageTooLarge | epoch_fenced!() => V::Failed,
        E::InvalidTxnState | E::InvalidProducerIdMapping | E::InvalidTransactionTimeout => V::Failed,
        E::TransactionCoordinatorFenced | E::OperationNotAttempted | E::TransactionAbortable => V::Failed,
        E::TransactionalIdNotFound | E::InvalidRegularExpression => V::Failed,
    }
}

//! Looking at transactions, and writing markers by hand: the requests behind evidence, recovery and repair.

use super::ErrorCode;

/// What a DescribeTransactions answer means for one id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DescribeTransactionsVerdict {
    /// The answer describes the id.
    Described,
    /// The coordinator has no entry for the id: never used, or expired.
    NotFound,
    /// Look the coordinator up, ask again.
    Relookup,
    /// Ask again after a back-off.
    Retry,
    /// DESCRIBE on the transactional id is missing.
    Denied,
    /// The broker cannot answer this request (before 3.0).
    Unsupported,
    /// Nothing that a retry would change.
    Failed,
}

/// What a ListTransactions answer of one broker means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ListTransactionsVerdict {
    /// The answer lists what this broker coordinates and we may describe.
    Listed,
    /// The broker still loads a part of its ids: ask again after a back-off.
    Retry,
    /// The pattern is not valid RE2.
    BadPattern,
    /// The right is missing.
    Denied,
    /// The broker cannot answer this request (before 3.0), or not this version.
    Unsupported,
    /// Nothing that a retry would change.
    Failed,
}

/// What a DescribeProducers answer means for one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DescribeProducersVerdict {
    /// The answer lists the partition's producers.
    Described,
    /// Find the leader again, then ask again.
    RetryAfterMetadata,
    /// Ask again after a back-off.
    Retry,
    /// READ on the topic is missing.
    Denied,
    /// The broker cannot answer this request (before 2.8).
    Unsupported,
    /// Nothing that a retry would change.
    Failed,
}

/// What a WriteTxnMarkers answer means for one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WriteMarkerVerdict {
    /// The marker is in the log.
    Written,
    /// Find the leader again, then send the same marker again.
    RetryAfterMetadata,
    /// Not known whether it was written; the same marker again does no harm.
    Retry,
    /// The coordinator epoch is older than one that the partition has seen: describe the partition again.
    CoordinatorFenced,
    /// The marker's producer epoch does not fit the partition's producer: describe the partition again.
    EpochRefused,
    /// Neither CLUSTER_ACTION nor ALTER on the cluster.
    Denied,
    /// The broker does not know this version (2 exists from 4.2 on).
    Unsupported,
    /// Nothing that a retry would change.
    Failed,
}

/// The consequence of `code` for one id of a DescribeTransactions answer.
#[must_use]
pub fn describe_transactions(_version: i16, code: ErrorCode) -> DescribeTransactionsVerdict {
    use DescribeTransactionsVerdict as V;
    use ErrorCode as E;
    match code {
        E::None => V::Described,
        E::TransactionalIdNotFound => V::NotFound,
        coordinator_moved!() => V::Relookup,
        E::CoordinatorLoadInProgress | E::ConcurrentTransactions => V::Retry,
        busy!() | perhaps_done!() | stale_leader!() | topic_unknown!() | E::UnknownServerError => V::Retry,
        denied!() => V::Denied,
        E::UnsupportedVersion => V::Unsupported,
        E::Unknown(_)
        | foreign!()
        | E::RebootstrapRequired
        | bad_records!()
        | bad_format!()
        | bad_position!()
        | bad_sequence!() => V::Failed,
        session_lost!() | bad_topic!() | E::CorruptMessage | E::MessageTooLarge | E::InvalidRequest => {
            V::Failed
        }
        epoch_fenced!() | E::InvalidTxnState | E::InvalidProducerIdMapping => V::Failed,
        E::InvalidTransactionTimeout | E::TransactionCoordinatorFenced | E::OperationNotAttempted => {
            V::Failed
        }
        E::TransactionAbortable | E::InvalidRegularExpression => V::Failed,
    }
}

/// The consequence of `code` in a ListTransactions answer.
#[must_use]
pub fn list_transactions(_version: i16, code: ErrorCode) -> ListTransactionsVerdict {
    use ErrorCode as E;
    use ListTransactionsVerdict as V;
    match code {
        E::None => V::Listed,
        coordinator_moved!() | E::CoordinatorLoadInProgress => V::Retry,
        busy!() | perhaps_done!() | stale_leader!() | E::UnknownServerError => V::Retry,
        E::InvalidRegularExpression => V::BadPattern,
        denied!() => V::Denied,
        E::UnsupportedVersion => V::Unsupported,
        E::Unknown(_)
        | foreign!()
        | E::RebootstrapRequired
        | bad_records!()
        | bad_format!()
        | bad_position!()
        | bad_sequence!() => V::Failed,
        session_lost!() | bad_topic!() | topic_unknown!() | E::CorruptMessage | E::MessageTooLarge => {
            V::Failed
        }
        epoch_fenced!() | E::InvalidTxnState | E::InvalidProducerIdMapping | E::InvalidRequest => V::Failed,
        E::InvalidTransactionTimeout | E::TransactionCoordinatorFenced | E::OperationNotAttempted => {
            V::Failed
        }
        E::ConcurrentTransactions | E::TransactionalIdNotFound | E::TransactionAbortable => V::Failed,
    }
}

/// The consequence of `code` for one partition of a DescribeProducers answer.
#[must_use]
pub fn describe_producers(_version: i16, code: ErrorCode) -> DescribeProducersVerdict {
    use DescribeProducersVerdict as V;
    use ErrorCode as E;
    match code {
        E::None => V::Described,
        stale_leader!() | topic_unknown!() => V::RetryAfterMetadata,
        busy!() | perhaps_done!() | E::UnknownServerError => V::Retry,
        denied!() => V::Denied,
        E::UnsupportedVersion => V::Unsupported,
        coordinator_moved!() | E::CoordinatorLoadInProgress | E::ConcurrentTransactions => V::Failed,
        E::Unknown(_)
        | foreign!()
        | E::RebootstrapRequired
        | bad_records!()
        | bad_format!()
        | bad_position!()
        | bad_sequence!() => V::Failed,
        session_lost!() | bad_topic!() | E::CorruptMessage | E::MessageTooLarge | E::InvalidRequest => {
            V::Failed
        }
        epoch_fenced!() | E::InvalidTxnState | E::InvalidProducerIdMapping => V::Failed,
        E::InvalidTransactionTimeout | E::TransactionCoordinatorFenced | E::OperationNotAttempted => {
            V::Failed
        }
        E::TransactionalIdNotFound | E::TransactionAbortable | E::InvalidRegularExpression => V::Failed,
    }
}

/// The consequence of `code` for one partition of a WriteTxnMarkers answer.
#[must_use]
pub fn write_marker(_version: i16, code: ErrorCode) -> WriteMarkerVerdict {
    use ErrorCode as E;
    use WriteMarkerVerdict as V;
    match code {
        E::None => V::Written,
        stale_leader!() | topic_unknown!() => V::RetryAfterMetadata,
        busy!() | perhaps_done!() | E::UnknownServerError | E::CorruptMessage => V::Retry,
        coordinator_moved!() | E::CoordinatorLoadInProgress => V::Retry,
        E::TransactionCoordinatorFenced => V::CoordinatorFenced,
        epoch_fenced!() | E::InvalidTxnState | E::InvalidProducerIdMapping => V::EpochRefused,
        denied!() => V::Denied,
        E::UnsupportedVersion => V::Unsupported,
        E::Unknown(_)
        | foreign!()
        | E::RebootstrapRequired
        | bad_records!()
        | bad_format!()
        | bad_position!()
        | bad_sequence!() => V::Failed,
        session_lost!() | bad_topic!() | E::MessageTooLarge | E::InvalidRequest => V::Failed,
        E::InvalidTransactionTimeout | E::OperationNotAttempted | E::ConcurrentTransactions => V::Failed,
        E::TransactionalIdNotFound | E::TransactionAbortable | E::InvalidRegularExpression => V::Failed,
    }
}

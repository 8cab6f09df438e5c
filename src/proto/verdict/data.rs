//! Reading, and topics: Fetch, ListOffsets, Metadata, CreateTopics.

use super::ErrorCode;

/// What a Fetch answer means for one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FetchVerdict {
    /// The answer carries what there is.
    Read,
    /// Find the leader again, then ask again. A topic id that the leader does not know ends here too: the metadata
    /// tells whether the topic was created anew.
    RetryAfterMetadata,
    /// Ask again after a back-off.
    Retry,
    /// The position is not in the log. All offsets in this answer are -1 and must not be compared.
    OutOfRange,
    /// The fetch session is not known: ask with a full request.
    SessionLost,
    /// READ on the topic is missing.
    Denied,
    /// Nothing that a retry would change.
    Failed,
}

/// What a ListOffsets answer means for one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ListOffsetsVerdict {
    /// The answer carries the offset.
    Known,
    /// Find the leader again, then ask again.
    RetryAfterMetadata,
    /// Ask again after a back-off.
    Retry,
    /// DESCRIBE on the topic is missing.
    Denied,
    /// Nothing that a retry would change.
    Failed,
}

/// What a Metadata answer means for one topic or one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MetadataVerdict {
    /// Described.
    Known,
    /// The partition has no leader now.
    Leaderless,
    /// No such topic, as far as this broker knows.
    Missing,
    /// Ask again after a back-off.
    Retry,
    /// DESCRIBE on the topic is missing; brokers hide missing topics behind it.
    Denied,
    /// The name is not a valid topic name.
    InvalidName,
    /// The client must start again from its bootstrap addresses (KIP-1102).
    Rebootstrap,
    /// Nothing that a retry would change.
    Failed,
}

/// What a CreateTopics answer means for one topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CreateTopicVerdict {
    /// Created.
    Created,
    /// It was there before.
    Exists,
    /// Not the controller, or busy: ask again after a back-off.
    Retry,
    /// Not known whether it was created: ask again, and take "exists" for success.
    NotKnown,
    /// CREATE is missing.
    Denied,
    /// The broker refuses these settings or this name.
    Refused,
    /// Nothing that a retry would change.
    Failed,
}

/// The consequence of `code` for one partition of a Fetch answer.
#[must_use]
pub fn fetch(_version: i16, code: ErrorCode) -> FetchVerdict {
    use ErrorCode as E;
    use FetchVerdict as V;
    match code {
        E::None => V::Read,
        stale_leader!() | topic_unknown!() => V::RetryAfterMetadata,
        busy!() | perhaps_done!() | E::UnknownServerError => V::Retry,
        E::OffsetNotAvailable => V::Retry,
        E::OffsetOutOfRange | E::OffsetMovedToTieredStorage => V::OutOfRange,
        session_lost!() => V::SessionLost,
        denied!() => V::Denied,
        coordinator_moved!() | E::CoordinatorLoadInProgress | E::ConcurrentTransactions => V::Failed,
        E::Unknown(_)
        | foreign!()
        | E::RebootstrapRequired
        | bad_records!()
        | bad_format!()
        | bad_sequence!()
        | bad_topic!() => V::Failed,
        E::CorruptMessage | E::MessageTooLarge | E::UnsupportedVersion | E::InvalidRequest => V::Failed,
        epoch_fenced!() | E::InvalidTxnState | E::InvalidProducerIdMapping => V::Failed,
        E::InvalidTransactionTimeout | E::TransactionCoordinatorFenced | E::OperationNotAttempted => {
            V::Failed
        }
        E::TransactionalIdNotFound | E::TransactionAbortable | E::InvalidRegularExpression => V::Failed,
    }
}

/// The consequence of `code` for one partition of a ListOffsets answer.
#[must_use]
pub fn list_offsets(_version: i16, code: ErrorCode) -> ListOffsetsVerdict {
    use ErrorCode as E;
    use ListOffsetsVerdict as V;
    match code {
        E::None => V::Known,
        stale_leader!() | topic_unknown!() => V::RetryAfterMetadata,
        busy!() | perhaps_done!() | E::UnknownServerError | E::OffsetNotAvailable => V::Retry,
        denied!() => V::Denied,
        E::OffsetOutOfRange | E::OffsetMovedToTieredStorage | session_lost!() => V::Failed,
        coordinator_moved!() | E::CoordinatorLoadInProgress | E::ConcurrentTransactions => V::Failed,
        E::Unknown(_)
        | foreign!()
        | E::RebootstrapRequired
        | bad_records!()
        | bad_format!()
        | bad_sequence!()
        | bad_topic!() => V::Failed,
        E::CorruptMessage | E::MessageTooLarge | E::UnsupportedVersion | E::InvalidRequest => V::Failed,
        epoch_fenced!() | E::InvalidTxnState | E::InvalidProducerIdMapping => V::Failed,
        E::InvalidTransactionTimeout | E::TransactionCoordinatorFenced | E::OperationNotAttempted => {
            V::Failed
        }
        E::TransactionalIdNotFound | E::TransactionAbortable | E::InvalidRegularExpression => V::Failed,
    }
}

/// The consequence of `code` for one topic or partition of a Metadata answer, or of its top-level code.
#[must_use]
pub fn metadata(_version: i16, code: ErrorCode) -> MetadataVerdict {
    use ErrorCode as E;
    use MetadataVerdict as V;
    match code {
        // The leader is known; only one of its replicas is not, or it does not listen where we came in.
        E::None | E::ReplicaNotAvailable => V::Known,
        E::LeaderNotAvailable | E::ListenerNotFound | E::PreferredLeaderNotAvailable => V::Leaderless,
        E::EligibleLeadersNotAvailable => V::Leaderless,
        topic_unknown!() => V::Missing,
        E::NotLeaderOrFollower | E::KafkaStorageError | E::FencedLeaderEpoch | E::UnknownLeaderEpoch => {
            V::Retry
        }
        E::NewLeaderElected | E::LogDirNotFound | E::IneligibleReplica => V::Retry,
        busy!() | perhaps_done!() | E::UnknownServerError | E::NotController => V::Retry,
        coordinator_moved!() | E::CoordinatorLoadInProgress => V::Retry,
        denied!() => V::Denied,
        E::InvalidTopicException => V::InvalidName,
        E::RebootstrapRequired => V::Rebootstrap,
        E::Unknown(_) | foreign!() => V::Failed,
        bad_records!() | bad_format!() | bad_position!() | bad_sequence!() | session_lost!() => V::Failed,
        E::TopicAlreadyExists | E::InvalidPartitions | E::InvalidReplicationFactor => V::Failed,
        E::InvalidReplicaAssignment | E::InvalidConfig | E::ConcurrentTransactions => V::Failed,
        E::CorruptMessage | E::MessageTooLarge | E::UnsupportedVersion | E::InvalidRequest => V::Failed,
        epoch_fenced!() | E::InvalidTxnState | E::InvalidProducerIdMapping => V::Failed,
        E::InvalidTransactionTimeout | E::TransactionCoordinatorFenced | E::OperationNotAttempted => {
            V::Failed
        }
        E::TransactionalIdNotFound | E::TransactionAbortable | E::InvalidRegularExpression => V::Failed,
    }
}

/// The consequence of `code` for one topic of a CreateTopics answer.
#[must_use]
pub fn create_topic(_version: i16, code: ErrorCode) -> CreateTopicVerdict {
    use CreateTopicVerdict as V;
    use ErrorCode as E;
    match code {
        E::None => V::Created,
        E::TopicAlreadyExists => V::Exists,
        E::NotController | busy!() => V::Retry,
        perhaps_done!() | E::UnknownServerError => V::NotKnown,
        denied!() => V::Denied,
        E::InvalidTopicException | E::InvalidPartitions | E::InvalidReplicationFactor => V::Refused,
        E::InvalidReplicaAssignment | E::InvalidConfig | E::PolicyViolation => V::Refused,
        E::InvalidRequest | E::UnsupportedVersion => V::Refused,
        stale_leader!() | topic_unknown!() | coordinator_moved!() | E::CoordinatorLoadInProgress => V::Failed,
        E::Unknown(_)
        | foreign!()
        | E::RebootstrapRequired
        | bad_position!()
        | bad_sequence!()
        | session_lost!() => V::Failed,
        E::RecordListTooLarge | E::InvalidRequiredAcks | E::InvalidTimestamp => V::Failed,
        E::UnsupportedForMessageFormat | E::UnsupportedCompressionType | E::InvalidRecord => V::Failed,
        E::CorruptMessage | E::MessageTooLarge | E::ConcurrentTransactions => V::Failed,
        epoch_fenced!() | E::InvalidTxnState | E::InvalidProducerIdMapping => V::Failed,
        E::InvalidTransactionTimeout | E::TransactionCoordinatorFenced | E::OperationNotAttempted => {
            V::Failed
        }
        E::TransactionalIdNotFound | E::TransactionAbortable | E::InvalidRegularExpression => V::Failed,
    }
}

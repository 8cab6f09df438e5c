//! Error codes that mean the same to several requests, as pattern macros. They only shorten the tables: together
//! with the codes that a table names they must cover [`ErrorCode`](crate::wire::code::ErrorCode) exactly once,
//! which the compiler checks.

/// The leader that was asked is not the leader, or cannot serve the partition now.
#[rustfmt::skip]
macro_rules! stale_leader {
    () => {
        E::LeaderNotAvailable | E::NotLeaderOrFollower | E::ReplicaNotAvailable | E::KafkaStorageError
            | E::ListenerNotFound | E::FencedLeaderEpoch | E::UnknownLeaderEpoch | E::PreferredLeaderNotAvailable
            | E::EligibleLeadersNotAvailable | E::NewLeaderElected | E::LogDirNotFound | E::IneligibleReplica
    };
}

/// No topic has this id, or one of another name has, as far as this broker knows.
#[rustfmt::skip]
macro_rules! topic_id_unknown {
    () => { E::UnknownTopicId | E::InconsistentTopicId };
}

/// The topic or partition is not there, as far as this broker knows.
#[rustfmt::skip]
macro_rules! topic_unknown {
    () => { E::UnknownTopicOrPartition | topic_id_unknown!() };
}

/// The broker is slow, or wants to be asked later. Nothing was stored.
#[rustfmt::skip]
macro_rules! busy {
    () => { E::BrokerNotAvailable | E::NotEnoughReplicas | E::ThrottlingQuotaExceeded };
}

/// The broker gave up waiting; what was asked may have been done.
#[rustfmt::skip]
macro_rules! perhaps_done {
    () => { E::RequestTimedOut | E::NetworkException | E::NotEnoughReplicasAfterAppend };
}

/// This node does not coordinate that id (now).
#[rustfmt::skip]
macro_rules! coordinator_moved {
    () => { E::CoordinatorNotAvailable | E::NotCoordinator };
}

/// A newer owner of the identity exists. `INVALID_PRODUCER_EPOCH` is what older versions say for it.
#[rustfmt::skip]
macro_rules! epoch_fenced {
    () => { E::InvalidProducerEpoch | E::ProducerFenced };
}

/// The records themselves are at fault.
#[rustfmt::skip]
macro_rules! bad_records {
    () => { E::RecordListTooLarge | E::InvalidTimestamp | E::PolicyViolation | E::InvalidRecord };
}

/// Not the records are at fault but how they are sent, whatever they hold.
#[rustfmt::skip]
macro_rules! bad_format {
    () => { E::InvalidRequiredAcks | E::UnsupportedForMessageFormat | E::UnsupportedCompressionType };
}

/// The position that was asked for cannot be served.
#[rustfmt::skip]
macro_rules! bad_position {
    () => { E::OffsetOutOfRange | E::OffsetNotAvailable | E::OffsetMovedToTieredStorage };
}

/// The sequence numbers of a producer do not fit.
#[rustfmt::skip]
macro_rules! bad_sequence {
    () => { E::OutOfOrderSequenceNumber | E::DuplicateSequenceNumber | E::UnknownProducerId };
}

/// The fetch session is not known.
#[rustfmt::skip]
macro_rules! session_lost {
    () => { E::FetchSessionIdNotFound | E::InvalidFetchSessionEpoch | E::FetchSessionTopicIdError };
}

/// A topic cannot be created like this.
#[rustfmt::skip]
macro_rules! bad_settings {
    () => {
        E::TopicAlreadyExists | E::InvalidPartitions | E::InvalidReplicationFactor | E::InvalidReplicaAssignment
            | E::InvalidConfig | E::NotController
    };
}

/// A topic cannot be created, named or written like this.
#[rustfmt::skip]
macro_rules! bad_topic {
    () => { E::InvalidTopicException | bad_settings!() };
}

/// The right is missing, or nobody is logged in.
#[rustfmt::skip]
macro_rules! denied {
    () => {
        E::TopicAuthorizationFailed | E::GroupAuthorizationFailed | E::ClusterAuthorizationFailed
            | E::TransactionalIdAuthorizationFailed | E::SecurityDisabled | E::SaslAuthenticationFailed
    };
}

/// The member of a group that offsets belong to is none any more, or in an older generation.
#[rustfmt::skip]
macro_rules! group_moved {
    () => {
        E::IllegalGeneration | E::UnknownMemberId | E::FencedInstanceId | E::RebalanceInProgress | E::GroupIdNotFound
            | E::StaleMemberEpoch | E::FencedMemberEpoch | E::UnreleasedInstanceId
    };
}

/// The offsets of a group cannot be kept like this.
#[rustfmt::skip]
macro_rules! bad_offsets {
    () => { E::OffsetMetadataTooLarge | E::InvalidCommitOffsetSize | E::InvalidGroupId };
}

/// Codes about groups: only requests about a group's offsets are answered with them.
#[rustfmt::skip]
macro_rules! about_groups {
    () => { group_moved!() | bad_offsets!() | E::UnstableOffsetCommit };
}

/// Codes that none of our requests is answered with, but those about a group's offsets: they belong to groups, shares,
/// streams, tokens, quorums and brokers among themselves.
#[rustfmt::skip]
macro_rules! foreign {
    () => { about_groups!() | strange!() };
}

/// Codes that none of our requests is answered with.
#[rustfmt::skip]
macro_rules! strange {
    () => {
        E::InvalidFetchSize | E::StaleControllerEpoch
            | E::InconsistentGroupProtocol | E::InvalidSessionTimeout
            | E::UnsupportedSaslMechanism | E::IllegalSaslState
            | E::ReassignmentInProgress | E::DelegationTokenAuthDisabled | E::DelegationTokenNotFound
            | E::DelegationTokenOwnerMismatch | E::DelegationTokenRequestNotAllowed
            | E::DelegationTokenAuthorizationFailed | E::DelegationTokenExpired | E::InvalidPrincipalType
            | E::NonEmptyGroup | E::TopicDeletionDisabled | E::StaleBrokerEpoch
            | E::MemberIdRequired | E::GroupMaxSizeReached | E::ElectionNotNeeded
            | E::NoReassignmentInProgress | E::GroupSubscribedToTopic
            | E::ResourceNotFound | E::DuplicateResource | E::UnacceptableCredential | E::InconsistentVoterSet
            | E::InvalidUpdateVersion | E::FeatureUpdateFailed | E::PrincipalDeserializationFailure
            | E::SnapshotNotFound | E::PositionOutOfRange | E::DuplicateBrokerRegistration
            | E::BrokerIdNotRegistered | E::InconsistentClusterId
            | E::UnsupportedAssignor | E::MismatchedEndpointType
            | E::UnsupportedEndpointType | E::UnknownControllerId | E::UnknownSubscriptionId
            | E::TelemetryTooLarge | E::InvalidRegistration | E::InvalidRecordState | E::ShareSessionNotFound
            | E::InvalidShareSessionEpoch | E::FencedStateEpoch | E::InvalidVoterKey | E::DuplicateVoter
            | E::VoterNotFound | E::StreamsInvalidTopology
            | E::StreamsInvalidTopologyEpoch | E::StreamsTopologyFenced | E::ShareSessionLimitReached
            | E::GroupDeletionFailed | E::StreamsTopologyDescriptionUpdateFailed | E::ControllerIdNotRegistered
    };
}

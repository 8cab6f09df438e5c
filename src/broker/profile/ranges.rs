//! The versions that real brokers advertise, as 4.4.0, 3.9.2 and 3.5.2 were asked, cut to the APIs and versions that
//! this broker speaks.
//!
//! Cut off: of 4.4, TxnOffsetCommit 6, ListOffsets 11, OffsetCommit 10 and OffsetFetch 10; of 3.x, the lowest versions
//! of eight APIs, which Kafka 4.0 removed.

use crate::wire::api::Api;

/// API, lowest and highest version.
pub(super) type Ranges = &'static [(Api, i16, i16)];

/// Produce 0 to 2 are advertised and refused, as the original does it (KAFKA-18659).
pub(super) const KAFKA_4_4: Ranges = &[
    (Api::Produce, 0, 13),
    (Api::Fetch, 4, 18),
    (Api::ListOffsets, 1, 10),
    (Api::Metadata, 0, 13),
    (Api::OffsetCommit, 2, 9),
    (Api::OffsetFetch, 1, 9),
    (Api::FindCoordinator, 0, 6),
    (Api::JoinGroup, 0, 9),
    (Api::Heartbeat, 0, 4),
    (Api::LeaveGroup, 0, 5),
    (Api::SyncGroup, 0, 5),
    (Api::ApiVersions, 0, 5),
    (Api::CreateTopics, 2, 7),
    (Api::DeleteTopics, 1, 6),
    (Api::DeleteRecords, 0, 2),
    (Api::InitProducerId, 0, 5),
    (Api::AddPartitionsToTxn, 0, 5),
    (Api::AddOffsetsToTxn, 0, 4),
    (Api::EndTxn, 0, 5),
    (Api::WriteTxnMarkers, 1, 2),
    (Api::TxnOffsetCommit, 0, 5),
    (Api::DescribeConfigs, 1, 4),
    (Api::DescribeCluster, 0, 2),
    (Api::DescribeProducers, 0, 0),
    (Api::DescribeTransactions, 0, 0),
    (Api::ListTransactions, 0, 2),
];

pub(super) const KAFKA_3_9: Ranges = &[
    (Api::Produce, 3, 11),
    (Api::Fetch, 4, 17),
    (Api::ListOffsets, 1, 9),
    (Api::Metadata, 0, 12),
    (Api::OffsetCommit, 2, 9),
    (Api::OffsetFetch, 1, 9),
    (Api::FindCoordinator, 0, 6),
    (Api::JoinGroup, 0, 9),
    (Api::Heartbeat, 0, 4),
    (Api::LeaveGroup, 0, 5),
    (Api::SyncGroup, 0, 5),
    (Api::ApiVersions, 0, 4),
    (Api::CreateTopics, 2, 7),
    (Api::DeleteTopics, 1, 6),
    (Api::DeleteRecords, 0, 2),
    (Api::InitProducerId, 0, 5),
    (Api::AddPartitionsToTxn, 0, 5),
    (Api::AddOffsetsToTxn, 0, 4),
    (Api::EndTxn, 0, 4),
    (Api::WriteTxnMarkers, 1, 1),
    (Api::TxnOffsetCommit, 0, 4),
    (Api::DescribeConfigs, 1, 4),
    (Api::DescribeCluster, 0, 1),
    (Api::DescribeProducers, 0, 0),
    (Api::DescribeTransactions, 0, 0),
    (Api::ListTransactions, 0, 1),
];

pub(super) const KAFKA_3_5: Ranges = &[
    (Api::Produce, 3, 9),
    (Api::Fetch, 4, 15),
    (Api::ListOffsets, 1, 8),
    (Api::Metadata, 0, 12),
    (Api::OffsetCommit, 2, 8),
    (Api::OffsetFetch, 1, 8),
    (Api::FindCoordinator, 0, 4),
    (Api::JoinGroup, 0, 9),
    (Api::Heartbeat, 0, 4),
    (Api::LeaveGroup, 0, 5),
    (Api::SyncGroup, 0, 5),
    (Api::ApiVersions, 0, 3),
    (Api::CreateTopics, 2, 7),
    (Api::DeleteTopics, 1, 6),
    (Api::DeleteRecords, 0, 2),
    (Api::InitProducerId, 0, 4),
    (Api::AddPartitionsToTxn, 0, 3),
    (Api::AddOffsetsToTxn, 0, 3),
    (Api::EndTxn, 0, 3),
    (Api::WriteTxnMarkers, 1, 1),
    (Api::TxnOffsetCommit, 0, 3),
    (Api::DescribeConfigs, 1, 4),
    (Api::DescribeCluster, 0, 0),
    (Api::DescribeProducers, 0, 0),
    (Api::DescribeTransactions, 0, 0),
    (Api::ListTransactions, 0, 0),
];

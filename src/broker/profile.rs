//! Which Kafka the broker pretends to be: API ranges, features and quirks, as data.

use std::ops::RangeInclusive;

use kafka_protocol::messages::ApiKey;

/// The finalized feature `transaction.version`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TransactionVersion {
    /// Transactions V1 (level 1): markers carry the transaction's own epoch.
    V1,
    /// Transactions V2 (level 2, KIP-890): every end of a transaction raises the epoch.
    V2,
}

impl TransactionVersion {
    /// The level that ApiVersions reports.
    #[must_use]
    pub fn level(self) -> i16 {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
        }
    }
}

/// What a coordinator does with the marker of a partition that has no leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LeaderlessMarker {
    /// KAFKA-20734 (Kafka 4.3 and 4.4): the partition is taken for deleted, its marker is never written, and the
    /// transaction hangs on the partition although its coordinator says `Complete`.
    Skipped,
    /// Every other Kafka: the transaction stays `Prepare` until the partition has a leader again.
    Awaited,
}

/// Whether a partition leader asks the coordinator before a transaction's first batch (KIP-890 part 1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verification {
    /// Kafka 3.6 and newer.
    Asked,
    /// Kafka before 3.6: a transactional batch is taken as it comes.
    Omitted,
}

/// A Kafka to imitate.
///
/// Build one from [`Profile::kafka_4_4`] or [`Profile::kafka_4_4_v1`] and change what a test needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// The profile's name, such as `kafka-4.4`.
    pub name: &'static str,
    /// The finalized level of `transaction.version`; `None` where the feature does not exist (3.x).
    pub transaction_version: Option<TransactionVersion>,
    /// What happens to markers of partitions without a leader.
    pub leaderless_marker: LeaderlessMarker,
    /// Whether transactional batches are verified.
    pub verification: Verification,
    /// The advertised versions of every API, by key.
    pub apis: Vec<(ApiKey, RangeInclusive<i16>)>,
}

impl Profile {
    /// Apache Kafka 4.4 with `transaction.version` 2, as a new cluster comes up.
    #[must_use]
    pub fn kafka_4_4() -> Self {
        Self {
            name: "kafka-4.4",
            transaction_version: Some(TransactionVersion::V2),
            leaderless_marker: LeaderlessMarker::Skipped,
            verification: Verification::Asked,
            apis: KAFKA_4_4.iter().map(|&(api, min, max)| (api, min..=max)).collect(),
        }
    }

    /// Apache Kafka 4.4 with `transaction.version` 1, as an upgraded cluster stays.
    #[must_use]
    pub fn kafka_4_4_v1() -> Self {
        Self { name: "kafka-4.4-v1", transaction_version: Some(TransactionVersion::V1), ..Self::kafka_4_4() }
    }

    /// The profile of that name, if there is one.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::kafka_4_4(), Self::kafka_4_4_v1()].into_iter().find(|p| p.name == name)
    }

    /// The state machine that fences and timeouts use; clients choose theirs by the version of their EndTxn.
    #[must_use]
    pub fn server_transaction_version(&self) -> TransactionVersion {
        self.transaction_version.unwrap_or(TransactionVersion::V1)
    }

    /// The advertised versions of `api`.
    #[must_use]
    pub fn range(&self, api: ApiKey) -> Option<RangeInclusive<i16>> {
        self.apis.iter().find(|(known, _)| *known == api).map(|(_, range)| range.clone())
    }
}

/// What a 4.4.0 broker advertises, cut to the APIs and versions that this broker speaks.
///
/// Left out against the original: TxnOffsetCommit 6, ListOffsets 11, OffsetCommit 10 and OffsetFetch 10. Produce
/// starts at 0 there and here although 0 to 2 are refused (KAFKA-18659).
const KAFKA_4_4: &[(ApiKey, i16, i16)] = &[
    (ApiKey::Produce, 0, 13),
    (ApiKey::Fetch, 4, 18),
    (ApiKey::ListOffsets, 1, 10),
    (ApiKey::Metadata, 0, 13),
    (ApiKey::OffsetCommit, 2, 9),
    (ApiKey::OffsetFetch, 1, 9),
    (ApiKey::FindCoordinator, 0, 6),
    (ApiKey::JoinGroup, 0, 9),
    (ApiKey::Heartbeat, 0, 4),
    (ApiKey::LeaveGroup, 0, 5),
    (ApiKey::SyncGroup, 0, 5),
    (ApiKey::ApiVersions, 0, 5),
    (ApiKey::CreateTopics, 2, 7),
    (ApiKey::DeleteTopics, 1, 6),
    (ApiKey::DeleteRecords, 0, 2),
    (ApiKey::InitProducerId, 0, 5),
    (ApiKey::AddPartitionsToTxn, 0, 5),
    (ApiKey::AddOffsetsToTxn, 0, 4),
    (ApiKey::EndTxn, 0, 5),
    (ApiKey::WriteTxnMarkers, 1, 2),
    (ApiKey::TxnOffsetCommit, 0, 5),
    (ApiKey::DescribeConfigs, 1, 4),
    (ApiKey::DescribeCluster, 0, 2),
    (ApiKey::DescribeProducers, 0, 0),
    (ApiKey::DescribeTransactions, 0, 0),
    (ApiKey::ListTransactions, 0, 2),
];

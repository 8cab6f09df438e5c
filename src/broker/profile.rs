//! Which Kafka the broker pretends to be: API ranges, features and quirks, as data.

use crate::wire::api::Api;
use crate::wire::versions::{TransactionVersion, VersionRange};

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
    /// The finalized level of `transaction.version`. At level 0 a Produce 12 or EndTxn 5 is refused and leaves the
    /// transactional id unusable until its coordinator moves.
    pub transaction_version: TransactionVersion,
    /// What happens to markers of partitions without a leader.
    pub leaderless_marker: LeaderlessMarker,
    /// Whether transactional batches are verified.
    pub verification: Verification,
    /// The advertised versions of every API, by key.
    pub apis: Vec<(Api, VersionRange)>,
}

impl Profile {
    /// Apache Kafka 4.4 with `transaction.version` 2, as a new cluster comes up.
    #[must_use]
    pub fn kafka_4_4() -> Self {
        Self {
            name: "kafka-4.4",
            transaction_version: TransactionVersion::V2,
            leaderless_marker: LeaderlessMarker::Skipped,
            verification: Verification::Asked,
            apis: KAFKA_4_4.iter().map(|&(api, min, max)| (api, VersionRange::new(min, max))).collect(),
        }
    }

    /// Apache Kafka 4.4 with `transaction.version` 1, as an upgraded cluster stays.
    #[must_use]
    pub fn kafka_4_4_v1() -> Self {
        Self { name: "kafka-4.4-v1", transaction_version: TransactionVersion::V1, ..Self::kafka_4_4() }
    }

    /// Apache Kafka 4.4 with `transaction.version` 0.
    #[must_use]
    pub fn kafka_4_4_v0() -> Self {
        Self { name: "kafka-4.4-v0", transaction_version: TransactionVersion::V0, ..Self::kafka_4_4() }
    }

    /// All profiles.
    #[must_use]
    pub fn all() -> [Self; 3] {
        [Self::kafka_4_4(), Self::kafka_4_4_v1(), Self::kafka_4_4_v0()]
    }

    /// The profile of that name, if there is one.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|profile| profile.name == name)
    }

    /// The advertised versions of `api`.
    #[must_use]
    pub fn range(&self, api: Api) -> Option<VersionRange> {
        self.apis.iter().find(|(known, _)| *known == api).map(|(_, range)| *range)
    }
}

/// What a 4.4.0 broker advertises, cut to the APIs and versions that this broker speaks.
///
/// Left out against the original: TxnOffsetCommit 6, ListOffsets 11, OffsetCommit 10 and OffsetFetch 10. Produce
/// starts at 0 there and here although 0 to 2 are refused (KAFKA-18659).
const KAFKA_4_4: &[(Api, i16, i16)] = &[
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

//! Which Kafka the broker pretends to be: API ranges, features and quirks, as data.

mod ranges;

use self::ranges::{KAFKA_3_5, KAFKA_3_9, KAFKA_4_4, Ranges};
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
/// Take one of the constructors and change what a test needs. What differs between the releases and is not a field
/// here follows 4.4.
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
            apis: apis(KAFKA_4_4),
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

    /// Apache Kafka 3.9: transactions V1 without the feature, markers wait for a leader.
    #[must_use]
    pub fn kafka_3_9() -> Self {
        Self {
            name: "kafka-3.9",
            transaction_version: TransactionVersion::V0,
            leaderless_marker: LeaderlessMarker::Awaited,
            verification: Verification::Asked,
            apis: apis(KAFKA_3_9),
        }
    }

    /// Apache Kafka 3.5: as 3.9, and transactional batches are not verified.
    #[must_use]
    pub fn kafka_3_5() -> Self {
        Self {
            name: "kafka-3.5",
            verification: Verification::Omitted,
            apis: apis(KAFKA_3_5),
            ..Self::kafka_3_9()
        }
    }

    /// All profiles.
    #[must_use]
    pub fn all() -> [Self; 5] {
        [Self::kafka_4_4(), Self::kafka_4_4_v1(), Self::kafka_4_4_v0(), Self::kafka_3_9(), Self::kafka_3_5()]
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

fn apis(ranges: Ranges) -> Vec<(Api, VersionRange)> {
    ranges.iter().map(|&(api, min, max)| (api, VersionRange::new(min, max))).collect()
}

//! Which Kafka the broker pretends to be: API ranges, features and quirks, as data.

mod quirk;
mod ranges;

use std::collections::BTreeSet;

pub use self::quirk::Quirk;
use self::ranges::{KAFKA_3_5, KAFKA_3_9, KAFKA_4_4, REDPANDA, Ranges};
use crate::wire::api::Api;
use crate::wire::versions::{TransactionVersion, VersionRange};

/// Whether a partition leader asks the coordinator before a transaction's first batch (KIP-890 part 1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verification {
    /// Kafka 3.6 and newer.
    Asked,
    /// Kafka before 3.6: a transactional batch is taken as it comes.
    Omitted,
}

/// Whether ApiVersions tells features.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Features {
    /// As Kafka does, with the epoch of the finalized ones.
    Told,
    /// As brokers do that have none: clients take `transaction.version` for 0.
    Unknown,
}

/// A broker to imitate.
///
/// Take one of the constructors and change what a test needs. What differs between the releases and is not a field
/// or a [`Quirk`] here follows 4.4.
///
/// ```
/// use kafka_2pc::broker::{Profile, Quirk};
///
/// let fixed = Profile::kafka_4_4().without(Quirk::LeaderlessMarkerSkipped);
/// assert!(!fixed.has(Quirk::LeaderlessMarkerSkipped));
/// assert_eq!(Profile::named("redpanda"), Some(Profile::redpanda()));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// The profile's name, such as `kafka-4.4`.
    pub name: &'static str,
    /// The finalized level of `transaction.version`. At level 0 a Produce 12 or EndTxn 5 is refused and leaves the
    /// transactional id unusable until its coordinator moves.
    pub transaction_version: TransactionVersion,
    /// Whether ApiVersions tells features.
    pub features: Features,
    /// Whether transactional batches are verified.
    pub verification: Verification,
    /// What this release does unlike others.
    pub quirks: BTreeSet<Quirk>,
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
            features: Features::Told,
            verification: Verification::Asked,
            quirks: BTreeSet::from([Quirk::LeaderlessMarkerSkipped]),
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
            features: Features::Told,
            verification: Verification::Asked,
            quirks: BTreeSet::from([Quirk::PairBeforePending, Quirk::ZstdTopicRefused]),
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

    /// The API versions of Redpanda, whose newest are older than Kafka's: no topic ids, no features, no
    /// WriteTxnMarkers. Its coordinator's own ways are not imitated; the rules are those of Kafka 3.9.
    #[must_use]
    pub fn redpanda() -> Self {
        Self { name: "redpanda", features: Features::Unknown, apis: apis(REDPANDA), ..Self::kafka_3_9() }
    }

    /// All profiles.
    #[must_use]
    pub fn all() -> [Self; 6] {
        [
            Self::kafka_4_4(),
            Self::kafka_4_4_v1(),
            Self::kafka_4_4_v0(),
            Self::kafka_3_9(),
            Self::kafka_3_5(),
            Self::redpanda(),
        ]
    }

    /// The profile of that name, if there is one.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|profile| profile.name == name)
    }

    /// The same with a quirk.
    #[must_use]
    pub fn with(mut self, quirk: Quirk) -> Self {
        self.quirks.insert(quirk);
        self
    }

    /// The same without a quirk.
    #[must_use]
    pub fn without(mut self, quirk: Quirk) -> Self {
        self.quirks.remove(&quirk);
        self
    }

    /// Does it have the quirk?
    #[must_use]
    pub fn has(&self, quirk: Quirk) -> bool {
        self.quirks.contains(&quirk)
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

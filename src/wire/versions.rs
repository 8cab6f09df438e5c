//! Which version of an API to speak: what both sides know, below the caps that transactions impose.
//!
//! The highest common version is not always the right one. A broker picks its transaction state machine from the
//! version of the request alone, so a version is also a statement about the transaction it belongs to (KIP-890).

use std::fmt;

use super::api::Api;

/// The lowest FindCoordinator version that can ask for a transaction coordinator.
pub const FIND_TRANSACTION_COORDINATOR: i16 = 1;

/// The lowest InitProducerId version that can name our own producer id and epoch (KIP-360).
pub const INIT_OWN_PAIR: i16 = 3;

/// The lowest ListTransactions version that filters by a pattern on the broker's side.
pub const LIST_BY_PATTERN: i16 = 2;

/// The lowest TxnOffsetCommit version that names a member of the group (KIP-447).
pub const OFFSETS_OF_MEMBER: i16 = 3;

/// The lowest OffsetFetch version that refuses offsets which a transaction holds back (KIP-447).
pub const STABLE_OFFSETS: i16 = 7;

/// The lowest OffsetFetch version that asks for several groups.
pub const OFFSETS_OF_GROUPS: i16 = 8;

/// A range of versions of one API, both ends included. Empty when `min > max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct VersionRange {
    /// The lowest version.
    pub min: i16,
    /// The highest version.
    pub max: i16,
}

/// The level of the finalized feature `transaction.version` that a transaction runs under.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TransactionVersion {
    /// Level 0, or no such feature: brokers before 4.0, Redpanda. On the wire the same as level 1, but a broker at
    /// this level that gets a version of level 2 refuses it and leaves the transactional id unusable.
    V0,
    /// Level 1.
    V1,
    /// Level 2 (KIP-890): the epoch rises with every transaction, Produce adds partitions by itself.
    V2,
}

/// What limits the version beside the two ranges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cap {
    /// The request belongs to no transaction.
    NotTransactional,
    /// The same, and it knows topics by name only: Fetch and Produce from 13 on have their ids (KIP-516).
    TopicsByName,
    /// The request belongs to a transaction that was begun at this level.
    Transaction(TransactionVersion),
    /// The same, and it knows topics by name only.
    TransactionByName(TransactionVersion),
}

/// No version of `api` is known to both sides within the cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Unsupported {
    /// The API.
    pub api: Api,
    /// What we could use: our own range, cut by the cap and by what the request needs.
    pub ours: VersionRange,
    /// What the broker offers; `None` when it does not have the API at all.
    pub broker: Option<VersionRange>,
}

/// The highest version of `api` that both sides know, at or below `cap`.
///
/// `broker` is the range from the broker's ApiVersions response, `None` if the API was not in it.
///
/// # Errors
/// [`Unsupported`] when no version is left.
pub fn choose(api: Api, broker: Option<VersionRange>, cap: Cap) -> Result<i16, Unsupported> {
    choose_at_least(api, broker, cap, supported(api).min)
}

/// [`choose`] for a request with a field that older versions than `floor` do not have.
///
/// # Errors
/// [`Unsupported`] when no version at or above `floor` is left.
pub fn choose_at_least(
    api: Api,
    broker: Option<VersionRange>,
    cap: Cap,
    floor: i16,
) -> Result<i16, Unsupported> {
    let ours = supported(api).intersect(VersionRange::new(floor, cap.highest(api)));
    let common = broker.map(|broker| ours.intersect(broker)).filter(|common| !common.is_empty());
    common.map(|common| common.max).ok_or(Unsupported { api, ours, broker })
}

/// The versions of `api` that we speak as a client.
///
/// Produce and Fetch have topics' ids instead of their names in the last one, 13. A Kafka 4 broker advertises Produce from
/// version 0 on but refuses 0 to 2 (KAFKA-18659), so our own minimum counts, never the broker's.
#[must_use]
pub const fn supported(api: Api) -> VersionRange {
    let (min, max) = match api {
        Api::Produce => (3, 13),
        Api::Fetch => (4, 13),
        Api::ListOffsets => (1, 7),
        Api::Metadata => (1, 12),
        Api::OffsetCommit => (2, 9),
        Api::OffsetFetch => (1, 9),
        Api::FindCoordinator | Api::ApiVersions | Api::AddOffsetsToTxn | Api::Heartbeat => (0, 4),
        Api::JoinGroup => (0, 9),
        Api::DescribeGroups => (0, 6),
        Api::LeaveGroup
        | Api::SyncGroup
        | Api::ListGroups
        | Api::InitProducerId
        | Api::EndTxn
        | Api::TxnOffsetCommit => (0, 5),
        Api::SaslHandshake | Api::IncrementalAlterConfigs => (0, 1),
        Api::CreateTopics => (2, 7),
        Api::DeleteTopics => (1, 6),
        Api::DeleteRecords | Api::SaslAuthenticate | Api::DescribeCluster | Api::ListTransactions => (0, 2),
        Api::AddPartitionsToTxn => (0, 3),
        Api::WriteTxnMarkers => (1, 2),
        Api::DescribeConfigs => (1, 4),
        Api::DescribeProducers | Api::DescribeTransactions => (0, 0),
    };
    VersionRange { min, max }
}

/// The version in which the body of a response to `requested` is written.
///
/// It is the version of the request, with one exception: a broker that does not know the ApiVersions version we
/// asked for answers UNSUPPORTED_VERSION (35) in version 0. `body` is the response after its header.
#[must_use]
pub fn reply_version(api: Api, requested: i16, body: &[u8]) -> i16 {
    match (api, body) {
        (Api::ApiVersions, [0, 35, ..]) => 0,
        _ => requested,
    }
}

impl VersionRange {
    /// From `min` to `max`, both included.
    #[must_use]
    pub const fn new(min: i16, max: i16) -> Self {
        Self { min, max }
    }

    /// True when no version is inside.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.min > self.max
    }

    /// True when `version` is inside.
    #[must_use]
    pub const fn contains(self, version: i16) -> bool {
        self.min <= version && version <= self.max
    }

    /// The versions that are in both ranges.
    #[must_use]
    pub fn intersect(self, other: Self) -> Self {
        Self { min: self.min.max(other.min), max: self.max.min(other.max) }
    }
}

impl TransactionVersion {
    /// The version of a finalized feature level; `level` is 0 where the broker does not list the feature.
    #[must_use]
    pub const fn from_level(level: i16) -> Self {
        match level {
            i16::MIN..=0 => Self::V0,
            1 => Self::V1,
            _ => Self::V2,
        }
    }

    /// The feature level.
    #[must_use]
    pub const fn level(self) -> i16 {
        match self {
            Self::V0 => 0,
            Self::V1 => 1,
            Self::V2 => 2,
        }
    }
}

impl Cap {
    /// The highest version of `api` that may be sent under this cap.
    fn highest(self, api: Api) -> i16 {
        let (level, by_name) = match self {
            Self::NotTransactional => (None, false),
            Self::TopicsByName => (None, true),
            Self::Transaction(level) => (Some(level), false),
            Self::TransactionByName(level) => (Some(level), true),
        };
        let level_2 = level == Some(TransactionVersion::V2);
        if matches!(api, Api::AddPartitionsToTxn) {
            // Version 4 and newer are for brokers, and ask for CLUSTER_ACTION.
            3
        } else if matches!(api, Api::Produce) && level.is_some() && !level_2 {
            // From 12 on a Produce adds its partition to the transaction by itself.
            11
        } else if matches!(api, Api::EndTxn | Api::TxnOffsetCommit) && !level_2 {
            // From 5 on the broker runs its state machine of level 2.
            4
        } else if matches!(api, Api::Fetch | Api::Produce) && by_name {
            // From 13 on topics have ids instead of names.
            12
        } else {
            i16::MAX
        }
    }
}

impl fmt::Display for VersionRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.is_empty(), self.min == self.max) {
            (true, _) => f.write_str("none"),
            (false, true) => self.min.fmt(f),
            (false, false) => write!(f, "{} to {}", self.min, self.max),
        }
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no common version of {}: we can use {}, ", self.api, self.ours)?;
        match self.broker {
            Some(broker) => write!(f, "the broker offers {broker}"),
            None => f.write_str("the broker does not have it"),
        }
    }
}

impl std::error::Error for Unsupported {}

#[cfg(test)]
#[path = "versions_tests.rs"]
mod tests;

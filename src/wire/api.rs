//! The APIs that this crate speaks, and which header each of their versions has.

use std::fmt;

/// One API of the Kafka protocol.
///
/// The list holds what the client sends and what the embedded broker must read so that other clients work on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the variants are Kafka's own names")]
#[repr(i16)]
pub enum Api {
    Produce = 0,
    Fetch = 1,
    ListOffsets = 2,
    Metadata = 3,
    OffsetCommit = 8,
    OffsetFetch = 9,
    FindCoordinator = 10,
    JoinGroup = 11,
    Heartbeat = 12,
    LeaveGroup = 13,
    SyncGroup = 14,
    DescribeGroups = 15,
    ListGroups = 16,
    SaslHandshake = 17,
    ApiVersions = 18,
    CreateTopics = 19,
    DeleteTopics = 20,
    DeleteRecords = 21,
    InitProducerId = 22,
    AddPartitionsToTxn = 24,
    AddOffsetsToTxn = 25,
    EndTxn = 26,
    WriteTxnMarkers = 27,
    TxnOffsetCommit = 28,
    DescribeConfigs = 32,
    SaslAuthenticate = 36,
    IncrementalAlterConfigs = 44,
    DescribeCluster = 60,
    DescribeProducers = 61,
    DescribeTransactions = 65,
    ListTransactions = 66,
}

impl Api {
    /// All of them, by rising key.
    pub const ALL: [Self; 31] = [
        Self::Produce,
        Self::Fetch,
        Self::ListOffsets,
        Self::Metadata,
        Self::OffsetCommit,
        Self::OffsetFetch,
        Self::FindCoordinator,
        Self::JoinGroup,
        Self::Heartbeat,
        Self::LeaveGroup,
        Self::SyncGroup,
        Self::DescribeGroups,
        Self::ListGroups,
        Self::SaslHandshake,
        Self::ApiVersions,
        Self::CreateTopics,
        Self::DeleteTopics,
        Self::DeleteRecords,
        Self::InitProducerId,
        Self::AddPartitionsToTxn,
        Self::AddOffsetsToTxn,
        Self::EndTxn,
        Self::WriteTxnMarkers,
        Self::TxnOffsetCommit,
        Self::DescribeConfigs,
        Self::SaslAuthenticate,
        Self::IncrementalAlterConfigs,
        Self::DescribeCluster,
        Self::DescribeProducers,
        Self::DescribeTransactions,
        Self::ListTransactions,
    ];

    /// The API's number on the wire.
    #[must_use]
    pub const fn key(self) -> i16 {
        self as i16
    }

    /// The API of a number on the wire; `None` for one that this crate does not speak.
    #[must_use]
    pub fn from_key(key: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|api| api.key() == key)
    }

    /// Kafka's name of the API, as in `ApiKeys`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Produce => "Produce",
            Self::Fetch => "Fetch",
            Self::ListOffsets => "ListOffsets",
            Self::Metadata => "Metadata",
            Self::OffsetCommit => "OffsetCommit",
            Self::OffsetFetch => "OffsetFetch",
            Self::FindCoordinator => "FindCoordinator",
            Self::JoinGroup => "JoinGroup",
            Self::Heartbeat => "Heartbeat",
            Self::LeaveGroup => "LeaveGroup",
            Self::SyncGroup => "SyncGroup",
            Self::DescribeGroups => "DescribeGroups",
            Self::ListGroups => "ListGroups",
            Self::SaslHandshake => "SaslHandshake",
            Self::ApiVersions => "ApiVersions",
            Self::CreateTopics => "CreateTopics",
            Self::DeleteTopics => "DeleteTopics",
            Self::DeleteRecords => "DeleteRecords",
            Self::InitProducerId => "InitProducerId",
            Self::AddPartitionsToTxn => "AddPartitionsToTxn",
            Self::AddOffsetsToTxn => "AddOffsetsToTxn",
            Self::EndTxn => "EndTxn",
            Self::WriteTxnMarkers => "WriteTxnMarkers",
            Self::TxnOffsetCommit => "TxnOffsetCommit",
            Self::DescribeConfigs => "DescribeConfigs",
            Self::SaslAuthenticate => "SaslAuthenticate",
            Self::IncrementalAlterConfigs => "IncrementalAlterConfigs",
            Self::DescribeCluster => "DescribeCluster",
            Self::DescribeProducers => "DescribeProducers",
            Self::DescribeTransactions => "DescribeTransactions",
            Self::ListTransactions => "ListTransactions",
        }
    }

    /// The first version with compact lengths and tagged fields (KIP-482); `None` when the API has none.
    #[must_use]
    pub const fn first_flexible(self) -> Option<i16> {
        Some(match self {
            Self::SaslHandshake => return None,
            Self::DescribeCluster
            | Self::DescribeProducers
            | Self::DescribeTransactions
            | Self::ListTransactions => 0,
            Self::WriteTxnMarkers | Self::IncrementalAlterConfigs => 1,
            Self::DeleteRecords | Self::InitProducerId | Self::SaslAuthenticate => 2,
            Self::FindCoordinator
            | Self::ListGroups
            | Self::ApiVersions
            | Self::AddPartitionsToTxn
            | Self::AddOffsetsToTxn
            | Self::EndTxn
            | Self::TxnOffsetCommit => 3,
            Self::Heartbeat
            | Self::LeaveGroup
            | Self::SyncGroup
            | Self::DeleteTopics
            | Self::DescribeConfigs => 4,
            Self::DescribeGroups | Self::CreateTopics => 5,
            Self::ListOffsets | Self::OffsetFetch | Self::JoinGroup => 6,
            Self::OffsetCommit => 8,
            Self::Produce | Self::Metadata => 9,
            Self::Fetch => 12,
        })
    }

    /// True where `version` has compact lengths and tagged fields.
    #[must_use]
    pub const fn is_flexible(self, version: i16) -> bool {
        match self.first_flexible() {
            Some(first) => version >= first,
            None => false,
        }
    }

    /// The version of the request header that goes with `version`: 2 with tagged fields, 1 without.
    #[must_use]
    pub const fn request_header_version(self, version: i16) -> i16 {
        if self.is_flexible(version) { 2 } else { 1 }
    }

    /// The version of the response header that goes with `version`: 1 with tagged fields, 0 without.
    ///
    /// An ApiVersions response always has version 0: a client must be able to read it before it knows what the
    /// broker speaks.
    #[must_use]
    pub const fn response_header_version(self, version: i16) -> i16 {
        if self.is_flexible(version) && !matches!(self, Self::ApiVersions) { 1 } else { 0 }
    }
}

impl fmt::Display for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kafka_protocol::messages::ApiKey;

    #[test]
    fn keys_round_trip_and_rise() {
        for pair in Api::ALL.windows(2) {
            assert!(pair[0].key() < pair[1].key());
        }
        for api in Api::ALL {
            assert_eq!(Api::from_key(api.key()), Some(api));
        }
        assert_eq!(Api::from_key(4), None);
        assert_eq!(Api::from_key(-1), None);
    }

    #[test]
    fn headers_agree_with_the_codec_for_every_version() {
        for api in Api::ALL {
            let theirs = ApiKey::try_from(api.key()).expect("the codec knows every API of ours");
            assert_eq!(format!("{theirs:?}"), api.name());
            let range = theirs.valid_versions();
            for version in range.min..=range.max {
                assert_eq!(
                    api.request_header_version(version),
                    theirs.request_header_version(version),
                    "{api}"
                );
                assert_eq!(
                    api.response_header_version(version),
                    theirs.response_header_version(version),
                    "{api}"
                );
            }
        }
    }
}

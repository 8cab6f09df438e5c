//! ApiVersions (18): what a broker can do, asked first on every connection (KIP-35, KIP-511, KIP-584).

use std::collections::HashMap;

use bytes::Bytes;
use kafka_protocol::messages::{ApiVersionsRequest, ApiVersionsResponse};

use super::{Answered, Call, ExchangeError, Head, decode_message, frame_message, str_bytes, throttle};
use crate::{
    proto::connection::Greeting,
    wire::{
        api::Api,
        code::ErrorCode,
        versions::{self, Cap, TransactionVersion, Unsupported, VersionRange},
    },
};

/// The question.
#[derive(Debug, Clone, Copy)]
pub struct ApiVersions;

/// What one broker can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerProfile {
    ranges: HashMap<Api, VersionRange>,
    /// The finalized level of the feature `transaction.version`.
    pub transaction_version: TransactionVersion,
    /// The epoch of the finalized features; -1 if the broker does not tell.
    pub features_epoch: i64,
}

impl BrokerProfile {
    /// The version to use for an API.
    ///
    /// # Errors
    /// [`Unsupported`] when no version is known to both sides.
    pub fn choose(&self, api: Api, cap: Cap, floor: i16) -> Result<i16, Unsupported> {
        versions::choose_at_least(api, self.ranges.get(&api).copied(), cap, floor)
    }

    /// True when the broker offers `version` of `api` and we speak it.
    #[must_use]
    pub fn offers(&self, api: Api, version: i16) -> bool {
        versions::supported(api).contains(version)
            && self.ranges.get(&api).is_some_and(|r| r.contains(version))
    }

    /// The transaction version to use for transactions that touch this broker: the finalized level, if the
    /// broker also offers the versions that belong to it (KIP-890).
    #[must_use]
    pub fn usable_transaction_version(&self) -> TransactionVersion {
        let implicit = self.offers(Api::Produce, 12) && self.offers(Api::EndTxn, 5);
        match self.transaction_version {
            TransactionVersion::V2 if !implicit => TransactionVersion::V1,
            level => level,
        }
    }
}

impl Call for ApiVersions {
    type Answer = (Greeting, Option<BrokerProfile>);

    fn api(&self) -> Api {
        Api::ApiVersions
    }

    fn frame(&self, head: &Head) -> Result<Vec<Bytes>, ExchangeError> {
        let message = ApiVersionsRequest::default()
            .with_client_software_name(str_bytes("kafka-2pc"))
            .with_client_software_version(str_bytes(env!("CARGO_PKG_VERSION")));
        frame_message(Api::ApiVersions, head, &message)
    }

    fn decode(&self, version: i16, body: Bytes) -> Result<Answered<Self::Answer>, ExchangeError> {
        let version = versions::reply_version(Api::ApiVersions, version, &body);
        let r: ApiVersionsResponse = decode_message(Api::ApiVersions, version, body)?;
        let ranges: HashMap<_, _> = r
            .api_keys
            .iter()
            .filter_map(|k| {
                Some((Api::from_key(k.api_key)?, VersionRange::new(k.min_version, k.max_version)))
            })
            .collect();
        let answer = match ErrorCode::from_code(r.error_code) {
            ErrorCode::None if ranges.is_empty() => {
                (Greeting::NotKafka("the broker names no API that we know".into()), None)
            }
            ErrorCode::None => (Greeting::Accepted, Some(profile(ranges, &r))),
            ErrorCode::UnsupportedVersion => {
                let highest = ranges.get(&Api::ApiVersions).map(|range| range.max);
                (Greeting::UnknownVersion { highest }, None)
            }
            code => (Greeting::NotKafka(format!("ApiVersions was answered with {}", code.name())), None),
        };
        Ok(Answered { answer, throttle: throttle(r.throttle_time_ms) })
    }
}

fn profile(ranges: HashMap<Api, VersionRange>, r: &ApiVersionsResponse) -> BrokerProfile {
    let level = r.finalized_features.iter().find(|f| &*f.name == "transaction.version");
    let transaction_version = TransactionVersion::from_level(level.map_or(0, |f| f.max_version_level));
    BrokerProfile { ranges, transaction_version, features_epoch: r.finalized_features_epoch }
}

//! Questions to brokers: encode one in the version that both sides speak, decode its answer into facts.
//!
//! Pure. Every answer passes `wire::guard` before it is decoded. Error codes are turned into verdicts here, by
//! the tables of [`proto::verdict`](crate::proto::verdict); nothing above sees a code that it has to judge.

mod admin;
mod configs;
mod coordinator;
mod data;
pub mod facts;
mod fetch;
mod markers;
mod metadata;
mod offsets;
mod produce;
mod profile;
mod transaction;

pub use admin::{CreateTopic, CreatedTopic};
pub use configs::BrokerSetting;
pub use coordinator::{
    DescribeAll, DescribeTransactions, Described, FindCoordinator, ListTransactions, Listed,
};
pub use data::{Isolation, ListOffsets, OffsetAt};
pub use fetch::{Fetch, FetchTarget};
pub use markers::{DescribeProducers, Marker, OpenProducer, PartitionProducers, WriteTxnMarkers};
pub use metadata::{BrokerAddress, Metadata, MetadataAnswer, PartitionMetadata, TopicMetadata};
pub use offsets::{AddOffsetsToTxn, FetchedOffset, OffsetFetch, TxnOffsetCommit};
pub use produce::{Produce, ProducePart, Produced};
pub use profile::{ApiVersions, BrokerProfile};
pub use transaction::{AddPartitionsToTxn, EndTxn, Ended, InitProducerId};

use std::{sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};

use crate::{
    ids::TopicName,
    wire::{
        api::Api,
        frame::{self, RequestHeader},
        guard,
        versions::{Cap, Unsupported},
    },
};

/// A question to a broker.
pub trait Call: Send + Sync {
    /// What its answer says.
    type Answer: Send;

    /// The API that it belongs to.
    fn api(&self) -> Api;

    /// What limits its version beside the two sides' ranges.
    fn cap(&self) -> Cap {
        Cap::NotTransactional
    }

    /// The lowest version that can carry what it asks.
    fn floor(&self) -> i16 {
        0
    }

    /// The whole request as it goes on the wire, length first.
    ///
    /// # Errors
    /// [`ExchangeError`] if it cannot be encoded.
    fn frame(&self, head: &Head) -> Result<Vec<Bytes>, ExchangeError>;

    /// The answer, from its body in `version`.
    ///
    /// # Errors
    /// [`ExchangeError`] if the bytes are not such an answer.
    fn decode(&self, version: i16, body: Bytes) -> Result<Answered<Self::Answer>, ExchangeError>;
}

/// An answer and the silence that the broker asked for with it (KIP-219).
#[derive(Debug)]
pub struct Answered<A> {
    /// The answer.
    pub answer: A,
    /// How long the connection must stay silent.
    pub throttle: Duration,
}

/// What stands at the head of a request.
#[derive(Debug, Clone)]
pub struct Head {
    /// The version that was chosen.
    pub version: i16,
    /// The correlation id.
    pub correlation: i32,
    /// Our `client.id`.
    pub client_id: Arc<str>,
}

/// Why a question can't be put, or its answer can't be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExchangeError {
    /// No version is known to both sides.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// The request can't be written.
    #[error("{api} request can't be encoded: {detail}")]
    Encode {
        /// The API's name.
        api: &'static str,
        /// What is wrong.
        detail: String,
    },
    /// The answer is not what Kafka's schema says.
    #[error("{api} answer (version {version}) is malformed: {detail}")]
    Malformed {
        /// The API's name.
        api: &'static str,
        /// The version that was asked.
        version: i16,
        /// What is wrong.
        detail: String,
    },
}

impl ExchangeError {
    fn malformed(api: Api, version: i16, detail: impl ToString) -> Self {
        Self::Malformed { api: api.name(), version, detail: detail.to_string() }
    }
}

/// Frames a message of the crate `kafka-protocol`.
fn frame_message<M: Encodable>(api: Api, head: &Head, message: &M) -> Result<Vec<Bytes>, ExchangeError> {
    let mut out = BytesMut::with_capacity(256);
    frame::put_frame(&mut out, |out| {
        header(api, head).encode(out);
        encode_message(api, head.version, message, out)
    })?;
    Ok(vec![out.freeze()])
}

fn header(api: Api, head: &Head) -> RequestHeader {
    RequestHeader {
        api,
        version: head.version,
        correlation_id: head.correlation,
        client_id: Some(head.client_id.to_string()),
    }
}

fn encode_message<M: Encodable>(
    api: Api,
    version: i16,
    message: &M,
    out: &mut BytesMut,
) -> Result<(), ExchangeError> {
    message
        .encode(out, version)
        .map_err(|e| ExchangeError::Encode { api: api.name(), detail: format!("version {version}: {e:#}") })
}

impl From<frame::FrameError> for ExchangeError {
    fn from(e: frame::FrameError) -> Self {
        Self::Encode { api: "any", detail: e.to_string() }
    }
}

/// Decodes a message of the crate `kafka-protocol`, after the guard let it pass.
fn decode_message<M: Decodable>(api: Api, version: i16, mut body: Bytes) -> Result<M, ExchangeError> {
    let malformed = |detail: String| ExchangeError::malformed(api, version, detail);
    guard::check_response(api, version, &body).map_err(|e| malformed(e.to_string()))?;
    M::decode(&mut body, version).map_err(|e| malformed(format!("{e:#}")))
}

fn throttle(ms: i32) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

fn str_bytes(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn topic_name(name: &TopicName) -> kafka_protocol::messages::TopicName {
    kafka_protocol::messages::TopicName(str_bytes(name))
}

/// Groups partitions by topic, in order: most requests want them so.
fn by_topic<K: PartialEq, T>(items: impl IntoIterator<Item = (K, T)>) -> Vec<(K, Vec<T>)> {
    let mut topics: Vec<(K, Vec<T>)> = Vec::new();
    for (topic, item) in items {
        match topics.iter_mut().find(|(known, _)| *known == topic) {
            Some((_, list)) => list.push(item),
            None => topics.push((topic, vec![item])),
        }
    }
    topics
}

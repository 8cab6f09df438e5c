//! One file per API: which versions it knows and how it behaves, then the handler.

mod add_offsets_to_txn;
mod add_partitions_to_txn;
pub(crate) mod api_versions;
mod create_topics;
mod delete_records;
mod delete_topics;
mod describe_cluster;
mod describe_configs;
mod describe_producers;
mod describe_transactions;
mod end_txn;
mod fetch;
mod find_coordinator;
mod groups;
mod init_producer_id;
mod list_offsets;
mod list_transactions;
mod metadata;
mod offset_commit;
mod offset_fetch;
mod produce;
mod produce_txn;
mod sasl;
mod txn_offset_commit;
pub(crate) mod write_txn_markers;

use kafka_protocol::error::ResponseError;
use kafka_protocol::messages::{TopicName as WireTopicName, TransactionalId as WireTransactionalId};
use kafka_protocol::protocol::StrBytes;
use uuid::Uuid;

use super::shared::Context;
use crate::ids::TopicId;

/// A request that the broker answers.
pub(crate) trait Handler: Sized + Send {
    /// Its response.
    type Response: Send;

    /// Carries the request out.
    fn handle(self, ctx: &Context, version: i16) -> impl Future<Output = Self::Response> + Send;

    /// The response that says `code` in all places that can carry one.
    fn refuse(&self, version: i16, code: i16) -> Self::Response;

    /// The version that the response is written in: that of the request, but where the codec knows none so new.
    fn response_version(version: i16) -> i16 {
        version
    }

    /// True when no response may be sent.
    fn is_silent(&self) -> bool {
        false
    }
}

fn text(s: &str) -> StrBytes {
    StrBytes::from_string(s.to_owned())
}

fn topic_name(name: &str) -> WireTopicName {
    WireTopicName(text(name))
}

fn transactional_id(id: &str) -> WireTransactionalId {
    WireTransactionalId(text(id))
}

fn topic_id(id: TopicId) -> Uuid {
    Uuid::from_bytes(id.0)
}

/// PRODUCER_FENCED came with a later version of each API; before, INVALID_PRODUCER_EPOCH said it.
fn fenced_since(first: i16, version: i16, error: ResponseError) -> ResponseError {
    if error == ResponseError::ProducerFenced && version < first {
        ResponseError::InvalidProducerEpoch
    } else {
        error
    }
}

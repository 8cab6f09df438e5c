//! DescribeTransactions, version 0.
//!
//! - Only the coordinator answers; an unknown or expired id is TRANSACTIONAL_ID_NOT_FOUND.
//! - Partitions of topics that the client may not describe are left out.
//! - While preparing, the partitions are those that still lack their marker.
//! - The start time is kept until the next transaction begins; -1 after InitProducerId.

use std::collections::BTreeMap;

use kafka_protocol::error::ResponseError;
use kafka_protocol::messages::describe_transactions_response::{TopicData, TransactionState};
use kafka_protocol::messages::{DescribeTransactionsRequest, DescribeTransactionsResponse};

use super::{Handler, text, topic_name, transactional_id};
use crate::broker::access::Operation;
use crate::broker::cluster::Cluster;
use crate::broker::coordinator::entry::Entry;
use crate::broker::shared::Context;
use crate::ids::TopicPartition;

impl Handler for DescribeTransactionsRequest {
    type Response = DescribeTransactionsResponse;

    async fn handle(self, ctx: &Context, _version: i16) -> DescribeTransactionsResponse {
        let cluster = ctx.shared.cluster();
        let states = self.transactional_ids.iter().map(|id| match find(&cluster, ctx.node, id) {
            Ok(entry) => described(ctx, id, entry),
            Err(error) => failed(id, error.code()),
        });
        DescribeTransactionsResponse::default().with_transaction_states(states.collect())
    }

    fn refuse(&self, _version: i16, code: i16) -> DescribeTransactionsResponse {
        let states = self.transactional_ids.iter().map(|id| failed(id, code));
        DescribeTransactionsResponse::default().with_transaction_states(states.collect())
    }
}

fn find<'a>(cluster: &'a Cluster, node: i32, id: &str) -> Result<&'a Entry, ResponseError> {
    if id.is_empty() {
        return Err(ResponseError::InvalidRequest);
    }
    cluster.check_transaction_coordinator(node, id)?;
    cluster.transactions.entry(id).ok_or(ResponseError::TransactionalIdNotFound)
}

fn described(ctx: &Context, id: &str, entry: &Entry) -> TransactionState {
    let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    let shown = |at: &&TopicPartition| ctx.may_topic(Operation::Describe, &at.topic).is_ok();
    for at in entry.partitions.iter().filter(shown) {
        topics.entry(&at.topic).or_default().push(at.partition);
    }
    let topics = topics.into_iter().map(|(name, partitions)| {
        TopicData::default().with_topic(topic_name(name)).with_partitions(partitions)
    });
    TransactionState::default()
        .with_transactional_id(transactional_id(id))
        .with_transaction_state(text(entry.state.name()))
        .with_transaction_timeout_ms(entry.timeout_ms)
        .with_transaction_start_time_ms(entry.start_ms)
        .with_producer_id(entry.pair.id.into())
        .with_producer_epoch(entry.pair.epoch)
        .with_topics(topics.collect())
}

fn failed(id: &str, code: i16) -> TransactionState {
    TransactionState::default().with_transactional_id(transactional_id(id)).with_error_code(code)
}

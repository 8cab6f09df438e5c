//! AddPartitionsToTxn, versions 0 to 5.
//!
//! - Up to 3 it comes from clients: all partitions or none. When one is unknown, it says so and the others say
//!   OPERATION_NOT_ATTEMPTED; likewise where one may not be written.
//! - From 4 on it is for brokers: many transactions, each added or only verified.
//! - Before version 2, PRODUCER_FENCED reads INVALID_PRODUCER_EPOCH.

use kafka_protocol::error::ResponseError;
use kafka_protocol::messages::add_partitions_to_txn_request::{
    AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction,
};
use kafka_protocol::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnResult, AddPartitionsToTxnTopicResult,
};
use kafka_protocol::messages::{AddPartitionsToTxnRequest, AddPartitionsToTxnResponse};

use super::{Handler, fenced_since};
use crate::broker::access::Operation;
use crate::broker::cluster::Cluster;
use crate::broker::coordinator::entry::Pair;
use crate::broker::shared::Context;
use crate::ids::TopicPartition;

impl Handler for AddPartitionsToTxnRequest {
    type Response = AddPartitionsToTxnResponse;

    async fn handle(self, ctx: &Context, version: i16) -> AddPartitionsToTxnResponse {
        if version >= 4 {
            let mut results = Vec::new();
            for t in &self.transactions {
                results.push(transaction(ctx, t).await);
            }
            return AddPartitionsToTxnResponse::default().with_results_by_transaction(results);
        }
        let topics = &self.v3_and_below_topics;
        if let Some(results) = unusable(ctx, &ctx.shared.cluster(), topics) {
            return AddPartitionsToTxnResponse::default().with_results_by_topic_v3_and_below(results);
        }
        let id = &self.v3_and_below_transactional_id;
        let who = Pair { id: self.v3_and_below_producer_id.0, epoch: self.v3_and_below_producer_epoch };
        let code = match add(ctx, (id, who), &partitions(topics)).await {
            Ok(()) => 0,
            Err(error) => fenced_since(2, version, error).code(),
        };
        AddPartitionsToTxnResponse::default().with_results_by_topic_v3_and_below(each(topics, |_| code))
    }

    fn refuse(&self, version: i16, code: i16) -> AddPartitionsToTxnResponse {
        let response = AddPartitionsToTxnResponse::default();
        if version >= 4 {
            return response.with_error_code(code);
        }
        response.with_results_by_topic_v3_and_below(each(&self.v3_and_below_topics, |_| code))
    }
}

/// The answer when a partition does not exist or may not be written.
fn unusable(
    ctx: &Context,
    cluster: &Cluster,
    topics: &[AddPartitionsToTxnTopic],
) -> Option<Vec<AddPartitionsToTxnTopicResult>> {
    let usable = |p: &TopicPartition| {
        ctx.may_topic(Operation::Write, &p.topic)?;
        cluster.partition(p).map(|_| ()).ok_or(ResponseError::UnknownTopicOrPartition)
    };
    let code = |p: &TopicPartition| usable(p).err().unwrap_or(ResponseError::OperationNotAttempted).code();
    partitions(topics).iter().any(|p| usable(p).is_err()).then(|| each(topics, code))
}

async fn transaction(ctx: &Context, t: &AddPartitionsToTxnTransaction) -> AddPartitionsToTxnResult {
    let who = Pair { id: t.producer_id.0, epoch: t.producer_epoch };
    let added = if t.verify_only {
        ctx.shared.cluster().check_transaction_coordinator(ctx.node, &t.transactional_id)
    } else {
        add(ctx, (&t.transactional_id, who), &partitions(&t.topics)).await
    };
    let cluster = ctx.shared.cluster();
    let results = each(&t.topics, |p| {
        let verified = match added {
            Ok(()) if t.verify_only => cluster.transactions.verify(&t.transactional_id, who, p),
            outcome => outcome,
        };
        verified.err().map_or(0, |e| e.code())
    });
    AddPartitionsToTxnResult::default()
        .with_transactional_id(t.transactional_id.clone())
        .with_topic_results(results)
}

async fn add(
    ctx: &Context,
    (id, who): (&str, Pair),
    partitions: &[TopicPartition],
) -> Result<(), ResponseError> {
    if id.is_empty() {
        return Err(ResponseError::InvalidRequest);
    }
    let append = {
        let mut cluster = ctx.shared.cluster();
        cluster.check_transaction_coordinator(ctx.node, id)?;
        cluster.transactions.add_partitions(id, who, partitions, ctx.shared.now_ms())?
    };
    ctx.shared.appended(id, append).await
}

fn partitions(topics: &[AddPartitionsToTxnTopic]) -> Vec<TopicPartition> {
    let of = |t: &AddPartitionsToTxnTopic| {
        let name: crate::ids::TopicName = t.name.as_str().into();
        t.partitions.iter().map(|p| TopicPartition::new(name.clone(), *p)).collect::<Vec<_>>()
    };
    topics.iter().flat_map(of).collect()
}

fn each(
    topics: &[AddPartitionsToTxnTopic],
    code: impl Fn(&TopicPartition) -> i16,
) -> Vec<AddPartitionsToTxnTopicResult> {
    let result = |topic: &AddPartitionsToTxnTopic| {
        let partitions = topic.partitions.iter().map(|p| {
            AddPartitionsToTxnPartitionResult::default()
                .with_partition_index(*p)
                .with_partition_error_code(code(&TopicPartition::new(topic.name.as_str(), *p)))
        });
        AddPartitionsToTxnTopicResult::default()
            .with_name(topic.name.clone())
            .with_results_by_partition(partitions.collect())
    };
    topics.iter().map(result).collect()
}

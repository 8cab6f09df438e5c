//! DescribeProducers, version 0.
//!
//! - Any replica of the partition tells every producer it remembers, with the first offset of an open transaction or -1.
//! - A transaction that hangs because its marker was never written shows here.

use kafka_protocol::messages::describe_producers_response::{
    PartitionResponse, ProducerState, TopicResponse,
};
use kafka_protocol::messages::{DescribeProducersRequest, DescribeProducersResponse};

use super::Handler;
use crate::broker::access::Operation;
use crate::broker::log::producers::Producer;
use crate::broker::shared::Context;

impl Handler for DescribeProducersRequest {
    type Response = DescribeProducersResponse;

    async fn handle(self, ctx: &Context, _version: i16) -> DescribeProducersResponse {
        let cluster = ctx.shared.cluster();
        let topics = self.topics.iter().map(|topic| {
            let partitions = topic.partition_indexes.iter().map(|index| {
                let response = PartitionResponse::default().with_partition_index(*index);
                let allowed = ctx.may_topic(Operation::Read, &topic.name);
                match allowed.and_then(|()| cluster.held_by(ctx.node, &topic.name, *index)) {
                    Ok(partition) => {
                        let producers = partition.log.producers().map(|(id, p)| described(id, p));
                        response.with_active_producers(producers.collect())
                    }
                    Err(error) => response.with_error_code(error.code()),
                }
            });
            TopicResponse::default().with_name(topic.name.clone()).with_partitions(partitions.collect())
        });
        DescribeProducersResponse::default().with_topics(topics.collect())
    }

    fn refuse(&self, _version: i16, code: i16) -> DescribeProducersResponse {
        let topics = self.topics.iter().map(|topic| {
            let partitions = topic
                .partition_indexes
                .iter()
                .map(|index| PartitionResponse::default().with_partition_index(*index).with_error_code(code));
            TopicResponse::default().with_name(topic.name.clone()).with_partitions(partitions.collect())
        });
        DescribeProducersResponse::default().with_topics(topics.collect())
    }
}

fn described(id: i64, producer: &Producer) -> ProducerState {
    ProducerState::default()
        .with_producer_id(id.into())
        .with_producer_epoch(i32::from(producer.epoch))
        .with_last_sequence(producer.last_sequence())
        .with_last_timestamp(producer.last_timestamp)
        .with_coordinator_epoch(producer.coordinator_epoch)
        .with_current_txn_start_offset(producer.open_from.unwrap_or(-1))
}

//! DeleteRecords, versions 0 to 2.
//!
//! -1 deletes up to the high watermark. Records of open transactions go as well; the transaction stays open.

use kafka_protocol::messages::delete_records_response::{
    DeleteRecordsPartitionResult, DeleteRecordsTopicResult,
};
use kafka_protocol::messages::{DeleteRecordsRequest, DeleteRecordsResponse};

use super::Handler;
use crate::broker::shared::Context;

impl Handler for DeleteRecordsRequest {
    type Response = DeleteRecordsResponse;

    async fn handle(self, ctx: &Context, _version: i16) -> DeleteRecordsResponse {
        let mut cluster = ctx.shared.cluster();
        answer(&self, |topic, index, offset| {
            let partition = cluster.led_by(ctx.node, topic, index);
            match partition.and_then(|p| p.log.delete_before(offset)) {
                Ok(low_watermark) => (low_watermark, 0),
                Err(error) => (-1, error.code()),
            }
        })
    }

    fn refuse(&self, _version: i16, code: i16) -> DeleteRecordsResponse {
        answer(self, |_, _, _| (-1, code))
    }
}

fn answer(
    request: &DeleteRecordsRequest,
    mut outcome: impl FnMut(&str, i32, i64) -> (i64, i16),
) -> DeleteRecordsResponse {
    let topics = request.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|p| {
            let (low_watermark, code) = outcome(&topic.name, p.partition_index, p.offset);
            DeleteRecordsPartitionResult::default()
                .with_partition_index(p.partition_index)
                .with_low_watermark(low_watermark)
                .with_error_code(code)
        });
        let partitions = partitions.collect();
        DeleteRecordsTopicResult::default().with_name(topic.name.clone()).with_partitions(partitions)
    });
    DeleteRecordsResponse::default().with_topics(topics.collect())
}

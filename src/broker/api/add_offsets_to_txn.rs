//! AddOffsetsToTxn, versions 0 to 4: adds the group's partition of `__consumer_offsets` to the transaction.
//!
//! Before version 2, PRODUCER_FENCED reads INVALID_PRODUCER_EPOCH.

use kafka_protocol::error::ResponseError;
use kafka_protocol::messages::{AddOffsetsToTxnRequest, AddOffsetsToTxnResponse};

use super::{Handler, fenced_since};
use crate::broker::coordinator::entry::Pair;
use crate::broker::shared::Context;

impl Handler for AddOffsetsToTxnRequest {
    type Response = AddOffsetsToTxnResponse;

    async fn handle(self, ctx: &Context, version: i16) -> AddOffsetsToTxnResponse {
        let code = add(ctx, &self).await.err().map_or(0, |error| fenced_since(2, version, error).code());
        self.refuse(version, code)
    }

    fn refuse(&self, _version: i16, code: i16) -> AddOffsetsToTxnResponse {
        AddOffsetsToTxnResponse::default().with_error_code(code)
    }
}

async fn add(ctx: &Context, request: &AddOffsetsToTxnRequest) -> Result<(), ResponseError> {
    let id = request.transactional_id.as_str();
    let who = Pair { id: request.producer_id.0, epoch: request.producer_epoch };
    if id.is_empty() {
        return Err(ResponseError::InvalidRequest);
    }
    let append = {
        let mut cluster = ctx.shared.cluster();
        cluster.check_transaction_coordinator(ctx.node, id)?;
        let at = cluster.offsets_partition(&request.group_id);
        cluster.transactions.add_partitions(id, who, &[at], ctx.shared.now_ms())?
    };
    ctx.shared.appended(id, append).await
}

//! InitProducerId, versions 0 to 5.
//!
//! - Without a transactional id: a new producer id, always, at any node.
//! - Producer id and epoch (KIP-360, version 3) are given both or not at all, else INVALID_REQUEST.
//! - An open transaction is fenced: CONCURRENT_TRANSACTIONS until it is aborted, then the epoch rises once more.
//! - Before version 4, PRODUCER_FENCED reads INVALID_PRODUCER_EPOCH.

use kafka_protocol::error::ResponseError;
use kafka_protocol::messages::{InitProducerIdRequest, InitProducerIdResponse};

use super::{Handler, fenced_since};
use crate::broker::coordinator::Initialized;
use crate::broker::coordinator::entry::Pair;
use crate::broker::coordinator::init_producer_id::Request;
use crate::broker::markers;
use crate::broker::shared::Context;

impl Handler for InitProducerIdRequest {
    type Response = InitProducerIdResponse;

    async fn handle(self, ctx: &Context, version: i16) -> InitProducerIdResponse {
        match init(ctx, &self).await {
            Ok(pair) => InitProducerIdResponse::default()
                .with_producer_id(pair.id.into())
                .with_producer_epoch(pair.epoch),
            Err(error) => self.refuse(version, fenced_since(4, version, error).code()),
        }
    }

    fn refuse(&self, _version: i16, code: i16) -> InitProducerIdResponse {
        InitProducerIdResponse::default()
            .with_error_code(code)
            .with_producer_id((-1).into())
            .with_producer_epoch(-1)
    }
}

async fn init(ctx: &Context, request: &InitProducerIdRequest) -> Result<Pair, ResponseError> {
    let expected = match (request.producer_id.0, request.producer_epoch) {
        (-1, -1) => None,
        (id, epoch) if id >= 0 && epoch >= 0 => Some(Pair { id, epoch }),
        _ => return Err(ResponseError::InvalidRequest),
    };
    let Some(id) = &request.transactional_id else {
        return Ok(Pair { id: ctx.shared.cluster().transactions.new_producer_id(), epoch: 0 });
    };
    let wanted = Request { expected, timeout_ms: request.transaction_timeout_ms };
    match begin(ctx, id, wanted)? {
        Initialized::Ready(pair, append) => ctx.shared.appended(id, append).await.map(|()| pair),
        Initialized::Fenced(append) => {
            ctx.shared.appended(id, append).await?;
            markers::send(&ctx.shared, id);
            Err(ResponseError::ConcurrentTransactions)
        }
        Initialized::Fencing => Err(ResponseError::ConcurrentTransactions),
    }
}

fn begin(ctx: &Context, id: &str, wanted: Request) -> Result<Initialized, ResponseError> {
    let mut cluster = ctx.shared.cluster();
    if !id.is_empty() {
        cluster.check_transaction_coordinator(ctx.node, id)?;
    }
    cluster.transactions.init_producer_id(id, wanted, ctx.shared.now_ms())
}

//! EndTxn, versions 0 to 5.
//!
//! - The version of the request alone chooses the state machine: up to 4 transactions V1, 5 V2. What the cluster
//!   has finalized does not matter.
//! - It is answered once the end is prepared; the markers follow.
//! - Version 5 answers the pair to go on with; -1 and -1 on errors and in older versions.
//! - Before version 2, PRODUCER_FENCED reads INVALID_PRODUCER_EPOCH.

use kafka_protocol::error::ResponseError;
use kafka_protocol::messages::{EndTxnRequest, EndTxnResponse};

use super::{Handler, fenced_since};
use crate::broker::coordinator::Ended;
use crate::broker::coordinator::entry::Pair;
use crate::broker::log::marker::Outcome;
use crate::broker::markers;
use crate::broker::profile::Quirk;
use crate::broker::shared::Context;
use crate::wire::versions::TransactionVersion;

impl Handler for EndTxnRequest {
    type Response = EndTxnResponse;

    async fn handle(self, ctx: &Context, version: i16) -> EndTxnResponse {
        match end(ctx, &self, version).await {
            Ok(pair) if version >= 5 => {
                EndTxnResponse::default().with_producer_id(pair.id.into()).with_producer_epoch(pair.epoch)
            }
            Ok(_) => self.refuse(version, 0),
            Err(error) => self.refuse(version, fenced_since(2, version, error).code()),
        }
    }

    fn refuse(&self, _version: i16, code: i16) -> EndTxnResponse {
        EndTxnResponse::default().with_error_code(code).with_producer_id((-1).into()).with_producer_epoch(-1)
    }
}

async fn end(ctx: &Context, request: &EndTxnRequest, version: i16) -> Result<Pair, ResponseError> {
    let id = request.transactional_id.as_str();
    if id.is_empty() {
        return Err(ResponseError::InvalidRequest);
    }
    let outcome = if request.committed { Outcome::Commit } else { Outcome::Abort };
    let machine = if version >= 5 { TransactionVersion::V2 } else { TransactionVersion::V1 };
    let who = Pair { id: request.producer_id.0, epoch: request.producer_epoch };
    let ended = {
        let mut cluster = ctx.shared.cluster();
        cluster.check_transaction_coordinator(ctx.node, id)?;
        cluster.transactions.end_txn(id, who, (outcome, machine), ctx.shared.now_ms())?
    };
    match ended {
        Ended::Already(pair) => Ok(pair),
        Ended::Prepared(pair, append) => {
            ctx.shared.appended(id, append).await?;
            markers::send(&ctx.shared, id);
            let fails = ctx.shared.config.profile.has(Quirk::EndTxnUnknownServerError);
            if fails { Err(ResponseError::UnknownServerError) } else { Ok(pair) }
        }
    }
}

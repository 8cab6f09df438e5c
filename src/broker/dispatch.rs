//! From a frame to its answer: versions, faults, the handler of the API.

use bytes::Bytes;
use kafka_protocol::messages as m;
use kafka_protocol::protocol::{Decodable, Encodable};

use super::api::{Handler, api_versions, write_txn_markers};
use super::fault::Reaction;
use super::frame::{self, Call, Unreadable};
use super::shared::Context;
use crate::wire::api::Api;

/// What goes back to the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    Frame(Bytes),
    /// Produce with acks 0 has no response.
    Silence,
    Close,
}

/// Answers one frame.
pub(crate) async fn answer(ctx: &Context, frame: Bytes) -> Answer {
    let Ok(call) = frame::call(frame) else {
        return Answer::Close;
    };
    let ctx = Context { client_id: call.client_id.clone(), ..ctx.clone() };
    let reaction = ctx.shared.faults().on_request(call.api, ctx.node);
    if call.api == Api::ApiVersions {
        return api_versions::answer(&ctx, call, reaction).await.unwrap_or(Answer::Close);
    }
    let supported = ctx.shared.config.profile.range(call.api);
    if !supported.is_some_and(|range| range.contains(call.version)) {
        return Answer::Close;
    }
    route(&ctx, call, reaction).await.unwrap_or(Answer::Close)
}

async fn route(ctx: &Context, mut call: Call, reaction: Option<Reaction>) -> Result<Answer, Unreadable> {
    match call.api {
        Api::Produce => serve::<m::ProduceRequest>(ctx, call, reaction).await,
        Api::Fetch => serve::<m::FetchRequest>(ctx, call, reaction).await,
        Api::ListOffsets => serve::<m::ListOffsetsRequest>(ctx, call, reaction).await,
        Api::Metadata => serve::<m::MetadataRequest>(ctx, call, reaction).await,
        Api::OffsetCommit => serve::<m::OffsetCommitRequest>(ctx, call, reaction).await,
        Api::OffsetFetch => serve::<m::OffsetFetchRequest>(ctx, call, reaction).await,
        Api::FindCoordinator => serve::<m::FindCoordinatorRequest>(ctx, call, reaction).await,
        Api::JoinGroup => serve::<m::JoinGroupRequest>(ctx, call, reaction).await,
        Api::Heartbeat => serve::<m::HeartbeatRequest>(ctx, call, reaction).await,
        Api::LeaveGroup => serve::<m::LeaveGroupRequest>(ctx, call, reaction).await,
        Api::SyncGroup => serve::<m::SyncGroupRequest>(ctx, call, reaction).await,
        Api::CreateTopics => serve::<m::CreateTopicsRequest>(ctx, call, reaction).await,
        Api::DeleteTopics => serve::<m::DeleteTopicsRequest>(ctx, call, reaction).await,
        Api::DeleteRecords => serve::<m::DeleteRecordsRequest>(ctx, call, reaction).await,
        Api::InitProducerId => serve::<m::InitProducerIdRequest>(ctx, call, reaction).await,
        Api::AddPartitionsToTxn => serve::<m::AddPartitionsToTxnRequest>(ctx, call, reaction).await,
        Api::AddOffsetsToTxn => serve::<m::AddOffsetsToTxnRequest>(ctx, call, reaction).await,
        Api::EndTxn => serve::<m::EndTxnRequest>(ctx, call, reaction).await,
        Api::TxnOffsetCommit => serve::<m::TxnOffsetCommitRequest>(ctx, call, reaction).await,
        Api::DescribeConfigs => serve::<m::DescribeConfigsRequest>(ctx, call, reaction).await,
        Api::DescribeCluster => serve::<m::DescribeClusterRequest>(ctx, call, reaction).await,
        Api::DescribeProducers => serve::<m::DescribeProducersRequest>(ctx, call, reaction).await,
        Api::DescribeTransactions => serve::<m::DescribeTransactionsRequest>(ctx, call, reaction).await,
        Api::ListTransactions => serve::<m::ListTransactionsRequest>(ctx, call, reaction).await,
        Api::WriteTxnMarkers => {
            let markers = write_txn_markers::read(&mut call)?;
            // Both versions have the same response.
            perform(ctx, Call { version: 1, ..call }, markers, reaction).await
        }
        _ => Err(Unreadable),
    }
}

async fn serve<R>(ctx: &Context, mut call: Call, reaction: Option<Reaction>) -> Result<Answer, Unreadable>
where
    R: Handler + Decodable,
    R::Response: Encodable,
{
    let request: R = frame::body(&mut call)?;
    perform(ctx, call, request, reaction).await
}

/// Carries a request out, or does what the fault says.
async fn perform<R>(
    ctx: &Context,
    call: Call,
    request: R,
    reaction: Option<Reaction>,
) -> Result<Answer, Unreadable>
where
    R: Handler,
    R::Response: Encodable,
{
    let version = call.version;
    let silent = request.is_silent();
    let response = match reaction {
        Some(Reaction::Drop) => return Ok(Answer::Close),
        Some(Reaction::ErrorCode(code)) => request.refuse(version, code),
        Some(Reaction::ApplyThenDrop) => {
            request.handle(ctx, version).await;
            return Ok(Answer::Close);
        }
        Some(Reaction::Delay(by)) => {
            tokio::time::sleep(by).await;
            request.handle(ctx, version).await
        }
        None => request.handle(ctx, version).await,
    };
    if silent { Ok(Answer::Silence) } else { frame::response(&call, version, &response).map(Answer::Frame) }
}

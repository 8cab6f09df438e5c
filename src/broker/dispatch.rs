//! From a frame to its answer: versions, the handler of the API.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages as m;
use kafka_protocol::protocol::{Decodable, Encodable};

use super::api::{Handler, api_versions, write_txn_markers};
use super::config::Security;
use super::frame::{self, Call, Unreadable};
use super::journal::{Codes, Named};
use super::perform::perform;
use super::shared::Context;
use crate::wire::api::Api;

/// What goes back to the client.
#[derive(Debug)]
pub(crate) enum Answer {
    Frame(Bytes),
    /// These bytes, then the connection is closed.
    Cut(Bytes),
    /// Produce with acks 0 has no response.
    Silence,
    Close,
    /// Nothing, and the request waits for the end of its connection.
    Held(Held),
}

/// A request that is carried out when its connection is gone.
pub(crate) struct Held {
    pub(crate) work: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// How long after that; `None` waits for a command.
    pub(crate) after: Option<Duration>,
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("after", &self.after).finish_non_exhaustive()
    }
}

/// Answers one frame.
pub(crate) async fn answer(ctx: &Context, frame: Bytes) -> Answer {
    let Ok(call) = frame::call(frame) else {
        return Answer::Close;
    };
    let ctx = Context { client_id: call.client_id.clone(), ..ctx.clone() };
    ctx.shared.faults().count(call.api);
    if call.api == Api::ApiVersions {
        return api_versions::answer(&ctx, call).await.unwrap_or(Answer::Close);
    }
    let config = &ctx.shared.config;
    let logs_in = matches!(call.api, Api::SaslHandshake | Api::SaslAuthenticate);
    if config.security == Security::SaslOnly && !logs_in {
        // Kafka's authenticator throws IllegalSaslStateException, which closes the connection.
        return Answer::Close;
    }
    if !config.profile.range(call.api).is_some_and(|range| range.contains(call.version)) {
        return Answer::Close;
    }
    route(&ctx, call).await.unwrap_or(Answer::Close)
}

async fn route(ctx: &Context, mut call: Call) -> Result<Answer, Unreadable> {
    match call.api {
        Api::Produce => serve::<m::ProduceRequest>(ctx, call).await,
        Api::Fetch => serve::<m::FetchRequest>(ctx, call).await,
        Api::ListOffsets => serve::<m::ListOffsetsRequest>(ctx, call).await,
        Api::Metadata => serve::<m::MetadataRequest>(ctx, call).await,
        Api::OffsetCommit => serve::<m::OffsetCommitRequest>(ctx, call).await,
        Api::OffsetFetch => serve::<m::OffsetFetchRequest>(ctx, call).await,
        Api::FindCoordinator => serve::<m::FindCoordinatorRequest>(ctx, call).await,
        Api::JoinGroup => serve::<m::JoinGroupRequest>(ctx, call).await,
        Api::Heartbeat => serve::<m::HeartbeatRequest>(ctx, call).await,
        Api::LeaveGroup => serve::<m::LeaveGroupRequest>(ctx, call).await,
        Api::SyncGroup => serve::<m::SyncGroupRequest>(ctx, call).await,
        Api::SaslHandshake => serve::<m::SaslHandshakeRequest>(ctx, call).await,
        Api::SaslAuthenticate => serve::<m::SaslAuthenticateRequest>(ctx, call).await,
        Api::CreateTopics => serve::<m::CreateTopicsRequest>(ctx, call).await,
        Api::DeleteTopics => serve::<m::DeleteTopicsRequest>(ctx, call).await,
        Api::DeleteRecords => serve::<m::DeleteRecordsRequest>(ctx, call).await,
        Api::InitProducerId => serve::<m::InitProducerIdRequest>(ctx, call).await,
        Api::AddPartitionsToTxn => serve::<m::AddPartitionsToTxnRequest>(ctx, call).await,
        Api::AddOffsetsToTxn => serve::<m::AddOffsetsToTxnRequest>(ctx, call).await,
        Api::EndTxn => serve::<m::EndTxnRequest>(ctx, call).await,
        Api::TxnOffsetCommit => serve::<m::TxnOffsetCommitRequest>(ctx, call).await,
        Api::DescribeConfigs => serve::<m::DescribeConfigsRequest>(ctx, call).await,
        Api::DescribeCluster => serve::<m::DescribeClusterRequest>(ctx, call).await,
        Api::DescribeProducers => serve::<m::DescribeProducersRequest>(ctx, call).await,
        Api::DescribeTransactions => serve::<m::DescribeTransactionsRequest>(ctx, call).await,
        Api::ListTransactions => serve::<m::ListTransactionsRequest>(ctx, call).await,
        Api::WriteTxnMarkers => {
            let markers = write_txn_markers::read(&mut call)?;
            perform(ctx, call, markers).await
        }
        _ => Err(Unreadable),
    }
}

async fn serve<R>(ctx: &Context, mut call: Call) -> Result<Answer, Unreadable>
where
    R: Handler + Named + Decodable + 'static,
    R::Response: Encodable + Codes,
{
    let request: R = frame::body(&mut call)?;
    perform(ctx, call, request).await
}

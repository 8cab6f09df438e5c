//! ApiVersions, versions 0 to 5 (5 adds KIP-1242's cluster check, which nobody must use).
//!
//! - An unknown version is answered with a body of version 0, UNSUPPORTED_VERSION and this API's own range.
//! - The response header is always version 0.
//! - From version 3 on the client must name its software, else INVALID_REQUEST; the features come with it.
//! - Version 5 has the response of version 4.

use kafka_protocol::messages::api_versions_response::{ApiVersion, FinalizedFeatureKey, SupportedFeatureKey};
use kafka_protocol::messages::{ApiVersionsRequest, ApiVersionsResponse};

use super::text;
use crate::broker::dispatch::Answer;
use crate::broker::fault::Reaction;
use crate::broker::frame::{self, Call, Unreadable};
use crate::broker::journal::{Codes, Keys};
use crate::broker::perform;
use crate::broker::profile::Features;
use crate::broker::server::cut;
use crate::broker::shared::Context;
use crate::wire::api::Api;
use crate::wire::versions::VersionRange;
use kafka_protocol::error::ResponseError;

/// The newest version whose body the codec knows.
const NEWEST_BODY: i16 = 4;

/// Answers the call, or does what a fault says.
pub(crate) async fn answer(ctx: &Context, call: Call) -> Result<Answer, Unreadable> {
    let reaction = perform::reaction(ctx, &call, &Keys::default());
    let number = perform::note(ctx, &call, &Keys::default(), reaction);
    if let Some(Reaction::Delay(by) | Reaction::ApplyThenDelay(by) | Reaction::Freeze(by)) = reaction {
        tokio::time::sleep(by).await;
    }
    let range = ctx.shared.config.profile.range(Api::ApiVersions).ok_or(Unreadable)?;
    let (body, response) = match reaction {
        Some(Reaction::ErrorCode(code) | Reaction::ApplyThenErrorCode(code)) => {
            (call.version.min(NEWEST_BODY), ApiVersionsResponse::default().with_error_code(code))
        }
        _ if range.contains(call.version) => (call.version.min(NEWEST_BODY), versions(ctx, &call)?),
        _ => (0, unsupported(range)),
    };
    let frame = frame::response(&call, body, &response)?;
    match reaction {
        Some(Reaction::CutAnswer(bytes)) => Ok(Answer::Cut(cut(frame, bytes))),
        Some(Reaction::Crash | Reaction::ApplyThenCrash) => {
            ctx.shared.crash(ctx.node);
            Ok(Answer::Close)
        }
        Some(
            Reaction::Drop
            | Reaction::ApplyThenDrop
            | Reaction::CutRequest(_)
            | Reaction::Hold(_)
            | Reaction::HoldUntilDelivered,
        ) => Ok(Answer::Close),
        _ => {
            ctx.shared.journal().answered(number, response.first_error());
            Ok(Answer::Frame(frame))
        }
    }
}

fn unsupported(range: VersionRange) -> ApiVersionsResponse {
    ApiVersionsResponse::default()
        .with_error_code(ResponseError::UnsupportedVersion.code())
        .with_api_keys(vec![api_version(Api::ApiVersions, range)])
}

fn versions(ctx: &Context, call: &Call) -> Result<ApiVersionsResponse, Unreadable> {
    if call.version == 3 || call.version == 4 {
        let request: ApiVersionsRequest = frame::body(&mut call.clone())?;
        if !is_software_name(&request.client_software_name)
            || !is_software_name(&request.client_software_version)
        {
            let code = ResponseError::InvalidRequest.code();
            return Ok(ApiVersionsResponse::default().with_error_code(code));
        }
    }
    let profile = &ctx.shared.config.profile;
    let keys = profile.apis.iter().map(|(api, range)| api_version(*api, *range));
    let response = ApiVersionsResponse::default().with_api_keys(keys.collect());
    if call.version < 3 {
        return Ok(response);
    }
    if profile.features == Features::Unknown {
        return Ok(response);
    }
    let (level, epoch) = ctx.shared.cluster().transactions.features();
    let mut response = response.with_finalized_features_epoch(epoch);
    let name = text("transaction.version");
    let level = level.level();
    // A feature at level 0 is not listed.
    if level > 0 {
        let finalized = FinalizedFeatureKey::default()
            .with_name(name.clone())
            .with_max_version_level(level)
            .with_min_version_level(level);
        response.finalized_features = vec![finalized];
    }
    // Features whose lowest level is 0 are shown from version 4 on (KAFKA-17011).
    let knows_feature = profile.range(Api::EndTxn).is_some_and(|range| range.max >= 5);
    if call.version >= 4 && knows_feature {
        let supported =
            SupportedFeatureKey::default().with_name(name).with_min_version(0).with_max_version(2);
        response.supported_features = vec![supported];
    }
    Ok(response)
}

/// `[a-zA-Z0-9]([a-zA-Z0-9\-.]*[a-zA-Z0-9])?`
fn is_software_name(name: &str) -> bool {
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let inner = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    ends(name.chars().next()) && ends(name.chars().last()) && name.chars().all(inner)
}

fn api_version(api: Api, range: VersionRange) -> ApiVersion {
    ApiVersion::default().with_api_key(api.key()).with_min_version(range.min).with_max_version(range.max)
}

//! SaslHandshake 0 and 1, SaslAuthenticate 0 to 2: a listener that wants a login which nobody can give.
//!
//! - The handshake names the mechanism that there would be, and is UNSUPPORTED_SASL_MECHANISM, as that one is without
//!   users.
//! - A login without a handshake is ILLEGAL_SASL_STATE, and so is all of it where nobody logs in.

use kafka_protocol::error::ResponseError;
use kafka_protocol::messages::{
    SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest, SaslHandshakeResponse,
};

use super::{Handler, text};
use crate::broker::config::Security;
use crate::broker::shared::Context;

const MECHANISM: &str = "SCRAM-SHA-512";

impl Handler for SaslHandshakeRequest {
    type Response = SaslHandshakeResponse;

    async fn handle(self, ctx: &Context, version: i16) -> SaslHandshakeResponse {
        match ctx.shared.config.security {
            Security::Plaintext => self.refuse(version, ResponseError::IllegalSaslState.code()),
            Security::SaslOnly => self
                .refuse(version, ResponseError::UnsupportedSaslMechanism.code())
                .with_mechanisms(vec![text(MECHANISM)]),
        }
    }

    fn refuse(&self, _version: i16, code: i16) -> SaslHandshakeResponse {
        SaslHandshakeResponse::default().with_error_code(code)
    }
}

impl Handler for SaslAuthenticateRequest {
    type Response = SaslAuthenticateResponse;

    async fn handle(self, _ctx: &Context, version: i16) -> SaslAuthenticateResponse {
        self.refuse(version, ResponseError::IllegalSaslState.code())
    }

    fn refuse(&self, _version: i16, code: i16) -> SaslAuthenticateResponse {
        SaslAuthenticateResponse::default().with_error_code(code)
    }
}

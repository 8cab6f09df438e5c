//! Frames: the only place that turns a client's bytes into calls and responses into bytes.
//!
//! Every body passes `wire::guard` before the codec sees it.

use bytes::{Bytes, BytesMut};
use kafka_protocol::protocol::{Decodable, Encodable};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::wire::api::Api;
use crate::wire::frame::{FrameDecoder, FrameError, RequestHeader, encode_response_header, put_frame};
use crate::wire::guard;

/// A request whose header was read.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) api: Api,
    pub(crate) version: i16,
    pub(crate) correlation_id: i32,
    pub(crate) client_id: String,
    pub(crate) body: Bytes,
}

/// The bytes are no request that this broker can answer: the connection is to be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unreadable;

impl From<FrameError> for Unreadable {
    fn from(_: FrameError) -> Self {
        Self
    }
}

/// What came on a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Arrived {
    /// A whole frame.
    Frame(Bytes),
    /// The first bytes of one, which name its API.
    Head(Api),
    /// The connection's end, a length that no request has, or the place where a request is cut.
    End,
}

/// The bytes that name the API: its length, its key.
const HEAD_BYTES: usize = 6;

/// Reads one frame, or with `cut` unknown its head first. At `cut` bytes it ends.
pub(crate) async fn read(
    stream: &mut (impl AsyncRead + Unpin),
    decoder: FrameDecoder,
    buffer: &mut BytesMut,
    cut: Option<usize>,
) -> Arrived {
    loop {
        match cut {
            None => {
                let key = buffer.get(4..HEAD_BYTES).map(|key| i16::from_be_bytes([key[0], key[1]]));
                if let Some(api) = key.and_then(Api::from_key) {
                    return Arrived::Head(api);
                }
            }
            Some(limit) if buffer.len() >= limit => return Arrived::End,
            Some(_) => {}
        }
        match decoder.next_frame(buffer) {
            Ok(Some(frame)) => return Arrived::Frame(frame),
            Ok(None) => {}
            Err(_) => return Arrived::End,
        }
        match stream.read_buf(buffer).await {
            Ok(0) | Err(_) => return Arrived::End,
            Ok(_) => {}
        }
    }
}

/// Reads the header of a request.
pub(crate) fn call(mut frame: Bytes) -> Result<Call, Unreadable> {
    let header = RequestHeader::decode(&mut frame).map_err(|_| Unreadable)?;
    Ok(Call {
        api: header.api,
        version: header.version,
        correlation_id: header.correlation_id,
        client_id: header.client_id.unwrap_or_default(),
        body: frame,
    })
}

/// Checks the body of a call. Nothing may decode it before.
pub(crate) fn check(call: &Call) -> Result<(), Unreadable> {
    guard::check_request(call.api, call.version, &call.body).map_err(|error| {
        tracing::warn!(%error, "a request is refused");
        Unreadable
    })
}

/// Checks and reads the body of a call.
pub(crate) fn body<R: Decodable>(call: &mut Call) -> Result<R, Unreadable> {
    check(call)?;
    R::decode(&mut call.body, call.version).map_err(|_| Unreadable)
}

/// The frame of a response, whose body is encoded as `version`.
pub(crate) fn response<R: Encodable>(call: &Call, version: i16, body: &R) -> Result<Bytes, Unreadable> {
    let mut frame = BytesMut::new();
    put_frame(&mut frame, |out| {
        encode_response_header(out, call.api, version, call.correlation_id);
        body.encode(out, version).map_err(|error| {
            tracing::error!(api = %call.api, version, %error, "a response cannot be encoded");
            Unreadable
        })
    })?;
    Ok(frame.freeze())
}

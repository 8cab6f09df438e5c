//! Frames: the only place that turns a client's bytes into calls and responses into bytes.

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::{ApiKey, RequestHeader, ResponseHeader};
use kafka_protocol::protocol::{Decodable, Encodable};
use tokio::io::{AsyncRead, AsyncReadExt};

/// A request whose header was read.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) api: ApiKey,
    pub(crate) version: i16,
    pub(crate) correlation_id: i32,
    pub(crate) client_id: String,
    pub(crate) body: Bytes,
}

/// The bytes are no request that this broker can answer: the connection is to be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unreadable;

/// Reads one frame; `None` at the connection's end or when the frame exceeds `max_bytes`.
pub(crate) async fn read(stream: &mut (impl AsyncRead + Unpin), max_bytes: usize) -> Option<Bytes> {
    let length = usize::try_from(stream.read_i32().await.ok()?).ok()?;
    if length > max_bytes {
        return None;
    }
    // The buffer grows with what arrives, not with what the length claims.
    let mut frame = BytesMut::with_capacity(length.min(1 << 16));
    while frame.len() < length {
        let wanted = length - frame.len();
        let mut rest = (&mut *stream).take(u64::try_from(wanted).ok()?);
        if rest.read_buf(&mut frame).await.ok()? == 0 {
            return None;
        }
    }
    Some(frame.freeze())
}

/// Reads the header of a request.
pub(crate) fn call(mut frame: Bytes) -> Result<Call, Unreadable> {
    let (api, version) = match frame[..] {
        [a, b, c, d, ..] => (i16::from_be_bytes([a, b]), i16::from_be_bytes([c, d])),
        _ => return Err(Unreadable),
    };
    let api = ApiKey::try_from(api).map_err(|()| Unreadable)?;
    // An ApiVersions of an unknown version still gets an answer, so only the part before the tags is read.
    let known = api.valid_versions().min <= version && version <= api.valid_versions().max;
    let header_version =
        if known || api != ApiKey::ApiVersions { api.request_header_version(version) } else { 1 };
    let header = RequestHeader::decode(&mut frame, header_version).map_err(|_| Unreadable)?;
    Ok(Call {
        api,
        version,
        correlation_id: header.correlation_id,
        client_id: header.client_id.map(|id| id.to_string()).unwrap_or_default(),
        body: frame,
    })
}

/// Reads the body of a call.
pub(crate) fn body<R: Decodable>(call: &mut Call) -> Result<R, Unreadable> {
    R::decode(&mut call.body, call.version).map_err(|_| Unreadable)
}

/// The frame of a response, whose body is encoded as `version`.
pub(crate) fn response<R: Encodable>(call: &Call, version: i16, body: &R) -> Result<Bytes, Unreadable> {
    let mut frame = BytesMut::new();
    frame.extend_from_slice(&[0; 4]);
    let header = ResponseHeader::default().with_correlation_id(call.correlation_id);
    let header_version = call.api.response_header_version(version);
    header.encode(&mut frame, header_version).map_err(|_| Unreadable)?;
    body.encode(&mut frame, version).map_err(|error| {
        tracing::error!(api = ?call.api, version, %error, "a response cannot be encoded");
        Unreadable
    })?;
    let length = i32::try_from(frame.len() - 4).map_err(|_| Unreadable)?;
    frame[..4].copy_from_slice(&length.to_be_bytes());
    Ok(frame.freeze())
}

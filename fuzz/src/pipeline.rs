//! What happens to a frame that comes from the network: header off, guard, codec.

use bytes::{Bytes, BytesMut};
use kafka_2pc::wire::{
    api::Api,
    frame::{self, RequestHeader},
    guard::{self, Direction, MEMORY_PER_BYTE, MEMORY_SLACK_BYTES, sample},
    versions::reply_version,
};
use kafka_protocol::messages::{ApiKey, RequestKind, ResponseKind};

use crate::memory::peak_of;

/// How far a frame came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passage {
    /// The header could not be read, or names a version that the codec does not have.
    HeaderRefused,
    /// The guard refused the body.
    GuardRefused,
    /// The codec decoded it.
    Decoded {
        /// The most memory that decoding held at once, in bytes.
        peak_bytes: u64,
        /// The size of the body.
        body_bytes: u64,
    },
}

/// A broken promise of the guard.
#[derive(Debug, Clone)]
pub struct Violation(pub String);

/// A request, as a broker reads it: API and version are what the frame says.
///
/// # Errors
/// [`Violation`] when the guard let pass what the codec refuses, or what takes too much memory.
pub fn request(mut frame: Bytes) -> Result<Passage, Violation> {
    let Ok(header) = RequestHeader::decode(&mut frame) else { return Ok(Passage::HeaderRefused) };
    body(Direction::Request, header.api, header.version, frame)
}

/// A response to `version` of `api`, as a client reads it.
///
/// # Errors
/// [`Violation`] when the guard let pass what the codec refuses, or what takes too much memory.
pub fn response(api: Api, version: i16, mut frame: Bytes) -> Result<Passage, Violation> {
    if frame::decode_response_header(&mut frame, api, version).is_err() {
        return Ok(Passage::HeaderRefused);
    }
    let version = reply_version(api, version, &frame);
    body(Direction::Response, api, version, frame)
}

fn body(direction: Direction, api: Api, version: i16, body: Bytes) -> Result<Passage, Violation> {
    if !sample::versions(direction, api).contains(version) {
        return Ok(Passage::HeaderRefused);
    }
    if guard::check(direction, api, version, &body).is_err() {
        return Ok(Passage::GuardRefused);
    }
    let body_bytes = body.len() as u64;
    let mut rest = body.clone();
    let (decoded, peak_bytes) = peak_of(|| decode(direction, api, version, &mut rest));
    let place = format_args!("{api} {direction} version {version}");
    decoded.map_err(|error| Violation(format!("{place} passed the guard, then: {error:#}")))?;
    if !rest.is_empty() {
        return Err(Violation(format!("{place}: the codec left {} bytes", rest.len())));
    }
    if peak_bytes > MEMORY_PER_BYTE * body_bytes + MEMORY_SLACK_BYTES {
        return Err(Violation(format!("{place}: {peak_bytes} bytes of memory for {body_bytes}")));
    }
    again(direction, api, version, &body).map_err(|what| Violation(format!("{place}: {what}")))?;
    Ok(Passage::Decoded { peak_bytes, body_bytes })
}

/// What was decoded is encoded, passes the guard, and is decoded to the same.
fn again(direction: Direction, api: Api, version: i16, body: &Bytes) -> Result<(), String> {
    let message = Message::decode(direction, api, version, &mut body.clone()).map_err(|e| e.to_string())?;
    let mut encoded = BytesMut::new();
    message.encode(&mut encoded, version).map_err(|error| format!("is not encoded again: {error:#}"))?;
    let encoded = encoded.freeze();
    guard::check(direction, api, version, &encoded).map_err(|error| format!("encoded again: {error}"))?;
    let second = Message::decode(direction, api, version, &mut encoded.clone()).map_err(|e| e.to_string())?;
    if second == message { Ok(()) } else { Err(format!("{message:?} becomes {second:?}")) }
}

fn decode(direction: Direction, api: Api, version: i16, body: &mut Bytes) -> anyhow::Result<()> {
    // The decoded message is dropped inside the measurement, after the peak.
    Message::decode(direction, api, version, body).map(drop)
}

#[derive(Debug, PartialEq)]
enum Message {
    Request(RequestKind),
    Response(ResponseKind),
}

impl Message {
    fn decode(direction: Direction, api: Api, version: i16, body: &mut Bytes) -> anyhow::Result<Self> {
        let key =
            ApiKey::try_from(api.key()).map_err(|()| anyhow::anyhow!("the codec does not know {api}"))?;
        match direction {
            Direction::Request => RequestKind::decode(key, body, version).map(Self::Request),
            Direction::Response => ResponseKind::decode(key, body, version).map(Self::Response),
        }
    }

    fn encode(&self, out: &mut BytesMut, version: i16) -> anyhow::Result<()> {
        match self {
            Self::Request(request) => request.encode(out, version),
            Self::Response(response) => response.encode(out, version),
        }
    }
}

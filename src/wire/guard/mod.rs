//! The check that every frame passes before it is decoded.
//!
//! The codec reserves memory for as many elements as a frame announces, before it looks whether they are there: one
//! hostile count of four bytes aborts the process. So a walker goes over the whole body first, by a table of shapes
//! generated from Kafka's schemas, and compares every count and length with the bytes that are left. It allocates
//! nothing. What it lets pass, the codec decodes without an error (in the versions that it has), and within a bound on
//! memory: [`MEMORY_PER_BYTE`] times the body, plus [`MEMORY_SLACK_BYTES`].
//!
//! Refused as well: bytes after the body, tagged fields out of order or above 2147483647, and those whose size is not that of
//! what they hold. No broker sends these.
//!
//! ```text
//! frame -> header off (wire::frame) -> check_response / check_request -> kafka_protocol decode
//! ```

use std::fmt;

use super::{api::Api, versions::VersionRange};

#[cfg(feature = "fuzzing")]
pub mod sample;
#[cfg(all(test, not(feature = "fuzzing")))]
#[expect(unreachable_pub, reason = "public for fuzzers only")]
mod sample;
mod shape;
#[rustfmt::skip]
mod shapes;
mod walk;

/// Decoding a body that passed takes at most this many bytes of memory for each byte of the body, ...
pub const MEMORY_PER_BYTE: u64 = 64;

/// ... and this many bytes more, whatever its size.
pub const MEMORY_SLACK_BYTES: u64 = 64 * 1024;

/// Which way a message goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From client to broker.
    Request,
    /// From broker to client.
    Response,
}

/// A body that must not be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed {api} {direction} version {version}: {fault} in {field}, at byte {at} of the body")]
pub struct Malformed {
    /// The API.
    pub api: Api,
    /// Request or response.
    pub direction: Direction,
    /// The version in which the body was read.
    pub version: i16,
    /// The field, by its name in Kafka's schema.
    pub field: &'static str,
    /// Where in the body the walker stopped.
    pub at: usize,
    /// What is wrong.
    pub fault: Fault,
}

/// What is wrong with a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The API has no such version.
    #[error("an unknown version")]
    Version,
    /// The body ends too early, or a length points beyond its end.
    #[error("not enough bytes")]
    Truncated,
    /// A varint of more than 32 bits.
    #[error("an overlong varint")]
    Varint,
    /// A length or count below -1.
    #[error("a negative length")]
    Negative,
    /// Null where the version does not allow it.
    #[error("an unexpected null")]
    Null,
    /// More elements are announced than bytes are left.
    #[error("a count of {0} elements, more than bytes are left,")]
    Count(u32),
    /// A string that is not UTF-8.
    #[error("text that is not UTF-8")]
    Text,
    /// Tags that repeat or do not rise.
    #[error("a tag out of order")]
    TagOrder,
    /// A tag that is no positive number of 32 bits with a sign: Kafka has none, and the codec would read another number.
    #[error("a tag above 2147483647")]
    TagNumber,
    /// A known tag in a version that does not have it.
    #[error("a tag of another version")]
    TagVersion,
    /// A known tagged field that is not as long as it says.
    #[error("a tagged field of the wrong size")]
    TagSize,
    /// Bytes after the last field.
    #[error("bytes left over")]
    Trailing,
    /// So many small elements or unknown tags that the decoded message would break the bound on memory.
    #[error("too much memory needed")]
    Memory,
}

/// Checks the body of a request, header not included.
///
/// # Errors
/// [`Malformed`]: the body must not reach the codec.
pub fn check_request(api: Api, version: i16, body: &[u8]) -> Result<(), Malformed> {
    check(Direction::Request, api, version, body)
}

/// Checks the body of a response, header not included. `version` is the one the body is written in, see
/// [`reply_version`](super::versions::reply_version).
///
/// # Errors
/// [`Malformed`]: the body must not reach the codec.
pub fn check_response(api: Api, version: i16, body: &[u8]) -> Result<(), Malformed> {
    check(Direction::Response, api, version, body)
}

/// Checks the body of a request or response, header not included.
///
/// # Errors
/// [`Malformed`]: the body must not reach the codec.
pub fn check(direction: Direction, api: Api, version: i16, body: &[u8]) -> Result<(), Malformed> {
    walk::walk(&message(direction, api), version, body).map_err(|walk::Stop { field, at, fault }| Malformed {
        api,
        direction,
        version,
        field,
        at,
        fault,
    })
}

/// The versions that can be checked: those of the newest schemas, some newer than the codec knows.
#[must_use]
pub fn versions(direction: Direction, api: Api) -> VersionRange {
    let message = message(direction, api);
    VersionRange::new(message.min, message.max)
}

fn message(direction: Direction, api: Api) -> shape::Message {
    match direction {
        Direction::Request => shapes::request(api),
        Direction::Response => shapes::response(api),
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Request => "request",
            Self::Response => "response",
        })
    }
}

#[cfg(test)]
mod tests;

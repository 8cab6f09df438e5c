//! Frames and headers: a length, a header, a body.
//!
//! ```text
//! request   length i32 | key i16 | version i16 | correlation id i32 | client id | [tagged fields] | body
//! response  length i32 | correlation id i32 | [tagged fields] | body
//! ```
//! Nothing here is sized from a length on the wire: a frame is cut off only when all its bytes have come.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::{
    api::Api,
    cursor::{Cursor, Fault as Short},
};

/// The largest frame that is accepted unless told otherwise, in bytes: 100 MiB, as `socket.request.max.bytes`.
pub const DEFAULT_MAX_FRAME_BYTES: usize = 100 * 1024 * 1024;

const LENGTH_BYTES: usize = 4;
const SHORTEST_REQUEST: usize = 10;
const SHORTEST_RESPONSE: usize = 4;

/// Cuts a stream of bytes into frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameDecoder {
    shortest: usize,
    max_bytes: usize,
}

/// The header of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestHeader {
    /// The API.
    pub api: Api,
    /// Its version; of a request that was received, any number at all.
    pub version: i16,
    /// Comes back in the response.
    pub correlation_id: i32,
    /// The client's name for itself (`client.id`).
    pub client_id: Option<String>,
}

/// A length that no frame has. The connection is of no use any more: where the next frame begins is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The length is below zero.
    #[error("a frame of {0} bytes was announced")]
    Negative(i32),
    /// The length is zero.
    #[error("an empty frame was announced")]
    Empty,
    /// Not even the header fits.
    #[error("a frame of {bytes} bytes was announced, and a header alone has {header_bytes}")]
    Short {
        /// The length that was announced.
        bytes: usize,
        /// The size of the smallest header.
        header_bytes: usize,
    },
    /// The length is above the limit.
    #[error("a frame of {bytes} bytes is above the limit of {max_bytes}")]
    TooLarge {
        /// The length that was announced, or that the frame to be written has.
        bytes: usize,
        /// The limit.
        max_bytes: usize,
    },
}

/// A frame whose header cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// The header is cut off, or a length in it points beyond the frame.
    #[error("the header is cut off")]
    Truncated,
    /// An impossible length or varint.
    #[error("the header is malformed")]
    Malformed,
    /// The client id is not UTF-8.
    #[error("the client id is not UTF-8")]
    ClientId,
    /// The request is for an API that this crate does not speak.
    #[error("API key {key} version {version} is not known")]
    UnknownApi {
        /// The key.
        key: i16,
        /// The version.
        version: i16,
    },
}

impl FrameDecoder {
    /// A decoder for what a client receives. `max_bytes` limits one frame, its length field not counted.
    #[must_use]
    pub const fn responses(max_bytes: usize) -> Self {
        Self { shortest: SHORTEST_RESPONSE, max_bytes }
    }

    /// A decoder for what a broker receives.
    #[must_use]
    pub const fn requests(max_bytes: usize) -> Self {
        Self { shortest: SHORTEST_REQUEST, max_bytes }
    }

    /// The next whole frame, without its length field; `None` until more bytes have come.
    ///
    /// The frame shares the buffer's memory.
    ///
    /// # Errors
    /// [`FrameError`] as soon as the length field is there and cannot be right; the buffer is left as it is.
    pub fn next_frame(&self, buffer: &mut BytesMut) -> Result<Option<Bytes>, FrameError> {
        let Some(length) = buffer.first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let bytes = self.check(i32::from_be_bytes(*length))?;
        if buffer.len() - LENGTH_BYTES < bytes {
            return Ok(None);
        }
        buffer.advance(LENGTH_BYTES);
        Ok(Some(buffer.split_to(bytes).freeze()))
    }

    fn check(&self, announced: i32) -> Result<usize, FrameError> {
        let bytes = usize::try_from(announced).map_err(|_| FrameError::Negative(announced))?;
        match bytes {
            0 => Err(FrameError::Empty),
            _ if bytes < self.shortest => Err(FrameError::Short { bytes, header_bytes: self.shortest }),
            _ if bytes > self.max_bytes => Err(FrameError::TooLarge { bytes, max_bytes: self.max_bytes }),
            _ => Ok(bytes),
        }
    }
}

impl Default for FrameDecoder {
    /// Responses of at most [`DEFAULT_MAX_FRAME_BYTES`].
    fn default() -> Self {
        Self::responses(DEFAULT_MAX_FRAME_BYTES)
    }
}

/// Appends one frame to `out`: `write` appends header and body, the length is filled in after.
///
/// # Errors
/// What `write` returns, or [`FrameError::TooLarge`] for more than 2 GiB; `out` is then as before.
pub fn put_frame<E: From<FrameError>>(
    out: &mut BytesMut,
    write: impl FnOnce(&mut BytesMut) -> Result<(), E>,
) -> Result<(), E> {
    let start = out.len();
    out.put_i32(0);
    let written = write(out).and_then(|()| {
        let bytes = out.len() - start - LENGTH_BYTES;
        i32::try_from(bytes).map_err(|_| FrameError::TooLarge { bytes, max_bytes: i32::MAX as usize }.into())
    });
    match written {
        Ok(length) => {
            out[start..start + LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
            Ok(())
        }
        Err(error) => {
            out.truncate(start);
            Err(error)
        }
    }
}

impl RequestHeader {
    /// Appends the header. A client id of more than 32767 bytes is sent as none.
    pub fn encode(&self, out: &mut BytesMut) {
        out.put_i16(self.api.key());
        out.put_i16(self.version);
        out.put_i32(self.correlation_id);
        // The client id keeps its two-byte length in the flexible header too.
        match self.client_id.as_deref().map(|id| (i16::try_from(id.len()), id)) {
            Some((Ok(length), id)) => {
                out.put_i16(length);
                out.put_slice(id.as_bytes());
            }
            Some((Err(_), _)) | None => out.put_i16(-1),
        }
        if self.api.request_header_version(self.version) >= 2 {
            out.put_u8(0);
        }
    }

    /// Takes the header off a frame, so that the body is left. Its tagged fields are skipped.
    ///
    /// A version that we do not know still has a header that can be read: a broker must be able to refuse it.
    ///
    /// # Errors
    /// [`HeaderError`]; the frame is left as it is.
    pub fn decode(frame: &mut Bytes) -> Result<Self, HeaderError> {
        let mut cursor = Cursor::new(frame);
        let (key, version) = (cursor.i16()?, cursor.i16()?);
        let correlation_id = cursor.i32()?;
        let api = Api::from_key(key).ok_or(HeaderError::UnknownApi { key, version })?;
        let client_id = match cursor.i16()? {
            -1 => None,
            length => {
                let length = usize::try_from(length).map_err(|_| HeaderError::Malformed)?;
                let text = std::str::from_utf8(cursor.slice(length)?).map_err(|_| HeaderError::ClientId)?;
                Some(text.to_owned())
            }
        };
        if api.request_header_version(version) >= 2 {
            cursor.skip_tagged_fields()?;
        }
        let header_bytes = frame.len() - cursor.remaining();
        frame.advance(header_bytes);
        Ok(Self { api, version, correlation_id, client_id })
    }
}

/// Appends the header of a response to `version` of `api`.
pub fn encode_response_header(out: &mut BytesMut, api: Api, version: i16, correlation_id: i32) {
    out.put_i32(correlation_id);
    if api.response_header_version(version) >= 1 {
        out.put_u8(0);
    }
}

/// Takes the header off a response frame, so that the body is left, and returns the correlation id.
///
/// # Errors
/// [`HeaderError`]; the frame is left as it is.
pub fn decode_response_header(frame: &mut Bytes, api: Api, version: i16) -> Result<i32, HeaderError> {
    let mut cursor = Cursor::new(frame);
    let correlation_id = cursor.i32()?;
    if api.response_header_version(version) >= 1 {
        cursor.skip_tagged_fields()?;
    }
    let header_bytes = frame.len() - cursor.remaining();
    frame.advance(header_bytes);
    Ok(correlation_id)
}

/// The correlation id of a response frame, to find out which request it answers; `None` if the frame is too short.
#[must_use]
pub fn correlation_id(frame: &[u8]) -> Option<i32> {
    frame.first_chunk().map(|id| i32::from_be_bytes(*id))
}

impl From<Short> for HeaderError {
    fn from(short: Short) -> Self {
        match short {
            Short::End => Self::Truncated,
            Short::Varint => Self::Malformed,
        }
    }
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;

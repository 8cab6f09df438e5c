//! Which codecs are built in, and what becomes of their numbers on the wire.
//!
//! Every decompressor is given the most bytes that it may put out, and reserves nothing for what the compressed bytes
//! claim.

#[cfg(feature = "gzip")]
pub(super) mod gzip;
#[cfg(feature = "lz4")]
pub(super) mod lz4;
#[cfg(feature = "snappy")]
pub(super) mod snappy;
#[cfg(feature = "zstd")]
pub(super) mod zstd;

use bytes::Bytes;

use super::{BatchError, HEADER_BYTES};
use crate::record::{Compression, CompressionLevels};

/// Why a batch could not be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// There is no record in it.
    #[error("a batch without records cannot be sent")]
    Empty,
    /// The codec is not part of this build.
    #[error("{0} compression is not part of this build: build with the feature `{0}`")]
    NotBuilt(Compression),
    /// The codec's library refuses.
    #[error("the records cannot be compressed with {0}")]
    Failed(Compression),
    /// The compressed records pass 2 GiB.
    #[error("the compressed batch has {bytes} bytes, more than 2 GiB")]
    TooLarge {
        /// The size of the compressed batch.
        bytes: usize,
    },
}

/// The codec's number in the attributes.
pub(super) fn codec(compression: Compression) -> i16 {
    match compression {
        Compression::None => 0,
        Compression::Gzip => 1,
        Compression::Snappy => 2,
        Compression::Lz4 => 3,
        Compression::Zstd => 4,
    }
}

/// The codec of a number in the attributes.
pub(super) fn compression(codec: u8) -> Option<Compression> {
    Compression::ALL.get(usize::from(codec)).copied()
}

/// The batch in `plain`, a header and records, with the records compressed; nothing if they stay as they are.
pub(super) fn compress(
    compression: Compression,
    levels: CompressionLevels,
    plain: &[u8],
) -> Result<Option<Vec<u8>>, SealError> {
    if compression == Compression::None {
        return Ok(None);
    }
    let (header, records) = plain.split_at(HEADER_BYTES);
    // Half is a guess that suits text; the buffer grows where it is wrong.
    let mut out = Vec::with_capacity(HEADER_BYTES + records.len() / 2);
    out.extend_from_slice(header);
    append(compression, levels, records, &mut out)?;
    Ok(Some(out))
}

/// Appends `records` to `out`, compressed.
fn append(
    compression: Compression,
    levels: CompressionLevels,
    records: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), SealError> {
    let level = levels.of(compression).unwrap_or_default();
    let written = match compression {
        Compression::None => {
            out.extend_from_slice(records);
            Some(())
        }
        #[cfg(feature = "gzip")]
        Compression::Gzip => gzip::write(records, level, out),
        #[cfg(feature = "snappy")]
        Compression::Snappy => snappy::write(records, out),
        #[cfg(feature = "lz4")]
        Compression::Lz4 => {
            lz4::write(records, out);
            Some(())
        }
        #[cfg(feature = "zstd")]
        Compression::Zstd => zstd::write(records, level, out),
        #[cfg(not(all(feature = "gzip", feature = "snappy", feature = "lz4", feature = "zstd")))]
        _ => {
            _ = level;
            return Err(SealError::NotBuilt(compression));
        }
    };
    written.ok_or(SealError::Failed(compression))
}

/// The records in `body`, decompressed into at most `limit` bytes.
#[cfg_attr(
    not(any(feature = "gzip", feature = "snappy", feature = "lz4", feature = "zstd")),
    expect(unused_variables, reason = "nothing grows")
)]
pub(super) fn decompress(codec: u8, body: Bytes, limit: usize) -> Result<Bytes, BatchError> {
    match compression(codec) {
        Some(Compression::None) => Ok(body),
        #[cfg(feature = "gzip")]
        Some(Compression::Gzip) => gzip::read(&body, limit).map(Bytes::from),
        #[cfg(feature = "snappy")]
        Some(Compression::Snappy) => snappy::read(&body, limit).map(Bytes::from),
        #[cfg(feature = "lz4")]
        Some(Compression::Lz4) => lz4::read(&body, limit).map(Bytes::from),
        #[cfg(feature = "zstd")]
        Some(Compression::Zstd) => zstd::read(&body, limit).map(Bytes::from),
        _ => Err(BatchError::Codec { codec }),
    }
}

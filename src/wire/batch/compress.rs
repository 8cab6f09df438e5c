//! Which codecs are built in.

use bytes::Bytes;

use super::BatchError;
use crate::record::Compression;

/// Why a batch could not be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// There is no record in it.
    #[error("a batch without records cannot be sent")]
    Empty,
    /// The codec is not part of this build.
    #[error("{0:?} compression is not part of this build")]
    NotBuilt(Compression),
    /// The compressed records pass 2 GiB.
    #[error("the compressed batch has {bytes} bytes, more than 2 GiB")]
    TooLarge {
        /// The size of the compressed batch.
        bytes: usize,
    },
}

/// LZ4's number in the attributes.
const LZ4: u8 = 3;

/// The codec's number in the attributes.
pub(super) fn codec(compression: Compression) -> i16 {
    match compression {
        Compression::None => 0,
        Compression::Lz4 => i16::from(LZ4),
    }
}

/// The batch in `plain`, a header and records, with the records compressed; nothing if they stay as they are.
#[cfg_attr(not(feature = "lz4"), expect(unused_variables, reason = "there is nothing to compress with"))]
pub(super) fn compress(compression: Compression, plain: &[u8]) -> Result<Option<Vec<u8>>, SealError> {
    match compression {
        Compression::None => Ok(None),
        #[cfg(feature = "lz4")]
        Compression::Lz4 => {
            // Half is a guess that suits text; the buffer grows where it is wrong.
            let mut out = Vec::with_capacity(super::HEADER_BYTES + plain.len() / 2);
            out.extend_from_slice(&plain[..super::HEADER_BYTES]);
            super::lz4::write(&plain[super::HEADER_BYTES..], &mut out);
            Ok(Some(out))
        }
        #[cfg(not(feature = "lz4"))]
        Compression::Lz4 => Err(SealError::NotBuilt(compression)),
    }
}

/// The records in `body`, decompressed into at most `limit` bytes.
#[cfg_attr(not(feature = "lz4"), expect(unused_variables, reason = "nothing grows"))]
pub(super) fn decompress(codec: u8, body: Bytes, limit: usize) -> Result<Bytes, BatchError> {
    match codec {
        0 => Ok(body),
        #[cfg(feature = "lz4")]
        LZ4 => super::lz4::read(&body, limit).map(Bytes::from),
        codec => Err(BatchError::Codec { codec }),
    }
}

//! Which codecs are built in.

use super::HEADER_BYTES;
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

/// The codec's number in the attributes.
pub(super) fn codec(compression: Compression) -> i16 {
    match compression {
        Compression::None => 0,
        Compression::Lz4 => 3,
    }
}

/// The batch in `plain`, a header and records, with the records compressed; nothing if they stay as they are.
pub(super) fn compress(compression: Compression, plain: &[u8]) -> Result<Option<Vec<u8>>, SealError> {
    match compression {
        Compression::None => Ok(None),
        #[cfg(feature = "lz4")]
        Compression::Lz4 => {
            // Half is a guess that suits text; the buffer grows where it is wrong.
            let mut out = Vec::with_capacity(HEADER_BYTES + plain.len() / 2);
            out.extend_from_slice(&plain[..HEADER_BYTES]);
            super::lz4::write(&plain[HEADER_BYTES..], &mut out);
            Ok(Some(out))
        }
        #[cfg(not(feature = "lz4"))]
        Compression::Lz4 => Err(SealError::NotBuilt(compression)),
    }
}

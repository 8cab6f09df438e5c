//! Gzip, as RFC 1952 has it; several members are one stream.

use std::io::{Read, Write};

use flate2::{Compression, bufread::MultiGzDecoder, write::GzEncoder};

use super::BatchError;

/// Appends one member that holds `plain`; nothing if the library fails, which it has no reason to.
pub(in crate::wire::batch) fn write(plain: &[u8], level: i32, out: &mut Vec<u8>) -> Option<()> {
    // What is no effort of the library, -1, is its default one.
    let level = u32::try_from(level).map_or_else(|_| Compression::default(), Compression::new);
    let mut encoder = GzEncoder::new(out, level);
    encoder.write_all(plain).ok()?;
    encoder.finish().ok().map(|_| ())
}

/// The content of all members in `input`, at most `limit` bytes.
///
/// Room grows with what came out, so a bomb costs twice the limit at most.
pub(in crate::wire::batch) fn read(input: &[u8], limit: usize) -> Result<Vec<u8>, BatchError> {
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    let mut content = Vec::new();
    let damaged = |_| BatchError::Compressed { reason: "the gzip stream is damaged or cut off" };
    MultiGzDecoder::new(input).take(most).read_to_end(&mut content).map_err(damaged)?;
    if content.len() > limit {
        return Err(BatchError::TooLarge { limit });
    }
    Ok(content)
}

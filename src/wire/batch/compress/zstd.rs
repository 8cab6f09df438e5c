//! Zstandard frames. They are read by a decoder in Rust; frames of all kinds but those with dictionaries.
//!
//! Written frames carry a checksum of their content, so that whoever reads them notices if our encoder were wrong.

use ruzstd::decoding::{
    BlockDecodingStrategy, FrameDecoder,
    errors::{FrameDecoderError, ReadFrameHeaderError},
};

use super::BatchError;

/// Appends one frame that holds `plain`. There is one effort, whatever the level. It makes as little of
/// the records as libzstd does between its levels -5 and -1.
#[cfg(not(feature = "zstd-c"))]
pub(in crate::wire::batch) fn write(plain: &[u8], _level: i32, out: &mut Vec<u8>) -> Option<()> {
    ruzstd::encoding::compress(plain, out, ruzstd::encoding::CompressionLevel::Fastest);
    Some(())
}

/// Appends one frame that holds `plain`; nothing if the library fails, which it does when memory lacks.
#[cfg(feature = "zstd-c")]
pub(in crate::wire::batch) fn write(plain: &[u8], level: i32, out: &mut Vec<u8>) -> Option<()> {
    let mut encoder = libzstd::bulk::Compressor::new(level).ok()?;
    encoder.include_checksum(true).ok()?;
    let start = out.len();
    out.resize(start + libzstd::zstd_safe::compress_bound(plain.len()), 0);
    let size = encoder.compress_to_buffer(plain, &mut out[start..]).ok()?;
    out.truncate(start + size);
    Some(())
}

/// The content of all frames in `input`, at most `limit` bytes.
///
/// A block gives 128 KiB at most, and it is looked at how much came out after each. What a frame may still refer to is
/// kept beside the content: its window, 128 MiB at most, of which only what is filled takes memory.
pub(in crate::wire::batch) fn read(mut input: &[u8], limit: usize) -> Result<Vec<u8>, BatchError> {
    let mut content = Vec::new();
    while !input.is_empty() {
        // A decoder that is used again would reserve the window that a frame claims.
        let mut decoder = FrameDecoder::new();
        match decoder.init(&mut input) {
            Ok(()) => read_frame(&mut decoder, &mut input, &mut content, limit)?,
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length, ..
            })) => {
                let behind = usize::try_from(length).ok().and_then(|length| input.get(length..));
                input = behind.ok_or_else(|| malformed("a zstd frame that is to be skipped is cut off"))?;
            }
            Err(_) => return Err(malformed("it is no zstd frame that can be read")),
        }
    }
    Ok(content)
}

fn read_frame(
    decoder: &mut FrameDecoder,
    input: &mut &[u8],
    content: &mut Vec<u8>,
    limit: usize,
) -> Result<(), BatchError> {
    let left = limit - content.len();
    if usize::try_from(decoder.content_size()).map_or(true, |claimed| claimed > left) {
        return Err(BatchError::TooLarge { limit });
    }
    while !decoder.is_finished() {
        decoder
            .decode_blocks(&mut *input, BlockDecodingStrategy::UptoBlocks(1))
            .map_err(|_| malformed("a zstd frame is damaged or cut off"))?;
        decoder.collect_to_writer(&mut *content).map_err(|_| malformed("a zstd frame cannot be read"))?;
        if content.len() > limit {
            return Err(BatchError::TooLarge { limit });
        }
    }
    match decoder.get_checksum_from_data() {
        Some(stored) if decoder.get_calculated_checksum() != Some(stored) => {
            Err(malformed("a zstd frame has another checksum than it says"))
        }
        Some(_) | None => Ok(()),
    }
}

fn malformed(reason: &'static str) -> BatchError {
    BatchError::Compressed { reason }
}

//! Zstandard frames. They are read by a decoder in Rust; frames of all kinds but those with dictionaries.
//!
//! Written frames carry a checksum of their content, so that whoever reads them notices if our encoder were wrong.

use std::io::Read;

use ruzstd::decoding::{
    BlockDecodingStrategy, FrameDecoder,
    errors::{FrameDecoderError, ReadFrameHeaderError},
};

use super::BatchError;

/// What a frame begins with.
const MAGIC: [u8; 4] = 0xfd2f_b528u32.to_le_bytes();

/// The flag of a frame that has no window but its content.
const SINGLE_SEGMENT: u8 = 1 << 5;

/// The exponent of the least window.
const LEAST_WINDOW: u32 = 10;

/// The widest window that is read, 128 MiB, as the header says it; libzstd's own limit.
const WIDEST: u8 = 17 << 3;

/// The most that comes out of a block.
const BLOCK_BYTES: usize = 128 << 10;

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
/// A block gives 128 KiB at most, and it is looked at how much came out after each. What a frame may still refer to, its
/// window, is kept beside the content, and takes memory as it is filled.
pub(in crate::wire::batch) fn read(mut input: &[u8], limit: usize) -> Result<Vec<u8>, BatchError> {
    let mut content = Vec::new();
    while !input.is_empty() {
        // A decoder that is used again would reserve the window that a frame claims.
        let mut decoder = FrameDecoder::new();
        let begun = match narrowed(input, limit) {
            Some(header) => {
                input = &input[header.len()..];
                decoder.init((&header[..]).chain(&mut input))
            }
            None => decoder.init(&mut input),
        };
        match begun {
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

/// The beginning of a frame whose window is wider than the limit, with one that is not: nothing that may come out lies
/// further back. A window that libzstd refuses, too, stays as it is.
fn narrowed(input: &[u8], limit: usize) -> Option<[u8; 6]> {
    let &[a, b, c, d, flags, window] = input.first_chunk()?;
    let exponent = limit.max(BLOCK_BYTES).checked_next_power_of_two()?.ilog2().saturating_sub(LEAST_WINDOW);
    // Three bits behind the exponent say how many eighths are added.
    let enough = u8::try_from(exponent << 3).ok()?;
    let is_wide = flags & SINGLE_SEGMENT == 0 && window > enough && window <= WIDEST;
    (is_wide && [a, b, c, d] == MAGIC).then_some([a, b, c, d, flags, enough])
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

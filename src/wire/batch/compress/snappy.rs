//! Snappy, in the framing of Java's `SnappyOutputStream` (xerial), or as one bare block, which librdkafka writes.
//!
//! ```text
//! 0x82 "SNAPPY" 0x00 | version i32 | oldest version that can read it i32 | blocks: length i32, block
//! ```

use snap::raw::{Decoder, Encoder, decompress_len, max_compress_len};

use super::BatchError;
use crate::wire::cursor::{Cursor, Fault};

const MAGIC: [u8; 8] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];

/// Magic and both versions, which are 1.
const FRAME_HEADER: [u8; 16] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1];

/// The version that we read.
const VERSION: i32 = 1;

/// The bytes of a block before compression, as in Java.
const BLOCK_BYTES: usize = 32 << 10;

/// No block grows by more than this factor: a copy of 64 bytes takes 3.
const MOST_GROWTH: usize = 22;

/// Appends a framed stream that holds `plain`; nothing if the library fails, which it has no reason to.
pub(in crate::wire::batch) fn write(plain: &[u8], out: &mut Vec<u8>) -> Option<()> {
    out.extend_from_slice(&FRAME_HEADER);
    let mut encoder = Encoder::new();
    for block in plain.chunks(BLOCK_BYTES) {
        let size_at = out.len();
        let start = size_at + 4;
        out.resize(start + max_compress_len(block.len()), 0);
        let size = encoder.compress(block, &mut out[start..]).ok()?;
        out.truncate(start + size);
        out[size_at..start].copy_from_slice(&i32::try_from(size).ok()?.to_be_bytes());
    }
    Some(())
}

/// The content of `input`, framed or not, at most `limit` bytes.
pub(in crate::wire::batch) fn read(input: &[u8], limit: usize) -> Result<Vec<u8>, BatchError> {
    let mut content = Vec::new();
    if !input.starts_with(&MAGIC) {
        append(input, &mut content, limit)?;
        return Ok(content);
    }
    let mut cursor = Cursor::new(input);
    while cursor.remaining() > 0 {
        // Streams behind one another are one; a block cannot have a size that looks like the magic.
        if input[input.len() - cursor.remaining()..].starts_with(&MAGIC) {
            read_header(&mut cursor)?;
            continue;
        }
        let size = usize::try_from(cursor.i32().map_err(cut)?);
        let size = size.map_err(|_| malformed("a snappy block has a negative size"))?;
        append(cursor.slice(size).map_err(cut)?, &mut content, limit)?;
    }
    Ok(content)
}

fn read_header(cursor: &mut Cursor<'_>) -> Result<(), BatchError> {
    cursor.slice(MAGIC.len()).map_err(cut)?;
    let (_version, oldest) = (cursor.i32().map_err(cut)?, cursor.i32().map_err(cut)?);
    if oldest > VERSION {
        return Err(malformed("the snappy framing is of an unknown version"));
    }
    Ok(())
}

/// Decompresses one block behind what is there.
fn append(block: &[u8], content: &mut Vec<u8>, limit: usize) -> Result<(), BatchError> {
    let damaged = |_| malformed("a snappy block is damaged");
    let size = decompress_len(block).map_err(damaged)?;
    if size > block.len().saturating_mul(MOST_GROWTH) {
        return Err(malformed("a snappy block claims more than it can hold"));
    }
    if size > limit - content.len() {
        return Err(BatchError::TooLarge { limit });
    }
    let start = content.len();
    content.resize(start + size, 0);
    // It fails unless it fills the room.
    Decoder::new().decompress(block, &mut content[start..]).map_err(damaged)?;
    Ok(())
}

fn malformed(reason: &'static str) -> BatchError {
    BatchError::Compressed { reason }
}

fn cut(_: Fault) -> BatchError {
    malformed("the snappy stream is cut off")
}

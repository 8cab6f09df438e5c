//! LZ4 frames, written as Kafka's `Lz4BlockOutputStream` writes them and read as anybody writes them.
//!
//! The frame is ours and only the blocks are the crate's: blocks go straight from and into the batch's buffer, memory
//! is bounded by what was decompressed so far and not by what the frame declares, and several frames are one stream.

use lz4_flex::block::{
    CompressTable, DecompressError, compress_into_with_table, decompress_into, decompress_into_with_dict,
    get_maximum_output_size,
};

use super::BatchError;
use crate::wire::cursor::{Cursor, Fault};

/// What every frame begins with.
const MAGIC: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];

/// Version 1, independent blocks (Kafka's broker and Java client refuse linked ones), no checksums and no content size,
/// blocks of at most 64 KiB; the last byte is the checksum of the two before it.
const FRAME_HEADER: [u8; 7] = [0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82];

/// The block size that the header declares.
const BLOCK_BYTES: usize = 64 << 10;

/// The bit of a block's size that says "stored as it is".
const STORED: u32 = 1 << 31;

/// How far back a block may refer to the ones before it.
const WINDOW: usize = 64 << 10;

/// No block grows by more than this factor: one byte of a length stands for 255 bytes.
const MOST_GROWTH: usize = 255;

/// Appends one frame that holds `plain`.
pub(in crate::wire::batch) fn write(plain: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&FRAME_HEADER);
    let mut table = CompressTable::default();
    for block in plain.chunks(BLOCK_BYTES) {
        let size_at = out.len();
        let start = size_at + 4;
        out.resize(start + get_maximum_output_size(block.len()), 0);
        let size = match compress_into_with_table(block, &mut out[start..], &mut table) {
            Ok(size) if size < block.len() => {
                out.truncate(start + size);
                block_size(size)
            }
            // It did not get smaller.
            Ok(_) | Err(_) => {
                out.truncate(start);
                out.extend_from_slice(block);
                block_size(block.len()) | STORED
            }
        };
        out[size_at..start].copy_from_slice(&size.to_le_bytes());
    }
    out.extend_from_slice(&0u32.to_le_bytes());
}

/// A block's size as a number of the frame; at most [`BLOCK_BYTES`].
fn block_size(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// What a frame's header says about its blocks.
struct Frame {
    /// Blocks refer to the ones before them.
    linked: bool,
    block_checksums: bool,
    content_checksum: bool,
    most_block_bytes: usize,
}

/// What was decompressed so far: `filled` bytes, and behind them room that was cleared before.
struct Output {
    bytes: Vec<u8>,
    filled: usize,
    limit: usize,
}

/// The content of all frames in `input`, at most `limit` bytes.
///
/// Checksums inside the frames are passed over: the batch's own covers the same bytes.
pub(in crate::wire::batch) fn read(input: &[u8], limit: usize) -> Result<Vec<u8>, BatchError> {
    let mut cursor = Cursor::new(input);
    let mut output = Output { bytes: Vec::new(), filled: 0, limit };
    while cursor.remaining() > 0 {
        let frame = read_header(&mut cursor)?;
        let start = output.filled;
        while let Some((size, stored)) = read_block_size(&mut cursor)? {
            if size > frame.most_block_bytes {
                return Err(malformed("an LZ4 block is larger than its frame allows"));
            }
            let block = cursor.slice(size).map_err(cut)?;
            if frame.block_checksums {
                cursor.i32().map_err(cut)?;
            }
            if stored {
                output.store(block)?;
            } else {
                // Without links a block sees nothing before itself, with them at most the frame so far.
                let window = if frame.linked { (output.filled - start).min(WINDOW) } else { 0 };
                output.decompress(block, window, frame.most_block_bytes)?;
            }
        }
        if frame.content_checksum {
            cursor.i32().map_err(cut)?;
        }
    }
    output.bytes.truncate(output.filled);
    Ok(output.bytes)
}

fn read_header(cursor: &mut Cursor<'_>) -> Result<Frame, BatchError> {
    if cursor.slice(MAGIC.len()).map_err(cut)? != MAGIC {
        return Err(malformed("it is no LZ4 frame"));
    }
    let (flags, block) = (cursor.u8().map_err(cut)?, cursor.u8().map_err(cut)?);
    if flags >> 6 != 1 || flags & 0b10 != 0 {
        return Err(malformed("the LZ4 frame is of an unknown version"));
    }
    if flags & 1 != 0 {
        return Err(malformed("the LZ4 frame needs a dictionary"));
    }
    let most_block_bytes = match block >> 4 & 0b111 {
        4 => 64 << 10,
        5 => 256 << 10,
        6 => 1 << 20,
        7 => 4 << 20,
        _ => return Err(malformed("the LZ4 frame has an unknown block size")),
    };
    // The size of the content, which nobody needs to believe, and the header's checksum.
    let passed_over = if flags & 0b1000 == 0 { 1 } else { 9 };
    cursor.slice(passed_over).map_err(cut)?;
    Ok(Frame {
        linked: flags & 0b10_0000 == 0,
        block_checksums: flags & 0b1_0000 != 0,
        content_checksum: flags & 0b100 != 0,
        most_block_bytes,
    })
}

/// The next block's size, and whether it is stored as it is; nothing at the end of the frame.
fn read_block_size(cursor: &mut Cursor<'_>) -> Result<Option<(usize, bool)>, BatchError> {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(cursor.slice(4).map_err(cut)?);
    let number = u32::from_le_bytes(bytes);
    let size = usize::try_from(number & !STORED).map_err(|_| malformed("an LZ4 block is too large"))?;
    Ok((number != 0).then_some((size, number & STORED != 0)))
}

impl Output {
    fn store(&mut self, block: &[u8]) -> Result<(), BatchError> {
        if block.len() > self.limit - self.filled {
            return Err(BatchError::TooLarge { limit: self.limit });
        }
        self.room(block.len()).1.copy_from_slice(block);
        self.filled += block.len();
        Ok(())
    }

    fn decompress(&mut self, block: &[u8], window: usize, most: usize) -> Result<(), BatchError> {
        let limit = self.limit;
        let room = most.min(limit - self.filled).min(block.len().saturating_mul(MOST_GROWTH));
        let (before, room) = self.room(room);
        let is_tight = room.len() < most;
        let result = match window {
            0 => decompress_into(block, room),
            _ => decompress_into_with_dict(block, room, &before[before.len() - window..]),
        };
        self.filled += result.map_err(|error| {
            if is_tight && matches!(error, DecompressError::OutputTooSmall { .. }) {
                BatchError::TooLarge { limit }
            } else {
                malformed("an LZ4 block is damaged")
            }
        })?;
        Ok(())
    }

    /// What was decompressed so far, and `len` bytes to put more in. Room that was cleared once stays for the next
    /// block, so that small blocks cannot make us clear large memory again and again.
    fn room(&mut self, len: usize) -> (&[u8], &mut [u8]) {
        let end = self.filled + len;
        if end > self.bytes.len() {
            self.bytes.resize(end, 0);
        }
        let (before, after) = self.bytes.split_at_mut(self.filled);
        (before, &mut after[..len])
    }
}

fn malformed(reason: &'static str) -> BatchError {
    BatchError::Compressed { reason }
}

fn cut(_: Fault) -> BatchError {
    malformed("the LZ4 frame is cut off")
}

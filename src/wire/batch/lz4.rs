//! LZ4 frames, written as Kafka's `Lz4BlockOutputStream` writes them and read as anybody writes them.
//!
//! The frame is ours and only the blocks are the crate's: blocks go straight from and into the batch's buffer, memory
//! is bounded by what was decompressed so far and not by what the frame declares, and several frames are one stream.

use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};

/// Version 1, independent blocks (Kafka's broker and Java client refuse linked ones), no checksums and no content size,
/// blocks of at most 64 KiB; the last byte is the checksum of the two before it.
const FRAME_HEADER: [u8; 7] = [0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82];

/// The block size that the header declares.
const BLOCK_BYTES: usize = 64 << 10;

/// The bit of a block's size that says "stored as it is".
const STORED: u32 = 1 << 31;

/// Appends one frame that holds `plain`.
pub(super) fn write(plain: &[u8], out: &mut Vec<u8>) {
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

//! Zstandard frames of all kinds, and of none.

use super::{forged, read, text, with_body};
use crate::wire::batch::{BatchError, at, compress::zstd};

/// Of every frame.
const MAGIC: [u8; 4] = 0xfd2f_b528u32.to_le_bytes();

fn written(content: &[u8], level: i32) -> Vec<u8> {
    let mut frame = Vec::new();
    zstd::write(content, level, &mut frame).unwrap();
    frame
}

/// A frame with an exact content size, made of blocks of one repeated byte.
fn repeated(blocks: u64, size: u64) -> Vec<u8> {
    let mut frame = MAGIC.to_vec();
    // One segment, 8 bytes of content size.
    frame.push(0b1110_0000);
    frame.extend_from_slice(&(blocks * size).to_le_bytes());
    for number in 1..=blocks {
        let header = size << 3 | 1 << 1 | u64::from(number == blocks);
        frame.extend_from_slice(&header.to_le_bytes()[..3]);
        frame.push(b'x');
    }
    frame
}

fn refused(frame: &[u8]) -> &'static str {
    match zstd::read(frame, 1 << 20) {
        Err(BatchError::Compressed { reason }) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_written_is_read_at_every_level() {
    let noise: Vec<_> = (0..70_000u32).flat_map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    for content in [text(), noise, b"x".to_vec(), vec![0; 1 << 18], Vec::new()] {
        for level in [-131_072, 0, 22] {
            let frame = written(&content, level);
            assert!(zstd::read(&frame, content.len()).unwrap() == content, "level {level}");
        }
    }
    assert!(written(&text(), 3).len() < text().len() / 10);
}

#[cfg(feature = "zstd-c")]
#[test]
fn levels_are_efforts_of_libzstd() {
    let content = text();
    let sizes = [-50, 1, 19].map(|level| written(&content, level).len());
    assert!(sizes[0] > sizes[1] && sizes[1] > sizes[2], "{sizes:?}");
}

#[test]
fn frames_behind_one_another_are_one_stream_and_some_are_passed_over() {
    let mut stream = written(b"hello ", 3);
    stream.extend_from_slice(&0x184d_2a53u32.to_le_bytes());
    stream.extend_from_slice(&3u32.to_le_bytes());
    stream.extend_from_slice(b"???");
    stream.extend_from_slice(&written(b"world", 3));
    assert_eq!(zstd::read(&stream, 100).unwrap(), b"hello world");
    assert_eq!(zstd::read(&repeated(2, 3), 6).unwrap(), b"xxxxxx");
}

#[test]
fn a_bomb_ends_at_the_limit() {
    let bomb = written(&vec![0; 16 << 20], 3);
    assert!(bomb.len() < 100_000);
    let batch = read(forged(&with_body(1, &bomb), at::ATTRIBUTES, [0, 4])).unwrap();
    assert_eq!(batch.records_within(1 << 20).unwrap_err(), BatchError::TooLarge { limit: 1 << 20 });
    // 128 KiB out of four bytes, again and again; what the header says of the content is a lie.
    let mut bomb = repeated(100, 128 << 10);
    bomb[5..13].copy_from_slice(&(256u64 << 10).to_le_bytes());
    assert_eq!(zstd::read(&bomb, 1 << 20).unwrap_err(), BatchError::TooLarge { limit: 1 << 20 });
    let small = repeated(1, 4).repeat(100);
    assert_eq!(zstd::read(&small, 399).unwrap_err(), BatchError::TooLarge { limit: 399 });
    assert_eq!(zstd::read(&small, 400).unwrap().len(), 400);
}

#[test]
fn a_window_that_nobody_needs_takes_no_memory_and_a_larger_one_is_refused() {
    // 128 MiB, of which three bytes are filled.
    let raw = [3 << 3 | 1, 0, 0, b'a', b'b', b'c'];
    let frame = |window: u8| [&MAGIC[..], &[0, window], &raw].concat();
    assert_eq!(zstd::read(&frame(17 << 3), 3).unwrap(), b"abc");
    assert!(refused(&frame(17 << 3 | 1)).contains("no zstd frame"));
}

/// By libzstd 1.5.7 at level 19, with a window of 128 MiB: 44 bytes, 300 KiB of zeros, and the 44 bytes again by reference.
const FAR: &[u8] = &[
    40, 181, 47, 253, 0, 136, 156, 1, 0, 210, 66, 10, 17, 192, 183, 1, 0, 196, 188, 13, 197, 118, 138, 180,
    170, 0, 67, 8, 76, 2, 192, 144, 220, 133, 149, 134, 195, 53, 139, 95, 152, 222, 151, 44, 95, 127, 94, 67,
    50, 107, 67, 119, 2, 1, 0, 133, 254, 207, 65, 25, 2, 0, 16, 0, 109, 0, 0, 8, 119, 2, 0, 188, 192, 130,
    76, 73, 129, 233, 0, 8,
];

#[test]
fn what_lies_as_far_back_as_it_may_is_found() {
    let again = b"what stands here comes once more, far behind";
    let content = [&again[..], &vec![0; 300 << 10], again].concat();
    for limit in [content.len(), 1 << 20, 64 << 20] {
        assert!(zstd::read(FAR, limit).unwrap() == content, "{limit}");
    }
    assert_eq!(zstd::read(FAR, 300 << 10).unwrap_err(), BatchError::TooLarge { limit: 300 << 10 });
}

#[test]
fn damaged_frames_are_refused() {
    let frame = written(&text(), 3);
    for cut in [1, 3, 4, 5, 7, frame.len() / 2, frame.len() - 4, frame.len() - 1] {
        refused(&frame[..cut]);
    }
    let mut other = frame.clone();
    *other.last_mut().unwrap() ^= 1;
    assert!(refused(&other).contains("another checksum"));
    refused(b"no zstd");
    // A dictionary, and something to pass over that is not there.
    refused(&[&MAGIC[..], &[0b0000_0001, 0, 7, 1, 0, 0]].concat());
    assert!(refused(&[0x53, 0x2a, 0x4d, 0x18, 9, 0, 0, 0, 1]).contains("skipped"));
    // A block of the reserved kind.
    refused(&[&MAGIC[..], &[0, 0, 3 << 1 | 1, 0, 0]].concat());
}

//! LZ4 frames of all kinds, and of none.

use std::io::{Read, Write};

use lz4_flex::frame::{BlockMode, BlockSize, FrameDecoder, FrameEncoder, FrameInfo};
use proptest::{collection::vec, prelude::*};

use super::{forged, read, text, with_body};
use crate::wire::batch::{BatchError, at, compress::lz4};

const ATTRIBUTES: [u8; 2] = [0, 3];

fn foreign_frame(info: FrameInfo, content: &[u8]) -> Vec<u8> {
    let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn a_foreign_decoder_reads_our_frames() {
    let noise: Vec<_> = (0..70_000u32).flat_map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    for content in [text(), noise, b"x".to_vec(), vec![0; 64 << 10], Vec::new()] {
        let mut frame = Vec::new();
        lz4::write(&content, &mut frame);
        let mut decoded = Vec::new();
        FrameDecoder::new(&frame[..]).read_to_end(&mut decoded).unwrap();
        assert!(decoded == content);
        assert!(lz4::read(&frame, content.len()).unwrap() == content);
    }
}

#[test]
fn frames_of_every_kind_are_read() {
    let content = text();
    for mode in [BlockMode::Independent, BlockMode::Linked] {
        for size in [BlockSize::Max64KB, BlockSize::Max256KB, BlockSize::Max1MB, BlockSize::Max4MB] {
            let plain = FrameInfo::new().block_mode(mode).block_size(size);
            let length = u64::try_from(content.len()).unwrap();
            let full = FrameInfo::new()
                .block_mode(mode)
                .block_size(size)
                .content_size(Some(length))
                .block_checksums(true)
                .content_checksum(true);
            for info in [plain, full] {
                let frame = foreign_frame(info, &content);
                assert!(lz4::read(&frame, content.len()).unwrap() == content, "{mode:?} {size:?}");
            }
        }
    }
}

#[test]
fn several_frames_are_one_stream() {
    let linked = FrameInfo::new().block_mode(BlockMode::Linked);
    let mut frames = foreign_frame(linked, b"hello hello hello hello ");
    frames.extend_from_slice(&foreign_frame(FrameInfo::new(), b"world"));
    assert_eq!(lz4::read(&frames, 100).unwrap(), b"hello hello hello hello world");
}

#[test]
fn a_bomb_ends_at_the_limit() {
    // 16 MiB of zeros; the claimed content size is believed by nobody.
    let mut frame = foreign_frame(FrameInfo::new().content_size(Some(16 << 20)), &vec![0; 16 << 20]);
    frame[6..14].copy_from_slice(&5u64.to_le_bytes());
    assert!(frame.len() < 100_000);
    let batch = read(forged(&with_body(1, &frame), at::ATTRIBUTES, ATTRIBUTES)).unwrap();
    assert_eq!(batch.records_within(1 << 20).unwrap_err(), BatchError::TooLarge { limit: 1 << 20 });
    // The same, stored and not compressed.
    let mut frame = Vec::new();
    lz4::write(
        &(0..4_096u32).map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect::<Vec<_>>(),
        &mut frame,
    );
    assert_eq!(lz4::read(&frame, 4_095).unwrap_err(), BatchError::TooLarge { limit: 4_095 });
    assert_eq!(lz4::read(&frame, 4_096).unwrap().len(), 4_096);
}

#[test]
fn malformed_frames_are_refused() {
    let mut frame = Vec::new();
    lz4::write(&text(), &mut frame);
    for cut in (1..frame.len()).step_by(97).chain(frame.len() - 5..frame.len()) {
        assert!(
            matches!(lz4::read(&frame[..cut], 1 << 20), Err(BatchError::Compressed { .. })),
            "cut at {cut}"
        );
    }
    // Magic, version, reserved bit, dictionary, block size, and a block larger than the frame allows.
    for (at, byte) in [(0, 5), (4, 0xa0), (4, 0x62), (4, 0x61), (5, 0x30), (10, 0x7f)] {
        let mut frame = frame.clone();
        frame[at] = byte;
        assert!(matches!(lz4::read(&frame, 1 << 20), Err(BatchError::Compressed { .. })), "byte {at}");
    }
}

#[test]
fn a_block_cannot_refer_to_another_frame() {
    let mut frames = Vec::new();
    lz4::write(b"secret secret", &mut frames);
    // A linked frame whose only block copies from before its start.
    frames.extend_from_slice(&[0x04, 0x22, 0x4d, 0x18, 0x40, 0x40, 0, 8, 0, 0, 0]);
    frames.extend_from_slice(&[0x00, 13, 0, 0x30, b'x', b'y', b'z', 0, 0, 0, 0, 0]);
    assert!(matches!(lz4::read(&frames, 1 << 20), Err(BatchError::Compressed { .. })));
}

proptest! {
    #[test]
    fn a_damaged_frame_is_read_or_refused(
        linked in any::<bool>(),
        damage in vec((any::<proptest::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mode = if linked { BlockMode::Linked } else { BlockMode::Independent };
        let mut frame = foreign_frame(FrameInfo::new().block_mode(mode), &text()[..9_000]);
        for (at, byte) in damage {
            let at = at.index(frame.len());
            frame[at] = byte;
        }
        if let Ok(content) = lz4::read(&frame, 1 << 20) {
            prop_assert!(content.len() <= 1 << 20);
        }
    }
}

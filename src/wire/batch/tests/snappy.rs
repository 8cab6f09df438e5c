//! Snappy streams of all kinds, and of none.

use snap::raw::Encoder;

use super::{forged, read, text, with_body};
use crate::wire::batch::{BatchError, at, compress::snappy};

const MAGIC: &[u8] = b"\x82SNAPPY\0";

fn written(content: &[u8]) -> Vec<u8> {
    let mut stream = Vec::new();
    snappy::write(content, &mut stream).unwrap();
    stream
}

fn block(content: &[u8]) -> Vec<u8> {
    Encoder::new().compress_vec(content).unwrap()
}

/// A framed stream of these blocks.
fn framed(version: i32, blocks: &[&[u8]]) -> Vec<u8> {
    let mut stream = MAGIC.to_vec();
    stream.extend_from_slice(&7i32.to_be_bytes());
    stream.extend_from_slice(&version.to_be_bytes());
    for block in blocks {
        stream.extend_from_slice(&i32::try_from(block.len()).unwrap().to_be_bytes());
        stream.extend_from_slice(block);
    }
    stream
}

fn refused(stream: &[u8]) -> &'static str {
    match snappy::read(stream, 1 << 20) {
        Err(BatchError::Compressed { reason }) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_written_has_javas_framing_and_blocks_of_32_kib() {
    let content = text();
    let stream = written(&content);
    assert_eq!(stream[..16], *b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01");
    let (mut rest, mut blocks) = (&stream[16..], Vec::new());
    while let Some((size, behind)) = rest.split_first_chunk::<4>() {
        let (block, behind) = behind.split_at(usize::try_from(i32::from_be_bytes(*size)).unwrap());
        blocks.push(snap::raw::Decoder::new().decompress_vec(block).unwrap());
        rest = behind;
    }
    assert!(blocks[..blocks.len() - 1].iter().all(|block| block.len() == 32 << 10));
    assert!(blocks.concat() == content);
    assert!(snappy::read(&stream, content.len()).unwrap() == content);
}

#[test]
fn bare_blocks_and_streams_behind_one_another_are_read() {
    let content = text();
    assert!(snappy::read(&block(&content), content.len()).unwrap() == content);
    assert_eq!(snappy::read(&block(b"hi"), 2).unwrap(), b"hi");
    let streams = [framed(1, &[&block(b"hello"), &block(b" ")]), framed(1, &[&block(b"world")])].concat();
    assert_eq!(snappy::read(&streams, 100).unwrap(), b"hello world");
    assert_eq!(snappy::read(&framed(1, &[]), 100).unwrap(), b"");
}

#[test]
fn a_bomb_ends_at_the_limit() {
    for bomb in [written(&vec![0; 16 << 20]), block(&vec![0; 16 << 20])] {
        assert!(bomb.len() < 1 << 20);
        let batch = read(forged(&with_body(1, &bomb), at::ATTRIBUTES, [0, 2])).unwrap();
        assert_eq!(batch.records_within(1 << 20).unwrap_err(), BatchError::TooLarge { limit: 1 << 20 });
    }
    let stream = framed(1, &[&block(b"1234"), &block(b"5678")]);
    assert_eq!(snappy::read(&stream, 7).unwrap_err(), BatchError::TooLarge { limit: 7 });
    assert_eq!(snappy::read(&stream, 8).unwrap(), b"12345678");
}

#[test]
fn damaged_streams_are_refused() {
    // Ten bytes that claim 2 MiB: nothing is reserved for them.
    assert!(refused(&[0x80, 0x80, 0x80, 1, 0, b'x', 0, 0, 0, 0]).contains("claims more"));
    assert!(refused(&framed(2, &[])).contains("unknown version"));
    let stream = written(&text());
    for cut in [9, 15, 17, 19, 20, 21, stream.len() - 1] {
        assert!(refused(&stream[..cut]).contains("cut off"), "{cut}");
    }
    let mut negative = framed(1, &[]);
    negative.extend_from_slice(&(-5i32).to_be_bytes());
    assert!(refused(&negative).contains("negative"));
    let mut damaged = block(b"hello hello hello hello hello");
    *damaged.last_mut().unwrap() ^= 0xff;
    refused(&damaged);
    refused(&framed(1, &[&[]]));
    refused(&[]);
    // A block that gives less than it claims.
    refused(&[5, 0, b'x']);
}

//! Gzip streams of all kinds, and of none.

use std::io::Write;

use flate2::{Compression as Level, GzBuilder, write::GzEncoder};

use super::{forged, read, text, with_body};
use crate::wire::batch::{BatchError, at, compress::gzip};

fn written(content: &[u8], level: i32) -> Vec<u8> {
    let mut stream = Vec::new();
    gzip::write(content, level, &mut stream).unwrap();
    stream
}

#[test]
fn levels_are_efforts_and_the_default_is_six() {
    // Words in no order: where there is a period, less effort may find it sooner.
    let word = |i: u32| i.wrapping_mul(2_654_435_761) >> 22;
    let content =
        (0..20_000).map(|i| format!("word {} ", word(i) * word(i + 9))).collect::<String>().into_bytes();
    let sizes = [1, 6, 9].map(|level| written(&content, level).len());
    assert!(sizes[0] > sizes[1] && sizes[1] > sizes[2], "{sizes:?}");
    assert_eq!(written(&content, -1), written(&content, 6));
    for level in [-1, 1, 9] {
        assert!(gzip::read(&written(&content, level), content.len()).unwrap() == content);
    }
}

#[test]
fn several_members_with_names_are_one_stream() {
    let mut named = GzBuilder::new().filename("a").comment("b").extra("c").write(Vec::new(), Level::fast());
    named.write_all(b"hello ").unwrap();
    let mut stream = named.finish().unwrap();
    let mut encoder = GzEncoder::new(&mut stream, Level::none());
    encoder.write_all(b"world").unwrap();
    encoder.finish().unwrap();
    assert_eq!(gzip::read(&stream, 100).unwrap(), b"hello world");
}

#[test]
fn a_bomb_ends_at_the_limit() {
    let bomb = written(&vec![0; 16 << 20], 9);
    assert!(bomb.len() < 100_000);
    let batch = read(forged(&with_body(1, &bomb), at::ATTRIBUTES, [0, 1])).unwrap();
    assert_eq!(batch.records_within(1 << 20).unwrap_err(), BatchError::TooLarge { limit: 1 << 20 });
    // Of many members too.
    let members = written(b"1234", 1).repeat(100);
    assert_eq!(gzip::read(&members, 399).unwrap_err(), BatchError::TooLarge { limit: 399 });
    assert_eq!(gzip::read(&members, 400).unwrap().len(), 400);
}

#[test]
fn damaged_streams_are_refused() {
    let stream = written(&text(), 6);
    for cut in [1, 5, 10, 11, stream.len() / 2, stream.len() - 8, stream.len() - 1] {
        assert!(matches!(gzip::read(&stream[..cut], 1 << 20), Err(BatchError::Compressed { .. })), "{cut}");
    }
    // Magic, method, checksum of the content, length of the content.
    for at in [0, 1, 2, stream.len() - 8, stream.len() - 1] {
        let mut stream = stream.clone();
        stream[at] ^= 0x11;
        assert!(matches!(gzip::read(&stream, 1 << 20), Err(BatchError::Compressed { .. })), "byte {at}");
    }
    assert!(gzip::read(b"no gzip", 100).is_err());
}

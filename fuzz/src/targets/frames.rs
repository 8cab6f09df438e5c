//! Frames, and what passes the guard.

use bytes::{Bytes, BytesMut};
use kafka_2pc::wire::{
    api::Api,
    frame::{FrameDecoder, FrameError},
    guard::{Direction, sample},
};

use crate::{
    input::Input,
    pipeline::{self, Passage},
};

/// A request frame without its length, as a broker reads it.
///
/// What passes the guard is decoded within the bound on memory, and is the same after it was encoded again.
pub fn request(input: &[u8]) {
    expect(pipeline::request(Bytes::copy_from_slice(input)));
}

/// A response frame without its length, as a client reads it, behind the key of its API and its version, a byte each.
///
/// What passes the guard is decoded within the bound on memory, and is the same after it was encoded again.
pub fn response(input: &[u8]) {
    let [key, version, frame @ ..] = input else { return };
    let Some(api) = Api::from_key(i16::from(*key)) else { return };
    let version = i16::from(*version);
    if sample::versions(Direction::Response, api).contains(version) {
        expect(pipeline::response(api, version, Bytes::copy_from_slice(frame)));
    }
}

fn expect(passage: Result<Passage, pipeline::Violation>) {
    if let Err(violation) = passage {
        panic!("{}", violation.0);
    }
}

/// A limit, then a stream of bytes that comes in pieces: the bytes decide how long each is.
///
/// However a stream is cut, the frames are the same, none is longer than allowed, and nothing is lost between them.
pub fn frame(input: &[u8]) {
    let mut choices = Input::new(input);
    let max_bytes = usize::from(u16::from_be_bytes(choices.array()));
    let stream = choices.rest();
    for decoder in [FrameDecoder::responses(max_bytes), FrameDecoder::requests(max_bytes)] {
        let whole = frames(decoder, [stream]);
        let pieces = Pieces { rest: stream, at: 0 };
        assert_eq!(whole, frames(decoder, pieces), "the cuts make a difference");
        assert!(whole.0.iter().all(|frame| !frame.is_empty() && frame.len() <= max_bytes));
        let put: Vec<u8> = whole.0.iter().flat_map(framed).collect();
        assert_eq!(put, stream[..put.len()], "frames are not what came");
    }
}

fn framed(frame: &Bytes) -> Vec<u8> {
    let length = u32::try_from(frame.len()).unwrap_or(u32::MAX).to_be_bytes();
    [&length, &frame[..]].concat()
}

fn frames<'a>(
    decoder: FrameDecoder,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<Bytes>, Option<FrameError>) {
    let mut buffer = BytesMut::new();
    let mut found = Vec::new();
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            match decoder.next_frame(&mut buffer) {
                Ok(Some(frame)) => found.push(frame),
                Ok(None) => break,
                Err(error) => return (found, Some(error)),
            }
        }
    }
    (found, None)
}

/// A stream in pieces of one to eight bytes.
struct Pieces<'a> {
    rest: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Pieces<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let length = self.rest.first().map(|byte| 1 + (usize::from(*byte) + self.at) % 8)?;
        let (piece, rest) = self.rest.split_at(length.min(self.rest.len()));
        (self.rest, self.at) = (rest, self.at + 1);
        Some(piece)
    }
}

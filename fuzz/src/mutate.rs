//! Mutations of a well-formed frame: what a hostile or broken peer might send instead.

use bytes::{BufMut, Bytes, BytesMut};
use kafka_2pc::wire::{
    api::Api,
    frame::{RequestHeader, encode_response_header},
    guard::{
        Direction,
        sample::{self, Choices, Mark, Part, Sample, put_uvarint},
    },
};

/// A well-formed frame without its length, and its parts.
#[derive(Debug, Clone)]
pub struct Frame {
    /// Header and body.
    pub bytes: BytesMut,
    /// Where the parts of the body are.
    pub marks: Vec<Mark>,
    /// True if lengths are written compactly (KIP-482).
    pub is_flexible: bool,
}

/// Puts the header before a sample body.
#[must_use]
pub fn frame(direction: Direction, api: Api, version: i16, sample: Sample) -> Frame {
    let mut bytes = BytesMut::with_capacity(sample.body.len() + 32);
    match direction {
        Direction::Request => {
            let client_id = Some("hostile".to_owned());
            RequestHeader { api, version, correlation_id: 1, client_id }.encode(&mut bytes);
        }
        Direction::Response => encode_response_header(&mut bytes, api, version, 1),
    }
    let base = bytes.len();
    bytes.put_slice(&sample.body);
    let marks = sample.marks.into_iter().map(|mark| Mark { at: base + mark.at, ..mark }).collect();
    Frame { bytes, marks, is_flexible: api.is_flexible(version) }
}

/// Some mutations change nothing, such as a length that becomes what it was; then it is tried again, this often.
const TRIES: u32 = 20;

/// The frame with one to three mutations.
pub fn mutate(frame: &Frame, choices: &mut dyn Choices) -> Bytes {
    let mut mutated = mutate_once(frame, choices);
    for _ in 0..TRIES {
        if mutated != frame.bytes {
            break;
        }
        mutated = mutate_once(frame, choices);
    }
    mutated
}

fn mutate_once(frame: &Frame, choices: &mut dyn Choices) -> Bytes {
    let mut bytes = frame.bytes.clone();
    // Numbers alone leave the structure whole, so that enough frames come as far as the codec.
    if choices.below(4) == 0 {
        for _ in 0..=choices.below(3) {
            change_value(&mut bytes, frame, choices);
        }
        return bytes.freeze();
    }
    // Later mutations work on bytes that have moved, so they hit anything.
    for _ in 0..=choices.below(8) / 4 {
        match choices.below(8) {
            0 | 1 => replace_number(&mut bytes, frame, Part::Length, choices),
            2 => replace_number(&mut bytes, frame, Part::Tag, choices),
            3 => overlong_varint(&mut bytes, frame, choices),
            4 => truncate(&mut bytes, choices),
            5 => copy_within(&mut bytes, choices),
            6 => insert(&mut bytes, choices),
            _ => flip(&mut bytes, choices),
        }
    }
    bytes.freeze()
}

fn pick(bound: usize, choices: &mut dyn Choices) -> Option<usize> {
    let bound = u32::try_from(bound).ok().filter(|bound| *bound > 0)?;
    Some(choices.below(bound) as usize)
}

fn pick_mark(frame: &Frame, part: Part, choices: &mut dyn Choices) -> Option<Mark> {
    let of_part = frame.marks.iter().filter(|mark| mark.part == part);
    let index = pick(of_part.clone().count(), choices)?;
    of_part.clone().nth(index).copied()
}

fn byte(choices: &mut dyn Choices) -> u8 {
    choices.below(256).to_be_bytes()[3]
}

fn change_value(bytes: &mut BytesMut, frame: &Frame, choices: &mut dyn Choices) {
    let Some(mark) = pick_mark(frame, Part::Value, choices) else {
        return flip_correlation_id(bytes, frame, choices);
    };
    for slot in &mut bytes[mark.at..mark.at + mark.bytes] {
        *slot = byte(choices);
    }
}

/// A message without a number of its own still has one in its header.
fn flip_correlation_id(bytes: &mut BytesMut, frame: &Frame, choices: &mut dyn Choices) {
    let at = if frame.bytes.len() >= 10 { 4 } else { 0 };
    if let Some(slot) = bytes.get_mut(at + 3) {
        *slot = byte(choices);
    }
}

/// A length, count, tag or size becomes another number, of the kinds that go wrong.
fn replace_number(bytes: &mut BytesMut, frame: &Frame, part: Part, choices: &mut dyn Choices) {
    let Some(mark) = pick_mark(frame, part, choices).filter(|mark| mark.at + mark.bytes <= bytes.len())
    else {
        return flip(bytes, choices);
    };
    let left = u32::try_from(bytes.len() - mark.at - mark.bytes).unwrap_or(u32::MAX);
    let number = match choices.below(10) {
        0 => 0,
        1 => 1,
        2 => left,
        3 => left.saturating_add(1),
        4 => left.saturating_add(2),
        5 => u32::MAX >> 1,
        6 => u32::MAX,
        7 => u32::MAX - 1,
        8 => 1 << choices.below(32),
        _ => choices.below(40),
    };
    let mut replacement = BytesMut::new();
    if part == Part::Tag || frame.is_flexible {
        put_uvarint(&mut replacement, number);
    } else {
        let all = number.to_be_bytes();
        replacement.put_slice(&all[4 - mark.bytes.min(4)..]);
    }
    splice(bytes, mark.at, mark.bytes, &replacement);
}

fn overlong_varint(bytes: &mut BytesMut, frame: &Frame, choices: &mut dyn Choices) {
    let part = if choices.below(2) == 0 { Part::Tag } else { Part::Length };
    let at = pick_mark(frame, part, choices).map_or(0, |mark| mark.at);
    let continued = choices.below(7) as usize;
    let mut varint = BytesMut::new();
    varint.put_bytes(0x80 | byte(choices), continued);
    varint.put_u8(byte(choices) & 0x7f);
    splice(bytes, at.min(bytes.len()), 1, &varint);
}

fn truncate(bytes: &mut BytesMut, choices: &mut dyn Choices) {
    if let Some(end) = pick(bytes.len(), choices) {
        bytes.truncate(end);
    }
}

fn copy_within(bytes: &mut BytesMut, choices: &mut dyn Choices) {
    let (Some(from), Some(to)) = (pick(bytes.len(), choices), pick(bytes.len(), choices)) else { return };
    let length = (choices.below(16) as usize).min(bytes.len() - from.max(to));
    bytes.copy_within(from..from + length, to);
}

fn insert(bytes: &mut BytesMut, choices: &mut dyn Choices) {
    let Some(at) = pick(bytes.len() + 1, choices) else { return };
    let added: Vec<_> = (0..=choices.below(8)).map(|_| byte(choices)).collect();
    splice(bytes, at, 0, &added);
}

fn flip(bytes: &mut BytesMut, choices: &mut dyn Choices) {
    for _ in 0..=choices.below(3) {
        if let Some(at) = pick(bytes.len(), choices) {
            bytes[at] ^= 1 << choices.below(8);
        }
    }
}

fn splice(bytes: &mut BytesMut, at: usize, removed: usize, added: &[u8]) {
    let tail = bytes.split_off(at);
    bytes.put_slice(added);
    bytes.put_slice(&tail[removed.min(tail.len())..]);
}

/// A sample of the version, mostly mixed, now and then dense.
#[must_use]
pub fn sample_of(direction: Direction, api: Api, version: i16, choices: &mut dyn Choices) -> Sample {
    if choices.below(20) == 0 {
        let elements = 20_000 >> choices.below(8);
        sample::dense(direction, api, version, elements, choices)
    } else {
        sample::sample(direction, api, version, choices)
    }
}

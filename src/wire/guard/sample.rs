//! Well-formed bodies, made up from the table of shapes: what tests and fuzzers start from.

use bytes::{BufMut, BytesMut};
use kafka_protocol::messages::ApiKey;

use super::{
    Direction, message,
    shape::{Field, Kind, Struct},
};
use crate::wire::{api::Api, versions::VersionRange};

/// Numbers to choose by; a seeded generator, or the bytes of a fuzzer.
pub trait Choices {
    /// Any number below `bound`, which is not zero.
    fn below(&mut self, bound: u32) -> u32;
}

/// Numbers from a seed (SplitMix64): the same seed, the same numbers.
#[derive(Debug, Clone)]
pub struct Seeded(pub u64);

impl Choices for Seeded {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let high = u32::try_from((mixed ^ (mixed >> 31)) >> 32).unwrap_or(0);
        u32::try_from((u64::from(high) * u64::from(bound)) >> 32).unwrap_or(0)
    }
}

/// The versions of a message that the codec knows; the guard knows them all.
///
/// For three APIs the codec reads responses of a version whose requests it does not: those are unstable in Kafka 4.1.
#[must_use]
pub fn versions(direction: Direction, api: Api) -> VersionRange {
    let mut codec = VersionRange::new(0, -1);
    if let Ok(key) = ApiKey::try_from(api.key()) {
        let range = key.valid_versions();
        codec = VersionRange::new(range.min, range.max);
    }
    match (direction, api) {
        (Direction::Request, Api::OffsetCommit | Api::OffsetFetch) => VersionRange::new(codec.min, 9),
        (Direction::Request, Api::InitProducerId) => VersionRange::new(codec.min, 5),
        _ => codec,
    }
}

/// A body that the guard accepts and that the codec decodes, for a version that both know.
///
/// Arrays have up to five elements at the outside and fewer further in; now and then a string or blob is long.
#[must_use]
pub fn body(direction: Direction, api: Api, version: i16, choices: &mut dyn Choices) -> BytesMut {
    let message = message(direction, api);
    let mut out = BytesMut::new();
    let flexible = version >= message.flexible;
    Writer { out: &mut out, version, flexible, depth: 0, choices }.fields(message.root);
    out
}

struct Writer<'a> {
    out: &'a mut BytesMut,
    version: i16,
    flexible: bool,
    depth: u32,
    choices: &'a mut dyn Choices,
}

impl Writer<'_> {
    fn one_in(&mut self, count: u32) -> bool {
        self.choices.below(count) == 0
    }

    fn fields(&mut self, shape: &'static Struct) {
        for field in shape.fields {
            if field.tag.is_none() && field.is_in(self.version) {
                self.field(field);
            }
        }
        if self.flexible {
            self.tagged_fields(shape);
        }
    }

    fn field(&mut self, field: &'static Field) {
        if field.is_nullable_in(self.version) && self.one_in(4) {
            self.null(field.kind);
        } else {
            self.value(field.kind);
        }
    }

    fn null(&mut self, kind: Kind) {
        match (kind, self.flexible) {
            (_, true) => self.out.put_u8(0),
            (Kind::Text, false) => self.out.put_i16(-1),
            (Kind::Blob | Kind::Array(_) | Kind::Fixed(_) | Kind::Struct(_), false) => self.out.put_i32(-1),
        }
    }

    fn value(&mut self, kind: Kind) {
        match kind {
            Kind::Fixed(bytes) => self.fixed(bytes),
            Kind::Text => {
                let text = self.text();
                if self.flexible {
                    self.compact_length(text.len())
                } else {
                    self.short_length(text.len())
                }
                self.out.put_slice(text.as_bytes());
            }
            Kind::Blob => {
                let length = if self.one_in(8) { self.choices.below(400) } else { self.choices.below(12) };
                self.length(length);
                for _ in 0..length {
                    let byte = self.choices.below(256).to_be_bytes()[3];
                    self.out.put_u8(byte);
                }
            }
            Kind::Array(element) => {
                let count = self.choices.below(6u32.saturating_sub(self.depth).max(2));
                self.length(count);
                self.depth += 1;
                for _ in 0..count {
                    self.value(*element);
                }
                self.depth -= 1;
            }
            Kind::Struct(shape) => self.fields(shape),
        }
    }

    /// Small numbers, -1, and now and then any number at all.
    fn fixed(&mut self, bytes: u8) {
        let pattern = self.choices.below(8);
        for i in 0..bytes {
            let byte = match pattern {
                0 => 0xff,
                1 => self.choices.below(256).to_be_bytes()[3],
                _ if i + 1 == bytes => self.choices.below(128).to_be_bytes()[3],
                _ => 0,
            };
            self.out.put_u8(byte);
        }
    }

    fn text(&mut self) -> String {
        let length = if self.one_in(32) { self.choices.below(300) } else { self.choices.below(9) };
        let alphabet = ['a', 'b', '-', '7', 'é', '✓'];
        (0..length).map(|_| alphabet[self.choices.below(6) as usize]).collect()
    }

    fn tagged_fields(&mut self, shape: &'static Struct) {
        let mut known: Vec<_> =
            shape.fields.iter().filter(|field| field.tag.is_some() && field.is_in(self.version)).collect();
        known.retain(|_| self.one_in(2));
        known.sort_by_key(|field| field.tag);
        let unknown = if self.one_in(6) { 1 + self.choices.below(2) } else { 0 };
        self.uvarint(u32::try_from(known.len()).unwrap_or(0) + unknown);
        for field in known {
            self.uvarint(field.tag.unwrap_or(0));
            self.known_tag(field);
        }
        for tag in 0..unknown {
            self.uvarint(100 + 100 * tag);
            let size = self.choices.below(5);
            self.uvarint(size);
            self.out.put_bytes(0xa5, size as usize);
        }
    }

    fn known_tag(&mut self, field: &'static Field) {
        let mut value = BytesMut::new();
        Writer {
            out: &mut value,
            version: self.version,
            flexible: self.flexible,
            depth: self.depth,
            choices: self.choices,
        }
        .field(field);
        self.uvarint(u32::try_from(value.len()).unwrap_or(0));
        self.out.put_slice(&value);
    }

    fn length(&mut self, length: u32) {
        if self.flexible { self.uvarint(length + 1) } else { self.out.put_u32(length) }
    }

    fn compact_length(&mut self, length: usize) {
        self.uvarint(u32::try_from(length).unwrap_or(0) + 1);
    }

    fn short_length(&mut self, length: usize) {
        self.out.put_i16(i16::try_from(length).unwrap_or(0));
    }

    fn uvarint(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.out.put_u8((value & 0x7f | 0x80).to_be_bytes()[3]);
            value >>= 7;
        }
        self.out.put_u8(value.to_be_bytes()[3]);
    }
}

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

/// A body, and where its parts are: what a mutation wants to hit.
#[derive(Debug, Clone, Default)]
pub struct Sample {
    /// The body.
    pub body: BytesMut,
    /// The parts, in no order.
    pub marks: Vec<Mark>,
}

/// A part of a body: `bytes` bytes from `at` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The offset of its first byte.
    pub at: usize,
    /// How long it is.
    pub bytes: usize,
    /// What it is.
    pub part: Part,
}

/// What a part of a body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The length of text or bytes, or the count of an array.
    Length,
    /// The count of tagged fields, a tag, or the size of one.
    Tag,
    /// A number, boolean or uuid.
    Value,
}

/// A body that the guard accepts and that the codec decodes, for a version that both know.
///
/// Arrays have up to five elements at the outside and fewer further in; now and then a string or blob is long.
#[must_use]
pub fn body(direction: Direction, api: Api, version: i16, choices: &mut dyn Choices) -> BytesMut {
    sample(direction, api, version, choices).body
}

/// [`body`] with its marks.
#[must_use]
pub fn sample(direction: Direction, api: Api, version: i16, choices: &mut dyn Choices) -> Sample {
    Writer::run(direction, api, version, Mode::Mixed, choices)
}

/// A body of very many elements that are as small as can be: the most memory for the fewest bytes.
///
/// The arrays at one level, which is chosen, have `elements` elements; those outside have one, those inside none.
/// In most bodies some or all structs have an unknown tag; the guard refuses those with too many.
#[must_use]
pub fn dense(
    direction: Direction,
    api: Api,
    version: i16,
    elements: u32,
    choices: &mut dyn Choices,
) -> Sample {
    let level = choices.below(3);
    let tag_every = [0, 1, 2, 5, 9, 20][choices.below(6) as usize];
    Writer::run(direction, api, version, Mode::Dense { level, elements, tag_every }, choices)
}

#[derive(Clone, Copy)]
enum Mode {
    Mixed,
    /// `tag_every` 3: every third struct has an unknown tag; 0: none.
    Dense {
        level: u32,
        elements: u32,
        tag_every: u32,
    },
}

struct Writer<'a> {
    out: Sample,
    version: i16,
    flexible: bool,
    mode: Mode,
    depth: u32,
    structs: u32,
    choices: &'a mut dyn Choices,
}

impl<'a> Writer<'a> {
    fn run(direction: Direction, api: Api, version: i16, mode: Mode, choices: &'a mut dyn Choices) -> Sample {
        let message = message(direction, api);
        let flexible = version >= message.flexible;
        let mut writer =
            Self { out: Sample::default(), version, flexible, mode, depth: 0, structs: 0, choices };
        writer.fields(message.root);
        writer.out
    }
}

impl Writer<'_> {
    fn one_in(&mut self, count: u32) -> bool {
        matches!(self.mode, Mode::Mixed) && self.choices.below(count) == 0
    }

    fn elements(&mut self) -> u32 {
        match self.mode {
            Mode::Mixed => self.choices.below(6u32.saturating_sub(self.depth).max(2)),
            Mode::Dense { level, elements, .. } if self.depth == level => elements,
            Mode::Dense { level, .. } => u32::from(self.depth < level),
        }
    }

    fn unknown_tags(&mut self) -> u32 {
        if let Mode::Dense { tag_every, .. } = self.mode {
            self.structs += 1;
            u32::from(tag_every > 0 && self.structs.is_multiple_of(tag_every))
        } else if self.one_in(6) {
            1 + self.choices.below(2)
        } else {
            0
        }
    }

    /// A number below `bound`, or zero in a dense body.
    fn below(&mut self, bound: u32) -> u32 {
        match self.mode {
            Mode::Mixed => self.choices.below(bound),
            Mode::Dense { .. } => 0,
        }
    }

    fn mark(&mut self, at: usize, part: Part) {
        let bytes = self.out.body.len() - at;
        if matches!(self.mode, Mode::Mixed) || self.out.marks.len() < 64 {
            self.out.marks.push(Mark { at, bytes, part });
        }
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
        let at = self.out.body.len();
        match (kind, self.flexible) {
            (_, true) => self.out.body.put_u8(0),
            (Kind::Text, false) => self.out.body.put_i16(-1),
            (Kind::Blob | Kind::Array(_) | Kind::Fixed(_) | Kind::Struct(_), false) => {
                self.out.body.put_i32(-1)
            }
        }
        self.mark(at, Part::Length);
    }

    fn value(&mut self, kind: Kind) {
        match kind {
            Kind::Fixed(bytes) => self.fixed(bytes),
            Kind::Text => {
                let text = self.text();
                let at = self.out.body.len();
                if self.flexible {
                    self.uvarint(u32::try_from(text.len()).unwrap_or(0) + 1);
                } else {
                    self.out.body.put_i16(i16::try_from(text.len()).unwrap_or(0));
                }
                self.mark(at, Part::Length);
                self.out.body.put_slice(text.as_bytes());
            }
            Kind::Blob => {
                let bound = if self.one_in(8) { 400 } else { 12 };
                let length = self.below(bound);
                self.length(length);
                for _ in 0..length {
                    let byte = self.below(256).to_be_bytes()[3];
                    self.out.body.put_u8(byte);
                }
            }
            Kind::Array(element) => {
                let count = self.elements();
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
        let at = self.out.body.len();
        let pattern = if matches!(self.mode, Mode::Mixed) { self.choices.below(8) } else { 7 };
        for i in 0..bytes {
            let byte = match pattern {
                0 => 0xff,
                1 => self.below(256).to_be_bytes()[3],
                _ if i + 1 == bytes => self.below(128).to_be_bytes()[3],
                _ => 0,
            };
            self.out.body.put_u8(byte);
        }
        self.mark(at, Part::Value);
    }

    fn text(&mut self) -> String {
        let bound = if self.one_in(32) { 300 } else { 9 };
        let length = self.below(bound);
        let alphabet = ['a', 'b', '-', '7', 'é', '✓'];
        (0..length).map(|_| alphabet[self.choices.below(6) as usize]).collect()
    }

    fn tagged_fields(&mut self, shape: &'static Struct) {
        let mut known: Vec<_> =
            shape.fields.iter().filter(|field| field.tag.is_some() && field.is_in(self.version)).collect();
        known.retain(|_| self.one_in(2));
        known.sort_by_key(|field| field.tag);
        let unknown = self.unknown_tags();
        self.tag_number(u32::try_from(known.len()).unwrap_or(0) + unknown);
        for field in known {
            self.tag_number(field.tag.unwrap_or(0));
            self.known_tag(field);
        }
        for tag in 0..unknown {
            self.tag_number(100 + 100 * tag);
            let size = self.below(5);
            self.tag_number(size);
            self.out.body.put_bytes(0xa5, size as usize);
        }
    }

    fn known_tag(&mut self, field: &'static Field) {
        let before = std::mem::take(&mut self.out);
        self.field(field);
        let value = std::mem::replace(&mut self.out, before);
        self.tag_number(u32::try_from(value.body.len()).unwrap_or(0));
        let base = self.out.body.len();
        self.out.body.put_slice(&value.body);
        self.out.marks.extend(value.marks.into_iter().map(|mark| Mark { at: base + mark.at, ..mark }));
    }

    fn length(&mut self, length: u32) {
        let at = self.out.body.len();
        if self.flexible {
            self.uvarint(length + 1)
        } else {
            self.out.body.put_u32(length)
        }
        self.mark(at, Part::Length);
    }

    fn tag_number(&mut self, number: u32) {
        let at = self.out.body.len();
        self.uvarint(number);
        self.mark(at, Part::Tag);
    }

    fn uvarint(&mut self, value: u32) {
        put_uvarint(&mut self.out.body, value);
    }
}

/// Appends an unsigned varint.
pub fn put_uvarint(out: &mut BytesMut, mut value: u32) {
    while value >= 0x80 {
        out.put_u8((value & 0x7f | 0x80).to_be_bytes()[3]);
        value >>= 7;
    }
    out.put_u8(value.to_be_bytes()[3]);
}

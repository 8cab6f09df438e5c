//! The walker: one pass over a body, checking that everything it announces is there.

use super::{
    Fault, MEMORY_PER_BYTE, MEMORY_SLACK_BYTES,
    shape::{Field, Kind, Message, Struct},
};
use crate::wire::cursor::{Cursor, Fault as Short};

/// Memory that the codec's map of unknown tags takes when it holds any: a node, rounded up.
const UNKNOWN_TAGS_MEMORY: u64 = 512;

/// Memory for each further unknown tag: its share of half-filled nodes, rounded up.
const UNKNOWN_TAG_MEMORY: u64 = 96;

/// Left out of the budget for what does not depend on the counts, such as the owner of the frame's bytes.
const FIXED_MEMORY: u64 = 1024;

/// Where and why the walker stopped.
#[derive(Debug)]
pub(super) struct Stop {
    pub(super) field: &'static str,
    pub(super) at: usize,
    pub(super) fault: Fault,
}

struct Walker<'a> {
    cursor: Cursor<'a>,
    version: i16,
    is_flexible: bool,
    memory_left: u64,
    /// The field that was begun last, for the error.
    field: &'static str,
}

pub(super) fn walk(message: &Message, version: i16, body: &[u8]) -> Result<(), Stop> {
    let mut walker = Walker {
        cursor: Cursor::new(body),
        version,
        is_flexible: version >= message.flexible,
        memory_left: (body.len() as u64)
            .saturating_mul(MEMORY_PER_BYTE)
            .saturating_add(MEMORY_SLACK_BYTES - FIXED_MEMORY),
        field: "the body",
    };
    walker.message(message).map_err(|fault| Stop {
        field: walker.field,
        at: body.len() - walker.cursor.remaining(),
        fault,
    })
}

impl Walker<'_> {
    fn message(&mut self, message: &Message) -> Result<(), Fault> {
        if self.version < message.min || self.version > message.max {
            return Err(Fault::Version);
        }
        self.fields(message.root)?;
        if self.cursor.remaining() > 0 {
            self.field = "the body";
            return Err(Fault::Trailing);
        }
        Ok(())
    }

    fn fields(&mut self, shape: &'static Struct) -> Result<(), Fault> {
        for field in shape.fields {
            if field.tag.is_none() && field.is_in(self.version) {
                self.field(field)?;
            }
        }
        if self.is_flexible {
            self.tagged_fields(shape)?;
        }
        Ok(())
    }

    fn field(&mut self, field: &'static Field) -> Result<(), Fault> {
        self.field = field.name;
        let is_null = !self.value(field.kind)?;
        if is_null && !field.is_nullable_in(self.version) {
            return Err(Fault::Null);
        }
        Ok(())
    }

    /// Steps over a value; false for null.
    fn value(&mut self, kind: Kind) -> Result<bool, Fault> {
        match kind {
            Kind::Fixed(bytes) => {
                self.cursor.slice(bytes.into())?;
                Ok(true)
            }
            Kind::Text => {
                let length = if self.is_flexible { self.compact_length() } else { self.short_length() };
                let Some(length) = length? else { return Ok(false) };
                let text = self.cursor.slice(length as usize)?;
                std::str::from_utf8(text).map(|_| true).map_err(|_| Fault::Text)
            }
            Kind::Blob => {
                let Some(length) = self.length()? else { return Ok(false) };
                self.cursor.slice(length as usize)?;
                Ok(true)
            }
            Kind::Array(element) => {
                let Some(count) = self.length()? else { return Ok(false) };
                self.elements(count, *element)?;
                Ok(true)
            }
            Kind::Struct(shape) => self.fields(shape).map(|()| true),
        }
    }

    /// Every element has at least one byte, so a count above the bytes that are left is a lie.
    fn elements(&mut self, count: u32, element: Kind) -> Result<(), Fault> {
        if count as usize > self.cursor.remaining() {
            return Err(Fault::Count(count));
        }
        self.spend(u64::from(count) * element.memory())?;
        if let Kind::Fixed(bytes) = element {
            return self.cursor.slice(count as usize * usize::from(bytes)).map(drop).map_err(Fault::from);
        }
        let array = self.field;
        for _ in 0..count {
            self.field = array;
            if !self.value(element)? {
                return Err(Fault::Null);
            }
        }
        Ok(())
    }

    fn tagged_fields(&mut self, shape: &'static Struct) -> Result<(), Fault> {
        self.field = "tagged fields";
        let (mut lowest, mut unknown) = (0, 0);
        for _ in 0..self.cursor.unsigned()? {
            let tag = self.cursor.unsigned()?;
            if u64::from(tag) < lowest {
                return Err(Fault::TagOrder);
            }
            if i32::try_from(tag).is_err() {
                return Err(Fault::TagNumber);
            }
            lowest = u64::from(tag) + 1;
            let size = self.cursor.unsigned()? as usize;
            match shape.fields.iter().find(|field| field.tag == Some(tag)) {
                Some(field) => self.known_tag(field, size)?,
                None => {
                    self.cursor.slice(size)?;
                    unknown += 1;
                }
            }
            self.field = "tagged fields";
        }
        if unknown > 0 { self.spend(UNKNOWN_TAGS_MEMORY + unknown * UNKNOWN_TAG_MEMORY) } else { Ok(()) }
    }

    /// The codec does not look at the size of a tag that it knows, so it must be the true one.
    fn known_tag(&mut self, field: &'static Field, size: usize) -> Result<(), Fault> {
        if !field.is_in(self.version) {
            self.field = field.name;
            return Err(Fault::TagVersion);
        }
        let before = self.cursor.remaining();
        self.field(field)?;
        if before - self.cursor.remaining() == size { Ok(()) } else { Err(Fault::TagSize) }
    }

    /// The length of bytes or the count of an array; `None` for null.
    fn length(&mut self) -> Result<Option<u32>, Fault> {
        if self.is_flexible {
            return self.compact_length();
        }
        match self.cursor.i32()? {
            -1 => Ok(None),
            length => u32::try_from(length).map(Some).map_err(|_| Fault::Negative),
        }
    }

    fn short_length(&mut self) -> Result<Option<u32>, Fault> {
        match self.cursor.i16()? {
            -1 => Ok(None),
            length => u32::try_from(length).map(Some).map_err(|_| Fault::Negative),
        }
    }

    fn compact_length(&mut self) -> Result<Option<u32>, Fault> {
        Ok(self.cursor.unsigned()?.checked_sub(1))
    }

    fn spend(&mut self, memory: u64) -> Result<(), Fault> {
        self.memory_left = self.memory_left.checked_sub(memory).ok_or(Fault::Memory)?;
        Ok(())
    }
}

impl From<Short> for Fault {
    fn from(short: Short) -> Self {
        match short {
            Short::End => Self::Truncated,
            Short::Varint => Self::Varint,
        }
    }
}

//! The envelope of everything that is kept across process borders: committables, writer state, checkpoints.
//!
//! ```text
//! magic (4) | format version u16 | body length u64 | body | CRC-32C of all before it u32        big-endian
//! ```
//!
//! The envelope is the same for every format version, so that a newer one is told from a damaged one. Decoding
//! allocates nothing from a number that was read: every length is checked against the bytes that are left.

use std::sync::Arc;

use crate::ids::{Identity, TopicId};

/// Why kept bytes cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// The bytes are something else.
    #[error("this is not a {what}")]
    Foreign {
        /// What was expected.
        what: &'static str,
    },
    /// A newer release wrote them.
    #[error("this {what} has format {found}, which a newer release wrote; this release reads up to {newest}")]
    Newer {
        /// What was expected.
        what: &'static str,
        /// The format version found.
        found: u16,
        /// The newest that this release reads.
        newest: u16,
    },
    /// The end is missing.
    #[error("this {what} is torn: {have} bytes of {need}")]
    Torn {
        /// What was expected.
        what: &'static str,
        /// Bytes present.
        have: u64,
        /// Bytes needed, as far as the bytes present tell.
        need: u64,
    },
    /// The bytes contradict themselves.
    #[error("this {what} is damaged: {why}")]
    Damaged {
        /// What was expected.
        what: &'static str,
        /// What is wrong with it.
        why: &'static str,
    },
}

/// One kind of sealed bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seal {
    /// The kind's name, for errors.
    pub(crate) what: &'static str,
    /// Its first four bytes.
    pub(crate) magic: [u8; 4],
    /// The newest format version that this release knows.
    pub(crate) newest: u16,
}

const HEAD_BYTES: usize = 4 + 2 + 8;
const TAIL_BYTES: usize = 4;

impl Seal {
    /// The sealed bytes of a body in the newest format.
    pub(crate) fn seal(self, body: Fields) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD_BYTES + body.0.len() + TAIL_BYTES);
        bytes.extend_from_slice(&self.magic);
        bytes.extend_from_slice(&self.newest.to_be_bytes());
        bytes.extend_from_slice(&(body.0.len() as u64).to_be_bytes());
        bytes.extend_from_slice(&body.0);
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_be_bytes());
        bytes
    }

    /// A reader of the body.
    pub(crate) fn open(self, bytes: &[u8]) -> Result<Reader<'_>, StateError> {
        self.open_any(bytes).map(|(_, body)| body)
    }

    /// The format version, and a reader of the body, for what has more than one format.
    pub(crate) fn open_any(self, bytes: &[u8]) -> Result<(u16, Reader<'_>), StateError> {
        let what = self.what;
        let have = bytes.len() as u64;
        let known = bytes.len().min(self.magic.len());
        if bytes[..known] != self.magic[..known] {
            return Err(StateError::Foreign { what });
        }
        let mut head = Reader { bytes, what };
        let head_bytes = (HEAD_BYTES + TAIL_BYTES) as u64;
        if have < head_bytes {
            return Err(StateError::Torn { what, have, need: head_bytes });
        }
        head.take(self.magic.len())?;
        let found = head.u16()?;
        let need = head.u64()?.saturating_add(head_bytes);
        if have < need {
            return Err(StateError::Torn { what, have, need });
        }
        let (sealed, crc) = bytes.split_at(bytes.len() - TAIL_BYTES);
        if crc32c::crc32c(sealed).to_be_bytes() != crc {
            return Err(StateError::Damaged { what, why: "its checksum does not match" });
        }
        if have > need {
            return Err(StateError::Damaged { what, why: "bytes follow its end" });
        }
        match found {
            0 => Err(StateError::Damaged { what, why: "there is no format 0" }),
            found if found > self.newest => Err(StateError::Newer { what, found, newest: self.newest }),
            _ => Ok((found, Reader { bytes: &sealed[HEAD_BYTES..], what })),
        }
    }
}

/// The fields of a body, appended one after the other.
#[derive(Debug, Default)]
pub(crate) struct Fields(Vec<u8>);

impl Fields {
    pub(crate) fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(crate) fn u8(self, value: u8) -> Self {
        self.raw(&[value])
    }

    pub(crate) fn i16(self, value: i16) -> Self {
        self.raw(&value.to_be_bytes())
    }

    pub(crate) fn i32(self, value: i32) -> Self {
        self.raw(&value.to_be_bytes())
    }

    pub(crate) fn i64(self, value: i64) -> Self {
        self.raw(&value.to_be_bytes())
    }

    pub(crate) fn u64(self, value: u64) -> Self {
        self.raw(&value.to_be_bytes())
    }

    pub(crate) fn count(self, count: usize) -> Self {
        self.u64(count as u64)
    }

    pub(crate) fn bytes(self, value: &[u8]) -> Self {
        self.count(value.len()).raw(value)
    }

    pub(crate) fn text(self, value: &str) -> Self {
        self.bytes(value.as_bytes())
    }

    pub(crate) fn option<T>(self, value: Option<T>, field: impl FnOnce(Self, T) -> Self) -> Self {
        match value {
            None => self.u8(0),
            Some(value) => field(self.u8(1), value),
        }
    }

    pub(crate) fn list<T>(self, values: &[T], field: impl FnMut(Self, &T) -> Self) -> Self {
        let counted = self.count(values.len());
        values.iter().fold(counted, field)
    }

    pub(crate) fn identity(self, identity: Identity) -> Self {
        self.i64(identity.producer_id.0).i16(identity.epoch.0)
    }
}

/// Reads the fields of a body back.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    what: &'static str,
}

impl<'a> Reader<'a> {
    /// A reader over bytes without an envelope.
    pub(crate) fn bare(bytes: &'a [u8], what: &'static str) -> Self {
        Self { bytes, what }
    }

    /// True when nothing is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn damaged<T>(&self, why: &'static str) -> Result<T, StateError> {
        Err(StateError::Damaged { what: self.what, why })
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], StateError> {
        match self.bytes.split_at_checked(count) {
            Some((taken, rest)) => {
                self.bytes = rest;
                Ok(taken)
            }
            None => self.damaged("a field reaches beyond its end"),
        }
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], StateError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, StateError> {
        Ok(u8::from_be_bytes(self.array()?))
    }

    pub(crate) fn u16(&mut self) -> Result<u16, StateError> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    pub(crate) fn i16(&mut self) -> Result<i16, StateError> {
        Ok(i16::from_be_bytes(self.array()?))
    }

    pub(crate) fn i32(&mut self) -> Result<i32, StateError> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    pub(crate) fn i64(&mut self) -> Result<i64, StateError> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, StateError> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], StateError> {
        match usize::try_from(self.u64()?) {
            Ok(count) => self.take(count),
            Err(_) => self.damaged("a field reaches beyond its end"),
        }
    }

    pub(crate) fn text(&mut self) -> Result<Arc<str>, StateError> {
        match std::str::from_utf8(self.bytes()?) {
            Ok(text) => Ok(text.into()),
            Err(_) => self.damaged("a text is not UTF-8"),
        }
    }

    pub(crate) fn option<T>(
        &mut self,
        field: impl FnOnce(&mut Self) -> Result<T, StateError>,
    ) -> Result<Option<T>, StateError> {
        match self.u8()? {
            0 => Ok(None),
            1 => field(self).map(Some),
            _ => self.damaged("an optional field is neither there nor absent"),
        }
    }

    /// A list grows with the items that are really there, never from its count.
    pub(crate) fn list<T>(
        &mut self,
        mut field: impl FnMut(&mut Self) -> Result<T, StateError>,
    ) -> Result<Vec<T>, StateError> {
        let mut items = Vec::new();
        for _ in 0..self.u64()? {
            items.push(field(self)?);
        }
        Ok(items)
    }

    pub(crate) fn identity(&mut self) -> Result<Identity, StateError> {
        Ok(Identity::new(self.i64()?, self.i16()?))
    }

    pub(crate) fn topic_id(&mut self) -> Result<TopicId, StateError> {
        Ok(TopicId(self.array()?))
    }

    /// Every byte must have had a meaning.
    pub(crate) fn finish<T>(self, value: T) -> Result<T, StateError> {
        if self.bytes.is_empty() { Ok(value) } else { self.damaged("bytes follow its last field") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEAL: Seal = Seal { what: "thing", magic: *b"THNG", newest: 2 };

    #[test]
    fn a_newer_format_is_told_from_damage() {
        let newer = Seal { newest: 3, ..SEAL }.seal(Fields::default().u8(7));
        assert_eq!(SEAL.open(&newer).err(), Some(StateError::Newer { what: "thing", found: 3, newest: 2 }));
    }

    #[test]
    fn something_else_is_told_from_damage() {
        assert_eq!(SEAL.open(b"{\"json\": true}").err(), Some(StateError::Foreign { what: "thing" }));
        assert_eq!(SEAL.open(b"").err(), Some(StateError::Torn { what: "thing", have: 0, need: 18 }));
    }

    #[test]
    fn a_huge_count_allocates_nothing() {
        let bytes = Fields::default().u64(u64::MAX).0;
        assert!(Reader::bare(&bytes, "list").list(Reader::u8).is_err());
        assert!(Reader::bare(&bytes, "text").text().is_err());
    }
}

//! Where a job stands in an input of lines.

use std::sync::Arc;

use bytes::Bytes;

use super::hash::InputHash;
use crate::proto::sealed::{Fields, Reader, Seal, StateError};

const SEAL: Seal = Seal { what: "position in an input of lines", magic: *b"K2PI", newest: 1 };

/// A position in an input of lines.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InputPosition {
    /// Whence the input comes, as the job was told; a path, or `-`.
    pub source: Arc<str>,
    /// Bytes consumed.
    pub bytes: u64,
    /// Lines consumed.
    pub lines: u64,
    /// The hash of the bytes consumed.
    pub hash: InputHash,
}

impl InputPosition {
    pub(super) fn take_in(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.hash.update(bytes);
    }

    /// The bytes to be kept, in the newest format.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        SEAL.seal(self.write(Fields::default())).into()
    }

    /// The position of kept bytes.
    ///
    /// # Errors
    /// [`StateError`] tells something else, a newer release's format, a torn end and damage apart.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, StateError> {
        let mut fields = SEAL.open(bytes)?;
        let position = Self::read(&mut fields)?;
        fields.finish(position)
    }

    pub(super) fn write(&self, fields: Fields) -> Fields {
        self.hash.write(fields.text(&self.source).u64(self.bytes).u64(self.lines))
    }

    pub(crate) fn read(fields: &mut Reader<'_>) -> Result<Self, StateError> {
        Ok(Self {
            source: fields.text()?,
            bytes: fields.u64()?,
            lines: fields.u64()?,
            hash: InputHash::read(fields)?,
        })
    }
}

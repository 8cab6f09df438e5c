//! A position in an input of lines.

use std::sync::Arc;

use super::hash::InputHash;
use crate::proto::sealed::{Fields, Reader, StateError};

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

    pub(crate) fn write(&self, fields: Fields) -> Fields {
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

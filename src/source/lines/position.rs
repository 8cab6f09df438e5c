//! Where a job stands in an input of lines.

use std::sync::Arc;

use bytes::Bytes;

use super::hash::InputHash;
use crate::{
    proto::sealed::{Fields, Reader, Seal, StateError},
    source::SplitState,
};

/// Of what stands alone, as a job that pipes lines kept it in earlier releases.
const SEAL: Seal = Seal { what: "position in an input of lines", magic: *b"K2PI", newest: 1 };
/// Of the state of a split.
const SPLIT: Seal = Seal { what: "position in an input of lines", magic: *b"K2PL", newest: 1 };

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

    /// The state of its input as a split of a source of lines.
    pub(crate) fn to_split(&self) -> SplitState {
        SplitState::new(Arc::clone(&self.source), SPLIT.seal(self.write(Fields::default())))
    }

    /// The position of such a state.
    pub(crate) fn from_split(state: &SplitState) -> Result<Self, StateError> {
        let mut fields = SPLIT.open(&state.state)?;
        let position = Self::read(&mut fields)?;
        fields.finish(position)
    }

    fn write(&self, fields: Fields) -> Fields {
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

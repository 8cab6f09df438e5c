//! Who owns a state.

use std::sync::Arc;

use crate::proto::sealed::{Fields, Reader, Seal, StateError};

const SEAL: Seal = Seal { what: "owner of a state", magic: *b"K2PO", newest: 1 };

/// An owner of a state: each has a greater epoch than the one before, so that what an older one wrote can be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) epoch: u64,
    /// How it calls itself.
    pub(super) holder: Arc<str>,
}

impl Owner {
    /// The name of this process, for people.
    pub(super) fn this_process() -> Arc<str> {
        format!("process {}", std::process::id()).into()
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        SEAL.seal(self.write(Fields::default()))
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self, StateError> {
        let mut fields = SEAL.open(bytes)?;
        let owner = Self::read(&mut fields)?;
        fields.finish(owner)
    }

    pub(super) fn write(&self, fields: Fields) -> Fields {
        fields.u64(self.epoch).text(&self.holder)
    }

    pub(super) fn read(fields: &mut Reader<'_>) -> Result<Self, StateError> {
        Ok(Self { epoch: fields.u64()?, holder: fields.text()? })
    }
}

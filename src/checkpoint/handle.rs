//! State of sources and operators, as a checkpoint holds it.

use std::{fmt, sync::Arc};

use bytes::Bytes;

use crate::proto::sealed::{Fields, Reader, StateError};

/// State of at most so many bytes stays inside the checkpoint; larger state gets a file or object of its own.
pub const INLINE_STATE_BYTES: usize = 16 * 1024;

/// The state of one source or operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorState {
    /// The operator's uid: the same in every run of the job, and no other operator's (as Flink's `uid`).
    pub uid: Arc<str>,
    /// One entry per subtask, in their order.
    pub subtasks: Vec<StateHandle>,
}

/// The state of one subtask, or where it lies.
#[derive(Clone, PartialEq, Eq)]
pub enum StateHandle {
    /// The bytes themselves.
    Inline(Bytes),
    /// The bytes lie in the store's [`StateStore`](super::StateStore).
    Stored {
        /// Under this name, which no other state has.
        name: Arc<str>,
        /// So many.
        bytes: u64,
        /// Their CRC-32C.
        checksum: u32,
    },
}

impl StateHandle {
    /// How many bytes the state has.
    #[must_use]
    pub fn len(&self) -> u64 {
        match self {
            Self::Inline(bytes) => bytes.len() as u64,
            Self::Stored { bytes, .. } => *bytes,
        }
    }

    /// True for a state of no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The handle of bytes that lie under `name`.
    pub(super) fn stored(name: Arc<str>, bytes: &[u8]) -> Self {
        Self::Stored { name, bytes: bytes.len() as u64, checksum: crc32c::crc32c(bytes) }
    }

    /// Why `found` are not the bytes that were put.
    pub(super) fn fault(&self, found: &[u8]) -> Option<String> {
        let Self::Stored { bytes, checksum, .. } = self else { return None };
        if found.len() as u64 != *bytes {
            return Some(format!("it has {} bytes instead of {bytes}", found.len()));
        }
        (crc32c::crc32c(found) != *checksum).then(|| "its checksum does not match".to_owned())
    }

    pub(super) fn write(&self, fields: Fields) -> Fields {
        match self {
            Self::Inline(bytes) => fields.u8(0).bytes(bytes),
            Self::Stored { name, bytes, checksum } => {
                fields.u8(1).text(name).u64(*bytes).raw(&checksum.to_be_bytes())
            }
        }
    }

    pub(super) fn read(fields: &mut Reader<'_>) -> Result<Self, StateError> {
        match fields.u8()? {
            0 => Ok(Self::Inline(Bytes::copy_from_slice(fields.bytes()?))),
            1 => Ok(Self::Stored {
                name: fields.text()?,
                bytes: fields.u64()?,
                checksum: u32::from_be_bytes(fields.array()?),
            }),
            _ => fields.damaged("a state lies in an unknown place"),
        }
    }
}

/// Not the bytes: state may hold what should not be logged.
impl fmt::Debug for StateHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inline(bytes) => write!(f, "Inline({} bytes)", bytes.len()),
            Self::Stored { name, bytes, checksum } => {
                write!(f, "Stored({name}, {bytes} bytes, checksum {checksum:08x})")
            }
        }
    }
}

//! Control batches: the markers that end a transaction in a partition's log.

use super::{BatchBuilder, BatchError, SealedBatch, Stamp, bit, put};
use crate::{ids::Identity, record::StoredRecord, wire::cursor::Cursor};

/// What a control record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ControlType {
    /// The producer's transaction was aborted.
    Abort,
    /// The producer's transaction was committed.
    Commit,
    /// Something that is not about transactions, by its number; to be passed over.
    Other(i16),
}

/// A marker as its coordinator sends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ControlMarker {
    /// Whose transaction ends. The epoch is the coordinator's choice: that of the transaction, or one above.
    pub identity: Identity,
    /// How it ends.
    pub control_type: ControlType,
    /// The epoch of the coordinator that decided.
    pub coordinator_epoch: i32,
    /// The marker's time, in milliseconds since the Unix epoch.
    pub timestamp: i64,
}

/// A control record as it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ControlRecord {
    /// What it says.
    pub control_type: ControlType,
    /// The epoch of the coordinator that decided, if the record is about a transaction and holds one.
    pub coordinator_epoch: Option<i32>,
}

impl ControlType {
    /// The type behind its number.
    #[must_use]
    pub fn from_number(number: i16) -> Self {
        match number {
            0 => Self::Abort,
            1 => Self::Commit,
            other => Self::Other(other),
        }
    }

    /// The number on the wire.
    #[must_use]
    pub fn number(self) -> i16 {
        match self {
            Self::Abort => 0,
            Self::Commit => 1,
            Self::Other(number) => number,
        }
    }
}

/// A control batch with one marker, as a broker appends it; its base offset is 0.
#[must_use]
pub fn control_batch(marker: &ControlMarker) -> SealedBatch {
    let mut key = [0; 4];
    put(&mut key, 2, marker.control_type.number().to_be_bytes());
    let mut value = [0; 6];
    put(&mut value, 2, marker.coordinator_epoch.to_be_bytes());
    let mut batch =
        BatchBuilder::new().with_control_record(&key, &value, marker.timestamp).finish(bit::CONTROL);
    // Markers are outside the producer's sequence.
    batch.stamp(Stamp::Transactional { identity: marker.identity, base_sequence: -1 });
    batch
}

/// Reads the first record of a control batch.
pub(super) fn parse(record: &StoredRecord) -> Result<ControlRecord, BatchError> {
    let mut key = Cursor::new(record.key.as_deref().unwrap_or_default());
    let (Ok(version), Ok(number)) = (key.i16(), key.i16()) else {
        return Err(BatchError::Control { reason: "its key is too short" });
    };
    // Later versions may only add to the key.
    if version < 0 {
        return Err(BatchError::Control { reason: "its key has a negative version" });
    }
    let control_type = ControlType::from_number(number);
    let coordinator_epoch = match control_type {
        ControlType::Abort | ControlType::Commit => {
            coordinator_epoch(record.value.as_deref().unwrap_or_default())
        }
        ControlType::Other(_) => None,
    };
    Ok(ControlRecord { control_type, coordinator_epoch })
}

fn coordinator_epoch(value: &[u8]) -> Option<i32> {
    let mut value = Cursor::new(value);
    let version = value.i16().ok()?;
    (version >= 0).then(|| value.i32().ok()).flatten()
}

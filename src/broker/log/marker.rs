//! Transaction markers, and what a broker demands of a produced batch.

use kafka_protocol::error::ResponseError;

use crate::ids::Identity;
use crate::record::{Compression, CompressionLevels};
use crate::wire::batch::{
    Batch, BatchError, Batches, ControlMarker, ControlType, HEADER_BYTES, RecompressError, SealError,
    control_batch,
};

/// The outcome that a control batch announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Outcome {
    Commit,
    Abort,
}

/// A transaction marker to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Marker {
    pub(crate) producer_id: i64,
    pub(crate) producer_epoch: i16,
    pub(crate) coordinator_epoch: i32,
    pub(crate) outcome: Outcome,
    /// What the sender says: 2 makes the log demand an epoch above the last one (KIP-1228).
    pub(crate) transaction_version: i8,
}

impl Marker {
    /// The control batch of this marker.
    pub(super) fn batch(&self, timestamp: i64) -> Result<Batch, ResponseError> {
        let control_type = match self.outcome {
            Outcome::Abort => ControlType::Abort,
            Outcome::Commit => ControlType::Commit,
        };
        let sealed = control_batch(&ControlMarker {
            identity: Identity::new(self.producer_id, self.producer_epoch),
            control_type,
            coordinator_epoch: self.coordinator_epoch,
            timestamp,
        });
        let read = Batches::new(sealed.freeze()).next();
        read.and_then(Result::ok).ok_or(ResponseError::UnknownServerError)
    }
}

/// A produced batch, checked as Kafka's `LogValidator` does: format, checksum, every record.
///
/// A codec that this build does not have is not looked into.
///
/// # Errors
/// The code that Produce answers.
pub(crate) fn produced(bytes: &bytes::Bytes) -> Result<Batch, ResponseError> {
    let batch = Batch::produced(bytes.clone()).map_err(as_produce_says)?;
    if bytes.len() == HEADER_BYTES && matches!(batch.header().codec(), 1..=3) {
        // In zstd nothing is an empty stream; in the others it lacks a beginning.
        return Err(ResponseError::UnknownServerError);
    }
    let mut records = match batch.records() {
        Ok(records) => records,
        Err(BatchError::Codec { codec: 1..=4 }) => return Ok(batch),
        Err(error) => return Err(as_produce_says(error)),
    };
    while records.next_view().map_err(as_produce_says)?.is_some() {}
    Ok(batch)
}

/// The batch as the topic keeps it: in its own codec, if it has one.
///
/// # Errors
/// The code that Produce answers.
pub(crate) fn kept(
    batch: &Batch,
    codec: Option<Compression>,
    levels: CompressionLevels,
) -> Result<Batch, ResponseError> {
    match codec {
        Some(codec) if batch.compression() != Some(codec) => {
            batch.recompressed(codec, levels).map_err(|error| match error {
                RecompressError::Read(error) => as_produce_says(error),
                RecompressError::Seal(SealError::NotBuilt(_)) => ResponseError::UnsupportedCompressionType,
                _ => ResponseError::UnknownServerError,
            })
        }
        Some(_) | None => Ok(batch.clone()),
    }
}

fn as_produce_says(error: BatchError) -> ResponseError {
    match error {
        BatchError::Length { .. } | BatchError::Incomplete { .. } | BatchError::Checksum { .. } => {
            ResponseError::CorruptMessage
        }
        // It has no code for a stream that it cannot decompress, and falls over a codec that it does not know.
        BatchError::Compressed { .. } | BatchError::Codec { .. } => ResponseError::UnknownServerError,
        BatchError::TooLarge { .. } => ResponseError::MessageTooLarge,
        BatchError::OldFormat { .. }
        | BatchError::UnknownFormat { .. }
        | BatchError::Offsets { .. }
        | BatchError::Order { .. }
        | BatchError::Count { .. }
        | BatchError::Record { .. }
        | BatchError::Trailing { .. }
        | BatchError::Control { .. }
        | BatchError::NotProducible { .. } => ResponseError::InvalidRecord,
    }
}

#[cfg(test)]
pub(super) mod testing {
    use bytes::Bytes;

    use super::*;
    use crate::record::RecordRef;
    use crate::wire::batch::{BatchBuilder, Stamp};

    fn records(count: i32, stamp: Stamp) -> Batch {
        let mut builder = BatchBuilder::new();
        for n in 0..count {
            builder.append(&RecordRef::value(b"v"), i64::from(n)).unwrap();
        }
        let mut sealed = builder.seal(Compression::None).unwrap();
        sealed.stamp(stamp);
        produced(&sealed.freeze()).unwrap()
    }

    /// `count` records inside a transaction of producer (`id`, `epoch`), from sequence `base_sequence`.
    pub(crate) fn data(id: i64, epoch: i16, base_sequence: i32, count: i32) -> Batch {
        records(count, Stamp::Transactional { identity: Identity::new(id, epoch), base_sequence })
    }

    /// The same outside of one.
    pub(crate) fn idempotent(id: i64, epoch: i16, base_sequence: i32, count: i32) -> Batch {
        records(count, Stamp::Idempotent { identity: Identity::new(id, epoch), base_sequence })
    }

    /// `count` records of nobody in particular.
    pub(crate) fn plain(count: i32) -> Batch {
        records(count, Stamp::Anonymous)
    }

    #[test]
    fn a_flipped_bit_is_corrupt() {
        let mut bytes = data(1, 0, 0, 1).bytes().to_vec();
        bytes[30] ^= 1;
        assert_eq!(produced(&bytes.into()).unwrap_err(), ResponseError::CorruptMessage);
    }

    #[test]
    fn two_batches_and_markers_are_invalid_records() {
        let one = data(1, 0, 0, 1);
        let twice = Bytes::from([&one.bytes()[..], &one.bytes()[..]].concat());
        assert_eq!(produced(&twice).unwrap_err(), ResponseError::InvalidRecord);
        let marker = Marker {
            producer_id: 1,
            producer_epoch: 0,
            coordinator_epoch: 0,
            outcome: Outcome::Commit,
            transaction_version: 1,
        };
        let control = marker.batch(0).unwrap();
        assert_eq!(produced(control.bytes()).unwrap_err(), ResponseError::InvalidRecord);
    }
}

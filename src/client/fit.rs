//! Whether a record can be sent at all, whatever the brokers say.

use super::{error::SendError, topic::Topic};
use crate::{record::RecordRef, wire::batch::BatchBuilder};

impl Topic {
    /// Whether a transaction would take this record, which names a partition or not.
    ///
    /// # Errors
    /// [`SendError::NoSuchPartition`], [`SendError::TooLarge`].
    pub(crate) fn fits(
        &self,
        partition: Option<i32>,
        record: &RecordRef<'_>,
        request_bytes: usize,
    ) -> Result<(), SendError> {
        match partition {
            Some(partition) if !(0..self.partitions()).contains(&partition) => Err(self.lacks(partition)),
            // The time of a record alone in its batch takes no room.
            Some(_) | None => fits_alone(record, 0, request_bytes).map(drop),
        }
    }

    pub(super) fn lacks(&self, partition: i32) -> SendError {
        let (topic, partitions) = (self.name().to_string(), self.partitions());
        SendError::NoSuchPartition { topic, partition, partitions }
    }
}

/// Whether a record fits into a request when it is alone in its batch; the most bytes that it can add to any.
pub(super) fn fits_alone(
    record: &RecordRef<'_>,
    timestamp: i64,
    request_bytes: usize,
) -> Result<usize, SendError> {
    let most = BatchBuilder::most_bytes_of(record);
    if most <= request_bytes {
        return Ok(most);
    }
    let bytes = BatchBuilder::new().size_of(record, timestamp);
    if bytes > request_bytes {
        return Err(SendError::TooLarge { bytes, max_bytes: request_bytes });
    }
    Ok(most)
}

//! Two batches out of one that is too large for a broker.

use super::{Batch, BatchBuilder, BatchError, BatchFull, SealError, SealedBatch};
use crate::record::{CompressionLevels, RecordRef};

/// Decompressed records are not larger than a batch that is not compressed can be.
const MOST_BYTES: usize = 0x7fff_ffff;

/// Why a batch could not be split.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SplitError {
    /// It holds one record, or none.
    #[error("a batch of one record cannot be split")]
    OneRecord,
    /// Its records cannot be read.
    #[error(transparent)]
    Read(#[from] BatchError),
    /// A record does not fit into its half.
    #[error(transparent)]
    Full(#[from] BatchFull),
    /// A half could not be closed.
    #[error(transparent)]
    Seal(#[from] SealError),
}

impl Batch {
    /// The first half of the records and the second, in two batches that are compressed like this one.
    ///
    /// # Errors
    /// [`SplitError`].
    pub fn split(&self, levels: CompressionLevels) -> Result<(SealedBatch, SealedBatch), SplitError> {
        let half = self.header().count / 2;
        if half == 0 {
            return Err(SplitError::OneRecord);
        }
        let mut records = self.records_within(MOST_BYTES)?;
        let (mut first, mut second) = (BatchBuilder::new(), BatchBuilder::new());
        while let Some(view) = records.next_view()? {
            let headers: Vec<_> = view.headers().collect();
            let record = RecordRef { key: view.key, value: view.value, headers: &headers, timestamp: None };
            let builder = if first.count() < half { &mut first } else { &mut second };
            builder.append(&record, view.timestamp)?;
        }
        let compression = self.compression().unwrap_or_default();
        Ok((first.seal_at(compression, levels)?, second.seal_at(compression, levels)?))
    }
}

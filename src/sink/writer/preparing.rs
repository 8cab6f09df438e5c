//! From an open transaction to its committable, in steps: what a flush waits for needs no writer.

use super::{Current, PrepareCommitError, SinkWriter};
use crate::{
    client::{PrepareError, Prepared, Transaction},
    proto::{
        committable::Committable,
        pool::{LastUse, Slot},
    },
};

/// A transaction that takes no more records, on its way to its committable.
#[derive(Debug)]
pub(crate) struct Preparing {
    checkpoint: u64,
    slot: Slot,
    transaction: Transaction,
}

/// A flush that is over.
#[derive(Debug)]
pub(crate) struct Flushed {
    checkpoint: u64,
    slot: Slot,
    result: Result<Prepared, PrepareError>,
}

impl Preparing {
    /// Waits until every record is acknowledged. **Not** cancel safe, as [`SinkWriter::prepare_commit`].
    pub(crate) async fn flushed(self) -> Flushed {
        let Self { checkpoint, slot, transaction } = self;
        Flushed { checkpoint, slot, result: transaction.prepare().await }
    }
}

impl SinkWriter {
    /// Flushes, and freezes the transaction as a committable of `checkpoint`; `None` if nothing was written since
    /// the last one. The next record goes into another transaction.
    ///
    /// # Errors
    /// [`PrepareCommitError`]: the checkpoint must be declined.
    ///
    /// # Cancel safety
    /// **Not** cancel safe: a transaction whose committable was not seen is a leftover, and recovery aborts it.
    pub async fn prepare_commit(
        &mut self,
        checkpoint: u64,
    ) -> Result<Option<Committable>, PrepareCommitError> {
        match self.begin_prepare(checkpoint)? {
            Some(preparing) => {
                let flushed = preparing.flushed().await;
                self.end_prepare(flushed)
            }
            None => Ok(None),
        }
    }

    /// The first step of [`prepare_commit`](Self::prepare_commit). While the flush goes on the writer can be told of other transactions.
    pub(crate) fn begin_prepare(&mut self, checkpoint: u64) -> Result<Option<Preparing>, PrepareCommitError> {
        self.checkpoint = checkpoint;
        self.meter.log_deadlines();
        let Some(Current { slot, transaction, .. }) = self.current.take() else { return Ok(None) };
        if let Err(source) = self.meter.may_prepare(&self.pool.id(slot)) {
            // Dropping the transaction aborts it.
            self.give_up(slot);
            return Err(PrepareCommitError { checkpoint, source: source.into() });
        }
        // The next transaction begins behind the barrier, while this one is flushed.
        if let Some((next, id)) = self.next_id() {
            self.producers.freshen(next, id);
        }
        Ok(Some(Preparing { checkpoint, slot, transaction }))
    }

    /// The last step.
    pub(crate) fn end_prepare(
        &mut self,
        Flushed { checkpoint, slot, result }: Flushed,
    ) -> Result<Option<Committable>, PrepareCommitError> {
        let id = self.pool.id(slot);
        match result {
            Ok(Prepared::Empty(producer)) => {
                self.meter.ended(&id);
                // An id that was never used is free at once, with its identity.
                self.producers.unused(slot, producer);
                _ = self.pool.unused(slot);
                self.measure();
                Ok(None)
            }
            Ok(Prepared::Ready(committable)) => {
                self.meter.prepared(&id);
                _ = self.pool.prepared(slot, checkpoint, LastUse::of(&committable));
                self.measure();
                Ok(Some(committable))
            }
            Err(source) => {
                self.give_up(slot);
                Err(PrepareCommitError { checkpoint, source: source.into() })
            }
        }
    }
}

//! A transaction as a [`futures::Sink`] of records.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures::{FutureExt, Sink, future::BoxFuture};

use super::{
    error::{SendError, TrySendError},
    topic::Topic,
    transaction::Transaction,
};
use crate::record::Record;

/// A record and where it goes.
#[derive(Debug, Clone)]
pub struct Outgoing {
    /// The topic.
    pub topic: Topic,
    /// The record; without a partition the partitioner chooses one.
    pub record: Record,
}

/// A transaction behind the interface of [`futures::Sink`], made by [`Transaction::into_sink`].
///
/// Ready means that a record is taken at once; flushed means that all are acknowledged. Closing it only flushes:
/// take the transaction back with [`finish`](Self::finish) to prepare, commit or abort it. Dropping it aborts the
/// transaction, like dropping the transaction itself.
pub struct RecordSink {
    transaction: Transaction,
    /// Taken from the caller, and waiting for memory.
    held: Option<Outgoing>,
    freed: Option<BoxFuture<'static, ()>>,
    /// Of everything that was taken so far.
    flushing: Option<BoxFuture<'static, Result<(), SendError>>>,
}

impl RecordSink {
    pub(super) fn new(transaction: Transaction) -> Self {
        Self { transaction, held: None, freed: None, flushing: None }
    }

    /// The transaction, after the record that still waits for memory was taken.
    ///
    /// # Errors
    /// [`SendError`]; the transaction is then aborted.
    ///
    /// # Cancel safety
    /// **Not** cancel safe: dropping the future aborts the transaction.
    pub async fn finish(mut self) -> Result<Transaction, SendError> {
        futures::future::poll_fn(|cx| self.poll_room(cx)).await?;
        Ok(self.transaction)
    }

    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        while let Some(item) = &self.held {
            // Listening begins before the try, so that what becomes free in between is heard.
            let mut freed = self.freed.take().unwrap_or_else(|| self.transaction.freed().boxed());
            let heard = freed.poll_unpin(cx).is_ready();
            match try_send(&mut self.transaction, item) {
                Err(TrySendError::Full) if heard => {}
                Err(TrySendError::Full) => {
                    self.freed = Some(freed);
                    return Poll::Pending;
                }
                Ok(()) => self.held = None,
                Err(TrySendError::Record(e)) => {
                    self.held = None;
                    return Poll::Ready(Err(e));
                }
                Err(TrySendError::Failed(cause)) => return Poll::Ready(Err(SendError::Failed(cause))),
            }
        }
        Poll::Ready(Ok(()))
    }
}

fn try_send(
    transaction: &mut Transaction,
    Outgoing { topic, record }: &Outgoing,
) -> Result<(), TrySendError> {
    transaction.try_send(topic, record.partition, record.as_ref(&mut Vec::new()))
}

impl Sink<Outgoing> for RecordSink {
    type Error = SendError;

    fn poll_ready(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        self.poll_room(cx)
    }

    fn start_send(mut self: Pin<&mut Self>, item: Outgoing) -> Result<(), SendError> {
        let this = &mut *self;
        // A flush that is under way is not of this one.
        this.flushing = None;
        match try_send(&mut this.transaction, &item) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full) => {
                this.held = Some(item);
                Ok(())
            }
            Err(TrySendError::Record(e)) => Err(e),
            Err(TrySendError::Failed(cause)) => Err(SendError::Failed(cause)),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        ready!(self.poll_room(cx))?;
        if self.flushing.is_none() {
            self.flushing = Some(self.transaction.begin_flush()?.boxed());
        }
        let done = self.flushing.as_mut().map_or(Poll::Ready(Ok(())), |flushing| flushing.poll_unpin(cx));
        if done.is_ready() {
            self.flushing = None;
        }
        done
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        self.poll_flush(cx)
    }
}

impl std::fmt::Debug for RecordSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordSink").field("transaction", &self.transaction).finish_non_exhaustive()
    }
}

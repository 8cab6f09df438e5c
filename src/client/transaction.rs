//! An open transaction in the hands of the one who writes it.

use std::{
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::{FutureExt, future::BoxFuture};
use tokio::sync::{mpsc, oneshot};

use super::{
    accumulator::{Accumulator, Place},
    error::{EndError, PrepareError, SendError, TrySendError},
    link::{Delivery, Link},
    producer::{Shared, TransactionalProducer},
    record_sink::RecordSink,
    resume,
    topic::Topic,
    writer::{Command, Ending},
};
use crate::{
    ids::Moment,
    proto::{cause::Cause, committable::Committable, resume::Outcome, transaction::Goal},
    record::RecordRef,
};

mod offsets;
#[cfg(test)]
mod tests;

/// An open transaction.
///
/// Records are taken synchronously and without a lock; a task of its own sends them. Dropping it aborts the
/// transaction in the background.
#[derive(Debug)]
pub struct Transaction {
    shared: Arc<Shared>,
    link: Arc<Link>,
    commands: mpsc::UnboundedSender<Command>,
    records: Accumulator,
    /// A batch was handed over since the last turn of the runtime's other tasks.
    owes_a_turn: bool,
    /// When the task was last asked to wake whoever waits for memory.
    alarm: Option<Moment>,
}

/// A transaction after [`prepare`](Transaction::prepare).
#[derive(Debug)]
#[non_exhaustive]
pub enum Prepared {
    /// Nothing was written: there is nothing to commit, and the producer can go on.
    Empty(TransactionalProducer),
    /// Whoever holds this can commit, from any process.
    Ready(Committable),
}

/// What is logged of a transaction that could not be aborted.
pub(crate) const LEFT_OPEN: &str = "the open transaction is left to the next recovery: readers stall there until the job is \
                                    started again, or until transaction.timeout.ms is over";

/// How long a failed prepare or commit waits for the abort that follows.
const ABORT_WAIT: Duration = Duration::from_secs(5);

impl Transaction {
    pub(super) fn new(
        shared: Arc<Shared>,
        link: Arc<Link>,
        commands: mpsc::UnboundedSender<Command>,
    ) -> Self {
        let records =
            Accumulator::new(Arc::clone(&shared.router), shared.config.batching.clone(), Arc::clone(&link));
        Self { shared, link, commands, records, owes_a_turn: false, alarm: None }
    }

    /// Takes a record, or says at once why not. Nothing is allocated for it.
    ///
    /// Without a partition the [`Partitioner`](super::Partitioner) decides: unless set otherwise the key, as in Kafka's Java
    /// client, and without a key, records fill one partition's batch after the other's. Without a timestamp it gets the
    /// present time, by a clock that may be some milliseconds behind.
    ///
    /// # Errors
    /// [`TrySendError`]; the record was not taken.
    pub fn try_send(
        &mut self,
        topic: &Topic,
        partition: Option<i32>,
        record: RecordRef<'_>,
    ) -> Result<(), TrySendError> {
        self.append(topic, partition, &record).map(|_| ())
    }

    /// [`try_send`](Self::try_send) that waits while the memory is full. After each batch it lets the runtime's other tasks
    /// have a turn, so that the batch leaves also where one thread does everything.
    ///
    /// # Errors
    /// [`SendError`]; the record was not taken.
    ///
    /// # Cancel safety
    /// A dropped future took the record or did not; nothing is half done. It waits before it takes, so a future
    /// dropped while it is pending has not taken it.
    pub fn send<'a>(
        &'a mut self,
        topic: &'a Topic,
        partition: Option<i32>,
        record: RecordRef<'a>,
    ) -> impl Future<Output = Result<(), SendError>> + Send + use<'a> {
        Take { transaction: self, topic, partition, record, freed: None, taken: |_, _| () }
    }

    /// [`send`](Self::send) that also tells the record's fate. The batch is sent when it is full, when its linger
    /// time is over and the transaction is used, or with the next [`flush`](Self::flush).
    ///
    /// # Errors
    /// [`SendError`]; the record was not taken.
    ///
    /// # Cancel safety
    /// As for [`send`](Self::send).
    pub fn send_tracked<'a>(
        &'a mut self,
        topic: &'a Topic,
        partition: Option<i32>,
        record: RecordRef<'a>,
    ) -> impl Future<Output = Result<Delivery, SendError>> + Send + use<'a> {
        let taken = |transaction: &mut Self, place| transaction.records.track(place);
        Take { transaction: self, topic, partition, record, freed: None, taken }
    }

    /// Sends what has waited longer than `linger.ms`. Call it now and then when no records come.
    ///
    /// # Errors
    /// [`SendError::Failed`] if the transaction must be aborted.
    pub fn tick(&mut self) -> Result<(), SendError> {
        self.link.check()?;
        let closed = self.records.close_lingering();
        self.submit();
        closed
    }

    /// Sends everything and waits until it is acknowledged.
    ///
    /// # Errors
    /// [`SendError::Failed`] if a record was not stored; the transaction can only be aborted then.
    ///
    /// # Cancel safety
    /// Cancel safe: the records are sent in any case.
    pub async fn flush(&mut self) -> Result<(), SendError> {
        self.begin_flush()?.await
    }

    /// Sends everything; the future waits until it is acknowledged.
    pub(super) fn begin_flush(
        &mut self,
    ) -> Result<impl Future<Output = Result<(), SendError>> + Send + 'static + use<>, SendError> {
        self.link.check()?;
        self.close_all()?;
        let (reply, answer) = oneshot::channel();
        // A task that is gone has left its cause behind.
        _ = self.commands.send(Command::Flush(reply));
        let link = Arc::clone(&self.link);
        Ok(async move {
            match answer.await {
                Ok(result) => result.map_err(SendError::Failed),
                Err(_) => Err(SendError::Failed(link.cause())),
            }
        })
    }

    /// Done when memory became free, or the transaction failed, after this was first polled.
    pub(crate) fn freed(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
        Arc::clone(&self.link).freed()
    }

    /// This transaction as a [`futures::Sink`].
    #[must_use]
    pub fn into_sink(self) -> RecordSink {
        RecordSink::new(self)
    }

    /// Flushes, and hands out what is needed to commit from anywhere. The transaction stays open at the broker
    /// until it is committed, aborted, or its timeout is over.
    ///
    /// # Errors
    /// [`PrepareError`]: a record was not stored. The transaction is aborted then, in the background if that
    /// takes more than 5 s.
    ///
    /// # Cancel safety
    /// **Not** cancel safe: a dropped future aborts the transaction in the background, unless its committable was
    /// on the way already; then it is a leftover that its owner must abort, or the broker does after the timeout.
    pub async fn prepare(self) -> Result<Prepared, PrepareError> {
        let shared = Arc::clone(&self.shared);
        match self.end(Goal::Prepare).await {
            Ending::Empty(next) => Ok(Prepared::Empty(TransactionalProducer::new(shared, next))),
            Ending::Prepared(committable) => Ok(Prepared::Ready(*committable)),
            Ending::Failed(cause)
            | Ending::Fenced(cause)
            | Ending::Abandoned(cause)
            | Ending::Aborted(_, cause) => Err(PrepareError { cause }),
        }
    }

    /// Flushes and commits.
    ///
    /// # Errors
    /// [`EndError`]. [`EndError::Pending`] carries the committable: the outcome is open, resume it.
    ///
    /// # Cancel safety
    /// **Not** cancel safe: a dropped future leaves open whether the transaction is committed or aborted; one of
    /// both happens in the background. Use [`prepare`](Self::prepare) and [`resume`](super::Client::resume) where
    /// that matters.
    pub async fn commit(self) -> Result<TransactionalProducer, EndError> {
        let shared = Arc::clone(&self.shared);
        let asked = shared.router.clock.now();
        let next = match self.end(Goal::Commit).await {
            Ending::Empty(next) => next,
            Ending::Prepared(committable) => {
                resume::commit_own(Arc::clone(&shared), *committable, asked).await?
            }
            Ending::Failed(cause) | Ending::Aborted(_, cause) => return Err(EndError::Failed(cause)),
            Ending::Fenced(cause) => return Err(EndError::Fenced(cause)),
            Ending::Abandoned(cause) => return Err(EndError::Abandoned(cause)),
        };
        Ok(TransactionalProducer::new(shared, next))
    }

    /// Throws everything away.
    ///
    /// # Errors
    /// [`EndError::Fenced`] and [`EndError::Abandoned`]: nothing becomes visible then either.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop the abort.
    pub async fn abort(self) -> Result<TransactionalProducer, EndError> {
        let shared = Arc::clone(&self.shared);
        match self.end(Goal::Abort).await {
            Ending::Empty(next) | Ending::Aborted(next, _) => Ok(TransactionalProducer::new(shared, next)),
            Ending::Fenced(cause) => Err(EndError::Fenced(cause)),
            Ending::Failed(cause) | Ending::Abandoned(cause) => Err(EndError::Abandoned(cause)),
            Ending::Prepared(_) => Err(EndError::Outcome(Box::new(Outcome::Committed))),
        }
    }

    async fn end(mut self, goal: Goal) -> Ending {
        let since = self.shared.router.clock.now();
        if goal != Goal::Abort {
            // What was lost earlier is not in what is closed now.
            if let Err(SendError::Failed(cause)) = self.close_all().and_then(|()| self.link.check()) {
                self.abort_at_last().await;
                return failed(cause);
            }
        }
        match (self.ask_end(goal, since).await, goal) {
            (Ending::Failed(cause), Goal::Prepare | Goal::Commit) => {
                self.abort_at_last().await;
                Ending::Failed(cause)
            }
            (ending, _) => ending,
        }
    }

    /// There is only one way left; it goes on in the background if it takes longer.
    async fn abort_at_last(&self) {
        let now = self.shared.router.clock.now();
        if tokio::time::timeout(ABORT_WAIT, self.ask_end(Goal::Abort, now)).await.is_err() {
            let id = &self.shared.transactional_id;
            tracing::warn!(transactional_id = %id, waited = ?ABORT_WAIT, "its abort is not answered: {LEFT_OPEN}");
        }
    }

    async fn ask_end(&self, goal: Goal, since: Moment) -> Ending {
        let (reply, answer) = oneshot::channel();
        _ = self.commands.send(Command::End(goal, since, reply));
        match answer.await {
            Ok(ending) => ending,
            Err(_) => failed(self.link.cause()),
        }
    }

    #[inline]
    fn append(
        &mut self,
        topic: &Topic,
        partition: Option<i32>,
        record: &RecordRef<'_>,
    ) -> Result<Place, TrySendError> {
        let place = self.records.append(topic, partition, record);
        self.submit();
        if matches!(place, Err(TrySendError::Full)) {
            self.set_alarm();
        }
        place
    }

    /// Whoever waits for memory is the one who closes what has lingered, which makes room: the task wakes him for it.
    #[cold]
    fn set_alarm(&mut self) {
        let until = self.records.lingers_until();
        if until.is_some() && until != self.alarm {
            _ = self.commands.send(Command::Wake(until));
        }
        self.alarm = until;
    }

    fn close_all(&mut self) -> Result<(), SendError> {
        let closed = self.records.close_all();
        self.submit();
        closed
    }

    /// Hands over what was closed.
    #[inline]
    fn submit(&mut self) {
        // A task that is gone has left its cause behind; the next call reports it.
        if let Some(partitions) = self.records.begun() {
            // So that they belong to the transaction by the time their first batches are to leave.
            _ = self.commands.send(Command::Began(partitions));
        }
        if let Some(batches) = self.records.closed() {
            _ = self.commands.send(Command::Batches(batches));
            self.owes_a_turn = true;
        }
    }
}

/// A record on its way into a batch. Written out, because the copies that a compiler makes between the states of an `async`
/// block cost more than the rest, for each record.
struct Take<'a, T> {
    transaction: &'a mut Transaction,
    topic: &'a Topic,
    partition: Option<i32>,
    record: RecordRef<'a>,
    /// Listens while the memory is full.
    freed: Option<BoxFuture<'static, ()>>,
    taken: fn(&mut Transaction, Place) -> T,
}

impl<T> Future for Take<'_, T> {
    type Output = Result<T, SendError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if mem::take(&mut this.transaction.owes_a_turn) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        match this.transaction.append(this.topic, this.partition, &this.record) {
            Ok(place) => Poll::Ready(Ok((this.taken)(this.transaction, place))),
            Err(TrySendError::Full) => this.wait(cx),
            Err(TrySendError::Record(e)) => Poll::Ready(Err(e)),
            Err(TrySendError::Failed(cause)) => Poll::Ready(Err(SendError::Failed(cause))),
        }
    }
}

impl<T> Take<'_, T> {
    #[cold]
    fn wait(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, SendError>> {
        // What was handed over at the limit needs no turn of its own: everybody gets one now.
        self.transaction.owes_a_turn = false;
        loop {
            // Listening begins before the try, so that what becomes free in between is heard.
            let freed = self.freed.get_or_insert_with(|| Arc::clone(&self.transaction.link).freed().boxed());
            let heard = freed.poll_unpin(cx).is_ready();
            if heard {
                self.freed = None;
            }
            match self.transaction.append(self.topic, self.partition, &self.record) {
                Ok(place) => return Poll::Ready(Ok((self.taken)(self.transaction, place))),
                Err(TrySendError::Full) if heard => {}
                Err(TrySendError::Full) => return Poll::Pending,
                Err(TrySendError::Record(e)) => return Poll::Ready(Err(e)),
                Err(TrySendError::Failed(cause)) => return Poll::Ready(Err(SendError::Failed(cause))),
            }
        }
    }
}

/// A task that is gone has left its cause behind, and a fence is one wherever it was met.
fn failed(cause: Cause) -> Ending {
    if cause.is_fenced() { Ending::Fenced(cause) } else { Ending::Failed(cause) }
}

impl Prepared {
    /// The committable, if something was written.
    #[must_use]
    pub fn committable(self) -> Option<Committable> {
        match self {
            Self::Empty(_) => None,
            Self::Ready(committable) => Some(committable),
        }
    }
}

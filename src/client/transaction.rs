//! An open transaction in the hands of the one who writes it.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::sync::{Notify, mpsc, oneshot, watch};

use super::{
    error::{EndError, PrepareError, SendError, TrySendError},
    fit::fits_alone,
    partitioner::{self, Sticky},
    producer::{Shared, TransactionalProducer},
    record_sink::RecordSink,
    resume,
    topic::Topic,
    writer::{Command, Ending, Sealed},
};
use crate::{
    ids::{Moment, TopicPartition},
    net::Clock,
    proto::{
        cause::{Cause, CauseKind},
        committable::Committable,
        numbers::Numbers,
        resume::Outcome,
        transaction::Goal,
    },
    record::RecordRef,
    wire::batch::BatchBuilder,
};

mod offsets;

/// An open transaction.
///
/// Records are taken synchronously and without a lock; a task of its own sends them. Dropping it aborts the
/// transaction in the background.
#[derive(Debug)]
pub struct Transaction {
    shared: Arc<Shared>,
    link: Arc<Link>,
    commands: mpsc::UnboundedSender<Command>,
    topics: Vec<OpenTopic>,
    open_bytes: usize,
    since_look: u32,
    last_topic: usize,
    /// How many records were taken.
    taken: u64,
}

/// What the handle and its task share.
#[derive(Debug, Default)]
pub(super) struct Link {
    failed: AtomicBool,
    cause: Mutex<Option<Cause>>,
    /// Bytes of sealed batches that are not acknowledged.
    unacked: AtomicUsize,
    freed: Notify,
    /// Whether a request that adds partitions may still arrive.
    late: AtomicBool,
}

#[derive(Debug)]
struct OpenTopic {
    topic: Topic,
    sticky: Sticky,
    partitions: Vec<Option<Open>>,
    /// The partitions that the task was told of.
    begun: Vec<bool>,
}

impl OpenTopic {
    /// A topic that was looked up again may have got partitions.
    fn learn(&mut self, newer: &Topic) {
        if newer.partitions() > self.topic.partitions() {
            self.partitions.extend((self.topic.partitions()..newer.partitions()).map(|_| None));
            self.begun.resize(self.partitions.len(), false);
            self.topic = newer.clone();
        }
    }
}

#[derive(Debug)]
struct Open {
    builder: BatchBuilder,
    numbers: Numbers,
    since: Moment,
    tracked: Option<watch::Sender<BatchState>>,
}

/// What is known of a batch; `None` while it is under way.
pub(super) type BatchState = Option<Result<Option<i64>, Cause>>;

/// The fate of one record. Await it after a [`flush`](Transaction::flush), or while writing more.
#[derive(Debug, Clone)]
pub struct Delivery {
    state: watch::Receiver<BatchState>,
    index: i32,
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

/// How often the linger time is looked at, in records: reading the clock for each would cost more than the record.
const LOOK_EVERY: u32 = 64;

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
        Self {
            shared,
            link,
            commands,
            topics: Vec::new(),
            open_bytes: 0,
            since_look: 0,
            last_topic: 0,
            taken: 0,
        }
    }

    /// Takes a record, or says at once why not. Nothing is allocated for it.
    ///
    /// Without a partition the key decides, as in Kafka's Java client (murmur2); without a key, records fill
    /// one partition's batch after the other's.
    ///
    /// # Errors
    /// [`TrySendError`]; the record was not taken.
    pub fn try_send(
        &mut self,
        topic: &Topic,
        partition: Option<i32>,
        record: RecordRef<'_>,
    ) -> Result<(), TrySendError> {
        self.append(topic, partition, record).map(|_| ())
    }

    /// [`try_send`](Self::try_send) that waits while the memory is full.
    ///
    /// # Errors
    /// [`SendError`]; the record was not taken.
    ///
    /// # Cancel safety
    /// A dropped future took the record or did not; nothing is half done. It waits before it takes, so a future
    /// dropped while it is pending has not taken it.
    pub async fn send(
        &mut self,
        topic: &Topic,
        partition: Option<i32>,
        record: RecordRef<'_>,
    ) -> Result<(), SendError> {
        loop {
            let link = Arc::clone(&self.link);
            let freed = link.freed.notified();
            match self.append(topic, partition, record) {
                Ok(_) => return Ok(()),
                Err(TrySendError::Full) => freed.await,
                Err(TrySendError::Record(e)) => return Err(e),
                Err(TrySendError::Failed(cause)) => return Err(SendError::Failed(cause)),
            }
        }
    }

    /// [`send`](Self::send) that also tells the record's fate. The batch is sent when it is full, when its linger
    /// time is over and the transaction is used, or with the next [`flush`](Self::flush).
    ///
    /// # Errors
    /// [`SendError`]; the record was not taken.
    ///
    /// # Cancel safety
    /// As for [`send`](Self::send).
    pub async fn send_tracked(
        &mut self,
        topic: &Topic,
        partition: Option<i32>,
        record: RecordRef<'_>,
    ) -> Result<Delivery, SendError> {
        loop {
            let link = Arc::clone(&self.link);
            let freed = link.freed.notified();
            match self.append(topic, partition, record) {
                Ok((at, partition)) => return Ok(self.track(at, partition)),
                Err(TrySendError::Full) => freed.await,
                Err(TrySendError::Record(e)) => return Err(e),
                Err(TrySendError::Failed(cause)) => return Err(SendError::Failed(cause)),
            }
        }
    }

    /// Sends what has waited longer than `linger.ms`. Call it now and then when no records come.
    ///
    /// # Errors
    /// [`SendError::Failed`] if the transaction must be aborted.
    pub fn tick(&mut self) -> Result<(), SendError> {
        self.check()?;
        let now = self.shared.router.clock.now();
        let linger = self.shared.config.linger;
        self.seal_where(|open| now.since(open.since) >= linger)
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
        self.check()?;
        self.seal_where(|_| true)?;
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
        let link = Arc::clone(&self.link);
        async move { link.freed.notified().await }
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
            Ending::Empty(next) => Ok(Prepared::Empty(TransactionalProducer::new(shared, next, None))),
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
        let (asked, link) = (shared.router.clock.now(), Arc::clone(&self.link));
        let (next, ahead) = match self.end(Goal::Commit).await {
            Ending::Empty(next) => (next, None),
            Ending::Prepared(committable) => {
                let late = link.late.load(Ordering::Acquire);
                resume::commit_own(Arc::clone(&shared), *committable, (asked, late)).await?
            }
            Ending::Failed(cause) | Ending::Aborted(_, cause) => return Err(EndError::Failed(cause)),
            Ending::Fenced(cause) => return Err(EndError::Fenced(cause)),
            Ending::Abandoned(cause) => return Err(EndError::Abandoned(cause)),
        };
        Ok(TransactionalProducer::new(shared, next, ahead))
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
            Ending::Empty(next) | Ending::Aborted(next, _) => {
                Ok(TransactionalProducer::new(shared, next, None))
            }
            Ending::Fenced(cause) => Err(EndError::Fenced(cause)),
            Ending::Failed(cause) | Ending::Abandoned(cause) => Err(EndError::Abandoned(cause)),
            Ending::Prepared(_) => Err(EndError::Outcome(Box::new(Outcome::Committed))),
        }
    }

    async fn end(mut self, goal: Goal) -> Ending {
        if goal != Goal::Abort {
            if let Err(SendError::Failed(cause)) = self.seal_where(|_| true) {
                self.abort_at_last().await;
                return failed(cause);
            }
        }
        match (self.ask_end(goal).await, goal) {
            (Ending::Failed(cause), Goal::Prepare | Goal::Commit) => {
                self.abort_at_last().await;
                Ending::Failed(cause)
            }
            (ending, _) => ending,
        }
    }

    /// There is only one way left; it goes on in the background if it takes longer.
    async fn abort_at_last(&self) {
        if tokio::time::timeout(ABORT_WAIT, self.ask_end(Goal::Abort)).await.is_err() {
            let id = &self.shared.transactional_id;
            tracing::warn!(transactional_id = %id, waited = ?ABORT_WAIT, "its abort is not answered: {LEFT_OPEN}");
        }
    }

    async fn ask_end(&self, goal: Goal) -> Ending {
        let (reply, answer) = oneshot::channel();
        _ = self.commands.send(Command::End(goal, reply));
        match answer.await {
            Ok(ending) => ending,
            Err(_) => failed(self.link.cause()),
        }
    }

    fn check(&self) -> Result<(), SendError> {
        if self.link.failed.load(Ordering::Relaxed) {
            return Err(SendError::Failed(self.link.cause()));
        }
        Ok(())
    }

    fn append(
        &mut self,
        topic: &Topic,
        partition: Option<i32>,
        record: RecordRef<'_>,
    ) -> Result<(usize, usize), TrySendError> {
        self.check()?;
        self.since_look += 1;
        if self.since_look >= LOOK_EVERY {
            self.since_look = 0;
            self.tick()?;
        }
        let timestamp = record.timestamp.unwrap_or_else(Clock::wall_ms);
        let at = self.topic_index(topic);
        let estimate = record.key.map_or(0, <[u8]>::len) + record.value.map_or(0, <[u8]>::len);
        let partition = self.choose(at, partition, &record, estimate)?;
        self.make_room(at, partition, &record, timestamp)?;
        let batch_bytes = self.shared.config.batch_bytes;
        let router = &self.shared.router;
        let begins = self.topics[at].partitions[partition].is_none() && !self.topics[at].begun[partition];
        let open = self.topics[at].partitions[partition].get_or_insert_with(|| Open {
            builder: BatchBuilder::with_buffer(router.buffers.take(batch_bytes)),
            numbers: Numbers::default(),
            since: router.clock.now(),
            tracked: None,
        });
        let before = open.builder.len_bytes();
        let appended = open.builder.append(&record, timestamp);
        self.open_bytes += open.builder.len_bytes() - before;
        if let Err(e) = appended {
            return Err(TrySendError::Record(SendError::Seal(e.to_string())));
        }
        open.numbers.push(self.taken);
        self.taken += 1;
        if begins {
            self.begin_partition(at, partition);
        }
        Ok((at, partition))
    }

    /// Tells the task of a partition's first record, so that it is a member of the transaction by the time its first batch is
    /// to leave.
    fn begin_partition(&mut self, at: usize, partition: usize) {
        let topic = &mut self.topics[at];
        topic.begun[partition] = true;
        let partition = i32::try_from(partition).unwrap_or(i32::MAX);
        // A task that is gone has left its cause behind; the next call reports it.
        _ = self.commands.send(Command::Began(TopicPartition { topic: topic.topic.name().clone(), partition }));
    }

    /// Closes the partition's batch if the record does not fit, and sees to the limits.
    fn make_room(
        &mut self,
        at: usize,
        partition: usize,
        record: &RecordRef<'_>,
        timestamp: i64,
    ) -> Result<(), TrySendError> {
        let config = &self.shared.config;
        let most = fits_alone(record, timestamp, config.request_bytes)?;
        let (batch_bytes, buffer_bytes) = (config.batch_bytes, config.buffer_bytes);
        if let Some(open) = &self.topics[at].partitions[partition] {
            let (held, builder) = (open.builder.len_bytes(), &open.builder);
            // What the record adds exactly costs more to know, and matters near the limit only.
            if held + most > batch_bytes && held + builder.size_of(record, timestamp) > batch_bytes {
                let sealed = self.seal(at, partition)?;
                self.submit(sealed.into_iter().collect());
            }
        }
        let used = self.link.unacked.load(Ordering::Acquire) + self.open_bytes;
        if used > 0 && used + most > buffer_bytes {
            // What is open must leave, or nothing would ever become free.
            self.seal_where(|_| true)?;
            return Err(TrySendError::Full);
        }
        Ok(())
    }

    fn topic_index(&mut self, topic: &Topic) -> usize {
        let same = |t: &OpenTopic| t.topic.is_same(topic);
        if !self.topics.get(self.last_topic).is_some_and(same) {
            let found = self.topics.iter().position(same);
            self.last_topic = found.unwrap_or_else(|| {
                let count = topic.partitions();
                self.topics.push(OpenTopic {
                    topic: topic.clone(),
                    sticky: Sticky::new(Clock::seed(), count),
                    partitions: (0..count).map(|_| None).collect(),
                    begun: (0..count).map(|_| false).collect(),
                });
                self.topics.len() - 1
            });
        }
        self.topics[self.last_topic].learn(topic);
        self.last_topic
    }

    fn choose(
        &mut self,
        at: usize,
        partition: Option<i32>,
        record: &RecordRef<'_>,
        bytes: usize,
    ) -> Result<usize, TrySendError> {
        let batch_bytes = self.shared.config.batch_bytes;
        let open = &mut self.topics[at];
        let partitions = open.topic.partitions();
        let chosen = match (partition, record.key) {
            (Some(partition), _) => partition,
            (None, Some(key)) => partitioner::of_key(key, partitions),
            (None, None) => open.sticky.next(bytes, batch_bytes, partitions),
        };
        let index = usize::try_from(chosen).ok().filter(|index| *index < open.partitions.len());
        index.ok_or_else(|| open.topic.lacks(chosen).into())
    }

    fn seal_where(&mut self, which: impl Fn(&Open) -> bool) -> Result<(), SendError> {
        let mut closed = Vec::new();
        for at in 0..self.topics.len() {
            for partition in 0..self.topics[at].partitions.len() {
                if self.topics[at].partitions[partition].as_ref().is_some_and(&which) {
                    closed.extend(self.seal(at, partition)?);
                }
            }
        }
        self.submit(closed);
        Ok(())
    }

    /// Together, so that one request can carry all of them.
    fn submit(&self, batches: Vec<Sealed>) {
        if !batches.is_empty() {
            // A task that is gone has left its cause behind; the next call reports it.
            _ = self.commands.send(Command::Batches(batches));
        }
    }

    fn seal(&mut self, at: usize, partition: usize) -> Result<Option<Sealed>, SendError> {
        let topic = &mut self.topics[at];
        let Some(open) = topic.partitions[partition].take() else { return Ok(None) };
        self.open_bytes = self.open_bytes.saturating_sub(open.builder.len_bytes());
        let config = &self.shared.config;
        let mut batch = match open.builder.seal_at(config.compression, config.levels) {
            Ok(batch) => batch,
            Err(e) => {
                // Records that were taken are gone: the transaction must not be prepared any more.
                self.link.fail(Cause::new(CauseKind::Refused, e.to_string()));
                return Err(SendError::Failed(self.link.cause()));
            }
        };
        if let Some(spare) = batch.take_spare() {
            self.shared.router.buffers.give(spare);
        }
        self.link.unacked.fetch_add(batch.len(), Ordering::AcqRel);
        let index = i32::try_from(partition).unwrap_or(i32::MAX);
        Ok(Some(Sealed {
            partition: TopicPartition { topic: topic.topic.name().clone(), partition: index },
            topic_id: topic.topic.id(),
            batch,
            numbers: Arc::new(open.numbers),
            since: open.since,
            tracked: open.tracked,
        }))
    }

    fn track(&mut self, at: usize, partition: usize) -> Delivery {
        let open = self.topics[at].partitions[partition].as_mut();
        // The record was appended just now, so its batch is there.
        let (state, index) = open.map_or_else(
            || (watch::channel(None).1, 0),
            |open| {
                let sender = open.tracked.get_or_insert_with(|| watch::channel(None).0);
                (sender.subscribe(), open.builder.count() - 1)
            },
        );
        Delivery { state, index }
    }
}

/// A task that is gone has left its cause behind, and a fence is one wherever it was met.
fn failed(cause: Cause) -> Ending {
    if cause.is_fenced() { Ending::Fenced(cause) } else { Ending::Failed(cause) }
}

impl Link {
    pub(super) fn fail(&self, cause: Cause) {
        let mut slot = self.cause.lock().unwrap_or_else(PoisonError::into_inner);
        slot.get_or_insert(cause);
        self.failed.store(true, Ordering::Release);
        self.freed.notify_waiters();
    }

    fn cause(&self) -> Cause {
        let cause = self.cause.lock().unwrap_or_else(PoisonError::into_inner).clone();
        cause.unwrap_or_else(|| Cause::new(CauseKind::Dropped, "the writer's task ended"))
    }

    /// A request that adds partitions was not answered: it may arrive after the end.
    pub(super) fn may_be_late(&self) {
        self.late.store(true, Ordering::Release);
    }

    pub(super) fn free(&self, bytes: usize) {
        self.unacked.fetch_sub(bytes, Ordering::AcqRel);
        self.freed.notify_waiters();
    }
}

impl Delivery {
    /// Waits for the record to be stored. The offset is `None` if the broker recognised a retry without telling
    /// where it is.
    ///
    /// # Errors
    /// The cause if it will never be stored.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn stored(mut self) -> Result<Option<i64>, Cause> {
        let gone =
            || Err(Cause::new(CauseKind::Dropped, "the transaction ended before the record was stored"));
        let state = self.state.wait_for(Option::is_some).await.ok().and_then(|s| s.clone());
        state.unwrap_or_else(gone).map(|base| base.map(|base| base + i64::from(self.index)))
    }
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

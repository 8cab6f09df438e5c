//! A producer without transactions: each record once and in order, visible as soon as it is stored.

mod line;
mod state;
mod take;
mod task;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::{
    accumulator::Accumulator,
    error::{SendError, TrySendError},
    link::Delivery,
    router::Router,
    settings::ProducerConfig,
    topic::Topic,
};
use crate::{
    proto::cause::{Cause, CauseKind},
    record::RecordRef,
};
use state::Shared;
use take::Take;
use task::Task;

/// Makes a [`Producer`].
#[derive(Debug, Clone)]
pub struct IdempotentBuilder {
    router: Arc<Router>,
    config: ProducerConfig,
}

/// A producer without transactions, idempotent (KIP-98): a batch that has to be sent again is recognised by the broker, so
/// that each record is stored once, and in order within its partition. With acks=all, always.
///
/// Clones share one producer, from any number of tasks: its memory, its batches and its order. A task of its own sends the
/// batches when they are full, when `linger.ms` is over, whether anybody calls or not, or with a [`flush`](Self::flush).
///
/// A record that can't be stored fails alone, with the others of its batch: its [`Delivery`] says why, the next `flush`
/// counts it, and what comes behind it goes on. So after a failure order has a gap, as with Java's producer; write in a
/// [`Transaction`](super::Transaction) where all or nothing is wanted. What fails:
///
/// | kind of the [`Cause`] | when |
/// |---|---|
/// | `DeliveryTimeout` | `delivery.timeout.ms` is over, and every try was refused or never left: not stored |
/// | `OutcomeUnknown` | it was given up for any of these reasons, but a try was not answered, or the answer leaves it open: stored, or not. [`Cause::outcome_unknown`] tells |
/// | `SequenceGap` | a later batch was stored by a leader that knew nothing of the producer: this one can't be any more |
/// | `RecordTooLarge` | a record above the topic's `max.message.bytes`. A batch of several is split until only such records are left |
/// | `UnknownTopic` | the topic that was looked up was deleted, or deleted and created anew, and its leader knows it by id |
/// | `Refused`, `Denied`, `Unsupported` | the broker's word on these records, on this topic, or on the producer |
///
/// Nothing of this ends the producer. Only records that can't be compressed do (`Refused`), and a codec that is not part of
/// this build (`Unsupported`): then no more are taken. After a gap a partition goes on under the next epoch (KIP-360), and what may be
/// stored is never sent under another identity than that which it was sent under first. A time that is over while a
/// request is under way waits for its answer, for `request.timeout.ms` at most, for the answer is mostly "stored".
///
/// A record is for the topic that was looked up, not for its name: if that is deleted and created anew, records fail until it
/// is looked up again. Brokers that know topics by name (before Kafka 4.1: no Produce 13) take them into the new one.
///
/// When the last clone is dropped, what was taken is still sent in the background, as long as the runtime lives; nobody is
/// told of failures but the log. Use [`close`](Self::close) to be sure.
///
/// ```
/// # #[cfg(feature = "broker")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use kafka_2pc::{
///     broker::{Broker, BrokerConfig},
///     client::{Client, ClientConfig},
///     record::RecordRef,
/// };
///
/// let broker = Broker::start(BrokerConfig::default()).await?;
/// broker.create_topic("planes", 3)?;
/// let client = Client::new(ClientConfig::new(&broker.bootstrap())?);
/// let topic = client.topic("planes").await?;
///
/// let producer = client.idempotent_producer().start();
/// // A borrowed record is copied into its batch, and nothing is waited for unless memory is full.
/// producer.send(&topic, None, RecordRef::value(b"4 planes").with_key(b"LEZL")).await?;
/// // One whose offset is wanted.
/// let delivery = producer.send_tracked(&topic, Some(2), RecordRef::value(b"5 planes")).await?;
/// producer.flush().await?;
/// assert_eq!(delivery.stored().await?, Some(0));
/// producer.close().await?;
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "broker"))]
/// # fn main() {}
/// ```
#[derive(Clone)]
pub struct Producer {
    handle: Arc<Handle>,
}

/// Ends the task when the last clone is dropped.
struct Handle {
    shared: Arc<Shared>,
}

/// Records are not stored, or it is not known whether they are. All others of the flush are.
///
/// It is told once, for everything since the last `flush` or `close` of the producer or one of its clones. Which records
/// they are is told by their [`Delivery`]s.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{records} records are not stored, {unknown} of them perhaps: {cause}")]
#[non_exhaustive]
pub struct NotStored {
    /// How many records, those of which it is not known included.
    pub records: u64,
    /// How many of them may be stored.
    pub unknown: u64,
    /// Why the first of them are not.
    pub cause: Cause,
}

impl IdempotentBuilder {
    pub(super) fn new(router: Arc<Router>) -> Self {
        Self { router, config: ProducerConfig::default() }
    }

    producer_settings! {
        delivery: "`delivery.timeout.ms`: a record that is not acknowledged by then fails. It counts from the opening of its \
                   batch. Default 120 s.",
        linger: "`linger.ms`: how long a batch waits for more records. Default 5 ms. Then it leaves by itself; with 0 as soon as \
                 the producer's task runs.",
    }

    /// Starts the producer. It asks for its producer id in the background (InitProducerId without a transactional id, of
    /// any broker; before Kafka 2.8 that needs IDEMPOTENT_WRITE on the cluster). Where none is granted, records wait for it
    /// until their delivery timeout, and a refusal fails them.
    ///
    /// Must be called within a tokio runtime.
    #[must_use]
    pub fn start(self) -> Producer {
        let shared = Arc::new(Shared::new(self.router, self.config));
        #[expect(clippy::disallowed_methods, reason = "a producer has a task of its own")]
        tokio::spawn(Task::new(Arc::clone(&shared)).run());
        Producer { handle: Arc::new(Handle { shared }) }
    }
}

impl Producer {
    /// Takes a record, or says at once why not. Nothing is allocated for it. What others wait for in a
    /// [`send`](Self::send) is not free.
    ///
    /// Without a partition the key decides, as in Kafka's Java client (murmur2); without a key, records fill one
    /// partition's batch after the other's.
    ///
    /// # Errors
    /// [`TrySendError`]; the record was not taken.
    pub fn try_send(
        &self,
        topic: &Topic,
        partition: Option<i32>,
        record: RecordRef<'_>,
    ) -> Result<(), TrySendError> {
        let shared = &self.handle.shared;
        shared.put(&mut shared.desk(), None, |records| records.append(topic, partition, &record).map(drop))
    }

    /// [`try_send`](Self::try_send) that waits while the memory is full (`buffer.memory`): until batches are stored, or
    /// given up after `delivery.timeout.ms`. After each batch it lets the runtime's other tasks have a turn, so that the batch
    /// leaves also where one thread does everything.
    ///
    /// What those wait for who came earlier is left for them, so that who sends large records is not overtaken for ever by those
    /// who send small ones. Beside that much, who comes later need not wait. Where nothing else is left in memory, whoever asks
    /// gets some, so that a future which waits and is not polled keeps nobody waiting for ever.
    ///
    /// # Errors
    /// [`SendError`]; the record was not taken.
    ///
    /// # Cancel safety
    /// A dropped future took the record or did not; nothing is half done. It waits before it takes, so a future dropped
    /// while it is pending has not taken it.
    pub fn send<'a>(
        &'a self,
        topic: &'a Topic,
        partition: Option<i32>,
        record: RecordRef<'a>,
    ) -> impl Future<Output = Result<(), SendError>> + Send + use<'a> {
        Take::new(&self.handle.shared, topic, partition, record, |_, _| ())
    }

    /// [`send`](Self::send) that also tells the record's fate.
    ///
    /// # Errors
    /// [`SendError`]; the record was not taken.
    ///
    /// # Cancel safety
    /// As for [`send`](Self::send).
    pub fn send_tracked<'a>(
        &'a self,
        topic: &'a Topic,
        partition: Option<i32>,
        record: RecordRef<'a>,
    ) -> impl Future<Output = Result<Delivery, SendError>> + Send + use<'a> {
        Take::new(&self.handle.shared, topic, partition, record, Accumulator::track)
    }

    /// [`try_send`](Self::try_send) that also tells the record's fate.
    ///
    /// # Errors
    /// [`TrySendError`]; the record was not taken.
    pub fn try_send_tracked(
        &self,
        topic: &Topic,
        partition: Option<i32>,
        record: RecordRef<'_>,
    ) -> Result<Delivery, TrySendError> {
        let shared = &self.handle.shared;
        shared.put(&mut shared.desk(), None, |records| records.append_tracked(topic, partition, &record))
    }

    /// Sends everything that was taken before, and waits until the fate of each record is known: stored, or given up after
    /// `delivery.timeout.ms` (and `request.timeout.ms`). As in Java's producer failures hold it up no longer than that.
    ///
    /// # Errors
    /// [`NotStored`]: how many records were given up since the last flush, and why the first of them. All others are
    /// stored.
    ///
    /// # Cancel safety
    /// Cancel safe: the records are sent in any case, and the next flush tells what this one would have.
    pub async fn flush(&self) -> Result<(), NotStored> {
        let shared = &self.handle.shared;
        // A task that is gone has stored everything, or has counted what it could not.
        _ = shared.flush().await;
        shared.counted()
    }

    /// Takes no more records, from this handle or a clone, and flushes.
    ///
    /// # Errors
    /// As [`flush`](Self::flush).
    ///
    /// # Cancel safety
    /// Dropping the future does not reopen the producer; what was taken is sent.
    pub async fn close(self) -> Result<(), NotStored> {
        let shared = &self.handle.shared;
        shared.link.fail(ended());
        let flushed = self.flush().await;
        shared.end();
        flushed
    }
}

fn ended() -> Cause {
    Cause::new(CauseKind::Dropped, "the producer is closed")
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.end();
    }
}

impl std::fmt::Debug for Producer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let config = &self.handle.shared.config;
        f.debug_struct("Producer").field("config", config).finish_non_exhaustive()
    }
}

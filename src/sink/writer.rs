//! Writes records into transactions, one after the other, and prepares each at a checkpoint.

mod error;
mod preparing;
mod producers;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

pub use self::error::{PrepareCommitError, PrepareFailure, WriteError};
use self::producers::Producers;
use super::{
    config::SinkConfig,
    usage::{SinkMeter, SinkUsage},
};
use crate::{
    client::{
        Client, ConsumerGroupMetadata, EndError, OffsetAndMetadata, Resumed, SendError, Topic, Transaction,
        TrySendError,
    },
    ids::{TopicPartition, TransactionalId},
    net::{Background, Clock},
    proto::{
        cause::Cause,
        committable::Committable,
        deadline::DeadlineWarning,
        pool::{Pool, PoolExhausted, Pressure, Slot, SlotState, WriterState},
        settle::CommittedButHanging,
    },
    record::RecordRef,
};

/// The writer of one subtask.
///
/// Dropping it aborts the open transaction in the background, and leaves prepared ones alone.
#[derive(Debug)]
pub struct SinkWriter {
    clock: Clock,
    pool: Pool,
    producers: Producers,
    checkpoint: u64,
    current: Option<Current>,
    meter: SinkMeter,
    pressure: Pressure,
}

#[derive(Debug)]
struct Current {
    slot: Slot,
    transaction: Transaction,
    records: u64,
}

impl SinkWriter {
    /// A writer whose recovery is done; its next checkpoint is `checkpoint + 1`.
    pub(super) fn new(client: Client, config: Arc<SinkConfig>, pool: Pool, checkpoint: u64) -> Self {
        let clock = client.clock();
        let meter = SinkMeter::new(clock, config.transaction_timeout);
        let pressure = Pressure::new(config.max_block);
        let producers = Producers::new(client, config);
        let writer = Self { clock, pool, producers, checkpoint, current: None, meter, pressure };
        writer.measure();
        writer
    }

    /// Takes a record, or says at once why not: for callers that must not wait.
    ///
    /// # Errors
    /// [`WriteError`]; the record was not taken.
    pub fn try_write(
        &mut self,
        topic: &Topic,
        partition: Option<i32>,
        record: RecordRef<'_>,
    ) -> Result<(), WriteError> {
        let current = match &mut self.current {
            Some(current) => current,
            None => self.open()?,
        };
        current.transaction.try_send(topic, partition, record).map_err(|e| match e {
            TrySendError::Full => WriteError::Full,
            TrySendError::Record(e) => WriteError::Send(e),
            TrySendError::Failed(cause) => WriteError::Send(SendError::Failed(cause)),
        })?;
        current.records += 1;
        self.meter.took(&record);
        Ok(())
    }

    /// Takes a record; waits while the memory for unacknowledged records is full.
    ///
    /// # Errors
    /// [`WriteError`]; the record was not taken.
    ///
    /// # Cancel safety
    /// A future that is dropped while it is pending has not taken the record.
    pub async fn write(
        &mut self,
        topic: &Topic,
        partition: Option<i32>,
        record: RecordRef<'_>,
    ) -> Result<(), WriteError> {
        let current = match &mut self.current {
            Some(current) => current,
            None => self.open()?,
        };
        current.transaction.send(topic, partition, record).await?;
        current.records += 1;
        self.meter.took(&record);
        Ok(())
    }

    /// Done when memory for unacknowledged records was freed, or the transaction failed, after this was first polled:
    /// then [`try_write`](Self::try_write) may no more say [`WriteError::Full`].
    pub(crate) fn freed(&self) -> impl Future<Output = ()> + Send + use<> {
        let freed = self.current.as_ref().map(|current| current.transaction.freed());
        async move {
            if let Some(freed) = freed {
                freed.await;
            }
        }
    }

    /// Commits offsets of a consumer group with the open transaction, which is begun if there is none: they count when the
    /// checkpoint's commit does, together with its records. Without offsets nothing happens. What the group's coordinator
    /// says is waited for by [`prepare_commit`](Self::prepare_commit), and fails it. The topics must be in the sink's own
    /// cluster.
    ///
    /// # Errors
    /// [`WriteError`]; none of them was taken.
    pub fn send_offsets(
        &mut self,
        group: &ConsumerGroupMetadata,
        offsets: impl IntoIterator<Item = (TopicPartition, OffsetAndMetadata)>,
    ) -> Result<(), WriteError> {
        let offsets: BTreeMap<_, _> = offsets.into_iter().collect();
        if offsets.is_empty() {
            return Ok(());
        }
        let current = match &mut self.current {
            Some(current) => current,
            None => self.open()?,
        };
        _ = current.transaction.begin_offsets(group, offsets)?;
        Ok(())
    }

    /// Sends what has waited longer than `linger.ms`, and logs transactions that come near to their timeout. Call it
    /// now and then when no records come.
    ///
    /// # Errors
    /// [`WriteError::Send`] if the transaction must be aborted.
    pub fn tick(&mut self) -> Result<(), WriteError> {
        self.meter.log_deadlines();
        match &mut self.current {
            Some(current) => Ok(current.transaction.tick()?),
            None => Ok(()),
        }
    }

    /// Whether the next record would find a transactional id. Where it would not, [`WriteError::Exhausted`] says to wait
    /// for a commit and to ask again; `write` and `try_write` say the same.
    ///
    /// # Errors
    /// [`WriteError::Exhausted`]; [`WriteError::Blocked`] once that has lasted for `max.block.ms`.
    pub fn ready(&mut self) -> Result<(), WriteError> {
        if self.current.is_some() {
            return Ok(());
        }
        let free = self.pool.next(self.checkpoint + 1).map(|_| ());
        self.pressed(free)
    }

    fn pressed<T>(&mut self, taken: Result<T, PoolExhausted>) -> Result<T, WriteError> {
        match taken {
            Ok(slot) => {
                self.pressure.relieved();
                Ok(slot)
            }
            Err(exhausted) => {
                let now = self.clock.now();
                let exhausted = self.pressure.exhausted(now, exhausted)?;
                if let Some(waited) = self.pressure.due(now) {
                    let cure = exhausted.cure();
                    tracing::warn!(
                        "{exhausted}, for {waited:?}: nothing is written until one is free. {cure}"
                    );
                }
                Err(exhausted.into())
            }
        }
    }

    /// True when the next record would find no free transactional id.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        self.current.is_none() && self.pool.next(self.checkpoint + 1).is_err()
    }

    /// How many records the open transaction holds.
    #[must_use]
    pub fn open_records(&self) -> u64 {
        self.current.as_ref().map_or(0, |current| current.records)
    }

    /// What a checkpoint keeps of this writer.
    #[must_use]
    pub fn snapshot(&self) -> WriterState {
        self.pool.state_to_keep()
    }

    /// A committer got its answer for one of this writer's transactions. An answer that was told before changes nothing.
    pub fn decided(&mut self, committable: &Committable, resumed: &Resumed) {
        let Some(slot) = self.pool.slot(&committable.transactional_id) else { return };
        if !self.pool.holds_prepared(slot, committable.identity) {
            return;
        }
        self.meter.ended(&committable.transactional_id);
        _ = self.pool.decided(slot);
        self.measure();
        if self.pool.gives_out_again() {
            self.producers.decided(slot, committable, resumed);
        }
    }

    /// The decision of this transaction is on every partition. That an earlier one of the same id is settled, told late or
    /// once more, changes nothing: the id is not used again before the present one is.
    pub fn settled(&mut self, committable: &Committable) {
        let Some(slot) = self.pool.slot(&committable.transactional_id) else { return };
        if self.pool.holds_decided(slot, committable.identity) {
            _ = self.pool.settled(slot);
            self.measure();
            self.get_ready();
        }
    }

    /// The decision for this id hangs: the id is never used again.
    pub fn retire(&mut self, hanging: CommittedButHanging) {
        if let Some(slot) = self.pool.slot(&hanging.transactional_id) {
            _ = self.pool.retire(slot, hanging);
            self.measure();
        }
    }

    /// Whether the decision for this id is settled can't be known: the id is not used again by this writer.
    pub fn avoid(&mut self, id: &TransactionalId) {
        self.meter.ended(id);
        if let Some(slot) = self.pool.slot(id) {
            self.pool.adopt(slot, SlotState::Avoided);
            self.measure();
        }
    }

    /// A checkpoint is durable that lists exactly these transactional ids.
    pub fn durable(&mut self, listed: &BTreeSet<TransactionalId>) {
        self.pool.durable(listed);
        self.measure();
        self.producers.retain_free(|slot| self.pool.state(slot).is_none());
        self.get_ready();
    }

    /// What it holds, in numbers, and what it has taken: for metrics.
    #[must_use]
    pub fn usage(&self) -> SinkUsage {
        self.meter.usage()
    }

    /// Watches this writer from beside, also while it waits.
    #[must_use]
    pub fn meter(&self) -> SinkMeter {
        self.meter.clone()
    }

    /// The state of every slot in use.
    pub fn slots(&self) -> impl Iterator<Item = (Slot, &SlotState)> {
        self.pool.slots()
    }

    /// Aborts the open transaction and waits for that.
    ///
    /// # Errors
    /// The cause if it could not be carried out; the broker does it after the timeout then.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop the abort.
    pub async fn abort(&mut self) -> Result<(), Cause> {
        let Some(Current { slot, transaction, .. }) = self.current.take() else { return Ok(()) };
        self.give_up(slot);
        match transaction.abort().await {
            // A newer owner of the id has ended it.
            Ok(_) | Err(EndError::Fenced(_)) => Ok(()),
            Err(e) => Err(Cause::new(crate::proto::cause::CauseKind::Unreachable, e.to_string())),
        }
    }

    /// The open and prepared transactions that have used half of `transaction.timeout.ms` or more, now.
    #[must_use]
    pub fn warnings(&self) -> Vec<DeadlineWarning> {
        self.meter.warnings()
    }

    fn measure(&self) {
        self.meter.holds(SinkUsage::of(self.pool.slots(), self.pool.capacity()));
    }

    fn give_up(&mut self, slot: Slot) {
        self.meter.ended(&self.pool.id(slot));
        _ = self.pool.given_up(slot);
        self.measure();
    }

    fn open(&mut self) -> Result<&mut Current, WriteError> {
        let taken = self.pool.take(self.checkpoint + 1);
        let slot = self.pressed(taken)?;
        self.meter.begun(self.pool.id(slot));
        self.measure();
        let producer = self.producers.take(slot, self.pool.id(slot));
        let transaction = producer.begin();
        self.get_ready();
        Ok(self.current.insert(Current { slot, transaction, records: 0 }))
    }

    /// The id that the next transaction will have, as far as is known now, if ids are used again and it may be asked for.
    fn next_id(&self) -> Option<(Slot, TransactionalId)> {
        let slot =
            self.pool.next(self.checkpoint.saturating_add(1)).ok().filter(|_| self.pool.gives_out_again())?;
        if self.pool.shows_the_newest_commit(slot) {
            return None;
        }
        Background::<()>::is_possible().then(|| (slot, self.pool.id(slot)))
    }

    /// Gets the id of the next transaction ready in the background, so that nobody waits for it behind a barrier.
    fn get_ready(&mut self) {
        if let Some((slot, id)) = self.next_id() {
            self.producers.get_ready(slot, id);
        }
    }
}

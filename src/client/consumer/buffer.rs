//! What was fetched of a partition and is not handed out yet.
//!
//! ```text
//!            asked                        drained
//! reading ────────────► ahead: under way ────────► waited for
//!    │                        │ here
//!    │ drained                ▼
//!    └──────────────── ahead: here ── it is read now, and the next one is asked for
//! ```
//! One payload is read, and at most one more is there or under way: so brokers work while the application does. What
//! goes wrong with the second one is forgotten, and shows again when its turn comes: the position was not there yet.

use super::budget;
use crate::{
    exchange::Isolation,
    ids::ProducerId,
    proto::read_committed::{BatchContent, BatchSeen, Filter, Sight},
    record::StoredRecord,
    wire::{
        batch::{Batch, BatchError, Batches, Behind, Tail},
        fetch::FetchPartition,
    },
};

/// The records that a batch is made room for before they are read: no more than that is believed of its header.
const MOST_RESERVED: usize = 1_024;

/// What came for one partition with one answer.
pub(super) struct Payload {
    batches: Batches,
    filter: Filter,
    /// All of its bytes: they stay in memory as long as any of it is left.
    bytes: usize,
    /// Where the next fetch begins; nothing if no batch is whole.
    behind: Option<Behind>,
}

/// The payload after the one that is read.
#[derive(Default)]
enum Ahead {
    #[default]
    Nothing,
    Asked,
    Here(Payload),
    /// It did not come. It is asked for again when its turn has come.
    Spoiled,
}

/// Payloads of a partition, in their order.
#[derive(Default)]
pub(super) struct Buffer {
    reading: Option<Payload>,
    ahead: Ahead,
}

/// What follows a payload that is read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    Nothing,
    /// The next one is under way.
    Asked,
    /// The next one is here.
    Here,
}

impl Payload {
    /// # Errors
    /// [`BatchError::Order`]. It must be known before the position moves behind the first batch: those that should have
    /// come before it would be lost.
    pub(super) fn new(
        isolation: Isolation,
        position: i64,
        fetched: FetchPartition,
    ) -> Result<Self, BatchError> {
        let behind = Batches::check_order(&fetched.records)?;
        let filter = match isolation {
            Isolation::Uncommitted => Filter::uncommitted(position),
            Isolation::Committed => {
                Filter::committed(position, &fetched.aborted_transactions.unwrap_or_default())
            }
        };
        // Stock brokers do not send batches of which nothing lies at the position. There is nothing to read behind those.
        let behind = behind.filter(|behind| behind.offset > position);
        let bytes = fetched.records.len();
        Ok(Self { batches: Batches::new(fetched.records), filter, bytes, behind })
    }

    /// The next batch, each of its records made into what the caller hands out, and the leader epoch that it was written
    /// in. Nothing when all are read.
    pub(super) fn next<T>(
        &mut self,
        make: impl FnMut(StoredRecord) -> T,
    ) -> Option<Result<(Vec<T>, i32), BatchError>> {
        let read = |batch: Batch| {
            let records = read_batch(&mut self.filter, &batch, make)?;
            Ok((records, batch.header().partition_leader_epoch))
        };
        self.batches.next().map(|batch| batch.and_then(read))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    pub(super) fn tail(&self) -> Tail {
        self.batches.tail()
    }

    /// The offset behind everything that was read.
    pub(super) fn position(&self) -> i64 {
        self.filter.position()
    }
}

impl Buffer {
    pub(super) fn reading(&mut self) -> Option<&mut Payload> {
        self.reading.as_mut()
    }

    /// Where to read ahead, if that is of use now.
    pub(super) fn next(&self) -> Option<Behind> {
        let reading = self.reading.as_ref().filter(|_| matches!(self.ahead, Ahead::Nothing));
        reading.and_then(|reading| reading.behind)
    }

    /// The next one is under way.
    pub(super) fn asked(&mut self) {
        self.ahead = Ahead::Asked;
    }

    /// Whether an answer from this offset is the one that was asked for ahead.
    pub(super) fn expects(&self, offset: i64) -> bool {
        let behind = self.reading.as_ref().and_then(|reading| reading.behind);
        matches!(self.ahead, Ahead::Asked) && behind.is_some_and(|behind| behind.offset == offset)
    }

    /// What was asked for ahead is here; `None` if it did not come.
    pub(super) fn came(&mut self, payload: Option<Payload>) {
        self.ahead = match payload {
            // At the end of the log it may be asked for again at once: the broker has waited for records.
            Some(payload) if payload.is_empty() => Ahead::Nothing,
            Some(payload) => Ahead::Here(payload),
            None => Ahead::Spoiled,
        };
    }

    /// The first one.
    pub(super) fn begin(&mut self, payload: Payload) {
        *self = Self { reading: Some(payload), ahead: Ahead::Nothing };
    }

    /// The one that was read is at its end.
    pub(super) fn finish(&mut self) -> After {
        self.reading = None;
        match std::mem::take(&mut self.ahead) {
            Ahead::Nothing | Ahead::Spoiled => After::Nothing,
            Ahead::Asked => After::Asked,
            Ahead::Here(payload) => {
                self.begin(payload);
                After::Here
            }
        }
    }

    pub(super) fn held(&self) -> budget::Held {
        match (&self.reading, &self.ahead) {
            (Some(reading), Ahead::Here(next)) => budget::Held::two(reading.bytes, next.bytes),
            (Some(reading), Ahead::Nothing | Ahead::Asked | Ahead::Spoiled) => {
                budget::Held::one(reading.bytes)
            }
            (None, _) => budget::Held::default(),
        }
    }
}

/// The records of a batch that are to be handed out, decompressed only if there are any. The filter's position moves in any case;
/// the caller's only when all went well.
fn read_batch<T>(
    filter: &mut Filter,
    batch: &Batch,
    mut make: impl FnMut(StoredRecord) -> T,
) -> Result<Vec<T>, BatchError> {
    let header = batch.header();
    let content = match (header.is_control(), header.is_transactional()) {
        // A marker that is passed over because it can't be read would end nothing, and what follows it would count as aborted.
        (true, _) => BatchContent::Control(batch.control()?.map(|record| record.control_type)),
        (false, true) => BatchContent::Transactional,
        (false, false) => BatchContent::Plain,
    };
    let producer_id = (header.producer_id >= 0).then_some(ProducerId(header.producer_id));
    match filter.judge(&BatchSeen { last_offset: header.last_offset(), producer_id, content }) {
        Sight::Deliver { from } => {
            let count = usize::try_from(header.count).unwrap_or(0);
            let mut all = Vec::with_capacity(count.min(MOST_RESERVED));
            for record in batch.records()? {
                let record = record?;
                if record.offset >= from {
                    all.push(make(record));
                }
            }
            Ok(all)
        }
        Sight::Aborted | Sight::Control | Sight::Behind => Ok(Vec::new()),
    }
}

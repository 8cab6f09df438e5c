//! Records on their way into batches: one open batch for each partition, and a bound on the memory of all.
//!
//! ```text
//!   append ──► open batch of its partition ──full, lingered, flushed, or memory short──► closed, for the holder to send
//!                                                                                          │
//!              unacked (`Link`) ◄── free, when it was stored or given up ──────────────────┘
//! ```
//! It knows nothing of who writes the records, nor under which identity: a holder takes what was closed with
//! [`Accumulator::closed`] and sends it, in that order.
//!
//! Nothing is closed before it could leave. While a closed batch of a partition waits for its turn (a slot among the requests
//! in flight, a leader, the first batch of V1), the open one behind it goes on growing up to `batch.size`, whatever its age.
//! Where memory is short, what is under way will free some, unless most of it is open.

use std::{
    mem,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::sync::watch;

use super::{
    error::{SendError, TrySendError},
    fit::fits_alone,
    link::{BatchFate, BatchState, Delivery, Link, Waiting},
    partitioner::{Partitioner, Sticky},
    router::Router,
    topic::Topic,
};
use crate::{
    ids::{Moment, TopicId, TopicPartition},
    net::Clock,
    proto::{
        cause::{Cause, CauseKind},
        numbers::Numbers,
    },
    record::{Compression, CompressionLevels, RecordRef},
    wire::batch::{BatchBuilder, SealError, SealedBatch},
};

/// How records become batches, each setting with Kafka's name and default.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// `linger.ms`.
    pub(crate) linger: Duration,
    /// `batch.size`.
    pub(crate) batch_bytes: usize,
    /// `max.request.size`.
    pub(crate) request_bytes: usize,
    /// `buffer.memory`.
    pub(crate) buffer_bytes: usize,
    /// `compression.type`.
    pub(crate) compression: Compression,
    /// `compression.gzip.level` and so on.
    pub(crate) levels: CompressionLevels,
    /// `partitioner`.
    pub(crate) partitioner: Partitioner,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            linger: Duration::from_millis(5),
            batch_bytes: 128 * 1024,
            request_bytes: 1 << 20,
            buffer_bytes: 32 << 20,
            compression: Compression::None,
            levels: CompressionLevels::default(),
            partitioner: Partitioner::default(),
        }
    }
}

impl Settings {
    /// Whether this build can do it.
    pub(super) fn check(&self) -> Result<(), Cause> {
        if self.compression.is_built() {
            return Ok(());
        }
        let lacking = SealError::NotBuilt(self.compression);
        Err(Cause::new(CauseKind::Unsupported, format!("compression.type = {}: {lacking}", self.compression)))
    }
}

/// Open batches, and what was closed and not yet taken by the holder.
#[derive(Debug)]
pub(super) struct Accumulator {
    router: Arc<Router>,
    settings: Settings,
    link: Arc<Link>,
    topics: Vec<OpenTopic>,
    closed: Vec<Sealed>,
    lost: Option<Lost>,
    begun: Vec<TopicPartition>,
    /// A batch was opened that nothing of its partition keeps from leaving.
    opened: bool,
    open_bytes: usize,
    /// Memory that is not for the next record.
    reserved: usize,
    /// What the last record that found no memory needs of it.
    wanted: usize,
    since_look: u32,
    last_topic: usize,
    /// How many records were taken.
    taken: u64,
}

/// A batch that was closed.
#[derive(Debug)]
pub(super) struct Sealed {
    pub(super) partition: TopicPartition,
    pub(super) topic_id: TopicId,
    pub(super) batch: SealedBatch,
    pub(super) numbers: Arc<Numbers>,
    pub(super) since: Moment,
    pub(super) tracked: Option<watch::Sender<BatchState>>,
    /// To be dropped when the batch leaves.
    pub(super) waiting: Waiting,
}

/// Records that were taken and then could not be closed.
#[derive(Debug)]
pub(super) struct Lost {
    pub(super) records: u64,
    /// Why the first of them could not.
    pub(super) cause: Cause,
}

/// Where a record was put: good until the accumulator is used again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    topic: usize,
    partition: usize,
}

#[derive(Debug)]
struct OpenTopic {
    topic: Topic,
    sticky: Sticky,
    partitions: Vec<Lane>,
}

/// A partition's batches.
#[derive(Debug, Default)]
struct Lane {
    open: Option<Open>,
    /// Whether it has had a record.
    begun: bool,
    /// How many closed ones have not left yet.
    waiting: Arc<AtomicUsize>,
}

impl Lane {
    /// Whether the open batch is as old as `linger` and could leave.
    fn is_due(&self, now: Moment, linger: Duration) -> bool {
        let old = self.open.as_ref().is_some_and(|open| now.since(open.since) >= linger);
        old && self.is_free()
    }

    /// Whether none before the open one waits for its turn.
    fn is_free(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) == 0
    }
}

impl OpenTopic {
    fn new(topic: &Topic) -> Self {
        let count = topic.partitions();
        Self {
            topic: topic.clone(),
            sticky: Sticky::new(Clock::seed(), count),
            partitions: (0..count).map(|_| Lane::default()).collect(),
        }
    }

    /// A topic that was looked up again may have got partitions.
    fn learn(&mut self, newer: &Topic) {
        if newer.partitions() > self.topic.partitions() {
            self.partitions.extend((self.topic.partitions()..newer.partitions()).map(|_| Lane::default()));
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

/// The bytes of a record's key and value.
fn size(record: &RecordRef<'_>) -> usize {
    record.key.map_or(0, <[u8]>::len) + record.value.map_or(0, <[u8]>::len)
}

/// How often the linger time is looked at, in records: reading the clock for each would cost more than the record.
const LOOK_EVERY: u32 = 64;

impl Accumulator {
    /// Without records. `link` is shared with whoever sends what is closed. Where no batch could ever be closed, no record is
    /// taken.
    pub(super) fn new(router: Arc<Router>, settings: Settings, link: Arc<Link>) -> Self {
        if let Err(cause) = settings.check() {
            link.fail(cause);
        }
        Self {
            router,
            settings,
            link,
            topics: Vec::new(),
            closed: Vec::new(),
            lost: None,
            begun: Vec::new(),
            opened: false,
            open_bytes: 0,
            reserved: 0,
            wanted: 0,
            since_look: 0,
            last_topic: 0,
            taken: 0,
        }
    }

    /// Takes a record, or says at once why not. Nothing is allocated for it. Batches may be closed in either case.
    pub(super) fn append(
        &mut self,
        topic: &Topic,
        partition: Option<i32>,
        record: &RecordRef<'_>,
    ) -> Result<Place, TrySendError> {
        self.link.check()?;
        self.since_look += 1;
        if self.since_look >= LOOK_EVERY {
            self.since_look = 0;
            self.close_lingering()?;
        }
        let timestamp = record.timestamp.unwrap_or_else(Clock::coarse_wall_ms);
        // First, so that a record that must wait for memory has no partition yet, and is not asked about again.
        let most = self.find_memory(record, timestamp)?;
        let topic = self.topic_index(topic);
        let (partition, is_sticky) = self.choose(topic, partition, record)?;
        let place = Place { topic, partition };
        self.make_room(place, record, timestamp, most)?;
        let (router, batch_bytes) = (&self.router, self.settings.batch_bytes);
        let OpenTopic { partitions, sticky, .. } = &mut self.topics[topic];
        let lane = &mut partitions[partition];
        // All of a batch counts, as it does when it is closed.
        let before = lane.open.as_ref().map_or(0, |open| open.builder.len_bytes());
        let open = lane.open.get_or_insert_with(|| Open {
            builder: BatchBuilder::with_buffer(router.buffers.take(batch_bytes)),
            numbers: Numbers::default(),
            since: router.clock.now(),
            tracked: None,
        });
        if let Err(e) = open.builder.append(record, timestamp) {
            // It is as it was; one without a record could not be closed.
            lane.open.take_if(|open| open.builder.is_empty());
            return Err(TrySendError::Record(SendError::Seal(e.to_string())));
        }
        self.open_bytes += open.builder.len_bytes() - before;
        if is_sticky {
            sticky.add(size(record));
        }
        // Only a new batch can be a partition's first.
        let is_first = open.builder.count() == 1;
        open.numbers.push(self.taken);
        self.taken += 1;
        if is_first {
            self.begin(place);
        }
        Ok(place)
    }

    /// The same, with a handle on the record's fate.
    pub(super) fn append_tracked(
        &mut self,
        topic: &Topic,
        partition: Option<i32>,
        record: &RecordRef<'_>,
    ) -> Result<Delivery, TrySendError> {
        let place = self.append(topic, partition, record)?;
        Ok(self.track(place))
    }

    /// How much memory is free.
    pub(super) fn room(&self) -> usize {
        self.settings.buffer_bytes.saturating_sub(self.link.unacked() + self.open_bytes)
    }

    /// So many bytes are not for the next records, but for others.
    pub(super) fn leave_room(&mut self, bytes: usize) {
        self.reserved = bytes;
    }

    /// How much memory the last record needed for which there was too little.
    pub(super) fn wanted(&self) -> usize {
        self.wanted
    }

    /// A batch was opened.
    fn begin(&mut self, place: Place) {
        let topic = &mut self.topics[place.topic];
        let lane = &mut topic.partitions[place.partition];
        self.opened |= lane.is_free();
        if !mem::replace(&mut lane.begun, true) {
            let partition = i32::try_from(place.partition).unwrap_or(i32::MAX);
            self.begun.push(TopicPartition { topic: topic.topic.name().clone(), partition });
        }
    }

    /// A handle on the fate of the record that was appended last.
    pub(super) fn track(&mut self, Place { topic, partition }: Place) -> Delivery {
        let open = self.topics[topic].partitions[partition].open.as_mut();
        // The record was appended just now, so its batch is there.
        let (state, index) = open.map_or_else(
            || (watch::channel(None).1, 0),
            |open| {
                let sender = open.tracked.get_or_insert_with(|| watch::channel(None).0);
                (sender.subscribe(), open.builder.count() - 1)
            },
        );
        Delivery::new(state, index)
    }

    /// Closes the batches that have waited longer than `linger.ms`, unless one before them still waits for its turn.
    pub(super) fn close_lingering(&mut self) -> Result<(), SendError> {
        let now = self.router.clock.now();
        let linger = self.settings.linger;
        self.close_where(|lane| lane.is_due(now, linger))
    }

    /// Closes all batches.
    pub(super) fn close_all(&mut self) -> Result<(), SendError> {
        self.close_where(|_| true)
    }

    /// What was closed since the last call, in order and together, so that one request can carry all of it.
    pub(super) fn closed(&mut self) -> Option<Vec<Sealed>> {
        if self.closed.is_empty() { None } else { Some(mem::take(&mut self.closed)) }
    }

    /// What was lost since the last call. The link has failed then, and perhaps for another cause.
    pub(super) fn lost(&mut self) -> Option<Lost> {
        self.lost.take()
    }

    /// The partitions that got their first record since the last call.
    pub(super) fn begun(&mut self) -> Option<Vec<TopicPartition>> {
        if self.begun.is_empty() { None } else { Some(mem::take(&mut self.begun)) }
    }

    /// True when something was closed and not taken yet.
    pub(super) fn has_closed(&self) -> bool {
        !self.closed.is_empty()
    }

    /// True when since the last call a batch was opened that could leave as soon as it is old enough.
    pub(super) fn has_opened(&mut self) -> bool {
        mem::take(&mut self.opened)
    }

    /// When the first open batch that could leave will have waited for `linger.ms`.
    pub(super) fn lingers_until(&self) -> Option<Moment> {
        let lanes = self.topics.iter().flat_map(|topic| &topic.partitions);
        let free = lanes.filter(|lane| lane.is_free());
        let oldest = free.filter_map(|lane| lane.open.as_ref().map(|open| open.since)).min();
        oldest.map(|since| since.after(self.settings.linger))
    }

    /// The most bytes that the record adds to a batch, if it can be sent at all and there is memory for it.
    fn find_memory(&mut self, record: &RecordRef<'_>, timestamp: i64) -> Result<usize, TrySendError> {
        let Settings { request_bytes, buffer_bytes, .. } = self.settings;
        let most = fits_alone(record, timestamp, request_bytes)?;
        let unacked = self.link.unacked();
        let used = unacked + self.open_bytes;
        if used > 0 && used.saturating_add(self.reserved).saturating_add(most) > buffer_bytes {
            self.wanted = most;
            // What is open must leave, or nothing would ever become free. But not while more is under way, which becomes free
            // by itself: with each answer, batches would be closed that have hardly begun.
            if self.open_bytes >= unacked {
                self.close_all()?;
            } else {
                // What is under way may wait for one leader, and what is old enough for another.
                self.close_lingering()?;
            }
            return Err(TrySendError::Full);
        }
        Ok(most)
    }

    /// Closes the partition's batch if the record, of at most so many bytes, does not fit.
    fn make_room(
        &mut self,
        place: Place,
        record: &RecordRef<'_>,
        timestamp: i64,
        most: usize,
    ) -> Result<(), SendError> {
        let batch_bytes = self.settings.batch_bytes;
        if let Some(open) = &self.topics[place.topic].partitions[place.partition].open {
            let (held, builder) = (open.builder.len_bytes(), &open.builder);
            // What the record adds exactly costs more to know, and matters near the limit only.
            if held + most > batch_bytes && held + builder.size_of(record, timestamp) > batch_bytes {
                self.close(place)?;
            }
        }
        Ok(())
    }

    fn topic_index(&mut self, topic: &Topic) -> usize {
        let same = |t: &OpenTopic| t.topic.is_same(topic);
        if !self.topics.get(self.last_topic).is_some_and(same) {
            let found = self.topics.iter().position(same);
            self.last_topic = found.unwrap_or_else(|| {
                self.topics.push(OpenTopic::new(topic));
                self.topics.len() - 1
            });
        }
        self.topics[self.last_topic].learn(topic);
        self.last_topic
    }

    /// The partition, and whether it is that of the records that may go to any.
    fn choose(
        &mut self,
        at: usize,
        partition: Option<i32>,
        record: &RecordRef<'_>,
    ) -> Result<(usize, bool), TrySendError> {
        let open = &mut self.topics[at];
        let named = partition.or_else(|| self.settings.partitioner.of(&open.topic, record));
        let chosen =
            named.unwrap_or_else(|| open.sticky.next(self.settings.batch_bytes, open.topic.partitions()));
        let index = usize::try_from(chosen).ok().filter(|index| *index < open.partitions.len());
        let index = index.ok_or_else(|| open.topic.lacks(chosen))?;
        Ok((index, named.is_none()))
    }

    /// Closes those batches. One that can't be does not keep the others.
    fn close_where(&mut self, which: impl Fn(&Lane) -> bool) -> Result<(), SendError> {
        let mut result = Ok(());
        for topic in 0..self.topics.len() {
            for partition in 0..self.topics[topic].partitions.len() {
                if which(&self.topics[topic].partitions[partition]) {
                    result = result.and(self.close(Place { topic, partition }));
                }
            }
        }
        result
    }

    fn close(&mut self, place: Place) -> Result<(), SendError> {
        let topic = &mut self.topics[place.topic];
        let lane = &mut topic.partitions[place.partition];
        let Some(open) = lane.open.take() else { return Ok(()) };
        let bytes = open.builder.len_bytes();
        self.open_bytes = self.open_bytes.saturating_sub(bytes);
        let mut batch = match open.builder.seal_at(self.settings.compression, self.settings.levels) {
            Ok(batch) => batch,
            Err(e) => {
                let cause = Cause::new(CauseKind::Refused, e.to_string());
                if let Some(tracked) = open.tracked {
                    tracked.send_replace(Some(BatchFate::Known(Err(cause.clone()))));
                }
                return Err(self.lose(open.numbers.count() as u64, cause));
            }
        };
        if let Some(spare) = batch.take_spare() {
            self.router.buffers.give(spare);
        }
        self.link.hold(batch.len());
        if batch.len() < bytes {
            // Compressed it takes less: there may be room now for those who wait.
            self.link.stir();
        }
        let partition = i32::try_from(place.partition).unwrap_or(i32::MAX);
        self.closed.push(Sealed {
            partition: TopicPartition { topic: topic.topic.name().clone(), partition },
            topic_id: topic.topic.id(),
            batch,
            numbers: Arc::new(open.numbers),
            since: open.since,
            tracked: open.tracked,
            waiting: Waiting::new(&lane.waiting),
        });
        Ok(())
    }

    /// Records that were taken are gone: whoever counts on them must hear of it, and no more are taken.
    fn lose(&mut self, records: u64, cause: Cause) -> SendError {
        self.link.fail(cause.clone());
        let lost = self.lost.get_or_insert(Lost { records: 0, cause });
        lost.records += records;
        SendError::Failed(self.link.cause())
    }
}

#[cfg(test)]
#[path = "accumulator_lost_tests.rs"]
mod lost_tests;
#[cfg(test)]
#[path = "accumulator_tests.rs"]
mod tests;

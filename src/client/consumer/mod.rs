//! Reads partitions: assigned by hand, from where one says, committed records or all.
//!
//! ```text
//! assign ─► find leaders ─► one Fetch per leader ─► buffered payloads ─► filter ─► one batch of records per call
//!                 ▲          ▲      │ moved, no answer     │   (read_committed, before decompression)
//!                 └──────────│──────┘                      │
//!                            └──── ahead, within a budget ─┘
//! ```

mod budget;
mod buffer;
mod error;
mod partition;
mod read;

use std::{
    collections::{HashMap, HashSet, VecDeque},
    future::poll_fn,
    pin::Pin,
    str::FromStr,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::{FutureExt, Stream, StreamExt, future::BoxFuture, stream::FuturesUnordered};

use budget::Held;
pub use error::ConsumerError;
use partition::{Next, Partition, Step};
use read::{Done, FetchSettings, Fetched, Want};

use super::{config::ConfigError, offsets, router::Router};
use crate::{
    exchange::{Isolation, OffsetAt},
    ids::{Moment, NodeId, TopicId, TopicName, TopicPartition},
    record::StoredRecord,
};

/// `queued.max.messages.kbytes`, in bytes: two answers of one leader.
const QUEUED_BYTES: usize = 16 << 20;

/// How often the ids of the topics are looked at, because a topic may be deleted and created anew under its name.
const IDS_AGE: Duration = Duration::from_secs(10);

/// Where reading begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// At the log's start.
    Beginning,
    /// Behind what is there: with [`Isolation::Committed`] at the last stable offset.
    End,
    /// At this offset.
    Offset(i64),
}

/// What is done when the position is not in the log (`auto.offset.reset`), because retention or DeleteRecords removed
/// it, or because it never was there. And what is done when the log was truncated below the position, by an unclean
/// election (KIP-320).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OutOfRangePolicy {
    /// [`ConsumerError::OutOfRange`] and [`ConsumerError::Truncated`] (`none`).
    #[default]
    Error,
    /// Reading goes on at the log's start (`earliest`), with a warning that tells how much is skipped; in a truncated log
    /// where it parts from what was read.
    Earliest,
    /// Reading goes on behind what is there (`latest`), with a warning; in a truncated log where it parts from what was
    /// read.
    Latest,
}

impl FromStr for OutOfRangePolicy {
    type Err = ConfigError;

    /// A value of `auto.offset.reset`: `none` (or `fail`), `earliest`, `latest`.
    fn from_str(text: &str) -> Result<Self, ConfigError> {
        match text.trim() {
            "none" | "fail" => Ok(Self::Error),
            "earliest" => Ok(Self::Earliest),
            "latest" => Ok(Self::Latest),
            _ => Err(ConfigError::OffsetReset(text.to_owned())),
        }
    }
}

/// A record, and where it stood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerRecord {
    /// Its topic.
    pub topic: TopicName,
    /// Its partition.
    pub partition: i32,
    /// The record with its offset. Keys and values may be slices of a whole fetched payload: copy what is to be kept.
    pub record: StoredRecord,
}

/// Settings of a [`Consumer`].
#[derive(Debug, Clone)]
pub struct ConsumerBuilder {
    router: Arc<Router>,
    out_of_range: OutOfRangePolicy,
    fetch: FetchSettings,
    queued_bytes: usize,
}

/// A reader of assigned partitions.
///
/// It reads ahead: with records it hands out, the next fetch is under way. What was fetched and not handed out takes at
/// most [`queued_max_bytes`](ConsumerBuilder::queued_max_bytes) of memory, or one batch per leader that is larger. Batches are
/// decompressed one at a time, when it is their turn, each into 64 MiB at most. Retries, leader changes and lost connections are its own
/// business and have no end: an error is something that waiting does not cure.
///
/// No record of a topic that was deleted and created anew is taken for one of the old topic: fetches name the topic's id
/// (KIP-516, Kafka 3.1). On brokers that do not know ids it is noticed at the next refusal, and at the latest 10 s after
/// it.
pub struct Consumer {
    router: Arc<Router>,
    out_of_range: OutOfRangePolicy,
    fetch: FetchSettings,
    queued_bytes: usize,
    /// Something was drained, came or changed, so that there may be something to fetch.
    stirred: bool,
    /// What jobs brought while the application had something to work on.
    early: VecDeque<Done>,
    /// Those that were served last stand last.
    partitions: Vec<Partition>,
    busy: HashSet<NodeId>,
    finding: bool,
    ids_seen: Moment,
    generations: u64,
    jobs: FuturesUnordered<BoxFuture<'static, Done>>,
    timer: Option<(Moment, BoxFuture<'static, ()>)>,
}

/// What a caller waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    Records,
    /// Records, or a position that moved without any.
    Progress,
}

impl ConsumerBuilder {
    pub(crate) fn new(router: Arc<Router>) -> Self {
        let (out_of_range, fetch) = (OutOfRangePolicy::default(), FetchSettings::default());
        Self { router, out_of_range, fetch, queued_bytes: QUEUED_BYTES }
    }

    /// `isolation.level`. Default: committed records only.
    #[must_use]
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.fetch.isolation = isolation;
        self
    }

    /// `auto.offset.reset`, for positions that are not in the log. Default: an error.
    #[must_use]
    pub fn out_of_range(self, out_of_range: OutOfRangePolicy) -> Self {
        Self { out_of_range, ..self }
    }

    /// `fetch.max.wait.ms`: how long a broker may wait for records. Default 500 ms.
    #[must_use]
    pub fn max_wait(mut self, max_wait: Duration) -> Self {
        self.fetch.max_wait_ms = i32::try_from(max_wait.as_millis()).unwrap_or(i32::MAX);
        self
    }

    /// `fetch.max.bytes`: the most that one answer holds, if no single batch is larger. Default 8 MiB.
    #[must_use]
    pub fn max_bytes(mut self, max_bytes: i32) -> Self {
        self.fetch.max_bytes = max_bytes.max(1);
        self
    }

    /// `max.partition.fetch.bytes`: the same, per partition. Default 1 MiB.
    #[must_use]
    pub fn max_partition_bytes(mut self, max_bytes: i32) -> Self {
        self.fetch.max_partition_bytes = max_bytes.max(1);
        self
    }

    /// How many bytes may be fetched and not handed out yet, of all leaders together: librdkafka's
    /// `queued.max.messages.kbytes`, in bytes. Each leader has an equal share; less than half of it is not asked for. A
    /// batch that is larger than the share is fetched all the same, when nothing else of its leader is held. Default 16 MiB.
    #[must_use]
    pub fn queued_max_bytes(mut self, bytes: usize) -> Self {
        self.queued_bytes = bytes.max(1);
        self
    }

    /// The consumer; nothing is assigned yet.
    #[must_use]
    pub fn build(self) -> Consumer {
        Consumer {
            // A broker serves one request of a connection at a time, and a fetch may wait there for records: one
            // consumer's wait must not be another one's.
            router: Arc::new(self.router.sibling()),
            out_of_range: self.out_of_range,
            fetch: self.fetch,
            queued_bytes: self.queued_bytes,
            stirred: true,
            early: VecDeque::new(),
            partitions: Vec::new(),
            busy: HashSet::new(),
            finding: false,
            ids_seen: Moment::default(),
            generations: 0,
            jobs: FuturesUnordered::new(),
            timer: None,
        }
    }
}

impl Consumer {
    /// Reads these partitions from now on, and no others. Whether they exist shows when records are asked for.
    pub fn assign(&mut self, partitions: impl IntoIterator<Item = (TopicPartition, Start)>) {
        self.stirred = true;
        self.partitions.clear();
        for (place, start) in partitions {
            self.generations += 1;
            self.partitions.push(Partition::new(place, start, self.generations));
        }
    }

    /// Reads one partition more, or elsewhere if it is assigned already. If `topic` is known, the topic must have that
    /// id: an offset that was kept means nothing in another topic of the same name
    /// ([`ConsumerError::Recreated`]).
    pub fn add(&mut self, partition: TopicPartition, start: Start, topic: TopicId) {
        self.unassign(&partition);
        self.stirred = true;
        self.generations += 1;
        self.partitions.push(Partition::new(partition, start, self.generations).of_topic(topic));
    }

    /// What was read before the position of an assigned partition stood at this leader epoch, as
    /// [`leader_epoch`](Self::leader_epoch) told it when the position was kept: a log that was truncated since is then
    /// noticed ([`ConsumerError::Truncated`]). Without it, that is so from the first batch on.
    pub fn read_at_epoch(&mut self, partition: &TopicPartition, leader_epoch: Option<i32>) {
        if let Some(p) = self.partitions.iter_mut().find(|p| p.place == *partition) {
            p.set_leader_epoch(leader_epoch);
        }
    }

    /// Reads a partition no longer.
    pub fn unassign(&mut self, partition: &TopicPartition) {
        self.partitions.retain(|p| p.place != *partition);
    }

    /// What is assigned.
    #[must_use]
    pub fn assignment(&self) -> Vec<TopicPartition> {
        let mut places: Vec<_> = self.partitions.iter().map(|p| p.place.clone()).collect();
        places.sort();
        places
    }

    /// Goes on elsewhere in an assigned partition; others are left as they are. What was fetched there is thrown away.
    pub fn seek(&mut self, partition: &TopicPartition, start: Start) {
        if let Some(p) = self.partitions.iter_mut().find(|p| p.place == *partition) {
            (self.generations, self.stirred) = (self.generations + 1, true);
            p.seek(start, self.generations);
        }
    }

    /// The offset behind the last record that was handed out, and behind what was passed over after it. `None` for what
    /// is not assigned, and as long as a start at the beginning or the end is not looked up.
    #[must_use]
    pub fn position(&self, partition: &TopicPartition) -> Option<i64> {
        self.partitions.iter().find(|p| p.place == *partition)?.position()
    }

    /// Every assigned partition with its [`position`](Self::position).
    pub fn positions(&self) -> impl Iterator<Item = (&TopicPartition, Option<i64>)> {
        self.partitions.iter().map(|p| (&p.place, p.position()))
    }

    /// The id of an assigned partition's topic; unknown before its first metadata, and on brokers before 2.8.
    #[must_use]
    pub fn topic_id(&self, partition: &TopicPartition) -> TopicId {
        let found = self.partitions.iter().find(|p| p.place == *partition);
        found.map_or(TopicId::UNKNOWN, Partition::topic_id)
    }

    /// The leader epoch of the last batch before [`position`](Self::position) (KIP-320), if one was read since the
    /// partition was assigned or sought.
    #[must_use]
    pub fn leader_epoch(&self, partition: &TopicPartition) -> Option<i32> {
        self.partitions.iter().find(|p| p.place == *partition)?.leader_epoch()
    }

    /// How many bytes of fetched batches are held and not handed out. An answer counts until its last batch is.
    #[must_use]
    pub fn queued_bytes(&self) -> usize {
        self.partitions.iter().fold(Held::default(), |all, p| all.and(p.held())).bytes()
    }

    /// The records of the next batch that has any; all are of one partition, in its order.
    ///
    /// # Errors
    /// [`ConsumerError`]. The position stays, so that the next call tries the same again.
    ///
    /// # Cancel safety
    /// Cancel safe: no record is lost, and fetches that are under way go on with the next call.
    pub async fn next_batch(&mut self) -> Result<Vec<ConsumerRecord>, ConsumerError> {
        poll_fn(|cx| self.poll_until(cx, Until::Records)).await
    }

    /// As [`next_batch`](Self::next_batch), but comes back without records when a position has moved over what is not
    /// handed out: control records, aborted transactions, batches that compaction emptied. A reader that stops at an
    /// offset would wait for ever otherwise.
    ///
    /// # Errors
    /// As [`next_batch`](Self::next_batch).
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn advance(&mut self) -> Result<Vec<ConsumerRecord>, ConsumerError> {
        poll_fn(|cx| self.poll_until(cx, Until::Progress)).await
    }

    /// As [`next_batch`](Self::next_batch), or nothing if `timeout` passes before there is a record.
    ///
    /// # Errors
    /// As [`next_batch`](Self::next_batch).
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn poll(&mut self, timeout: Duration) -> Result<Vec<ConsumerRecord>, ConsumerError> {
        let late = self.router.clock;
        let until = late.now().after(timeout);
        tokio::select! {
            biased;
            batch = self.next_batch() => batch,
            () = late.sleep_until(Some(until)) => Ok(Vec::new()),
        }
    }

    /// The end of every assigned partition: the last stable offset, or with [`Isolation::Uncommitted`] the high watermark.
    /// Tried for `max.block.ms`.
    ///
    /// # Errors
    /// [`ConsumerError`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub fn end_offsets(
        &self,
        isolation: Isolation,
    ) -> impl Future<Output = Result<HashMap<TopicPartition, i64>, ConsumerError>> + Send + use<> {
        offsets::list(Arc::clone(&self.router), isolation, self.asked(OffsetAt::Latest))
    }

    /// The first offset of every assigned partition. Tried for `max.block.ms`.
    ///
    /// # Errors
    /// [`ConsumerError`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub fn beginning_offsets(
        &self,
    ) -> impl Future<Output = Result<HashMap<TopicPartition, i64>, ConsumerError>> + Send + use<> {
        offsets::list(Arc::clone(&self.router), Isolation::Uncommitted, self.asked(OffsetAt::Earliest))
    }

    fn asked(&self, at: OffsetAt) -> Vec<(TopicPartition, OffsetAt)> {
        self.assignment().into_iter().map(|place| (place, at)).collect()
    }

    fn poll_until(
        &mut self,
        cx: &mut Context<'_>,
        until: Until,
    ) -> Poll<Result<Vec<ConsumerRecord>, ConsumerError>> {
        if self.partitions.is_empty() {
            return Poll::Ready(Err(ConsumerError::NothingAssigned));
        }
        loop {
            let now = self.router.clock.now();
            self.poll_jobs(cx);
            while let Some(done) = self.early.pop_front() {
                self.finish(now, done)?;
            }
            if let Some(records) = self.take_buffered(now)? {
                self.read_ahead(now, cx);
                return Poll::Ready(Ok(records));
            }
            if until == Until::Progress && self.take_moved() {
                self.read_ahead(now, cx);
                return Poll::Ready(Ok(Vec::new()));
            }
            self.start_jobs(now);
            self.poll_jobs(cx);
            if self.early.is_empty() && self.poll_timer(now, cx).is_pending() {
                return Poll::Pending;
            }
        }
    }

    /// Sends what is to be sent, and takes what has come.
    fn poll_jobs(&mut self, cx: &mut Context<'_>) {
        while let Poll::Ready(Some(done)) = self.jobs.poll_next_unpin(cx) {
            self.early.push_back(done);
        }
    }

    /// Lets brokers work while the application does.
    fn read_ahead(&mut self, now: Moment, cx: &mut Context<'_>) {
        if self.stirred {
            self.start_jobs(now);
            self.poll_jobs(cx);
        }
    }

    /// Ready when a partition that waited at `now` waits no more. What is due already waits for a job, not for the clock.
    fn poll_timer(&mut self, now: Moment, cx: &mut Context<'_>) -> Poll<()> {
        let waits = self.partitions.iter().filter_map(Partition::wake).filter(|wake| *wake > now);
        let Some(wake) = waits.min() else { return Poll::Pending };
        let clock = self.router.clock;
        if self.timer.as_ref().is_none_or(|(at, _)| *at != wake) {
            self.timer = Some((wake, async move { clock.sleep_until(Some(wake)).await }.boxed()));
        }
        match &mut self.timer {
            Some((_, timer)) => timer.poll_unpin(cx).map(|()| self.timer = None),
            None => Poll::Pending,
        }
    }

    fn take_buffered(&mut self, now: Moment) -> Result<Option<Vec<ConsumerRecord>>, ConsumerError> {
        let mut at = 0;
        while at < self.partitions.len() {
            match self.partitions[at].next_records(now)? {
                Next::Nothing => at += 1,
                Next::Records(records) => return Ok(Some(records)),
                // Served partitions go to the end, so that none waits for ever. Another one stands at this place now.
                Next::Drained => {
                    self.stirred = true;
                    self.partitions[at..].rotate_left(1);
                }
            }
        }
        Ok(None)
    }

    /// Whether any position has moved since this was asked last.
    fn take_moved(&mut self) -> bool {
        let mut moved = false;
        for partition in &mut self.partitions {
            moved |= std::mem::take(&mut partition.moved);
        }
        moved
    }

    fn start_jobs(&mut self, now: Moment) {
        self.stirred = false;
        // What is held of each leader, and the partitions of it that want something.
        let mut leaders: HashMap<NodeId, (Held, Vec<usize>)> = HashMap::new();
        for (at, partition) in self.partitions.iter_mut().enumerate() {
            let wants = partition.wants(now);
            match self.router.leader(&partition.place) {
                Some(node) => {
                    let (held, all) = leaders.entry(node).or_default();
                    *held = held.and(partition.held());
                    all.extend(wants.then_some(at));
                }
                None if wants && partition.step == Step::Idle => partition.step = Step::FindLeader,
                None => {}
            }
        }
        let share = self.queued_bytes / leaders.len().max(1);
        for (node, (held, wanting)) in leaders {
            let allowed = held.allows(share).filter(|_| !wanting.is_empty() && !self.busy.contains(&node));
            let Some(allowed) = allowed else { continue };
            let most = i32::try_from(allowed).unwrap_or(i32::MAX);
            let fetch = FetchSettings { max_bytes: self.fetch.max_bytes.min(most), ..self.fetch };
            let wants: Vec<Want> = wanting.into_iter().map(|at| self.partitions[at].ask(&fetch)).collect();
            self.busy.insert(node);
            self.jobs.push(read::read(Arc::clone(&self.router), node, fetch, wants).boxed());
        }
        if !self.finding {
            let old = now.since(self.ids_seen) >= IDS_AGE;
            let due = |p: &&Partition| old || (p.step == Step::FindLeader && p.is_due(now));
            self.find(now, self.partitions.iter().filter(due).map(|p| p.place.topic.clone()).collect());
        }
    }

    fn find(&mut self, now: Moment, mut topics: Vec<TopicName>) {
        topics.sort();
        topics.dedup();
        if topics.is_empty() {
            return;
        }
        self.finding = true;
        self.ids_seen = now;
        self.jobs.push(read::find(Arc::clone(&self.router), topics).boxed());
    }

    /// Takes in what a job brought. Of several errors the first is told; the others come again.
    fn finish(&mut self, now: Moment, done: Done) -> Result<(), ConsumerError> {
        let mut first = Ok(());
        self.stirred = true;
        match done {
            Done::Found { topics, answer } => {
                self.finding = false;
                for partition in self.partitions.iter_mut().filter(|p| topics.contains(&p.place.topic)) {
                    first = first.and(partition.found(now, &answer));
                }
            }
            Done::Read { node, fetched } => {
                self.busy.remove(&node);
                for (want, fetched) in fetched {
                    first = first.and(self.read(now, &want, fetched));
                }
            }
            Done::Range { want, range, answer } => {
                let policy = self.out_of_range;
                if let Some(partition) = self.wanted(&want) {
                    // Another topic of the name must not be taken for a log that lost its records.
                    first = partition.found(now, &answer);
                    if first.is_ok() && partition.is_seen_in(&answer) {
                        first = partition.out_of_range(now, policy, range);
                    } else {
                        partition.retry(now, Step::FindLeader);
                    }
                }
            }
        }
        first
    }

    fn read(&mut self, now: Moment, want: &Want, fetched: Fetched) -> Result<(), ConsumerError> {
        let (isolation, policy) = (self.fetch.isolation, self.out_of_range);
        let Some(partition) = self.wanted(want) else { return Ok(()) };
        if partition.fetched(now, (isolation, policy), (want.at, fetched))? == Step::Ranging {
            self.jobs.push(read::range(Arc::clone(&self.router), want.clone()).boxed());
        }
        Ok(())
    }

    /// The partition that asked, unless it was assigned anew or moved elsewhere since.
    fn wanted(&mut self, want: &Want) -> Option<&mut Partition> {
        self.partitions.iter_mut().find(|p| p.place == want.place && p.generation == want.generation)
    }
}

/// The batches of [`Consumer::next_batch`], without end.
impl Stream for Consumer {
    type Item = Result<Vec<ConsumerRecord>, ConsumerError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_until(cx, Until::Records).map(Some)
    }
}

impl std::fmt::Debug for Consumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Consumer").field("assignment", &self.assignment()).finish_non_exhaustive()
    }
}

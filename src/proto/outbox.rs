//! Batches on their way to the brokers: order, sequences, retries, per partition.
//!
//! ```text
//!   push ──► queued ──drain (sequence is given)──► in flight ──stored──► gone
//!                                                   │    ▲
//!                                              retry▼    │ alone, oldest first
//!                                                  waiting
//! ```
//! A batch gets its sequence when it is drained for the first time and keeps it: every retry carries the
//! same bytes, so that the broker can recognise what it has stored already. Once one batch of a partition
//! waits for its retry, batches of that partition go one at a time, oldest first, until none waits.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    time::Duration,
};

use super::backoff::{self, Backoff};
use crate::{
    ids::{Moment, NodeId, TopicId, TopicPartition},
    wire::batch::increment_sequence,
};

mod gaps;

pub use gaps::{Expired, Fate, Resolved, Trouble};

/// The driver's name for a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchId(pub u64);

/// The machine's name for a Produce request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// A sealed batch, as far as decisions need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    /// Its name.
    pub id: BatchId,
    /// The id under which its topic was known when its records were taken.
    pub topic: TopicId,
    /// How many records it holds.
    pub records: i32,
    /// How many bytes it takes in a request.
    pub bytes: usize,
    /// When it is given up (`delivery.timeout.ms` after it was accepted).
    pub deadline: Moment,
}

/// What became of a batch in one Produce request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchFact<C> {
    /// It is in the log; the offset may be unknown for a duplicate.
    Stored(Option<i64>),
    /// Send it again once the leader is known anew.
    RetryAfterMetadata,
    /// Send it again to this broker, which is the leader now.
    RetryAt(NodeId),
    /// It was not stored by this try: send it again after the usual wait.
    Retry,
    /// The broker does not say whether it is stored: send it again after the usual wait.
    MaybeStored,
    /// It was not stored, for the broker that was asked has no topic of that id: send it again once the leader is known anew,
    /// and if the topic is still the one that it is for.
    TopicIdUnknown,
    /// It never left: send it again once the leader is known anew.
    NotSent,
    /// Send it again soon: the broker is still busy with the last transaction's end.
    RetrySoon,
    /// Its sequence is not the next one that the broker expects.
    OutOfOrder,
    /// It can't be stored, for this cause.
    Refused(C),
}

/// One batch of a Produce request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Where it goes.
    pub partition: TopicPartition,
    /// The id of its topic, by which alone it is sent where the broker knows ids.
    pub topic: TopicId,
    /// The batch.
    pub batch: BatchId,
    /// Its base sequence.
    pub sequence: i32,
}

/// A Produce request to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Produce {
    /// Its name.
    pub request: RequestId,
    /// The leader.
    pub node: NodeId,
    /// One batch per partition.
    pub items: Vec<Item>,
}

/// What a fact about a batch led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step<C> {
    /// The batch is stored.
    Stored {
        /// The partition.
        partition: TopicPartition,
        /// Its offset, if the broker told.
        offset: Option<i64>,
        /// How many records that were.
        records: i32,
    },
    /// It will be sent again; the leader must be asked for if `metadata`.
    Again {
        /// Whether the leader must be looked up first.
        metadata: bool,
    },
    /// It will be sent again, to this leader.
    Moved(NodeId),
    /// It can't be stored and is forgotten: the transaction must be aborted.
    Refused {
        /// The partition.
        partition: TopicPartition,
        /// Why.
        cause: C,
    },
    /// A gap in the sequences: the batch is forgotten, and the transaction must be aborted.
    Gap {
        /// The partition.
        partition: TopicPartition,
    },
    /// The batch is not one of ours any more.
    Unknown,
}

/// Whether a partition's first batch is waited for before the next one leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstBatch {
    /// It is. A broker without transactions V2 that knows nothing of the producer takes whatever sequence comes first:
    /// if the first batch had to be sent again, it would come behind the second.
    Alone,
    /// It is, and also the first after so long a pause: meanwhile the broker may have forgotten the producer
    /// (`producer.id.expiration.ms`).
    AloneAfter(Duration),
    /// It is not: the broker insists on sequence 0.
    Pipelined,
}

/// Bounds of what is under way.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Whether a partition's first batch leaves alone.
    pub first_batch: FirstBatch,
    /// Produce requests in flight per broker, at most 5 (the broker recognises the last 5 batches).
    pub in_flight: usize,
    /// Bytes of batches in one request (`max.request.size`, default 1 MiB).
    pub request_bytes: usize,
    /// The first wait before a retry (`retry.backoff.ms`, default 100 ms).
    pub retry: Duration,
    /// The longest wait before a retry (`retry.backoff.max.ms`, default 1 s).
    pub retry_max: Duration,
}

/// The wait where the next try is likely to succeed.
const SOON: Duration = Duration::from_millis(5);

/// The wait while a broker goes on being busy with the last transaction's end.
const SOON_AT_LAST: Duration = Duration::from_millis(20);

/// All partitions' queues.
#[derive(Debug)]
pub struct Outbox {
    limits: Limits,
    partitions: BTreeMap<TopicPartition, Queue>,
    requests: HashMap<RequestId, (NodeId, Vec<(TopicPartition, BatchId)>)>,
    per_node: HashMap<NodeId, usize>,
    next_request: u64,
    /// Where a request was full: the first partition that it had no room for, with which the next one begins.
    left_out: HashMap<NodeId, TopicPartition>,
    seed: u64,
}

/// Requests that are being filled: how many bytes, and what.
type Filling = BTreeMap<NodeId, (usize, Vec<Item>)>;

#[derive(Debug)]
struct Queue {
    next_sequence: i32,
    queued: VecDeque<Batch>,
    sent: VecDeque<Sent>,
    not_before: Moment,
    backoff: Backoff,
    /// How many times the broker was busy with the last transaction's end, one after the other.
    soon: u32,
    /// How many may be under way until one was stored.
    first_window: usize,
    stored_at: Moment,
    /// The topic that the last stored batch is in: another one of the same name has a log that knows nothing of the producer.
    stored_in: Option<TopicId>,
    /// The broker expects another sequence than that of the oldest batch, with none missing before it.
    lost: bool,
}

#[derive(Debug)]
struct Sent {
    batch: Batch,
    sequence: i32,
    in_flight: bool,
    /// A try of it may have been stored without an answer that says so, or may still be under way.
    doubt: bool,
    /// A later batch of the same identity is stored. So is this one where the broker knew the producer; one that knew nothing
    /// of it takes any sequence, and then never one before it.
    passed: bool,
    /// It was given up; only its sequence is still there.
    gone: bool,
}

impl Outbox {
    /// An empty outbox; `seed` varies the waits.
    #[must_use]
    pub fn new(limits: Limits, seed: u64) -> Self {
        Self {
            limits,
            partitions: BTreeMap::new(),
            requests: HashMap::new(),
            per_node: HashMap::new(),
            next_request: 0,
            left_out: HashMap::new(),
            seed,
        }
    }

    /// Takes a batch for `partition`. Returns true if it is the partition's first of this outbox.
    pub fn push(&mut self, partition: TopicPartition, batch: Batch) -> bool {
        let (limits, seed) = (&self.limits, self.seed.wrapping_add(self.partitions.len() as u64));
        let mut first = false;
        let queue = self.partitions.entry(partition).or_insert_with(|| {
            first = true;
            Queue {
                next_sequence: 0,
                queued: VecDeque::new(),
                sent: VecDeque::new(),
                not_before: Moment::default(),
                backoff: Backoff::new(limits.retry, limits.retry_max, seed),
                soon: 0,
                first_window: limits.first_batch.window(),
                stored_at: Moment::default(),
                stored_in: None,
                lost: false,
            }
        });
        queue.queued.push_back(batch);
        first
    }

    /// True when every batch was stored.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.partitions.values().all(|q| q.queued.is_empty() && q.sent.iter().all(|s| s.gone))
    }

    /// Whether a batch of this partition has not left yet.
    #[must_use]
    pub fn has_queued(&self, partition: &TopicPartition) -> bool {
        self.partitions.get(partition).is_some_and(|q| !q.queued.is_empty())
    }

    /// Whether a batch of this partition is not stored yet, or one was not so long ago.
    #[must_use]
    pub fn is_busy(&self, now: Moment, partition: &TopicPartition, since: Duration) -> bool {
        self.partitions.get(partition).is_some_and(|q| {
            let under_way = !q.queued.is_empty() || q.sent.iter().any(|s| !s.gone);
            under_way || (q.stored_at > Moment::default() && now.since(q.stored_at) < since)
        })
    }

    /// True while a Produce request is not answered.
    #[must_use]
    pub fn in_flight(&self) -> bool {
        !self.requests.is_empty()
    }

    /// Forgets all batches that are not in flight: the transaction will be aborted. Returns them.
    pub fn discard(&mut self) -> Vec<BatchId> {
        let mut gone = Vec::new();
        for queue in self.partitions.values_mut() {
            gone.extend(queue.queued.drain(..).map(|b| b.id));
            gone.extend(queue.sent.iter().filter(|s| !s.in_flight).map(|s| s.batch.id));
            queue.sent.retain(|s| s.in_flight);
        }
        gone
    }

    /// The Produce requests that can leave now. `leader` tells where a partition's batches go; a partition
    /// for which it says nothing waits. Where a request has no room for all, they take turns.
    pub fn drain(&mut self, now: Moment, leader: impl Fn(&TopicPartition) -> Option<NodeId>) -> Vec<Produce> {
        let first = std::mem::take(&mut self.left_out);
        let mut filling = Filling::new();
        self.fill(now, &leader, &mut filling, |node, p| first.get(&node).is_none_or(|first| p >= first));
        if !first.is_empty() {
            self.fill(now, &leader, &mut filling, |node, p| first.get(&node).is_some_and(|first| p < first));
        }
        for (node, first) in first {
            if !filling.contains_key(&node) {
                self.left_out.insert(node, first);
            }
        }
        filling.into_iter().map(|(node, (_, items))| self.request(node, items)).collect()
    }

    /// Adds a batch of each of these partitions that may send one and for which there is room.
    fn fill(
        &mut self,
        now: Moment,
        leader: &impl Fn(&TopicPartition) -> Option<NodeId>,
        filling: &mut Filling,
        which: impl Fn(NodeId, &TopicPartition) -> bool,
    ) {
        for (partition, queue) in &mut self.partitions {
            queue.rest(now, self.limits.first_batch);
            let Some(bytes) = queue.sendable(now, self.limits.in_flight) else { continue };
            let Some(node) = leader(partition).filter(|node| which(*node, partition)) else { continue };
            if self.per_node.get(&node).copied().unwrap_or(0) >= self.limits.in_flight {
                continue;
            }
            let (taken, items) = filling.entry(node).or_default();
            if !items.is_empty() && *taken + bytes > self.limits.request_bytes {
                self.left_out.entry(node).or_insert_with(|| partition.clone());
                continue;
            }
            *taken += bytes;
            items.push(queue.send(partition));
        }
    }

    fn request(&mut self, node: NodeId, items: Vec<Item>) -> Produce {
        let request = RequestId(self.next_request);
        self.next_request += 1;
        *self.per_node.entry(node).or_default() += 1;
        let batches = items.iter().map(|i| (i.partition.clone(), i.batch)).collect();
        self.requests.insert(request, (node, batches));
        Produce { request, node, items }
    }

    /// Closes a request: it was answered, or never will be. Returns its batches.
    pub fn close(&mut self, request: RequestId) -> Vec<(TopicPartition, BatchId)> {
        let Some((node, batches)) = self.requests.remove(&request) else { return Vec::new() };
        if let Some(count) = self.per_node.get_mut(&node) {
            *count = count.saturating_sub(1);
        }
        batches
    }

    /// What an answer says of one batch.
    pub fn learn<C>(
        &mut self,
        now: Moment,
        partition: &TopicPartition,
        batch: BatchId,
        fact: BatchFact<C>,
    ) -> Step<C> {
        let Some(queue) = self.partitions.get_mut(partition) else { return Step::Unknown };
        let Some(at) = queue.sent.iter().position(|s| s.batch.id == batch && s.in_flight) else {
            return Step::Unknown;
        };
        match fact {
            BatchFact::Stored(offset) => {
                let records = queue.stored(now, at);
                Step::Stored { partition: partition.clone(), offset, records }
            }
            BatchFact::Retry => queue.again(now, at, None, false),
            BatchFact::NotSent | BatchFact::TopicIdUnknown => queue.again(now, at, None, true),
            // A leader that is none any more says the same of what it had appended and not yet answered.
            BatchFact::RetryAfterMetadata => {
                queue.doubt(at);
                queue.again(now, at, None, true)
            }
            BatchFact::MaybeStored => {
                queue.doubt(at);
                queue.again(now, at, None, false)
            }
            BatchFact::RetryAt(leader) => {
                queue.doubt(at);
                // At once, unless leaders go on changing, or the one that was named refuses, too.
                let first = queue.backoff.tries() == 0;
                if first {
                    queue.backoff.next_wait();
                }
                _ = queue.again::<C>(now, at, first.then_some(SOON), false);
                Step::Moved(leader)
            }
            BatchFact::RetrySoon => {
                let wait = backoff::soon(queue.soon);
                if !queue.follows(at) {
                    queue.soon = queue.soon.saturating_add(1);
                }
                queue.again(now, at, wait.or(Some(SOON_AT_LAST)), false)
            }
            // Behind a batch that is still missing, a gap is what that batch's failure left; it closes when
            // the missing one is stored. With nothing missing before it, the broker lost our history.
            BatchFact::OutOfOrder if at > 0 => queue.again(now, at, None, false),
            BatchFact::OutOfOrder => {
                queue.sent.remove(at);
                Step::Gap { partition: partition.clone() }
            }
            BatchFact::Refused(cause) => {
                queue.sent.remove(at);
                Step::Refused { partition: partition.clone(), cause }
            }
        }
    }

    /// The partition whose oldest batch has passed its deadline.
    #[must_use]
    pub fn expired(&self, now: Moment) -> Option<&TopicPartition> {
        self.partitions.iter().find(|(_, q)| q.oldest().is_some_and(|d| d <= now)).map(|(p, _)| p)
    }

    /// When a retry or a deadline is due.
    #[must_use]
    pub fn next_deadline(&self, now: Moment) -> Option<Moment> {
        let busy = self.partitions.values().filter(|q| !(q.queued.is_empty() && q.sent.is_empty()));
        busy.flat_map(|q| [Some(q.not_before).filter(|m| *m > now), q.oldest()]).flatten().min()
    }

    /// Partitions that have something to send.
    pub fn waiting(&self) -> impl Iterator<Item = &TopicPartition> {
        self.partitions
            .iter()
            .filter(|(_, q)| !q.queued.is_empty() || q.sent.iter().any(Sent::waits))
            .map(|(p, _)| p)
    }
}

impl Item {
    fn of(partition: &TopicPartition, batch: Batch, sequence: i32) -> Self {
        Self { partition: partition.clone(), topic: batch.topic, batch: batch.id, sequence }
    }
}

impl FirstBatch {
    /// How many batches of a partition may be under way until one was stored.
    fn window(self) -> usize {
        match self {
            Self::Alone | Self::AloneAfter(_) => 1,
            Self::Pipelined => usize::MAX,
        }
    }
}

impl Sent {
    /// A batch that leaves for the first time.
    fn leaving(batch: Batch, sequence: i32) -> Self {
        Self { batch, sequence, in_flight: true, doubt: false, passed: false, gone: false }
    }

    /// True for what is to be sent again.
    fn waits(&self) -> bool {
        !self.in_flight && !self.gone
    }
}

impl Queue {
    /// After a long pause the broker may know nothing of the producer, as at the beginning.
    fn rest(&mut self, now: Moment, first: FirstBatch) {
        if let FirstBatch::AloneAfter(pause) = first {
            if self.sent.is_empty() && now.since(self.stored_at) >= pause {
                self.first_window = first.window();
            }
        }
    }

    /// The size of the batch that may leave now.
    fn sendable(&self, now: Moment, window: usize) -> Option<usize> {
        if self.not_before > now {
            return None;
        }
        let flying = self.sent.iter().filter(|s| s.in_flight).count();
        if self.sent.iter().any(Sent::waits) {
            let again = self.again_first().filter(|_| flying == 0);
            return again.and_then(|at| self.sent.get(at)).map(|s| s.batch.bytes);
        }
        // Behind a gap nothing new is taken.
        if self.lost || self.sent.iter().any(|s| s.gone) {
            return None;
        }
        let window = window.min(self.first_window);
        let fits =
            |b: &&Batch| flying < if self.stored_in.is_none_or(|id| id == b.topic) { window } else { 1 };
        self.queued.front().filter(fits).map(|b| b.bytes)
    }

    fn send(&mut self, partition: &TopicPartition) -> Item {
        let again = self.again_first();
        if let Some(sent) = again.and_then(|at| self.sent.get_mut(at)) {
            sent.in_flight = true;
            if cfg!(planted_bug = "new-sequence-on-retry") {
                sent.sequence = self.next_sequence;
                self.next_sequence = increment_sequence(sent.sequence, sent.batch.records);
            }
            return Item::of(partition, sent.batch, sent.sequence);
        }
        let sequence = self.next_sequence;
        let Some(batch) = self.queued.pop_front() else { unreachable!("sendable() named a batch") };
        self.next_sequence = increment_sequence(sequence, batch.records);
        self.sent.push_back(Sent::leaving(batch, sequence));
        Item::of(partition, batch, sequence)
    }

    /// The batch at this place is stored: what is before it leaves no gap any more, whatever became of it.
    fn stored(&mut self, now: Moment, at: usize) -> i32 {
        let stored = self.sent.remove(at).map(|s| s.batch);
        self.stored_in = stored.map(|b| b.topic).or(self.stored_in);
        let records = stored.map_or(0, |b| b.records);
        let mut place = 0;
        self.sent.retain_mut(|earlier| {
            place += 1;
            earlier.passed |= place <= at;
            !(earlier.gone && earlier.passed)
        });
        self.lost = false;
        self.backoff.reset();
        self.soon = 0;
        self.first_window = usize::MAX;
        self.stored_at = now;
        records
    }

    fn doubt(&mut self, at: usize) {
        if let Some(sent) = self.sent.get_mut(at) {
            sent.doubt = true;
        }
    }

    fn again<C>(&mut self, now: Moment, at: usize, wait: Option<Duration>, metadata: bool) -> Step<C> {
        let follows = self.follows(at);
        if let Some(sent) = self.sent.get_mut(at) {
            sent.in_flight = false;
        }
        // Batches that were under way together are one failure: their waits don't add up.
        if follows {
            return Step::Again { metadata };
        }
        if wait.is_some() || self.not_before <= now {
            let wait = wait.unwrap_or_else(|| self.backoff.next_wait());
            self.not_before = self.not_before.max(now.after(wait));
        }
        Step::Again { metadata }
    }

    /// Whether one before it waits already, behind which it is sent again: however late its answer came, it has no wait of its
    /// own.
    fn follows(&self, at: usize) -> bool {
        !self.is_over() && self.sent.iter().take(at).any(Sent::waits)
    }

    fn oldest(&self) -> Option<Moment> {
        let sent = self.sent.front().map(|s| s.batch.deadline);
        sent.or_else(|| self.queued.front().map(|b| b.deadline))
    }
}

#[cfg(test)]
mod tests;

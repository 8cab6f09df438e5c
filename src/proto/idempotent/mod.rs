//! A producer without transactions: every record once and in order, as long as brokers and time allow it.
//!
//! ```text
//!   batch ─► outbox ─ Produce (identity, sequence) ─► stored
//!               ▲                                 ├─► retry: the same bytes
//!               │                                 ├─► too large: split, in the same sequences
//!               │                                 └─► given up ─► its sequence is a gap
//!               └── restart: epoch + 1, sequences from 0 ◄───────── and nothing is under way
//! ```
//! Each partition has an identity of its own, which all share at first. Brokers keep sequences by partition and know
//! nothing of an idempotent producer elsewhere, so a partition that must begin anew raises its own epoch and leaves the
//! others alone (as Java's client does for all of them, KIP-360). The last epoch is followed by a new producer id.
//!
//! - A batch that fails does not end the producer: its handle says so, and what comes behind it goes on.
//! - What may be stored is never sent under another identity: it is resolved under its own, or given up as
//!   [`CauseKind::OutcomeUnknown`].
//! - A batch is for the topic that its records were taken for. Where leaders know topics by id (Produce 13), it does not get
//!   into another one that was created under the same name, but fails.
//! - `delivery.timeout.ms` is over for a batch when its last try is answered, so that it is not called unknown where it
//!   is known.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use super::{
    backoff::Backoff,
    call::Call,
    cause::{Cause, CauseKind},
    leaders::Leaders,
    outbox::{
        Batch, BatchFact, BatchId, Expired, Fate, FirstBatch, Limits, Outbox, RequestId, Resolved, Step,
        Trouble,
    },
    topics::{Doubt, TopicNow},
};
use crate::ids::{Identity, Moment, NodeId, ProducerEpoch, TopicId, TopicName, TopicPartition};

mod interface;
#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod tests;

pub use interface::{Effect, InitFact, Input, ProduceFact};

/// After a pause of this length a partition's next batch leaves alone. Brokers forget a producer after a day, unless
/// their operator shortened that.
const PAUSE: std::time::Duration = std::time::Duration::from_secs(10);

/// The machine.
#[derive(Debug)]
pub struct Idempotent {
    outbox: Outbox,
    leaders: Leaders,
    /// What a partition begins with.
    identity: Option<Identity>,
    initializing: Call,
    backoff: Backoff,
    /// What each partition writes under.
    lines: HashMap<TopicPartition, Identity>,
    /// Partitions whose identity is of no use any more.
    fenced: HashSet<TopicPartition>,
    /// How many batches have an open fate, by the batch that they were a part of when it was taken.
    open: BTreeMap<BatchId, usize>,
    /// What a part of a batch was split off.
    whole: HashMap<BatchId, BatchId>,
    /// For each flush the first batch that it does not wait for.
    flushes: VecDeque<BatchId>,
    next: BatchId,
    splitting: HashMap<BatchId, (TopicPartition, Cause)>,
    /// Topics whose id a leader did not know.
    denied: BTreeMap<(TopicName, TopicId), Doubt>,
    effects: VecDeque<Effect>,
}

impl Idempotent {
    /// A producer that asks for its identity at once.
    #[must_use]
    pub fn new(limits: Limits, seed: u64) -> Self {
        let limits = Limits { first_batch: FirstBatch::AloneAfter(PAUSE), ..limits };
        Self {
            leaders: Leaders::new(limits.retry_max, seed),
            identity: None,
            initializing: Call::Asked,
            backoff: Backoff::new(limits.retry, limits.retry_max, seed),
            outbox: Outbox::new(limits, seed),
            lines: HashMap::new(),
            fenced: HashSet::new(),
            open: BTreeMap::new(),
            whole: HashMap::new(),
            flushes: VecDeque::new(),
            next: BatchId(0),
            splitting: HashMap::new(),
            denied: BTreeMap::new(),
            effects: VecDeque::from([Effect::Initialize]),
        }
    }

    /// Takes a command or a fact.
    pub fn handle(&mut self, now: Moment, input: Input) {
        self.accept(now, input);
        self.advance(now);
    }

    /// The same for what is not the last thing that is known by now: nothing is done about it before the next
    /// [`handle`](Self::handle), so that one request can carry all of it.
    pub fn accept(&mut self, now: Moment, input: Input) {
        match input {
            Input::Batch { partition, batch, leader } => self.take(partition, batch, leader),
            Input::Flush => self.flushes.push_back(self.next),
            Input::Initialized(fact) => self.initialized(now, fact),
            Input::Produced { request, facts } => self.produced(now, request, facts),
            Input::ProduceLost(request) => self.produced(now, request, Vec::new()),
            Input::Split { batch, parts } => self.split(batch, &parts),
            Input::Leaders(looked) => {
                self.topics_told(&looked.topics);
                self.leaders.found(now, looked.leaders);
            }
            Input::Tick => {}
        }
    }

    /// The next thing to do; drain it before the next [`handle`](Self::handle).
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// When [`Input::Tick`] is due, if at all.
    #[must_use]
    pub fn next_deadline(&self, now: Moment) -> Option<Moment> {
        let calls = [self.initializing.deadline(), self.leaders.deadline()];
        calls.into_iter().chain([self.outbox.wakes(now)]).flatten().min()
    }

    /// True when the fate of every batch is known.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    fn take(&mut self, partition: TopicPartition, batch: Batch, leader: Option<NodeId>) {
        self.next = self.next.max(BatchId(batch.id.0 + 1));
        *self.open.entry(batch.id).or_default() += 1;
        // Later ones know no better than this producer, which may have met a refusal.
        if let Some(node) = leader.filter(|_| !self.lines.contains_key(&partition)) {
            self.leaders.learn(partition.clone(), node);
        }
        self.outbox.push(partition, batch);
    }

    fn initialized(&mut self, now: Moment, fact: InitFact) {
        self.initializing = Call::Idle;
        match fact {
            InitFact::Granted(identity) => {
                self.backoff.reset();
                self.identity = Some(identity);
            }
            InitFact::Retry => self.initializing = Call::Wait(now.after(self.backoff.next_wait())),
            InitFact::Refused(cause) => {
                // What comes later asks again: the refusal may have been mended by then.
                for partition in self.without_identity() {
                    let gone = self.outbox.clear(&partition);
                    self.give_up_all(gone, &cause);
                }
                self.initializing = Call::Wait(now.after(self.backoff.next_wait()));
            }
        }
    }

    fn produced(
        &mut self,
        now: Moment,
        request: RequestId,
        facts: Vec<(TopicPartition, BatchId, ProduceFact)>,
    ) {
        let mut asked = self.outbox.close(request);
        for (partition, batch, fact) in facts {
            if let Some(at) = asked.iter().position(|a| a.0 == partition && a.1 == batch) {
                asked.swap_remove(at);
                self.learn(now, &partition, batch, fact);
            }
        }
        asked.sort();
        for (partition, batch) in asked {
            self.learn(now, &partition, batch, ProduceFact::Plain(BatchFact::RetryAfterMetadata));
        }
    }

    fn learn(&mut self, now: Moment, partition: &TopicPartition, batch: BatchId, fact: ProduceFact) {
        if fact == ProduceFact::Plain(BatchFact::TopicIdUnknown) {
            let id = self.outbox.topic_of(partition, batch).unwrap_or(TopicId::UNKNOWN);
            self.denied.entry((partition.topic.clone(), id)).or_default().deny();
        }
        match fact {
            ProduceFact::Plain(BatchFact::OutOfOrder) => {
                let detail =
                    "OUT_OF_ORDER_SEQUENCE_NUMBER behind a batch that may be stored, or before one that is";
                self.trouble(now, partition, batch, (Trouble::OutOfOrder, detail));
            }
            ProduceFact::IdentityGone(cause) => {
                self.fenced.insert(partition.clone());
                self.trouble(now, partition, batch, (Trouble::IdentityGone, &cause.detail));
            }
            ProduceFact::Plain(BatchFact::Refused(cause)) => self.refused(partition, batch, cause),
            ProduceFact::TooLarge(cause) if self.outbox.can_replace(partition, batch) => {
                self.splitting.insert(batch, (partition.clone(), cause));
                self.effects.push_back(Effect::Split(batch));
            }
            ProduceFact::TooLarge(cause) => self.refused(partition, batch, cause),
            ProduceFact::Unclear(cause) => {
                self.outbox.doubt(partition, batch);
                self.refused(partition, batch, cause);
            }
            ProduceFact::Plain(fact) => match self.outbox.learn::<Cause>(now, partition, batch, fact) {
                Step::Stored { offset, .. } => self.stored(batch, offset),
                Step::Again { metadata: true } => self.leaders.forget(partition),
                Step::Moved(leader) => self.leaders.learn(partition.clone(), leader),
                // What leads to the last two was taken out above.
                Step::Again { metadata: false } | Step::Unknown | Step::Refused { .. } | Step::Gap { .. } => {
                }
            },
        }
    }

    /// Gives up what is for topics that are not there any more. What is under way is told the same by its own answer.
    fn topics_told(&mut self, topics: &[(TopicName, TopicNow)]) {
        let mut gone = Vec::new();
        self.denied.retain(|(name, id), doubt| {
            let Some((_, now)) = topics.iter().find(|(told, _)| told == name) else { return true };
            let cause = doubt.told(name, *id, *now);
            let is_open = cause.is_none() && *now != TopicNow::Known(*id);
            gone.extend(cause.map(|cause| (name.clone(), *id, cause)));
            is_open
        });
        for (name, id, cause) in gone {
            let over = self.outbox.without_topic(&name, id);
            self.give_up_all(over, &cause);
        }
    }

    fn trouble(
        &mut self,
        now: Moment,
        partition: &TopicPartition,
        batch: BatchId,
        (trouble, detail): (Trouble, &str),
    ) {
        match self.outbox.trouble(now, partition, batch, trouble) {
            Resolved::Over(fate) => {
                self.over(partition, batch, fate, &Cause::new(CauseKind::SequenceGap, detail));
            }
            Resolved::Again | Resolved::NotOurs => {}
        }
    }

    fn refused(&mut self, partition: &TopicPartition, batch: BatchId, cause: Cause) {
        if let Some(fate) = self.outbox.give_up(partition, batch) {
            self.over(partition, batch, fate, &cause);
        }
    }

    fn stored(&mut self, batch: BatchId, offset: Option<i64>) {
        self.close(batch);
        self.effects.push_back(Effect::Stored { batch, offset });
    }

    /// The fate of a batch is known.
    fn close(&mut self, batch: BatchId) {
        let whole = self.whole.remove(&batch).unwrap_or(batch);
        if let Some(parts) = self.open.get_mut(&whole) {
            *parts -= 1;
            if *parts == 0 {
                self.open.remove(&whole);
            }
        }
    }

    /// A batch is out of the outbox.
    fn over(&mut self, partition: &TopicPartition, batch: BatchId, fate: Fate, cause: &Cause) {
        let cause = match fate {
            Fate::NotStored => cause.clone(),
            Fate::Unknown => {
                let detail = format!("{}; it may be stored all the same", cause.detail);
                Cause { kind: CauseKind::OutcomeUnknown, detail, ..cause.clone() }
            }
        };
        self.close(batch);
        self.effects.push_back(Effect::Failed { batch, cause: cause.on(partition.clone()) });
    }

    fn give_up_all(&mut self, gone: Vec<Expired>, cause: &Cause) {
        for Expired { partition, batch, fate } in gone {
            self.over(&partition, batch, fate, cause);
        }
    }

    fn split(&mut self, batch: BatchId, parts: &[Batch]) {
        let Some((partition, cause)) = self.splitting.remove(&batch) else { return };
        if parts.is_empty() || !self.outbox.replace(&partition, batch, parts) {
            return self.refused(&partition, batch, cause);
        }
        let whole = self.whole.get(&batch).copied().unwrap_or(batch);
        *self.open.entry(whole).or_default() += parts.len();
        self.whole.extend(parts.iter().map(|part| (part.id, whole)));
        self.close(batch);
        self.next = parts.iter().map(|part| BatchId(part.id.0 + 1)).fold(self.next, BatchId::max);
    }

    fn advance(&mut self, now: Moment) {
        self.initializing.wake(now);
        self.leaders.wake(now);
        let detail = "it was not acknowledged within delivery.timeout.ms";
        let expired = self.outbox.expire(now);
        self.give_up_all(expired, &Cause::new(CauseKind::DeliveryTimeout, detail));
        self.restart();
        while self.send(now) {}
        self.effects.extend(self.leaders.ask(self.outbox.waiting()).map(Effect::FindLeaders));
        let first = self.open.keys().next().copied();
        while self.flushes.front().is_some_and(|end| first.is_none_or(|first| first >= *end)) {
            self.flushes.pop_front();
            self.effects.push_back(Effect::Flushed);
        }
    }

    /// One more batch of each partition that may; false if there was none.
    fn send(&mut self, now: Moment) -> bool {
        let (lines, leaders) = (&self.lines, &self.leaders);
        let requests = self.outbox.drain(now, |p| leaders.of(p).filter(|_| lines.contains_key(p)));
        let sent = !requests.is_empty();
        for produce in requests {
            let identities = produce.items.iter().filter_map(|i| lines.get(&i.partition).copied()).collect();
            self.effects.push_back(Effect::Produce { produce, identities });
        }
        sent
    }

    /// Partitions that can't go on as they are get another identity, and new ones their first.
    fn restart(&mut self) {
        let broken: Vec<_> = self.outbox.broken().cloned().collect();
        for partition in broken {
            let raised = self.lines.get(&partition).and_then(|line| self.raised(&partition, *line));
            match raised {
                Some(identity) => self.begin(partition, identity),
                None => self.retire(partition),
            }
        }
        let Some(identity) = self.identity else {
            if self.initializing == Call::Idle && !self.without_identity().is_empty() {
                self.initializing = Call::Asked;
                self.effects.push_back(Effect::Initialize);
            }
            return;
        };
        for partition in self.without_identity() {
            self.begin(partition, identity);
        }
    }

    /// The next epoch, if there is one and it would help.
    fn raised(&self, partition: &TopicPartition, line: Identity) -> Option<Identity> {
        let epoch = line.epoch.0.checked_add(1).filter(|_| !self.fenced.contains(partition))?;
        Some(Identity { epoch: ProducerEpoch(epoch), ..line })
    }

    /// A partition's producer id is of no use to it any more.
    fn retire(&mut self, partition: TopicPartition) {
        self.fenced.remove(&partition);
        if let Some(line) = self.lines.remove(&partition) {
            self.identity = self.identity.filter(|fresh| fresh.producer_id != line.producer_id);
        }
    }

    fn begin(&mut self, partition: TopicPartition, identity: Identity) {
        let anew = self.outbox.broken().any(|p| *p == partition);
        if anew {
            self.outbox.restart(&partition);
            self.effects.push_back(Effect::Restarted { partition: partition.clone(), identity });
        }
        self.lines.insert(partition, identity);
    }

    fn without_identity(&self) -> Vec<TopicPartition> {
        self.outbox.waiting().filter(|p| !self.lines.contains_key(p)).cloned().collect()
    }
}

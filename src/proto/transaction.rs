//! One transaction of one producer, from its first record to the point where only its end is left.
//!
//! ```text
//!            records                 all acknowledged
//!   Open ───────────► Draining(goal) ────────────────► Prepared        (the commit is the resume machine's)
//!    │ │                    │
//!    │ └── a record failed ─┴──► AbortRequired(cause) ──┐
//!    │                                                  ▼
//!    └── abort ───────────────► Draining(Abort) ──► Ending ──► Aborted
//!                                        any answer "fenced" ──► Fenced
//! ```
//! The rules that make it safe:
//! - `Prepared` is reached only when every record that was taken is acknowledged; one that failed, expired or
//!   whose fate is unknown leaves abort as the only way.
//! - "Something may have reached a broker" is a latch: once set, an abort sends EndTxn.
//! - The identity never changes inside a transaction, and the version of its end is fixed when it begins.
//! - Before `Prepared` brokers are asked whether a topic was deleted and created anew, for records before that are gone, and
//!   where brokers find a topic by its name (before Produce 13) those after it are somewhere else. Without an answer nothing is
//!   known against it; the settled check compares once more.
//! - Offsets of consumer groups are records of the coordinators' own log: they count as records do, so they are answered
//!   before `Prepared` too. V1: AddOffsetsToTxn to the transaction coordinator, then TxnOffsetCommit to the group's; V2:
//!   TxnOffsetCommit alone.
//! - One AddPartitionsToTxn or AddOffsetsToTxn is under way at a time, and all are answered before `Prepared`: a late one would
//!   open a transaction that nobody knows.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use super::{
    backoff::{self, Backoff},
    call::Call,
    cause::{Cause, CauseKind},
    leaders::Leaders,
    outbox::{Batch, BatchFact, BatchId, Limits, Outbox, RequestId, Step},
    topics::Written,
};
use crate::{
    ids::{Moment, NodeId, TopicPartition},
    wire::versions::TransactionVersion,
};

mod asked;
mod interface;
mod offsets;

use asked::{StartTime, Topics};
pub use interface::{
    AbortFact, Acked, AddFact, Effect, Evidence, Finish, Goal, Input, Misuse, OffsetsFact, end_txn_version,
    end_txn_version_at,
};
use offsets::Offsets;

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Open,
    Draining(Goal),
    Prepared,
    Ending,
    AbortRequired(Cause),
    Done,
}

/// How long a partition that is going to get a batch waits for others, so that one request adds them all.
const ADD_WAIT: Duration = Duration::from_millis(2);

/// How long an abort is tried, unless told otherwise (`max.block.ms`).
const ABORT_PATIENCE: Duration = Duration::from_secs(60);

/// The machine.
#[derive(Debug)]
pub struct Transaction {
    version: TransactionVersion,
    state: State,
    outbox: Outbox,
    leaders: Leaders,
    members: BTreeSet<TopicPartition>,
    adding: Vec<TopicPartition>,
    to_add: BTreeSet<TopicPartition>,
    /// When those are added, unless a batch for one of them comes before.
    add_at: Moment,
    call: Call,
    offsets: Offsets,
    backoff: Backoff,
    /// Set once a request that names this transaction may have reached a broker. Never cleared.
    reached: bool,
    written: Written,
    topics: Topics,
    batches_tell: bool,
    /// The batches that are under way at the end tell of all topics.
    last_tell: bool,
    start: StartTime,
    evidence: Evidence,
    abort_patience: Duration,
    /// When an abort that was asked for is given up.
    abort_until: Option<Moment>,
    flushes: usize,
    effects: VecDeque<Effect>,
}

impl Transaction {
    /// A transaction that begins now; its identity is held by the driver.
    #[must_use]
    pub fn new(version: TransactionVersion, limits: Limits, seed: u64) -> Self {
        let backoff = Backoff::new(Duration::from_millis(20), limits.retry_max, seed);
        let offsets = Offsets::new(limits.retry_max, seed);
        let leaders = Leaders::new(limits.retry_max, seed);
        Self {
            version,
            state: State::Open,
            outbox: Outbox::new(limits, seed),
            leaders,
            members: BTreeSet::new(),
            adding: Vec::new(),
            to_add: BTreeSet::new(),
            add_at: Moment::default(),
            call: Call::Idle,
            offsets,
            backoff,
            reached: false,
            written: Written::default(),
            topics: Topics::NotAsked,
            batches_tell: false,
            last_tell: false,
            start: StartTime::NotAsked,
            evidence: Evidence::default(),
            abort_patience: ABORT_PATIENCE,
            abort_until: None,
            flushes: 0,
            effects: VecDeque::new(),
        }
    }

    /// The same, but an abort is tried for this long before the transaction is left to its timeout. Default 60 s.
    #[must_use]
    pub fn abort_patience(self, abort_patience: Duration) -> Self {
        Self { abort_patience, ..self }
    }

    /// The same, where the answer to a batch most likely tells that its topic is still the one that it was for (Produce 13).
    /// Then the batches that are under way at the end are waited for before topics are asked for: the driver need not ask for
    /// those of which all is told by then.
    #[must_use]
    pub fn batches_tell(self, batches_tell: bool) -> Self {
        Self { batches_tell, ..self }
    }

    /// Takes a command or a fact.
    ///
    /// # Errors
    /// [`Misuse`] for a command that comes after the end was asked for; nothing has changed then.
    pub fn handle(&mut self, now: Moment, input: Input) -> Result<(), Misuse> {
        self.accept(now, input)?;
        self.advance(now);
        Ok(())
    }

    /// The same for what is not the last thing that is known by now: nothing is done about it before the next
    /// [`handle`](Self::handle), so that one request can carry all of it.
    ///
    /// # Errors
    /// As there.
    pub fn accept(&mut self, now: Moment, input: Input) -> Result<(), Misuse> {
        if self.state == State::Done && input.is_about_the_coordinator() {
            // It is over: what is answered late changes nothing.
            return Ok(());
        }
        match input {
            Input::Began { partitions } => self.begin(now, partitions)?,
            Input::Batch { partition, batch, leader } => self.take(partition, batch, leader)?,
            Input::Offsets { offsets, deadline } => self.take_offsets(offsets, deadline)?,
            Input::Flush => self.flush()?,
            Input::End(goal) => self.end(now, goal)?,
            Input::Added(fact) => self.added(now, fact),
            Input::OffsetsAdded(fact) => self.offsets_added(now, fact),
            Input::OffsetsCommitted(fact) => self.offsets_committed(now, fact),
            Input::Produced { request, facts } => self.produced(now, request, facts),
            Input::ProduceLost(request) => self.produced(now, request, Vec::new()),
            Input::Leaders(looked) => {
                self.topics_told(&looked.topics);
                self.leaders.found(now, looked.leaders);
            }
            Input::TopicsChecked(topics) => {
                self.topics = Topics::Checked;
                self.topics_told(&topics);
            }
            Input::Aborted(fact) => self.aborted(now, fact),
            Input::Described { start_ms } => self.start = StartTime::Told(start_ms),
            Input::Tick => {}
        }
        Ok(())
    }

    /// The next thing to do; drain it before the next [`handle`](Self::handle).
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// When [`Input::Tick`] is due, if at all.
    #[must_use]
    pub fn next_deadline(&self, now: Moment) -> Option<Moment> {
        // A batch that can't leave any more has no deadline either: it would be over for ever.
        let outbox = self.outbox.next_deadline(now).filter(|_| self.sends());
        let offsets = self.offsets.next_deadline().filter(|_| self.sends());
        let adds = self.sends() && self.call == Call::Idle && !self.to_add.is_empty();
        let adds = adds.then_some(self.add_at);
        [self.call.deadline(), self.leaders.deadline(), adds, outbox, offsets, self.abort_until]
            .into_iter()
            .flatten()
            .min()
    }

    fn begin(&mut self, now: Moment, partitions: Vec<TopicPartition>) -> Result<(), Misuse> {
        match self.state {
            State::Open => {}
            // The failure was said already.
            State::AbortRequired(_) => return Ok(()),
            State::Draining(_) | State::Prepared | State::Ending | State::Done => return Err(Misuse),
        }
        if self.to_add.is_empty() {
            self.add_at = now.after(ADD_WAIT);
        }
        let new: Vec<_> = partitions.into_iter().filter(|p| self.is_to_be_added(p)).collect();
        self.to_add.extend(new);
        Ok(())
    }

    fn is_to_be_added(&self, partition: &TopicPartition) -> bool {
        let is_asked = self.members.contains(partition) || self.adding.contains(partition);
        self.version < TransactionVersion::V2 && !is_asked
    }

    fn take(
        &mut self,
        partition: TopicPartition,
        batch: Batch,
        leader: Option<NodeId>,
    ) -> Result<(), Misuse> {
        match self.state {
            State::Open => {}
            // The failure was said already; what comes after it is thrown away with the rest.
            State::AbortRequired(_) => {
                self.effects.push_back(Effect::Discarded(vec![batch.id]));
                return Ok(());
            }
            State::Draining(_) | State::Prepared | State::Ending | State::Done => return Err(Misuse),
        }
        if self.is_to_be_added(&partition) {
            // It waits for that.
            self.add_at = Moment::default();
            self.to_add.insert(partition.clone());
        }
        if let Err(cause) = self.written.take(&partition.topic, batch.topic) {
            // Whoever writes has looked it up again in between.
            self.refused(batch.id, cause);
            return Ok(());
        }
        // Later ones know no better than this transaction, which may have met a refusal.
        if let Some(node) = leader.filter(|_| !self.evidence.partitions.contains_key(&partition)) {
            self.leaders.learn(partition.clone(), node);
        }
        self.evidence.partitions.entry(partition.clone()).or_insert(Acked { offset: -1, records: 0 });
        self.outbox.push(partition, batch);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Misuse> {
        match &self.state {
            State::Open => self.flushes += 1,
            State::AbortRequired(cause) => self.effects.push_back(Effect::Failed(cause.clone())),
            State::Draining(_) | State::Prepared | State::Ending | State::Done => return Err(Misuse),
        }
        Ok(())
    }

    fn end(&mut self, now: Moment, goal: Goal) -> Result<(), Misuse> {
        match (&self.state, goal) {
            (
                State::Open | State::Draining(Goal::Prepare | Goal::Commit) | State::AbortRequired(_),
                Goal::Abort,
            ) => {
                self.state = State::Draining(goal);
                self.abort_until = Some(now.after(self.abort_patience));
                self.discard();
            }
            (State::Open, Goal::Prepare | Goal::Commit) => {
                self.last_tell = self.batches_tell && self.will_tell(now, goal);
                self.state = State::Draining(goal);
            }
            (State::AbortRequired(cause), Goal::Prepare | Goal::Commit) => {
                self.effects.push_back(Effect::Failed(cause.clone()));
            }
            (State::Draining(_) | State::Prepared | State::Ending | State::Done, _) => return Err(Misuse),
        }
        Ok(())
    }

    fn added(&mut self, now: Moment, fact: AddFact) {
        self.call = Call::Idle;
        let asked = std::mem::take(&mut self.adding);
        match fact {
            AddFact::Added => {
                self.backoff.reset();
                self.members.extend(asked);
                return;
            }
            AddFact::Retry => self.wait(now, None),
            AddFact::RetrySoon => self.wait(now, self.soon()),
            AddFact::CoordinatorMoved => self.coordinator_moved(now),
            AddFact::Refused(cause) => return self.fail(cause),
            AddFact::Fenced(cause) => return self.fenced(cause),
        }
        self.to_add.extend(asked);
    }

    fn produced(
        &mut self,
        now: Moment,
        request: RequestId,
        facts: Vec<(TopicPartition, BatchId, BatchFact<Cause>)>,
    ) {
        let mut asked = self.outbox.close(request);
        for (partition, batch, fact) in facts {
            let known = asked.iter().position(|a| a.0 == partition && a.1 == batch);
            if let Some(at) = known {
                asked.swap_remove(at);
                self.learn(now, &partition, batch, fact);
            }
        }
        asked.sort();
        for (partition, batch) in asked {
            self.learn(now, &partition, batch, BatchFact::RetryAfterMetadata);
        }
        if !self.sends() {
            // What was under way when the transaction failed, and was not stored, is not sent again.
            self.discard();
        }
    }

    /// True while batches may leave.
    fn sends(&self) -> bool {
        match self.state {
            State::Open | State::Draining(Goal::Prepare | Goal::Commit) => true,
            State::Draining(Goal::Abort)
            | State::AbortRequired(_)
            | State::Prepared
            | State::Ending
            | State::Done => false,
        }
    }

    fn refused(&mut self, batch: BatchId, cause: Cause) {
        self.fail(cause);
        self.effects.push_back(Effect::Discarded(vec![batch]));
    }

    fn learn(&mut self, now: Moment, partition: &TopicPartition, batch: BatchId, fact: BatchFact<Cause>) {
        if fact == BatchFact::TopicIdUnknown {
            self.written.deny(&partition.topic);
        }
        match self.outbox.learn(now, partition, batch, fact) {
            Step::Stored { partition, offset, records } => {
                self.written.confirm(&partition.topic);
                let acked = self.evidence.partitions.entry(partition).or_default();
                acked.records += u64::from(records.unsigned_abs());
                acked.offset = acked.offset.max(offset.unwrap_or(-1));
                self.effects.push_back(Effect::Stored { batch, offset });
            }
            Step::Again { metadata } => {
                if metadata {
                    self.leaders.forget(partition);
                }
            }
            Step::Moved(leader) => self.leaders.learn(partition.clone(), leader),
            Step::Refused { partition, cause } if cause.is_fenced() => {
                self.effects.push_back(Effect::Discarded(vec![batch]));
                self.fenced(cause.on(partition));
            }
            Step::Refused { partition, cause } => self.refused(batch, cause.on(partition)),
            Step::Gap { partition } => {
                let detail = "OUT_OF_ORDER_SEQUENCE_NUMBER with no earlier batch missing";
                self.refused(batch, Cause::new(CauseKind::SequenceGap, detail).on(partition));
            }
            Step::Unknown => {}
        }
    }

    fn aborted(&mut self, now: Moment, fact: AbortFact) {
        self.call = Call::Idle;
        match fact {
            AbortFact::Done(next) => self.finish(Finish::Aborted { next, used: true }),
            AbortFact::NothingOpen => self.finish(Finish::Aborted { next: None, used: true }),
            AbortFact::Retry => self.wait(now, None),
            AbortFact::CoordinatorMoved => self.coordinator_moved(now),
            AbortFact::Fenced(cause) => self.finish(Finish::Fenced(cause)),
            AbortFact::Refused(cause) => self.finish(Finish::Abandoned(cause)),
        }
    }

    fn advance(&mut self, now: Moment) {
        self.call.wake(now);
        self.offsets.call.wake(now);
        self.leaders.wake(now);
        match self.state.clone() {
            State::Open => self.send(now),
            State::Draining(Goal::Abort) | State::Ending => self.abort(now),
            State::Draining(goal) => {
                self.send(now);
                self.check_topics(goal);
                self.prepare(goal);
            }
            State::AbortRequired(_) | State::Prepared | State::Done => {}
        }
    }

    fn send(&mut self, now: Moment) {
        if let Some(partition) = self.outbox.expired(now).cloned() {
            let detail = "a record was not acknowledged within delivery.timeout.ms";
            return self.fail(Cause::new(CauseKind::DeliveryTimeout, detail).on(partition));
        }
        if let Some(group) = self.offsets.expired(now) {
            let detail =
                format!("offsets of the consumer group {group} were not taken within delivery.timeout.ms");
            return self.fail(Cause::new(CauseKind::DeliveryTimeout, detail));
        }
        if self.call == Call::Idle && !self.to_add.is_empty() && self.add_at <= now {
            self.adding = std::mem::take(&mut self.to_add).into_iter().collect();
            self.call = Call::Asked;
            self.reached = true;
            self.effects.push_back(Effect::AddPartitions(self.adding.clone()));
        }
        self.send_offsets();
        while self.produce(now) {}
        self.effects.extend(self.leaders.ask(self.outbox.waiting()).map(Effect::FindLeaders));
        self.describe_early();
        if self.flushes > 0 && self.outbox.is_empty() {
            self.effects.extend((0..self.flushes).map(|_| Effect::Flushed));
            self.flushes = 0;
        }
    }

    /// One more batch of each partition that may; false if there was none.
    fn produce(&mut self, now: Moment) -> bool {
        let (leaders, members) = (&self.leaders, &self.members);
        let implicit = self.version >= TransactionVersion::V2;
        let requests = self.outbox.drain(now, |partition| {
            let member = implicit || members.contains(partition);
            leaders.of(partition).filter(|_| member)
        });
        let sent = !requests.is_empty();
        self.reached |= sent;
        self.effects.extend(requests.into_iter().map(Effect::Produce));
        sent
    }

    /// Asks for the start time as soon as the coordinator must know the transaction, so that prepare does not
    /// have to wait for it.
    fn describe_early(&mut self) {
        let stored = self.offsets.stored || self.evidence.partitions.values().any(|acked| acked.records > 0);
        if stored && self.start == StartTime::NotAsked && self.state != State::Draining(Goal::Commit) {
            self.start = StartTime::Asked;
            self.effects.push_back(Effect::Describe);
        }
    }

    fn prepare(&mut self, goal: Goal) {
        // send() may have failed the transaction.
        let drained = self.outbox.is_empty() || cfg!(planted_bug = "write-after-prepare");
        if self.state != State::Draining(goal) || !drained || self.call != Call::Idle {
            return;
        }
        if !self.offsets.is_settled() {
            return;
        }
        if self.evidence.partitions.is_empty() && !self.offsets.stored {
            return self.prepare_nothing();
        }
        if self.topics == Topics::Asked || (goal == Goal::Prepare && self.start == StartTime::Asked) {
            return;
        }
        let mut evidence = std::mem::take(&mut self.evidence);
        if cfg!(planted_bug = "forget-a-partition") {
            evidence.partitions.pop_first();
        }
        if let StartTime::Told(start_ms) = self.start {
            evidence.start_ms = start_ms;
        }
        self.effects.push_back(Effect::Finished(Finish::Prepared(evidence)));
        self.state = State::Prepared;
    }

    fn prepare_nothing(&mut self) {
        if !self.reached {
            return self.finish(Finish::Empty);
        }
        // A partition was added whose batch never came: the transaction is open at its coordinator.
        let detail = "a partition was added to the transaction, and nothing was written to it";
        self.fail(Cause::new(CauseKind::InvalidState, detail));
    }

    /// EndTxn(abort) goes out only when no Produce, no TxnOffsetCommit and nothing that adds partitions is under way: on
    /// brokers that do not verify, one that arrives after the marker would leave a transaction that nobody ends.
    fn abort(&mut self, now: Moment) {
        if self.reached && self.abort_until.is_some_and(|until| until <= now) {
            let detail = "the abort was not answered in time";
            return self.finish(Finish::Abandoned(Cause::new(CauseKind::Unreachable, detail)));
        }
        if self.call != Call::Idle || self.outbox.in_flight() || self.offsets.in_flight() {
            return;
        }
        if !self.reached {
            return self.finish(Finish::Aborted { next: None, used: false });
        }
        self.state = State::Ending;
        self.call = Call::Asked;
        self.effects.push_back(Effect::Abort);
    }

    fn fail(&mut self, cause: Cause) {
        match self.state {
            State::Open | State::Draining(Goal::Prepare | Goal::Commit) => {
                self.discard();
                self.state = State::AbortRequired(cause.clone());
                self.effects.push_back(Effect::Failed(cause));
            }
            State::Draining(Goal::Abort)
            | State::AbortRequired(_)
            | State::Prepared
            | State::Ending
            | State::Done => {}
        }
    }

    fn fenced(&mut self, cause: Cause) {
        if self.state != State::Done {
            self.discard();
            self.finish(Finish::Fenced(cause));
        }
    }

    fn discard(&mut self) {
        self.to_add.clear();
        self.offsets.discard();
        self.reached &= !cfg!(planted_bug = "clear-the-latch");
        let gone = self.outbox.discard();
        if !gone.is_empty() {
            self.effects.push_back(Effect::Discarded(gone));
        }
    }

    fn finish(&mut self, finish: Finish) {
        self.state = State::Done;
        self.abort_until = None;
        self.effects.push_back(Effect::Finished(finish));
    }

    fn wait(&mut self, now: Moment, at_most: Option<Duration>) {
        let wait = self.backoff.next_wait();
        self.call = Call::Wait(now.after(at_most.map_or(wait, |most| wait.min(most))));
    }

    /// How long to wait at most while the coordinator is busy with an end. With nothing added yet it is that of the
    /// transaction before this one, which takes milliseconds, unless it waits for a leader. After that it is our own.
    fn soon(&self) -> Option<Duration> {
        let first = self.members.is_empty();
        backoff::soon(self.backoff.tries()).filter(|_| first)
    }

    fn coordinator_moved(&mut self, now: Moment) {
        self.effects.push_back(Effect::ForgetCoordinator);
        self.wait(now, None);
    }
}

#[cfg(test)]
mod tests;

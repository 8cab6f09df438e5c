//! A driver of the machine that remembers what was asked and answered, and nothing of how the machine decides.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use kafka_2pc::{
    ids::{GroupId, Moment, NodeId, TopicId, TopicName, TopicPartition},
    proto::{
        cause::Cause,
        offsets::GroupOffsets,
        outbox::{Batch, BatchFact, BatchId, FirstBatch, Limits, Produce, RequestId},
        topics::{Looked, TopicNow},
        transaction::{
            AbortFact, Acked, AddFact, Evidence, Finish, Goal, Input, Misuse, OffsetsFact, Transaction,
        },
    },
    wire::versions::TransactionVersion,
};

mod rules;

const IN_FLIGHT: usize = 3;
const REQUEST_BYTES: usize = 250;
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(120);

/// The topics' ids, and those of others of their names.
const THEN: TopicId = TopicId([1; 16]);
const ANEW: TopicId = TopicId([2; 16]);

/// What is known of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It was taken, or is to be sent again.
    Waiting,
    InFlight,
    /// Its request is over; the machine is told so right now.
    Answered,
    Stored,
    Discarded,
}

#[derive(Debug, Clone)]
struct Known {
    partition: TopicPartition,
    records: i32,
    bytes: usize,
    sequence: Option<i32>,
    fate: Fate,
}

/// The machine, and all that its effects and the answers to them say.
#[derive(Debug)]
pub(super) struct Model {
    machine: Transaction,
    version: TransactionVersion,
    now: Moment,
    batches: BTreeMap<BatchId, Known>,
    /// The next sequence of each partition.
    sequences: BTreeMap<TopicPartition, i32>,
    requests: BTreeMap<RequestId, Produce>,
    members: BTreeSet<TopicPartition>,
    adding: Option<Vec<TopicPartition>>,
    groups: BTreeSet<GroupId>,
    adding_group: Option<GroupId>,
    offsets: VecDeque<Arc<GroupOffsets>>,
    committing: Option<Arc<GroupOffsets>>,
    finding: Option<Vec<TopicPartition>>,
    leaders: BTreeSet<(TopicPartition, NodeId)>,
    checking: bool,
    checked: bool,
    describing: bool,
    described: bool,
    aborting: bool,
    flushes: usize,
    goal: Option<Goal>,
    failed: Option<Cause>,
    /// True while a command is given that a failed transaction answers with its failure.
    asks: bool,
    finished: Option<Finish>,
    /// A request that names the transaction has left.
    reached: bool,
    /// What a committable must say.
    evidence: Evidence,
    /// The answer that ended it, as far as one must have.
    fenced: bool,
    abort_answered: bool,
}

impl Model {
    pub(super) fn new(version: TransactionVersion, seed: u64) -> Self {
        let limits = Limits {
            first_batch: if version < TransactionVersion::V2 {
                FirstBatch::Alone
            } else {
                FirstBatch::Pipelined
            },
            in_flight: IN_FLIGHT,
            request_bytes: REQUEST_BYTES,
            retry: Duration::from_millis(100),
            retry_max: Duration::from_secs(1),
        };
        Self {
            machine: Transaction::new(version, limits, seed),
            version,
            now: Moment(1),
            batches: BTreeMap::new(),
            sequences: BTreeMap::new(),
            requests: BTreeMap::new(),
            members: BTreeSet::new(),
            adding: None,
            groups: BTreeSet::new(),
            adding_group: None,
            offsets: VecDeque::new(),
            committing: None,
            finding: None,
            leaders: BTreeSet::new(),
            checking: false,
            checked: false,
            describing: false,
            described: false,
            aborting: false,
            flushes: 0,
            goal: None,
            failed: None,
            asks: false,
            finished: None,
            reached: false,
            evidence: Evidence::default(),
            fenced: false,
            abort_answered: false,
        }
    }

    /// A batch of so many records.
    pub(super) fn write(&mut self, partition: TopicPartition, records: i32) {
        let id = BatchId(self.batches.len() as u64);
        let bytes = 40 * usize::try_from(records).unwrap_or(0);
        let deadline = self.now.after(DELIVERY_TIMEOUT);
        let batch = Batch { id, topic: THEN, records, bytes, deadline };
        let open = self.failed.is_none();
        if self.takes() {
            let known =
                Known { partition: partition.clone(), records, bytes, sequence: None, fate: Fate::Waiting };
            self.batches.insert(id, known);
            if open {
                let none = Acked { offset: -1, records: 0 };
                self.evidence.partitions.entry(partition.clone()).or_insert(none);
            }
        }
        self.command(Input::Batch { partition, batch, leader: None });
    }

    pub(super) fn offsets(&mut self, offsets: Arc<GroupOffsets>) {
        if self.takes() && self.failed.is_none() {
            self.offsets.push_back(Arc::clone(&offsets));
        }
        self.command(Input::Offsets { offsets, deadline: self.now.after(DELIVERY_TIMEOUT) });
    }

    pub(super) fn flush(&mut self) {
        if self.takes() && self.failed.is_none() {
            self.flushes += 1;
        }
        self.asks = true;
        self.command(Input::Flush);
        self.asks = false;
    }

    pub(super) fn end(&mut self, goal: Goal) {
        if goal != Goal::Abort {
            self.asks = true;
            if self.takes() && self.failed.is_none() {
                self.goal = Some(goal);
                self.give(Input::End(goal));
            } else {
                self.command(Input::End(goal));
            }
            self.asks = false;
        } else if self.finished.is_none() && self.goal != Some(Goal::Abort) {
            self.goal = Some(goal);
            self.give(Input::End(goal));
        } else {
            self.misuse(Input::End(goal));
        }
    }

    /// True while records are taken, if only to be thrown away.
    fn takes(&self) -> bool {
        let failed = self.failed.is_some() && self.goal != Some(Goal::Abort);
        self.finished.is_none() && (self.goal.is_none() || failed)
    }

    fn command(&mut self, input: Input) {
        if self.takes() { self.give(input) } else { self.misuse(input) }
    }

    fn misuse(&mut self, input: Input) {
        let before = format!("{:?}", self.machine);
        assert_eq!(self.machine.handle(self.now, input), Err(Misuse));
        assert_eq!(format!("{:?}", self.machine), before, "misuse changes something");
    }

    /// Answers the one call to the coordinator that adds.
    pub(super) fn added(&mut self, fact: AddFact) {
        self.fenced |= matches!(fact, AddFact::Fenced(_));
        if let Some(partitions) = self.adding.take() {
            if fact == AddFact::Added {
                self.members.extend(partitions);
            }
            self.give(Input::Added(fact));
        } else if let Some(group) = self.adding_group.take() {
            if fact == AddFact::Added {
                self.groups.insert(group);
            }
            self.give(Input::OffsetsAdded(fact));
        }
    }

    /// Answers a Produce request, one fact for each batch.
    pub(super) fn produced(&mut self, index: usize, facts: impl Iterator<Item = Option<BatchFact<Cause>>>) {
        let Some(request) = self.close(index) else { return };
        let facts = request.items.iter().zip(facts).filter_map(|(item, fact)| {
            let fact = fact?;
            self.fenced |= matches!(&fact, BatchFact::Refused(cause) if cause.is_fenced());
            if let BatchFact::RetryAt(node) = fact {
                self.leaders.insert((item.partition.clone(), node));
            }
            Some((item.partition.clone(), item.batch, fact))
        });
        let facts: Vec<_> = facts.collect();
        self.give(Input::Produced { request: request.request, facts });
        self.reopen();
    }

    pub(super) fn produce_lost(&mut self, index: usize) {
        let Some(request) = self.close(index) else { return };
        self.give(Input::ProduceLost(request.request));
        self.reopen();
    }

    fn close(&mut self, index: usize) -> Option<Produce> {
        let chosen = *self.requests.keys().nth(index % self.requests.len().max(1))?;
        let request = self.requests.remove(&chosen)?;
        for item in &request.items {
            self.known(item.batch).fate = Fate::Answered;
        }
        Some(request)
    }

    /// What was answered and not stored is to be sent again.
    fn reopen(&mut self) {
        for known in self.batches.values_mut().filter(|known| known.fate == Fate::Answered) {
            known.fate = Fate::Waiting;
        }
    }

    fn known(&mut self, batch: BatchId) -> &mut Known {
        self.batches.get_mut(&batch).unwrap_or_else(|| panic!("{batch:?} was never taken"))
    }

    /// Answers a lookup, by the index of each partition.
    pub(super) fn leaders(&mut self, leader: impl Fn(usize) -> Option<NodeId>) {
        let Some(asked) = self.finding.take() else { return };
        let told: Vec<_> = asked.into_iter().enumerate().map(|(index, p)| (p, leader(index))).collect();
        self.leaders.extend(told.iter().filter_map(|(p, node)| Some((p.clone(), (*node)?))));
        let topics = self.topics(THEN);
        self.give(Input::Leaders(Looked { leaders: told, topics }));
    }

    pub(super) fn topics_checked(&mut self) {
        if std::mem::take(&mut self.checking) {
            self.checked = true;
            self.give(Input::TopicsChecked(self.topics(THEN)));
        }
    }

    /// Either question about topics may find it out.
    pub(super) fn topic_replaced(&mut self) {
        let topics = self.topics(ANEW);
        if std::mem::take(&mut self.checking) {
            self.give(Input::TopicsChecked(topics));
        } else if let Some(asked) = self.finding.take() {
            let leaders = asked.into_iter().map(|p| (p, None)).collect();
            self.give(Input::Leaders(Looked { leaders, topics }));
        }
    }

    /// Every topic that the machine knows has this id.
    fn topics(&self, id: TopicId) -> Vec<(TopicName, TopicNow)> {
        self.machine.topics().map(|name| (name.clone(), TopicNow::Known(id))).collect()
    }

    pub(super) fn described(&mut self, start_ms: Option<i64>) {
        if std::mem::take(&mut self.describing) {
            if self.finished.is_none() {
                self.evidence.start_ms = start_ms;
            }
            self.give(Input::Described { start_ms });
        }
    }

    pub(super) fn offsets_committed(&mut self, fact: OffsetsFact) {
        let Some(_) = self.committing.take() else { return };
        self.fenced |= matches!(fact, OffsetsFact::Fenced(_));
        if let (OffsetsFact::Stored { on: Some(partition) }, true) = (&fact, self.sends()) {
            self.evidence.partitions.entry(partition.clone()).or_insert(Acked { offset: -1, records: 0 });
        }
        self.give(Input::OffsetsCommitted(fact));
    }

    /// True while EndTxn(abort) is not answered.
    pub(super) fn aborts(&self) -> bool {
        self.aborting
    }

    pub(super) fn aborted(&mut self, fact: AbortFact) {
        if !std::mem::take(&mut self.aborting) {
            return;
        }
        match fact {
            AbortFact::Done(_) | AbortFact::NothingOpen => self.abort_answered = true,
            AbortFact::Fenced(_) => self.fenced = true,
            AbortFact::Retry | AbortFact::CoordinatorMoved | AbortFact::Refused(_) => {}
        }
        self.give(Input::Aborted(fact));
    }

    pub(super) fn wait(&mut self, time: Duration) {
        self.now = self.now.after(time);
        self.give(Input::Tick);
    }

    /// Goes to the machine's own deadline.
    pub(super) fn deadline(&mut self) {
        self.now = self.machine.next_deadline(self.now).unwrap_or(self.now);
        self.give(Input::Tick);
    }

    pub(super) fn is_over(&self) -> bool {
        self.finished.is_some()
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// True if only a command can bring it on.
    pub(super) fn wants_an_end(&self) -> bool {
        self.finished.is_none()
            && (self.goal.is_none() || self.has_failed() && self.goal != Some(Goal::Abort))
    }

    /// True if nothing is asked: then only time can bring it on, or nothing can.
    pub(super) fn waits(&self) -> bool {
        let asked = self.adding.is_some() || self.adding_group.is_some() || self.finding.is_some();
        !asked
            && self.requests.is_empty()
            && self.committing.is_none()
            && !(self.checking || self.describing || self.aborting)
    }

    /// Answers what is still under way when it is over; then every batch has one fate, and nothing follows.
    pub(super) fn is_settled(&mut self) {
        while !self.requests.is_empty() {
            self.produce_lost(0);
        }
        self.added(AddFact::Retry);
        self.leaders(|_| Some(NodeId(1)));
        self.offsets_committed(OffsetsFact::Retry);
        self.topics_checked();
        self.described(None);
        self.aborted(AbortFact::Done(None));
        self.wait(Duration::from_secs(1000));
        for (id, known) in &self.batches {
            assert!(matches!(known.fate, Fate::Stored | Fate::Discarded), "{id:?} has no fate: {known:?}");
        }
        assert!(self.waits(), "something is asked behind the end");
        assert_eq!(self.machine.next_deadline(self.now), None, "it waits behind the end");
    }
}

//! The machine against a model of brokers that lose, delay, double and refuse what they get, from a seed.
//!
//! Whatever happens: what is told to be stored is in the log once, what is told not to be stored is not in it and never
//! will be, what is unknown is in it at most once, and the order is that of the caller.

use std::{collections::BTreeMap, time::Duration};

use super::*;
use crate::{proto::outbox::Produce, wire::batch::increment_sequence};

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }
}

/// One batch as a broker gets it.
#[derive(Debug, Clone)]
struct Copied {
    partition: TopicPartition,
    batch: BatchId,
    identity: Identity,
    sequence: i32,
    records: i32,
}

/// The topic's id.
const OLD: TopicId = TopicId([1; 16]);

/// What a partition knows of one producer id.
#[derive(Default)]
struct Producer {
    epoch: i16,
    next: i32,
    last: VecDeque<(i32, i32, BatchId)>,
}

#[derive(Default)]
struct Log {
    batches: Vec<BatchId>,
    /// What was in logs of the same name that were deleted.
    deleted: HashSet<BatchId>,
    producers: HashMap<i64, Producer>,
}

impl Log {
    /// The topic is deleted and created anew.
    fn begin_anew(&mut self) {
        self.deleted.extend(self.batches.drain(..));
        self.producers.clear();
    }

    fn append(&mut self, copy: &Copied) -> ProduceFact {
        let (pid, epoch) = (copy.identity.producer_id.0, copy.identity.epoch.0);
        let known = self.producers.get(&pid).map(|p| p.epoch);
        if known.is_some_and(|known| epoch < known) {
            return ProduceFact::IdentityGone(Cause::new(CauseKind::Fenced, "older epoch"));
        }
        let begins = known != Some(epoch);
        if known.is_some() && begins && copy.sequence != 0 {
            return ProduceFact::Plain(BatchFact::OutOfOrder);
        }
        let producer = self.producers.entry(pid).or_default();
        if begins {
            *producer = Producer { epoch, next: copy.sequence, last: VecDeque::new() };
        }
        let span = (copy.sequence, copy.records);
        if let Some((.., batch)) = producer.last.iter().find(|l| (l.0, l.1) == span) {
            assert_eq!(*batch, copy.batch, "another batch under the same sequences is lost without a word");
            return ProduceFact::Plain(BatchFact::Stored(None));
        }
        if copy.sequence != producer.next {
            return ProduceFact::Plain(BatchFact::OutOfOrder);
        }
        producer.next = increment_sequence(copy.sequence, copy.records);
        producer.last.push_back((span.0, span.1, copy.batch));
        if producer.last.len() > 5 {
            producer.last.pop_front();
        }
        self.batches.push(copy.batch);
        ProduceFact::Plain(BatchFact::Stored(Some(0)))
    }
}

struct World {
    dice: Dice,
    machine: Idempotent,
    now: u64,
    logs: BTreeMap<TopicPartition, Log>,
    flying: Vec<(Produce, Vec<Identity>)>,
    /// Copies that nobody waits for any more, and that may still arrive.
    late: Vec<Copied>,
    records: HashMap<BatchId, i32>,
    /// The order of the caller: the batch that it was split off, and which part.
    order: HashMap<BatchId, Vec<u64>>,
    fates: HashMap<BatchId, Result<(), CauseKind>>,
    next: u64,
    granted: i64,
    first_epoch: i16,
    has_late: bool,
    flushed: usize,
    replaced: usize,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed);
        let limits = Limits {
            in_flight: 1 + usize::try_from(dice.roll(5)).expect("small"),
            first_batch: FirstBatch::Pipelined,
            request_bytes: 1 << 20,
            retry: Duration::from_millis(100),
            retry_max: Duration::from_secs(1),
        };
        // A producer id that is replaced does not fence what is late under the old one.
        let has_late = dice.roll(2) == 0;
        let first_epoch = if has_late { 0 } else { i16::MAX - 2 };
        Self {
            dice,
            machine: Idempotent::new(limits, seed),
            now: 0,
            logs: (0..2).map(|n| (TopicPartition::new("t", n), Log::default())).collect(),
            flying: Vec::new(),
            late: Vec::new(),
            records: HashMap::new(),
            order: HashMap::new(),
            fates: HashMap::new(),
            next: 0,
            granted: 0,
            first_epoch,
            has_late,
            flushed: 0,
            replaced: 0,
        }
    }

    fn tell(&mut self, input: Input) {
        self.machine.handle(Moment(self.now), input);
        self.act();
    }

    fn act(&mut self) {
        while let Some(effect) = self.machine.poll_effect() {
            let answer = match effect {
                Effect::Initialize => {
                    self.granted += 1;
                    let granted = Identity::new(self.granted, self.first_epoch);
                    let retry = self.dice.roll(3) == 0;
                    Input::Initialized(if retry { InitFact::Retry } else { InitFact::Granted(granted) })
                }
                Effect::FindLeaders(partitions) => {
                    let node = (self.dice.roll(4) > 0).then_some(NodeId(1));
                    Input::Leaders(partitions.into_iter().map(|p| (p, node)).collect::<Vec<_>>().into())
                }
                Effect::Split(batch) => {
                    let parts = self.split(batch);
                    Input::Split { batch, parts }
                }
                Effect::Produce { produce, identities } => {
                    self.flying.push((produce, identities));
                    continue;
                }
                Effect::Stored { batch, .. } => {
                    assert_eq!(self.fates.insert(batch, Ok(())), None, "told twice");
                    continue;
                }
                Effect::Failed { batch, cause } => {
                    assert_eq!(self.fates.insert(batch, Err(cause.kind)), None, "told twice");
                    continue;
                }
                Effect::Flushed => {
                    self.flushed += 1;
                    continue;
                }
                Effect::Restarted { .. } => continue,
            };
            self.machine.handle(Moment(self.now), answer);
        }
    }

    fn batch(&mut self, records: i32, order: Vec<u64>, deadline: Moment) -> Batch {
        let id = BatchId(self.next);
        self.next += 1;
        self.records.insert(id, records);
        self.order.insert(id, order);
        Batch { id, topic: OLD, records, bytes: 100, deadline }
    }

    fn split(&mut self, whole: BatchId) -> Vec<Batch> {
        let (records, order) = (self.records[&whole], self.order[&whole].clone());
        let half = records / 2;
        let deadline = Moment(self.now + 20_000_000);
        let part = |n| order.iter().copied().chain([n]).collect::<Vec<u64>>();
        // A batch that was split is told in its parts.
        self.order.remove(&whole);
        vec![self.batch(half, part(0), deadline), self.batch(records - half, part(1), deadline)]
    }

    fn push(&mut self) {
        let partition = TopicPartition::new("t", i32::from(self.dice.roll(3) == 0));
        let records = i32::try_from(1 + self.dice.roll(4)).expect("small");
        let order = vec![self.next];
        let deadline = Moment(self.now + 20_000_000);
        let batch = self.batch(records, order, deadline);
        self.tell(Input::Batch { partition, batch, leader: Some(NodeId(1)) });
    }

    /// A request arrives, or does not.
    fn serve(&mut self, faults: bool) {
        if self.flying.is_empty() {
            return;
        }
        let count = u64::try_from(self.flying.len()).expect("small");
        // Mostly in order; through a leader that moved, in any.
        let at = if faults && self.dice.roll(8) == 0 { self.dice.roll(count) } else { 0 };
        let (produce, identities) = self.flying.remove(usize::try_from(at).expect("small"));
        let copy = |(item, identity): (&crate::proto::outbox::Item, &Identity)| Copied {
            partition: item.partition.clone(),
            batch: item.batch,
            identity: *identity,
            sequence: item.sequence,
            records: self.records[&item.batch],
        };
        let copies: Vec<_> = produce.items.iter().zip(&identities).map(copy).collect();
        let lost = faults && self.dice.roll(6) == 0;
        let mut facts = Vec::new();
        for copy in copies {
            let fact = if faults { self.faulty(&copy, lost) } else { self.append(&copy) };
            facts.push((copy.partition, copy.batch, fact));
        }
        if lost {
            self.tell(Input::ProduceLost(produce.request));
        } else {
            self.tell(Input::Produced { request: produce.request, facts });
        }
    }

    fn append(&mut self, copy: &Copied) -> ProduceFact {
        self.logs.get_mut(&copy.partition).expect("it is one of two").append(copy)
    }

    fn faulty(&mut self, copy: &Copied, lost: bool) -> ProduceFact {
        let refused = Cause::new(CauseKind::Refused, "refused");
        match self.dice.roll(if lost { 3 } else { 24 }) {
            0 if lost => {
                if self.has_late {
                    self.late.push(copy.clone());
                }
                ProduceFact::Plain(BatchFact::RetryAfterMetadata)
            }
            0 => {
                self.append(copy);
                ProduceFact::Plain(BatchFact::MaybeStored)
            }
            1 => {
                self.append(copy);
                ProduceFact::Plain(BatchFact::RetryAfterMetadata)
            }
            2 => {
                self.append(copy);
                ProduceFact::Unclear(refused)
            }
            3 => ProduceFact::Plain(BatchFact::Retry),
            4 => ProduceFact::Plain(BatchFact::RetryAt(NodeId(1))),
            5 => ProduceFact::Plain(BatchFact::NotSent),
            6 => ProduceFact::Plain(BatchFact::Refused(refused)),
            7 => ProduceFact::TooLarge(refused),
            8 => {
                // Somebody has raised the epoch: nothing is taken under this producer id any more.
                let log = self.logs.get_mut(&copy.partition).expect("it is one of two");
                let fenced = Producer { epoch: i16::MAX, ..Producer::default() };
                if copy.identity.epoch.0 < i16::MAX {
                    log.producers.insert(copy.identity.producer_id.0, fenced);
                }
                self.append(copy)
            }
            _ => self.append(copy),
        }
    }

    fn step(&mut self) {
        match self.dice.roll(10) {
            0..4 => self.push(),
            4..7 => self.serve(true),
            7 => {
                let most = if self.dice.roll(10) == 0 { 20_000_000 } else { 500_000 };
                self.now += self.dice.roll(most);
                self.tell(Input::Tick);
            }
            8 => self.tell(Input::Flush),
            _ if self.dice.roll(8) == 0 => self.replace_topic(),
            _ => self.arrive_late(),
        }
    }

    /// What was late goes by the old topic's id.
    fn replace_topic(&mut self) {
        let at = TopicPartition::new("t", i32::from(self.dice.roll(3) == 0));
        self.late.retain(|copy| copy.partition != at);
        self.logs.get_mut(&at).expect("it is one of two").begin_anew();
        self.replaced += 1;
    }

    fn arrive_late(&mut self) {
        if !self.late.is_empty() {
            let count = u64::try_from(self.late.len()).expect("small");
            let at = usize::try_from(self.dice.roll(count)).expect("small");
            let copy = self.late.remove(at);
            self.append(&copy);
        }
    }

    /// Everything works again: all fates become known.
    fn settle(&mut self) {
        for _ in 0..2_000 {
            while !self.flying.is_empty() {
                self.serve(false);
            }
            if self.machine.is_idle() {
                break;
            }
            let due = self.machine.next_deadline(Moment(self.now)).expect("something is waited for");
            self.now = self.now.max(due.0);
            self.tell(Input::Tick);
        }
        assert!(self.machine.is_idle(), "nothing moves any more");
        while !self.late.is_empty() {
            self.arrive_late();
        }
    }

    fn check(&self) {
        let logged: Vec<BatchId> = self.logs.values().flat_map(|log| log.batches.clone()).collect();
        let deleted = |batch| self.logs.values().any(|log| log.deleted.contains(batch));
        for batch in self.order.keys() {
            let times = logged.iter().filter(|b| *b == batch).count();
            match self.fates.get(batch).expect("its fate was told") {
                Ok(()) if deleted(batch) => assert!(times <= 1, "{batch:?} is doubled"),
                Ok(()) => assert_eq!(times, 1, "{batch:?} is told to be stored"),
                Err(CauseKind::OutcomeUnknown) => assert!(times <= 1, "{batch:?} is doubled"),
                Err(kind) => assert_eq!(times, 0, "{batch:?} is told not to be stored: {kind:?}"),
            }
        }
        for log in self.logs.values() {
            // What a log that was created anew took first, and did not say, may lie before what was sent earlier.
            let told = |batch: &&BatchId| self.replaced == 0 || self.fates.get(*batch) == Some(&Ok(()));
            let order: Vec<_> = log
                .batches
                .iter()
                .filter(told)
                .map(|b| self.order.get(b).expect("no whole was stored"))
                .collect();
            assert!(order.is_sorted(), "out of order: {order:?}");
        }
    }
}

fn run(seed: u64) -> World {
    let mut world = World::new(seed);
    world.act();
    for _ in 0..400 {
        world.step();
    }
    world.settle();
    world.check();
    world
}

#[test]
fn nothing_is_doubled_lost_or_out_of_order_whatever_brokers_do() {
    let (mut stored, mut unknown, mut failed, mut flushed, mut replaced) = (0, 0, 0, 0, 0);
    for seed in 0..600 {
        let world = run(seed);
        stored += world.fates.values().filter(|f| f.is_ok()).count();
        unknown += world.fates.values().filter(|f| **f == Err(CauseKind::OutcomeUnknown)).count();
        failed += world.fates.values().filter(|f| f.is_err()).count();
        flushed += world.flushed;
        replaced += world.replaced;
    }
    // The faults do happen, and most batches survive them.
    assert!(stored > 30_000 && unknown > 1_000 && failed > unknown + 1_000 && flushed > 1_000);
    assert!(replaced > 1_000, "{replaced}");
}

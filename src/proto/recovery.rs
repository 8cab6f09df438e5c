//! What a writer does after a restart, before its first record. The order is the point of it.
//!
//! ```text
//! Commit     what the restored checkpoint lists, by EndTxn alone: an InitProducerId on such an id would abort it
//! List       the ids of our prefixes, from every broker
//! Look       for open transactions on the sink's partitions
//! Describe   every id that is not simply done
//! Fence      the leftovers: open, ours, and named by no committable
//! Settle     what was fenced: a lost abort marker would let the next commit publish the aborted records
//! ```
//! An id whose producer id holds a partition open while its coordinator says that it is done hangs (KAFKA-20734). It
//! is neither fenced nor used: either would decide those records, and perhaps the wrong way.
//!
//! Other brokers write such a marker when the partition has a leader again, and grant no InitProducerId before. So a fence
//! that is late is no reason to give up: where the coordinator shows that the end is decided, nobody can commit the
//! leftover any more. Its id is avoided, and the writer begins.

mod fencing;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{
    committable::Committable,
    naming::{IdParts, IdPrefix},
    pool::WriterState,
    repair::decision_in_view,
    resume::{CoordinatorState, Decision, Described, TransactionView},
    settle::{
        CommittedButHanging, DecidedBy, HangingPartition, OpenTransaction, SettleError, SettleTarget, Settled,
    },
};
use crate::ids::{Identity, Moment, ProducerId, TopicId, TopicPartition, TransactionalId};

/// What is known of a listed committable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitStatus {
    /// To be committed.
    Pending,
    /// Decided, and not known to be settled: it is not committed again, but its id is not used either.
    Decided(Decision),
}

/// What a restart begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// The committables of the restored checkpoint that are this writer's.
    pub committables: Vec<(Committable, CommitStatus)>,
    /// The writer's state, with the ownership of this run.
    pub writer: WriterState,
    /// The prefix of this run.
    pub prefix: IdPrefix,
    /// The finalized level of `transaction.version`.
    pub level: i16,
}

/// A line of a ListTransactions answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedTransaction {
    /// The id.
    pub transactional_id: TransactionalId,
    /// Its producer id.
    pub producer_id: ProducerId,
    /// Its state.
    pub state: CoordinatorState,
}

/// An open transaction on a partition, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenProducer {
    /// The partition.
    pub partition: TopicPartition,
    /// The topic's id.
    pub topic_id: TopicId,
    /// The producer id.
    pub producer_id: ProducerId,
    /// What is open.
    pub open: OpenTransaction,
}

/// What became of a committable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitAnswer {
    /// It is committed.
    Committed,
    /// It is lost or undecidable, and the job's policy is to go on.
    GivenUp,
    /// No final answer, or one that the policy does not accept.
    Failed,
}

/// What became of a fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FenceAnswer {
    /// A bare InitProducerId was granted.
    Fenced,
    /// It was not granted in time, and may be later.
    Late,
    /// It was refused.
    Failed,
}

/// A fact. Lists are in the order of what was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecoveryInput {
    /// Every committable was tried.
    Committed(Vec<CommitAnswer>),
    /// Every broker was asked.
    Listed {
        /// What they list; ids that we may not describe are silently left out.
        transactions: Vec<ListedTransaction>,
        /// Brokers that did not answer.
        silent_brokers: usize,
    },
    /// The sink's partitions were looked at; `None` when that is not permitted or not possible.
    Open(Option<Vec<OpenProducer>>),
    /// The ids were described.
    Described(Vec<Described>),
    /// The leftovers were fenced.
    Fenced(Vec<FenceAnswer>),
    /// The fenced transactions were looked at.
    Settled(Vec<Result<Settled, SettleError>>),
}

/// An intent; one is under way at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecoveryEffect {
    /// Commit these with [`Resume`](super::resume::Resume), each on its own.
    Commit(Vec<Committable>),
    /// List the transactions that match any of these RE2 patterns, from every broker.
    List {
        /// One pattern per prefix.
        patterns: Vec<String>,
    },
    /// Look for open transactions on every partition of the sink's topics.
    LookForOpen,
    /// Describe these ids.
    Describe(Vec<TransactionalId>),
    /// Fence these by a bare InitProducerId.
    Fence(Vec<TransactionalId>),
    /// See with [`Settle`](super::settle::Settle) whether these aborts have reached every partition.
    Settle(Vec<SettleTarget>),
}

/// The writer may begin.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recovered {
    /// Leftovers that were aborted; their ids are free unless `avoid` names them.
    pub aborted: Vec<TransactionalId>,
    /// Leftovers whose end is decided, and whose markers wait for a leader of their partition; `avoid` names them, too.
    pub pending: Vec<TransactionalId>,
    /// Transactions that hang: retired, and candidates for a repair where it is told how the decision came about.
    pub retired: Vec<CommittedButHanging>,
    /// Ids that must not be used in this run: they could not be looked at, their end is not carried out, or a
    /// committable holds them.
    pub avoid: BTreeSet<TransactionalId>,
    /// What recovery could not see.
    pub blind: Vec<Blindness>,
}

/// Something that recovery could not see. A leftover there ends by its timeout, and holds readers up until then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Blindness {
    /// This many brokers did not list their transactions.
    SilentBrokers(usize),
    /// Open transactions on the partitions cannot be told; ids that were used before are not used again.
    OpenTransactions,
    /// This id cannot be described.
    Id(TransactionalId),
}

/// Why the writer must not begin. All of it can be tried again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecoveryError {
    /// Transactions of the restored checkpoint are not committed.
    #[error("{} transactions of the restored checkpoint are not committed", .0.len())]
    NotCommitted(Vec<TransactionalId>),
    /// Leftovers could not be fenced: somebody may still write in them.
    #[error("{} leftover transactions could not be fenced", .0.len())]
    NotFenced(Vec<TransactionalId>),
}

/// A fact that was not asked for, or of another length than what was asked; the state is as before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this fact was not asked for")]
pub struct Misuse;

type Leftover = (TransactionalId, TransactionView);

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Committing(Vec<TransactionalId>),
    Listing,
    Looking,
    Describing(Vec<TransactionalId>),
    /// Ids that are done and held partitions open, and leftovers for later.
    Confirming {
        done: Vec<Leftover>,
        leftovers: Vec<Leftover>,
    },
    Fencing(Vec<Leftover>),
    /// Their fence was late; they are described again.
    Late(Vec<Leftover>),
    Settling(Vec<TransactionalId>),
    Done(Result<Recovered, RecoveryError>),
}

/// The machine of one writer's restart.
#[derive(Debug)]
pub struct Recovery {
    restored: Restored,
    state: State,
    /// The ids that are ours, with what the listing says of them.
    ours: BTreeMap<TransactionalId, Option<CoordinatorState>>,
    producer_ids: BTreeMap<TransactionalId, ProducerId>,
    open: Vec<OpenProducer>,
    /// How often leftovers were fenced, and those that are to be settled.
    fences: u32,
    ended: Vec<Leftover>,
    recovered: Recovered,
    effects: VecDeque<RecoveryEffect>,
}

impl Recovery {
    /// Begins.
    #[must_use]
    pub fn new(restored: Restored) -> Self {
        let pending = restored.committables.iter().filter(|(_, status)| *status == CommitStatus::Pending);
        let pending: Vec<Committable> = pending.map(|(committable, _)| committable.clone()).collect();
        let ids = pending.iter().map(|c| c.transactional_id.clone()).collect();
        let retired = restored.writer.retired.clone();
        let mut recovery = Self {
            restored,
            state: State::Committing(ids),
            ours: BTreeMap::new(),
            producer_ids: BTreeMap::new(),
            open: Vec::new(),
            fences: 0,
            ended: Vec::new(),
            recovered: Recovered { retired, ..Recovered::default() },
            effects: VecDeque::new(),
        };
        if pending.is_empty() {
            recovery.list();
        } else {
            recovery.effects.push_back(RecoveryEffect::Commit(pending));
        }
        recovery
    }

    /// Takes a fact.
    ///
    /// # Errors
    /// [`Misuse`] when the fact answers nothing that is under way.
    pub fn handle(&mut self, _now: Moment, input: RecoveryInput) -> Result<(), Misuse> {
        match (&self.state, input) {
            (State::Committing(ids), RecoveryInput::Committed(answers)) if ids.len() == answers.len() => {
                let failed = |(id, answer): (&TransactionalId, CommitAnswer)| {
                    (answer == CommitAnswer::Failed).then(|| id.clone())
                };
                let failed: Vec<_> = ids.iter().zip(answers).filter_map(failed).collect();
                if failed.is_empty() {
                    self.list();
                } else {
                    self.state = State::Done(Err(RecoveryError::NotCommitted(failed)));
                }
            }
            (State::Listing, RecoveryInput::Listed { transactions, silent_brokers }) => {
                self.listed(transactions, silent_brokers);
            }
            (State::Looking, RecoveryInput::Open(open)) => self.looked(open),
            (State::Confirming { done, leftovers }, RecoveryInput::Open(open)) => {
                let (done, leftovers) = (done.clone(), leftovers.clone());
                self.confirmed(&done, open);
                self.fence(leftovers);
            }
            (State::Describing(ids), RecoveryInput::Described(all)) if ids.len() == all.len() => {
                let described = ids.clone().into_iter().zip(all).collect();
                self.described(described);
            }
            (State::Fencing(leftovers), RecoveryInput::Fenced(answers))
                if leftovers.len() == answers.len() =>
            {
                let leftovers = leftovers.clone();
                self.fenced(leftovers, &answers);
            }
            (State::Late(leftovers), RecoveryInput::Described(all)) if leftovers.len() == all.len() => {
                let described = leftovers.clone().into_iter().zip(all).collect();
                self.late(described);
            }
            (State::Settling(ids), RecoveryInput::Settled(results)) if ids.len() == results.len() => {
                let results = ids.clone().into_iter().zip(results).collect();
                self.settled(results);
            }
            _ => return Err(Misuse),
        }
        Ok(())
    }

    /// The next intent.
    pub fn poll_effect(&mut self) -> Option<RecoveryEffect> {
        self.effects.pop_front()
    }

    /// The machine waits for nothing but answers.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Moment> {
        None
    }

    /// The answer, once there is one.
    #[must_use]
    pub fn result(&self) -> Option<&Result<Recovered, RecoveryError>> {
        if let State::Done(result) = &self.state { Some(result) } else { None }
    }

    fn list(&mut self) {
        let patterns = self.prefixes().map(IdPrefix::pattern).collect::<BTreeSet<_>>().into_iter().collect();
        self.effects.push_back(RecoveryEffect::List { patterns });
        self.state = State::Listing;
    }

    fn prefixes(&self) -> impl Iterator<Item = &IdPrefix> {
        let writer = &self.restored.writer;
        [&self.restored.prefix, &writer.prefix].into_iter().chain(&writer.former_prefixes)
    }

    fn is_ours(&self, id: &TransactionalId) -> bool {
        let owned = |parts: IdParts| self.restored.writer.ownership.owns(parts.subtask);
        let retired = self.restored.writer.retired.iter().any(|r| r.transactional_id == *id);
        !retired && self.prefixes().any(|prefix| prefix.parse(id.as_str()).is_some_and(owned))
    }

    fn listed(&mut self, transactions: Vec<ListedTransaction>, silent_brokers: usize) {
        for listed in transactions {
            if self.is_ours(&listed.transactional_id) {
                self.producer_ids.insert(listed.transactional_id.clone(), listed.producer_id);
                self.ours.insert(listed.transactional_id, Some(listed.state));
            }
        }
        // What was written when the checkpoint was taken is a leftover even where a listing hides it.
        for id in self.restored.writer.active.clone() {
            if self.is_ours(&id) {
                self.ours.entry(id).or_insert(None);
            }
        }
        if silent_brokers > 0 {
            self.recovered.blind.push(Blindness::SilentBrokers(silent_brokers));
        }
        self.effects.push_back(RecoveryEffect::LookForOpen);
        self.state = State::Looking;
    }

    fn looked(&mut self, open: Option<Vec<OpenProducer>>) {
        let seen = open.is_some();
        self.open = open.unwrap_or_default();
        if !seen {
            self.recovered.blind.push(Blindness::OpenTransactions);
            self.recovered.avoid.extend(self.ours.keys().cloned());
        }
        let simply_done = |id: &TransactionalId, state: Option<CoordinatorState>| match state {
            Some(
                CoordinatorState::Empty | CoordinatorState::CompleteCommit | CoordinatorState::CompleteAbort,
            ) => self.open_of(self.producer_ids.get(id).copied()).next().is_none(),
            Some(
                CoordinatorState::Ongoing
                | CoordinatorState::PrepareCommit
                | CoordinatorState::PrepareAbort
                | CoordinatorState::PrepareEpochFence
                | CoordinatorState::Dead
                | CoordinatorState::Unknown,
            )
            | None => false,
        };
        let ids = self.ours.iter().filter(|(id, state)| !simply_done(id, **state));
        let ids: Vec<TransactionalId> = ids.map(|(id, _)| id.clone()).collect();
        if ids.is_empty() {
            return self.done();
        }
        self.effects.push_back(RecoveryEffect::Describe(ids.clone()));
        self.state = State::Describing(ids);
    }

    fn open_of(&self, producer_id: Option<ProducerId>) -> impl Iterator<Item = &OpenProducer> {
        self.open.iter().filter(move |open| Some(open.producer_id) == producer_id)
    }

    fn described(&mut self, described: Vec<(TransactionalId, Described)>) {
        let mut leftovers = Vec::new();
        let mut done = Vec::new();
        for (id, described) in described {
            match described {
                Described::Transaction(view) => match view.state {
                    CoordinatorState::Empty
                    | CoordinatorState::CompleteCommit
                    | CoordinatorState::CompleteAbort => {
                        if self.open_of(Some(view.identity.producer_id)).next().is_some() {
                            done.push((id, view));
                        }
                    }
                    // A committable of ours that its coordinator still shows as open was given up, or its decision
                    // is on the way: it is not ours to abort.
                    CoordinatorState::Ongoing if self.names(&id, view.identity) => {
                        self.recovered.avoid.insert(id);
                    }
                    // Its commit was answered and its markers are on their way. A fence would not harm it, but the pair
                    // that the id goes on with.
                    CoordinatorState::PrepareCommit if self.commits(&id, view.identity) => {}
                    // An InitProducerId does not disturb an ending that is under way; it waits for it.
                    CoordinatorState::Ongoing
                    | CoordinatorState::PrepareCommit
                    | CoordinatorState::PrepareAbort
                    | CoordinatorState::PrepareEpochFence
                    | CoordinatorState::Dead
                    | CoordinatorState::Unknown => leftovers.push((id, view)),
                },
                Described::NotFound => {}
                Described::Relookup | Described::Retry | Described::Blind => {
                    self.recovered.avoid.insert(id.clone());
                    self.recovered.blind.push(Blindness::Id(id));
                }
            }
        }
        if done.is_empty() {
            return self.fence(leftovers);
        }
        // Markers are written before the coordinator is done. What was open before it said so may be closed by now:
        // only what is open after it hangs.
        self.effects.push_back(RecoveryEffect::LookForOpen);
        self.state = State::Confirming { done, leftovers };
    }

    fn confirmed(&mut self, done: &[Leftover], open: Option<Vec<OpenProducer>>) {
        match open {
            Some(open) => {
                self.open = open;
                done.iter().for_each(|(id, view)| self.perhaps_hanging(id.clone(), view));
            }
            None => self.recovered.avoid.extend(done.iter().map(|(id, _)| id.clone())),
        }
    }

    fn names(&self, id: &TransactionalId, identity: Identity) -> bool {
        let same = |c: &Committable| c.transactional_id == *id && c.identity == identity;
        self.restored.committables.iter().any(|(committable, _)| same(committable))
    }

    /// True when what the coordinator is committing is a restored committable: under its own epoch, or the next one on
    /// version 2.
    fn commits(&self, id: &TransactionalId, ending: Identity) -> bool {
        let same = |c: &Committable| {
            let ahead = i32::from(ending.epoch.0) - i32::from(c.identity.epoch.0);
            c.transactional_id == *id
                && c.identity.producer_id == ending.producer_id
                && (0..=1).contains(&ahead)
        };
        self.restored.committables.iter().any(|(committable, _)| same(committable))
    }

    /// The coordinator says that the id is done. If its producer id holds a partition open, a marker was lost.
    fn perhaps_hanging(&mut self, id: TransactionalId, view: &TransactionView) {
        let open: Vec<OpenProducer> = self.open_of(Some(view.identity.producer_id)).cloned().collect();
        let Some(first) = open.first() else { return };
        // All partitions must hang of the same epoch, or the decision is not one.
        let epoch = first.open.producer_epoch;
        let identity = Identity { producer_id: first.producer_id, epoch };
        let uniform = open.iter().all(|o| o.open.producer_epoch == epoch);
        let shown = decision_in_view(view, identity, self.restored.level);
        let proof = shown.or_else(|| self.leftover_decision(&id, identity, view)).filter(|_| uniform);
        // Without a proof it is retired all the same, and told; only a repair is refused.
        let (decision, by) = proof.map_or((Decision::Abort, None), |(decision, by)| (decision, Some(by)));
        let partitions = open.into_iter().map(hanging_partition).collect();
        let hanging = CommittedButHanging { transactional_id: id, identity, decision, by, partitions };
        self.recovered.retired.push(hanging);
    }

    /// The coordinator has forgotten what was decided, for somebody took the id over since. A commit of this job would be
    /// known: it is listed before it is sent, and dropped only when it is settled. So this is a leftover, whose records
    /// are written again under another id and must never be seen, whatever was decided.
    fn leftover_decision(
        &self,
        id: &TransactionalId,
        identity: Identity,
        view: &TransactionView,
    ) -> Option<(Decision, DecidedBy)> {
        let forgotten = view.state == CoordinatorState::Empty && view.identity.epoch > identity.epoch;
        let leftover = forgotten && !self.names(id, identity);
        leftover.then(|| (Decision::Abort, DecidedBy::fence(self.restored.level)))
    }

    fn done(&mut self) {
        self.state = State::Done(Ok(std::mem::take(&mut self.recovered)));
    }
}

fn hanging_partition(open: OpenProducer) -> HangingPartition {
    HangingPartition { partition: open.partition, topic_id: open.topic_id, offset: None, open: open.open }
}

#[cfg(test)]
#[path = "recovery_tests.rs"]
mod tests;

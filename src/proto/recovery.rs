//! What a writer does after a restart, before its first record. The order is the point of it.
//!
//! ```text
//! Commit     what the restored checkpoint lists, by EndTxn alone: an InitProducerId on such an id would abort it
//! List       the ids of our prefixes, from every broker; ids that may be in use one by one where a broker is silent
//! Look       for open transactions on the sink's partitions, at the same time
//! Describe   every id that is not simply done, or whose last commit the checkpoint may not know
//!            (committed, and not known: the checkpoint is not the newest; nothing is fenced)
//! Fence      the leftovers: open, ours, and named by no committable
//! Settle     what was fenced: a lost abort marker would let the next commit publish the aborted records
//! ```
//! An id whose producer id holds a partition open while its coordinator says that it is done hangs (KAFKA-20734). It
//! is neither fenced nor used: either would decide those records, and perhaps the wrong way.
//!
//! Other brokers write such a marker when the partition has a leader again, and grant no InitProducerId before. So a fence
//! that is late is no reason to give up: where the coordinator shows that the end is decided, nobody can commit the
//! leftover any more. Its id is avoided, and the writer begins.

mod facts;
mod fencing;
mod orphans;
mod probe;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use self::probe::Probe;

use super::{
    committable::Committable,
    naming::IdPrefix,
    pool::WriterState,
    repair::decision_in_view,
    resume::{CoordinatorState, Decision, Described, TransactionView},
    settle::{CommittedButHanging, DecidedBy, HangingPartition},
};
use crate::ids::{Identity, Moment, ProducerId, TransactionalId};

pub use facts::{
    Blindness, CommitAnswer, CommitStatus, FenceAnswer, ListedTransaction, Misuse, OnLost, OpenProducer,
    Orphan, OrphanProof, Orphans, Recovered, RecoveryEffect, RecoveryError, RecoveryInput, Restored,
};

type Leftover = (TransactionalId, TransactionView);

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Committing(Vec<TransactionalId>),
    Listing,
    Probing(Probe, Vec<TransactionalId>),
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

/// The machine of a restart: of one writer, or of all writers of a sink together.
#[derive(Debug)]
pub struct Recovery {
    restored: Restored,
    state: State,
    /// The ids that are ours, with what the listing says of them.
    ours: BTreeMap<TransactionalId, Option<CoordinatorState>>,
    producer_ids: BTreeMap<TransactionalId, ProducerId>,
    /// What a look has shown that came before the ids were known.
    early: Option<Option<Vec<OpenProducer>>>,
    open: Vec<OpenProducer>,
    recovered: Recovered,
    /// How often leftovers were fenced, and those that are to be settled.
    fences: u32,
    ended: Vec<Leftover>,
    effects: VecDeque<RecoveryEffect>,
}

impl Recovery {
    /// Begins.
    #[must_use]
    pub fn new(restored: Restored) -> Self {
        let pending = restored.committables.iter().filter(|(_, status)| *status == CommitStatus::Pending);
        let pending: Vec<Committable> = pending.map(|(committable, _)| committable.clone()).collect();
        let ids = pending.iter().map(|c| c.transactional_id.clone()).collect();
        let retired = restored.writers.iter().flat_map(|writer| writer.retired.clone()).collect();
        let mut recovery = Self {
            restored,
            state: State::Committing(ids),
            ours: BTreeMap::new(),
            producer_ids: BTreeMap::new(),
            early: None,
            open: Vec::new(),
            recovered: Recovered { retired, ..Recovered::default() },
            fences: 0,
            ended: Vec::new(),
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
            (State::Listing, RecoveryInput::Listed { transactions, silent_brokers, hidden }) => {
                self.recovered.blind.extend(hidden.into_iter().map(Blindness::Hidden));
                self.listed(transactions, silent_brokers);
            }
            (State::Probing(probe, ids), RecoveryInput::Described(all)) if ids.len() == all.len() => {
                let (probe, ids) = (probe.clone(), ids.clone());
                self.probed(probe, ids.into_iter().zip(all).collect());
            }
            (State::Listing | State::Probing(..), RecoveryInput::Open(open)) if self.early.is_none() => {
                self.early = Some(open);
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
        // Neither hides anything from the other: what is open and turns out to be done is looked at once more, and what is
        // not done is described.
        self.effects.push_back(RecoveryEffect::LookForOpen);
        self.state = State::Listing;
    }

    fn prefixes(&self) -> impl Iterator<Item = &IdPrefix> {
        self.restored.writers.iter().flat_map(WriterState::prefixes)
    }

    fn is_ours(&self, id: &TransactionalId) -> bool {
        let retired = |writer: &WriterState| writer.retired.iter().any(|r| r.transactional_id == *id);
        let writers = &self.restored.writers;
        !writers.iter().any(retired) && writers.iter().any(|writer| writer.owns(id))
    }

    fn listed(&mut self, transactions: Vec<ListedTransaction>, silent_brokers: usize) {
        for listed in transactions {
            if self.is_ours(&listed.transactional_id) {
                self.producer_ids.insert(listed.transactional_id.clone(), listed.producer_id);
                self.ours.insert(listed.transactional_id, Some(listed.state));
            }
        }
        // What was written when the checkpoint was taken is a leftover even where a listing hides it.
        let active = self.restored.writers.iter().flat_map(|writer| &writer.active);
        let active: Vec<_> = active.filter(|id| self.is_ours(id)).cloned().collect();
        for id in active {
            self.ours.entry(id).or_insert(None);
        }
        if silent_brokers == 0 {
            return self.look();
        }
        self.recovered.blind.push(Blindness::SilentBrokers(silent_brokers));
        self.probe(Probe::new(&self.restored.writers, self.restored.checkpoint));
    }

    fn probe(&mut self, probe: Probe) {
        let ids = probe.ids();
        if ids.is_empty() {
            return self.look();
        }
        self.effects.push_back(RecoveryEffect::Describe(ids.clone()));
        self.state = State::Probing(probe, ids);
    }

    fn probed(&mut self, probe: Probe, described: Vec<(TransactionalId, Described)>) {
        let mut known = Vec::with_capacity(described.len());
        for (id, described) in described {
            let Described::Transaction(view) = described else {
                // What can't be described now is none the wiser later.
                known.push(false);
                continue;
            };
            known.push(true);
            if self.is_ours(&id) {
                self.producer_ids.insert(id.clone(), view.identity.producer_id);
                self.ours.insert(id, Some(view.state));
            }
        }
        self.probe(probe.after(&known));
    }

    /// The ids are known; what is open perhaps not yet.
    fn look(&mut self) {
        match self.early.take() {
            Some(open) => self.looked(open),
            None => self.state = State::Looking,
        }
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
        let ids = self.ours.iter();
        let ids = ids.filter(|(id, state)| !simply_done(id, **state) || self.needs_explanation(id, **state));
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
            if let Described::Transaction(view) = &described {
                self.perhaps_orphan(&id, view);
            }
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
        if self.restored.orphans == Orphans::Refuse && !self.recovered.orphans.is_empty() {
            let (checkpoint, orphans) =
                (self.restored.checkpoint, std::mem::take(&mut self.recovered.orphans));
            self.state = State::Done(Err(RecoveryError::Orphans { checkpoint, orphans }));
            return;
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

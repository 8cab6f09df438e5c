//! Whether a decision has reached every partition.
//!
//! A coordinator answers, and even completes, before a marker is on every partition; Kafka 4.3 and 4.4 never write
//! the marker of a partition that had no leader at that moment (KAFKA-20734). Readers then stall there, and the next
//! end of the same producer id decides those records, whichever way. So an id is used again only when it is settled.
//!
//! ```text
//!   Topics ──► Producers ──nothing open at or below the stored offsets──► Settled
//!                 ▲  │ still open, after the first milliseconds
//!                 │  ▼
//!               Wait ◄──preparing── Coordinator ──complete, empty, another, or none──► Producers once more
//!                                                                                        │ still open
//!                                                                                        ▼
//!                                                                                     Hanging
//! ```
//! A marker is nearly always there within milliseconds of the answer. So at first only the producers are looked at again;
//! then the topics and the coordinator are asked as well.

use std::{collections::VecDeque, time::Duration};

use super::{
    backoff::Backoff,
    committable::Committable,
    offsets::OFFSETS_TOPIC,
    resume::{CoordinatorState, Decision, Described, Outcome, PartitionMeta},
};
use crate::ids::{Identity, Moment, ProducerEpoch, TopicId, TopicPartition, TransactionalId};

/// Markers are usually written within milliseconds of the answer, and an id waits for this.
const FIRST_WAIT: Duration = Duration::from_millis(3);

/// So many waits belong to the first milliseconds.
const EARLY: u32 = 3;

/// How long to wait for the markers by default.
pub const SETTLE_PATIENCE: Duration = Duration::from_secs(30);

/// What is to be settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettleTarget {
    /// The id.
    pub transactional_id: TransactionalId,
    /// The transaction's own producer id and epoch.
    pub identity: Identity,
    /// What was decided.
    pub decision: Decision,
    /// How, if that is proven; without it nothing can be repaired.
    pub by: Option<DecidedBy>,
    /// Where it has records.
    pub partitions: Vec<SettlePartition>,
}

/// How a decision came about; it tells the epoch of its markers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DecidedBy {
    /// EndTxn of at most version 4: markers carry the transaction's own epoch.
    EndTxnV1,
    /// EndTxn of version 5: markers carry one epoch more.
    EndTxnV2,
    /// A fence by InitProducerId, or the timeout, on a cluster below level 2: one epoch more.
    FenceV1,
    /// The same at level 2.
    FenceV2,
}

impl DecidedBy {
    /// An EndTxn of this version.
    #[must_use]
    pub fn end_txn(version: i16) -> Self {
        if version >= 5 { Self::EndTxnV2 } else { Self::EndTxnV1 }
    }

    /// A fence or a timeout at this finalized level of `transaction.version`.
    #[must_use]
    pub fn fence(level: i16) -> Self {
        if level >= 2 { Self::FenceV2 } else { Self::FenceV1 }
    }
}

/// One partition of a decided transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettlePartition {
    /// The partition.
    pub partition: TopicPartition,
    /// The topic's id when the records were written; zero if it is not known.
    pub topic_id: TopicId,
    /// The offset of one of its records. `None`: any open transaction of the producer id counts, as after a fence.
    pub offset: Option<i64>,
}

impl SettleTarget {
    /// A committable whose decision is known, by an EndTxn of its pinned version.
    #[must_use]
    pub fn of(committable: &Committable, decision: Decision) -> Self {
        let partitions = committable.partitions.iter().map(|p| SettlePartition {
            partition: p.topic_partition(),
            topic_id: p.topic_id,
            offset: (p.offset >= 0).then_some(p.offset),
        });
        Self {
            transactional_id: committable.transactional_id.clone(),
            identity: committable.identity,
            decision,
            by: committable.end_txn_version.map(DecidedBy::end_txn),
            partitions: partitions.collect(),
        }
    }

    /// A decision that was found hanging, to be looked at once more.
    #[must_use]
    pub fn again(hanging: &CommittedButHanging) -> Self {
        let partitions = hanging.partitions.iter().map(|p| SettlePartition {
            partition: p.partition.clone(),
            topic_id: p.topic_id,
            offset: p.offset,
        });
        Self {
            transactional_id: hanging.transactional_id.clone(),
            identity: hanging.identity,
            decision: hanging.decision,
            by: hanging.by,
            partitions: partitions.collect(),
        }
    }

    /// A committable with the final answer of its commit, if that is a decision for every partition. A loss may be
    /// one partition's alone, by an administrator's marker, and decides nothing for the others.
    #[must_use]
    pub fn from_outcome(committable: &Committable, outcome: &Outcome) -> Option<Self> {
        match outcome {
            Outcome::Committed | Outcome::AlreadyCommitted(_) => {
                Some(Self::of(committable, Decision::Commit))
            }
            Outcome::Aborted => Some(Self::of(committable, Decision::Abort)),
            Outcome::Lost { .. } | Outcome::Undecidable(_) => None,
        }
    }
}

/// An open transaction of the producer id on a partition, as DescribeProducers shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OpenTransaction {
    /// Its first offset there.
    pub start_offset: i64,
    /// The newest epoch that the partition has seen of the producer id.
    pub producer_epoch: ProducerEpoch,
    /// The newest coordinator epoch that the partition has seen of it; -1 for none.
    pub coordinator_epoch: i32,
}

/// What DescribeProducers told about one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProducersSeen {
    /// The producer id has no open transaction there.
    NothingOpen,
    /// It has one.
    Open(OpenTransaction),
    /// The partition has no leader now, or does not answer.
    Unavailable,
    /// READ on the topic is missing.
    Denied,
}

/// A fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettleInput {
    /// Metadata was answered: one entry per partition that was asked for, in that order.
    Topics(Vec<PartitionMeta>),
    /// DescribeProducers was answered by every leader: one entry per partition that was asked for, in that order.
    Producers(Vec<ProducersSeen>),
    /// DescribeTransactions was answered.
    Described(Described),
    /// A control record that ends the transaction was read in the log of this partition of the target.
    MarkerSeen(usize),
    /// The clock reached [`Settle::next_deadline`].
    Tick,
}

/// An intent; one is under way at a time. Numbers are places in the target's partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettleEffect {
    /// Tell the topic ids of these partitions.
    CheckTopics(Vec<usize>),
    /// Tell what these partitions' leaders know of the producer id, one request per leader.
    DescribeProducers(Vec<usize>),
    /// Describe the id.
    DescribeTransaction,
}

/// The decision is on every partition that still exists.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settled {
    /// Partitions whose topic was deleted, or created anew: the records are gone, whatever was decided.
    pub gone: Vec<TopicPartition>,
}

/// Why it is not known to be settled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettleError {
    /// A marker was lost. Nothing may abort, fence or reuse this producer id before the partitions are repaired.
    #[error("{0}")]
    Hanging(Box<CommittedButHanging>),
    /// Time is up; markers may be on their way still.
    #[error("{} partitions are not settled yet", partitions.len())]
    Pending {
        /// The partitions that are not settled.
        partitions: Vec<TopicPartition>,
    },
    /// READ on these topics is missing, so it cannot be known.
    #[error("without READ on {} partitions it cannot be known whether they are settled", partitions.len())]
    Denied {
        /// The partitions that cannot be looked at.
        partitions: Vec<TopicPartition>,
    },
}

/// A decided transaction whose marker is missing on some partitions, and will not come by itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{identity} of {transactional_id} is decided, but hangs on {} partitions", partitions.len())]
pub struct CommittedButHanging {
    /// The id.
    pub transactional_id: TransactionalId,
    /// The transaction's own producer id and epoch.
    pub identity: Identity,
    /// What was decided.
    pub decision: Decision,
    /// How, if that is proven; without it nothing can be repaired.
    pub by: Option<DecidedBy>,
    /// Where it hangs.
    pub partitions: Vec<HangingPartition>,
}

/// A partition without its marker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HangingPartition {
    /// The partition.
    pub partition: TopicPartition,
    /// The topic's id when the records were written; zero if it is not known.
    pub topic_id: TopicId,
    /// The offset of one of the transaction's records there, if known.
    pub offset: Option<i64>,
    /// What is open there.
    pub open: OpenTransaction,
}

/// A fact that was not asked for, or of another length than what was asked; the state is as before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this fact was not asked for")]
pub struct Misuse;

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Topics(Vec<usize>),
    Producers(Vec<usize>),
    Coordinator,
    Waiting(Moment),
    Done(Result<Settled, SettleError>),
}

/// What is known of one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Nothing,
    Open(OpenTransaction),
    Denied,
    Settled,
    Gone,
}

/// Whether the coordinator has said that it is done, before the producers were looked at last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coordinator {
    NotAsked,
    Finished,
}

/// The machine for one decided transaction.
#[derive(Debug)]
pub struct Settle {
    target: SettleTarget,
    known: Vec<Known>,
    coordinator: Coordinator,
    state: State,
    backoff: Backoff,
    deadline: Moment,
    effects: VecDeque<SettleEffect>,
}

impl Settle {
    /// Begins; tries for `patience`.
    #[must_use]
    pub fn new(now: Moment, target: SettleTarget, patience: Duration, seed: u64) -> Self {
        let mut settle = Self {
            known: vec![Known::Nothing; target.partitions.len()],
            target,
            coordinator: Coordinator::NotAsked,
            state: State::Coordinator,
            backoff: Backoff::new(FIRST_WAIT, Duration::from_secs(1), seed),
            deadline: now.after(patience),
            effects: VecDeque::new(),
        };
        settle.next_round();
        settle
    }

    /// The same, begun a moment later: where markers take longer than the answer, a look at once would be in vain.
    #[must_use]
    pub fn later(mut self, now: Moment) -> Self {
        if self.result().is_none() {
            self.effects.clear();
            self.wait(now);
        }
        self
    }

    /// Takes a fact.
    ///
    /// # Errors
    /// [`Misuse`] when the fact answers nothing that is under way.
    pub fn handle(&mut self, now: Moment, input: SettleInput) -> Result<(), Misuse> {
        match (&self.state, input) {
            (State::Done(_), _) => return Err(Misuse),
            (_, SettleInput::Tick) => self.tick(now),
            (_, SettleInput::MarkerSeen(partition)) => {
                *self.known.get_mut(partition).ok_or(Misuse)? = Known::Settled;
            }
            (State::Topics(asked), SettleInput::Topics(metas)) if asked.len() == metas.len() => {
                let asked = asked.clone();
                self.topics(now, &asked, &metas);
            }
            (State::Producers(asked), SettleInput::Producers(seen)) if asked.len() == seen.len() => {
                let asked = asked.clone();
                self.producers(now, &asked, &seen);
            }
            (State::Coordinator, SettleInput::Described(described)) => self.described(now, described),
            (State::Topics(_) | State::Producers(_) | State::Coordinator | State::Waiting(_), _) => {
                return Err(Misuse);
            }
        }
        Ok(())
    }

    /// The next intent.
    pub fn poll_effect(&mut self) -> Option<SettleEffect> {
        self.effects.pop_front()
    }

    /// When to send [`SettleInput::Tick`].
    #[must_use]
    pub fn next_deadline(&self) -> Option<Moment> {
        match self.state {
            State::Waiting(until) => Some(until.min(self.deadline)),
            State::Topics(_) | State::Producers(_) | State::Coordinator => Some(self.deadline),
            State::Done(_) => None,
        }
    }

    /// The answer, once there is one.
    #[must_use]
    pub fn result(&self) -> Option<&Result<Settled, SettleError>> {
        match &self.state {
            State::Done(result) => Some(result),
            State::Topics(_) | State::Producers(_) | State::Coordinator | State::Waiting(_) => None,
        }
    }

    /// What is to be settled.
    #[must_use]
    pub fn target(&self) -> &SettleTarget {
        &self.target
    }

    fn tick(&mut self, now: Moment) {
        if now >= self.deadline {
            let partitions = self.named(|k| matches!(k, Known::Nothing | Known::Open(_) | Known::Denied));
            self.state = State::Done(Err(SettleError::Pending { partitions }));
        } else if matches!(self.state, State::Waiting(until) if until <= now) {
            self.next_round();
        }
    }

    /// Asks for topic ids before producers: on a topic created anew nothing of ours is open, and that is no comfort.
    fn next_round(&mut self) {
        let open = self.places(|k| matches!(k, Known::Nothing | Known::Open(_)));
        if open.is_empty() {
            return self.judge_end();
        }
        // Those were told of after the decision, and a moment ago.
        if self.is_early() && !self.known.contains(&Known::Nothing) {
            return self.ask_producers(open);
        }
        self.effects.push_back(SettleEffect::CheckTopics(open.clone()));
        self.state = State::Topics(open);
    }

    fn topics(&mut self, now: Moment, asked: &[usize], metas: &[PartitionMeta]) {
        let mut left = Vec::new();
        for (place, meta) in asked.iter().zip(metas) {
            let stored = self.target.partitions[*place].topic_id;
            match meta {
                PartitionMeta::Missing => self.known[*place] = Known::Gone,
                PartitionMeta::Known { topic_id, .. }
                    if stored.is_known() && topic_id.is_known() && *topic_id != stored =>
                {
                    self.known[*place] = Known::Gone;
                }
                PartitionMeta::Denied if self.is_beside(*place) => self.known[*place] = Known::Settled,
                // It may be another topic by now, on which nothing of ours is open.
                PartitionMeta::NotKnown if stored.is_known() => self.known[*place] = Known::Nothing,
                PartitionMeta::Known { .. } | PartitionMeta::Denied | PartitionMeta::NotKnown => {
                    left.push(*place);
                }
            }
        }
        if !left.is_empty() {
            return self.ask_producers(left);
        }
        self.go_on(now);
    }

    fn ask_producers(&mut self, places: Vec<usize>) {
        self.effects.push_back(SettleEffect::DescribeProducers(places.clone()));
        self.state = State::Producers(places);
    }

    /// True while markers are likely to be on their way.
    fn is_early(&self) -> bool {
        self.backoff.tries() <= EARLY
    }

    /// Few may look at the log of the group coordinators. Where a marker is late or lost there, the next end of the
    /// producer id decides a group's offsets with it: no record depends on that, so it is not waited for blindly.
    fn is_beside(&self, place: usize) -> bool {
        &*self.target.partitions[place].partition.topic == OFFSETS_TOPIC
    }

    fn producers(&mut self, now: Moment, asked: &[usize], seen: &[ProducersSeen]) {
        for (place, seen) in asked.iter().zip(seen) {
            let stored = self.target.partitions[*place].offset;
            self.known[*place] = match seen {
                ProducersSeen::NothingOpen => Known::Settled,
                ProducersSeen::Open(open) if stored.is_some_and(|offset| open.start_offset > offset) => {
                    Known::Settled
                }
                ProducersSeen::Open(open) => Known::Open(*open),
                ProducersSeen::Unavailable => Known::Nothing,
                ProducersSeen::Denied if self.is_beside(*place) => Known::Settled,
                ProducersSeen::Denied => Known::Denied,
            };
        }
        let hanging: Vec<_> = self.hanging();
        if hanging.is_empty() {
            return self.go_on(now);
        }
        match self.coordinator {
            Coordinator::Finished => {
                let target = &self.target;
                let hanging = CommittedButHanging {
                    transactional_id: target.transactional_id.clone(),
                    identity: target.identity,
                    decision: target.decision,
                    by: target.by,
                    partitions: hanging,
                };
                self.state = State::Done(Err(SettleError::Hanging(Box::new(hanging))));
            }
            Coordinator::NotAsked if self.backoff.tries() < EARLY => self.wait(now),
            Coordinator::NotAsked => {
                self.effects.push_back(SettleEffect::DescribeTransaction);
                self.state = State::Coordinator;
            }
        }
    }

    fn described(&mut self, now: Moment, described: Described) {
        match described {
            Described::Transaction(view) => match view.state {
                CoordinatorState::PrepareCommit
                | CoordinatorState::PrepareAbort
                | CoordinatorState::PrepareEpochFence
                | CoordinatorState::Dead
                | CoordinatorState::Unknown => {}
                // An open transaction that is still ours means that the decision is not carried out yet.
                CoordinatorState::Ongoing if view.identity == self.target.identity => {}
                CoordinatorState::Ongoing
                | CoordinatorState::Empty
                | CoordinatorState::CompleteCommit
                | CoordinatorState::CompleteAbort => self.coordinator = Coordinator::Finished,
            },
            Described::NotFound => self.coordinator = Coordinator::Finished,
            Described::Relookup | Described::Retry | Described::Blind => {}
        }
        // Markers are written before the coordinator is done, so the producers are looked at once more after it
        // said so: only what is open then hangs.
        self.wait(now);
    }

    fn wait(&mut self, now: Moment) {
        self.state = State::Waiting(now.after(self.backoff.next_wait()));
    }

    /// Nothing is known to be open: waits for what is not known yet.
    fn go_on(&mut self, now: Moment) {
        if self.known.contains(&Known::Nothing) { self.wait(now) } else { self.judge_end() }
    }

    /// Nothing is open any more, as far as it can be seen.
    fn judge_end(&mut self) {
        let partitions = self.named(|k| matches!(k, Known::Denied));
        self.state = State::Done(if partitions.is_empty() {
            Ok(Settled { gone: self.named(|k| matches!(k, Known::Gone)) })
        } else {
            Err(SettleError::Denied { partitions })
        });
    }

    fn hanging(&self) -> Vec<HangingPartition> {
        let open =
            self.target.partitions.iter().zip(&self.known).filter_map(|(partition, known)| match known {
                Known::Open(open) => Some((partition, *open)),
                Known::Nothing | Known::Denied | Known::Settled | Known::Gone => None,
            });
        open.map(|(p, open)| HangingPartition {
            partition: p.partition.clone(),
            topic_id: p.topic_id,
            offset: p.offset,
            open,
        })
        .collect()
    }

    fn places(&self, which: impl Fn(&Known) -> bool) -> Vec<usize> {
        self.known.iter().enumerate().filter(|(_, k)| which(k)).map(|(place, _)| place).collect()
    }

    fn named(&self, which: impl Fn(&Known) -> bool) -> Vec<TopicPartition> {
        self.places(which).into_iter().map(|place| self.target.partitions[place].partition.clone()).collect()
    }
}

#[cfg(test)]
#[path = "settle_tests.rs"]
mod tests;

//! Offsets of consumer groups on their way into a transaction, one set after the other.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use super::{Acked, AddFact, Call, Effect, Misuse, OffsetsFact, State, Transaction};
use crate::{
    ids::{GroupId, Moment},
    proto::{
        backoff::{self, Backoff},
        offsets::GroupOffsets,
    },
    wire::versions::TransactionVersion,
};

/// What is on its way, and what has arrived.
#[derive(Debug)]
pub(super) struct Offsets {
    waiting: VecDeque<(Arc<GroupOffsets>, Moment)>,
    /// Groups that AddOffsetsToTxn has added. Transactions V2 add them by themselves.
    members: BTreeSet<GroupId>,
    /// The one TxnOffsetCommit that may be under way.
    pub(super) call: Call,
    pub(super) backoff: Backoff,
    /// Set once something was stored.
    pub(super) stored: bool,
}

impl Offsets {
    pub(super) fn new(retry_max: Duration, seed: u64) -> Self {
        Self {
            waiting: VecDeque::new(),
            members: BTreeSet::new(),
            call: Call::Idle,
            backoff: Backoff::new(Duration::from_millis(20), retry_max, seed),
            stored: false,
        }
    }

    pub(super) fn push(&mut self, offsets: Arc<GroupOffsets>, deadline: Moment) {
        self.waiting.push_back((offsets, deadline));
    }

    /// What is next.
    pub(super) fn first(&self) -> Option<&Arc<GroupOffsets>> {
        self.waiting.front().map(|(offsets, _)| offsets)
    }

    pub(super) fn first_group(&self) -> Option<&GroupId> {
        self.first().map(|offsets| &offsets.group.group_id)
    }

    pub(super) fn is_member(&self, group: &GroupId) -> bool {
        self.members.contains(group)
    }

    /// AddOffsetsToTxn is asked for the first group only, and nothing overtakes it.
    pub(super) fn first_is_member(&mut self) {
        if let Some(group) = self.first_group().cloned() {
            self.members.insert(group);
        }
    }

    /// The first is stored.
    pub(super) fn first_is_stored(&mut self) {
        self.waiting.pop_front();
        self.backoff.reset();
        self.stored = true;
    }

    pub(super) fn wait(&mut self, now: Moment, at_most: Option<Duration>) {
        let wait = self.backoff.next_wait();
        self.call = Call::Wait(now.after(at_most.map_or(wait, |most| wait.min(most))));
    }

    /// True when nothing waits and nothing is under way.
    pub(super) fn is_settled(&self) -> bool {
        self.waiting.is_empty() && self.call == Call::Idle
    }

    pub(super) fn in_flight(&self) -> bool {
        self.call == Call::Asked
    }

    /// The group whose offsets were not taken in time.
    pub(super) fn expired(&self, now: Moment) -> Option<&GroupId> {
        let late = self.waiting.iter().find(|(_, deadline)| *deadline <= now);
        late.map(|(offsets, _)| &offsets.group.group_id)
    }

    pub(super) fn next_deadline(&self) -> Option<Moment> {
        let wait = match self.call {
            Call::Wait(until) => Some(until),
            Call::Idle | Call::Asked => None,
        };
        let deadline = self.waiting.iter().map(|(_, deadline)| *deadline).min();
        [wait, deadline].into_iter().flatten().min()
    }

    /// Nothing of it is sent any more.
    pub(super) fn discard(&mut self) {
        self.waiting.clear();
        if self.call != Call::Asked {
            self.call = Call::Idle;
        }
    }
}

impl Transaction {
    pub(super) fn take_offsets(
        &mut self,
        offsets: Arc<GroupOffsets>,
        deadline: Moment,
    ) -> Result<(), Misuse> {
        match self.state {
            State::Open => self.offsets.push(offsets, deadline),
            // The failure was said already.
            State::AbortRequired(_) => {}
            State::Draining(_) | State::Prepared | State::Ending | State::Done => return Err(Misuse),
        }
        Ok(())
    }

    pub(super) fn offsets_added(&mut self, now: Moment, fact: AddFact) {
        self.call = Call::Idle;
        match fact {
            AddFact::Added => {
                self.backoff.reset();
                self.offsets.first_is_member();
            }
            AddFact::Retry => self.wait(now, None),
            AddFact::RetrySoon => self.wait(now, backoff::soon(self.backoff.tries())),
            AddFact::CoordinatorMoved => self.coordinator_moved(now),
            AddFact::Refused(cause) => self.fail(cause),
            AddFact::Fenced(cause) => self.fenced(cause),
        }
    }

    pub(super) fn offsets_committed(&mut self, now: Moment, fact: OffsetsFact) {
        self.offsets.call = Call::Idle;
        if !self.sends() {
            // What was under way when the transaction failed is not sent again.
            return;
        }
        match fact {
            OffsetsFact::Stored { on } => {
                self.offsets.first_is_stored();
                if let Some(partition) = on {
                    self.evidence.partitions.entry(partition).or_insert(Acked { offset: -1, records: 0 });
                }
                self.effects.push_back(Effect::OffsetsStored);
            }
            OffsetsFact::Retry => self.offsets.wait(now, None),
            OffsetsFact::RetrySoon => {
                let soon = backoff::soon(self.offsets.backoff.tries());
                self.offsets.wait(now, soon);
            }
            OffsetsFact::CoordinatorMoved => {
                let group = self.offsets.first_group().cloned();
                self.effects.extend(group.map(Effect::ForgetGroupCoordinator));
                self.offsets.wait(now, None);
            }
            OffsetsFact::Refused(cause) => self.fail(cause),
            OffsetsFact::Fenced(cause) => self.fenced(cause),
        }
    }

    /// The group coordinator of V1 refuses what the transaction coordinator does not know yet.
    pub(super) fn send_offsets(&mut self) {
        let Some(offsets) = self.offsets.first().cloned() else { return };
        let group = &offsets.group.group_id;
        if self.version < TransactionVersion::V2 && !self.offsets.is_member(group) {
            if self.call == Call::Idle {
                self.call = Call::Asked;
                self.reached = true;
                self.effects.push_back(Effect::AddOffsets(group.clone()));
            }
        } else if self.offsets.call == Call::Idle {
            self.offsets.call = Call::Asked;
            self.reached = true;
            self.effects.push_back(Effect::CommitOffsets(offsets));
        }
    }
}

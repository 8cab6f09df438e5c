//! One transactional id as its coordinator knows it.

use std::collections::BTreeSet;

use crate::broker::log::marker::{Marker, Outcome};
use crate::ids::TopicPartition;
use crate::wire::versions::TransactionVersion;

/// Epochs from here on are not given to clients; 32767 is kept for fencing.
pub(crate) const EXHAUSTED_EPOCH: i16 = i16::MAX - 1;

/// By how much a fence raises the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bumps {
    Once,
    /// KAFKA-19367, with transactions V2 only.
    Twice,
}

/// A producer id with its epoch, as numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) id: i64,
    pub(crate) epoch: i16,
}

/// The states of a transaction.
///
/// ```text
///   Empty --add--> Ongoing --EndTxn--> PrepareCommit --markers--> CompleteCommit --add--> Ongoing
///     ^               |                                                |
///     |               +--EndTxn, fence, timeout--> PrepareAbort --markers--> CompleteAbort --add--> Ongoing
///     +------------------------------ InitProducerId ------------------+
/// ```
/// A `Prepare` state is Kafka's "pending transition" at the same time: nothing else may happen until it completes.
/// Kafka's `Dead` and `PrepareEpochFence` never rest in an entry either: they are [`Pending`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum State {
    Empty,
    Ongoing,
    PrepareCommit,
    PrepareAbort,
    CompleteCommit,
    CompleteAbort,
}

impl State {
    /// The name that DescribeTransactions and ListTransactions use.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Ongoing => "Ongoing",
            Self::PrepareCommit => "PrepareCommit",
            Self::PrepareAbort => "PrepareAbort",
            Self::CompleteCommit => "CompleteCommit",
            Self::CompleteAbort => "CompleteAbort",
        }
    }
}

/// A transition that has begun and is not in the transaction log yet: nothing else may begin meanwhile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Pending {
    /// The append of the entry's next state lasts.
    Append(Box<Entry>),
    /// InitProducerId has fenced the owner, and its abort is not prepared yet. EndTxn alone does not take this for
    /// pending: a commit that meets it makes Kafka's coordinator throw.
    EpochFence,
    /// The tombstone of an expired id is being appended (`Dead`).
    Tombstone,
    /// An append failed half way (level 0 met a request of level 2): nothing moves until the coordinator does.
    Stuck,
}

/// Everything that the coordinator keeps of a transactional id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) pair: Pair,
    /// The producer id before the last transition; differs from `pair.id` right after a rotation only.
    pub(crate) previous_id: i64,
    /// The producer id that replaces `pair.id` when the prepared end completes.
    pub(crate) next_id: Option<i64>,
    /// The epoch before the last bump that its owner asked for; -1 when nobody may repeat it.
    pub(crate) last_epoch: i16,
    pub(crate) timeout_ms: i32,
    pub(crate) state: State,
    /// While preparing: the partitions that still lack their marker.
    pub(crate) partitions: BTreeSet<TopicPartition>,
    /// While preparing: all partitions, as the transaction log has them. A new coordinator begins with them again.
    pub(crate) prepared: BTreeSet<TopicPartition>,
    /// When the transaction began; kept until the next one begins; -1 after InitProducerId.
    pub(crate) start_ms: i64,
    pub(crate) last_update_ms: i64,
    pub(crate) pending: Option<Pending>,
    /// How many transitions the log has of this id.
    pub(crate) appends: u64,
    /// A partition refused its marker as stale. Kafka's coordinator then stops sending until it moves.
    pub(crate) given_up: bool,
    /// A fence raised the epoch and could not be appended: the next one does not raise it again.
    pub(crate) failed_fence: bool,
    /// The state machine that prepared the end, which chooses how markers are checked.
    pub(crate) ended_by: TransactionVersion,
}

impl Entry {
    /// A transactional id that was never seen: no epoch yet.
    pub(crate) fn fresh(producer_id: i64, timeout_ms: i32, now_ms: i64) -> Self {
        Self {
            pair: Pair { id: producer_id, epoch: -1 },
            previous_id: -1,
            next_id: None,
            last_epoch: -1,
            timeout_ms,
            state: State::Empty,
            partitions: BTreeSet::new(),
            prepared: BTreeSet::new(),
            start_ms: -1,
            last_update_ms: now_ms,
            pending: None,
            appends: 0,
            given_up: false,
            failed_fence: false,
            ended_by: TransactionVersion::V1,
        }
    }

    /// Is a transition under way? Then nothing else may begin.
    pub(crate) fn is_pending(&self) -> bool {
        self.pending.is_some() || self.is_preparing()
    }

    /// Are its markers due?
    pub(crate) fn is_preparing(&self) -> bool {
        matches!(self.state, State::PrepareCommit | State::PrepareAbort)
    }

    /// Has a fence begun that is not an abort yet?
    pub(crate) fn is_being_fenced(&self) -> bool {
        self.pending == Some(Pending::EpochFence)
    }

    /// Neither open nor on its way: may it be forgotten?
    pub(crate) fn is_idle(&self) -> bool {
        self.state != State::Ongoing && !self.is_pending()
    }

    pub(crate) fn epoch_is_exhausted(&self) -> bool {
        self.pair.epoch >= EXHAUSTED_EPOCH
    }

    /// Takes partitions into the transaction, and begins one unless one is open.
    pub(crate) fn add(&mut self, partitions: impl IntoIterator<Item = TopicPartition>, now_ms: i64) {
        if self.state != State::Ongoing {
            self.start_ms = now_ms;
            self.state = State::Ongoing;
        }
        self.partitions.extend(partitions);
        self.moved(now_ms);
    }

    /// Enters a `Prepare` state; answers the pair that the producer uses from then on.
    ///
    /// Version 2 raises the epoch here, before the markers, and rotates an exhausted producer id on completion.
    pub(crate) fn prepare(
        &mut self,
        outcome: Outcome,
        version: TransactionVersion,
        next_id: impl FnOnce() -> i64,
        now_ms: i64,
    ) -> Pair {
        if self.state != State::Ongoing {
            self.start_ms = now_ms; // an abort of nothing, which only version 2 allows
        }
        self.state = match outcome {
            Outcome::Commit => State::PrepareCommit,
            Outcome::Abort => State::PrepareAbort,
        };
        self.pending = None;
        self.failed_fence = false;
        self.prepared = self.partitions.clone();
        self.ended_by = version;
        if version == TransactionVersion::V2 {
            self.next_id = self.epoch_is_exhausted().then(next_id);
            self.last_epoch = self.pair.epoch;
            self.pair.epoch = self.pair.epoch.saturating_add(1);
        }
        self.moved(now_ms);
        self.next_id.map_or(self.pair, |id| Pair { id, epoch: 0 })
    }

    /// Aborts the open transaction and fences its owner: InitProducerId by somebody, or the timeout.
    ///
    /// `bumps` is by how much this raises the epoch beside what version 2 does anyway.
    pub(crate) fn fence(
        &mut self,
        version: TransactionVersion,
        bumps: Bumps,
        next_id: impl FnOnce() -> i64,
        now_ms: i64,
    ) {
        let raises = version != TransactionVersion::V2 || bumps == Bumps::Twice;
        if raises && !self.failed_fence {
            self.pair.epoch = self.pair.epoch.saturating_add(1);
        }
        // The owner of the epoch before may repeat nothing any more. On version 2 it may: see `prepare`.
        self.last_epoch = -1;
        self.prepare(Outcome::Abort, version, next_id, now_ms);
    }

    /// Is this, after `before`, the abort of a fence on V1? Only that one raises the epoch there.
    pub(crate) fn fences_on_v1(&self, before: &Self) -> bool {
        let aborts = self.state == State::PrepareAbort && self.ended_by != TransactionVersion::V2;
        aborts && self.pair.epoch > before.pair.epoch
    }

    /// All markers are written: leaves the `Prepare` state.
    pub(crate) fn complete(&mut self, now_ms: i64) {
        self.state = match self.state {
            State::PrepareCommit => State::CompleteCommit,
            State::PrepareAbort => State::CompleteAbort,
            other => other,
        };
        self.partitions.clear();
        self.prepared.clear();
        self.moved(now_ms);
        if let Some(id) = self.next_id.take() {
            self.pair = Pair { id, epoch: 0 };
        }
    }

    /// The marker of the end that is being prepared.
    pub(crate) fn marker(&self, coordinator_epoch: i32) -> Option<Marker> {
        let outcome = match self.state {
            State::PrepareCommit => Outcome::Commit,
            State::PrepareAbort => Outcome::Abort,
            State::Empty | State::Ongoing | State::CompleteCommit | State::CompleteAbort => return None,
        };
        let transaction_version = if self.ended_by == TransactionVersion::V2 { 2 } else { 1 };
        Some(Marker {
            producer_id: self.pair.id,
            producer_epoch: self.pair.epoch,
            coordinator_epoch,
            outcome,
            transaction_version,
        })
    }

    /// True when the sweep must abort it. A timeout of 2147483647 ms stands for "never".
    pub(crate) fn has_timed_out(&self, now_ms: i64) -> bool {
        self.state == State::Ongoing
            && self.pending.is_none()
            && self.timeout_ms != i32::MAX
            && self.start_ms.saturating_add(i64::from(self.timeout_ms)) < now_ms
    }

    /// True when `transactional.id.expiration.ms` has passed since the last transition.
    pub(crate) fn has_expired(&self, expiration_ms: i64, now_ms: i64) -> bool {
        self.is_idle() && self.last_update_ms.saturating_add(expiration_ms) <= now_ms
    }

    /// What a new coordinator makes of it. The log knows neither who may repeat an InitProducerId, nor transitions that
    /// were not appended, nor which markers are written already.
    pub(crate) fn reload(&mut self) {
        self.last_epoch = -1;
        self.pending = None;
        self.given_up = false;
        self.failed_fence = false;
        if self.is_preparing() {
            self.partitions = self.prepared.clone();
        }
    }

    /// What every transition does: the producer id that was current is the previous one now.
    pub(crate) fn moved(&mut self, now_ms: i64) {
        self.appends += 1;
        self.previous_id = self.pair.id;
        self.last_update_ms = now_ms;
    }
}

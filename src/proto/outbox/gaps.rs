//! What becomes of a partition whose sequences can't go on: batches that are given up, and a new beginning.
//!
//! A batch that is given up leaves its sequence behind as a gap, and a broker takes nothing behind a gap. So the
//! partition begins anew: under another identity, with sequences from 0. What was sent before may then be sent again
//! only if it is certain that no try of it is stored or will be:
//!
//! ```text
//!   sequence that is not the next one, nothing missing before it     the broker's log lost our history: this batch can't
//!                                                                    be stored
//!   the batch before it is certainly not stored                      the same
//!   the batch before it may be stored:  this one was refused by      the same: no try of it is under way
//!                                       every try's answer
//!                                       a try was not answered       it is sent under its own identity. Taken: the gap is
//!                                                                    closed. Refused: nobody knows, it is given up
//! ```
//! Those behind it that may be stored are sent first under their own identity, one at a time. A broker that has one says so, and
//! then nothing begins anew.
//!
//! A later batch that is stored is no proof of the one before it: a log that was created anew under the same name knows nothing
//! of the producer and takes any sequence first. What was refused by every try's answer is not in it then, and is not sent
//! behind its successor either; what was not answered may be stored, unless the broker says that it has it.
//!
//! A transaction has none of this: whatever is given up there is aborted with the rest.

use std::time::Duration;

use super::{Batch, BatchId, Outbox, Queue, SOON, Sent};
use crate::{
    ids::{Moment, TopicId, TopicName, TopicPartition},
    wire::batch::increment_sequence,
};

/// What is known of a batch that is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is not in the log and never will be.
    NotStored,
    /// It may be in the log.
    Unknown,
}

/// Why a batch can't go on as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// Its sequence is not the next one that the broker expects, or the broker knows nothing of its producer.
    OutOfOrder,
    /// The broker knows its producer under a newer epoch, or refuses the producer as such.
    IdentityGone,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolved {
    /// It waits: for those before it, or for the partition's new beginning.
    Again,
    /// It is over.
    Over(Fate),
    /// It is not one of ours any more.
    NotOurs,
}

/// A batch whose time is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expired {
    /// Where it was to go.
    pub partition: TopicPartition,
    /// The batch.
    pub batch: BatchId,
    /// What is known of it.
    pub fate: Fate,
}

impl Outbox {
    /// An answer says that a batch can't be stored under its sequence and identity.
    pub fn trouble(
        &mut self,
        now: Moment,
        partition: &TopicPartition,
        batch: BatchId,
        trouble: Trouble,
    ) -> Resolved {
        let Some((queue, at)) = self.in_flight_at(partition, batch) else { return Resolved::NotOurs };
        let Some(sent) = queue.sent.get(at) else { return Resolved::NotOurs };
        if sent.passed {
            return Resolved::Over(queue.give_up(at));
        }
        let earlier = queue.sent.iter().take(at);
        let (is_behind, missing) = (earlier.clone().any(|s| !s.gone), at > 0);
        let certain = !sent.doubt || earlier.clone().any(|s| s.gone && !s.doubt);
        match trouble {
            // Nothing before it will be stored: the log says that neither is this one.
            Trouble::OutOfOrder if is_behind && queue.is_over() => queue.clear_doubt(now, at),
            Trouble::IdentityGone if is_behind && !certain && queue.is_over() => {
                return Resolved::Over(queue.give_up(at));
            }
            // What is before it decides.
            _ if is_behind => _ = queue.again::<()>(now, at, None, false),
            Trouble::OutOfOrder if !missing || certain => queue.lose(now, at),
            Trouble::IdentityGone if certain => queue.lose(now, at),
            Trouble::OutOfOrder | Trouble::IdentityGone => return Resolved::Over(queue.give_up(at)),
        }
        Resolved::Again
    }

    /// A try of a batch in flight may have been stored.
    pub fn doubt(&mut self, partition: &TopicPartition, batch: BatchId) {
        if let Some((queue, at)) = self.in_flight_at(partition, batch) {
            queue.doubt(at);
        }
    }

    /// A batch will never be stored, for its own sake: it is forgotten.
    pub fn give_up(&mut self, partition: &TopicPartition, batch: BatchId) -> Option<Fate> {
        let (queue, at) = self.in_flight_at(partition, batch)?;
        Some(queue.give_up(at))
    }

    /// Whether a batch that was refused may be replaced by others with the same records: no try of it may be stored.
    #[must_use]
    pub fn can_replace(&self, partition: &TopicPartition, batch: BatchId) -> bool {
        let sent = self.partitions.get(partition).and_then(|q| q.sent.iter().find(|s| s.batch.id == batch));
        sent.is_some_and(|s| s.in_flight && !s.doubt && !s.passed && s.batch.records > 1)
    }

    /// Puts others in the place of a batch, with its sequences. False if they do not hold as many records.
    pub fn replace(&mut self, partition: &TopicPartition, batch: BatchId, parts: &[Batch]) -> bool {
        let Some((queue, at)) = self.in_flight_at(partition, batch) else { return false };
        let Some(whole) = queue.sent.get(at) else { return false };
        let records: i64 = parts.iter().map(|part| i64::from(part.records)).sum();
        if whole.doubt || records != i64::from(whole.batch.records) {
            return false;
        }
        // An answer that came after the one that says so may have told that a later batch is stored.
        let (mut sequence, passed) = (whole.sequence, whole.passed);
        queue.sent.remove(at);
        for (place, part) in parts.iter().enumerate() {
            let waiting = Sent { in_flight: false, passed, ..Sent::leaving(*part, sequence) };
            queue.sent.insert(at + place, waiting);
            sequence = increment_sequence(sequence, part.records);
        }
        true
    }

    /// Takes out what has passed its deadline and is not under way. An answer that is still to come is waited for: it may
    /// say that the batch is stored.
    pub fn expire(&mut self, now: Moment) -> Vec<Expired> {
        let mut over = Vec::new();
        for (partition, queue) in &mut self.partitions {
            let expired = |batch, fate| Expired { partition: partition.clone(), batch, fate };
            let waiting = queue.give_up_waiting(|batch| batch.deadline <= now);
            over.extend(waiting.into_iter().map(|(batch, fate)| expired(batch, fate)));
            while let Some(batch) = queue.queued.front().copied().filter(|b| b.deadline <= now) {
                queue.queued.pop_front();
                over.push(expired(batch.id, Fate::NotStored));
            }
        }
        over
    }

    /// The id of the topic that a batch in flight is for.
    #[must_use]
    pub fn topic_of(&self, partition: &TopicPartition, batch: BatchId) -> Option<TopicId> {
        let sent = &self.partitions.get(partition)?.sent;
        sent.iter().find(|s| s.batch.id == batch && s.in_flight).map(|s| s.batch.topic)
    }

    /// Takes out what is for a topic of this id, which is not there any more, and is not under way.
    pub fn without_topic(&mut self, topic: &TopicName, id: TopicId) -> Vec<Expired> {
        let mut over = Vec::new();
        for (partition, queue) in self.partitions.iter_mut().filter(|(p, _)| p.topic == *topic) {
            let mut gone = queue.give_up_waiting(|batch| batch.topic == id);
            let untried = queue.queued.iter().filter(|batch| batch.topic == id);
            gone.extend(untried.map(|batch| (batch.id, Fate::NotStored)));
            queue.queued.retain(|batch| batch.topic != id);
            over.extend(gone.into_iter().map(|(batch, fate)| Expired {
                partition: partition.clone(),
                batch,
                fate,
            }));
        }
        over
    }

    /// Partitions that have something to send and can't before [`restart`](Self::restart).
    pub fn broken(&self) -> impl Iterator<Item = &TopicPartition> {
        let broken = |q: &Queue| {
            let something = !q.queued.is_empty() || q.sent.iter().any(|s| !s.gone);
            something && q.is_broken() && q.sent.iter().all(|s| !s.in_flight)
        };
        self.partitions.iter().filter(move |(_, q)| broken(q)).map(|(p, _)| p)
    }

    /// A partition that is [`broken`](Self::broken) begins anew, under another identity.
    pub fn restart(&mut self, partition: &TopicPartition) {
        let window = self.limits.first_batch.window();
        if let Some(queue) = self.partitions.get_mut(partition) {
            for sent in queue.sent.drain(..).rev().filter(|s| !s.gone) {
                queue.queued.push_front(sent.batch);
            }
            queue.next_sequence = 0;
            queue.lost = false;
            queue.first_window = window;
        }
    }

    /// Forgets everything of a partition whose batches can't be sent; nothing of it may be in flight.
    pub fn clear(&mut self, partition: &TopicPartition) -> Vec<Expired> {
        let Some(queue) = self.partitions.get_mut(partition) else { return Vec::new() };
        let mut over = Vec::new();
        while let Some(at) = queue.sent.iter().position(Sent::waits) {
            let id = queue.sent[at].batch.id;
            over.push((id, queue.give_up(at)));
        }
        over.extend(queue.queued.drain(..).map(|b| (b.id, Fate::NotStored)));
        over.into_iter().map(|(batch, fate)| Expired { partition: partition.clone(), batch, fate }).collect()
    }

    /// When a retry or a deadline of what is not under way is due.
    #[must_use]
    pub fn wakes(&self, now: Moment) -> Option<Moment> {
        let of = |q: &Queue| {
            let waiting = q.sent.iter().filter(|s| s.waits()).map(|s| s.batch.deadline).min();
            let deadline = waiting.into_iter().chain(q.queued.front().map(|b| b.deadline)).min();
            [deadline, Some(q.not_before).filter(|m| *m > now && deadline.is_some())]
        };
        self.partitions.values().flat_map(of).flatten().min()
    }

    fn in_flight_at(&mut self, partition: &TopicPartition, batch: BatchId) -> Option<(&mut Queue, usize)> {
        let queue = self.partitions.get_mut(partition)?;
        let at = queue.sent.iter().position(|s| s.batch.id == batch && s.in_flight)?;
        Some((queue, at))
    }
}

impl Queue {
    /// Nothing of this partition can go on under its present identity, nor may any of it be stored.
    pub(super) fn is_broken(&self) -> bool {
        self.is_over() && self.sent.iter().all(|s| s.gone || !s.doubt)
    }

    /// What is sent again next: the oldest, or where that can't be stored the oldest that may be stored already.
    pub(super) fn again_first(&self) -> Option<usize> {
        let over = self.is_over();
        self.sent.iter().position(|s| s.waits() && (s.doubt || !over))
    }

    /// Gives up those of the batches that wait to be sent again.
    fn give_up_waiting(&mut self, which: impl Fn(&Batch) -> bool) -> Vec<(BatchId, Fate)> {
        let mut over = Vec::new();
        while let Some(at) = self.sent.iter().position(|s| s.waits() && which(&s.batch)) {
            over.push((self.sent[at].batch.id, self.give_up(at)));
            // What was not tried yet does not wait for what was given up.
            if !self.sent.iter().any(Sent::waits) {
                self.not_before = Moment::default();
                self.backoff.reset();
            }
        }
        over
    }

    /// The oldest batch can't be stored under its present identity.
    pub(super) fn is_over(&self) -> bool {
        let gap = self.sent.iter().take_while(|s| s.gone);
        let oldest = self.sent.iter().find(|s| !s.gone);
        let is_certain = |oldest: &Sent| !oldest.doubt || gap.clone().any(|s| !s.doubt);
        self.lost || (gap.clone().next().is_some() && oldest.is_none_or(is_certain))
    }

    fn lose(&mut self, now: Moment, at: usize) {
        self.lost = true;
        self.sent[at].doubt = false;
        // Soon the first time; where that does not help, later and later.
        let first = self.backoff.tries() == 0;
        if first {
            self.backoff.next_wait();
        }
        _ = self.again::<()>(now, at, first.then_some(SOON), false);
    }

    fn clear_doubt(&mut self, now: Moment, at: usize) {
        self.sent[at].doubt = false;
        _ = self.again::<()>(now, at, Some(Duration::ZERO), false);
    }

    /// The last sequence that was given is given again if its batch is certainly not stored; any other leaves a gap.
    fn give_up(&mut self, at: usize) -> Fate {
        let is_last = at + 1 == self.sent.len();
        let Some(sent) = self.sent.get_mut(at) else { return Fate::Unknown };
        if sent.passed {
            let fate = if sent.doubt { Fate::Unknown } else { Fate::NotStored };
            self.sent.remove(at);
            return fate;
        }
        if !sent.doubt && is_last {
            self.next_sequence = sent.sequence;
            self.sent.pop_back();
            return Fate::NotStored;
        }
        sent.in_flight = false;
        sent.gone = true;
        if sent.doubt { Fate::Unknown } else { Fate::NotStored }
    }
}

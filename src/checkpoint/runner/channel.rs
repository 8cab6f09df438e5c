//! The queues between subtasks.
//!
//! ```text
//! subtask a ── Entry ──► [r r B r r] ─┐
//! subtask b ── Entry ──► [r B r]     ─┴─ Inbox ──► subtask c
//! ```
//! Each writing subtask has a queue of its own. A barrier keeps its place in the queue, and is announced to the reader
//! at once, so that it can overtake the records before it: those can be copied into the snapshot where they stand.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use crate::{proto::checkpoint::alignment::Barrier, record::Record};

/// What flows from subtask to subtask.
#[derive(Debug, Clone)]
pub(super) enum Element {
    Record(Record),
    Barrier(Barrier),
}

/// The reading end of all queues of a subtask.
#[derive(Debug)]
pub(super) struct Inbox(Arc<Shared>);

/// The writing end of one queue.
#[derive(Debug)]
pub(super) struct Entry {
    shared: Arc<Shared>,
    channel: usize,
}

#[derive(Debug)]
struct Shared {
    queues: Mutex<Queues>,
    arrived: Notify,
    /// One for each channel, whose writer waits alone.
    room: Vec<Notify>,
    capacity: usize,
}

#[derive(Debug)]
struct Queues {
    channels: Vec<Channel>,
    announced: VecDeque<(usize, Barrier)>,
    /// The channel to be read next.
    next: usize,
}

#[derive(Debug, Default)]
struct Channel {
    queue: VecDeque<Element>,
    taps: Vec<Tap>,
}

/// A copy of everything in a channel before the barrier of a checkpoint.
#[derive(Debug)]
struct Tap {
    checkpoint: u64,
    records: Vec<Record>,
    ended: bool,
}

/// An inbox with so many channels, each for `capacity` records, and what writes into them.
pub(super) fn inbox(channels: usize, capacity: usize) -> (Inbox, Vec<Entry>) {
    let queues = Queues {
        channels: (0..channels).map(|_| Channel::default()).collect(),
        announced: VecDeque::new(),
        next: 0,
    };
    let shared = Arc::new(Shared {
        queues: Mutex::new(queues),
        arrived: Notify::new(),
        room: (0..channels).map(|_| Notify::new()).collect(),
        capacity,
    });
    let entry = |channel| Entry { shared: Arc::clone(&shared), channel };
    let entries = (0..channels).map(entry).collect();
    (Inbox(shared), entries)
}

impl Shared {
    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    /// Adds a record, also to a full queue: wait for [`room`](Self::room) before the next.
    pub(super) fn push(&self, record: Record) {
        let mut queues = self.shared.queues();
        let channel = &mut queues.channels[self.channel];
        for tap in channel.taps.iter_mut().filter(|tap| !tap.ended) {
            tap.records.push(record.clone());
        }
        channel.queue.push_back(Element::Record(record));
        drop(queues);
        self.shared.arrived.notify_one();
    }

    /// Adds a barrier, which needs no room.
    pub(super) fn barrier(&self, barrier: Barrier) {
        let mut queues = self.shared.queues();
        let channel = &mut queues.channels[self.channel];
        for tap in channel.taps.iter_mut().filter(|tap| tap.checkpoint <= barrier.checkpoint) {
            tap.ended = true;
        }
        channel.queue.push_back(Element::Barrier(barrier));
        queues.announced.push_back((self.channel, barrier));
        drop(queues);
        self.shared.arrived.notify_one();
    }

    pub(super) fn has_room(&self) -> bool {
        self.shared.queues().channels[self.channel].queue.len() < self.shared.capacity
    }

    /// Waits until the queue is not full. Cancel safe.
    pub(super) async fn room(&self) {
        while !self.has_room() {
            self.shared.room[self.channel].notified().await;
        }
    }
}

impl Inbox {
    /// The next barrier that was put into a queue since the last call.
    pub(super) fn announced(&self) -> Option<(usize, Barrier)> {
        self.0.queues().announced.pop_front()
    }

    /// Takes the next element, in turn from the channels that are `open`.
    pub(super) fn pop(&self, open: impl Fn(usize) -> bool) -> Option<(usize, Element)> {
        let mut queues = self.0.queues();
        let count = queues.channels.len();
        let first = queues.next;
        let mut turns = (0..count).map(|turn| (first + turn) % count);
        let channel = turns.find(|&channel| open(channel) && !queues.channels[channel].queue.is_empty())?;
        let element = queues.channels[channel].queue.pop_front()?;
        queues.next = (channel + 1) % count;
        let length = queues.channels[channel].queue.len();
        drop(queues);
        if length < self.0.capacity {
            self.0.room[channel].notify_one();
        }
        Some((channel, element))
    }

    /// Begins to copy what this channel brings before the barrier of `checkpoint`: what stands in the queue now, and
    /// what is still added before the barrier is.
    pub(super) fn capture(&self, channel: usize, checkpoint: u64) {
        let mut queues = self.0.queues();
        let channel = &mut queues.channels[channel];
        let mut tap = Tap { checkpoint, records: Vec::new(), ended: false };
        for element in &channel.queue {
            match element {
                Element::Record(record) => tap.records.push(record.clone()),
                Element::Barrier(barrier) if barrier.checkpoint >= checkpoint => {
                    tap.ended = true;
                    break;
                }
                Element::Barrier(_) => {}
            }
        }
        channel.taps.push(tap);
    }

    /// The records that were captured for this checkpoint, by channel; it is over then.
    pub(super) fn captured(&self, checkpoint: u64) -> Vec<(usize, Vec<Record>)> {
        let mut queues = self.0.queues();
        let mut all = Vec::new();
        for (number, channel) in queues.channels.iter_mut().enumerate() {
            let (wanted, others): (Vec<Tap>, Vec<Tap>) =
                std::mem::take(&mut channel.taps).into_iter().partition(|tap| tap.checkpoint == checkpoint);
            channel.taps = others;
            all.extend(wanted.into_iter().filter(|t| !t.records.is_empty()).map(|t| (number, t.records)));
        }
        all
    }

    /// Waits until something may have arrived. Cancel safe.
    pub(super) async fn arrived(&self) {
        self.0.arrived.notified().await;
    }
}

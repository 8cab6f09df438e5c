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
#[derive(Debug)]
enum Element {
    Record(Record),
    Barrier(Barrier),
}

/// What a reader finds, and in which channel.
#[derive(Debug)]
pub(super) enum Next {
    /// A barrier was put into a queue; it is still there.
    Announced(usize, Barrier),
    Record(usize, Record),
    /// A barrier, at the head of its queue.
    Barrier(usize, Barrier),
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
    /// In records, and in bytes of them.
    capacity: (usize, usize),
}

#[derive(Debug)]
struct Queues {
    channels: Vec<Channel>,
    announced: VecDeque<(usize, Barrier)>,
    /// The channel to be read next.
    next: usize,
    /// Records of a restored checkpoint that are not read yet, in all channels.
    restored: usize,
}

#[derive(Debug, Default)]
struct Channel {
    queue: VecDeque<Element>,
    /// Of the records in it.
    bytes: usize,
    /// So many at its head are of a restored checkpoint.
    restored: usize,
    taps: Vec<Tap>,
}

/// A copy of everything in a channel before the barrier of a checkpoint.
#[derive(Debug)]
struct Tap {
    checkpoint: u64,
    records: Vec<Record>,
    ended: bool,
}

/// An inbox with so many channels, each for so many records and bytes of them, and what writes into them.
pub(super) fn inbox(channels: usize, capacity: (usize, usize)) -> (Inbox, Vec<Entry>) {
    let queues = Queues {
        channels: (0..channels).map(|_| Channel::default()).collect(),
        announced: VecDeque::new(),
        next: 0,
        restored: 0,
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

impl Queues {
    fn next_channel(&mut self, open: impl Fn(usize) -> bool) -> Option<usize> {
        if self.restored > 0 {
            // No barrier stands before these, so that their channel is open.
            let channel = self.channels.iter().position(|channel| channel.restored > 0)?;
            self.channels[channel].restored -= 1;
            self.restored -= 1;
            return Some(channel);
        }
        let count = self.channels.len();
        let first = self.next;
        let mut turns = (0..count).map(|turn| (first + turn) % count);
        turns.find(|&channel| open(channel) && !self.channels[channel].queue.is_empty())
    }
}

impl Channel {
    fn put(&mut self, record: Record) {
        self.bytes += record.size_bytes();
        self.queue.push_back(Element::Record(record));
    }

    fn take(&mut self) -> Option<Element> {
        let element = self.queue.pop_front()?;
        if let Element::Record(record) = &element {
            self.bytes -= record.size_bytes();
        }
        Some(element)
    }

    fn has_room(&self, (records, bytes): (usize, usize)) -> bool {
        self.queue.len() < records && self.bytes < bytes
    }
}

impl Entry {
    /// Adds records, also to a full queue: wait for [`room`](Self::room) before the next.
    pub(super) fn push(&self, records: impl IntoIterator<Item = Record>) {
        let mut queues = self.shared.queues();
        let channel = &mut queues.channels[self.channel];
        for record in records {
            for tap in channel.taps.iter_mut().filter(|tap| !tap.ended) {
                tap.records.push(record.clone());
            }
            channel.put(record);
        }
        drop(queues);
        self.shared.arrived.notify_one();
    }

    /// Adds a record of a restored checkpoint. Such records are read before all others, also those of other channels:
    /// records of the same key may come by another way now.
    pub(super) fn restore(&self, record: Record) {
        let mut queues = self.shared.queues();
        let channel = &mut queues.channels[self.channel];
        channel.put(record);
        channel.restored += 1;
        queues.restored += 1;
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
        self.shared.queues().channels[self.channel].has_room(self.shared.capacity)
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

    /// The next barrier that was put into a queue; if there is none, the next element, in turn from the channels that are
    /// `open`. What was restored comes first.
    pub(super) fn next(&self, open: impl Fn(usize) -> bool) -> Option<Next> {
        let mut queues = self.0.queues();
        if let Some((channel, barrier)) = queues.announced.pop_front() {
            return Some(Next::Announced(channel, barrier));
        }
        let channel = queues.next_channel(open)?;
        let was_full = !queues.channels[channel].has_room(self.0.capacity);
        let element = queues.channels[channel].take()?;
        queues.next = (channel + 1) % queues.channels.len();
        let room = queues.channels[channel].has_room(self.0.capacity);
        drop(queues);
        // A writer that waits looks again by itself when it finds the queue full.
        if was_full && room {
            self.0.room[channel].notify_one();
        }
        Some(match element {
            Element::Record(record) => Next::Record(channel, record),
            Element::Barrier(barrier) => Next::Barrier(channel, barrier),
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restored_records_are_read_before_those_of_any_channel() {
        let (inbox, entries) = inbox(3, (8, 100));
        entries[1].restore(Record::value("a"));
        entries[1].restore(Record::value("b"));
        entries[2].restore(Record::value("c"));
        for entry in &entries {
            entry.push([Record::value("new")]);
        }
        let mut read = Vec::new();
        while let Some(next) = inbox.next(|_| true) {
            let Next::Record(_, record) = next else { panic!("there is no barrier") };
            read.push(record.value.unwrap());
        }
        assert_eq!(read, ["a", "b", "c", "new", "new", "new"]);
    }

    #[test]
    fn a_queue_is_full_of_records_or_of_their_bytes() {
        let (inbox, entries) = inbox(1, (3, 4000));
        let entry = &entries[0];
        entry.push([Record::value("a"), Record::value("b")]);
        assert!(entry.has_room());
        entry.push([Record::value("c")]);
        assert!(!entry.has_room());
        inbox.next(|_| true);
        assert!(entry.has_room());
        entry.push([Record::value("x".repeat(4000)).with_key("k")]);
        assert!(!entry.has_room());
        while inbox.next(|_| true).is_some() {}
        entry.push([Record::value("x".repeat(4000))]);
        assert!(!entry.has_room(), "one alone may be larger");
        inbox.next(|_| true);
        assert!(entry.has_room());
    }
}

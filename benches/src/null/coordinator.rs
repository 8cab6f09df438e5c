//! Transactional ids. It refuses nothing, but says what a real coordinator would not have taken.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::{SystemTime, UNIX_EPOCH},
};

/// One transactional id.
#[derive(Debug, Clone, Default)]
pub(super) struct Entry {
    pub(super) producer: i64,
    pub(super) epoch: i16,
    pub(super) partitions: BTreeMap<String, BTreeSet<i32>>,
    pub(super) start_ms: i64,
    pub(super) state: State,
}

/// Where its transaction stands; what is decided is on every partition at once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum State {
    #[default]
    Empty,
    Ongoing,
    Committed,
    Aborted,
}

/// All ids.
#[derive(Debug, Default)]
pub(super) struct Coordinator {
    entries: HashMap<String, Entry>,
    producers: i64,
}

impl State {
    /// Kafka's name of it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Ongoing => "Ongoing",
            Self::Committed => "CompleteCommit",
            Self::Aborted => "CompleteAbort",
        }
    }
}

impl Coordinator {
    /// A producer of its own, for those that are only idempotent.
    pub(super) fn anonymous(&mut self) -> i64 {
        self.producers += 1;
        999 + self.producers
    }

    /// A new epoch of an id, or its first one.
    pub(super) fn initialize(&mut self, id: &str) -> (i64, i16) {
        match self.entries.get_mut(id) {
            Some(entry) if entry.epoch < i16::MAX - 1 => {
                (entry.epoch, entry.state) = (entry.epoch + 1, State::Empty);
                entry.partitions.clear();
                (entry.producer, entry.epoch)
            }
            Some(_) | None => {
                let producer = self.anonymous();
                self.entries.insert(id.to_owned(), Entry { producer, ..Entry::default() });
                (producer, 0)
            }
        }
    }

    pub(super) fn add(&mut self, id: &str, topic: &str, partitions: impl Iterator<Item = i32>) {
        let entry = self.entries.entry(id.to_owned()).or_default();
        entry.begin();
        entry.hold(topic, partitions);
    }

    /// Batches came; since version 12 that adds their partitions (KIP-890). What is wrong with that.
    pub(super) fn produced(
        &mut self,
        id: &str,
        topic: &str,
        mut partitions: impl Iterator<Item = i32>,
        version: i16,
    ) -> Option<String> {
        let Some(entry) = self.entries.get_mut(id) else {
            return Some(format!("Produce under {id}, which was never initialized"));
        };
        if version >= 12 {
            entry.begin();
            entry.hold(topic, partitions);
            return None;
        }
        let added = entry.partitions.get(topic).filter(|_| entry.state == State::Ongoing);
        let missing = partitions.find(|p| added.is_none_or(|added| !added.contains(p)));
        missing.map(|p| format!("Produce {version} under {id} to {topic}-{p}, which was not added"))
    }

    /// Ends a transaction; the pair that its next one is written under, and what is wrong with it.
    pub(super) fn end(
        &mut self,
        id: &str,
        pair: (i64, i16),
        state: State,
        version: i16,
    ) -> ((i64, i16), Option<String>) {
        let Some(entry) = self.entries.get_mut(id) else {
            return (pair, Some(format!("EndTxn of {id}, which was never initialized")));
        };
        let wrong = if (entry.producer, entry.epoch) != pair {
            Some(format!("EndTxn of {id} under {pair:?}, which is at {}, {}", entry.producer, entry.epoch))
        } else if entry.state != State::Ongoing && version < 5 {
            Some(format!("EndTxn of {id}, which is {}", entry.state.name()))
        } else {
            None
        };
        entry.state = state;
        entry.partitions.clear();
        if version >= 5 {
            entry.epoch = entry.epoch.wrapping_add(1);
        }
        ((entry.producer, entry.epoch), wrong)
    }

    pub(super) fn entry(&self, id: &str) -> Option<&Entry> {
        self.entries.get(id)
    }
}

impl Entry {
    fn begin(&mut self) {
        if self.state != State::Ongoing {
            self.state = State::Ongoing;
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            self.start_ms = i64::try_from(now.as_millis()).unwrap_or(0);
        }
    }

    fn hold(&mut self, topic: &str, partitions: impl Iterator<Item = i32>) {
        match self.partitions.get_mut(topic) {
            Some(held) => held.extend(partitions),
            None => _ = self.partitions.insert(topic.to_owned(), partitions.collect()),
        }
    }
}

//! What a subtask sends on, and to whom.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use futures::future::join_all;

use super::{
    channel::Entry,
    keyed::{group_of, owner_of},
};
use crate::{proto::checkpoint::alignment::Barrier, record::Record};

pub(super) type KeyOf = dyn Fn(&Record) -> Bytes + Send + Sync;
pub(super) type Transform = dyn Fn(Record, &mut Vec<Record>) + Send + Sync;

/// Which of several subtasks gets a record.
#[derive(Clone)]
pub(super) enum Route {
    /// All records of a subtask go to the same one, so their order stays.
    Forward,
    /// Records of the same partition go to the same one.
    Partition,
    /// One after the other.
    Rebalance,
    /// Records of the same key go to the same one.
    Key(Arc<KeyOf>),
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Forward => "Forward",
            Self::Partition => "Partition",
            Self::Rebalance => "Rebalance",
            Self::Key(_) => "Key",
        })
    }
}

impl Route {
    /// The target among `total` of a record that came from the subtask `from`; `turn` counts records.
    pub(super) fn target(&self, record: &Record, from: usize, turn: usize, total: usize) -> usize {
        match self {
            Self::Forward => from % total,
            Self::Partition => {
                let partition = record.partition.and_then(|partition| usize::try_from(partition).ok());
                partition.unwrap_or(from) % total
            }
            Self::Rebalance => turn % total,
            Self::Key(key_of) => {
                let total = u32::try_from(total).unwrap_or(u32::MAX);
                owner_of(group_of(&key_of(record)), total) as usize
            }
        }
    }
}

/// One edge of the graph, at one of the subtasks where it begins.
pub(super) struct Edge {
    pub(super) transforms: Vec<Arc<Transform>>,
    pub(super) route: Route,
    /// By subtask of the edge's end.
    pub(super) entries: Vec<Entry>,
    pub(super) turn: usize,
}

/// Everything that a subtask sends to.
pub(super) struct Output {
    pub(super) from: usize,
    pub(super) edges: Vec<Edge>,
}

impl Output {
    pub(super) fn emit(&mut self, records: &mut Vec<Record>) {
        let Some((last, others)) = self.edges.split_last_mut() else {
            records.clear();
            return;
        };
        for edge in others.iter_mut() {
            edge.emit(records.iter().cloned(), self.from);
        }
        last.emit(records.drain(..), self.from);
    }

    pub(super) fn barrier(&self, barrier: Barrier) {
        self.entries().for_each(|entry| entry.barrier(barrier));
    }

    pub(super) fn has_room(&self) -> bool {
        self.entries().all(Entry::has_room)
    }

    /// Waits until nobody's queue is full. Cancel safe.
    pub(super) async fn room(&self) {
        join_all(self.entries().map(Entry::room)).await;
    }

    fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.edges.iter().flat_map(|edge| &edge.entries)
    }
}

impl Edge {
    fn emit(&mut self, records: impl Iterator<Item = Record>, from: usize) {
        if self.transforms.is_empty() {
            self.route(records, from);
        } else {
            // Not in a queue's lock: it is the user's code.
            let made: Vec<Record> =
                records.flat_map(|record| transformed(&self.transforms, record)).collect();
            self.route(made.into_iter(), from);
        }
    }

    /// Each queue is filled at once.
    fn route(&mut self, records: impl Iterator<Item = Record>, from: usize) {
        if let [entry] = &self.entries[..] {
            return entry.push(records);
        }
        let mut dealt: Vec<Vec<Record>> = vec![Vec::new(); self.entries.len()];
        for record in records {
            let target = self.route.target(&record, from, self.turn, self.entries.len());
            self.turn = self.turn.wrapping_add(1);
            dealt[target].push(record);
        }
        for (entry, records) in self.entries.iter().zip(dealt).filter(|(_, records)| !records.is_empty()) {
            entry.push(records);
        }
    }
}

/// What the transformations make of a record, one after the other.
fn transformed(transforms: &[Arc<Transform>], record: Record) -> Vec<Record> {
    let mut records = vec![record];
    for transform in transforms {
        let mut next = Vec::with_capacity(records.len());
        records.into_iter().for_each(|record| transform(record, &mut next));
        records = next;
    }
    records
}

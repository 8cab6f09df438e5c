//! What a store holds, and what of it may go.
//!
//! Nothing goes before the checkpoint that makes it superfluous is durable, and what could not be removed is tried
//! again after the next one. A crash between leaves files that no checkpoint names; they go when the store is opened.

use std::{
    collections::{BTreeSet, VecDeque},
    num::NonZeroUsize,
    sync::Arc,
};

use super::{error::StoreError, state::Checkpoint};
use crate::proto::committable::Committable;

/// How many checkpoints are kept unless something else is said.
pub(super) const DEFAULT_RETAINED: NonZeroUsize = NonZeroUsize::new(2).expect("2 is not 0");

/// A thing in a store, by its name there, in the order in which things go: a crash between two removals leaves no
/// checkpoint without its states, and no committable that looks as if it had never been listed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Item {
    Committable(Arc<str>),
    Checkpoint(Arc<str>),
    State(Arc<str>),
}

/// One checkpoint, as far as it matters for what may go.
#[derive(Debug, Clone)]
struct Entry {
    id: u64,
    name: Arc<str>,
    states: BTreeSet<Arc<str>>,
    committables: BTreeSet<Arc<str>>,
}

/// The books of a store.
#[derive(Debug)]
pub(super) struct Kept {
    retained: NonZeroUsize,
    /// Oldest first.
    checkpoints: VecDeque<Entry>,
    /// Checkpoints beyond those, until they are really gone; their states go after them.
    dropped: Vec<Entry>,
    /// States that this owner put and that no durable checkpoint names yet.
    fresh: BTreeSet<Arc<str>>,
    /// Single things to be removed.
    garbage: BTreeSet<Item>,
    committable_name: fn(&Committable) -> String,
}

impl Kept {
    pub(super) fn new(committable_name: fn(&Committable) -> String) -> Self {
        Self {
            retained: DEFAULT_RETAINED,
            checkpoints: VecDeque::new(),
            dropped: Vec::new(),
            fresh: BTreeSet::new(),
            garbage: BTreeSet::new(),
            committable_name,
        }
    }

    /// From the next checkpoint on.
    pub(super) fn retain(&mut self, retained: NonZeroUsize) {
        self.retained = retained;
    }

    /// The newest checkpoint's number.
    pub(super) fn newest(&self) -> Option<u64> {
        self.checkpoints.back().map(|entry| entry.id)
    }

    /// A checkpoint that was found in the store, the oldest first.
    pub(super) fn found(&mut self, name: Arc<str>, checkpoint: &Checkpoint) {
        self.push(name, checkpoint);
    }

    /// A state is in the store now.
    pub(super) fn put(&mut self, name: Arc<str>) {
        self.fresh.insert(name);
    }

    /// A state was put for a checkpoint that was declined. True if it may be removed.
    pub(super) fn discard(&mut self, name: &Arc<str>) -> bool {
        self.fresh.remove(name)
    }

    /// Refuses a checkpoint that does not follow the newest, or names a state that is not there.
    pub(super) fn check(&self, checkpoint: &Checkpoint) -> Result<(), StoreError> {
        if let Some(newest) = self.newest().filter(|newest| checkpoint.id <= *newest) {
            return Err(StoreError::OutOfOrder { newest, found: checkpoint.id });
        }
        match checkpoint.stored_states().find(|name| !self.fresh.contains(*name) && !self.names(name)) {
            None => Ok(()),
            Some(name) => Err(StoreError::UnknownState { checkpoint: checkpoint.id, name: Arc::clone(name) }),
        }
    }

    /// A checkpoint is durable.
    pub(super) fn complete(&mut self, name: Arc<str>, checkpoint: &Checkpoint) {
        self.push(name, checkpoint);
        for state in checkpoint.stored_states() {
            self.fresh.remove(state);
        }
        while self.checkpoints.len() > self.retained.get() {
            self.dropped.extend(self.checkpoints.pop_front());
        }
    }

    /// Whether a kept checkpoint names this state.
    pub(super) fn names(&self, state: &Arc<str>) -> bool {
        self.checkpoints.iter().any(|entry| entry.states.contains(state))
    }

    /// Whether a checkpoint lists this committable, or did until it was settled.
    pub(super) fn lists(&self, committable: &str) -> bool {
        let settled = || self.garbage.contains(&Item::Committable(committable.into()));
        self.checkpoints.iter().any(|entry| entry.committables.contains(committable)) || settled()
    }

    /// What may go now, in the order in which it must go.
    pub(super) fn removable(&self) -> BTreeSet<Item> {
        let whole = self.dropped.iter().map(|entry| Item::Checkpoint(Arc::clone(&entry.name)));
        self.garbage.iter().cloned().chain(whole).collect()
    }

    /// Things that nothing needs and that nobody wrote down, because of a crash.
    pub(super) fn leftovers(&mut self, items: impl IntoIterator<Item = Item>) {
        self.garbage.extend(items);
    }

    /// A removable thing is gone. What may go after it is returned.
    pub(super) fn gone(&mut self, item: &Item) -> Vec<Item> {
        self.garbage.remove(item);
        let Item::Checkpoint(name) = item else { return Vec::new() };
        let Some(at) = self.dropped.iter().position(|entry| entry.name == *name) else { return Vec::new() };
        let entry = self.dropped.swap_remove(at);
        let states: Vec<_> =
            entry.states.into_iter().filter(|state| !self.names(state)).map(Item::State).collect();
        self.garbage.extend(states.iter().cloned());
        states
    }

    fn push(&mut self, name: Arc<str>, checkpoint: &Checkpoint) {
        let committables: BTreeSet<Arc<str>> = checkpoint
            .committables
            .iter()
            .map(|listed| (self.committable_name)(&listed.committable).into())
            .collect();
        // What an older checkpoint listed and this one does not is decided and settled. What none listed may be
        // prepared for the next checkpoint at this very moment, and stays.
        for older in &mut self.checkpoints {
            let (listed, settled) = std::mem::take(&mut older.committables)
                .into_iter()
                .partition(|name| committables.contains(name));
            older.committables = listed;
            let settled: BTreeSet<Arc<str>> = settled;
            self.garbage.extend(settled.into_iter().map(Item::Committable));
        }
        let states = checkpoint.stored_states().cloned().collect();
        self.checkpoints.push_back(Entry { id: checkpoint.id, name, states, committables });
    }
}

/// Where the names of the kept checkpoints stand in a head.
#[cfg(feature = "object-store")]
impl Kept {
    /// The names of the checkpoints that are kept, oldest first.
    pub(super) fn names_kept(&self) -> Vec<Arc<str>> {
        self.checkpoints.iter().map(|entry| Arc::clone(&entry.name)).collect()
    }

    /// Whether a kept checkpoint has this name.
    pub(super) fn knows(&self, name: &str) -> bool {
        self.checkpoints.iter().any(|entry| *entry.name == *name)
    }

    /// The names of the checkpoints that are kept once `next` is complete, oldest first.
    pub(super) fn names_with(&self, next: &Arc<str>) -> Vec<Arc<str>> {
        let beyond = (self.checkpoints.len() + 1).saturating_sub(self.retained.get());
        let stay = self.checkpoints.iter().skip(beyond).map(|entry| Arc::clone(&entry.name));
        stay.chain([Arc::clone(next)]).collect()
    }
}

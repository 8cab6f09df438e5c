//! How a transition becomes a record of the transaction log, and what happens to it when that lasts or fails.
//!
//! Usually an append takes no time. While the log is held, the entry keeps its state and has the next one as its pending
//! transition; whoever asked waits for the append, as Kafka's coordinator waits for the replicas of its log.

use kafka_protocol::error::ResponseError;

use super::Coordinator;
use super::entry::{Entry, Pending};

/// When the append that a decision needs is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Appended {
    Now,
    /// Once the id has had this many of them.
    After(u64),
}

/// What is held back.
#[derive(Debug, Default)]
pub(super) struct Log {
    appends_held: bool,
    fences_held: bool,
}

impl Log {
    pub(super) fn holds_fences(&self) -> bool {
        self.fences_held
    }
}

impl Coordinator {
    /// From now on appends last until [`Self::release_appends`].
    pub(crate) fn hold_appends(&mut self) {
        self.log.appends_held = true;
    }

    /// Ends all appends that last.
    pub(crate) fn release_appends(&mut self) {
        self.log.appends_held = false;
        for entry in self.entries.values_mut() {
            if let Some(Pending::Append(next)) = entry.pending.take_if(|p| matches!(p, Pending::Append(_))) {
                *entry = *next;
            }
        }
        self.entries.retain(|_, entry| entry.pending != Some(Pending::Tombstone));
    }

    /// Lets all appends that last fail: nothing of them is in the log.
    pub(crate) fn fail_appends(&mut self) {
        for entry in self.entries.values_mut() {
            if let Some(Pending::Append(next)) = entry.pending.take_if(|p| matches!(p, Pending::Append(_))) {
                // A fence has raised the epoch in memory already, and does not do it again.
                if next.fences_on_v1(entry) {
                    entry.pair.epoch = next.pair.epoch;
                    entry.failed_fence = true;
                }
            }
            entry.pending.take_if(|p| *p == Pending::Tombstone);
        }
    }

    /// From now on fences do not become aborts until [`Self::release_fences`].
    pub(crate) fn hold_fences(&mut self) {
        self.log.fences_held = true;
    }

    /// Prepares the aborts of all fences that were held, and tells their ids.
    pub(crate) fn release_fences(&mut self, now_ms: i64) -> Vec<(String, Appended)> {
        self.log.fences_held = false;
        let fenced = self.entries.iter().filter(|(_, entry)| entry.is_being_fenced());
        let fenced: Vec<String> = fenced.map(|(id, _)| id.clone()).collect();
        fenced.into_iter().map(|id| (id.clone(), self.fence(&id, now_ms))).collect()
    }

    /// Has the append come about?
    ///
    /// # Errors
    /// NOT_COORDINATOR when it will not: the coordinator moved, or the append failed.
    pub(crate) fn outcome(&self, id: &str, append: Appended) -> Result<bool, ResponseError> {
        let Appended::After(count) = append else { return Ok(true) };
        let entry = self.entries.get(id).ok_or(ResponseError::NotCoordinator)?;
        if entry.appends >= count {
            return Ok(true);
        }
        match entry.pending {
            Some(Pending::Append(_)) => Ok(false),
            _ => Err(ResponseError::NotCoordinator),
        }
    }

    /// Appends the next state of an entry.
    pub(super) fn append(&mut self, id: &str, next: Entry) -> Appended {
        let Some(entry) = self.entries.get_mut(id) else { return Appended::Now };
        if !self.log.appends_held {
            *entry = next;
            return Appended::Now;
        }
        let appended = Appended::After(next.appends);
        entry.pending = Some(Pending::Append(Box::new(next)));
        appended
    }

    pub(super) fn set_pending(&mut self, id: &str, pending: Pending) {
        if let Some(entry) = self.entries.get_mut(id) {
            entry.pending = Some(pending);
        }
    }

    /// Forgets an id, as `transactional.id.expiration.ms` does: `Empty` and `Complete` ones only.
    pub(crate) fn expire(&mut self, id: &str) -> bool {
        if !self.entries.get(id).is_some_and(Entry::is_idle) {
            return false;
        }
        if self.log.appends_held {
            self.set_pending(id, Pending::Tombstone);
        } else {
            self.entries.remove(id);
        }
        true
    }

    /// Forgets every id that has been idle for so long and for which `acts` is true.
    pub(crate) fn expire_idle(&mut self, expiration_ms: i64, now_ms: i64, acts: impl Fn(&str) -> bool) {
        let due = self.entries.iter().filter(|(id, e)| e.has_expired(expiration_ms, now_ms) && acts(id));
        let due: Vec<String> = due.map(|(id, _)| id.clone()).collect();
        for id in due {
            self.expire(&id);
        }
    }

    /// What a new leader of the transaction log does not find there is gone.
    pub(crate) fn reloaded(&mut self, moved: impl Fn(&str) -> bool) {
        self.entries.iter_mut().filter(|(id, _)| moved(id)).for_each(|(_, entry)| entry.reload());
        // An id whose first InitProducerId was never appended does not exist.
        self.entries.retain(|_, entry| entry.pair.epoch >= 0 || entry.pending.is_some());
    }
}

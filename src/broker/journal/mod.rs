//! The journal: every request that came, who sent it, what it named and what it was answered.

mod codes;
mod keys;

pub(crate) use self::codes::Codes;
pub(crate) use self::keys::Named;

use std::collections::VecDeque;

use super::fault::Reaction;
use crate::ids::{TopicId, TopicName, TopicPartition};
use crate::wire::api::Api;

/// What a request names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Keys {
    /// Its transactional id; of several, the first.
    pub transactional_id: Option<String>,
    /// Its group; of several, the first.
    pub group: Option<String>,
    /// Its producer id and epoch.
    pub producer: Option<(i64, i16)>,
    /// Its partitions. Of a topic that is named by an id which no topic has, the name is that id.
    pub partitions: Vec<TopicPartition>,
    /// Its topics without partitions, as Metadata has them.
    pub topics: Vec<String>,
    /// What EndTxn decides: true commits.
    pub commit: Option<bool>,
}

impl Keys {
    /// Tells a topic by its name that was named by its id.
    pub(crate) fn rename(&mut self, id: TopicId, name: &TopicName) {
        let id = id.to_string();
        for partition in self.partitions.iter_mut().filter(|p| *p.topic == *id) {
            partition.topic = name.clone();
        }
    }

    /// Does the request name this transactional id, group or topic?
    #[must_use]
    pub fn names(&self, id: &str) -> bool {
        self.transactional_id.as_deref() == Some(id)
            || self.group.as_deref() == Some(id)
            || self.partitions.iter().any(|p| &*p.topic == id)
            || self.topics.iter().any(|topic| topic == id)
    }
}

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct JournalEntry {
    /// When it came, by the broker's clock: milliseconds since the Unix epoch.
    pub time_ms: i64,
    /// The API.
    pub api: Api,
    /// The version.
    pub version: i16,
    /// The node that got it.
    pub node: i32,
    /// The connection, numbered from 1 in the order in which they were made.
    pub connection: u64,
    /// Who sent it. `User:ANONYMOUS` where nobody logs in.
    pub principal: String,
    /// The client's `client.id`.
    pub client_id: String,
    /// What it names.
    pub keys: Keys,
    /// The fault that hit it.
    pub reaction: Option<Reaction>,
    /// The first error code of the answer, or 0; `None` as long as there is no answer, or if there is none at all.
    pub answer: Option<i16>,
}

/// How many requests are remembered.
const REMEMBERED: usize = 100_000;

/// The newest requests, in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    entries: VecDeque<JournalEntry>,
    /// The number of the first of them.
    first: u64,
}

impl Journal {
    /// Adds a request, and tells its number.
    pub(crate) fn began(&mut self, entry: JournalEntry) -> u64 {
        if self.entries.len() == REMEMBERED {
            self.entries.pop_front();
            self.first += 1;
        }
        self.entries.push_back(entry);
        self.first + self.entries.len() as u64 - 1
    }

    pub(crate) fn answered(&mut self, number: u64, code: i16) {
        let index = number.checked_sub(self.first).and_then(|i| usize::try_from(i).ok());
        if let Some(entry) = index.and_then(|i| self.entries.get_mut(i)) {
            entry.answer = Some(code);
        }
    }

    pub(crate) fn entries(&self) -> Vec<JournalEntry> {
        self.entries.iter().cloned().collect()
    }

    pub(crate) fn clear(&mut self) {
        self.first += self.entries.len() as u64;
        self.entries.clear();
    }
}

//! What came.

use std::collections::BTreeMap;

use kafka_protocol::messages::ApiKey;
use serde_json::{Value, json};

/// So many requests are remembered in their order.
const REMEMBERED: usize = 200_000;

/// What came, and what was wrong with it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests, by the name of their API.
    pub requests: BTreeMap<String, u64>,
    /// Their names in order.
    pub journal: Vec<ApiKey>,
    /// Records, as the headers of their batches say.
    pub records: u64,
    /// Batches.
    pub batches: u64,
    /// Bytes of batches.
    pub batch_bytes: u64,
    /// Bytes of requests.
    pub request_bytes: u64,
    /// Commits.
    pub commits: u64,
    /// Aborts.
    pub aborts: u64,
    /// Batches whose checksum is wrong.
    pub crc_errors: u64,
    /// Batches whose sequence is not the next one of their producer on their partition.
    pub sequence_gaps: u64,
    /// Batches whose records are not as many as they say, or can't be read.
    pub record_errors: u64,
    /// What no broker would have taken, in words.
    pub complaints: Vec<String>,
}

impl Counters {
    pub(super) fn request(&mut self, api: ApiKey, bytes: usize) {
        *self.requests.entry(name(api)).or_default() += 1;
        self.request_bytes += bytes as u64;
        if self.journal.len() < REMEMBERED {
            self.journal.push(api);
        }
    }

    /// How many requests of this API came.
    #[must_use]
    pub fn of(&self, api: ApiKey) -> u64 {
        self.requests.get(&name(api)).copied().unwrap_or(0)
    }

    /// Everything that is wrong, in words; nothing if a real broker would have taken it all.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let counted = [
            (self.crc_errors, "wrong checksums"),
            (self.sequence_gaps, "sequences that do not follow"),
            (self.record_errors, "batches with other records than they say"),
        ];
        let counted = counted.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}"));
        counted.chain(self.complaints.iter().take(3).cloned()).collect()
    }

    /// All of it but the order of requests.
    #[must_use]
    pub fn json(&self) -> Value {
        json!({
            "requests": self.requests,
            "records": self.records,
            "batches": self.batches,
            "batch_bytes": self.batch_bytes,
            "request_bytes": self.request_bytes,
            "commits": self.commits,
            "aborts": self.aborts,
            "crc_errors": self.crc_errors,
            "sequence_gaps": self.sequence_gaps,
            "record_errors": self.record_errors,
            "complaints": self.complaints,
        })
    }
}

fn name(api: ApiKey) -> String {
    format!("{api:?}")
}

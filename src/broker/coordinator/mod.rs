//! The transaction coordinator's decisions, without sockets, tasks or a clock.
//!
//! [`Coordinator`] holds the entries of all nodes; which node may act on an entry is the cluster's affair.

pub(crate) mod add_partitions;
pub(crate) mod end_txn;
pub(crate) mod entry;
pub(crate) mod init_producer_id;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use kafka_protocol::error::ResponseError;

use self::entry::{Entry, Pair, State};
use super::log::marker::Outcome;
use crate::ids::TopicPartition;
use crate::wire::versions::TransactionVersion;

/// All transactional ids, and the source of producer ids.
#[derive(Debug)]
pub(crate) struct Coordinator {
    entries: BTreeMap<String, Entry>,
    next_producer_id: i64,
    max_timeout_ms: i32,
    server_version: TransactionVersion,
}

/// What EndTxn answers, and whether markers are to be sent now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// A repeated request.
    Already(Pair),
    /// The end is prepared: send the markers.
    Prepared(Pair),
}

impl Coordinator {
    pub(crate) fn new(max_timeout_ms: i32, server_version: TransactionVersion) -> Self {
        Self { entries: BTreeMap::new(), next_producer_id: 0, max_timeout_ms, server_version }
    }

    /// The finalized level of `transaction.version`.
    pub(crate) fn server_version(&self) -> TransactionVersion {
        self.server_version
    }

    pub(crate) fn set_server_version(&mut self, level: TransactionVersion) {
        self.server_version = level;
    }

    /// A producer id that was never given out.
    pub(crate) fn new_producer_id(&mut self) -> i64 {
        let id = self.next_producer_id;
        self.next_producer_id += 1;
        id
    }

    pub(crate) fn entry(&self, id: &str) -> Option<&Entry> {
        self.entries.get(id)
    }

    pub(crate) fn entry_mut(&mut self, id: &str) -> Option<&mut Entry> {
        self.entries.get_mut(id)
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.entries.iter().map(|(id, entry)| (id.as_str(), entry))
    }

    /// Forgets an id, as `transactional.id.expiration.ms` does: `Empty` and `Complete` ones only.
    pub(crate) fn expire(&mut self, id: &str) -> bool {
        let idle = |e: &Entry| e.state != State::Ongoing && !e.is_pending();
        self.entries.get(id).is_some_and(idle) && self.entries.remove(id).is_some()
    }

    /// Raises an idle id's epoch to the one before `epoch`.
    pub(crate) fn wear_out(&mut self, id: &str, epoch: i16) -> bool {
        let Some(entry) = self.entries.get_mut(id).filter(|e| e.state != State::Ongoing && !e.is_pending())
        else {
            return false;
        };
        entry.pair.epoch = entry.pair.epoch.max(epoch.saturating_sub(1));
        entry.last_epoch = -1;
        true
    }

    /// InitProducerId; `Fence` was carried out already, so that markers are to be sent.
    ///
    /// # Errors
    /// The code to answer.
    pub(crate) fn init_producer_id(
        &mut self,
        id: &str,
        request: init_producer_id::Request,
        now_ms: i64,
    ) -> Result<init_producer_id::Decision, ResponseError> {
        if id.is_empty() {
            return Err(ResponseError::InvalidRequest);
        }
        if request.timeout_ms <= 0 || request.timeout_ms > self.max_timeout_ms {
            return Err(ResponseError::InvalidTransactionTimeout);
        }
        if !self.entries.contains_key(id) {
            let fresh = Entry::fresh(self.new_producer_id(), request.timeout_ms, now_ms);
            self.entries.insert(id.to_owned(), fresh);
        }
        let (Some(entry), next) = (self.entries.get_mut(id), &mut self.next_producer_id) else {
            return Err(ResponseError::UnknownServerError);
        };
        let decision = init_producer_id::init(entry, request, || take(next), now_ms)?;
        if decision == init_producer_id::Decision::Fence {
            entry.fence(self.server_version, || take(next), now_ms);
        }
        Ok(decision)
    }

    /// EndTxn.
    ///
    /// # Errors
    /// The code to answer.
    pub(crate) fn end_txn(
        &mut self,
        id: &str,
        who: Pair,
        end: (Outcome, TransactionVersion),
        now_ms: i64,
    ) -> Result<Ended, ResponseError> {
        let (outcome, version) = end;
        let refuses = self.refuses(version);
        let (entry, next) = (self.entries.get_mut(id), &mut self.next_producer_id);
        let entry = entry.ok_or(ResponseError::InvalidProducerIdMapping)?;
        match end_txn::decide(entry, who, outcome, version)? {
            end_txn::Decision::Repeated => Ok(Ended::Already(entry.pair)),
            end_txn::Decision::Prepare if refuses => {
                entry.stuck = true;
                Err(ResponseError::UnsupportedVersion)
            }
            end_txn::Decision::Prepare => {
                Ok(Ended::Prepared(entry.prepare(outcome, version, || take(next), now_ms)))
            }
        }
    }

    /// The log format of level 0 cannot hold what a request of level 2 asks for.
    fn refuses(&self, version: TransactionVersion) -> bool {
        version == TransactionVersion::V2 && self.server_version == TransactionVersion::V0
    }

    /// The implicit add of Produce 12 and TxnOffsetCommit 5: as [`Self::add_partitions`], for transactions V2.
    ///
    /// # Errors
    /// The code to answer; UNSUPPORTED_VERSION at level 0, and the id is stuck from then on.
    pub(crate) fn add_implicitly(
        &mut self,
        id: &str,
        who: Pair,
        partition: &TopicPartition,
        now_ms: i64,
    ) -> Result<(), ResponseError> {
        let before = self.entries.get(id).cloned();
        self.add_partitions(id, who, std::slice::from_ref(partition), now_ms)?;
        match (self.entries.get_mut(id), before) {
            (Some(entry), Some(before))
                if *entry != before && self.server_version == TransactionVersion::V0 =>
            {
                *entry = Entry { stuck: true, ..before };
                Err(ResponseError::UnsupportedVersion)
            }
            _ => Ok(()),
        }
    }

    /// AddPartitionsToTxn and AddOffsetsToTxn.
    ///
    /// # Errors
    /// The code to answer.
    pub(crate) fn add_partitions(
        &mut self,
        id: &str,
        who: Pair,
        partitions: &[TopicPartition],
        now_ms: i64,
    ) -> Result<(), ResponseError> {
        let entry = self.entries.get_mut(id).ok_or(ResponseError::InvalidProducerIdMapping)?;
        add_partitions::add(entry, who, partitions, now_ms)
    }

    /// Whether `partition` was added to the open transaction of `who`.
    ///
    /// # Errors
    /// The code that the coordinator answers to the partition's leader.
    pub(crate) fn verify(
        &self,
        id: &str,
        who: Pair,
        partition: &TopicPartition,
    ) -> Result<(), ResponseError> {
        let entry = self.entries.get(id).ok_or(ResponseError::InvalidProducerIdMapping)?;
        add_partitions::verify(entry, who, partition)
    }

    /// Fences every transaction whose timeout has passed and for which `acts` is true; tells their ids.
    pub(crate) fn sweep(&mut self, now_ms: i64, acts: impl Fn(&str) -> bool) -> Vec<String> {
        let (version, next) = (self.server_version, &mut self.next_producer_id);
        let mut fenced = Vec::new();
        for (id, entry) in &mut self.entries {
            if entry.has_timed_out(now_ms) && acts(id) {
                entry.fence(version, || take(next), now_ms);
                fenced.push(id.clone());
            }
        }
        fenced
    }

    /// What a new leader of the transaction log does not find there: who may repeat an InitProducerId, and
    /// transitions that failed half way.
    pub(crate) fn reloaded(&mut self, moved: impl Fn(&str) -> bool) {
        for (_, entry) in self.entries.iter_mut().filter(|(id, _)| moved(id)) {
            entry.last_epoch = -1;
            entry.stuck = false;
        }
    }
}

fn take(next: &mut i64) -> i64 {
    *next += 1;
    *next - 1
}

/// The partition of `__transaction_state` or `__consumer_offsets` that a key belongs to: the absolute value of Java's
/// string hash, and 0 for the one number that has none (`Utils.abs`).
pub(crate) fn partition_for(key: &str, partitions: i32) -> i32 {
    let hash = key.encode_utf16().fold(0i32, |h, unit| h.wrapping_mul(31).wrapping_add(i32::from(unit)));
    hash.checked_abs().unwrap_or(0) % partitions.max(1)
}

//! The transaction coordinator's decisions, without sockets, tasks or a clock.
//!
//! [`Coordinator`] holds the entries of all nodes; which node may act on an entry is the cluster's affair.

pub(crate) mod add_partitions;
pub(crate) mod end_txn;
pub(crate) mod entry;
pub(crate) mod init_producer_id;
#[cfg(test)]
mod tests;
pub(crate) mod transit;

use std::collections::BTreeMap;

use kafka_protocol::error::ResponseError;

use self::add_partitions::PendingAdd;
use self::end_txn::AfterAbort;
use self::entry::{Bumps, Entry, Pair, Pending};
use self::transit::{Appended, Log};
use super::log::marker::Outcome;
use crate::ids::TopicPartition;
use crate::wire::versions::TransactionVersion;

/// All transactional ids, and the source of producer ids.
#[derive(Debug)]
pub(crate) struct Coordinator {
    entries: BTreeMap<String, Entry>,
    next_producer_id: i64,
    rules: Rules,
    /// How often the finalized features changed.
    features_epoch: i64,
    log: Log,
}

/// What differs between configurations and releases.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    /// `transaction.max.timeout.ms`.
    pub(crate) max_timeout_ms: i32,
    /// The finalized level of `transaction.version`.
    pub(crate) level: TransactionVersion,
    pub(crate) after_abort: AfterAbort,
    pub(crate) fence_bumps: Bumps,
    pub(crate) pending_add: PendingAdd,
}

/// What EndTxn answers, and whether markers are to be sent then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// A repeated request.
    Already(Pair),
    /// The end is prepared: once that is appended, send the markers.
    Prepared(Pair, Appended),
}

/// What InitProducerId answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Initialized {
    /// This pair, once that is appended.
    Ready(Pair, Appended),
    /// CONCURRENT_TRANSACTIONS: an open transaction is being aborted. Once that is appended, send its markers.
    Fenced(Appended),
    /// The same, and the fence waits before it becomes an abort.
    Fencing,
}

impl Coordinator {
    pub(crate) fn new(rules: Rules) -> Self {
        Self { entries: BTreeMap::new(), next_producer_id: 0, rules, features_epoch: 1, log: Log::default() }
    }

    /// The finalized level of `transaction.version`, and the epoch of the features.
    pub(crate) fn features(&self) -> (TransactionVersion, i64) {
        (self.rules.level, self.features_epoch)
    }

    pub(crate) fn set_level(&mut self, level: TransactionVersion) {
        self.rules.level = level;
        self.features_epoch += 1;
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

    /// Raises an idle id's epoch to the one before `epoch`.
    pub(crate) fn wear_out(&mut self, id: &str, epoch: i16) -> bool {
        let Some(entry) = self.entries.get_mut(id).filter(|e| e.is_idle()) else { return false };
        entry.pair.epoch = entry.pair.epoch.max(epoch.saturating_sub(1));
        entry.last_epoch = -1;
        true
    }

    /// InitProducerId.
    ///
    /// # Errors
    /// The code to answer.
    pub(crate) fn init_producer_id(
        &mut self,
        id: &str,
        request: init_producer_id::Request,
        now_ms: i64,
    ) -> Result<Initialized, ResponseError> {
        if id.is_empty() {
            return Err(ResponseError::InvalidRequest);
        }
        if request.timeout_ms <= 0 || request.timeout_ms > self.rules.max_timeout_ms {
            return Err(ResponseError::InvalidTransactionTimeout);
        }
        if !self.entries.contains_key(id) {
            let fresh = Entry::fresh(self.new_producer_id(), request.timeout_ms, now_ms);
            self.entries.insert(id.to_owned(), fresh);
        }
        let (Some(entry), next) = (self.entries.get(id), &mut self.next_producer_id) else {
            return Err(ResponseError::UnknownServerError);
        };
        let mut entry = entry.clone();
        match init_producer_id::init(&mut entry, request, || take(next), now_ms)? {
            init_producer_id::Decision::Ready(pair) => Ok(Initialized::Ready(pair, self.append(id, entry))),
            init_producer_id::Decision::Fence if self.log.holds_fences() => {
                self.set_pending(id, Pending::EpochFence);
                Ok(Initialized::Fencing)
            }
            init_producer_id::Decision::Fence => Ok(Initialized::Fenced(self.fence(id, now_ms))),
        }
    }

    /// Aborts what is open under an id, with a raised epoch.
    fn fence(&mut self, id: &str, now_ms: i64) -> Appended {
        let Some(mut entry) = self.entries.get(id).cloned() else { return Appended::Now };
        let (rules, next) = (self.rules, &mut self.next_producer_id);
        entry.fence(rules.level, rules.fence_bumps, || take(next), now_ms);
        self.append(id, entry)
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
        let (entry, next) = (self.entries.get(id), &mut self.next_producer_id);
        let mut entry = entry.ok_or(ResponseError::InvalidProducerIdMapping)?.clone();
        match end_txn::decide(&entry, who, outcome, (version, self.rules.after_abort))? {
            end_txn::Decision::Repeated => Ok(Ended::Already(entry.pair)),
            end_txn::Decision::Prepare if refuses => {
                self.set_pending(id, Pending::Stuck);
                Err(ResponseError::UnsupportedVersion)
            }
            end_txn::Decision::Prepare => {
                let pair = entry.prepare(outcome, version, || take(next), now_ms);
                Ok(Ended::Prepared(pair, self.append(id, entry)))
            }
        }
    }

    /// The log format of level 0 cannot hold what a request of level 2 asks for.
    fn refuses(&self, version: TransactionVersion) -> bool {
        version == TransactionVersion::V2 && self.rules.level == TransactionVersion::V0
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
        let entry = self.entries.get(id).ok_or(ResponseError::InvalidProducerIdMapping)?;
        let mut next = entry.clone();
        add_partitions::add(&mut next, who, std::slice::from_ref(partition), PendingAdd::BeforePair, now_ms)?;
        if next.appends == entry.appends {
            return Ok(());
        }
        if self.rules.level == TransactionVersion::V0 {
            self.set_pending(id, Pending::Stuck);
            return Err(ResponseError::UnsupportedVersion);
        }
        self.entries.insert(id.to_owned(), next);
        Ok(())
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
    ) -> Result<Appended, ResponseError> {
        let entry = self.entries.get(id).ok_or(ResponseError::InvalidProducerIdMapping)?;
        let mut next = entry.clone();
        add_partitions::add(&mut next, who, partitions, self.rules.pending_add, now_ms)?;
        let grown = next.appends != entry.appends;
        Ok(if grown { self.append(id, next) } else { Appended::Now })
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
    pub(crate) fn sweep(&mut self, now_ms: i64, acts: impl Fn(&str) -> bool) -> Vec<(String, Appended)> {
        let due = self.entries.iter().filter(|(id, entry)| entry.has_timed_out(now_ms) && acts(id));
        let due: Vec<String> = due.map(|(id, _)| id.clone()).collect();
        due.into_iter().map(|id| (id.clone(), self.fence(&id, now_ms))).collect()
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

//! Consumer groups: committed offsets, offsets that wait for a transaction's end, and members. Pure.
//!
//! Enough for consumers that assign partitions themselves and for groups of one member: a second member that joins
//! takes the group over, and the first learns it by its next heartbeat.

use std::collections::BTreeMap;

use bytes::Bytes;
use kafka_protocol::error::ResponseError;

use crate::ids::TopicPartition;

/// A committed position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Committed {
    pub(crate) offset: i64,
    pub(crate) leader_epoch: i32,
    pub(crate) metadata: String,
    /// Its place among all that was ever kept: what was kept later counts, whichever transaction ends first.
    pub(crate) order: u64,
}

/// One group.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub(crate) offsets: BTreeMap<TopicPartition, Committed>,
    /// Offsets of open transactions, by producer id.
    pub(crate) pending: BTreeMap<i64, BTreeMap<TopicPartition, Committed>>,
    pub(crate) generation: i32,
    pub(crate) member: Option<String>,
    pub(crate) assignment: Bytes,
}

/// All groups, by id.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    by_id: BTreeMap<String, Group>,
    members: u64,
    kept: u64,
}

impl Groups {
    pub(crate) fn group(&self, id: &str) -> Option<&Group> {
        self.by_id.get(id)
    }

    pub(crate) fn group_mut(&mut self, id: &str) -> &mut Group {
        self.by_id.entry(id.to_owned()).or_default()
    }

    /// The next [`Committed::order`].
    pub(crate) fn next_order(&mut self) -> u64 {
        self.kept += 1;
        self.kept
    }

    /// A member id that nobody else has.
    pub(crate) fn new_member(&mut self, client: &str) -> String {
        self.members += 1;
        format!("{client}-{}", self.members)
    }

    /// Ends a producer's transaction in the groups that `belongs` to the partition the marker was for.
    pub(crate) fn end_transaction(&mut self, producer_id: i64, commit: bool, belongs: impl Fn(&str) -> bool) {
        for (_, group) in self.by_id.iter_mut().filter(|(id, _)| belongs(id)) {
            let offsets = group.pending.remove(&producer_id).unwrap_or_default();
            for (at, committed) in offsets.into_iter().filter(|_| commit) {
                if group.offsets.get(&at).is_none_or(|kept| kept.order < committed.order) {
                    group.offsets.insert(at, committed);
                }
            }
        }
    }
}

impl Group {
    /// Is this the member, in the current generation?
    ///
    /// # Errors
    /// UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION.
    pub(crate) fn check_member(&self, member: &str, generation: i32) -> Result<(), ResponseError> {
        if self.member.as_deref() != Some(member) {
            return Err(ResponseError::UnknownMemberId);
        }
        if generation == self.generation { Ok(()) } else { Err(ResponseError::IllegalGeneration) }
    }

    /// May offsets be committed by this member, or by nobody in particular (no member id, generation -1)?
    ///
    /// # Errors
    /// As [`Self::check_member`].
    pub(crate) fn check_commit(&self, member: &str, generation: i32) -> Result<(), ResponseError> {
        if member.is_empty() && generation < 0 { Ok(()) } else { self.check_member(member, generation) }
    }

    /// Removes the member.
    ///
    /// # Errors
    /// UNKNOWN_MEMBER_ID.
    pub(crate) fn leave(&mut self, member: &str) -> Result<(), ResponseError> {
        if self.member.as_deref() != Some(member) {
            return Err(ResponseError::UnknownMemberId);
        }
        self.member = None;
        self.generation += 1;
        Ok(())
    }

    /// Does a transaction hold offsets of this partition back?
    pub(crate) fn is_unstable(&self, at: &TopicPartition) -> bool {
        self.pending.values().any(|offsets| offsets.contains_key(at))
    }
}

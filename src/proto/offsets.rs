//! Offsets of a consumer group, and where Kafka keeps them.

use std::collections::BTreeMap;

use crate::ids::{GroupId, TopicPartition};

/// The log of the group coordinators. A transaction that carries offsets of a group has a marker on one partition of it.
pub const OFFSETS_TOPIC: &str = "__consumer_offsets";

/// Who commits offsets: Kafka's `ConsumerGroupMetadata`.
///
/// Whoever assigns partitions itself, as a job with checkpoints does, is no member: [`new`](Self::new) alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerGroupMetadata {
    /// `group.id`.
    pub group_id: GroupId,
    /// The group's generation, or the member's epoch in the protocol of KIP-848; -1 without a member.
    pub generation_id: i32,
    /// The member's id; empty without one.
    pub member_id: String,
    /// `group.instance.id` of a static member.
    pub group_instance_id: Option<String>,
}

/// A position in a partition: Kafka's `OffsetAndMetadata`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OffsetAndMetadata {
    /// The offset of the next record to read, not below 0.
    pub offset: i64,
    /// The leader epoch of what was read last, where known (KIP-320). Brokers keep it from TxnOffsetCommit 2 on.
    pub leader_epoch: Option<i32>,
    /// Any text; brokers take as many bytes as `offset.metadata.max.bytes` says, 4096 by default.
    pub metadata: String,
}

/// Offsets that one group commits at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupOffsets {
    /// The group.
    pub group: ConsumerGroupMetadata,
    /// The offsets.
    pub offsets: BTreeMap<TopicPartition, OffsetAndMetadata>,
}

impl ConsumerGroupMetadata {
    /// A group of which the caller is no member: generation -1 and no member id.
    #[must_use]
    pub fn new(group_id: GroupId) -> Self {
        Self { group_id, generation_id: -1, member_id: String::new(), group_instance_id: None }
    }

    /// True for a member of the group, which TxnOffsetCommit can name from version 3 on.
    #[must_use]
    pub fn is_member(&self) -> bool {
        self.generation_id >= 0 || !self.member_id.is_empty() || self.group_instance_id.is_some()
    }
}

impl OffsetAndMetadata {
    /// An offset alone.
    #[must_use]
    pub fn new(offset: i64) -> Self {
        Self { offset, leader_epoch: None, metadata: String::new() }
    }
}

/// The partition of [`OFFSETS_TOPIC`] that holds a group's offsets, as `GroupCoordinatorService.partitionFor` chooses it;
/// `None` while it is not known how many there are.
#[must_use]
pub fn offsets_partition(group: &GroupId, partitions: i32) -> Option<TopicPartition> {
    let text = group.as_str();
    let hash = text.encode_utf16().fold(0i32, |h, unit| h.wrapping_mul(31).wrapping_add(i32::from(unit)));
    // `Utils.abs`, which is not `toPositive`: the smallest number has no counterpart, and counts as 0.
    let hash = hash.checked_abs().unwrap_or(0);
    hash.checked_rem(partitions).map(|index| TopicPartition::new(OFFSETS_TOPIC, index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_groups_partition_is_that_of_javas_hash() {
        // "orders".hashCode() is -1008770331, "polygenelubricants".hashCode() is Integer.MIN_VALUE.
        for (group, partitions, index) in
            [("orders", 50, 31), ("polygenelubricants", 50, 0), ("a", 50, 47), ("", 50, 0), ("orders", 1, 0)]
        {
            let found = offsets_partition(&GroupId::new(group), partitions);
            assert_eq!(found, Some(TopicPartition::new(OFFSETS_TOPIC, index)), "{group}");
        }
        assert_eq!(offsets_partition(&GroupId::new("a"), 0), None);
    }
}

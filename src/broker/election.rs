//! Who leads what: elections after nodes came or went, and moves on command.

use super::cluster::{Cluster, OFFSETS_TOPIC, TRANSACTION_TOPIC};
use super::coordinator::partition_for;
use crate::ids::TopicPartition;

/// Who is to lead a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NewLeader {
    /// The replica behind the present one that is up; itself again where there is none.
    Next,
    Node(i32),
    Nobody,
}

impl Cluster {
    /// Marks a node as up or down and elects leaders; coordinators that moved have read their log again.
    pub(crate) fn set_up(&mut self, node: i32, up: bool) {
        if let Some(known) = self.nodes.get_mut(&node) {
            known.up = up;
        }
        self.thaw(node);
        let nodes = self.nodes.clone();
        let is_up = |n: i32| nodes.get(&n).is_some_and(|n| n.up);
        let mut moved = Vec::new();
        for (name, topic) in self.topics.iter_mut() {
            for (index, partition) in topic.partitions.iter_mut().enumerate() {
                if partition.elect(is_up) && &**name == TRANSACTION_TOPIC {
                    moved.push(i32::try_from(index).unwrap_or(0));
                }
            }
        }
        self.reload(&moved);
    }

    /// Lets somebody else lead a partition; false when there is no such partition, or the node holds no replica of it or
    /// is down.
    pub(crate) fn move_leader(&mut self, at: &TopicPartition, to: NewLeader) -> bool {
        let nodes = self.nodes.clone();
        let is_up = |n: i32| nodes.get(&n).is_some_and(|n| n.up);
        let found = self.topics.named_mut(&at.topic).and_then(|t| t.partition_mut(at.partition));
        let Some(partition) = found else { return false };
        let leader = match to {
            NewLeader::Nobody => None,
            NewLeader::Next => partition.next_leader(is_up),
            NewLeader::Node(node) if partition.replicas.contains(&node) && is_up(node) => Some(node),
            NewLeader::Node(_) => return false,
        };
        partition.leader = leader;
        partition.leader_epoch += 1;
        if &*at.topic == TRANSACTION_TOPIC {
            self.reload(&[at.partition]);
        }
        true
    }

    /// The partition of `__transaction_state` that an id belongs to.
    pub(crate) fn transaction_partition(&self, id: &str) -> TopicPartition {
        TopicPartition::new(TRANSACTION_TOPIC, partition_for(id, self.count(TRANSACTION_TOPIC)))
    }

    /// The partition of `__consumer_offsets` that holds a group's offsets.
    pub(crate) fn offsets_partition(&self, group: &str) -> TopicPartition {
        TopicPartition::new(OFFSETS_TOPIC, partition_for(group, self.count(OFFSETS_TOPIC)))
    }

    fn count(&self, topic: &str) -> i32 {
        self.topics.named(topic).and_then(|t| i32::try_from(t.partitions.len()).ok()).unwrap_or(1)
    }

    fn reload(&mut self, moved: &[i32]) {
        let count = self.count(TRANSACTION_TOPIC);
        self.transactions.reloaded(|id| moved.contains(&partition_for(id, count)));
    }
}

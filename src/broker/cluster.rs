//! The cluster's state, as one value under one lock: nodes, topics, the coordinators' memory.

use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::error::ResponseError;

use super::clock::Clock;
use super::config::BrokerConfig;
use super::coordinator::{Coordinator, partition_for};
use super::groups::Groups;
use super::log::MarkerRules;
use super::log::marker::Marker;
use super::log::producers::RepeatedMarker;
use super::profile::Quirk;
use super::random::random_topic_id;
use super::topics::{Partition, Topic, Topics};
use crate::ids::{TopicName, TopicPartition};

/// The log of the transaction coordinators. Only its leadership is real here; its records are not kept.
pub(crate) const TRANSACTION_TOPIC: &str = "__transaction_state";
/// The log of the group coordinators, likewise.
pub(crate) const OFFSETS_TOPIC: &str = "__consumer_offsets";

/// One node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) up: bool,
}

/// Everything that the nodes share.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) id: String,
    pub(crate) clock: Clock,
    repeated_marker: RepeatedMarker,
    /// Nodes that do nothing, although they are up.
    frozen: BTreeSet<i32>,
    pub(crate) nodes: BTreeMap<i32, Node>,
    pub(crate) topics: Topics,
    pub(crate) transactions: Coordinator,
    pub(crate) groups: Groups,
}

/// A topic to be created.
#[derive(Debug, Default)]
pub(crate) struct NewTopic {
    /// The replicas of each partition.
    pub(crate) assignment: Vec<Vec<i32>>,
    pub(crate) configs: BTreeMap<String, String>,
    pub(crate) internal: bool,
}

impl Cluster {
    pub(crate) fn new(id: String, nodes: BTreeMap<i32, Node>, config: &BrokerConfig) -> Self {
        let mut cluster = Self {
            id,
            clock: Clock::start(),
            repeated_marker: match config.profile.has(Quirk::RepeatedMarkerRefused) {
                true => RepeatedMarker::Refused,
                false => RepeatedMarker::Taken,
            },
            frozen: BTreeSet::new(),
            nodes,
            topics: Topics::default(),
            transactions: Coordinator::new(config.coordinator_rules()),
            groups: Groups::default(),
        };
        for (name, partitions) in
            [(TRANSACTION_TOPIC, config.transaction_partitions), (OFFSETS_TOPIC, config.offsets_partitions)]
        {
            let assignment = cluster.spread(partitions, 3.min(config.nodes));
            cluster.create(name.into(), NewTopic { assignment, internal: true, ..NewTopic::default() });
        }
        cluster
    }

    pub(crate) fn is_up(&self, node: i32) -> bool {
        self.nodes.get(&node).is_some_and(|n| n.up)
    }

    pub(crate) fn is_frozen(&self, node: i32) -> bool {
        self.frozen.contains(&node)
    }

    pub(crate) fn freeze(&mut self, node: i32) {
        self.frozen.insert(node);
    }

    pub(crate) fn thaw(&mut self, node: i32) {
        self.frozen.remove(&node);
    }

    /// The controller: the lowest node that is up.
    pub(crate) fn controller(&self) -> i32 {
        self.nodes.iter().find(|(_, n)| n.up).map_or(-1, |(id, _)| *id)
    }

    /// Replicas for new partitions, round robin over all nodes.
    pub(crate) fn spread(&self, partitions: i32, replicas: usize) -> Vec<Vec<i32>> {
        let nodes: Vec<i32> = self.nodes.keys().copied().collect();
        (0..usize::try_from(partitions).unwrap_or(0))
            .map(|p| (0..replicas).map(|r| nodes[(p + r) % nodes.len()]).collect())
            .collect()
    }

    pub(crate) fn create(&mut self, name: TopicName, new: NewTopic) {
        let partitions =
            new.assignment.into_iter().map(|replicas| Partition::new(replicas, |n| self.is_up(n)));
        let topic = Topic {
            id: random_topic_id(),
            partitions: partitions.collect(),
            configs: new.configs,
            internal: new.internal,
        };
        self.topics.insert(name, topic);
    }

    /// Gives a topic the partitions of `assignment` that it does not have yet; false when there is no such topic.
    pub(crate) fn grow(&mut self, name: &str, assignment: Vec<Vec<i32>>) -> bool {
        let nodes = self.nodes.clone();
        let is_up = |n: i32| nodes.get(&n).is_some_and(|n| n.up);
        let Some(topic) = self.topics.named_mut(name) else { return false };
        let more = assignment.into_iter().skip(topic.partitions.len());
        topic.partitions.extend(more.map(|replicas| Partition::new(replicas, is_up)));
        true
    }

    /// The partition, when `node` leads it.
    ///
    /// # Errors
    /// UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER.
    pub(crate) fn led_by(
        &mut self,
        node: i32,
        topic: &str,
        index: i32,
    ) -> Result<&mut Partition, ResponseError> {
        let found = self.topics.named_mut(topic).and_then(|t| t.partition_mut(index));
        let partition = found.ok_or(ResponseError::UnknownTopicOrPartition)?;
        if partition.leader == Some(node) { Ok(partition) } else { Err(ResponseError::NotLeaderOrFollower) }
    }

    /// The partition, when `node` holds a replica of it.
    ///
    /// # Errors
    /// UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER.
    pub(crate) fn held_by(&self, node: i32, topic: &str, index: i32) -> Result<&Partition, ResponseError> {
        let found = self.topics.named(topic).and_then(|t| t.partition(index));
        let partition = found.ok_or(ResponseError::UnknownTopicOrPartition)?;
        if partition.replicas.contains(&node) {
            Ok(partition)
        } else {
            Err(ResponseError::NotLeaderOrFollower)
        }
    }

    /// Appends a marker to a partition.
    ///
    /// # Errors
    /// UNKNOWN_TOPIC_OR_PARTITION, INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED.
    pub(crate) fn mark(&mut self, at: &TopicPartition, marker: &Marker) -> Result<(), ResponseError> {
        let (now_ms, repeated) = (self.clock.now_ms(), self.repeated_marker);
        let found = self.topics.named_mut(&at.topic).and_then(|t| t.partition_mut(at.partition));
        let partition = found.ok_or(ResponseError::UnknownTopicOrPartition)?;
        let rules = MarkerRules { leader_epoch: partition.leader_epoch, repeated, now_ms };
        partition.log.append_marker(marker, rules)
    }

    pub(crate) fn partition(&self, at: &TopicPartition) -> Option<&Partition> {
        self.topics.named(&at.topic).and_then(|t| t.partition(at.partition))
    }

    /// The node that coordinates a transactional id, and its coordinator epoch.
    pub(crate) fn transaction_coordinator(&self, id: &str) -> Option<(i32, i32)> {
        self.coordinator(TRANSACTION_TOPIC, id)
    }

    /// The node that coordinates a group.
    pub(crate) fn group_coordinator(&self, group: &str) -> Option<i32> {
        self.coordinator(OFFSETS_TOPIC, group).map(|(node, _)| node)
    }

    fn coordinator(&self, topic: &str, key: &str) -> Option<(i32, i32)> {
        let topic = self.topics.named(topic)?;
        let index = partition_for(key, i32::try_from(topic.partitions.len()).ok()?);
        let partition = topic.partition(index)?;
        partition.leader.map(|node| (node, partition.leader_epoch))
    }

    /// Fails unless `node` coordinates the transactional id.
    ///
    /// # Errors
    /// NOT_COORDINATOR.
    pub(crate) fn check_transaction_coordinator(&self, node: i32, id: &str) -> Result<(), ResponseError> {
        match self.transaction_coordinator(id) {
            Some((leader, _)) if leader == node => Ok(()),
            _ => Err(ResponseError::NotCoordinator),
        }
    }

    /// Fails unless `node` coordinates the group.
    ///
    /// # Errors
    /// NOT_COORDINATOR.
    pub(crate) fn check_group_coordinator(&self, node: i32, group: &str) -> Result<(), ResponseError> {
        if self.group_coordinator(group) == Some(node) { Ok(()) } else { Err(ResponseError::NotCoordinator) }
    }
}

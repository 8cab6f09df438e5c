//! Topics and their records.

use std::sync::Arc;

use super::Broker;
use crate::broker::cluster::NewTopic;
use crate::broker::election::NewLeader;
use crate::broker::error::BrokerError;
use crate::broker::topics::Partition;
use crate::ids::{TopicId, TopicName, TopicPartition};

impl Broker {
    /// Creates a topic with the default replication factor.
    ///
    /// # Errors
    /// [`BrokerError::TopicExists`].
    pub fn create_topic(&self, name: &str, partitions: i32) -> Result<TopicId, BrokerError> {
        let assignment = self.shared.cluster().spread(partitions, self.shared.config.replication());
        self.create_topic_on(name, assignment)
    }

    /// Creates a topic whose partitions have exactly these replicas, the first of each being its leader.
    ///
    /// # Errors
    /// [`BrokerError::TopicExists`].
    pub fn create_topic_on(&self, name: &str, replicas: Vec<Vec<i32>>) -> Result<TopicId, BrokerError> {
        let mut cluster = self.shared.cluster();
        if cluster.topics.named(name).is_some() {
            return Err(BrokerError::TopicExists(name.to_owned()));
        }
        let topic: TopicName = name.into();
        cluster.create(Arc::clone(&topic), NewTopic { assignment: replicas, ..NewTopic::default() });
        Ok(cluster.topics.named(&topic).map_or(TopicId::UNKNOWN, |t| t.id))
    }

    /// Adds partitions to a topic until it has `partitions` of them, as CreatePartitions does; a topic that has as many
    /// already stays as it is. False when there is no such topic.
    pub fn add_partitions(&self, name: &str, partitions: i32) -> bool {
        let mut cluster = self.shared.cluster();
        let assignment = cluster.spread(partitions, self.shared.config.replication());
        let grown = cluster.grow(name, assignment);
        drop(cluster);
        self.shared.announce();
        grown
    }

    /// Deletes a topic with everything in it, at once; false when there is none.
    pub fn delete_topic(&self, name: &str) -> bool {
        let gone = self.shared.cluster().topics.remove(name).is_some();
        self.shared.announce();
        gone
    }

    /// The leader of a partition, if it has one.
    #[must_use]
    pub fn leader(&self, partition: &TopicPartition) -> Option<i32> {
        self.shared.cluster().partition(partition).and_then(|p| p.leader)
    }

    /// Lets `node` lead a partition from now on.
    ///
    /// # Errors
    /// [`BrokerError::CannotLead`] when there is no such partition, or the node holds no replica of it or is down.
    pub fn move_leader(&self, partition: &TopicPartition, node: i32) -> Result<(), BrokerError> {
        self.lead(partition, NewLeader::Node(node))
    }

    /// Takes the leader of a partition away, as while an election lasts: until [`Self::move_leader`], or until a node
    /// starts or stops.
    ///
    /// # Errors
    /// [`BrokerError::CannotLead`] when there is no such partition.
    pub fn take_leader(&self, partition: &TopicPartition) -> Result<(), BrokerError> {
        self.lead(partition, NewLeader::Nobody)
    }

    fn lead(&self, partition: &TopicPartition, to: NewLeader) -> Result<(), BrokerError> {
        let moved = self.shared.cluster().move_leader(partition, to);
        self.shared.announce();
        if moved { Ok(()) } else { Err(BrokerError::CannotLead(partition.clone())) }
    }

    /// Forgets all producers without an open transaction on a partition, as `producer.id.expiration.ms` would.
    ///
    /// # Errors
    /// [`BrokerError::UnknownPartition`].
    pub fn expire_producers(&self, partition: &TopicPartition) -> Result<(), BrokerError> {
        let mut cluster = self.shared.cluster();
        let topic = cluster.topics.named_mut(&partition.topic);
        let found = topic.and_then(|t| t.partition_mut(partition.partition));
        found.map(|p| p.log.forget_idle_producers()).ok_or(BrokerError::UnknownPartition(partition.clone()))
    }

    /// Compacts a partition below its last stable offset, as Kafka does with `cleanup.policy=compact` when markers need not
    /// be kept any longer (`delete.retention.ms=0`), whatever the topic's settings are. A batch of which a record stays,
    /// stays whole.
    ///
    /// # Errors
    /// [`BrokerError::UnknownPartition`].
    pub fn compact(&self, partition: &TopicPartition) -> Result<(), BrokerError> {
        self.with_log(partition, |found| found.log.compact())
    }

    /// Cuts a partition's log off at the batch that holds `offset`, as an unclean election does: the next replica leads it,
    /// with a higher leader epoch, and never had what came behind. Coordinators do not notice.
    ///
    /// # Errors
    /// [`BrokerError::UnknownPartition`].
    pub fn truncate(&self, partition: &TopicPartition, offset: i64) -> Result<(), BrokerError> {
        self.with_log(partition, |found| found.log.truncate(offset))?;
        self.lead(partition, NewLeader::Next)
    }

    fn with_log(&self, at: &TopicPartition, change: impl FnOnce(&mut Partition)) -> Result<(), BrokerError> {
        let mut cluster = self.shared.cluster();
        let found = cluster.topics.named_mut(&at.topic).and_then(|t| t.partition_mut(at.partition));
        found.map(change).ok_or_else(|| BrokerError::UnknownPartition(at.clone()))?;
        drop(cluster);
        self.shared.announce();
        Ok(())
    }

    /// Removes all records before `offset`; -1 removes all.
    ///
    /// # Errors
    /// [`BrokerError::UnknownPartition`], [`BrokerError::OffsetOutOfRange`].
    pub fn delete_records(&self, partition: &TopicPartition, offset: i64) -> Result<(), BrokerError> {
        let mut cluster = self.shared.cluster();
        let topic = cluster.topics.named_mut(&partition.topic);
        let found = topic.and_then(|t| t.partition_mut(partition.partition));
        let log = &mut found.ok_or(BrokerError::UnknownPartition(partition.clone()))?.log;
        let deleted = log.delete_before(offset);
        deleted
            .map(|_| ())
            .map_err(|_| BrokerError::OffsetOutOfRange { partition: partition.clone(), offset })
    }
}

//! What is known of topics, and since when: told by brokers in answers to Metadata, or by leaders that store batches.

use std::sync::atomic::Ordering;

use super::{FRESH, Place, Purpose, Router, Slot};
use crate::ids::{Moment, NodeId, TopicId, TopicName, TopicPartition};

impl Router {
    /// True when the topic's metadata is older than a moment.
    pub(crate) fn is_stale(&self, name: &TopicName) -> bool {
        let now = self.clock.now();
        self.state().topics_at.get(name).is_none_or(|told| now.since(*told) >= FRESH)
    }

    /// Whether answers to batches tell that their topics are still those of the same ids.
    pub(crate) fn batches_tell(&self) -> bool {
        self.batches_tell.load(Ordering::Relaxed)
    }

    /// They do, or do not.
    pub(crate) fn saw_batches_tell(&self, they_do: bool) {
        self.batches_tell.store(they_do, Ordering::Relaxed);
    }

    /// A broker stored batches that were sent to it at `sent` under these ids of their topics (Produce 13).
    pub(crate) fn stored(&self, (node, sent): (NodeId, Moment), stored: Vec<(&TopicPartition, TopicId)>) {
        if stored.is_empty() {
            return;
        }
        let mut state = self.state();
        stored.into_iter().for_each(|(partition, id)| state.cluster.stored(partition, id, (node, sent)));
    }

    /// Whether leaders have stored batches that were sent to them at `from` or later, one on each of these partitions under
    /// this id of its topic.
    pub(crate) fn stored_since<'a>(
        &self,
        from: Moment,
        mut partitions: impl Iterator<Item = (&'a TopicPartition, TopicId)>,
    ) -> bool {
        let state = self.state();
        partitions.all(|(partition, id)| state.cluster.stored_since(partition, id, from))
    }

    /// True if it was asked at `from` or later, or a batch was sent to it then that it stored, and the partition belonged to
    /// the topic of this id and had a leader, of which nothing bad is known since.
    pub(crate) fn is_led(&self, partition: &TopicPartition, id: TopicId, from: Moment) -> bool {
        let state = self.state();
        let asked = state.topics_at.get(&partition.topic).is_some_and(|asked| *asked >= from)
            || state.cluster.stored_since(partition, id, from);
        if !asked || state.cluster.topic_id(&partition.topic) != id {
            return false;
        }
        let Some(node) = state.cluster.undoubted_leader(partition) else { return false };
        // One that is seldom used may be closed because it rested.
        let lost = |((place, purpose), slot): (&(Place, Purpose), &Slot)| {
            let is_used = matches!(purpose, Purpose::Data | Purpose::Control);
            *place == Place::Node(node) && is_used && slot.connection.is_closed()
        };
        !state.connections.iter().any(lost)
    }
}

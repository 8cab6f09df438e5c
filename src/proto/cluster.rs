//! What is known of a cluster: brokers, leaders, topic ids, coordinators. Facts come in, newer ones win.
//!
//! Of two answers about a partition's leader the one of the higher epoch is newer, whichever came first: brokers do not learn
//! of a move at the same moment. But an epoch that was told too high by mistake would be believed for ever. So a leader is
//! believed until it is in doubt:
//!
//! ```text
//!              metadata or a refusal, of a higher epoch            metadata of any epoch, or of none
//!   believed ◄──────────────────────────────────────── in doubt ───────────────────────────────────► believed
//!      └── it says that it does not lead, it does not answer, ──► ▲
//!          it is no broker, or there is none ─────────────────────┘
//! ```
//! To go back to the leader of before by mistake costs one refusal; it tells nobody anything wrong.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use crate::ids::{CoordinatorKey, Moment, NodeId, TopicId, TopicName, TopicPartition};

/// The knowledge.
#[derive(Debug, Default)]
pub struct Cluster {
    id: Option<Arc<str>>,
    brokers: BTreeMap<NodeId, (Arc<str>, u16)>,
    topics: HashMap<TopicName, Topic>,
    coordinators: HashMap<CoordinatorKey, NodeId>,
}

#[derive(Debug)]
struct Topic {
    id: TopicId,
    partitions: BTreeMap<i32, Known>,
}

#[derive(Debug)]
struct Known {
    leader: Leader,
    /// What is told next counts, of whatever epoch it is.
    doubted: bool,
    /// The last broker that stored a batch which was sent to it under the topic's id, and when it was sent.
    stored: Option<(NodeId, Moment)>,
}

impl From<Leader> for Known {
    fn from(leader: Leader) -> Self {
        // Nobody leads for long without being told.
        Self { leader, doubted: leader.node.is_none(), stored: None }
    }
}

/// Who leads a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leader {
    /// The leader; `None` while there is none.
    pub node: Option<NodeId>,
    /// The epoch of its leadership; -1 if not told.
    pub epoch: i32,
}

/// The answer came from another cluster than the ones before.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a broker says that it belongs to cluster {found}, the others belong to {expected}")]
pub struct AnotherCluster {
    /// The cluster that was known.
    pub expected: Arc<str>,
    /// The one that answered.
    pub found: Arc<str>,
}

impl Cluster {
    /// The cluster's id, once a broker told.
    #[must_use]
    pub fn id(&self) -> Option<&Arc<str>> {
        self.id.as_ref()
    }

    /// Learns the live brokers.
    ///
    /// # Errors
    /// [`AnotherCluster`]: nothing of that answer may be used.
    pub fn learn_brokers(
        &mut self,
        id: Option<Arc<str>>,
        brokers: impl IntoIterator<Item = (NodeId, Arc<str>, u16)>,
    ) -> Result<(), AnotherCluster> {
        if let (Some(expected), Some(found)) = (&self.id, &id) {
            if expected != found {
                return Err(AnotherCluster { expected: Arc::clone(expected), found: Arc::clone(found) });
            }
        }
        self.id = self.id.take().or(id);
        let live: BTreeMap<_, _> = brokers.into_iter().map(|(n, host, port)| (n, (host, port))).collect();
        // An answer without brokers is what a broker says that is just starting.
        if !live.is_empty() {
            self.brokers = live;
        }
        Ok(())
    }

    /// Learns one topic. A leader of an older epoch than the known one is passed over, unless that one is in doubt or the
    /// topic was created anew; an epoch that is not told never overrules one that is, and is not in doubt.
    pub fn learn_topic(
        &mut self,
        name: TopicName,
        id: TopicId,
        partitions: impl IntoIterator<Item = (i32, Leader)>,
    ) {
        let topic = self.topics.entry(name).or_insert_with(|| Topic { id, partitions: BTreeMap::new() });
        if topic.id != id && id.is_known() {
            *topic = Topic { id, partitions: BTreeMap::new() };
        }
        for (index, leader) in partitions {
            let known = topic.partitions.entry(index).or_insert(leader.into());
            if known.doubted || leader.epoch >= known.leader.epoch {
                *known = leader.into();
            }
        }
    }

    /// Forgets a topic, after a broker said that it does not exist.
    pub fn forget_topic(&mut self, name: &TopicName) {
        self.topics.remove(name);
    }

    /// The topic's id.
    #[must_use]
    pub fn topic_id(&self, name: &TopicName) -> TopicId {
        self.topics.get(name).map_or(TopicId::UNKNOWN, |t| t.id)
    }

    /// How many partitions the topic has, as far as is known.
    #[must_use]
    pub fn partitions(&self, name: &TopicName) -> usize {
        self.topics.get(name).map_or(0, |t| t.partitions.len())
    }

    /// The leader of a partition; `None` if it has none or is not known.
    #[must_use]
    pub fn leader(&self, partition: &TopicPartition) -> Option<NodeId> {
        self.topics.get(&partition.topic)?.partitions.get(&partition.partition)?.leader.node
    }

    /// The leader of a partition, if nothing was heard that speaks against it.
    #[must_use]
    pub fn undoubted_leader(&self, partition: &TopicPartition) -> Option<NodeId> {
        let known = self.topics.get(&partition.topic)?.partitions.get(&partition.partition)?;
        known.leader.node.filter(|_| !known.doubted)
    }

    /// A broker stored a batch that was sent to it at `sent` under this id of the topic: it led the partition since.
    pub fn stored(&mut self, partition: &TopicPartition, id: TopicId, (node, sent): (NodeId, Moment)) {
        let topic = self.topics.get_mut(&partition.topic).filter(|topic| topic.id == id);
        if let Some(known) = topic.and_then(|t| t.partitions.get_mut(&partition.partition)) {
            known.stored = Some((node, sent));
        }
    }

    /// Whether the leader has stored a batch that was sent to it at `from` or later under this id of the topic, and nothing
    /// was heard since that speaks against it.
    #[must_use]
    pub fn stored_since(&self, partition: &TopicPartition, id: TopicId, from: Moment) -> bool {
        let topic = self.topics.get(&partition.topic).filter(|topic| topic.id == id);
        let known = topic.and_then(|t| t.partitions.get(&partition.partition)).filter(|known| !known.doubted);
        known.is_some_and(|known| {
            known.stored.is_some_and(|(node, sent)| known.leader.node == Some(node) && sent >= from)
        })
    }

    /// A broker that was asked as the leader of a partition says that it is not. If it is believed to be, that is in doubt.
    pub fn doubt_leader(&mut self, partition: &TopicPartition, node: NodeId) {
        let known = self.topics.get_mut(&partition.topic);
        if let Some(known) = known.and_then(|t| t.partitions.get_mut(&partition.partition)) {
            known.doubted |= known.leader.node == Some(node);
        }
    }

    /// A broker does not answer, or is none: whether it leads anything is in doubt.
    pub fn doubt_leaders_at(&mut self, node: NodeId) {
        for known in self.topics.values_mut().flat_map(|topic| topic.partitions.values_mut()) {
            known.doubted |= known.leader.node == Some(node);
        }
    }

    /// A leader that a refusal named (KIP-951). True if that is the leader as far as is known now, and reachable; one of
    /// an older epoch is passed over, also where the known one is in doubt: a broker that has only just become the leader may
    /// name the one before.
    pub fn learn_leader(&mut self, partition: &TopicPartition, node: NodeId, epoch: i32) -> bool {
        let reachable = self.brokers.contains_key(&node);
        let known = self.topics.get_mut(&partition.topic);
        let Some(known) = known.and_then(|t| t.partitions.get_mut(&partition.partition)) else {
            return false;
        };
        let named = Leader { node: Some(node), epoch };
        if epoch > known.leader.epoch {
            *known = named.into();
        }
        reachable && known.leader == named
    }

    /// Where a broker is.
    #[must_use]
    pub fn address(&self, node: NodeId) -> Option<(Arc<str>, u16)> {
        self.brokers.get(&node).cloned()
    }

    /// All live brokers.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.brokers.keys().copied()
    }

    /// The coordinator of a transactional id or a group, if it was found and not forgotten.
    #[must_use]
    pub fn coordinator(&self, key: &CoordinatorKey) -> Option<NodeId> {
        self.coordinators.get(key).copied()
    }

    /// A coordinator was found.
    pub fn learn_coordinator(&mut self, key: CoordinatorKey, node: NodeId) {
        self.coordinators.insert(key, node);
    }

    /// The coordinator is no longer where it was.
    pub fn forget_coordinator(&mut self, key: &CoordinatorKey) {
        self.coordinators.remove(key);
    }

    /// A broker can't be reached: nothing is coordinated there, as far as we know.
    pub fn forget_coordinators_at(&mut self, node: NodeId) {
        self.coordinators.retain(|_, at| *at != node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{GroupId, TransactionalId};

    fn leader(node: i32, epoch: i32) -> Leader {
        Leader { node: Some(NodeId(node)), epoch }
    }

    #[test]
    fn a_stale_leader_is_passed_over() {
        let mut c = Cluster::default();
        let id = TopicId([1; 16]);
        let p = TopicPartition::new("t", 0);
        for (news, then) in [(leader(1, 5), 1), (leader(2, 4), 1), (leader(3, -1), 1), (leader(2, 6), 2)] {
            c.learn_topic("t".into(), id, [(0, news)]);
            assert_eq!(c.leader(&p), Some(NodeId(then)));
        }
        c.learn_topic("t".into(), TopicId([2; 16]), [(0, leader(3, 0))]);
        assert_eq!(c.leader(&p), Some(NodeId(3)), "a topic that was created anew begins anew");
    }

    #[test]
    fn what_a_leader_stored_counts_for_it_and_for_the_topic_of_that_id() {
        let (id, other, p) = (TopicId([1; 16]), TopicId([2; 16]), TopicPartition::new("t", 0));
        let known = || {
            let mut c = Cluster::default();
            c.learn_topic("t".into(), id, [(0, leader(1, 5)), (1, leader(1, 5))]);
            c.stored(&p, id, (NodeId(1), Moment(7)));
            c
        };
        let counts = |c: &Cluster, from| c.stored_since(&p, id, Moment(from));
        let c = known();
        assert!(counts(&c, 7) && !counts(&c, 8), "it counts from when it was sent");
        assert!(!c.stored_since(&p, other, Moment(7)));
        assert!(
            !c.stored_since(&TopicPartition::new("t", 1), id, Moment(7)),
            "of another partition nothing is said"
        );
        let against: [fn(&mut Cluster); 6] = [
            |c| c.doubt_leader(&TopicPartition::new("t", 0), NodeId(1)),
            |c| c.doubt_leaders_at(NodeId(1)),
            |c| c.learn_topic("t".into(), TopicId([1; 16]), [(0, leader(2, 6))]),
            |c| c.learn_topic("t".into(), TopicId([1; 16]), [(0, Leader { node: None, epoch: 6 })]),
            |c| c.learn_topic("t".into(), TopicId([2; 16]), [(0, leader(1, 0))]),
            |c| c.forget_topic(&"t".into()),
        ];
        for (number, against) in against.into_iter().enumerate() {
            let mut c = known();
            against(&mut c);
            assert!(!counts(&c, 7), "{number}");
        }
        let mut c = known();
        c.stored(&p, other, (NodeId(1), Moment(9)));
        assert!(!counts(&c, 9), "it was for another topic of that name");
        c.stored(&p, id, (NodeId(2), Moment(9)));
        assert!(!counts(&c, 7), "another leader than the one that is known");
    }

    #[test]
    fn a_leader_that_a_refusal_names_is_kept_until_a_newer_one_is_told() {
        let mut c = Cluster::default();
        let (id, p) = (TopicId([1; 16]), TopicPartition::new("t", 0));
        let brokers = [1, 2].map(|node| (NodeId(node), Arc::from("h"), 1));
        c.learn_brokers(None, brokers).unwrap();
        assert!(!c.learn_leader(&p, NodeId(2), 6), "of a topic that is not known");
        c.learn_topic("t".into(), id, [(0, leader(1, 5))]);
        for (node, epoch, taken) in [(2, 4, false), (2, 5, false), (2, 6, true), (2, 6, true), (9, 7, false)]
        {
            assert_eq!(c.learn_leader(&p, NodeId(node), epoch), taken, "{node} of epoch {epoch}");
        }
        c.learn_topic("t".into(), id, [(0, leader(1, 5))]);
        assert_eq!(c.leader(&p), Some(NodeId(9)), "metadata of before the move");
        c.learn_topic("t".into(), id, [(0, leader(1, 8))]);
        assert_eq!(c.leader(&p), Some(NodeId(1)));
    }

    #[test]
    fn an_epoch_that_was_told_too_high_is_given_up_when_its_leader_is_none() {
        const FALSE: i32 = i32::MAX;
        let (id, p) = (TopicId([1; 16]), TopicPartition::new("t", 0));
        let truth = leader(1, 5);
        let told = |news: Leader| {
            let mut c = Cluster::default();
            c.learn_brokers(None, [1, 2].map(|node| (NodeId(node), Arc::from("h"), 1))).unwrap();
            c.learn_topic("t".into(), id, [(0, truth)]);
            c.learn_topic("t".into(), id, [(0, news)]);
            c
        };
        let then = |mut c: Cluster, next: Leader| {
            c.learn_topic("t".into(), id, [(0, next)]);
            c.leader(&p)
        };
        let lie = leader(2, FALSE);
        assert_eq!(then(told(lie), truth), Some(NodeId(2)), "nothing speaks against it");
        for next in [truth, leader(1, -1)] {
            let mut c = told(lie);
            c.doubt_leader(&p, NodeId(2));
            assert_eq!(c.leader(&p), Some(NodeId(2)), "nobody else is known");
            assert_eq!(then(c, next), Some(NodeId(1)), "it refused: {next:?}");
            let mut c = told(lie);
            c.doubt_leaders_at(NodeId(2));
            assert_eq!(then(c, next), Some(NodeId(1)), "it is silent: {next:?}");
            assert_eq!(then(told(Leader { node: None, epoch: FALSE }), next), Some(NodeId(1)), "{next:?}");
        }
        // Others say nothing about it.
        let mut c = told(lie);
        c.doubt_leader(&p, NodeId(1));
        c.doubt_leaders_at(NodeId(1));
        c.doubt_leader(&TopicPartition::new("t", 1), NodeId(2));
        assert_eq!(then(c, truth), Some(NodeId(2)));
        // What is told next is believed as anything else is.
        let mut c = told(lie);
        assert_eq!(c.undoubted_leader(&p), Some(NodeId(2)));
        c.doubt_leader(&p, NodeId(2));
        assert_eq!((c.undoubted_leader(&p), c.leader(&p)), (None, Some(NodeId(2))));
        c.learn_topic("t".into(), id, [(0, truth)]);
        assert_eq!(c.undoubted_leader(&p), Some(NodeId(1)));
        assert_eq!(then(c, leader(2, 4)), Some(NodeId(1)));
    }

    #[test]
    fn a_refusal_names_nobody_older_than_the_one_in_doubt() {
        let mut c = Cluster::default();
        let p = TopicPartition::new("t", 0);
        c.learn_brokers(None, [1, 2].map(|node| (NodeId(node), Arc::from("h"), 1))).unwrap();
        c.learn_topic("t".into(), TopicId([1; 16]), [(0, leader(2, 7))]);
        c.doubt_leader(&p, NodeId(2));
        assert!(!c.learn_leader(&p, NodeId(1), 6), "the new leader does not know yet that it is one");
        assert_eq!(c.leader(&p), Some(NodeId(2)));
        assert!(c.learn_leader(&p, NodeId(1), 8));
        c.learn_topic("t".into(), TopicId([1; 16]), [(0, leader(2, 7))]);
        assert_eq!(c.leader(&p), Some(NodeId(1)), "it is in doubt no more");
    }

    #[test]
    fn brokers_of_another_cluster_are_refused() {
        let mut c = Cluster::default();
        let broker = |node| [(NodeId(node), Arc::from("h"), 1)];
        c.learn_brokers(Some("a".into()), broker(1)).unwrap();
        assert!(c.learn_brokers(Some("b".into()), broker(2)).is_err());
        assert_eq!(c.nodes().collect::<Vec<_>>(), [NodeId(1)]);
        c.learn_brokers(None, []).unwrap();
        assert_eq!(c.nodes().count(), 1, "an empty answer takes nothing away");
    }

    #[test]
    fn coordinators_at_a_dead_broker_are_forgotten() {
        let mut c = Cluster::default();
        // A transactional id and a group of one name have different coordinators.
        let a = CoordinatorKey::Transaction(TransactionalId::new("a"));
        let b = CoordinatorKey::Group(GroupId::new("a"));
        c.learn_coordinator(a.clone(), NodeId(1));
        c.learn_coordinator(b.clone(), NodeId(2));
        c.forget_coordinators_at(NodeId(1));
        assert_eq!((c.coordinator(&a), c.coordinator(&b)), (None, Some(NodeId(2))));
    }
}

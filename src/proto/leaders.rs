//! Where batches go: the leaders that are known to one producer, and the question for the others.

use std::{collections::HashMap, time::Duration};

use super::{backoff::Backoff, call::Call};
use crate::ids::{Moment, NodeId, TopicPartition};

/// The leaders of partitions.
#[derive(Debug)]
pub(super) struct Leaders {
    known: HashMap<TopicPartition, NodeId>,
    finding: Call,
    backoff: Backoff,
}

impl Leaders {
    /// None is known; where one is not found, it is asked for again after at most `wait_max`.
    pub(super) fn new(wait_max: Duration, seed: u64) -> Self {
        let backoff = Backoff::new(Duration::from_millis(20), wait_max, seed);
        Self { known: HashMap::new(), finding: Call::Idle, backoff }
    }

    pub(super) fn of(&self, partition: &TopicPartition) -> Option<NodeId> {
        self.known.get(partition).copied()
    }

    /// The partition is led by this broker now.
    pub(super) fn learn(&mut self, partition: TopicPartition, node: NodeId) {
        self.known.insert(partition, node);
    }

    /// The leader is not what it was.
    pub(super) fn forget(&mut self, partition: &TopicPartition) {
        self.known.remove(partition);
    }

    /// The answer to [`ask`](Self::ask); `None` where there is no leader.
    pub(super) fn found(&mut self, now: Moment, leaders: Vec<(TopicPartition, Option<NodeId>)>) {
        let mut missing = false;
        for (partition, leader) in leaders {
            match leader {
                Some(node) => self.learn(partition, node),
                None => missing = true,
            }
        }
        self.finding = if missing {
            Call::Wait(now.after(self.backoff.next_wait()))
        } else {
            self.backoff.reset();
            Call::Idle
        };
    }

    /// Which leaders are to be asked for now.
    pub(super) fn ask<'a>(
        &mut self,
        wanted: impl Iterator<Item = &'a TopicPartition>,
    ) -> Option<Vec<TopicPartition>> {
        if self.finding != Call::Idle {
            return None;
        }
        let unknown: Vec<_> = wanted.filter(|p| !self.known.contains_key(p)).cloned().collect();
        if unknown.is_empty() {
            return None;
        }
        self.finding = Call::Asked;
        Some(unknown)
    }

    pub(super) fn wake(&mut self, now: Moment) {
        self.finding.wake(now);
    }

    pub(super) fn deadline(&self) -> Option<Moment> {
        self.finding.deadline()
    }
}

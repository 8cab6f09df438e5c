//! What the machine has asked for, and what has come of it.

use std::time::Duration;

use super::{Effect, Goal, State, Transaction};
use crate::{
    ids::{Moment, TopicId, TopicName, TopicPartition},
    proto::topics::TopicNow,
};

/// A batch that was stored so long ago at most says of its topic what a question would.
const JUST_NOW: Duration = Duration::from_millis(50);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Topics {
    NotAsked,
    Asked,
    Checked,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StartTime {
    NotAsked,
    Asked,
    Told(Option<i64>),
}

impl Transaction {
    /// The topics that are written to.
    pub fn topics(&self) -> impl Iterator<Item = &TopicName> {
        self.written.names()
    }

    /// The partitions that are written to, and the ids of their topics.
    pub fn written_to(&self) -> impl Iterator<Item = (&TopicPartition, TopicId)> {
        self.evidence.partitions.keys().filter_map(|p| Some((p, self.written.id(&p.topic)?)))
    }

    /// The id under which a topic was known when its first record was taken, if one was.
    #[must_use]
    pub fn topic_id(&self, name: &TopicName) -> Option<TopicId> {
        self.written.id(name)
    }

    pub(super) fn topics_told(&mut self, topics: &[(TopicName, TopicNow)]) {
        if let Some(cause) = self.written.told(topics) {
            self.fail(cause);
        }
    }

    /// Asked beside the last batches, so that it costs no time of its own; or behind them, where they make it superfluous.
    pub(super) fn check_topics(&mut self, goal: Goal) {
        // send() may have failed the transaction.
        let is_draining = self.state == State::Draining(goal);
        if is_draining && self.topics == Topics::NotAsked && !self.evidence.partitions.is_empty() {
            if self.last_tell && !self.outbox.is_empty() {
                return;
            }
            self.topics = Topics::Asked;
            self.effects.push_back(Effect::CheckTopics { anew: goal == Goal::Commit });
        }
    }

    /// Whether each partition has a batch whose answer tells of its topic: at a commit, which goes by what is told after it was
    /// asked for, one that has not left yet.
    pub(super) fn will_tell(&self, now: Moment, goal: Goal) -> bool {
        self.written_to().all(|(partition, _)| match goal {
            Goal::Commit => self.outbox.has_queued(partition),
            Goal::Prepare | Goal::Abort => self.outbox.is_busy(now, partition, JUST_NOW),
        })
    }
}

//! Whether a topic is still the one that somebody writes to. A name outlives its topic: one that was deleted and created anew
//! under it has another id.
//!
//! ```text
//!   a leader knows no topic of our id          what brokers tell of the name then
//!   (or anybody told something new) ─────────► another id                         made anew: nothing is sent there
//!                                              our id                             that leader did not know it yet: again
//!                                              no such topic, said a few times    deleted
//! ```
//! That a topic is missing counts only behind a leader's word against its id: a broker that does not know of it (yet) may be
//! behind the others, and without ids a topic that vanishes and returns is waited for.

use std::collections::BTreeMap;

use super::cause::{Cause, CauseKind};
use crate::ids::{NodeId, TopicId, TopicName, TopicPartition};

/// What brokers tell of a topic, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopicNow {
    /// It has this id, which is unknown where brokers have no ids.
    Known(TopicId),
    /// There is none.
    Missing,
    /// Nothing.
    NotTold,
}

/// What a look at leaders brought.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Looked {
    /// The leaders of the partitions that were asked for; `None` where there is none.
    pub leaders: Vec<(TopicPartition, Option<NodeId>)>,
    /// What brokers tell of topics.
    pub topics: Vec<(TopicName, TopicNow)>,
}

impl From<Vec<(TopicPartition, Option<NodeId>)>> for Looked {
    fn from(leaders: Vec<(TopicPartition, Option<NodeId>)>) -> Self {
        Self { leaders, topics: Vec::new() }
    }
}

/// So many answers in a row must miss a topic whose id a leader did not know, until it counts as deleted: that takes a
/// second or two, for each look waits longer than the one before. A broker may be that far behind.
pub(super) const MISSED: u32 = 8;

/// What speaks against a topic of one id.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Doubt {
    denied: bool,
    missed: u32,
}

impl Doubt {
    /// A leader knows no topic of this id.
    pub(super) fn deny(&mut self) {
        self.denied = true;
    }

    /// Why nothing can be written to the topic of this id any more, if that is so.
    pub(super) fn told(&mut self, name: &TopicName, id: TopicId, now: TopicNow) -> Option<Cause> {
        match now {
            TopicNow::Known(now) if id.is_known() && now.is_known() && id != now => Some(made_anew(name)),
            TopicNow::Known(_) => {
                self.missed = 0;
                None
            }
            TopicNow::Missing if self.denied => {
                self.missed += 1;
                (self.missed >= MISSED).then(|| gone(name, "was deleted"))
            }
            TopicNow::Missing | TopicNow::NotTold => None,
        }
    }
}

/// The topics that a transaction writes to, each by the id under which it was known when its first record was taken.
#[derive(Debug, Default)]
pub(super) struct Written(BTreeMap<TopicName, (TopicId, Doubt)>);

impl Written {
    /// Something is written to a topic that has this id as far as the writer knows. The cause, if it had another one before.
    pub(super) fn take(&mut self, name: &TopicName, id: TopicId) -> Result<(), Cause> {
        match self.0.get(name) {
            Some((first, _)) if *first != id => Err(made_anew(name)),
            Some(_) => Ok(()),
            None => {
                self.0.insert(name.clone(), (id, Doubt::default()));
                Ok(())
            }
        }
    }

    /// A leader knows no topic of its id.
    pub(super) fn deny(&mut self, name: &TopicName) {
        if let Some((_, doubt)) = self.0.get_mut(name) {
            doubt.deny();
        }
    }

    /// A leader has stored a batch for it: what others said before does not count any more.
    pub(super) fn confirm(&mut self, name: &TopicName) {
        if let Some((_, doubt)) = self.0.get_mut(name) {
            *doubt = Doubt::default();
        }
    }

    /// Why the transaction can't go on, if one of them is another topic now.
    pub(super) fn told(&mut self, topics: &[(TopicName, TopicNow)]) -> Option<Cause> {
        topics.iter().find_map(|(name, now)| {
            let (id, doubt) = self.0.get_mut(name)?;
            doubt.told(name, *id, *now)
        })
    }

    pub(super) fn id(&self, name: &TopicName) -> Option<TopicId> {
        self.0.get(name).map(|(id, _)| *id)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &TopicName> {
        self.0.keys()
    }
}

fn made_anew(name: &TopicName) -> Cause {
    gone(name, "was deleted and created anew under the same name")
}

fn gone(name: &TopicName, what: &str) -> Cause {
    Cause::new(CauseKind::UnknownTopic, format!("topic {name} {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: TopicId = TopicId([1; 16]);
    const NEW: TopicId = TopicId([2; 16]);

    fn written(id: TopicId) -> (Written, TopicName) {
        let (mut written, name) = (Written::default(), TopicName::from("t"));
        written.take(&name, id).unwrap();
        (written, name)
    }

    #[test]
    fn another_id_is_another_topic_whether_or_not_a_leader_denied_the_old_one() {
        for denied in [false, true] {
            let (mut written, name) = written(OLD);
            if denied {
                written.deny(&name);
            }
            assert_eq!(written.told(&[(name.clone(), TopicNow::Known(OLD))]), None);
            let cause = written.told(&[(name.clone(), TopicNow::Known(NEW))]).unwrap();
            assert_eq!(cause.kind, CauseKind::UnknownTopic);
            assert_eq!(written.take(&name, NEW).unwrap_err().kind, CauseKind::UnknownTopic);
            assert_eq!(written.id(&name), Some(OLD), "the first one stays");
        }
    }

    #[test]
    fn without_ids_nothing_is_known_of_it() {
        let (mut unknown, name) = written(TopicId::UNKNOWN);
        assert_eq!(unknown.told(&[(name.clone(), TopicNow::Known(NEW))]), None);
        let (mut known, name) = written(OLD);
        assert_eq!(known.told(&[(name, TopicNow::Known(TopicId::UNKNOWN))]), None);
    }

    #[test]
    fn a_topic_is_gone_when_its_id_was_denied_and_its_name_is_missed_a_few_times_in_a_row() {
        let (mut written, name) = written(OLD);
        let mut told = |now| written.told(&[(TopicName::from("t"), now)]);
        for _ in 0..10 {
            assert_eq!(told(TopicNow::Missing), None, "no leader has spoken against it");
        }
        written.deny(&name);
        let mut told = |now| written.told(&[(TopicName::from("t"), now)]).map(|cause| cause.kind);
        for _ in 0..3 {
            assert_eq!(told(TopicNow::Missing), None);
            assert_eq!(told(TopicNow::NotTold), None);
            assert_eq!(told(TopicNow::Missing), None);
            assert_eq!(told(TopicNow::Known(OLD)), None, "it is there after all");
        }
        for _ in 1..MISSED {
            assert_eq!(told(TopicNow::Missing), None);
        }
        assert_eq!(told(TopicNow::Missing), Some(CauseKind::UnknownTopic));
        written.confirm(&name);
        let mut told = |now| written.told(&[(TopicName::from("t"), now)]);
        assert!((0..=MISSED).all(|_| told(TopicNow::Missing).is_none()), "another leader knows it");
    }
}

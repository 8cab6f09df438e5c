//! Which servers answer: the ones that did are asked first, the ones that did not last.
//!
//! A broker that is frozen has an open port and says nothing. Whoever asks it waits for a timeout, each time anew, unless
//! somebody remembers.

use std::{collections::HashMap, hash::Hash, time::Duration};

use crate::ids::Moment;

/// How long a question may stay unanswered before the next server is asked as well.
pub const OVERDUE: Duration = Duration::from_secs(1);

/// How long a silence, or an answer, is remembered.
const MEMORY: Duration = Duration::from_secs(30);

/// What was seen of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// It answered.
    Answered,
    /// It did not, or not yet.
    Silent,
}

/// Who is asked first: the smallest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// It answered.
    Answered,
    /// Nothing is known of it.
    NotKnown,
    /// It was silent, at that time; who is so for the longest time may have come back.
    Silent(Moment),
}

impl Rank {
    /// True for one that did not answer.
    #[must_use]
    pub fn is_silent(self) -> bool {
        matches!(self, Self::Silent(_))
    }
}

/// What is remembered.
#[derive(Debug)]
pub struct Health<S> {
    seen: HashMap<S, (Moment, Seen)>,
}

impl<S> Default for Health<S> {
    fn default() -> Self {
        Self { seen: HashMap::new() }
    }
}

impl<S: Hash + Eq> Health<S> {
    /// Learns what was seen of a server. What is old is forgotten.
    pub fn learn(&mut self, now: Moment, server: S, seen: Seen) {
        self.seen.retain(|_, (at, _)| now.since(*at) < MEMORY);
        self.seen.insert(server, (now, seen));
    }

    /// The rank of a server in the order of questions.
    #[must_use]
    pub fn rank(&self, now: Moment, server: &S) -> Rank {
        match self.seen.get(server).filter(|(at, _)| now.since(*at) < MEMORY) {
            Some((_, Seen::Answered)) => Rank::Answered,
            None => Rank::NotKnown,
            Some((at, Seen::Silent)) => Rank::Silent(*at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::default().after(Duration::from_secs(seconds))
    }

    fn order(health: &Health<u8>, now: Moment) -> Vec<u8> {
        let mut servers = vec![1, 2, 3, 4];
        servers.sort_by_key(|server| health.rank(now, server));
        servers
    }

    #[test]
    fn whoever_answered_is_asked_first_and_whoever_was_silent_last() {
        let mut health = Health::default();
        assert_eq!(order(&health, at(0)), [1, 2, 3, 4]);
        health.learn(at(1), 2, Seen::Silent);
        health.learn(at(2), 1, Seen::Silent);
        health.learn(at(2), 4, Seen::Answered);
        assert_eq!(order(&health, at(3)), [4, 3, 2, 1]);
        health.learn(at(4), 1, Seen::Answered);
        assert_eq!(order(&health, at(5)), [1, 4, 3, 2], "the last word counts");
    }

    #[test]
    fn nothing_is_remembered_for_ever() {
        let mut health = Health::default();
        health.learn(at(1), 1, Seen::Silent);
        assert_eq!(order(&health, at(30)), [2, 3, 4, 1]);
        assert_eq!(order(&health, at(31)), [1, 2, 3, 4]);
        health.learn(at(40), 2, Seen::Answered);
        assert_eq!(health.seen.len(), 1);
    }
}

//! Transactional ids of a sink: how they are named, and which subtask answers for which.
//!
//! An id is `prefix-subtask-number`. It belongs to a prefix only if it is exactly the prefix followed by two decimal
//! numbers: `a` does not own `a-b-0-1`, which belongs to the job with the prefix `a-b`.

mod ownership;

use std::sync::Arc;

use crate::ids::TransactionalId;

pub use ownership::Ownership;

/// The longest prefix, in bytes. Kafka itself takes ids up to 32767 bytes.
pub const PREFIX_MAX_BYTES: usize = 1024;

/// How the numbers of ids are chosen, and with it how leftovers are found (Flink's `TransactionNamingStrategy`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Naming {
    /// `prefix-subtask-checkpoint`: every transaction has a new id, which the broker remembers for a week.
    Incrementing,
    /// `prefix-subtask-slot`: the smallest slot that is free.
    #[default]
    Pooled,
}

impl Naming {
    /// Whether state of `self` can be continued with `next`. The way back is refused, as in Flink: the ids of a pool
    /// do not tell checkpoints, so leftovers would be missed.
    ///
    /// # Errors
    /// [`NamingError::Migration`].
    pub fn continue_as(self, next: Self) -> Result<Self, NamingError> {
        match (self, next) {
            (Self::Pooled, Self::Incrementing) => Err(NamingError::Migration),
            (Self::Incrementing | Self::Pooled, _) => Ok(next),
        }
    }
}

/// What is wrong with names or their owners.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NamingError {
    /// No prefix.
    #[error("the transactional id prefix is empty")]
    Empty,
    /// Too long.
    #[error("the transactional id prefix has {bytes} bytes, more than {PREFIX_MAX_BYTES}")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// From pooled names back to incrementing ones.
    #[error("pooled transactional ids cannot be continued as incrementing ones")]
    Migration,
    /// Restored states disagree about how many subtasks there were.
    #[error("restored writer states tell different numbers of subtasks: {first} and {second}")]
    NotUniform {
        /// One of them.
        first: u32,
        /// Another.
        second: u32,
    },
    /// Restored writer states leave a subtask out, whose leftovers nobody would end.
    #[error("no restored writer state owns the ids of subtask {subtask} of {total}")]
    Gap {
        /// The subtask.
        subtask: u32,
        /// How many there were.
        total: u32,
    },
    /// Two restored writer states own the same ids.
    #[error("two restored writer states own the ids of subtask {subtask}")]
    OwnedTwice {
        /// The subtask.
        subtask: u32,
    },
    /// A subtask that does not exist.
    #[error("subtask {subtask} is not one of {total}")]
    NoSuchSubtask {
        /// The subtask.
        subtask: u32,
        /// How many there are.
        total: u32,
    },
}

/// A validated transactional id prefix.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdPrefix(Arc<str>);

/// What an id of a prefix says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdParts {
    /// The subtask that made it.
    pub subtask: u32,
    /// Its slot or checkpoint.
    pub number: u64,
}

impl IdPrefix {
    /// Checks a prefix.
    ///
    /// # Errors
    /// [`NamingError`] when it is empty or longer than [`PREFIX_MAX_BYTES`].
    pub fn new(prefix: &str) -> Result<Self, NamingError> {
        match prefix.len() {
            0 => Err(NamingError::Empty),
            bytes if bytes > PREFIX_MAX_BYTES => Err(NamingError::TooLong { bytes }),
            _ => Ok(Self(prefix.into())),
        }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id of these parts.
    #[must_use]
    pub fn id(&self, parts: IdParts) -> TransactionalId {
        TransactionalId::new(format!("{}-{}-{}", self.0, parts.subtask, parts.number))
    }

    /// The parts of an id, if it is exactly one of this prefix as [`IdPrefix::id`] writes it.
    #[must_use]
    pub fn parse(&self, id: &str) -> Option<IdParts> {
        let (subtask, number) = id.strip_prefix(&*self.0)?.strip_prefix('-')?.split_once('-')?;
        let parts = IdParts { subtask: decimal(subtask)?.try_into().ok()?, number: decimal(number)? };
        Some(parts)
    }

    /// The prefix and the parts of an id that some prefix wrote; there is one such prefix at most.
    #[must_use]
    pub fn split(id: &str) -> Option<(Self, IdParts)> {
        let (rest, number) = id.rsplit_once('-')?;
        let (prefix, subtask) = rest.rsplit_once('-')?;
        let parts = IdParts { subtask: decimal(subtask)?.try_into().ok()?, number: decimal(number)? };
        Some((Self::new(prefix).ok()?, parts))
    }

    /// The RE2 pattern for ListTransactions that matches every id of this prefix. What it finds still goes through
    /// [`IdPrefix::parse`], for brokers before version 2 do not filter.
    #[must_use]
    pub fn pattern(&self) -> String {
        format!("{}-[0-9]+-[0-9]+", re2_quote(&self.0))
    }
}

/// The RE2 pattern that matches exactly `text`. Only what has a meaning is escaped: `\<` is no escape but a word's
/// beginning for some engines.
#[must_use]
pub fn re2_quote(text: &str) -> String {
    let special = |c: char| r"\.+*?()|[]{}^$".contains(c);
    let quote = |c: char| if special(c) { format!("\\{c}") } else { c.to_string() };
    text.chars().map(quote).collect()
}

/// The RE2 pattern that matches whatever begins with `prefix`.
#[must_use]
pub fn re2_prefix(prefix: &str) -> String {
    format!("(?s){}.*", re2_quote(prefix))
}

/// Digits without a sign or leading zeros, so that one number has one spelling.
fn decimal(digits: &str) -> Option<u64> {
    let plain = digits.bytes().all(|b| b.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
    if plain { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_exact_ids_belong_to_a_prefix() {
        let a = IdPrefix::new("a").unwrap();
        assert_eq!(a.parse("a-0-1"), Some(IdParts { subtask: 0, number: 1 }));
        for other in
            ["a-b-0-1", "ab-0-1", "a-0", "a-0-1-2", "a--1", "a-0-", "a-00-1", "a-+1-2", "A-0-1", "b-0-1"]
        {
            assert_eq!(a.parse(other), None, "{other}");
        }
        assert_eq!(a.parse("a-4294967296-0"), None);
        assert_eq!(a.parse("a-0-18446744073709551616"), None);
        assert_eq!(IdPrefix::new("a-0").unwrap().parse("a-0-1-2"), Some(IdParts { subtask: 1, number: 2 }));
    }

    #[test]
    fn the_pattern_escapes_the_prefix() {
        assert_eq!(IdPrefix::new(r"a.b\E").unwrap().pattern(), r"a\.b\\E-[0-9]+-[0-9]+");
    }

    #[test]
    fn prefixes_are_checked() {
        assert_eq!(IdPrefix::new(""), Err(NamingError::Empty));
        assert_eq!(IdPrefix::new(&"x".repeat(1025)), Err(NamingError::TooLong { bytes: 1025 }));
    }

    #[test]
    fn a_pool_is_not_continued_as_increments() {
        assert_eq!(Naming::Pooled.continue_as(Naming::Incrementing), Err(NamingError::Migration));
        assert_eq!(Naming::Incrementing.continue_as(Naming::Pooled), Ok(Naming::Pooled));
    }

    proptest! {
        #[test]
        fn ids_come_back(prefix in "[a-z0-9.-]{1,20}", subtask: u32, number: u64) {
            let prefix = IdPrefix::new(&prefix).unwrap();
            let parts = IdParts { subtask, number };
            prop_assert_eq!(prefix.parse(prefix.id(parts).as_str()), Some(parts));
            let id = prefix.id(parts);
            prop_assert_eq!(IdPrefix::split(id.as_str()), Some((prefix, parts)));
        }
    }
}

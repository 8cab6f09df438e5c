//! How a row ends on an arm.

use std::error::Error;
use std::fmt;

use serde::{Deserialize, Serialize};

/// What a row's body returns.
pub type Shown = Result<(), Failure>;

/// Why a row does not hold on an arm. `?` makes it from any error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// It ran, and something was wrong.
    Wrong(String),
    /// The broker does otherwise than Kafka should, in a way that has a name, and the client is right about it.
    Deviation {
        /// The name: an issue of Kafka's tracker, or some words.
        name: String,
        /// What was seen.
        seen: String,
    },
    /// The arm does not have what the row is about.
    NotOffered(String),
    /// This machine lacks what the arm needs.
    Missing(String),
}

/// The end of one row on one arm, for the report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "status", content = "why")]
pub enum Outcome {
    /// It holds.
    Pass,
    /// The broker deviates: the name, and what was seen.
    Deviation(String),
    /// It does not hold.
    Fail(String),
    /// Not a question that can be put to this arm.
    NotOffered(String),
    /// The capability is still to be built.
    Awaits(String),
}

impl Failure {
    /// Something wrong, in words.
    pub fn wrong(what: impl fmt::Display) -> Self {
        Self::Wrong(what.to_string())
    }

    /// The arm lacks what the row is about.
    pub fn not_offered(why: impl fmt::Display) -> Self {
        Self::NotOffered(why.to_string())
    }

    /// The same, about this part of its row.
    #[must_use]
    pub fn on(self, part: impl fmt::Display) -> Self {
        match self {
            Self::Wrong(what) => Self::Wrong(format!("{part}: {what}")),
            other @ (Self::Deviation { .. } | Self::NotOffered(_) | Self::Missing(_)) => other,
        }
    }

    /// A named deviation of the broker.
    pub fn deviation(name: impl fmt::Display, seen: impl fmt::Display) -> Self {
        Self::Deviation { name: name.to_string(), seen: seen.to_string() }
    }
}

/// Fails unless the two are equal; `what` names them.
///
/// # Errors
/// They differ.
pub fn equal<T: PartialEq<U> + fmt::Debug, U: fmt::Debug>(what: &str, found: T, expected: U) -> Shown {
    if found == expected {
        return Ok(());
    }
    Err(Failure::Wrong(format!("{what}: found {found:?}, expected {expected:?}")))
}

/// Fails with this text unless the condition holds.
///
/// # Errors
/// It does not hold.
pub fn holds(condition: bool, what: impl fmt::Display) -> Shown {
    if condition { Ok(()) } else { Err(Failure::wrong(what)) }
}

/// `Failure` is no `Error` itself, so that every error can become one with `?`.
impl<E: Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            let why = error.to_string();
            if !text.contains(&why) {
                text = format!("{text}: {why}");
            }
            cause = error.source();
        }
        Self::Wrong(text)
    }
}

impl From<Shown> for Outcome {
    fn from(shown: Shown) -> Self {
        match shown {
            Ok(()) => Self::Pass,
            Err(Failure::Wrong(why)) => Self::Fail(why),
            Err(Failure::Missing(why)) => Self::Fail(format!("missing: {why}")),
            Err(Failure::Deviation { name, seen }) => Self::Deviation(format!("{name}: {seen}")),
            Err(Failure::NotOffered(why)) => Self::NotOffered(why),
        }
    }
}

impl Outcome {
    /// One word, as it stands in the report.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Deviation(_) => "deviation",
            Self::Fail(_) => "FAIL",
            Self::NotOffered(_) => "not offered",
            Self::Awaits(_) => "awaits",
        }
    }

    /// What there is to say about it.
    #[must_use]
    pub fn why(&self) -> &str {
        match self {
            Self::Pass => "",
            Self::Deviation(why) | Self::Fail(why) | Self::NotOffered(why) | Self::Awaits(why) => why,
        }
    }
}

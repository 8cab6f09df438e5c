//! How a case ends when it does not pass.

use std::fmt;

use crate::foreign::ForeignError;
use crate::kafka::KafkaError;

/// Why a case did not pass. `?` makes it from the errors of this crate, from texts, and from any other error through
/// [`Failure::of`].
#[derive(Debug)]
pub enum Failure {
    /// The machine, or the cluster that was given, lacks what the case needs.
    Missing(String),
    /// The case ran and found something wrong.
    Wrong(String),
}

impl Failure {
    /// Any error, as something wrong.
    pub fn of(error: impl fmt::Display) -> Self {
        Self::Wrong(error.to_string())
    }

    /// Fails unless the two are equal; `what` names them.
    ///
    /// # Errors
    /// They differ.
    pub fn unless_equal<T: PartialEq + fmt::Debug>(what: &str, found: T, expected: T) -> Result<(), Self> {
        if found == expected {
            return Ok(());
        }
        Err(Self::Wrong(format!("{what}:\n     found {found:?}\n  expected {expected:?}")))
    }

    /// Fails with this text unless the condition holds.
    ///
    /// # Errors
    /// It does not hold.
    pub fn unless(holds: bool, what: impl fmt::Display) -> Result<(), Self> {
        if holds { Ok(()) } else { Err(Self::of(what)) }
    }
}

impl From<KafkaError> for Failure {
    fn from(error: KafkaError) -> Self {
        if error.is_missing() { Self::Missing(error.to_string()) } else { Self::of(error) }
    }
}

impl From<ForeignError> for Failure {
    fn from(error: ForeignError) -> Self {
        if error.is_missing() { Self::Missing(error.to_string()) } else { Self::of(error) }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::of(error)
    }
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Self::Wrong(text)
    }
}

impl From<&str> for Failure {
    fn from(text: &str) -> Self {
        Self::Wrong(text.to_owned())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(why) => write!(f, "missing: {why}"),
            Self::Wrong(why) => f.write_str(why),
        }
    }
}

//! How a case ends when it does not pass.

use std::error::Error;
use std::fmt;

use crate::foreign::ForeignError;
use crate::kafka::KafkaError;

/// Why a case did not pass. `?` makes it from any error.
#[derive(Debug)]
pub enum Failure {
    /// This machine lacks what the case needs: ignored, unless `REQUIRE_KAFKA` is set.
    Missing(String),
    /// The cluster that was given is not the one that the case is about: always ignored.
    Inapplicable(String),
    /// The case ran and found something wrong.
    Wrong(String),
}

impl Failure {
    /// Something wrong, in words.
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

/// `Failure` is no `Error` itself, so that every error can become one with `?`.
impl<E: Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        let any: &(dyn Error + 'static) = &error;
        let kafka = any.downcast_ref::<KafkaError>().is_some_and(KafkaError::is_missing);
        let foreign = any.downcast_ref::<ForeignError>().is_some_and(ForeignError::is_missing);
        if kafka || foreign { Self::Missing(error.to_string()) } else { Self::Wrong(with_causes(any)) }
    }
}

/// An error and what led to it, unless its own text says that already.
fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let why = error.to_string();
        if !text.contains(&why) {
            text = format!("{text}: {why}");
        }
        cause = error.source();
    }
    text
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(why) => write!(f, "missing: {why}"),
            Self::Inapplicable(why) | Self::Wrong(why) => f.write_str(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_machine_lacks_is_told_from_what_went_wrong() {
        let lacks = || Err::<(), _>(KafkaError::MavenMissing { kafka: "4.4.0".into() });
        let broke = || Err::<(), _>(KafkaError::BadSpec("x".into()));
        assert!(matches!(lacks().map_err(Failure::from), Err(Failure::Missing(_))));
        assert!(matches!(broke().map_err(Failure::from), Err(Failure::Wrong(_))));
    }

    #[test]
    fn causes_are_told_once() {
        let refused = || std::io::Error::other("refused");
        let told = KafkaError::Io { what: "ask".into(), source: refused() };
        assert_eq!(with_causes(&told), "ask: refused");
    }
}

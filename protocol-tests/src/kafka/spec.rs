//! Which cluster a test wants.

use std::collections::BTreeMap;
use std::fmt;

use super::KafkaError;

/// A cluster as a test wants it. Two tests with equal specs share one cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Spec {
    /// Kafka's version, such as `4.4.0`. Versions 3.3 to 4.x start.
    pub version: String,
    /// Number of nodes, each broker and controller: 1 to 4. With three or more, everything has three replicas.
    pub nodes: u8,
    /// Finalized level of the feature `transaction.version`: 0, 1 or 2. Kafka 3 has no such feature and behaves as 0.
    pub transaction_version: u8,
    /// Server properties on top of the launcher's own, which they override.
    pub extra: BTreeMap<String, String>,
}

impl Spec {
    /// One node of `version`, with the newest transaction protocol that this version has.
    pub fn new(version: &str) -> Self {
        let mut spec =
            Self { version: version.into(), nodes: 1, transaction_version: 0, extra: BTreeMap::new() };
        if spec.has_transaction_version() {
            spec.transaction_version = 2;
        }
        spec
    }

    /// The same with this many nodes.
    #[must_use]
    pub fn nodes(mut self, nodes: u8) -> Self {
        self.nodes = nodes;
        self
    }

    /// The same with this level of `transaction.version`.
    #[must_use]
    pub fn transaction_version(mut self, level: u8) -> Self {
        self.transaction_version = level;
        self
    }

    /// The same with one more server property.
    #[must_use]
    pub fn extra(mut self, name: &str, value: &str) -> Self {
        self.extra.insert(name.into(), value.into());
        self
    }

    /// The first number of the version.
    pub(crate) fn major(&self) -> u32 {
        self.version.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(0)
    }

    /// Whether this version knows the feature `transaction.version`.
    pub(crate) fn has_transaction_version(&self) -> bool {
        self.major() >= 4
    }

    /// How often topics are replicated by default.
    pub(crate) fn replicas(&self) -> u8 {
        self.nodes.min(3)
    }

    pub(crate) fn check(&self) -> Result<(), KafkaError> {
        let bad = |why: String| Err(KafkaError::BadSpec(why));
        if !(3..=9).contains(&self.major()) {
            return bad(format!("version {:?}: KRaft needs 3.3 or newer", self.version));
        }
        if !(1..=4).contains(&self.nodes) {
            return bad(format!("{} nodes: 1 to 4 are possible", self.nodes));
        }
        if self.transaction_version > 2 {
            return bad(format!("transaction.version {}: levels are 0, 1, 2", self.transaction_version));
        }
        if self.transaction_version > 0 && !self.has_transaction_version() {
            return bad(format!("Kafka {} has no feature transaction.version, it is always 0", self.version));
        }
        Ok(())
    }
}

impl Default for Spec {
    /// One node of Kafka 4.4.0 with transactions V2.
    fn default() -> Self {
        Self::new("4.4.0")
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Kafka {}, {} node(s), transaction.version {}",
            self.version, self.nodes, self.transaction_version
        )?;
        for (name, value) in &self.extra {
            write!(f, ", {name}={value}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_spec_takes_the_newest_protocol_of_its_version() {
        assert_eq!(Spec::new("4.0.2").transaction_version, 2);
        assert_eq!(Spec::new("3.9.2").transaction_version, 0);
        assert!(Spec::new("3.9.2").check().is_ok());
    }

    #[test]
    fn a_contradiction_is_named() {
        let why = |spec: Spec| spec.check().unwrap_err().to_string();
        assert!(why(Spec::new("3.9.2").transaction_version(1)).contains("always 0"));
        assert!(why(Spec::default().nodes(0)).contains("1 to 4"));
        assert!(why(Spec::default().transaction_version(3)).contains("levels"));
        assert!(why(Spec::new("two")).contains("KRaft"));
    }
}

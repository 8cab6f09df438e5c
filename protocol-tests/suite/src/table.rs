//! The table of rows: `conformance.toml`.

use serde::Deserialize;

use crate::outcome::Failure;

/// Where a row is to be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Where {
    /// Without any broker.
    Unit,
    /// On the embedded broker, under every profile that has what it needs.
    Embedded,
    /// On real brokers only.
    Real,
    /// On both, with equal traces.
    Both,
}

/// What a row needs of its arm beyond one node that it is a client of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Need {
    /// Three nodes.
    ThreeNodes,
    /// Nodes that may be killed, frozen and changed.
    Power,
    /// A transaction timeout that is swept often.
    QuickSweep,
    /// Access rules that are obeyed.
    Rules,
    /// Transactional ids that are forgotten when they were not used for some seconds.
    QuickExpiry,
    /// Compacted topics that are looked at often.
    QuickCleaner,
    /// Producers whose sequences are forgotten when they wrote nothing for a second.
    QuickForgetting,
}

impl Need {
    /// The server properties that a real cluster must have for it, beside those that every one has.
    #[must_use]
    pub const fn properties(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::ThreeNodes | Self::Power | Self::QuickSweep => &[],
            Self::Rules => &[
                ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
                ("allow.everyone.if.no.acl.found", "true"),
            ],
            Self::QuickCleaner => &[("log.cleaner.backoff.ms", "200")],
            Self::QuickForgetting => {
                &[("producer.id.expiration.ms", "1000"), ("producer.id.expiration.check.interval.ms", "200")]
            }
            Self::QuickExpiry => &[
                ("transactional.id.expiration.ms", "3000"),
                ("transaction.remove.expired.transaction.cleanup.interval.ms", "500"),
            ],
        }
    }
}

/// One row.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// A letter for the chapter, and a number.
    pub id: String,
    /// The behaviour, in a sentence.
    pub behaviour: String,
    /// Where it was tested or reported by others.
    pub source: String,
    /// Where it is to be shown.
    #[serde(rename = "where")]
    pub place: Where,
    /// What it needs.
    #[serde(default)]
    pub needs: Vec<Need>,
    /// The levels of `transaction.version` at which it says something; all, if empty.
    #[serde(default)]
    pub levels: Vec<u8>,
    /// The capability that is still to be built. Such a row is never run and never counts as passed.
    pub awaits: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    row: Vec<Entry>,
}

/// The rows of `conformance.toml`; those that need a cluster of their own come last, so that none is started twice.
///
/// # Errors
/// The file is malformed; the text says where.
pub fn entries() -> Result<Vec<Entry>, Failure> {
    let File { mut row } = toml::from_str(include_str!("../../conformance.toml"))?;
    row.sort_by_key(Entry::properties);
    Ok(row)
}

impl Entry {
    /// The server properties that it needs.
    #[must_use]
    pub fn properties(&self) -> Vec<(&'static str, &'static str)> {
        self.needs.iter().flat_map(|need| need.properties()).copied().collect()
    }

    /// The letter of its chapter.
    #[must_use]
    pub fn chapter(&self) -> char {
        self.id.chars().next().unwrap_or('?')
    }
}

//! What rows run on.

use std::fmt;

use kafka_2pc::broker::{Api, Profile, TransactionVersion};
use kafka_2pc_protocol_tests::kafka::Spec;

use crate::table::{Entry, Need, Where};

/// One column of the report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arm {
    /// No broker.
    Unit,
    /// The embedded broker under a profile.
    Embedded(Profile),
    /// Real Kafka, started here.
    Real(Spec),
    /// A cluster that runs already.
    Given(Given),
}

/// A cluster that somebody named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// `bootstrap.servers`.
    pub bootstrap: String,
    /// The profile whose ranges and traces it is compared with, by name.
    pub profile: Option<String>,
    /// Its finalized level of `transaction.version`.
    pub level: u8,
    /// How many brokers it has.
    pub brokers: usize,
}

impl Arm {
    /// Every arm that can be started here.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let mut arms = vec![Self::Unit];
        arms.extend(Profile::all().map(Self::Embedded));
        arms.extend([2, 1, 0].map(|level| Self::Real(Spec::default().transaction_version(level))));
        arms.extend(["4.2.2", "4.0.2", "3.9.2", "3.5.2"].map(|version| Self::Real(Spec::new(version))));
        arms.push(Self::Real(Spec::default().nodes(3)));
        arms
    }

    /// What every test run does: no broker, the embedded one as three releases, and the newest real Kafka.
    #[must_use]
    pub fn quick() -> Vec<Self> {
        let profiles = [Profile::kafka_4_4(), Profile::kafka_4_4_v1(), Profile::kafka_3_9()];
        let mut arms = vec![Self::Unit];
        arms.extend(profiles.map(Self::Embedded));
        arms.push(Self::Real(Spec::default()));
        arms
    }

    /// Its finalized level of `transaction.version`; 0 where there is no such feature.
    #[must_use]
    pub const fn level(&self) -> u8 {
        match self {
            Self::Unit => 0,
            Self::Embedded(profile) => match profile.transaction_version {
                TransactionVersion::V0 => 0,
                TransactionVersion::V1 => 1,
                TransactionVersion::V2 => 2,
            },
            Self::Real(spec) => spec.transaction_version,
            Self::Given(given) => given.level,
        }
    }

    /// True for brokers that are not ours.
    #[must_use]
    pub const fn is_real(&self) -> bool {
        matches!(self, Self::Real(_) | Self::Given(_))
    }

    /// The embedded broker's profile that imitates it.
    #[must_use]
    pub fn twin(&self) -> Option<Profile> {
        match self {
            Self::Unit | Self::Embedded(_) => None,
            Self::Given(given) => given.profile.as_deref().and_then(Profile::named),
            Self::Real(spec) if spec.version.starts_with("4.0") => Some(kafka_4_0(spec.transaction_version)),
            Self::Real(spec) => Profile::named(match (spec.version.as_str(), spec.transaction_version) {
                (version, _) if version.starts_with("3.9") => "kafka-3.9",
                (version, _) if version.starts_with("3.5") => "kafka-3.5",
                (_, 0) => "kafka-4.4-v0",
                (_, 1) => "kafka-4.4-v1",
                _ => "kafka-4.4",
            }),
        }
    }

    /// Whether a row belongs into this column at all.
    #[must_use]
    pub fn is_for(&self, row: &Entry) -> bool {
        match (self, row.place) {
            (Self::Unit, place) => place == Where::Unit,
            (_, Where::Unit) => false,
            (Self::Embedded(_), place) => place != Where::Real,
            // Only what needs three nodes is worth the three nodes' time.
            (Self::Real(spec), place) if spec.nodes > 1 => {
                place != Where::Embedded && row.needs.contains(&Need::ThreeNodes)
            }
            (Self::Real(_) | Self::Given(_), place) => place != Where::Embedded,
        }
    }

    /// Why the arm can't be asked a row that belongs to it; `None` if it can.
    #[must_use]
    pub fn lacks(&self, row: &Entry) -> Option<String> {
        if !row.levels.is_empty() && !row.levels.contains(&self.level()) && *self != Self::Unit {
            return Some(format!("it is about transaction.version {:?}", row.levels));
        }
        let single = match self {
            Self::Real(spec) => spec.nodes < 3,
            Self::Given(given) => given.brokers < 3,
            Self::Unit | Self::Embedded(_) => false,
        };
        let given = matches!(self, Self::Given(_));
        row.needs.iter().find_map(|need| match need {
            Need::ThreeNodes if single => Some("three nodes".to_owned()),
            Need::Power if given => Some("power over the nodes".to_owned()),
            Need::QuickSweep if given => Some("a quick sweep of timed out transactions".to_owned()),
            Need::Rules if given => Some("access rules of its own".to_owned()),
            Need::QuickExpiry if given => Some("a quick expiry of transactional ids".to_owned()),
            Need::QuickCleaner if given => Some("a quick cleaner of compacted topics".to_owned()),
            Need::QuickForgetting if given => Some("a quick expiry of producer ids".to_owned()),
            Need::ThreeNodes
            | Need::Power
            | Need::QuickSweep
            | Need::Rules
            | Need::QuickExpiry
            | Need::QuickCleaner
            | Need::QuickForgetting => None,
        })
    }
}

/// Kafka 4.0 is as 4.4 to a client, but has topics' names in its newest Produce.
fn kafka_4_0(level: u8) -> Profile {
    let (name, mut profile) = match level {
        0 => ("kafka-4.0-v0", Profile::kafka_4_4_v0()),
        1 => ("kafka-4.0-v1", Profile::kafka_4_4_v1()),
        _ => ("kafka-4.0", Profile::kafka_4_4()),
    };
    profile.name = name;
    for (_, range) in profile.apis.iter_mut().filter(|(api, _)| *api == Api::Produce) {
        range.max = 12;
    }
    profile
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unit => f.write_str("unit"),
            Self::Embedded(profile) => write!(f, "embedded {}", profile.name),
            Self::Real(spec) => {
                write!(f, "Kafka {} v{}", spec.version, spec.transaction_version)?;
                if spec.nodes > 1 { write!(f, " x{}", spec.nodes) } else { Ok(()) }
            }
            Self::Given(given) => f.write_str(&given.bootstrap),
        }
    }
}

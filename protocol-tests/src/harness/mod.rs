//! Runs tests against real Kafka, and says plainly when it could not.
//!
//! A test is a [`Case`]: a name, what it needs, and a function. Clusters are expensive, so cases with equal [`Spec`]s run one
//! after the other on one cluster, which is started when the first of them runs.
//!
//! | environment | meaning |
//! |---|---|
//! | `REQUIRE_KAFKA=1` | what this machine lacks (Java, jars, Python) is a failure; otherwise the test is reported as ignored, with the reason |
//! | `KAFKA_BOOTSTRAP=host:port,..` | use this cluster; tests that need another one, or power over its nodes, are ignored |
//! | `KAFKA_2PC_SIZE=quick` or `full` | how much the tests do; quick if not set |
//!
//! A case that could not run is never reported as passed.

mod failure;
mod ground;
mod pool;
mod run;

pub use failure::Failure;
pub use ground::Ground;
pub use run::main;

use std::fmt;
use std::sync::Arc;

use crate::kafka::Spec;

/// What a test does.
type Body = Arc<dyn Fn(&Ground) -> Result<(), Failure> + Send + Sync>;

/// A test against a cluster.
#[derive(Clone)]
pub struct Case {
    /// Its name: the behaviour that it shows.
    pub name: String,
    /// The cluster it needs.
    pub spec: Spec,
    /// What it does to the cluster.
    pub control: Control,
    /// Further options of the program's own broker.
    pub options: Vec<String>,
    body: Body,
}

impl Case {
    /// A test that only talks to the cluster.
    pub fn clients<F>(name: impl Into<String>, spec: Spec, body: F) -> Self
    where
        F: Fn(&Ground) -> Result<(), Failure> + Send + Sync + 'static,
    {
        Self { name: name.into(), spec, control: Control::Clients, options: Vec::new(), body: Arc::new(body) }
    }

    /// A test that kills, freezes or changes nodes. The cluster is restored after it.
    pub fn nodes<F>(name: impl Into<String>, spec: Spec, body: F) -> Self
    where
        F: Fn(&Ground) -> Result<(), Failure> + Send + Sync + 'static,
    {
        Self { control: Control::Nodes, ..Self::clients(name, spec, body) }
    }

    /// A test on the program's own broker at this level of `transaction.version`, which needs no Kafka.
    pub fn embedded<F>(name: impl Into<String>, level: u8, body: F) -> Self
    where
        F: Fn(&Ground) -> Result<(), Failure> + Send + Sync + 'static,
    {
        let spec = Spec::default().transaction_version(level);
        Self { control: Control::Embedded, ..Self::clients(name, spec, body) }
    }

    /// With these further options of the program's own broker.
    #[must_use]
    pub fn options(self, options: &[&str]) -> Self {
        Self { options: options.iter().map(|word| (*word).to_owned()).collect(), ..self }
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, spec, control, options, body: _ } = self;
        let mut shown = f.debug_struct("Case");
        shown.field("name", name).field("spec", spec).field("control", control);
        shown.field("options", options).finish()
    }
}

/// What a test does to its cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// It is a client, as anybody could be.
    Clients,
    /// It has power over the nodes, so it needs a cluster that was started here.
    Nodes,
    /// It runs on the broker of the program under test; Kafka is neither needed nor started.
    Embedded,
}

/// How much tests shall do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// Seconds per test.
    Quick,
    /// Minutes per test, if that shows more.
    Full,
}

impl Size {
    /// What `KAFKA_2PC_SIZE` says; quick if it is not set.
    pub fn from_env() -> Self {
        match std::env::var("KAFKA_2PC_SIZE").as_deref() {
            Ok("full") => Self::Full,
            _ => Self::Quick,
        }
    }

    /// One of two values.
    pub fn pick<T>(self, quick: T, full: T) -> T {
        match self {
            Self::Quick => quick,
            Self::Full => full,
        }
    }
}

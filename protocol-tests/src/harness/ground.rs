//! What a running case stands on: a cluster that was started here, or one that was given.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use super::{Case, Control, Failure, Size};
use crate::foreign::Venv;
use crate::kafka::{self, KafkaCluster, KafkaError, Spec, Tools, Topic};

/// A cluster, and what else a case needs.
#[derive(Debug, Clone)]
pub struct Ground {
    bootstrap: String,
    version: String,
    cluster: Option<Arc<KafkaCluster>>,
}

impl Ground {
    pub(super) fn launched(cluster: Arc<KafkaCluster>) -> Self {
        Self {
            bootstrap: cluster.bootstrap(),
            version: cluster.spec().version.clone(),
            cluster: Some(cluster),
        }
    }

    /// A cluster that runs already, if it can stand for the one that the case needs.
    pub(super) fn given(bootstrap: &str, case: &Case) -> Result<Self, Failure> {
        let Spec { version, nodes, transaction_version, extra } = &case.spec;
        let missing = |why: String| Err(Failure::Missing(format!("{bootstrap}: {why}")));
        if case.control == Control::Nodes {
            return missing("the test kills or changes nodes, which needs a cluster started for it".into());
        }
        if !extra.is_empty() {
            return missing(format!("the test needs the server properties {extra:?}"));
        }
        let level = kafka::transaction_version(bootstrap)?;
        if level != i16::from(*transaction_version) {
            return missing(format!(
                "its transaction.version is {level}, the test needs {transaction_version}"
            ));
        }
        let brokers = kafka::broker_count(bootstrap)?;
        if brokers < usize::from(*nodes) {
            return missing(format!("it has {brokers} brokers, the test needs {nodes}"));
        }
        Ok(Self { bootstrap: bootstrap.into(), version: version.clone(), cluster: None })
    }

    /// Where the cluster is, as `bootstrap.servers` wants it.
    pub fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    /// The cluster itself, for a case with [`Control::Nodes`].
    ///
    /// # Errors
    /// The cluster was not started here.
    pub fn cluster(&self) -> Result<&KafkaCluster, Failure> {
        let missing = || Failure::Missing(format!("{} was not started for this test", self.bootstrap));
        self.cluster.as_deref().ok_or_else(missing)
    }

    /// A name that no other test and no earlier run used: for topics, transactional ids, groups.
    pub fn fresh(&self, name: &str) -> String {
        static USED: AtomicU32 = AtomicU32::new(0);
        let number = USED.fetch_add(1, Ordering::Relaxed);
        format!("{name}-{}-{:x}-{number}", std::process::id(), started())
    }

    /// Creates a topic of this many partitions under a [`fresh`](Self::fresh) name, which it returns.
    ///
    /// # Errors
    /// As [`create_topic`](kafka::create_topic).
    pub fn topic(&self, name: &str, partitions: i32) -> Result<String, KafkaError> {
        let topic = Topic::new(&self.fresh(name), partitions);
        kafka::create_topic(&self.bootstrap, &topic)?;
        Ok(topic.name)
    }

    /// Kafka's own command line tools.
    ///
    /// # Errors
    /// Their jars can not be fetched.
    pub fn tools(&self) -> Result<Tools, KafkaError> {
        Tools::new(&self.version, &self.bootstrap)
    }

    /// The foreign clients, installed at first use.
    ///
    /// # Errors
    /// Python is missing, or the clients can not be installed.
    pub fn foreign(&self) -> Result<Venv, Failure> {
        static VENV: OnceLock<Result<Venv, String>> = OnceLock::new();
        let venv = VENV.get_or_init(|| Venv::ensure().map_err(|e| e.to_string()));
        venv.clone().map_err(Failure::Missing)
    }

    /// How much the case shall do.
    pub fn size(&self) -> Size {
        Size::from_env()
    }
}

/// When this process first asked, so that a process id that comes again does not bring old names back.
fn started() -> u128 {
    static STARTED: OnceLock<u128> = OnceLock::new();
    *STARTED.get_or_init(|| {
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| since.as_millis())
    })
}

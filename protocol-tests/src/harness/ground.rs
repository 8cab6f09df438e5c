//! What a running case stands on: a cluster that was started here, or one that was given.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::{Case, Control, Failure, Size};
use crate::foreign::Venv;
use crate::kafka::{self, KafkaCluster, KafkaError, Spec, Tools, Topic};
use crate::program::Broker;

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

    pub(super) fn embedded(broker: &Broker, case: &Case) -> Self {
        Self { bootstrap: broker.address().into(), version: case.spec.version.clone(), cluster: None }
    }

    /// A cluster that runs already, if it can stand for the one that the case needs.
    pub(super) fn given(bootstrap: &str, case: &Case) -> Result<Self, Failure> {
        let Spec { version, nodes, transaction_version, extra } = &case.spec;
        let other = |why: String| Err(Failure::Inapplicable(format!("{bootstrap}: {why}")));
        if case.control == Control::Nodes {
            return other("only a cluster started for the test may be killed or changed".into());
        }
        if !extra.is_empty() {
            return other(format!("the test needs the server properties {extra:?}"));
        }
        let level = kafka::transaction_version(bootstrap)?;
        if level != i16::from(*transaction_version) {
            return other(format!(
                "its transaction.version is {level}, the test needs {transaction_version}"
            ));
        }
        let brokers = kafka::broker_count(bootstrap)?;
        if brokers < usize::from(*nodes) {
            return other(format!("it has {brokers} brokers, the test needs {nodes}"));
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
        let other = || Failure::Inapplicable(format!("{} was not started for this test", self.bootstrap));
        self.cluster.as_deref().ok_or_else(other)
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
        static VENV: Mutex<Option<Venv>> = Mutex::new(None);
        let mut venv = VENV.lock().unwrap_or_else(PoisonError::into_inner);
        match venv.as_ref() {
            Some(venv) => Ok(venv.clone()),
            None => Ok(venv.insert(Venv::ensure()?).clone()),
        }
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

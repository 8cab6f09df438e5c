//! A running cluster, and what tests do to it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::jars::{JarSet, Jars};
use super::launch::{self, Launch};
use super::ports::PortBlock;
use super::ready::{self, Expected};
use super::tools::{ToolOutput, Tools};
use super::{KafkaError, Spec, Topic, topics};
use crate::process::{Guarded, Watchdog};

const READY_LIMIT: Duration = Duration::from_secs(90);
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// A KRaft cluster on 127.0.0.1. Its nodes, numbered from 1, are killed and its data is removed when this value is dropped, and also
/// when the process ends without dropping it.
///
/// With `KAFKA_KEEP` set the folder of data and logs stays. `KAFKA_2PC_DIR` says where it is made (default: the temporary folder).
#[derive(Debug)]
pub struct KafkaCluster {
    spec: Spec,
    // Declared before the launch and the folder: nodes are killed first, then the watchdog is let go, then the data is removed.
    nodes: Mutex<BTreeMap<u8, Node>>,
    launch: Launch,
    _folder: TempDir,
}

#[derive(Debug)]
enum Node {
    Running(Guarded),
    Paused(Guarded),
    Down,
}

impl KafkaCluster {
    /// Fetches the jars if need be, formats and starts all nodes, and returns when the cluster has proven itself (7 to 10 s).
    ///
    /// # Errors
    /// Every [`KafkaError`]; [`KafkaError::is_missing`] tells a machine without Kafka from a failure.
    pub fn start(spec: Spec) -> Result<Self, KafkaError> {
        spec.check()?;
        let jars = Jars::ensure(&spec.version, JarSet::Server)?;
        let ports = PortBlock::anywhere()?;
        let folder = folder()?;
        let watched = (!keep()).then_some(folder.path());
        let watchdog = Watchdog::start(watched).map_err(KafkaError::io("start the watchdog"))?;
        let launch = Launch::prepare(&spec, jars, ports, folder.path(), watchdog)?;
        let cluster = Self { spec, nodes: Mutex::default(), launch, _folder: folder };
        // All at once: a quorum of three needs two.
        for node in 1..=cluster.spec.nodes {
            let process = cluster.launch.start(node)?;
            cluster.nodes().insert(node, Node::Running(process));
        }
        cluster.wait_ready()?;
        Ok(cluster)
    }

    /// What was asked for.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Addresses of all nodes, dead ones too, as `bootstrap.servers` wants them.
    pub fn bootstrap(&self) -> String {
        let all: Vec<_> = (1..=self.spec.nodes).map(|node| self.launch.address(node)).collect();
        all.join(",")
    }

    /// The address of one node.
    pub fn address(&self, node: u8) -> String {
        self.launch.address(node)
    }

    /// The id that every node of this cluster says, and no other cluster.
    pub fn cluster_id(&self) -> &str {
        &self.launch.cluster_id
    }

    /// The log of one node.
    pub fn log(&self, node: u8) -> PathBuf {
        self.launch.log(node)
    }

    /// Where a node keeps a partition.
    pub fn partition_folder(&self, node: u8, topic: &str, partition: i32) -> PathBuf {
        self.launch.data(node).join(format!("{topic}-{partition}"))
    }

    /// Who must answer for this cluster to be whole: its live nodes.
    pub fn expected(&self) -> Expected {
        let nodes = self.nodes();
        let live = nodes.iter().filter(|(_, state)| matches!(state, Node::Running(_)));
        let nodes = live.map(|(node, _)| (*node, self.launch.address(*node))).collect();
        Expected { cluster_id: self.launch.cluster_id.clone(), nodes }
    }

    /// Waits until the live nodes are this cluster, list exactly each other, and every transaction coordinator is loaded.
    ///
    /// # Errors
    /// A node died, somebody else answers on a port, or 90 s are over.
    pub fn wait_ready(&self) -> Result<(), KafkaError> {
        let deadline = Instant::now() + READY_LIMIT;
        loop {
            self.deaths()?;
            let last = match ready::prove(&self.expected()) {
                Ok(None) => return Ok(()),
                Ok(Some(missing)) => missing,
                Err(other) => {
                    // A node that lost its port to another cluster says so in its log, which tells more.
                    self.deaths()?;
                    return Err(other);
                }
            };
            if Instant::now() >= deadline {
                return Err(KafkaError::NotReady { waited: READY_LIMIT, last });
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// SIGKILL, as a crash: returns when the process is gone. The others notice when its session ends, in about 3 s.
    ///
    /// # Errors
    /// There is no such node.
    pub fn kill(&self, node: u8) -> Result<(), KafkaError> {
        match self.replace(node, Node::Down)? {
            Node::Running(process) | Node::Paused(process) => {
                process.kill().map_err(KafkaError::io(format!("kill node {node}")))
            }
            Node::Down => Ok(()),
        }
    }

    /// Starts a node that is down, on its old port and data. Does not wait: see [`wait_ready`](Self::wait_ready).
    ///
    /// # Errors
    /// There is no such node, or it is up.
    pub fn start_node(&self, node: u8) -> Result<(), KafkaError> {
        let mut nodes = self.nodes();
        match nodes.get(&node) {
            Some(Node::Down) => {}
            Some(_) => return Err(KafkaError::BadNode { node, why: "is up" }),
            None => return Err(KafkaError::BadNode { node, why: "does not exist" }),
        }
        nodes.insert(node, Node::Running(self.launch.start(node)?));
        Ok(())
    }

    /// SIGSTOP: it keeps its port and connections, and answers nothing. Beyond the session timeout it becomes a zombie leader.
    ///
    /// # Errors
    /// There is no such node, or it is not running.
    pub fn pause(&self, node: u8) -> Result<(), KafkaError> {
        match self.replace(node, Node::Down)? {
            Node::Running(process) => {
                let stopped = process.pause().map_err(KafkaError::io(format!("pause node {node}")));
                self.nodes().insert(node, Node::Paused(process));
                stopped
            }
            other => self.put_back(node, other, "is not running"),
        }
    }

    /// SIGCONT after [`pause`](Self::pause).
    ///
    /// # Errors
    /// There is no such node, or it is not paused.
    pub fn cont(&self, node: u8) -> Result<(), KafkaError> {
        match self.replace(node, Node::Down)? {
            Node::Paused(process) => {
                let continued = process.cont().map_err(KafkaError::io(format!("continue node {node}")));
                self.nodes().insert(node, Node::Running(process));
                continued
            }
            other => self.put_back(node, other, "is not paused"),
        }
    }

    /// Makes every node live again, whatever was done to it, waits until the cluster is ready, and sets `transaction.version` back.
    ///
    /// # Errors
    /// As [`wait_ready`](Self::wait_ready) and [`set_feature`](Self::set_feature).
    pub fn restore(&self) -> Result<(), KafkaError> {
        for node in 1..=self.spec.nodes {
            match self.replace(node, Node::Down)? {
                Node::Running(process) => {
                    self.nodes().insert(node, Node::Running(process));
                }
                Node::Paused(process) => {
                    self.nodes().insert(node, Node::Paused(process));
                    self.cont(node)?;
                }
                Node::Down => self.start_node(node)?,
            }
        }
        self.wait_ready()?;
        self.set_feature(self.spec.transaction_version)
    }

    /// The node that coordinates a transactional id.
    ///
    /// # Errors
    /// No live node answers, or it knows none.
    pub fn coordinator(&self, transactional_id: &str) -> Result<u8, KafkaError> {
        let live: Vec<_> = self.expected().nodes.into_values().collect();
        let node = topics::coordinator(&live.join(","), transactional_id)?;
        u8::try_from(node).map_err(|_| KafkaError::BadNode { node: 0, why: "coordinates it: there is none" })
    }

    /// Creates a topic and waits for its leaders.
    ///
    /// # Errors
    /// As [`create_topic`](topics::create_topic).
    pub fn create_topic(&self, topic: &Topic) -> Result<(), KafkaError> {
        topics::create_topic(&self.live_bootstrap(), topic)
    }

    /// Kafka's command line tools against this cluster; their jars are fetched at first use.
    ///
    /// # Errors
    /// The jars can not be fetched.
    pub fn tooling(&self) -> Result<Tools, KafkaError> {
        Tools::new(&self.spec.version, &self.live_bootstrap())
    }

    /// Runs a class of Kafka's tools with these arguments; `--bootstrap-server` is added.
    ///
    /// # Errors
    /// The jars can not be fetched, or the tool fails.
    pub fn tools(&self, class: &str, arguments: &[&str]) -> Result<ToolOutput, KafkaError> {
        self.tooling()?.run(class, arguments)
    }

    /// Changes the finalized level of `transaction.version` while the cluster runs, and waits until every live node says it.
    ///
    /// # Errors
    /// The controller refuses, or nodes do not follow in 20 s.
    pub fn set_feature(&self, level: u8) -> Result<(), KafkaError> {
        let bootstrap = self.live_bootstrap();
        let before = topics::transaction_version(&bootstrap)?;
        let direction = if i16::from(level) < before { "downgrade" } else { "upgrade" };
        let feature = format!("transaction.version={level}");
        if i16::from(level) != before {
            self.tools("org.apache.kafka.tools.FeatureCommand", &[direction, "--feature", &feature])?;
        }
        let limit = Duration::from_secs(20);
        let deadline = Instant::now() + limit;
        for address in self.expected().nodes.values() {
            while topics::transaction_version(address)? != i16::from(level) {
                if Instant::now() >= deadline {
                    return Err(KafkaError::NotReady {
                        waited: limit,
                        last: format!("{address}: not at {feature}"),
                    });
                }
                std::thread::sleep(LOOK_AGAIN);
            }
        }
        Ok(())
    }

    fn live_bootstrap(&self) -> String {
        self.expected().nodes.into_values().collect::<Vec<_>>().join(",")
    }

    /// An error if the process of a node that should live has ended.
    fn deaths(&self) -> Result<(), KafkaError> {
        for (node, state) in self.nodes().iter_mut() {
            let (Node::Running(process) | Node::Paused(process)) = state else { continue };
            let exit = process.exit().map_err(KafkaError::io(format!("look at node {node}")))?;
            if let Some(exit) = exit {
                let (node, log) = (*node, self.launch.log(*node));
                *state = Node::Down;
                let trouble = launch::trouble(&log);
                return Err(KafkaError::NodeDied { node, status: exit.to_string(), log, trouble });
            }
        }
        Ok(())
    }

    fn nodes(&self) -> MutexGuard<'_, BTreeMap<u8, Node>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn replace(&self, node: u8, state: Node) -> Result<Node, KafkaError> {
        let mut nodes = self.nodes();
        let place = nodes.get_mut(&node).ok_or(KafkaError::BadNode { node, why: "does not exist" })?;
        Ok(std::mem::replace(place, state))
    }

    fn put_back(&self, node: u8, state: Node, why: &'static str) -> Result<(), KafkaError> {
        self.nodes().insert(node, state);
        Err(KafkaError::BadNode { node, why })
    }
}

fn keep() -> bool {
    std::env::var_os("KAFKA_KEEP").is_some_and(|value| !value.is_empty())
}

fn folder() -> Result<TempDir, KafkaError> {
    let parent = std::env::var_os("KAFKA_2PC_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let mut folder = tempfile::Builder::new()
        .prefix("kafka-2pc-")
        .tempdir_in(&parent)
        .map_err(KafkaError::io(format!("create a folder in {}", Path::new(&parent).display())))?;
    folder.disable_cleanup(keep());
    Ok(folder)
}

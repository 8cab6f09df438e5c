//! The handle that starts, bends and stops a broker.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::net::TcpListener;

use super::cluster::{Cluster, NewTopic, Node};
use super::config::BrokerConfig;
use super::error::BrokerError;
use super::fault::Fault;
use super::markers;
use super::random::random_topic_id;
use super::server::{self, Listening};
use super::shared::Shared;
use crate::ids::{TopicId, TopicName, TopicPartition};
use crate::wire::api::Api;
use crate::wire::versions::TransactionVersion;

/// A running broker. Dropping it stops everything.
#[derive(Debug)]
pub struct Broker {
    shared: Arc<Shared>,
    listening: Mutex<BTreeMap<i32, Listening>>,
    cluster_id: String,
}

impl Broker {
    /// Starts all nodes; they answer when this returns.
    ///
    /// # Errors
    /// [`BrokerError::Config`] for a configuration without nodes or with a bad address, [`BrokerError::Listen`]
    /// when a port is taken.
    pub async fn start(config: BrokerConfig) -> Result<Self, BrokerError> {
        let (host, port) = address(&config)?;
        let mut nodes = BTreeMap::new();
        let mut listeners = Vec::new();
        let count = i32::try_from(config.nodes).map_err(|_| BrokerError::Config("too many nodes".into()))?;
        for node in 1..=count {
            let offset = u16::try_from(node - 1).unwrap_or(u16::MAX);
            let wanted = if port == 0 { 0 } else { port.saturating_add(offset) };
            let (listener, bound) = listen(node, &host, wanted).await?;
            nodes.insert(node, Node { host: host.clone(), port: bound, up: true });
            listeners.push((node, listener));
        }
        let cluster_id = config.cluster_id.clone().unwrap_or_else(|| random_topic_id().to_string());
        let cluster = Cluster::new(cluster_id.clone(), nodes, &config);
        let shared = Arc::new(Shared::new(config, cluster));
        let listening = listeners
            .into_iter()
            .map(|(node, listener)| (node, server::serve(Arc::clone(&shared), node, listener)));
        let broker = Self { listening: Mutex::new(listening.collect()), cluster_id, shared };
        broker.shared.spawn(markers::sweep_forever(Arc::clone(&broker.shared)));
        Ok(broker)
    }

    /// `bootstrap.servers`: host and port of every node, also of stopped ones.
    #[must_use]
    pub fn bootstrap(&self) -> String {
        let cluster = self.shared.cluster();
        let addresses: Vec<String> =
            cluster.nodes.values().map(|n| format!("{}:{}", n.host, n.port)).collect();
        addresses.join(",")
    }

    /// The address of one node.
    ///
    /// # Errors
    /// [`BrokerError::UnknownNode`].
    pub fn address(&self, node: i32) -> Result<String, BrokerError> {
        let cluster = self.shared.cluster();
        let known = cluster.nodes.get(&node).ok_or(BrokerError::UnknownNode(node))?;
        Ok(format!("{}:{}", known.host, known.port))
    }

    /// The cluster's id.
    #[must_use]
    pub fn cluster_id(&self) -> &str {
        &self.cluster_id
    }

    /// Creates a topic with the default replication factor.
    ///
    /// # Errors
    /// [`BrokerError::TopicExists`].
    pub fn create_topic(&self, name: &str, partitions: i32) -> Result<TopicId, BrokerError> {
        let assignment = self.shared.cluster().spread(partitions, self.shared.config.replication());
        self.create_topic_on(name, assignment)
    }

    /// Creates a topic whose partitions have exactly these replicas, the first of each being its leader.
    ///
    /// # Errors
    /// [`BrokerError::TopicExists`].
    pub fn create_topic_on(&self, name: &str, replicas: Vec<Vec<i32>>) -> Result<TopicId, BrokerError> {
        let mut cluster = self.shared.cluster();
        if cluster.topics.named(name).is_some() {
            return Err(BrokerError::TopicExists(name.to_owned()));
        }
        let topic: TopicName = name.into();
        cluster.create(Arc::clone(&topic), NewTopic { assignment: replicas, ..NewTopic::default() });
        Ok(cluster.topics.named(&topic).map_or(TopicId::UNKNOWN, |t| t.id))
    }

    /// Adds partitions to a topic until it has `partitions` of them, as CreatePartitions does; a topic that has as many
    /// already stays as it is. False when there is no such topic.
    pub fn add_partitions(&self, name: &str, partitions: i32) -> bool {
        let mut cluster = self.shared.cluster();
        let assignment = cluster.spread(partitions, self.shared.config.replication());
        let grown = cluster.grow(name, assignment);
        drop(cluster);
        self.shared.announce();
        grown
    }

    /// Deletes a topic with everything in it, at once; false when there is none.
    pub fn delete_topic(&self, name: &str) -> bool {
        let gone = self.shared.cluster().topics.remove(name).is_some();
        self.shared.announce();
        gone
    }

    /// Finalizes another level of `transaction.version`, as UpdateFeatures does on a running cluster.
    pub fn set_transaction_version(&self, level: TransactionVersion) {
        self.shared.cluster().transactions.set_server_version(level);
    }

    /// Stops a node: its connections are cut, leaders and coordinators move to other replicas at once. Partitions
    /// that only it holds have no leader until it is started again. Its logs are kept.
    ///
    /// # Errors
    /// [`BrokerError::UnknownNode`].
    pub async fn stop_node(&self, node: i32) -> Result<(), BrokerError> {
        self.address(node)?;
        let listening = self.listening().remove(&node);
        if let Some(listening) = listening {
            listening.close().await;
        }
        self.shared.cluster().set_up(node, false);
        self.shared.announce();
        Ok(())
    }

    /// Starts a stopped node again, on the same port.
    ///
    /// # Errors
    /// [`BrokerError::UnknownNode`]; [`BrokerError::Listen`] when its port is taken now.
    pub async fn start_node(&self, node: i32) -> Result<(), BrokerError> {
        let known = self.shared.cluster().nodes.get(&node).cloned().ok_or(BrokerError::UnknownNode(node))?;
        if known.up {
            return Ok(());
        }
        let (listener, _) = listen(node, &known.host, known.port).await?;
        self.shared.cluster().set_up(node, true);
        let serving = server::serve(Arc::clone(&self.shared), node, listener);
        self.listening().insert(node, serving);
        self.shared.announce();
        Ok(())
    }

    /// The node that coordinates a transactional id, if one does.
    #[must_use]
    pub fn transaction_coordinator(&self, transactional_id: &str) -> Option<i32> {
        self.shared.cluster().transaction_coordinator(transactional_id).map(|(node, _)| node)
    }

    /// The leader of a partition, if it has one.
    #[must_use]
    pub fn leader(&self, partition: &TopicPartition) -> Option<i32> {
        self.shared.cluster().partition(partition).and_then(|p| p.leader)
    }

    /// Makes another replica of a partition its leader, as an election of the preferred leader does; of the logs of
    /// coordinators too. False when that node holds no replica or is stopped.
    pub fn move_leader(&self, partition: &TopicPartition, node: i32) -> bool {
        let moved = self.shared.cluster().lead(partition, node);
        self.shared.announce();
        moved
    }

    /// Holds every marker back: transactions that end from now on stay in their `Prepare` state.
    pub fn hold_markers(&self) {
        self.shared.hold_markers(true);
    }

    /// Lets held markers go.
    pub fn release_markers(&self) {
        self.shared.hold_markers(false);
    }

    /// Aborts every transaction whose timeout has passed, now instead of at the next sweep.
    pub fn sweep_timeouts(&self) {
        markers::sweep(&self.shared);
    }

    /// Forgets a transactional id, as `transactional.id.expiration.ms` would; false when it is unknown or its
    /// transaction is still open.
    #[must_use]
    pub fn expire_transactional_id(&self, transactional_id: &str) -> bool {
        self.shared.cluster().transactions.expire(transactional_id)
    }

    /// Lets a transactional id look as if it had been used very often: the next InitProducerId grants `epoch`, of which
    /// 32766 is the last before the producer id changes. False when the id is unknown or not idle.
    #[must_use]
    pub fn wear_out(&self, transactional_id: &str, epoch: i16) -> bool {
        self.shared.cluster().transactions.wear_out(transactional_id, epoch)
    }

    /// Forgets all producers without an open transaction on a partition, as `producer.id.expiration.ms` would.
    ///
    /// # Errors
    /// [`BrokerError::UnknownPartition`].
    pub fn expire_producers(&self, partition: &TopicPartition) -> Result<(), BrokerError> {
        let mut cluster = self.shared.cluster();
        let topic = cluster.topics.named_mut(&partition.topic);
        let found = topic.and_then(|t| t.partition_mut(partition.partition));
        found.map(|p| p.log.forget_idle_producers()).ok_or(BrokerError::UnknownPartition(partition.clone()))
    }

    /// Removes all records before `offset`; -1 removes all.
    ///
    /// # Errors
    /// [`BrokerError::UnknownPartition`], [`BrokerError::OffsetOutOfRange`].
    pub fn delete_records(&self, partition: &TopicPartition, offset: i64) -> Result<(), BrokerError> {
        let mut cluster = self.shared.cluster();
        let topic = cluster.topics.named_mut(&partition.topic);
        let found = topic.and_then(|t| t.partition_mut(partition.partition));
        let log = &mut found.ok_or(BrokerError::UnknownPartition(partition.clone()))?.log;
        let deleted = log.delete_before(offset);
        deleted
            .map(|_| ())
            .map_err(|_| BrokerError::OffsetOutOfRange { partition: partition.clone(), offset })
    }

    /// Lets a fault happen.
    pub fn inject(&self, fault: Fault) {
        self.shared.faults().inject(fault);
    }

    /// Forgets faults that did not happen yet.
    pub fn clear_faults(&self) {
        self.shared.faults().clear();
    }

    /// How many requests of an API came to all nodes since the start.
    #[must_use]
    pub fn requests(&self, api: Api) -> u64 {
        self.shared.faults().seen(api)
    }

    /// Stops everything and waits until all ports are free.
    pub async fn stop(self) {
        let listening = std::mem::take(&mut *self.listening());
        for (_, node) in listening {
            node.close().await;
        }
    }

    fn listening(&self) -> MutexGuard<'_, BTreeMap<i32, Listening>> {
        self.listening.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.shared.abort_tasks();
        self.listening().clear();
    }
}

fn address(config: &BrokerConfig) -> Result<(String, u16), BrokerError> {
    if config.nodes == 0 {
        return Err(BrokerError::Config("at least one node is needed".into()));
    }
    let parts = config.listen.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    // An IPv6 address stands in brackets: otherwise nobody could tell its end from the port.
    let bare = |host: &str| host.starts_with('[') && host.ends_with(']') || !host.contains(':');
    match parts.filter(|(host, _)| !host.is_empty() && bare(host)) {
        Some((host, port)) => Ok((host.to_owned(), port)),
        None => Err(BrokerError::Config(format!("{:?} is no host:port", config.listen))),
    }
}

async fn listen(node: i32, host: &str, port: u16) -> Result<(TcpListener, u16), BrokerError> {
    let address = format!("{host}:{port}");
    let failed = |source| BrokerError::Listen { node, address: address.clone(), source };
    let listener = TcpListener::bind(&address).await.map_err(failed)?;
    let bound = listener.local_addr().map(|a: SocketAddr| a.port()).map_err(failed)?;
    Ok((listener, bound))
}

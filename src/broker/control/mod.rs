//! The handle that starts, bends and stops a broker.

mod faults;
mod nodes;
mod topics;
mod transactions;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;

use super::cluster::{Cluster, Node};
use super::config::BrokerConfig;
use super::error::BrokerError;
use super::markers;
use super::network::{Dialer, Listener, MEMORY_PORT, Network};
use super::random::random_topic_id;
use super::server;
use super::shared::Shared;

/// A running broker. Dropping it stops everything.
#[derive(Debug)]
pub struct Broker {
    shared: Arc<Shared>,
    dialer: Dialer,
    cluster_id: String,
}

impl Broker {
    /// Starts all nodes; they answer when this returns. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// [`BrokerError::Config`] for a configuration without nodes or with a bad address, [`BrokerError::Listen`]
    /// when a port is taken.
    pub async fn start(config: BrokerConfig) -> Result<Self, BrokerError> {
        let dialer = Dialer::default();
        let mut nodes = BTreeMap::new();
        let mut listeners = Vec::new();
        for (node, host, port) in addresses(&config)? {
            let (listener, port) = listen(config.network, &dialer, (node, &host, port)).await?;
            nodes.insert(node, Node { host, port, up: true });
            listeners.push((node, listener));
        }
        let cluster_id = config.cluster_id.clone().unwrap_or_else(|| random_topic_id().to_string());
        let cluster = Cluster::new(cluster_id.clone(), nodes, &config);
        let shared = Arc::new(Shared::new(config, cluster));
        for (node, listener) in listeners {
            let serving = server::serve(Arc::clone(&shared), node, listener);
            shared.listening().insert(node, serving);
        }
        shared.spawn(markers::sweep_forever(Arc::clone(&shared)));
        shared.spawn(markers::expire_forever(Arc::clone(&shared)));
        Ok(Self { shared, dialer, cluster_id })
    }

    /// What clients take for `bootstrap.servers`: the addresses of all nodes, also of stopped ones.
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

    /// The present time of the broker's clock, in milliseconds since the Unix epoch: the wall's time when it was
    /// started, and what has passed on the runtime's clock since.
    #[must_use]
    pub fn now_ms(&self) -> i64 {
        self.shared.now_ms()
    }

    /// Opens streams to the nodes of a broker on [`Network::Memory`]; for others it refuses.
    #[must_use]
    pub fn dialer(&self) -> Dialer {
        self.dialer.clone()
    }

    /// Stops everything and waits until all ports are free.
    pub async fn stop(self) {
        let listening = std::mem::take(&mut *self.shared.listening());
        for (_, node) in listening {
            node.close().await;
        }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.shared.abort_tasks();
        self.shared.listening().clear();
    }
}

/// Node, host and wanted port of each.
fn addresses(config: &BrokerConfig) -> Result<Vec<(i32, String, u16)>, BrokerError> {
    if config.nodes == 0 {
        return Err(BrokerError::Config("at least one node is needed".into()));
    }
    let count = i32::try_from(config.nodes).map_err(|_| BrokerError::Config("too many nodes".into()))?;
    if config.network == Network::Memory {
        return Ok((1..=count).map(|node| (node, format!("node-{node}"), MEMORY_PORT)).collect());
    }
    let (host, port) = address(&config.listen)?;
    let wanted = |node: i32| {
        let offset = u16::try_from(node - 1).unwrap_or(u16::MAX);
        if port == 0 { 0 } else { port.saturating_add(offset) }
    };
    Ok((1..=count).map(|node| (node, host.clone(), wanted(node))).collect())
}

fn address(listen: &str) -> Result<(String, u16), BrokerError> {
    let parts = listen.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    // An IPv6 address stands in brackets: otherwise nobody could tell its end from the port.
    let bare = |host: &str| host.starts_with('[') && host.ends_with(']') || !host.contains(':');
    match parts.filter(|(host, _)| !host.is_empty() && bare(host)) {
        Some((host, port)) => Ok((host.to_owned(), port)),
        None => Err(BrokerError::Config(format!("{listen:?} is no host:port"))),
    }
}

async fn listen(
    network: Network,
    dialer: &Dialer,
    (node, host, port): (i32, &str, u16),
) -> Result<(Listener, u16), BrokerError> {
    if network == Network::Memory {
        return Ok((dialer.listen(host), port));
    }
    let address = format!("{host}:{port}");
    let failed = |source| BrokerError::Listen { node, address: address.clone(), source };
    let listener = TcpListener::bind(&address).await.map_err(failed)?;
    let bound = listener.local_addr().map(|a: SocketAddr| a.port()).map_err(failed)?;
    Ok((Listener::Tcp(listener), bound))
}

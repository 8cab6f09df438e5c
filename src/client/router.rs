//! Connections of a client, and who is asked what.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::sync::watch;

use super::{buffers::Buffers, config::ClientConfig, error::ClientError, first::first};
use crate::{
    exchange::{BrokerProfile, Call, FindCoordinator, Metadata, MetadataAnswer, TopicMetadata},
    ids::{CoordinatorKey, GroupId, Moment, NodeId, TopicId, TopicName, TopicPartition, TransactionalId},
    net::{CallError, Clock, Connection, ConnectionConfig, Connector},
    proto::{
        backoff::Backoff,
        cluster::{Cluster, Leader},
        health::{Health, Seen},
        verdict::{self, FindCoordinatorVerdict, MetadataVerdict},
    },
    wire::code::ErrorCode,
};

mod together;
mod topics;

use together::Together;

/// What a connection is used for. A broker serves one request of a connection at a time, so an end of a
/// transaction must not queue behind data, nor behind a fetch that waits for records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Purpose {
    /// Produce.
    Data,
    /// Everything short.
    Control,
    /// InitProducerId, all of them, so that those of one id leave in order, and the look before it. A coordinator writes an
    /// identity down before it answers, and a transaction that is under way must not wait for that of another one.
    Identity,
    /// Ends of prepared transactions, on a connection of this number: a coordinator that answers one late must hold up
    /// neither the writers nor the others.
    Commit(u16),
    /// Fetch.
    Fetch,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Place {
    Node(NodeId),
    Bootstrap(usize),
}

pub(crate) struct Router {
    pub(crate) config: ClientConfig,
    pub(crate) clock: Clock,
    pub(crate) buffers: Buffers,
    /// Held by who looks at leaders on behalf of several.
    looking: tokio::sync::Mutex<()>,
    together: Together,
    /// Whether the last answer to a Produce of a transaction was one that tells of topics' ids.
    batches_tell: AtomicBool,
    /// Whether a marker was not on its partition yet when it was looked for directly behind the answer to EndTxn.
    markers_late: AtomicBool,
    connector: Arc<dyn Connector>,
    state: Mutex<State>,
}

/// Host and port.
type Address = (Arc<str>, u16);

#[derive(Default)]
struct State {
    cluster: Cluster,
    health: Health<Address>,
    /// When a topic's leaders were told last, and the brokers.
    topics_at: HashMap<TopicName, Moment>,
    brokers_at: Option<Moment>,
    connections: HashMap<(Place, Purpose), Slot>,
    profiles: HashMap<NodeId, (Moment, BrokerProfile)>,
    lookups: HashMap<CoordinatorKey, watch::Receiver<Option<Found>>>,
    next_bootstrap: usize,
    next_node: usize,
}

impl State {
    /// A connection to a bootstrap server is one to the broker that is said to be at its address: no second one is opened.
    fn adopt(&mut self, bootstrap: &[Address]) {
        let nodes: Vec<NodeId> = self.cluster.nodes().collect();
        for (index, server) in bootstrap.iter().enumerate() {
            let at_it = |node: &NodeId| self.cluster.address(*node).as_ref() == Some(server);
            let Some(node) = nodes.iter().copied().find(at_it) else { continue };
            let [from, to] = [Place::Bootstrap(index), Place::Node(node)].map(|p| (p, Purpose::Control));
            if self.connections.contains_key(&to) {
                continue;
            }
            if let Some(slot) = self.connections.remove(&from) {
                self.connections.insert(to, slot);
            }
        }
    }
}

/// What a lookup of a coordinator ends with.
type Found = Result<Result<NodeId, NotFound>, ClientError>;

/// Whose turn it is to look a coordinator up.
enum Turn {
    Known(NodeId),
    Mine(watch::Sender<Option<Found>>),
    Theirs(watch::Receiver<Option<Found>>),
}

struct Slot {
    connection: Connection,
    opened: Moment,
    address: Address,
    backoff: Backoff,
}

/// A coordinator was not found.
#[derive(Debug, Clone)]
pub(crate) struct NotFound {
    pub(crate) verdict: FindCoordinatorVerdict,
    pub(crate) detail: String,
}

/// A level, a topic's id or a leader is asked for again when it is older than this: operators change them while clients are
/// connected.
pub(crate) const FRESH: Duration = Duration::from_millis(100);

/// Connections to a coordinator that is being looked up are opened ahead where it is one of so many.
const FEW: usize = 3;

impl Router {
    pub(crate) fn new(config: ClientConfig, connector: Arc<dyn Connector>) -> Self {
        // Many processes with one list of servers do not all begin with the same one.
        let start = usize::try_from(Clock::seed() % 1024).unwrap_or_default();
        let state = State { next_bootstrap: start, next_node: start, ..State::default() };
        let (clock, buffers) = (Clock::start(), Buffers::default());
        let looking = tokio::sync::Mutex::default();
        let (together, [markers_late, batches_tell]) =
            (Together::default(), [false, false].map(AtomicBool::new));
        let state = Mutex::new(state);
        Self { config, clock, buffers, looking, together, batches_tell, markers_late, connector, state }
    }

    /// A router to the same cluster with connections of its own, which end with it.
    pub(crate) fn sibling(&self) -> Self {
        let mut sibling = Self::new(self.config.clone(), Arc::clone(&self.connector));
        sibling.clock = self.clock;
        sibling
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The state is valid after every statement, so a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn cluster_id(&self) -> Option<Arc<str>> {
        self.state().cluster.id().cloned()
    }

    pub(crate) fn topic_id(&self, name: &TopicName) -> TopicId {
        self.state().cluster.topic_id(name)
    }

    /// True when what is known of the brokers is older than a moment.
    pub(crate) fn is_cluster_stale(&self) -> bool {
        let now = self.clock.now();
        self.state().brokers_at.is_none_or(|told| now.since(told) >= FRESH)
    }

    /// Whether markers take longer here than the answer to EndTxn.
    pub(crate) fn markers_are_late(&self) -> bool {
        self.markers_late.load(Ordering::Relaxed)
    }

    /// They do.
    pub(crate) fn saw_late_marker(&self) {
        self.markers_late.store(true, Ordering::Relaxed);
    }

    /// How many partitions a topic has, as far as is known.
    pub(crate) fn partitions(&self, name: &TopicName) -> usize {
        self.state().cluster.partitions(name)
    }

    /// Whether [`coordinator`](Self::coordinator) is known without asking.
    pub(crate) fn knows_coordinator(&self, id: &TransactionalId) -> bool {
        self.state().cluster.coordinator(&CoordinatorKey::Transaction(id.clone())).is_some()
    }

    pub(crate) fn leader(&self, partition: &TopicPartition) -> Option<NodeId> {
        self.state().cluster.leader(partition)
    }

    /// What a broker that was asked as a partition's leader answered.
    pub(crate) fn answered(&self, node: NodeId, partition: &TopicPartition, code: ErrorCode) {
        if verdict::denies_leadership(code) {
            self.state().cluster.doubt_leader(partition, node);
        }
    }

    /// A broker that was asked as a leader did not answer, or nobody knows where it is.
    pub(crate) fn silent(&self, node: NodeId) {
        self.state().cluster.doubt_leaders_at(node);
    }

    pub(crate) fn learn_leader(&self, partition: &TopicPartition, node: NodeId, epoch: i32) -> bool {
        self.state().cluster.learn_leader(partition, node, epoch)
    }

    pub(crate) fn nodes(&self) -> Vec<NodeId> {
        self.state().cluster.nodes().collect()
    }

    pub(crate) fn forget_coordinator(&self, id: &TransactionalId) {
        self.state().cluster.forget_coordinator(&CoordinatorKey::Transaction(id.clone()));
    }

    pub(crate) fn forget_group_coordinator(&self, group: &GroupId) {
        self.state().cluster.forget_coordinator(&CoordinatorKey::Group(group.clone()));
    }

    /// The connection to a broker for a purpose; `None` if the broker is not known. One that was closed is
    /// opened again, later and later while that keeps failing.
    pub(crate) fn connection(&self, node: NodeId, purpose: Purpose) -> Option<Connection> {
        let mut state = self.state();
        let address = state.cluster.address(node)?;
        Some(self.open(&mut state, (Place::Node(node), purpose), address))
    }

    /// Opens connections that will be asked for soon.
    pub(crate) fn open_ahead(&self, nodes: impl IntoIterator<Item = NodeId>, purpose: Purpose) {
        for node in nodes {
            // Nothing is known of a broker that left in the meantime, and nothing need be.
            _ = self.connection(node, purpose);
        }
    }

    fn open(&self, state: &mut State, key: (Place, Purpose), address: Address) -> Connection {
        let now = self.clock.now();
        let mut delay = Duration::ZERO;
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(1), Clock::seed());
        if let Some(slot) = state.connections.remove(&key) {
            if !slot.connection.is_closed() && slot.address == address {
                let connection = slot.connection.clone();
                state.connections.insert(key, slot);
                return connection;
            }
            // The new connection must not hide that the broker may have been away.
            if let (true, Place::Node(node)) = (slot.connection.is_closed(), &key.0) {
                state.cluster.doubt_leaders_at(*node);
            }
            // A connection that lived for a while was a good one; it is replaced at once.
            if slot.address == address && now.since(slot.opened) < Duration::from_secs(10) {
                backoff = slot.backoff;
                delay = backoff.next_wait();
            }
        }
        if let Some(connection) = adopted(state, &key, &address) {
            let slot = Slot { connection: connection.clone(), opened: now, address, backoff };
            state.connections.insert(key, slot);
            return connection;
        }
        let config = ConnectionConfig {
            client_id: Arc::clone(&self.config.client_id),
            setup_timeout: self.config.setup_timeout,
            max_frame_bytes: self.config.max_frame_bytes,
            in_flight: 5,
            probe: self.config.probe.clone(),
        };
        let connector = Arc::clone(&self.connector);
        let connection = Connection::open(connector, address.clone(), delay, config, self.clock);
        let slot = Slot { connection: connection.clone(), opened: now.after(delay), address, backoff };
        state.connections.insert(key, slot);
        connection
    }

    /// Opens connections for a purpose to a broker that is going to be named, if there are few that it can be.
    pub(crate) fn open_where_it_may_be(&self, purpose: Purpose) {
        let nodes = self.nodes();
        if nodes.len() <= FEW {
            for node in nodes {
                _ = self.connection(node, purpose);
            }
        }
    }

    /// Asks one broker.
    pub(crate) async fn ask<C: Call + 'static>(
        &self,
        node: NodeId,
        purpose: Purpose,
        call: C,
    ) -> Result<C::Answer, CallError> {
        let Some(connection) = self.connection(node, purpose) else {
            self.silent(node);
            return Err(CallError::NotSent(format!("broker {node} is not known")));
        };
        let answer = connection.call(Arc::new(call), self.config.request_timeout).await;
        let mut state = self.state();
        let address = state.cluster.address(node);
        let silent =
            matches!(answer, Err(CallError::NotSent(_) | CallError::NotKafka(_) | CallError::MaybeSent(_)));
        if silent {
            state.cluster.forget_coordinators_at(node);
            state.cluster.doubt_leaders_at(node);
        }
        if let Some(address) = address {
            state.health.learn(self.clock.now(), address, if silent { Seen::Silent } else { Seen::Answered });
        }
        answer
    }

    /// Asks whichever broker answers, each at most once.
    pub(crate) async fn ask_any<C: Call + 'static>(&self, call: C) -> Result<C::Answer, ClientError> {
        let call = Arc::new(call);
        let ask = |(place, address): (Place, Address)| {
            let connection = self.open(&mut self.state(), (place, Purpose::Control), address);
            connection.call(Arc::clone(&call), self.config.request_timeout)
        };
        self.first(self.candidates(), ask).await
    }

    /// What any broker can do, not older than a moment ago.
    pub(crate) async fn any_profile(&self) -> Result<BrokerProfile, ClientError> {
        let nodes = self.candidates().into_iter().filter(|(place, _)| matches!(place, Place::Node(_)));
        let ask = |(place, _): (Place, Address)| async move {
            match place {
                Place::Node(node) => self.profile(node).await,
                Place::Bootstrap(_) => Err(CallError::NotSent("it has no number yet".to_owned())),
            }
        };
        self.first(nodes.collect(), ask).await
    }

    async fn first<T, F: Future<Output = Result<T, CallError>>>(
        &self,
        servers: Vec<(Place, Address)>,
        ask: impl Fn((Place, Address)) -> F,
    ) -> Result<T, ClientError> {
        let seen = |(_, address): (Place, Address), seen| {
            self.state().health.learn(self.clock.now(), address, seen);
        };
        let mut errors = match first(self.clock, servers, ask, seen).await {
            Ok(answer) => return Ok(answer),
            Err(errors) => errors,
        };
        // Only where nothing at all speaks Kafka is it of no use to try again.
        let all_foreign = errors.iter().all(|e| matches!(e, CallError::NotKafka(_)));
        errors.retain(|e| all_foreign || !matches!(e, CallError::NotKafka(_)));
        Err(match errors.into_iter().next() {
            Some(e @ (CallError::NotKafka(_) | CallError::Exchange(_))) => e.into(),
            Some(e) => ClientError::Unreachable(e.to_string()),
            None => ClientError::Unreachable("no server is known".to_owned()),
        })
    }

    /// Where to ask: who answered last before who did not, then open connections, then the known brokers before the
    /// bootstrap servers.
    fn candidates(&self) -> Vec<(Place, Address)> {
        let mut state = self.state();
        let mut nodes: Vec<NodeId> = state.cluster.nodes().collect();
        if !nodes.is_empty() {
            state.next_node = (state.next_node + 1) % nodes.len();
            nodes.rotate_left(state.next_node);
        }
        let is_open = |state: &State, node: NodeId| {
            let slot = state.connections.get(&(Place::Node(node), Purpose::Control));
            slot.is_some_and(|s| s.connection.is_ready() && !s.connection.is_closed())
        };
        nodes.sort_by_key(|node| !is_open(&state, *node));
        let known = nodes.iter().filter_map(|n| Some((Place::Node(*n), state.cluster.address(*n)?)));
        let mut places: Vec<_> = known.collect();
        let servers = &self.config.bootstrap;
        let first = state.next_bootstrap % servers.len().max(1);
        state.next_bootstrap = first + 1;
        let bootstrap = (0..servers.len()).map(|i| (first + i) % servers.len());
        places.extend(bootstrap.map(|i| (Place::Bootstrap(i), servers[i].clone())));
        let now = self.clock.now();
        // A bootstrap server that answered may be no broker of the cluster: known brokers come before it.
        places.sort_by_key(|(place, address)| {
            let rank = state.health.rank(now, address);
            (rank.is_silent(), matches!(place, Place::Bootstrap(_)), rank)
        });
        places
    }

    /// Asks for metadata and learns from it.
    pub(crate) async fn metadata(
        &self,
        topics: Option<Vec<TopicName>>,
    ) -> Result<MetadataAnswer, ClientError> {
        // What it says counts from before the question.
        let asked = self.clock.now();
        let answer = self.ask_any(Metadata { topics }).await?;
        let brokers = answer.brokers.iter().map(|b| (b.node, Arc::clone(&b.host), b.port));
        let mut state = self.state();
        state.cluster.learn_brokers(answer.cluster_id.clone(), brokers)?;
        state.brokers_at = Some(asked);
        state.adopt(&self.config.bootstrap);
        for topic in &answer.topics {
            if learn_topic(&mut state.cluster, topic) {
                state.topics_at.insert(topic.name.clone(), asked);
            }
        }
        Ok(answer)
    }

    /// Asks for metadata until a broker answers, for `max.block.ms` at most: at a start, brokers may be away.
    pub(crate) async fn metadata_in_time(&self) -> Result<MetadataAnswer, ClientError> {
        let deadline = self.clock.now().after(self.config.max_block);
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(1), Clock::seed());
        loop {
            match self.metadata(Some(Vec::new())).await {
                Err(ClientError::Unreachable(_)) if self.clock.now() < deadline => {}
                answer => return answer,
            }
            tokio::time::sleep(backoff.next_wait()).await;
        }
    }

    /// Asks for the leaders of partitions anew.
    pub(crate) async fn find_leaders(
        &self,
        partitions: &[TopicPartition],
    ) -> Result<Vec<(TopicPartition, Option<NodeId>)>, ClientError> {
        let mut topics: Vec<TopicName> = partitions.iter().map(|p| p.topic.clone()).collect();
        topics.sort();
        topics.dedup();
        self.metadata(Some(topics)).await?;
        Ok(partitions.iter().map(|p| (p.clone(), self.leader(p))).collect())
    }

    /// Waits until nobody else looks at leaders, but not longer than a moment: what they find serves all.
    pub(crate) async fn turn_to_look(&self) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        tokio::time::timeout(FRESH, self.looking.lock()).await.ok()
    }

    /// The coordinator of a transactional id.
    pub(crate) async fn coordinator(&self, id: &TransactionalId) -> Found {
        self.coordinator_of(CoordinatorKey::Transaction(id.clone())).await
    }

    /// The coordinator of a consumer group.
    pub(crate) async fn group_coordinator(&self, group: &GroupId) -> Found {
        self.coordinator_of(CoordinatorKey::Group(group.clone())).await
    }

    /// One lookup of a key is under way at a time: whoever else wants it waits for the same answer.
    async fn coordinator_of(&self, key: CoordinatorKey) -> Found {
        loop {
            match self.turn(&key) {
                Turn::Known(node) => return Ok(Ok(node)),
                Turn::Mine(told) => {
                    let found = self.look_up(&key).await;
                    self.state().lookups.remove(&key);
                    told.send_replace(Some(found.clone()));
                    return found;
                }
                Turn::Theirs(mut theirs) => {
                    let found = theirs.wait_for(Option::is_some).await.ok().and_then(|told| told.clone());
                    // A lookup that was given up left no answer: another one begins.
                    if let Some(found) = found {
                        return found;
                    }
                }
            }
        }
    }

    fn turn(&self, key: &CoordinatorKey) -> Turn {
        let mut state = self.state();
        if let Some(node) = state.cluster.coordinator(key) {
            return Turn::Known(node);
        }
        // The sender of one that was given up is gone.
        if let Some(theirs) = state.lookups.get(key).filter(|theirs| theirs.has_changed().is_ok()) {
            return Turn::Theirs(theirs.clone());
        }
        let (told, theirs) = watch::channel(None);
        state.lookups.insert(key.clone(), theirs);
        Turn::Mine(told)
    }

    async fn look_up(&self, key: &CoordinatorKey) -> Found {
        if self.nodes().is_empty() {
            self.metadata(Some(Vec::new())).await?;
        }
        match self.ask_any(FindCoordinator { key: key.clone() }).await? {
            Ok(node) => {
                match self.is_silent_at(node) {
                    None => _ = self.metadata(Some(Vec::new())).await?,
                    // It may have moved to another address. Without an answer this one is as good as any.
                    Some(true) => _ = self.metadata(Some(Vec::new())).await.ok(),
                    Some(false) => {}
                }
                self.state().cluster.learn_coordinator(key.clone(), node);
                Ok(Ok(node))
            }
            Err((code, message)) => {
                let verdict = verdict::find_coordinator(0, code);
                Ok(Err(NotFound { verdict, detail: verdict::no_coordinator(key, code, &message) }))
            }
        }
    }

    /// Whether a broker did not answer lately where it is said to be; `None` if nobody said where.
    fn is_silent_at(&self, node: NodeId) -> Option<bool> {
        let state = self.state();
        let address = state.cluster.address(node)?;
        Some(state.health.rank(self.clock.now(), &address).is_silent())
    }
}

/// The connection to a bootstrap server that is found to be this broker.
fn adopted(state: &State, (place, purpose): &(Place, Purpose), address: &Address) -> Option<Connection> {
    let serves = |((at, of), slot): &(&(Place, Purpose), &Slot)| {
        let open = slot.connection.is_ready() && !slot.connection.is_closed();
        matches!(at, Place::Bootstrap(_)) && of == purpose && slot.address == *address && open
    };
    match place {
        Place::Node(_) => state.connections.iter().find(serves).map(|(_, slot)| slot.connection.clone()),
        Place::Bootstrap(_) => None,
    }
}

/// False where nothing was told: what is known of the topic is as old as before.
fn learn_topic(cluster: &mut Cluster, topic: &TopicMetadata) -> bool {
    match topic.verdict {
        // A topic that is just being made.
        MetadataVerdict::Known | MetadataVerdict::Leaderless if topic.partitions.is_empty() => false,
        MetadataVerdict::Known | MetadataVerdict::Leaderless => {
            let leaders =
                topic.partitions.iter().map(|p| (p.index, Leader { node: p.leader, epoch: p.leader_epoch }));
            cluster.learn_topic(topic.name.clone(), topic.id, leaders);
            true
        }
        MetadataVerdict::Missing => {
            cluster.forget_topic(&topic.name);
            true
        }
        MetadataVerdict::Retry
        | MetadataVerdict::Denied
        | MetadataVerdict::InvalidName
        | MetadataVerdict::Rebootstrap
        | MetadataVerdict::Failed => false,
    }
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router").field("bootstrap", &self.config.bootstrap).finish_non_exhaustive()
    }
}

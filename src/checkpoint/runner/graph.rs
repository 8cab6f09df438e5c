//! A job's graph: sources, what is done with their records, and a sink.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;

use super::{
    event::Role,
    keyed::KEY_GROUPS,
    operator::Operator,
    output::{Route, Transform},
};
use crate::{record::Record, sink::SinkConfig, source::Source};

/// A job on one machine, as it is put together: sources, operators, a sink.
///
/// Every source, operator and sink has a uid, under which its state is found again after a restart, and a
/// parallelism, which may be another one then.
#[derive(Debug, Clone)]
pub struct Pipeline {
    pub(super) job_id: Arc<str>,
    graph: Arc<Mutex<Graph>>,
}

/// Records on their way. Transformations without state run in the subtask that the records come from.
#[derive(Debug, Clone)]
#[must_use = "records that go nowhere are dropped"]
pub struct Stream {
    graph: Arc<Mutex<Graph>>,
    from: Vec<Upstream>,
}

/// Where the records of a pipeline go.
#[derive(Debug, Clone)]
pub struct SinkSpec {
    /// The topic. A record goes to the partition that it names, else to that of its key, as Kafka's Java client
    /// chooses it.
    pub topic: String,
    /// How it is written to. A checkpoint that failed keeps a slot until a later one is complete: give it more slots than
    /// failures are tolerated in a row.
    pub config: SinkConfig,
}

#[derive(Debug, Default)]
pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
}

#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) uid: Arc<str>,
    pub(super) parallelism: u32,
    pub(super) kind: Kind,
    pub(super) inputs: Vec<Upstream>,
}

pub(super) type OperatorFactory = dyn Fn() -> Box<dyn Operator> + Send + Sync;

#[derive(Clone)]
pub(super) enum Kind {
    Source(Arc<dyn Source>),
    Operator(Arc<OperatorFactory>),
    Sink(Box<SinkSpec>),
}

/// The beginning of an edge.
#[derive(Clone)]
pub(super) struct Upstream {
    pub(super) node: usize,
    pub(super) transforms: Vec<Arc<Transform>>,
    pub(super) route: Route,
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Source(_) => f.write_str("Source"),
            Self::Operator(_) => f.write_str("Operator"),
            Self::Sink(sink) => f.debug_tuple("Sink").field(&sink.topic).finish(),
        }
    }
}

impl std::fmt::Debug for Upstream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:?} after {} transformations", self.node, self.route, self.transforms.len())
    }
}

/// What is wrong with a graph.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// Nothing to read.
    #[error("the pipeline has no source")]
    NoSource,
    /// Not one sink.
    #[error("the pipeline has {found} sinks; it needs exactly one")]
    Sinks {
        /// How many there are.
        found: usize,
    },
    /// State could not be told apart.
    #[error("the uid `{uid}` is used twice")]
    Twice {
        /// The uid.
        uid: Arc<str>,
    },
    /// A uid is part of the names of state.
    #[error("the uid `{uid}` is not made of letters, digits, `-`, `_` and `.`")]
    Uid {
        /// The uid.
        uid: Arc<str>,
    },
    /// A parallelism that can't be.
    #[error("the parallelism of `{uid}` is {found}; it must be between 1 and {KEY_GROUPS}")]
    Parallelism {
        /// Whose.
        uid: Arc<str>,
        /// What was asked for.
        found: u32,
    },
    /// Records that nobody takes.
    #[error("the records of `{uid}` go nowhere")]
    Unused {
        /// Whose.
        uid: Arc<str>,
    },
}

impl Pipeline {
    /// An empty pipeline. State belongs to the job of this id alone.
    #[must_use]
    pub fn new(job_id: impl Into<Arc<str>>) -> Self {
        Self { job_id: job_id.into(), graph: Arc::default() }
    }

    /// Adds a source.
    pub fn source(&self, uid: &str, parallelism: u32, source: impl Source + 'static) -> Stream {
        let kind = Kind::Source(Arc::new(source));
        add(&self.graph, Node { uid: uid.into(), parallelism, kind, inputs: Vec::new() })
    }

    /// What each source, operator and sink is, by its uid.
    #[must_use]
    pub fn roles(&self) -> BTreeMap<Arc<str>, Role> {
        let role = |kind: &Kind| match kind {
            Kind::Source(_) => Role::Source,
            Kind::Operator(_) => Role::Operator,
            Kind::Sink(_) => Role::Sink,
        };
        lock(&self.graph).nodes.iter().map(|node| (Arc::clone(&node.uid), role(&node.kind))).collect()
    }

    /// The nodes, checked; every edge leads from an earlier one to a later one.
    pub(super) fn nodes(&self) -> Result<Vec<Node>, GraphError> {
        let nodes = lock(&self.graph).nodes.clone();
        let mut uids = BTreeSet::new();
        let mut used = BTreeSet::new();
        for Node { uid, parallelism, inputs, kind: _ } in &nodes {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            if uid.is_empty() || !uid.chars().all(plain) {
                return Err(GraphError::Uid { uid: uid.clone() });
            }
            if !uids.insert(uid) {
                return Err(GraphError::Twice { uid: uid.clone() });
            }
            if !(1..=KEY_GROUPS).contains(parallelism) {
                return Err(GraphError::Parallelism { uid: uid.clone(), found: *parallelism });
            }
            used.extend(inputs.iter().map(|upstream| upstream.node));
        }
        let found = nodes.iter().filter(|node| matches!(node.kind, Kind::Sink(_))).count();
        if !nodes.iter().any(|node| matches!(node.kind, Kind::Source(_))) {
            return Err(GraphError::NoSource);
        }
        if found != 1 {
            return Err(GraphError::Sinks { found });
        }
        let idle =
            |(number, node): &(usize, &Node)| !matches!(node.kind, Kind::Sink(_)) && !used.contains(number);
        match nodes.iter().enumerate().find(idle) {
            Some((_, node)) => Err(GraphError::Unused { uid: node.uid.clone() }),
            None => Ok(nodes),
        }
    }
}

impl Stream {
    /// Changes every record.
    pub fn map(self, change: impl Fn(Record) -> Record + Send + Sync + 'static) -> Self {
        self.transform(move |record, output| output.push(change(record)))
    }

    /// Keeps the records for which `keep` is true.
    pub fn filter(self, keep: impl Fn(&Record) -> bool + Send + Sync + 'static) -> Self {
        self.transform(move |record, output| output.extend(Some(record).filter(|record| keep(record))))
    }

    /// Makes any number of records of each.
    pub fn flat_map<R>(self, make: impl Fn(Record) -> R + Send + Sync + 'static) -> Self
    where
        R: IntoIterator<Item = Record>,
    {
        self.transform(move |record, output| output.extend(make(record)))
    }

    /// The records of this stream and of another.
    pub fn union(mut self, other: Self) -> Self {
        self.from.extend(other.from);
        self
    }

    /// Records with the same key go to the same subtask of the next operator, and share its state of that key.
    pub fn key_by(self, key: impl Fn(&Record) -> Bytes + Send + Sync + 'static) -> Self {
        self.route(Route::Key(Arc::new(key)))
    }

    /// Records of the same partition go to the same subtask: their order stays, also when there are fewer or more
    /// subtasks behind than before.
    pub fn by_partition(self) -> Self {
        self.route(Route::Partition)
    }

    /// Records go to the next subtasks in turn. Their order is lost.
    pub fn rebalance(self) -> Self {
        self.route(Route::Rebalance)
    }

    /// Adds an operator; `operator` makes the one of each subtask. It has state by key behind [`key_by`](Self::key_by).
    pub fn process<O: Operator + 'static>(
        self,
        uid: &str,
        parallelism: u32,
        operator: impl Fn() -> O + Send + Sync + 'static,
    ) -> Self {
        let kind = Kind::Operator(Arc::new(move || Box::new(operator())));
        add(&self.graph, Node { uid: uid.into(), parallelism, kind, inputs: self.from })
    }

    /// Ends in a sink.
    pub fn sink(self, uid: &str, parallelism: u32, sink: SinkSpec) {
        let kind = Kind::Sink(Box::new(sink));
        let node = Node { uid: uid.into(), parallelism, kind, inputs: self.from };
        _ = add(&self.graph, node);
    }

    fn transform(mut self, body: impl Fn(Record, &mut Vec<Record>) + Send + Sync + 'static) -> Self {
        let transform: Arc<Transform> = Arc::new(body);
        self.from.iter_mut().for_each(|upstream| upstream.transforms.push(Arc::clone(&transform)));
        self
    }

    fn route(mut self, route: Route) -> Self {
        self.from.iter_mut().for_each(|upstream| upstream.route = route.clone());
        self
    }
}

fn lock(graph: &Mutex<Graph>) -> MutexGuard<'_, Graph> {
    graph.lock().unwrap_or_else(PoisonError::into_inner)
}

fn add(graph: &Arc<Mutex<Graph>>, node: Node) -> Stream {
    let mut nodes = lock(graph);
    nodes.nodes.push(node);
    let upstream = Upstream { node: nodes.nodes.len() - 1, transforms: Vec::new(), route: Route::Forward };
    Stream { graph: Arc::clone(graph), from: vec![upstream] }
}

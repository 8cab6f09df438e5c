//! Turns a graph and a restored checkpoint into running subtasks.

use std::sync::Arc;

use futures::stream::FuturesUnordered;
use tokio::sync::mpsc;

use super::{
    channel::{Entry, Inbox, inbox},
    commits::Commits,
    config::RunConfig,
    counters::Counters,
    error::{RunError, TaskError},
    event::TaskName,
    gate::Gate,
    graph::{Kind, Node, OperatorFactory},
    keyed::{KeyedState, groups_of},
    offsets::{GroupCommits, OffsetSender, group_commits},
    operator_task::{OperatorTask, Pending},
    output::{Edge, Output, Route},
    port::{Command, Port, Report},
    restore::Restored,
    sink_task::{Progress, SinkTask},
    source_task::SourceTask,
};
use crate::{
    checkpoint::{StateStore, spans::Spans},
    client::{ConsumerGroupMetadata, Topic},
    ids::GroupId,
    net::{Background, Clock},
    source::Subtask,
};

/// All subtasks, and the ways to them, by their number.
pub(super) struct Built {
    pub(super) tasks: FuturesUnordered<Background<Result<(), TaskError>>>,
    pub(super) commands: Vec<mpsc::UnboundedSender<Command>>,
    pub(super) names: Vec<TaskName>,
    pub(super) reports: mpsc::UnboundedReceiver<Report>,
}

/// What all subtasks share.
pub(super) struct Surroundings<'a> {
    pub(super) config: &'a RunConfig,
    pub(super) clock: Clock,
    pub(super) states: Arc<dyn StateStore>,
    pub(super) counters: Arc<Counters>,
    pub(super) topic: Topic,
    pub(super) spans: Spans,
    /// The consumer group to which the sources' offsets are committed.
    pub(super) group: Option<GroupId>,
    /// By subtask of the sink.
    pub(super) writers: Vec<(crate::sink::SinkWriter, Commits)>,
    pub(super) settle_timeout: std::time::Duration,
}

/// The ends of every queue: `[node][subtask]`, and of entries also `[channel]`.
struct Queues {
    inboxes: Vec<Vec<Option<Inbox>>>,
    entries: Vec<Vec<Vec<Option<Entry>>>>,
}

struct Builder<'a> {
    nodes: &'a [Node],
    around: Surroundings<'a>,
    queues: Queues,
    reports: mpsc::UnboundedSender<Report>,
    built: Built,
    /// One for each source subtask, and what the first subtask of the sink gets.
    offset_senders: Vec<OffsetSender>,
    group: Option<GroupCommits>,
}

/// Starts every subtask, with what the checkpoint holds for it.
pub(super) async fn build(
    nodes: &[Node],
    restored: &Restored,
    around: Surroundings<'_>,
) -> Result<Built, RunError> {
    let (reports, listener) = mpsc::unbounded_channel();
    let queues = Queues::new(nodes, (around.config.channel_capacity, around.config.channel_bytes));
    let built =
        Built { tasks: FuturesUnordered::new(), commands: Vec::new(), names: Vec::new(), reports: listener };
    let (offset_senders, group) = match around.group.clone() {
        Some(group) => {
            let sources = nodes.iter().filter(|node| matches!(node.kind, Kind::Source(_)));
            let sources = sources.map(|node| node.parallelism as usize).sum();
            let (offset_senders, group) = group_commits(ConsumerGroupMetadata::new(group), sources);
            (offset_senders, Some(group))
        }
        None => (Vec::new(), None),
    };
    let mut builder = Builder { nodes, around, queues, reports, built, offset_senders, group };
    builder.put_in_flight(restored)?;
    for (number, node) in nodes.iter().enumerate() {
        match &node.kind {
            Kind::Source(source) => {
                let splits = restored.splits(&node.uid)?;
                for index in 0..node.parallelism {
                    let subtask = Subtask { index, total: node.parallelism };
                    let opened = source.open(subtask, &splits).await;
                    let (port, output) = (builder.port(number, index), builder.output(number, index));
                    let reader =
                        opened.map_err(|error| TaskError::Source { task: port.name.clone(), error })?;
                    let counters = Arc::clone(&builder.around.counters);
                    let offset_sender = builder.offset_senders.pop();
                    builder.start(SourceTask { port, reader, output, counters, offset_sender }.run());
                }
            }
            Kind::Operator(operator) => builder.operator(number, operator, restored)?,
            Kind::Sink(_) => builder.sink(number),
        }
    }
    Ok(builder.built)
}

impl Queues {
    fn new(nodes: &[Node], capacity: (usize, usize)) -> Self {
        let mut queues = Self { inboxes: Vec::new(), entries: Vec::new() };
        for node in nodes {
            let channels = node.inputs.iter().map(|input| nodes[input.node].parallelism as usize).sum();
            let ends = (0..node.parallelism).map(|_| inbox(channels, capacity));
            let (inboxes, entries): (Vec<_>, Vec<_>) = ends.unzip();
            queues.inboxes.push(inboxes.into_iter().map(Some).collect());
            let optional = |entries: Vec<Entry>| entries.into_iter().map(Some).collect();
            queues.entries.push(entries.into_iter().map(optional).collect());
        }
        queues
    }
}

impl Builder<'_> {
    /// Records that were overtaken by barriers come first, by the way they would have come.
    fn put_in_flight(&mut self, restored: &Restored) -> Result<(), RunError> {
        for (number, node) in self.nodes.iter().enumerate() {
            for (from, captured) in restored.in_flight(&node.uid)?.into_iter().enumerate() {
                for (input, records) in captured {
                    let Some(upstream) = node.inputs.get(input) else {
                        return Err(RunError::Orphaned { uid: format!("{}, input {input}", node.uid) });
                    };
                    let channel = self.first_channel(node, input);
                    for (turn, record) in records.into_iter().enumerate() {
                        let total = node.parallelism as usize;
                        let target = upstream.route.target(&record, from, turn, total);
                        if let Some(entry) = &self.queues.entries[number][target][channel] {
                            entry.restore(record);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// The channel by which the first subtask of an input writes.
    fn first_channel(&self, node: &Node, input: usize) -> usize {
        node.inputs[..input].iter().map(|input| self.nodes[input.node].parallelism as usize).sum()
    }

    fn operator(
        &mut self,
        number: usize,
        operator: &Arc<OperatorFactory>,
        restored: &Restored,
    ) -> Result<(), RunError> {
        let node = &self.nodes[number];
        let blobs = restored.blobs(&node.uid);
        for index in 0..node.parallelism {
            let groups = groups_of(index, node.parallelism);
            let mut state = KeyedState::default();
            for blob in &blobs {
                let result = state.restore(&groups, blob);
                result.map_err(|cause| RunError::State { uid: node.uid.to_string(), cause })?;
            }
            let task = OperatorTask {
                port: self.port(number, index),
                gate: self.gate(number, index),
                keys: self.keys(node),
                operator: operator(),
                state,
                output: self.output(number, index),
                snapshots: self.around.config.snapshots,
                pending: Pending::default(),
            };
            self.start(task.run());
        }
        Ok(())
    }

    fn sink(&mut self, number: usize) {
        let writers = std::mem::take(&mut self.around.writers);
        for (index, (writer, commits)) in (0..).zip(writers) {
            let task = SinkTask {
                port: self.port(number, index),
                gate: self.gate(number, index),
                topic: self.around.topic.clone(),
                writer,
                commits,
                steps: self.around.config.steps.clone(),
                stop_after: self.around.config.stop_after,
                spans: self.around.spans.clone(),
                settle_timeout: self.around.settle_timeout,
                progress: Progress::default(),
                // The first one alone: offsets of a checkpoint are in one transaction.
                group: self.group.take(),
            };
            self.start(task.run());
        }
    }

    fn start(&mut self, task: impl Future<Output = Result<(), TaskError>> + Send + 'static) {
        self.built.tasks.push(Background::start(task));
    }

    /// The next subtask's port; ports are made in the order of nodes and their subtasks.
    fn port(&mut self, number: usize, index: u32) -> Port {
        let (sender, commands) = mpsc::unbounded_channel();
        let name = TaskName { uid: Arc::clone(&self.nodes[number].uid), index };
        let subtask = self.built.commands.len();
        self.built.commands.push(sender);
        self.built.names.push(name.clone());
        Port {
            subtask,
            name,
            commands,
            reports: self.reports.clone(),
            states: Arc::clone(&self.around.states),
            observer: self.around.config.observer.clone(),
            clock: self.around.clock,
        }
    }

    fn gate(&mut self, number: usize, index: u32) -> Gate {
        let node = &self.nodes[number];
        let channels = |(input, upstream): (usize, &super::graph::Upstream)| {
            vec![input; self.nodes[upstream.node].parallelism as usize]
        };
        let inputs = node.inputs.iter().enumerate().flat_map(channels).collect();
        let inbox = self.queues.inboxes[number][index as usize].take();
        // Each inbox is taken once.
        let inbox = inbox.unwrap_or_else(|| super::channel::inbox(0, (1, 1)).0);
        Gate::new(inbox, inputs, self.around.config.mode, self.around.clock)
    }

    fn keys(&self, node: &Node) -> Vec<Option<Arc<super::output::KeyOf>>> {
        let key = |upstream: &super::graph::Upstream| {
            let key = match &upstream.route {
                Route::Key(key) => Some(Arc::clone(key)),
                Route::Forward | Route::Partition | Route::Rebalance => None,
            };
            vec![key; self.nodes[upstream.node].parallelism as usize]
        };
        node.inputs.iter().flat_map(key).collect()
    }

    fn output(&mut self, number: usize, index: u32) -> Output {
        let mut edges = Vec::new();
        for (end, node) in self.nodes.iter().enumerate() {
            for (input, upstream) in node.inputs.iter().enumerate().filter(|(_, u)| u.node == number) {
                let channel = self.first_channel(node, input) + index as usize;
                let entries = self.queues.entries[end].iter_mut().filter_map(|e| e[channel].take());
                edges.push(Edge {
                    transforms: upstream.transforms.clone(),
                    route: upstream.route.clone(),
                    entries: entries.collect(),
                    turn: index as usize,
                });
            }
        }
        Output { from: index as usize, edges }
    }
}

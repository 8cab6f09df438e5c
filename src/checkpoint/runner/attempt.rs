//! The life of a job: the coordinator, driven, and everything that it has done by others.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{StreamExt, future::FusedFuture, stream::FuturesUnordered};

use super::{
    build::Built,
    config::RunConfig,
    error::{RunError, TaskError},
    event::JobEvent,
    graph::{Kind, Node},
    keeper::{Keeper, Kept},
    port::{Command, News, Report, SinkPart, TaskState},
    restore::{FINISHED, IN_FLIGHT, JOB},
};
use crate::{
    checkpoint::{
        Checkpoint, CheckpointStore, OperatorState, StateHandle, StateStore, StoreError, spans::Spans,
        step::Note,
    },
    net::{Background, Clock},
    proto::{
        checkpoint::{
            CheckpointKind, Coordinator,
            alignment::Barrier,
            coordinator::{CoordinatorEffect, CoordinatorInput},
        },
        pool::WriterState,
    },
};

/// How long a job that ends early waits for its sinks to abort what is open.
const ABORT_WAIT: Duration = Duration::from_secs(5);

/// One life of the job, from a restored checkpoint on.
pub(super) struct Attempt<'a> {
    nodes: &'a [Node],
    config: &'a RunConfig,
    clock: Clock,
    keeper: Keeper<'a>,
    states: Arc<dyn StateStore>,
    /// What was put for checkpoints of which not every acknowledgement is in.
    collecting: BTreeMap<u64, Vec<StateHandle>>,
    discards: FuturesUnordered<Background<()>>,
    built: Built,
    coordinator: Coordinator<TaskState>,
    /// The newest that is durable.
    checkpoint: Checkpoint,
    /// Source subtasks.
    sources: usize,
    /// Those that came to their end, and after how many records.
    ended: BTreeMap<usize, u64>,
    was_finished: bool,
    /// And it is known to have nothing to do.
    still_finished: bool,
    spans: Spans,
    /// Checkpoints that became complete, and that were given up.
    pub(super) completed: u64,
    pub(super) failed: u64,
}

/// What a life begins with.
pub(super) struct Start {
    pub(super) checkpoint: Checkpoint,
    /// The newest id that was used before.
    pub(super) newest_id: u64,
    /// Whether all sources had come to their end.
    pub(super) was_finished: bool,
    pub(super) spans: Spans,
}

impl<'a> Attempt<'a> {
    pub(super) fn new(
        nodes: &'a [Node],
        (config, clock): (&'a RunConfig, Clock),
        (built, store): (Built, &'a mut dyn CheckpointStore),
        start: Start,
    ) -> Result<Self, RunError> {
        let Start { checkpoint, newest_id, was_finished, spans } = start;
        let subtasks = built.commands.len();
        let mut sources = Vec::new();
        let mut next = 0;
        for node in nodes {
            let all = next..next + node.parallelism as usize;
            next = all.end;
            if matches!(node.kind, Kind::Source(_)) {
                sources.extend(all);
            }
        }
        let count = sources.len();
        let coordinator = Coordinator::new(config.checkpoints, subtasks, checkpoint.id, clock.now())?;
        Ok(Self {
            nodes,
            config,
            clock,
            states: store.states(),
            keeper: Keeper::new(store, config.steps.clone(), spans.clone()),
            collecting: BTreeMap::new(),
            discards: FuturesUnordered::new(),
            built,
            coordinator: coordinator.with_sources(sources)?.with_ids_after(newest_id),
            checkpoint,
            sources: count,
            ended: BTreeMap::new(),
            was_finished,
            still_finished: false,
            spans: spans.clone(),
            completed: 0,
            failed: 0,
        })
    }

    /// Until the job is over: how it ended.
    pub(super) async fn play(
        &mut self,
        stop: &mut (impl FusedFuture<Output = ()> + Unpin),
    ) -> Result<CheckpointKind, RunError> {
        if stop.is_terminated() {
            self.tell(CoordinatorInput::Trigger(CheckpointKind::Suspend));
        }
        loop {
            while let Some(effect) = self.coordinator.poll_effect() {
                if let Some(kind) = self.act(effect)? {
                    self.close().await?;
                    return Ok(kind);
                }
            }
            tokio::select! {
                biased;
                () = &mut *stop, if !stop.is_terminated() => {
                    self.tell(CoordinatorInput::Trigger(CheckpointKind::Suspend));
                }
                Some(ended) = self.built.tasks.next() => return Err(early(ended)),
                Some(report) = self.built.reports.recv() => {
                    if self.hear(report)? {
                        // It was finished before, and its sources brought nothing new.
                        self.still_finished = true;
                        self.close().await?;
                        return Ok(CheckpointKind::Final);
                    }
                }
                (checkpoint, result) = self.keeper.written() => {
                    let (id, kept) = (checkpoint.id, self.kept((checkpoint, result)));
                    self.tell(match kept {
                        Ok(()) => CoordinatorInput::Stored { checkpoint: id },
                        // A full or failing device may recover, and a store be reached again; anything else does not.
                        Err(
                            error @ (StoreError::Full { .. }
                            | StoreError::Io { .. }
                            | StoreError::Unavailable { .. }),
                        ) => CoordinatorInput::StoreFailed { checkpoint: id, cause: error.to_string() },
                        Err(error) => return Err(error.into()),
                    });
                }
                Some(_) = self.discards.next() => {}
                () = self.clock.sleep_until(self.coordinator.next_deadline()) => {
                    self.tell(CoordinatorInput::Tick);
                }
            }
        }
    }

    fn tell(&mut self, input: CoordinatorInput<TaskState>) {
        // What subtasks say late, or twice, is no misuse; anything else would be a mistake of this file.
        if let Err(misuse) = self.coordinator.handle(self.clock.now(), input) {
            tracing::error!(%misuse, "the coordinator refused a fact");
        }
    }

    /// Takes a report. True when there is nothing to do for this job.
    fn hear(&mut self, Report { subtask, news }: Report) -> Result<bool, RunError> {
        match news {
            News::Ack { checkpoint, state } => {
                match self.collecting.get_mut(&checkpoint) {
                    Some(handles) => handles.extend(state.handles()),
                    // It comes too late.
                    None => state.handles().for_each(|handle| self.discard(handle)),
                }
                self.tell(CoordinatorInput::Ack { checkpoint, subtask, state });
            }
            News::Decline { checkpoint, cause } => {
                self.tell(CoordinatorInput::Decline { checkpoint, subtask, cause });
            }
            News::Confirmed { checkpoint } => self.tell(CoordinatorInput::Confirmed { checkpoint, subtask }),
            News::Unneeded(handle) => self.discard(handle),
            News::Ended { records } => {
                self.ended.insert(subtask, records);
                if self.ended.len() == self.sources {
                    if self.was_finished && self.ended.values().all(|records| *records == 0) {
                        return Ok(true);
                    }
                    for subtask in self.ended.keys().copied().collect::<Vec<_>>() {
                        self.tell(CoordinatorInput::Ended { subtask });
                    }
                }
            }
            // Comes only after `Close`, and is waited for there.
            News::Closed(_) => {}
        }
        Ok(false)
    }

    /// Carries out an intent. How the job ends, when it does.
    fn act(&mut self, effect: CoordinatorEffect<TaskState>) -> Result<Option<CheckpointKind>, RunError> {
        match effect {
            CoordinatorEffect::Trigger { checkpoint, kind } => {
                self.spans.begin(checkpoint);
                self.observe(JobEvent::Triggered { checkpoint, kind });
                self.collecting.insert(checkpoint, Vec::new());
                let barrier = Barrier { checkpoint, kind, triggered: self.clock.now() };
                self.command_sources(Command::Trigger(barrier));
            }
            CoordinatorEffect::Store { checkpoint, kind, states } => {
                self.collecting.remove(&checkpoint);
                self.keeper.begin(self.compose(checkpoint, kind, states));
            }
            CoordinatorEffect::Notify { checkpoint, subtask } => {
                if let Some(task) = self.built.names.get(subtask) {
                    self.observe(JobEvent::Notified { checkpoint, task });
                }
                self.command(subtask, Command::Notify(checkpoint));
            }
            CoordinatorEffect::Abort { checkpoint, cause } => {
                self.spans.of(checkpoint).in_scope(|| {
                    tracing::warn!(checkpoint, %cause, "a checkpoint was given up");
                });
                self.spans.end(checkpoint);
                self.observe(JobEvent::Aborted { checkpoint, cause: &cause });
                self.failed += 1;
                // One whose store failed is not among these: it may be durable all the same.
                let handles = self.collecting.remove(&checkpoint).unwrap_or_default();
                handles.into_iter().for_each(|handle| self.discard(handle));
                (0..self.built.commands.len())
                    .for_each(|subtask| self.command(subtask, Command::Abort(checkpoint)));
            }
            CoordinatorEffect::Fail(cause) => return Err(RunError::Checkpoint(cause)),
            CoordinatorEffect::Finished { kind, .. } => return Ok(Some(kind)),
        }
        Ok(None)
    }

    /// Takes what became of a checkpoint.
    fn kept(&mut self, (checkpoint, result): Kept) -> Result<(), StoreError> {
        result?;
        self.spans.end(checkpoint.id);
        self.completed += 1;
        self.observe(JobEvent::Stored { checkpoint: checkpoint.id });
        self.config.steps.note(Note::Checkpoint(checkpoint.id));
        self.checkpoint = checkpoint;
        Ok(())
    }

    /// Nothing needs this state; what can't be removed now is removed when the store is opened the next time.
    fn discard(&self, handle: StateHandle) {
        let states = Arc::clone(&self.states);
        self.discards.push(Background::start(async move {
            if let Err(error) = states.discard(&handle).await {
                tracing::debug!(%error, "a state that is not needed stays for now");
            }
        }));
    }

    /// The checkpoint of these acknowledgements, which are in the order of subtasks.
    fn compose(&self, id: u64, kind: CheckpointKind, states: Vec<TaskState>) -> Checkpoint {
        let mut states = states.into_iter();
        let (mut operators, mut committables, mut writers) = (Vec::new(), Vec::new(), Vec::new());
        if kind == CheckpointKind::Final {
            operators.push(finished());
        }
        for node in self.nodes {
            let (mut own, mut in_flight) = (Vec::new(), Vec::new());
            for state in states.by_ref().take(node.parallelism as usize) {
                own.push(state.state);
                in_flight.push(state.in_flight);
                if let Some(SinkPart { listed, writer }) = state.sink {
                    committables.extend(listed);
                    writers.push(writer);
                }
            }
            operators.extend(operator(node.uid.to_string(), own));
            operators.extend(operator(format!("{}{IN_FLIGHT}", node.uid), in_flight));
        }
        Checkpoint { id, operators, committables, writers, ..self.checkpoint.clone() }
    }

    /// Lets the sinks settle what they can, and keeps what is left of it, so that a later run has nothing to do.
    async fn close(&mut self) -> Result<(), RunError> {
        (0..self.built.commands.len()).for_each(|subtask| self.command(subtask, Command::Close));
        let sinks = self.nodes.iter().filter(|node| matches!(node.kind, Kind::Sink(_)));
        let mut waited_for: u32 = sinks.map(|node| node.parallelism).sum();
        let (mut committables, mut writers) = (Vec::new(), BTreeMap::new());
        while waited_for > 0 {
            tokio::select! {
                biased;
                Some(Report { subtask, news }) = self.built.reports.recv() => {
                    if let News::Closed(SinkPart { listed, writer }) = news {
                        committables.extend(listed);
                        writers.insert(subtask, writer);
                        waited_for -= 1;
                    }
                }
                Some(ended) = self.built.tasks.next() => match ended {
                    Some(Ok(())) => {}
                    ended => return Err(early(ended)),
                },
            }
        }
        let writers: Vec<WriterState> = writers.into_values().collect();
        if let Some(kept) = self.keeper.finish().await {
            self.kept(kept)?;
        }
        let mut operators = self.checkpoint.operators.clone();
        if self.still_finished && !operators.contains(&finished()) {
            // A periodic checkpoint came before the sources said that they have nothing new.
            operators.push(finished());
        }
        let id = self.newest_id() + 1;
        let last = Checkpoint { id, operators, committables, writers, ..self.checkpoint.clone() };
        if last == (Checkpoint { id, ..self.checkpoint.clone() }) {
            return Ok(());
        }
        self.keeper.begin(last);
        let kept = self.keeper.written().await;
        Ok(self.kept(kept)?)
    }

    /// The newest id that was used.
    pub(super) fn newest_id(&self) -> u64 {
        self.coordinator.newest_id().max(self.checkpoint.id)
    }

    /// Lets go of the subtasks, and waits a little for what they abort. What the store is writing is waited for: it may
    /// become the newest checkpoint.
    pub(super) async fn end(&mut self) {
        self.built.commands.clear();
        if let Some(kept) = self.keeper.finish().await {
            if let Err(error) = self.kept(kept) {
                tracing::warn!(%error, "a checkpoint was not stored");
            }
        }
        for handle in std::mem::take(&mut self.collecting).into_values().flatten() {
            self.discard(handle);
        }
        let all = async {
            while self.built.tasks.next().await.is_some() {}
            while self.discards.next().await.is_some() {}
        };
        if tokio::time::timeout(ABORT_WAIT, all).await.is_err() {
            tracing::warn!(
                "subtasks do not end; what they have open is left to the next recovery: readers stall there until the job \
                 is started again, or its timeout"
            );
        }
    }

    fn command(&self, subtask: usize, command: Command) {
        if let Some(to) = self.built.commands.get(subtask) {
            // A subtask that ended has told why.
            _ = to.send(command);
        }
    }

    fn command_sources(&self, command: Command) {
        let mut first = 0;
        for node in self.nodes {
            let all = first..first + node.parallelism as usize;
            first = all.end;
            if matches!(node.kind, Kind::Source(_)) {
                all.for_each(|subtask| self.command(subtask, command));
            }
        }
    }

    fn observe(&self, event: JobEvent<'_>) {
        self.config.observer.event(self.clock.now(), &event);
    }
}

/// Says that the job is finished.
fn finished() -> OperatorState {
    let finished = StateHandle::Inline(Bytes::from_static(FINISHED));
    OperatorState { uid: JOB.into(), subtasks: vec![finished] }
}

/// The state of an operator's subtasks; none if none has any.
fn operator(uid: String, subtasks: Vec<Option<StateHandle>>) -> Option<OperatorState> {
    subtasks.iter().any(Option::is_some).then(|| OperatorState {
        uid: uid.into(),
        subtasks: subtasks.into_iter().map(|s| s.unwrap_or(StateHandle::Inline(Bytes::new()))).collect(),
    })
}

/// Why a subtask ended that should have gone on.
fn early(ended: Option<Result<(), TaskError>>) -> RunError {
    match ended {
        Some(Err(error)) => error.into(),
        Some(Ok(())) | None => TaskError::Panicked.into(),
    }
}

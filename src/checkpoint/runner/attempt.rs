//! The life of a job: the coordinator, driven, and everything that it has done by others.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use futures::{StreamExt, future::FusedFuture};

use super::{
    build::Built,
    config::RunConfig,
    error::{RunError, TaskError},
    event::JobEvent,
    graph::{Kind, Node},
    port::{Command, News, Report, SinkPart, TaskState},
    restore::{FINISHED, IN_FLIGHT, JOB},
};
use crate::{
    checkpoint::{
        Checkpoint, CheckpointStore, OperatorState, StateHandle, StoreError, StorePoint,
        step::{Note, Step},
    },
    net::Clock,
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
    store: &'a mut dyn CheckpointStore,
    built: Built,
    coordinator: Coordinator<TaskState>,
    /// The newest that is durable.
    checkpoint: Checkpoint,
    /// Source subtasks.
    sources: usize,
    /// Those that came to their end, and after how many records.
    ended: BTreeMap<usize, u64>,
    was_finished: bool,
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
}

impl<'a> Attempt<'a> {
    pub(super) fn new(
        nodes: &'a [Node],
        (config, clock): (&'a RunConfig, Clock),
        (built, store): (Built, &'a mut dyn CheckpointStore),
        start: Start,
    ) -> Result<Self, RunError> {
        let Start { checkpoint, newest_id, was_finished } = start;
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
            store,
            built,
            coordinator: coordinator.with_sources(sources)?.with_ids_after(newest_id),
            checkpoint,
            sources: count,
            ended: BTreeMap::new(),
            was_finished,
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
                if let Some(kind) = self.act(effect).await? {
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
                        self.close().await?;
                        return Ok(CheckpointKind::Final);
                    }
                }
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
                self.tell(CoordinatorInput::Ack { checkpoint, subtask, state });
            }
            News::Decline { checkpoint, cause } => {
                self.tell(CoordinatorInput::Decline { checkpoint, subtask, cause });
            }
            News::Confirmed { checkpoint } => self.tell(CoordinatorInput::Confirmed { checkpoint, subtask }),
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
    async fn act(
        &mut self,
        effect: CoordinatorEffect<TaskState>,
    ) -> Result<Option<CheckpointKind>, RunError> {
        match effect {
            CoordinatorEffect::Trigger { checkpoint, kind } => {
                self.observe(JobEvent::Triggered { checkpoint, kind });
                let barrier = Barrier { checkpoint, kind, triggered: self.clock.now() };
                self.command_sources(Command::Trigger(barrier));
            }
            CoordinatorEffect::Store { checkpoint, kind, states } => {
                let input = match self.keep(self.compose(checkpoint, kind, states)).await {
                    Ok(()) => CoordinatorInput::Stored { checkpoint },
                    // A full or failing device may recover; anything else does not.
                    Err(error @ (StoreError::Full { .. } | StoreError::Io { .. })) => {
                        CoordinatorInput::StoreFailed { checkpoint, cause: error.to_string() }
                    }
                    Err(error) => return Err(error.into()),
                };
                self.tell(input);
            }
            CoordinatorEffect::Notify { checkpoint, subtask } => {
                if let Some(task) = self.built.names.get(subtask) {
                    self.observe(JobEvent::Notified { checkpoint, task });
                }
                self.command(subtask, Command::Notify(checkpoint));
            }
            CoordinatorEffect::Abort { checkpoint, cause } => {
                tracing::warn!(checkpoint, %cause, "a checkpoint was given up");
                self.observe(JobEvent::Aborted { checkpoint, cause: &cause });
                self.failed += 1;
                (0..self.built.commands.len())
                    .for_each(|subtask| self.command(subtask, Command::Abort(checkpoint)));
            }
            CoordinatorEffect::Fail(cause) => return Err(RunError::Checkpoint(cause)),
            CoordinatorEffect::Finished { kind, .. } => return Ok(Some(kind)),
        }
        Ok(None)
    }

    /// Makes a checkpoint durable.
    async fn keep(&mut self, checkpoint: Checkpoint) -> Result<(), StoreError> {
        let steps = self.config.steps.clone();
        let mut passed = move |point| {
            steps.step(match point {
                StorePoint::Half => Step::StoreHalf,
                StorePoint::Durable => Step::Durable,
            });
        };
        self.store.write(&checkpoint, &mut passed).await?;
        self.completed += 1;
        self.observe(JobEvent::Stored { checkpoint: checkpoint.id });
        self.config.steps.note(Note::Checkpoint(checkpoint.id));
        self.checkpoint = checkpoint;
        Ok(())
    }

    /// The checkpoint of these acknowledgements, which are in the order of subtasks.
    fn compose(&self, id: u64, kind: CheckpointKind, states: Vec<TaskState>) -> Checkpoint {
        let mut states = states.into_iter();
        let (mut operators, mut committables, mut writers) = (Vec::new(), Vec::new(), Vec::new());
        if kind == CheckpointKind::Final {
            let finished = StateHandle::Inline(Bytes::from_static(FINISHED));
            operators.push(OperatorState { uid: JOB.into(), subtasks: vec![finished] });
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
        if committables == self.checkpoint.committables && writers == self.checkpoint.writers {
            return Ok(());
        }
        let last =
            Checkpoint { id: self.checkpoint.id + 1, committables, writers, ..self.checkpoint.clone() };
        self.keep(last).await?;
        Ok(())
    }

    /// The newest id that was used.
    pub(super) fn newest_id(&self) -> u64 {
        self.coordinator.newest_id().max(self.checkpoint.id)
    }

    /// Lets go of the subtasks, and waits a little for what they abort.
    pub(super) async fn end(&mut self) {
        self.built.commands.clear();
        let all = async { while self.built.tasks.next().await.is_some() {} };
        if tokio::time::timeout(ABORT_WAIT, all).await.is_err() {
            tracing::warn!("subtasks do not end; what they have open is left to the next recovery");
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

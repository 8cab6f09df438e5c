//! The life of a job: the coordinator, driven, and everything that it has done by others.

mod close;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{StreamExt, future::FusedFuture, stream::FuturesUnordered};

use super::{
    build::Built,
    config::{IdleCheckpoints, RunConfig, StopAfter},
    counters::Counters,
    error::{RunError, TaskError},
    event::JobEvent,
    graph::{Kind, Node},
    keeper::{Keeper, Kept},
    port::{Command, News, Report, SinkPart, TaskState},
    restore::{FINISHED, IN_FLIGHT, JOB},
};
use crate::{
    checkpoint::{
        Checkpoint, CheckpointStore, ListedCommittable, OperatorState, StateHandle, StateStore, StoreError,
        spans::Spans, step::Note,
    },
    client::LEFT_OPEN,
    net::{Background, Clock},
    proto::{
        checkpoint::{
            CheckpointKind, Coordinator,
            alignment::Barrier,
            coordinator::{AbortCause, CoordinatorEffect, CoordinatorInput},
        },
        committable::Committable,
    },
    sink::Taken,
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
    counters: Arc<Counters>,
    coordinator: Coordinator<TaskState>,
    /// The newest that is durable.
    checkpoint: Checkpoint,
    /// What the one that is being stored adds.
    storing: Added,
    /// Why the last store failed.
    not_stored: Option<StoreError>,
    /// Source subtasks.
    sources: usize,
    /// Those that came to their end, and whether they have moved.
    ended: BTreeMap<usize, bool>,
    was_finished: bool,
    /// And it is known to have nothing to do.
    still_finished: bool,
    spans: Spans,
    /// Why a source has stopped the job.
    stopped: Option<TaskError>,
    pub(super) done: LifeSummary,
}

/// What a life has done.
#[derive(Debug, Default)]
pub(super) struct LifeSummary {
    /// Checkpoints that became complete, and that were given up.
    pub(super) completed: u64,
    pub(super) failed: u64,
    /// What the sinks took up to the newest of them.
    pub(super) taken: Taken,
    /// All sources came to their end, and the newest holds that.
    pub(super) finished: bool,
}

/// What a checkpoint holds beyond the one before.
#[derive(Debug, Default)]
struct Added {
    /// What sinks have taken up to it, in this life.
    taken: Taken,
    /// Transactions that were prepared for it.
    prepared: Vec<Committable>,
    kind: Option<CheckpointKind>,
}

/// How a life ended well.
pub(super) enum End {
    /// Everything is committed.
    Over,
    /// These were left open on purpose.
    Left(Vec<Committable>),
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
        (start, counters): (Start, Arc<Counters>),
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
            counters,
            coordinator: coordinator.with_sources(sources)?.with_ids_after(newest_id),
            checkpoint,
            storing: Added::default(),
            not_stored: None,
            sources: count,
            ended: BTreeMap::new(),
            was_finished,
            still_finished: false,
            spans,
            stopped: None,
            done: LifeSummary::default(),
        })
    }

    /// Until the job is over.
    pub(super) async fn play(
        &mut self,
        stop: &mut (impl FusedFuture<Output = ()> + Unpin),
    ) -> Result<End, RunError> {
        if stop.is_terminated() {
            self.tell(CoordinatorInput::Trigger(CheckpointKind::Suspend));
        }
        loop {
            while let Some(effect) = self.coordinator.poll_effect() {
                match self.act(effect)? {
                    None => {}
                    Some(Turn::Close(kind)) => return self.close(kind).await,
                    Some(Turn::Leave(open)) => return Ok(End::Left(open)),
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
                        return self.close(CheckpointKind::Final).await;
                    }
                }
                kept = self.keeper.written() => {
                    if let Some(open) = self.written(kept)? {
                        return Ok(End::Left(open));
                    }
                }
                Some(_) = self.discards.next() => {}
                () = self.clock.sleep_until(self.coordinator.next_deadline()) => {
                    let idle = self.config.idle_checkpoints == IdleCheckpoints::LeftOut && !self.counters.is_changed();
                    self.tell(if idle { CoordinatorInput::Idle } else { CoordinatorInput::Tick });
                }
            }
        }
    }

    /// The store has answered. What is to be left open, if the job stops with that.
    fn written(&mut self, kept: Kept) -> Result<Option<Vec<Committable>>, RunError> {
        let (checkpoint, result) = kept;
        let id = checkpoint.id;
        match self.kept((checkpoint, result)) {
            Ok(())
                if self.config.stop_after == Some(StopAfter::Durable)
                    && !self.storing.prepared.is_empty() =>
            {
                return Ok(Some(std::mem::take(&mut self.storing.prepared)));
            }
            Ok(()) => self.tell(CoordinatorInput::Stored { checkpoint: id }),
            // A full or failing device may recover, and a store be reached again; anything else does not.
            Err(
                error @ (StoreError::Full { .. } | StoreError::Io { .. } | StoreError::Unavailable { .. }),
            ) => {
                let cause = error.to_string();
                self.not_stored = Some(error);
                self.tell(CoordinatorInput::StoreFailed { checkpoint: id, cause });
            }
            Err(error) => return Err(error.into()),
        }
        Ok(None)
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
            News::Ended { moved } => {
                self.ended.insert(subtask, moved);
                if self.ended.len() == self.sources {
                    if self.was_finished && !self.ended.values().any(|moved| *moved) {
                        return Ok(true);
                    }
                    for subtask in self.ended.keys().copied().collect::<Vec<_>>() {
                        self.tell(CoordinatorInput::Ended { subtask });
                    }
                }
            }
            News::Stopped(error) => {
                let task = self.built.names[subtask].clone();
                self.stopped.get_or_insert(TaskError::Source { task, error });
                self.tell(CoordinatorInput::Trigger(CheckpointKind::Suspend));
            }
            // Comes only after `Close`, and is waited for there.
            News::Closed(_) => {}
        }
        Ok(false)
    }

    /// Carries out an intent. How the job ends, when it does.
    fn act(&mut self, effect: CoordinatorEffect<TaskState>) -> Result<Option<Turn>, RunError> {
        match effect {
            CoordinatorEffect::Trigger { checkpoint, kind } => {
                self.counters.take_changed();
                self.spans.begin(checkpoint);
                self.observe(JobEvent::Triggered { checkpoint, kind });
                self.collecting.insert(checkpoint, Vec::new());
                let barrier = Barrier { checkpoint, kind, triggered: self.clock.now() };
                self.command_sources(Command::Trigger(barrier));
            }
            CoordinatorEffect::Store { checkpoint, kind, states } => {
                self.collecting.remove(&checkpoint);
                let composed = self.compose(checkpoint, kind, states);
                if self.config.stop_after == Some(StopAfter::Prepare) && !self.storing.prepared.is_empty() {
                    return Ok(Some(Turn::Leave(self.leave_unlisted())));
                }
                if self.config.idle_checkpoints == IdleCheckpoints::LeftOut && self.is_known(&composed) {
                    // What is durable is the same.
                    self.spans.end(checkpoint);
                    self.done.finished = kind == CheckpointKind::Final;
                    self.tell(CoordinatorInput::Stored { checkpoint });
                    return Ok(None);
                }
                self.keeper.begin(composed);
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
                self.counters.changed();
                self.done.failed += 1;
                // One whose store failed is not among these: it may be durable all the same.
                let handles = self.collecting.remove(&checkpoint).unwrap_or_default();
                handles.into_iter().for_each(|handle| self.discard(handle));
                (0..self.built.commands.len())
                    .for_each(|subtask| self.command(subtask, Command::Abort(checkpoint)));
            }
            CoordinatorEffect::Fail(cause) => {
                return Err(match (cause, self.not_stored.take()) {
                    (AbortCause::Store(_), Some(error)) => RunError::NotStored(error),
                    (cause, _) => RunError::Checkpoint(cause),
                });
            }
            CoordinatorEffect::Finished { kind, .. } => return Ok(Some(Turn::Close(kind))),
        }
        Ok(None)
    }

    /// Whether the newest durable checkpoint holds the same, but for the word that the job is finished.
    fn is_known(&self, composed: &Checkpoint) -> bool {
        let states = |checkpoint: &Checkpoint| {
            let states = checkpoint.operators.iter().filter(|operator| &*operator.uid != JOB);
            states.cloned().collect::<Vec<_>>()
        };
        composed.committables == self.checkpoint.committables
            && composed.writers == self.checkpoint.writers
            && states(composed) == states(&self.checkpoint)
    }

    /// Takes what became of a checkpoint.
    fn kept(&mut self, (checkpoint, result): Kept) -> Result<(), StoreError> {
        result?;
        self.spans.end(checkpoint.id);
        self.done.completed += 1;
        self.done.taken = self.storing.taken;
        self.done.finished = self.storing.kind == Some(CheckpointKind::Final) || self.still_finished;
        self.observe(JobEvent::Stored { checkpoint: checkpoint.id });
        self.config.steps.note(Note::Checkpoint(checkpoint.id));
        self.checkpoint = checkpoint;
        Ok(())
    }

    /// Nothing lists what was prepared: it is the job's user who does.
    fn leave_unlisted(&mut self) -> Vec<Committable> {
        let Added { taken, prepared, kind } = std::mem::take(&mut self.storing);
        self.done.taken = taken;
        self.done.finished = kind == Some(CheckpointKind::Final);
        prepared
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
    fn compose(&mut self, id: u64, kind: CheckpointKind, states: Vec<TaskState>) -> Checkpoint {
        let mut states = states.into_iter();
        let mut added = Added { kind: Some(kind), ..Added::default() };
        let (mut operators, mut committables, mut writers) = (Vec::new(), Vec::new(), Vec::new());
        for node in self.nodes {
            let (mut own, mut in_flight) = (Vec::new(), Vec::new());
            for state in states.by_ref().take(node.parallelism as usize) {
                own.push(state.state);
                in_flight.push(state.in_flight);
                if let Some(SinkPart { listed, writer, taken }) = state.sink {
                    added.taken.records += taken.records;
                    added.taken.bytes += taken.bytes;
                    committables.extend(listed);
                    writers.push(writer);
                }
            }
            operators.extend(operator(node.uid.to_string(), own));
            operators.extend(operator(format!("{}{IN_FLIGHT}", node.uid), in_flight));
        }
        if kind == CheckpointKind::Final {
            operators.push(finished());
        }
        let known = |c: &Committable| self.checkpoint.committables.iter().any(|l| l.committable == *c);
        let prepared = committables.iter().map(|l: &ListedCommittable| &l.committable).filter(|c| !known(c));
        added.prepared = prepared.cloned().collect();
        self.storing = added;
        Checkpoint { id, operators, committables, writers, ..self.checkpoint.clone() }
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
            tracing::warn!(waited = ?ABORT_WAIT, "subtasks do not end: {LEFT_OPEN}");
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

/// What a life comes to.
enum Turn {
    /// Its last checkpoint is complete.
    Close(CheckpointKind),
    /// It stops, and leaves these open.
    Leave(Vec<Committable>),
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

//! A subtask of an operator.

use std::{collections::BTreeMap, future::pending, time::Duration};

use bytes::Bytes;
use futures::{FutureExt, StreamExt, stream::FuturesUnordered};

use super::{
    config::Snapshots,
    error::TaskError,
    event::JobEvent,
    gate::{Arrival, Gate},
    in_flight,
    keyed::KeyedState,
    operator::{Context, Operator, OperatorError},
    output::{KeyOf, Output},
    port::{Command, News, Port, TaskState},
};
use crate::{
    checkpoint::{StateHandle, StoreError},
    net::Background,
    proto::checkpoint::{CheckpointKind, alignment::Barrier},
    record::Record,
};

/// Records that are processed before commands and barriers are looked at again, and others get their turn.
const BURST: usize = 64;
/// Such a burst ends after this time, for an operator may take long for a record.
const TURN: Duration = Duration::from_millis(2);

pub(super) struct OperatorTask {
    pub(super) port: Port,
    pub(super) gate: Gate,
    /// By channel: how its records got here.
    pub(super) keys: Vec<Option<std::sync::Arc<KeyOf>>>,
    pub(super) operator: Box<dyn Operator>,
    pub(super) state: KeyedState,
    pub(super) output: Output,
    pub(super) snapshots: Snapshots,
    pub(super) pending: Pending,
}

/// Checkpoints that are not acknowledged yet.
#[derive(Default)]
pub(super) struct Pending {
    parts: BTreeMap<u64, Parts>,
    uploads: FuturesUnordered<Background<Uploaded>>,
}

/// `None` as long as it is not there.
#[derive(Default)]
struct Parts {
    state: Option<Option<StateHandle>>,
    in_flight: Option<Option<StateHandle>>,
}

struct Uploaded {
    checkpoint: u64,
    part: Part,
    /// `None` if it panicked.
    result: Option<Result<Option<StateHandle>, StoreError>>,
}

#[derive(Debug, Clone, Copy)]
enum Part {
    State,
    InFlight,
}

impl OperatorTask {
    /// Runs until the job lets go of it.
    pub(super) async fn run(mut self) -> Result<(), TaskError> {
        loop {
            while let Some(arrival) = self.gate.barrier()? {
                self.arrival(arrival).await?;
            }
            let room = self.output.has_room();
            if room && self.burst().await? {
                // Neither the inbox nor the output makes a busy task yield.
                tokio::task::yield_now().await;
                // It may never be idle: what others do for it is looked at here, too.
                while let Some(Some(uploaded)) = self.pending.uploads.next().now_or_never() {
                    self.uploaded(uploaded.ok_or(TaskError::Panicked)?)?;
                }
                match self.port.commands.try_recv() {
                    Ok(command) => self.command(command)?,
                    Err(tokio::sync::mpsc::error::TryRecvError::Empty) => {}
                    Err(tokio::sync::mpsc::error::TryRecvError::Disconnected) => return Ok(()),
                }
                continue;
            }
            tokio::select! {
                biased;
                command = self.port.commands.recv() => match command {
                    None | Some(Command::Close) => return Ok(()),
                    Some(command) => self.command(command)?,
                },
                Some(uploaded) = self.pending.uploads.next() => {
                    self.uploaded(uploaded.ok_or(TaskError::Panicked)?)?;
                }
                () = self.gate.changed() => {}
                () = async { if room { pending().await } else { self.output.room().await } } => {}
            }
        }
    }

    /// Processes some records. False when there was nothing to do.
    async fn burst(&mut self) -> Result<bool, TaskError> {
        let end = self.port.clock.now().after(TURN);
        for done in 0..BURST {
            match self.gate.next()? {
                None => return Ok(done > 0),
                Some(Arrival::Record { channel, record }) => {
                    let key = self.keys[channel].as_ref().map(|key_of| key_of(&record));
                    self.call(key, |operator, context| operator.process(record, context))?;
                    if !self.output.has_room() || self.port.clock.now() >= end {
                        return Ok(true);
                    }
                }
                Some(other) => {
                    self.arrival(other).await?;
                    return Ok(true);
                }
            }
        }
        Ok(true)
    }

    fn call(
        &mut self,
        key: Option<Bytes>,
        body: impl FnOnce(&mut dyn Operator, &mut Context<'_>) -> Result<(), OperatorError>,
    ) -> Result<(), TaskError> {
        let mut emitted: Vec<Record> = Vec::new();
        let mut context = Context { key, state: &mut self.state, output: &mut emitted };
        let result = body(&mut *self.operator, &mut context);
        result.map_err(|error| TaskError::Operator { task: self.port.name.clone(), error })?;
        self.output.emit(&mut emitted);
        Ok(())
    }

    async fn arrival(&mut self, arrival: Arrival) -> Result<(), TaskError> {
        match arrival {
            Arrival::Record { .. } => {}
            Arrival::Snapshot(barrier) => self.snapshot(barrier).await?,
            Arrival::Complete { checkpoint, captured } => {
                let bytes = move || in_flight::to_bytes(&captured);
                let kept = self.port.keep(checkpoint, "in-flight", bytes);
                self.pending.upload(checkpoint, Part::InFlight, kept);
            }
            Arrival::Declined { checkpoint } => {
                self.give_up(checkpoint);
                let cause = "a newer barrier came first".to_owned();
                self.port.tell(News::Decline { checkpoint, cause });
            }
        }
        Ok(())
    }

    async fn snapshot(&mut self, barrier: Barrier) -> Result<(), TaskError> {
        let checkpoint = barrier.checkpoint;
        self.port.observe(JobEvent::Snapshot { checkpoint, task: &self.port.name });
        if barrier.kind == CheckpointKind::Final {
            self.call(None, |operator, context| operator.finish(context))?;
        }
        self.pending.parts.insert(checkpoint, Parts::default());
        let snapshot = self.state.snapshot();
        let kept = self.port.keep(checkpoint, "state", move || snapshot.to_bytes());
        match self.snapshots {
            Snapshots::Asynchronous => self.pending.upload(checkpoint, Part::State, kept),
            Snapshots::Synchronous => {
                let result = kept.await;
                self.uploaded(Uploaded { checkpoint, part: Part::State, result })?;
            }
        }
        self.output.barrier(barrier);
        Ok(())
    }

    fn uploaded(&mut self, uploaded: Uploaded) -> Result<(), TaskError> {
        let checkpoint = uploaded.checkpoint;
        let result = uploaded.result.ok_or(TaskError::Panicked)?;
        let Some(parts) = self.pending.parts.get_mut(&checkpoint) else {
            // What was given up in the meantime needs no acknowledgement.
            self.port.unneeded(result.ok().flatten());
            return Ok(());
        };
        match result {
            Ok(handle) => match uploaded.part {
                Part::State => parts.state = Some(handle),
                Part::InFlight => parts.in_flight = Some(handle),
            },
            Err(error) => {
                self.give_up(checkpoint);
                self.port.tell(News::Decline { checkpoint, cause: error.to_string() });
                return Ok(());
            }
        }
        if let Parts { state: Some(state), in_flight: Some(in_flight) } = parts {
            let state = TaskState { state: state.take(), in_flight: in_flight.take(), sink: None };
            self.pending.parts.remove(&checkpoint);
            self.port.ack(checkpoint, state);
        }
        Ok(())
    }

    fn give_up(&mut self, checkpoint: u64) {
        if let Some(Parts { state, in_flight }) = self.pending.parts.remove(&checkpoint) {
            self.port.unneeded([state, in_flight].into_iter().flatten().flatten());
        }
    }

    fn command(&mut self, command: Command) -> Result<(), TaskError> {
        match command {
            Command::Trigger(_) | Command::Close => {}
            Command::Notify(checkpoint) => self.port.tell(News::Confirmed { checkpoint }),
            Command::Abort(checkpoint) => {
                self.give_up(checkpoint);
                self.gate.aborted(checkpoint)?;
            }
        }
        Ok(())
    }
}

impl Pending {
    fn upload(
        &mut self,
        checkpoint: u64,
        part: Part,
        kept: Background<Result<Option<StateHandle>, StoreError>>,
    ) {
        self.uploads
            .push(Background::start(async move { Uploaded { checkpoint, part, result: kept.await } }));
    }
}

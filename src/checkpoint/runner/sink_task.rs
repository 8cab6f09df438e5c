//! A subtask of the sink: a writer, and the commits of what it prepared.

use std::{collections::BTreeMap, ops::Range, time::Duration};

use futures::{StreamExt, stream::FuturesUnordered};

use super::{
    commits::Commits,
    config::StopAfter,
    error::TaskError,
    event::{JobEvent, UsageTeller},
    gate::{Arrival, Gate},
    in_flight,
    port::{Command, News, Port, SinkPart, TaskState},
};
use crate::{
    checkpoint::{
        StateHandle, StoreError,
        step::{Note, Part, Step, Steps},
    },
    client::Topic,
    ids::Moment,
    net::Background,
    proto::checkpoint::alignment::Barrier,
    record::Record,
    sink::{SinkWriter, WriteError},
};

/// Records that are written before commands and barriers are looked at again.
const BURST: usize = 64;
/// How often a sink with nothing to write looks at lingering batches.
const TICK: Duration = Duration::from_millis(5);

pub(super) struct SinkTask {
    pub(super) port: Port,
    pub(super) gate: Gate,
    pub(super) topic: Topic,
    pub(super) writer: SinkWriter,
    pub(super) commits: Commits,
    pub(super) steps: Steps,
    /// The job stops with its first transaction.
    pub(super) stop_after: Option<StopAfter>,
    /// How long it waits at the end for commits to be settled.
    pub(super) settle_timeout: Duration,
    pub(super) progress: Progress,
}

/// What became of state that was put into the store; `None` if that panicked.
type Kept = Option<Result<Option<StateHandle>, StoreError>>;

/// Where its checkpoints stand.
#[derive(Default)]
pub(super) struct Progress {
    /// What is to be acknowledged when the records in flight are kept.
    parts: BTreeMap<u64, SinkPart>,
    uploads: FuturesUnordered<Background<(u64, Kept)>>,
    /// Complete, but not everything up to it is decided.
    unconfirmed: Option<u64>,
    closing: Option<Moment>,
    usage: UsageTeller,
    /// Records of transactions before the open one.
    earlier: u64,
    /// The job stops on purpose: nothing more is written.
    held: bool,
}

impl SinkTask {
    /// Runs until the job lets go of it. What is open then is aborted: readers must not wait for its timeout.
    pub(super) async fn run(mut self) -> Result<(), TaskError> {
        let result = self.work().await;
        self.port.observe(JobEvent::Usage { task: &self.port.name, usage: self.writer.usage() });
        // What is being kept holds the store, which somebody may open again when the job is over.
        while self.progress.uploads.next().await.is_some() {}
        if let Err(cause) = self.writer.abort().await {
            tracing::warn!(task = %self.port.name, %cause, "the open transaction is left to the next recovery");
        }
        result
    }

    async fn work(&mut self) -> Result<(), TaskError> {
        loop {
            while let Some(arrival) = self.gate.barrier()? {
                self.arrival(arrival).await?;
            }
            let now = self.port.clock.now();
            let watcher = (&self.port.observer, now);
            self.progress.usage.tick(watcher, &self.port.name, &self.writer);
            let free = self.is_free()?;
            let more = free && self.burst().await?;
            if more {
                tokio::task::yield_now().await;
            }
            if self.closed(now) {
                return Ok(());
            }
            let busy = free && self.progress.closing.is_none();
            tokio::select! {
                biased;
                command = self.port.commands.recv() => match command {
                    None => return Ok(()),
                    Some(command) => self.command(command)?,
                },
                done = self.commits.next() => {
                    self.commits.done(done?, &mut self.writer)?;
                    self.confirm();
                }
                Some(kept) = self.progress.uploads.next() => {
                    let (checkpoint, kept) = kept.ok_or(TaskError::Panicked)?;
                    self.acknowledge(checkpoint, kept.ok_or(TaskError::Panicked)?);
                }
                () = std::future::ready(()), if more => {}
                () = self.gate.changed(), if busy => {}
                () = self.port.clock.sleep_until(Some(now.after(TICK))) => self.writer.tick().map_err(|e| self.failed(e))?,
            }
        }
    }

    /// Whether a record can be written; an error when there was no free id for too long.
    fn is_free(&mut self) -> Result<bool, TaskError> {
        if self.progress.held {
            return Ok(false);
        }
        match self.writer.ready() {
            Ok(()) => Ok(true),
            Err(e) if e.is_exhausted() => Ok(false),
            Err(e) => Err(self.failed(e)),
        }
    }

    /// Writes some records. True when there are perhaps more.
    async fn burst(&mut self) -> Result<bool, TaskError> {
        for done in 0..BURST {
            match self.gate.next()? {
                None => return Ok(done > 0),
                Some(Arrival::Record { record, .. }) => self.write(&record).await?,
                Some(other) => {
                    self.arrival(other).await?;
                    return Ok(true);
                }
            }
            if self.writer.is_exhausted() {
                return Ok(true);
            }
        }
        Ok(true)
    }

    async fn write(&mut self, record: &Record) -> Result<(), TaskError> {
        let mut headers = Vec::new();
        let written = self.writer.write(&self.topic, record.partition, record.as_ref(&mut headers)).await;
        written.map_err(|error| self.failed(error))?;
        self.steps.step(Step::Write);
        Ok(())
    }

    fn failed(&self, error: WriteError) -> TaskError {
        TaskError::Write {
            task: self.port.name.clone(),
            transaction: self.transaction(),
            error: error.into(),
        }
    }

    /// The numbers of the records in the open transaction.
    fn transaction(&self) -> Range<u64> {
        self.progress.earlier..self.writer.usage().taken.records
    }

    async fn arrival(&mut self, arrival: Arrival) -> Result<(), TaskError> {
        match arrival {
            Arrival::Record { record, .. } => self.write(&record).await?,
            Arrival::Snapshot(barrier) => self.prepare(barrier).await?,
            Arrival::Complete { checkpoint, captured } => {
                let kept = self.port.keep(checkpoint, "in-flight", move || in_flight::to_bytes(&captured));
                self.progress.uploads.push(Background::start(async move { (checkpoint, kept.await) }));
            }
            Arrival::Declined { checkpoint } => {
                self.progress.parts.remove(&checkpoint);
                let cause = "a newer barrier came first".to_owned();
                self.port.tell(News::Decline { checkpoint, cause });
            }
        }
        Ok(())
    }

    async fn prepare(&mut self, barrier: Barrier) -> Result<(), TaskError> {
        let (checkpoint, clock) = (barrier.checkpoint, self.port.clock);
        self.port.observe(JobEvent::Snapshot { checkpoint, task: &self.port.name });
        self.steps.note(Note::Prepare);
        let (began, transaction) = (clock.now(), self.transaction());
        self.progress.earlier = transaction.end;
        let prepared = self.writer.prepare_commit(checkpoint).await;
        let committable = prepared.map_err(|error| {
            let task = self.port.name.clone();
            TaskError::Prepare { task, transaction, error: error.into() }
        })?;
        let transactional_id = committable.as_ref().map(|c| c.transactional_id.clone());
        self.port.observe(JobEvent::Prepared {
            checkpoint,
            task: &self.port.name,
            transactional_id: transactional_id.as_ref(),
        });
        if let Some(committable) = committable {
            self.steps.note(Note::Took(Part::Prepare, clock.now().since(began)));
            self.steps.step(Step::Prepared);
            self.commits.prepared(checkpoint, committable);
            self.progress.held = self.stop_after.is_some();
        }
        let listed = self.commits.list(checkpoint);
        let part = SinkPart { listed, writer: self.writer.snapshot(), taken: self.writer.usage().taken };
        self.progress.parts.insert(checkpoint, part);
        Ok(())
    }

    fn acknowledge(&mut self, checkpoint: u64, kept: Result<Option<StateHandle>, StoreError>) {
        let Some(part) = self.progress.parts.remove(&checkpoint) else {
            // What was given up in the meantime needs no acknowledgement.
            return self.port.unneeded(kept.ok().flatten());
        };
        match kept {
            Ok(in_flight) => {
                self.port.ack(checkpoint, TaskState { state: None, in_flight, sink: Some(part) });
            }
            Err(error) => self.port.tell(News::Decline { checkpoint, cause: error.to_string() }),
        }
    }

    fn command(&mut self, command: Command) -> Result<(), TaskError> {
        match command {
            Command::Trigger(_) => {}
            Command::Notify(checkpoint) => {
                self.commits.complete(checkpoint, &mut self.writer);
                self.progress.unconfirmed = self.progress.unconfirmed.max(Some(checkpoint));
                self.confirm();
            }
            Command::Abort(checkpoint) => {
                self.progress.parts.remove(&checkpoint);
                self.gate.aborted(checkpoint)?;
            }
            Command::Close => self.progress.closing = Some(self.port.clock.now()),
        }
        Ok(())
    }

    fn confirm(&mut self) {
        let confirmed =
            self.progress.unconfirmed.filter(|checkpoint| self.commits.decided_up_to(*checkpoint));
        if let Some(checkpoint) = confirmed {
            self.progress.unconfirmed = None;
            self.port.tell(News::Confirmed { checkpoint });
        }
    }

    /// At the end of the job, when what can be settled is: hands over what is left.
    fn closed(&self, now: Moment) -> bool {
        let Some(since) = self.progress.closing else { return false };
        if !self.commits.is_quiet() && now.since(since) < self.settle_timeout {
            return false;
        }
        let listed = self.commits.unsettled();
        let part = SinkPart { listed, writer: self.writer.snapshot(), taken: self.writer.usage().taken };
        self.port.tell(News::Closed(part));
        true
    }
}

//! A subtask of the sink: a writer, and the commits of what it prepared.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Range,
    pin::pin,
    time::Duration,
};

use futures::{FutureExt, StreamExt, stream::FuturesUnordered};
use tracing::Instrument;

use super::{
    commits::{Commits, Done},
    config::StopAfter,
    error::TaskError,
    event::{JobEvent, UsageTeller},
    gate::{Arrival, Gate},
    in_flight,
    offsets::GroupCommits,
    port::{Command, News, Port, SinkPart, TaskState},
};
use crate::{
    checkpoint::{
        StateHandle, StoreError,
        spans::Spans,
        step::{Note, Part, Step, Steps},
    },
    client::{LEFT_OPEN, Topic},
    ids::Moment,
    net::Background,
    proto::{checkpoint::alignment::Barrier, committable::Committable},
    record::Record,
    sink::{PrepareCommitError, SinkWriter, WriteError},
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
    pub(super) spans: Spans,
    /// How long it waits at the end for commits to be settled.
    pub(super) settle_timeout: Duration,
    pub(super) progress: Progress,
    /// Where the sources stand, if that is this subtask's to commit.
    pub(super) group: Option<GroupCommits>,
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
    /// Records of transactions before the open one.
    earlier: u64,
    /// The job stops on purpose: nothing more is written.
    held: bool,
    /// Commands that came while it waited for something else.
    later: VecDeque<Command>,
}

impl SinkTask {
    /// Runs until the job lets go of it. What is open then is aborted: readers must not wait for its timeout.
    pub(super) async fn run(mut self) -> Result<(), TaskError> {
        let watcher = (self.port.observer.clone(), self.port.clock);
        let usage = UsageTeller::start(watcher, self.port.name.clone(), self.writer.meter());
        let result = self.work().await;
        if result.as_ref().is_err_and(TaskError::is_taken) {
            self.port.observe(JobEvent::Fenced { task: &self.port.name });
        }
        usage.end();
        // What is being kept holds the store, which somebody may open again when the job is over.
        while self.progress.uploads.next().await.is_some() {}
        if let Err(cause) = self.writer.abort().await {
            tracing::warn!(task = %self.port.name, %cause, "{LEFT_OPEN}");
        }
        result
    }

    async fn work(&mut self) -> Result<(), TaskError> {
        loop {
            while let Some(arrival) = self.gate.barrier()? {
                self.arrival(arrival).await?;
            }
            while let Some(command) = self.progress.later.pop_front() {
                self.command(command)?;
            }
            let now = self.port.clock.now();
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
                done = self.commits.next() => self.done(done)?,
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
        while let Err(error) = self.try_write(record) {
            if !matches!(error, WriteError::Full) {
                return Err(self.failed(error));
            }
            // Listening begins before another try, so that what becomes free in between is heard.
            let mut freed = pin!(self.writer.freed());
            let heard = freed.as_mut().now_or_never().is_some();
            match self.try_write(record) {
                Ok(()) => break,
                Err(WriteError::Full) if heard => {}
                Err(WriteError::Full) => self.beside(freed).await?,
                Err(error) => return Err(self.failed(error)),
            }
        }
        self.steps.step(Step::Write);
        Ok(())
    }

    fn try_write(&mut self, record: &Record) -> Result<(), WriteError> {
        let mut headers = Vec::new();
        self.writer.try_write(&self.topic, record.partition, record.as_ref(&mut headers))
    }

    /// Waits for something, while commits that come to their end are taken note of, and new ones begin: brokers that are slow to
    /// take records hold up neither.
    async fn beside<T>(&mut self, work: impl Future<Output = T>) -> Result<T, TaskError> {
        let mut work = pin!(work);
        let mut commanded = true;
        loop {
            tokio::select! {
                biased;
                done = &mut work => return Ok(done),
                command = self.port.commands.recv(), if commanded => match command {
                    Some(notify @ Command::Notify(_)) => self.command(notify)?,
                    Some(other) => self.progress.later.push_back(other),
                    // What is under way is seen to its end. Then there is nobody left to work for.
                    None => commanded = false,
                },
                done = self.commits.next() => self.done(done)?,
            }
        }
    }

    fn done(&mut self, done: Result<Done, TaskError>) -> Result<(), TaskError> {
        self.commits.done(done?, &mut self.writer)?;
        self.confirm();
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
        if let Some(group) = &mut self.group {
            let put = group.put(checkpoint, &mut self.writer).await;
            put.map_err(|error| self.failed(error))?;
        }
        let began = clock.now();
        let committable = self.flush(checkpoint).await?;
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

    async fn flush(&mut self, checkpoint: u64) -> Result<Option<Committable>, TaskError> {
        let (task, transaction) = (self.port.name.clone(), self.transaction());
        self.progress.earlier = transaction.end;
        let failed = |error: PrepareCommitError| TaskError::Prepare {
            task: task.clone(),
            transaction: transaction.clone(),
            error: error.into(),
        };
        let Some(preparing) = self.writer.begin_prepare(checkpoint).map_err(failed)? else { return Ok(None) };
        let span = self.spans.prepare(checkpoint, &self.port.name);
        let flushed = self.beside(preparing.flushed().instrument(span)).await?;
        self.writer.end_prepare(flushed).map_err(failed)
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

//! The job's loop.

use std::{collections::BTreeSet, future::Future, sync::Arc, time::Duration};

use futures::{FutureExt, StreamExt, future::FusedFuture, stream::FuturesUnordered};
use tracing::{Instrument, Span};

use super::{
    Job, OnBadLine, OnHanging, StopAfter,
    event::{Event, ON_THEIR_WAY, commit, log_hanging, not_aborted, recheck, settle},
    lines::OpenLines,
    report::{HangingTransaction, LostTransaction, OpenCommittable, PipelineError, Summary},
    restored::Restored,
    told::{Prepared, Told},
};
use crate::{
    checkpoint::{
        Checkpoint, CommitStatus, InputPosition, JobStore, ListedCommittable, StoreError, StorePoint,
        step::{Note, Part, Step},
    },
    client::{Client, LEFT_OPEN, SendError, Topic},
    ids::Moment,
    net::{Background, Clock},
    proto::{
        committable::Committable,
        recovery::{CommitAnswer, OnLost},
        resume::Decision,
        settle::{CommittedButHanging, SettleError, Settled},
    },
    sink::{Committed, Committer, Share, Sink, SinkState, SinkWriter, WriteError},
    source::{Input, InputError},
};

/// Runs the job until its input ends, `stop` is done, or something is wrong.
///
/// # Errors
/// [`PipelineError`], with what was done until then; everything up to the last complete checkpoint is safe.
///
/// # Cancel safety
/// Dropping the future is like a crash: run the job again.
pub async fn run(
    client: &Client,
    store: &mut dyn JobStore,
    job: &Job,
    stop: impl Future<Output = ()> + Send,
) -> Result<Summary, (PipelineError, Summary)> {
    let early = |e: PipelineError| (e, Summary::default());
    job.sink.validate().map_err(|e| early(e.into()))?;
    let mut running = Running::start(client, store, job).await.map_err(early)?;
    let played = running.play(stop).await;
    running.told.ended(job, &running.writer, played.as_ref().err());
    match played {
        Ok(()) => Ok(running.summary),
        Err(e) => {
            // Readers must not wait for the timeout of what will never be committed.
            let aborted = tokio::time::timeout(ABORT_WAIT, running.writer.abort()).await;
            if let Err(cause) = aborted.unwrap_or_else(|_| Err(not_aborted(ABORT_WAIT))) {
                tracing::warn!(%cause, "{LEFT_OPEN}");
            }
            let e = running.named(e);
            (running.summary.records, running.summary.skipped) = running.durable;
            Err((e, running.summary))
        }
    }
}

struct Running<'a> {
    client: Client,
    job: &'a Job,
    store: &'a mut dyn JobStore,
    topic: Topic,
    writer: SinkWriter,
    committer: Committer,
    input: Input,
    checkpoint: Checkpoint,
    /// The position in the checkpoint.
    position: InputPosition,
    /// Why nothing may be written.
    refused: Option<StoreError>,
    /// Where the records of the open transaction came from.
    lines: OpenLines,
    /// Records and passed over lines before the last complete checkpoint.
    durable: (u64, u64),
    /// Listed in the next checkpoint unless it is settled before.
    listed: Vec<ListedCommittable>,
    background: FuturesUnordered<Background<Event>>,
    summary: Summary,
    told: Told,
    clock: Clock,
    next_checkpoint: Moment,
    started: Moment,
    tick: Moment,
}

/// How long a job that fails waits for the abort of its open transaction.
const ABORT_WAIT: Duration = Duration::from_secs(5);

/// How often a job with nothing to read looks at lingering batches.
const TICK: Duration = Duration::from_millis(5);

/// Records that are written before background events and timers are looked at again.
const BURST: usize = 128;

impl<'a> Running<'a> {
    async fn start(
        client: &Client,
        store: &'a mut dyn JobStore,
        job: &'a Job,
    ) -> Result<Self, PipelineError> {
        let topic = client.topic(&job.topic).await?;
        let Restored { checkpoint, position, refused } = Restored::load(client, store, job, &topic).await?;
        let input = Input::open(&job.source, position.clone(), job.line_limit()).await?;
        let config = Arc::new(job.sink.clone());
        let state = SinkState {
            checkpoint: checkpoint.id,
            committables: checkpoint.committables.iter().map(|l| (l.committable.clone(), l.status)).collect(),
            writers: checkpoint.writers.clone(),
        };
        job.steps.note(Note::Recovery);
        let steps = job.steps.clone();
        let observer = move |phase| steps.recovery(phase);
        let sink = Sink::new(client.clone(), config, vec![topic.clone()]);
        let (writer, report) = sink.recover_share(Share { subtask: 0, total: 1 }, state, &observer).await?;
        job.steps.note(Note::Recovered {
            resumed: report.resumed.len() as u64,
            aborted: report.aborted.len() as u64,
        });
        for blind in &report.blind {
            tracing::warn!(?blind, "recovery could not see everything");
        }
        let clock = client.clock();
        let now = clock.now();
        let mut running = Self {
            client: client.clone(),
            committer: sink.committer(),
            listed: checkpoint.committables.clone(),
            checkpoint,
            position,
            refused,
            job,
            store,
            topic,
            writer,
            input,
            lines: OpenLines::default(),
            durable: (0, 0),
            background: FuturesUnordered::new(),
            summary: Summary {
                resumed: report.resumed.len() as u64,
                aborted: report.aborted.len() as u64,
                ..Summary::default()
            },
            told: Told::new(clock, Arc::clone(&job.job_id)),
            clock,
            next_checkpoint: now.after(job.checkpoint_interval),
            started: now,
            tick: now,
        };
        running.told.recovered(job, &report);
        for lost in &report.lost {
            running.give_up(LostTransaction::from(lost));
        }
        running.after_recovery(report.hanging).await?;
        Ok(running)
    }

    /// Restored committables are decided now, and are looked at until they are settled.
    async fn after_recovery(&mut self, hanging: Vec<CommittedButHanging>) -> Result<(), PipelineError> {
        for unlisted in self.store.unlisted().await? {
            self.store.forget(&unlisted).await?;
        }
        let hangs: BTreeSet<_> = hanging.iter().map(|h| h.transactional_id.clone()).collect();
        for hanging in hanging {
            self.background.push(recheck(&self.client, hanging));
        }
        for listed in &mut self.listed {
            listed.status = CommitStatus::Decided(Decision::Commit);
            if !hangs.contains(&listed.committable.transactional_id) {
                let span = self.told.settling(&listed.committable.transactional_id, self.checkpoint.id);
                self.background.push(settle(&self.committer, listed.committable.clone(), span));
            }
        }
        Ok(())
    }

    async fn play(&mut self, stop: impl Future<Output = ()> + Send) -> Result<(), PipelineError> {
        if let Some(refused) = self.refused.take() {
            // A transaction that was on its way is a loss, which is the worse news.
            while let Some(event) = self.background.next().await {
                self.event(event).await?;
            }
            return Err(refused.into());
        }
        let mut stop = Box::pin(stop.fuse());
        self.summary.finished = self.pump(&mut stop).await?;
        if self.summary.open.is_empty() {
            self.finish().await?;
        }
        Ok(())
    }

    /// Reads and writes until there is nothing more to do. True when the input came to its end.
    async fn pump(
        &mut self,
        stop: &mut (impl FusedFuture<Output = ()> + Unpin),
    ) -> Result<bool, PipelineError> {
        loop {
            self.told.tick(self.job, &self.writer);
            let now = self.clock.now();
            if self.next_checkpoint <= now {
                self.next_checkpoint = now.after(self.job.checkpoint_interval);
                if self.complete_checkpoint().await? {
                    return Ok(false);
                }
                let paused = self.clock.now().after(self.job.min_pause);
                self.next_checkpoint = self.next_checkpoint.max(paused);
            }
            if let Err(blocked @ WriteError::Blocked(_)) = self.writer.ready() {
                return Err(blocked.into());
            }
            let ready = self.may_write(now);
            let wake = ready.err().unwrap_or(self.tick).min(self.next_checkpoint);
            tokio::select! {
                biased;
                () = &mut *stop => return self.last_checkpoint(false).await,
                Some(event) = self.background.next() => self.event(event).await?,
                line = self.input.next_line(), if ready.is_ok() => {
                    let stops = match line.map(|line| line.map(<[u8]>::to_vec)) {
                        Ok(Some(line)) => self.burst(line).await?,
                        Ok(None) => return self.last_checkpoint(true).await,
                        Err(error) => self.unreadable(error).await?,
                    };
                    if stops {
                        return self.last_checkpoint(false).await;
                    }
                }
                () = self.clock.sleep_until(Some(wake.max(now.after(Duration::from_micros(200))))) => {
                    self.writer.tick()?;
                    self.tick = self.clock.now().after(TICK);
                }
            }
        }
    }

    /// Writes a line and those behind it that are in memory. True when the job must stop at a bad line.
    async fn burst(&mut self, first: Vec<u8>) -> Result<bool, PipelineError> {
        let mut line = Some(first);
        for _ in 0..BURST {
            let Some(bytes) = line.take() else { break };
            if self.line(&bytes).await? {
                return Ok(true);
            }
            let now = self.clock.now();
            if self.next_checkpoint <= now || self.may_write(now).is_err() {
                break;
            }
            line = match self.input.ready_line() {
                Ok(line) => line.map(<[u8]>::to_vec),
                Err(error) => return self.unreadable(error).await,
            };
        }
        // A line that was taken must be written before anything else happens.
        match line {
            Some(bytes) => self.line(&bytes).await,
            None => Ok(false),
        }
    }

    /// Whether a record may be written now, or when to ask again.
    fn may_write(&self, now: Moment) -> Result<(), Moment> {
        if self.writer.is_exhausted() {
            return Err(now.after(TICK));
        }
        let Some(rate) = self.job.rate.filter(|rate| *rate > 0) else { return Ok(()) };
        let due = Duration::from_secs(1).mul_f64(self.summary.records as f64 / f64::from(rate));
        let due = self.started.after(due);
        if due <= now { Ok(()) } else { Err(due) }
    }

    async fn line(&mut self, bytes: &[u8]) -> Result<bool, PipelineError> {
        let number = self.input.position().lines;
        if let Some(why) = self.job.refused.get(&number) {
            return Ok(self.bad_line(number, format!("the broker refused its record: {why}")));
        }
        let record = match self.job.format.parse(bytes) {
            Ok(record) => record,
            Err(what) => return Ok(self.bad_line(number, what)),
        };
        match record.write(&mut self.writer, &self.topic).await {
            Ok(()) => {}
            Err(WriteError::Send(e @ (SendError::NoSuchPartition { .. } | SendError::TooLarge { .. }))) => {
                return Ok(self.bad_line(number, e.to_string()));
            }
            Err(error @ WriteError::Send(SendError::Failed(_))) => return Err(error.into()),
            Err(error) => return Err(PipelineError::Record { line: number, error }),
        }
        self.lines.took(number);
        self.summary.records += 1;
        self.job.steps.step(Step::Write);
        Ok(false)
    }

    /// The error, with the lines whose records a broker refused, if that is what it tells.
    fn named(&self, error: PipelineError) -> PipelineError {
        let failure = error.failure().and_then(|cause| Some((cause, cause.records.as_ref()?)));
        match (failure, self.lines.all()) {
            (Some((cause, records)), Some(transaction)) => PipelineError::Refused {
                lines: self.lines.refused(records),
                transaction,
                cause: Box::new(cause.clone()),
            },
            (_, _) => error,
        }
    }

    /// A line that is too long is a bad line; anything else ends the job.
    async fn unreadable(&mut self, error: InputError) -> Result<bool, PipelineError> {
        let InputError::LineTooLong { line, max_bytes } = error else { return Err(error.into()) };
        if self.bad_line(line, format!("it is longer than {max_bytes} bytes")) {
            return Ok(true);
        }
        self.input.pass_line().await?;
        Ok(false)
    }

    /// True when the job must stop. The position is then before the line, so that nothing is lost.
    fn bad_line(&mut self, number: u64, what: String) -> bool {
        match self.job.on_bad_line {
            OnBadLine::Skip => {
                tracing::warn!(line = number, "passed over: {what}");
                self.summary.skipped += 1;
                false
            }
            OnBadLine::Stop => {
                self.summary.bad_line = Some((number, what));
                true
            }
        }
    }

    /// The position up to which everything is in transactions.
    fn reached(&self) -> InputPosition {
        match self.summary.bad_line {
            Some(_) => self.input.position_before_last().clone(),
            None => self.input.position().clone(),
        }
    }

    async fn last_checkpoint(&mut self, finished: bool) -> Result<bool, PipelineError> {
        self.complete_checkpoint().await?;
        Ok(finished)
    }

    /// Prepares, makes durable, and begins to commit. True when the job stops here on purpose.
    async fn complete_checkpoint(&mut self) -> Result<bool, PipelineError> {
        let id = self.checkpoint.id + 1;
        self.job.steps.note(Note::Prepare);
        self.told.spans.begin(id);
        let span = self.told.spans.of(id);
        let began = self.clock.now();
        let timeout = self.job.checkpoint_timeout;
        let committable = tokio::select! {
            biased;
            prepared = self.writer.prepare_commit(id).instrument(self.told.prepare(id)) => prepared?,
            // What was not prepared is a leftover, which the next recovery aborts.
            () = self.clock.sleep_until(Some(began.after(timeout))) => {
                return Err(PipelineError::CheckpointTimeout { checkpoint: id, timeout });
            }
        };
        let prepared = self.clock.now();
        self.lines.clear();
        if committable.is_some() {
            self.job.steps.note(Note::Took(Part::Prepare, prepared.since(began)));
            self.job.steps.step(Step::Prepared);
        }
        let mut listed = self.listed.clone();
        listed.extend(
            committable
                .iter()
                .map(|c| ListedCommittable { committable: c.clone(), status: CommitStatus::Pending }),
        );
        if let (Some(StopAfter::Prepare), Some(committable)) = (self.job.stop_after, &committable) {
            self.leave_open(committable).await?;
            return Ok(true);
        }
        let position = self.reached();
        let writers = vec![self.writer.snapshot()];
        let same = listed == self.checkpoint.committables
            && position == self.position
            && writers == self.checkpoint.writers;
        if same {
            self.told.spans.end(id);
            return Ok(false);
        }
        self.told.prepared(self.job, id, Prepared { began, prepared }, committable.as_ref());
        let next = Checkpoint { id, committables: listed, writers, ..self.checkpoint.clone() };
        self.write_checkpoint(next.with_input(&position), position).await?;
        self.told.durable(self.job, id);
        let Some(committable) = committable else { return Ok(false) };
        if self.job.stop_after == Some(StopAfter::Durable) {
            self.leave_open(&committable).await?;
            return Ok(true);
        }
        self.listed
            .push(ListedCommittable { committable: committable.clone(), status: CommitStatus::Pending });
        let span = self.told.committing(id, &committable, span);
        self.begin_commit(committable, span);
        Ok(false)
    }

    fn begin_commit(&mut self, committable: Committable, span: Span) {
        let (steps, clock) = (self.job.steps.clone(), self.clock);
        self.background.push(commit(&self.committer, committable, (steps, clock), span));
    }

    async fn write_checkpoint(
        &mut self,
        checkpoint: Checkpoint,
        position: InputPosition,
    ) -> Result<(), PipelineError> {
        let steps = &self.job.steps;
        let mut observer = |point| {
            steps.step(match point {
                StorePoint::Half => Step::StoreHalf,
                StorePoint::Durable => Step::Durable,
            });
        };
        let span = self.told.spans.store(checkpoint.id);
        self.store.write(&checkpoint, &mut observer).instrument(span).await?;
        let listed: BTreeSet<_> =
            checkpoint.committables.iter().map(|l| l.committable.transactional_id.clone()).collect();
        self.writer.durable(&listed);
        self.summary.checkpoints += 1;
        self.durable = (self.summary.records, self.summary.skipped);
        self.summary.bytes += position.bytes - self.position.bytes;
        self.checkpoint = checkpoint;
        self.position = position;
        self.job.steps.note(Note::Checkpoint(self.checkpoint.id));
        (self.job.progress)(self.summary.records, self.position.bytes);
        Ok(())
    }

    async fn leave_open(&mut self, committable: &Committable) -> Result<(), PipelineError> {
        let path = self.store.keep(committable).await?;
        self.summary.open.push(OpenCommittable { path, committable: committable.clone() });
        Ok(())
    }

    async fn event(&mut self, event: Option<Event>) -> Result<(), PipelineError> {
        match event.ok_or(PipelineError::Panicked)? {
            Event::Rechecked(hanging, Ok(_)) => {
                // Somebody has repaired it. Its id stays retired; its committable is done.
                self.listed.retain(|l| l.committable.transactional_id != hanging.transactional_id);
                Ok(())
            }
            Event::Rechecked(hanging, Err(_)) => {
                self.hangs(*hanging).await;
                Ok(())
            }
            Event::Committed(committed) => self.committed(committed),
            Event::Settled(committable, settled) => self.settled(*committable, settled).await,
            Event::Repaired(hanging, Ok(())) => {
                let id = &hanging.transactional_id;
                tracing::info!(transactional_id = %id, "the missing marker was written");
                self.listed.retain(|l| l.committable.transactional_id != *id);
                Ok(())
            }
            Event::Repaired(hanging, Err(why)) => {
                tracing::error!(transactional_id = %hanging.transactional_id, %why, "not repaired");
                self.report_hanging(&hanging).await;
                Ok(())
            }
        }
    }

    fn committed(&mut self, committed: Committed) -> Result<(), PipelineError> {
        let resumed = match (committed.answer(self.job.sink.on_lost), &committed.result) {
            (CommitAnswer::Committed, Ok(resumed)) => resumed,
            (CommitAnswer::GivenUp, _) => {
                committed.log_given_up();
                let id = &committed.committable.transactional_id;
                self.told.not_committed(self.job, id);
                self.told.given_up(self.job, id);
                self.give_up(LostTransaction::from(&committed));
                return Ok(());
            }
            (CommitAnswer::Committed | CommitAnswer::Failed, _) => {
                self.told.not_committed(self.job, &committed.committable.transactional_id);
                return Err(PipelineError::NotCommitted(vec![committed]));
            }
        };
        self.writer.decided(&committed.committable, resumed);
        self.told.committed(self.job, &committed.committable.transactional_id, &resumed.outcome);
        for listed in self.listed.iter_mut().filter(|l| l.committable == committed.committable) {
            listed.status = CommitStatus::Decided(Decision::Commit);
        }
        let span = self.told.settling(&committed.committable.transactional_id, self.checkpoint.id);
        self.background.push(settle(&self.committer, committed.committable, span));
        Ok(())
    }

    async fn settled(
        &mut self,
        committable: Committable,
        settled: Result<Settled, SettleError>,
    ) -> Result<(), PipelineError> {
        match settled {
            Ok(Settled { gone }) if !gone.is_empty() => {
                let error =
                    PipelineError::Gone { committable: Box::new(committable.clone()), partitions: gone };
                match self.job.sink.on_lost {
                    // It stays listed, so that the next run says so, too.
                    OnLost::Fail => return Err(error),
                    OnLost::Skip => {
                        tracing::error!(transactional_id = %committable.transactional_id, "{error}");
                        self.told.given_up(self.job, &committable.transactional_id);
                        self.give_up(LostTransaction { committable, story: error.to_string(), proven: true });
                    }
                }
            }
            Ok(_) => {
                self.writer.settled(&committable.transactional_id);
                self.told.settled(self.job, &committable.transactional_id);
                self.listed.retain(|l| l.committable != committable);
            }
            Err(SettleError::Hanging(hanging)) => self.hangs(*hanging).await,
            Err(SettleError::Pending { .. }) => {
                tracing::warn!(transactional_id = %committable.transactional_id, "{ON_THEIR_WAY}");
                let span = self.told.settling(&committable.transactional_id, self.checkpoint.id);
                self.background.push(settle(&self.committer, committable, span));
            }
            Err(e @ SettleError::Denied { .. }) => {
                tracing::warn!(transactional_id = %committable.transactional_id, "{e}; its id is not used again");
                self.writer.avoid(&committable.transactional_id);
                self.told.forget(&committable.transactional_id);
                self.listed.retain(|l| l.committable != committable);
            }
        }
        Ok(())
    }

    /// The job goes on without it, and with other ids.
    fn give_up(&mut self, lost: LostTransaction) {
        self.writer.avoid(&lost.committable.transactional_id);
        self.listed.retain(|l| l.committable != lost.committable);
        self.summary.lost.push(lost);
    }

    /// The id is retired whatever is done about it; nothing of ours ends it in another way.
    async fn hangs(&mut self, hanging: CommittedButHanging) {
        self.writer.retire(hanging.clone());
        self.told.forget(&hanging.transactional_id);
        match self.job.on_hanging {
            OnHanging::Report => self.report_hanging(&hanging).await,
            OnHanging::Repair => {
                let client = self.client.clone();
                let repair = async move {
                    let result = client.repair(&hanging).await.map_err(|e| e.to_string());
                    Event::Repaired(Box::new(hanging), result)
                };
                self.background.push(Background::start(repair));
            }
        }
    }

    async fn report_hanging(&mut self, hanging: &CommittedButHanging) {
        log_hanging(hanging);
        let listed = self.listed.iter().find(|l| l.committable.identity == hanging.identity);
        // The file is there already: it was kept when its checkpoint was written.
        let file = match listed {
            Some(listed) => self.store.keep(&listed.committable).await.ok().flatten(),
            None => None,
        };
        let told = HangingTransaction { transactional_id: hanging.transactional_id.clone(), file };
        if !self.summary.hanging.contains(&told) {
            self.summary.hanging.push(told);
        }
    }

    /// Waits for every commit, sees that all are settled, and drops them from a last checkpoint.
    async fn finish(&mut self) -> Result<(), PipelineError> {
        let deadline = self.clock.now().after(self.job.sink.settle_timeout);
        loop {
            let pending = self.listed.iter().any(|l| l.status == CommitStatus::Pending);
            if !pending && self.clock.now() >= deadline {
                break;
            }
            let until = (!pending).then_some(deadline);
            tokio::select! {
                event = self.background.next() => match event {
                    Some(event) => self.event(event).await?,
                    None => break,
                },
                () = self.clock.sleep_until(until) => {}
            }
        }
        self.complete_checkpoint().await?;
        Ok(())
    }
}

//! A run of a job: from a checkpoint to running subtasks, and back to the checkpoint after a failure.

use std::{future::Future, pin::pin, sync::Arc, time::Duration};

use futures::{FutureExt, future::FusedFuture};

use super::{
    attempt::{Attempt, End, Start},
    build::{Built, Surroundings, build},
    claim::Claim,
    commits::{Commits, Teller, Ways},
    config::RunConfig,
    counters::Counters,
    error::RunError,
    event::{JobEvent, TaskName},
    graph::{Kind, Node, Pipeline, SinkSpec},
    in_flight,
    restore::{IN_FLIGHT, Restored},
    summary::{HangingTransaction, LostTransaction, OpenCommittable, RunSummary},
};
use crate::{
    checkpoint::{
        Binding, Checkpoint, CheckpointStore, ListedCommittable, OperatorState, StateHandle, StoreError,
        spans::Spans, step::Note,
    },
    client::{Client, Topic},
    proto::{
        checkpoint::CheckpointKind, committable::Committable, pool::WriterState, settle::CommittedButHanging,
    },
    sink::{RecoveryReport, Sink, SinkConfig, SinkState, SinkWriter},
};

impl Pipeline {
    /// Runs the job until all its sources come to their end, `stop` is done, or something is wrong.
    ///
    /// It begins where the last complete checkpoint in `store` ends. On `stop` it takes one more checkpoint and
    /// commits it; while it recovers it ends at once, with [`RunError::Stopped`]. After a failure that may pass it goes
    /// back to the last complete checkpoint by itself, as often as `config` says; also when the failure is one of going
    /// back. A write of the store that is under way is waited for before that, however long it takes.
    ///
    /// # Errors
    /// [`RunError`], with what was done until then; everything up to the last complete checkpoint is safe.
    ///
    /// # Cancel safety
    /// Dropping the future is like a crash: run the job again.
    pub async fn run(
        &self,
        client: &Client,
        store: &mut dyn CheckpointStore,
        config: &RunConfig,
        stop: impl Future<Output = ()> + Send,
    ) -> Result<RunSummary, (RunError, RunSummary)> {
        let mut stop = pin!(stop.fuse());
        let (mut summary, mut newest_id) = (RunSummary::default(), 0);
        let mut left = config.restart_attempts;
        loop {
            let before = summary.checkpoints;
            let life = Life { client, store, config, summary: &mut summary, newest_id: &mut newest_id };
            let error = match self.live(life, &mut stop).await {
                Ok(()) => return Ok(summary),
                Err(error) => error,
            };
            if summary.checkpoints > before {
                left = config.restart_attempts;
            }
            if left == 0 || !error.is_transient() || stop.is_terminated() {
                return Err((error, summary));
            }
            left -= 1;
            summary.restarts += 1;
            tracing::warn!(%error, "the job goes back to its last checkpoint");
            let clock = client.clock();
            tokio::select! {
                biased;
                () = &mut stop => return Err((error, summary)),
                () = clock.sleep_until(Some(clock.now().after(config.restart_delay))) => {}
            }
        }
    }

    async fn live(
        &self,
        life: Life<'_>,
        stop: &mut (impl FusedFuture<Output = ()> + Unpin),
    ) -> Result<(), RunError> {
        let Life { client, store, config, summary, newest_id } = life;
        let nodes = self.nodes()?;
        summary.finished = false;
        let counters = Arc::new(Counters::default());
        let around = (config, Arc::clone(&counters));
        let beginning = self.begin((client, &nodes), &mut *store, around, &mut *summary);
        let begun = tokio::select! {
            biased;
            () = &mut *stop, if !stop.is_terminated() => Err(RunError::Stopped),
            begun = beginning => begun,
        };
        let played = match begun {
            Ok(begun) => {
                let Begun { built, checkpoint, was_finished, spans, claim: _claim } = begun;
                let start = Start { checkpoint, newest_id: *newest_id, was_finished, spans };
                let start = (start, Arc::clone(&counters));
                let mut attempt =
                    Attempt::new(&nodes, (config, client.clock()), (built, &mut *store), start)?;
                let played = attempt.play(stop).await;
                attempt.end().await;
                *newest_id = attempt.newest_id();
                summary.add(&attempt.done);
                played
            }
            Err(error) => Err(error),
        };
        summary.lost.extend(counters.take_lost());
        summary.hanging = named(store, counters.take_hanging()).await;
        match played? {
            End::Over => {}
            End::Left(committables) => {
                for committable in committables {
                    let path = store.keep(&committable).await?;
                    summary.open.push(OpenCommittable { path, committable });
                }
            }
        }
        Ok(())
    }

    /// From the newest checkpoint to running subtasks.
    async fn begin(
        &self,
        (client, nodes): (&Client, &[Node]),
        store: &mut dyn CheckpointStore,
        (config, counters): (&RunConfig, Arc<Counters>),
        summary: &mut RunSummary,
    ) -> Result<Begun, RunError> {
        let (spec, uid, parallelism) = sink_of(nodes);
        let mut sink = spec.config.clone();
        if config.checkpoints.interval < Duration::MAX {
            sink.checkpoint_interval = sink.checkpoint_interval.max(config.checkpoints.interval);
        }
        sink.validate()?;
        let topic = client.topic(&spec.topic).await?;
        let cluster_id = client.cluster_id().await?.unwrap_or_else(|| Arc::from(""));
        let Some(claim) = Claim::on(cluster_id, &sink.prefix) else {
            return Err(RunError::PrefixInUse { prefix: sink.prefix });
        };
        let (checkpoint, refused) = self.restored((client, config), store, (&topic, nodes)).await?;
        let restored = Restored::read(&checkpoint, nodes, &*store.states()).await?;
        let sink = Sink::new(client.clone(), Arc::new(sink), vec![topic.clone()]);
        let (writers, report) = recover(&sink, parallelism, &checkpoint, config).await?;
        store.recovered().await?;
        summary.resumed += report.resumed.len() as u64;
        summary.aborted += report.aborted.len() as u64;
        summary.lost.extend(report.lost.iter().map(LostTransaction::from));
        config.observer.event(client.clock().now(), &JobEvent::Recovered { report: &report });
        if is_ahead(&checkpoint, &writers) {
            counters.changed();
        }
        let spans = Spans::new(Arc::clone(&self.job_id));
        let commits = Commitments {
            client,
            sink: &sink,
            spec: &spec.config,
            uid,
            config,
            counters: &counters,
            spans: &spans,
        };
        let mut writers = commits.deal(writers, &checkpoint, report);
        if let Some(error) = refused {
            // A transaction that was on its way is a loss, which is the worse news.
            for (writer, commits) in &mut writers {
                commits.look_after(writer).await?;
            }
            return Err(error.into());
        }
        let around = Surroundings {
            config,
            clock: client.clock(),
            states: store.states(),
            counters: Arc::clone(&counters),
            topic,
            spans: spans.clone(),
            group: spec.config.offsets_group.clone(),
            writers,
            settle_timeout: spec.config.settle_timeout,
        };
        let built = build(nodes, &restored, around).await?;
        Ok(Begun { built, checkpoint, was_finished: restored.is_finished(), spans, claim })
    }

    /// The checkpoint to begin from, and why nothing may be written, if so. A first one is stored at once: the job's ids
    /// must outlive a crash before the first real one.
    async fn restored(
        &self,
        (client, config): (&Client, &RunConfig),
        store: &mut dyn CheckpointStore,
        (topic, nodes): (&Topic, &[Node]),
    ) -> Result<(Checkpoint, Option<StoreError>), RunError> {
        let cluster_id = client.cluster_id().await?.unwrap_or_else(|| Arc::from(""));
        if let Some(mut found) = store.load().await? {
            let binding = Binding {
                job_id: Some(Arc::clone(&self.job_id)),
                cluster_id: Some(cluster_id),
                topic: Some(Arc::clone(topic.name())),
                topic_id: Some(topic.id()),
                ..Binding::default()
            };
            let checked = binding.check(&found);
            if !found.topic_id.is_known() {
                // An older release did not keep it, or the brokers did not tell.
                found.topic_id = topic.id();
            }
            return match checked {
                // What it lists is looked after first: its loss must be told.
                Err(error @ StoreError::TopicRecreated { .. }) => Ok((found, Some(error))),
                checked => Ok(checked.map(|()| (found, None))?),
            };
        }
        let first = Checkpoint {
            id: 0,
            owner_epoch: 0,
            job_id: Arc::clone(&self.job_id),
            cluster_id,
            topic: Arc::clone(topic.name()),
            topic_id: topic.id(),
            operators: beginning(nodes),
            committables: Vec::new(),
            writers: Vec::new(),
        };
        let begins = JobEvent::Triggered { checkpoint: first.id, kind: CheckpointKind::Periodic };
        config.observer.event(client.clock().now(), &begins);
        store.write(&first, &mut |_| {}).await?;
        Ok((first, None))
    }
}

/// A life that can be lived.
struct Begun {
    built: Built,
    checkpoint: Checkpoint,
    was_finished: bool,
    spans: Spans,
    /// Held as long as the job lives.
    claim: Claim,
}

/// What the lives of a job share, from one restart to the next.
struct Life<'a> {
    client: &'a Client,
    store: &'a mut dyn CheckpointStore,
    config: &'a RunConfig,
    summary: &'a mut RunSummary,
    /// The newest checkpoint that was begun: ids of those that failed are not used again.
    newest_id: &'a mut u64,
}

fn sink_of(nodes: &[Node]) -> (&SinkSpec, &Arc<str>, u32) {
    let mut sinks = nodes.iter().filter_map(|node| match &node.kind {
        Kind::Sink(spec) => Some((&**spec, &node.uid, node.parallelism)),
        Kind::Source(_) | Kind::Operator(_) => None,
    });
    // `nodes` has made sure that there is one.
    sinks.next().unwrap_or_else(|| unreachable!("a checked graph has a sink"))
}

async fn recover(
    sink: &Sink,
    subtasks: u32,
    checkpoint: &Checkpoint,
    config: &RunConfig,
) -> Result<(Vec<SinkWriter>, RecoveryReport), RunError> {
    let state = SinkState {
        checkpoint: checkpoint.id,
        committables: checkpoint.committables.iter().map(|l| (l.committable.clone(), l.status)).collect(),
        writers: checkpoint.writers.clone(),
    };
    config.steps.note(Note::Recovery);
    let steps = config.steps.clone();
    let (writers, report) = sink.recover(subtasks, state, &move |phase| steps.recovery(phase)).await?;
    config
        .steps
        .note(Note::Recovered { resumed: report.resumed.len() as u64, aborted: report.aborted.len() as u64 });
    for blind in &report.blind {
        tracing::warn!(?blind, "recovery could not see everything");
    }
    Ok((writers, report))
}

/// What the sources tell of where they begin.
fn beginning(nodes: &[Node]) -> Vec<OperatorState> {
    let state = |node: &Node| match &node.kind {
        Kind::Source(source) => {
            let splits = source.beginning();
            let state = StateHandle::Inline(in_flight::splits_to_bytes(&splits).into());
            (!splits.is_empty()).then(|| OperatorState { uid: Arc::clone(&node.uid), subtasks: vec![state] })
        }
        Kind::Operator(_) | Kind::Sink(_) => None,
    };
    nodes.iter().filter_map(state).collect()
}

/// Whether the next checkpoint will hold something else than this one, even if no source brings anything.
fn is_ahead(checkpoint: &Checkpoint, writers: &[SinkWriter]) -> bool {
    let states: Vec<WriterState> = writers.iter().map(SinkWriter::snapshot).collect();
    let in_flight = checkpoint.operators.iter().any(|operator| operator.uid.ends_with(IN_FLIGHT));
    in_flight || !checkpoint.committables.is_empty() || states != checkpoint.writers
}

/// What the commits of all subtasks are made with.
struct Commitments<'a> {
    client: &'a Client,
    sink: &'a Sink,
    spec: &'a SinkConfig,
    uid: &'a Arc<str>,
    config: &'a RunConfig,
    counters: &'a Arc<Counters>,
    spans: &'a Spans,
}

impl Commitments<'_> {
    /// Gives each writer the committables and the hanging transactions of the ids that it answers for.
    fn deal(
        &self,
        writers: Vec<SinkWriter>,
        checkpoint: &Checkpoint,
        report: RecoveryReport,
    ) -> Vec<(SinkWriter, Commits)> {
        let states: Vec<WriterState> = writers.iter().map(SinkWriter::snapshot).collect();
        let owned = |index: usize, id| WriterState::owner(&states, id) == index;
        let one = |(number, writer): (u32, SinkWriter)| {
            let index = number as usize;
            let listed = checkpoint.committables.iter();
            // What recovery has passed over is told, and then forgotten.
            let kept = listed.filter(|l| report.lost.iter().all(|lost| lost.committable != l.committable));
            let listed: Vec<ListedCommittable> =
                kept.filter(|l| owned(index, &l.committable.transactional_id)).cloned().collect();
            let hanging =
                report.hanging.iter().filter(|h| owned(index, &h.transactional_id)).cloned().collect();
            (writer, Commits::restored(self.one(number), (checkpoint.id, listed), hanging))
        };
        (0..).zip(writers).map(one).collect()
    }

    fn one(&self, index: u32) -> (Ways, Teller) {
        let ways = Ways {
            spans: self.spans.clone(),
            client: self.client.clone(),
            committer: self.sink.committer(),
            on_hanging: self.config.on_hanging,
            on_lost: self.spec.on_lost,
        };
        let teller = Teller {
            observer: self.config.observer.clone(),
            clock: self.client.clock(),
            task: TaskName { uid: Arc::clone(self.uid), index },
            steps: self.config.steps.clone(),
            counters: Arc::clone(self.counters),
        };
        (ways, teller)
    }
}

/// The same with the places of their committables, which were kept when their checkpoints were written.
async fn named(store: &mut dyn CheckpointStore, found: Vec<CommittedButHanging>) -> Vec<HangingTransaction> {
    let listed = match found.is_empty() {
        true => None,
        false => store.load().await.ok().flatten(),
    };
    let mut all = Vec::new();
    for transaction in found {
        let listed = listed.iter().flat_map(|checkpoint| &checkpoint.committables);
        let own: Option<&Committable> =
            listed.map(|l| &l.committable).find(|c| c.identity == transaction.identity);
        let file = own.and_then(|committable| store.place(committable));
        all.push(HangingTransaction { transaction, file });
    }
    all
}

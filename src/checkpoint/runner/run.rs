//! A run of a job: from a checkpoint to running subtasks, and back to the checkpoint after a failure.

use std::{future::Future, pin::pin, sync::Arc, time::Duration};

use futures::{FutureExt, future::FusedFuture};

use super::{
    attempt::{Attempt, Start},
    build::{Built, Surroundings, build},
    commits::Commits,
    config::RunConfig,
    counters::Counters,
    error::{RunError, RunSummary, TaskError},
    event::JobEvent,
    graph::{Kind, Node, Pipeline, SinkSpec},
    restore::Restored,
};
use crate::{
    checkpoint::{
        Binding, Checkpoint, CheckpointStore, ListedCommittable, StoreError, pipeline::LostTransaction,
        spans::Spans, step::Note,
    },
    client::{Client, Topic},
    proto::{checkpoint::CheckpointKind, pool::WriterState, recovery::OnLost, settle::Settled},
    sink::{Committer, RecoveryReport, Sink, SinkState, SinkWriter},
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
        let beginning = self.begin((client, &nodes), &mut *store, config, &mut *summary);
        let begun = tokio::select! {
            biased;
            () = &mut *stop, if !stop.is_terminated() => return Err(RunError::Stopped),
            begun = beginning => begun?,
        };
        let Begun { built, counters, checkpoint, was_finished, spans } = begun;
        let start = Start { checkpoint, newest_id: *newest_id, was_finished, spans };
        let mut attempt = Attempt::new(&nodes, (config, client.clock()), (built, store), start)?;
        let result = attempt.play(stop).await;
        attempt.end().await;
        *newest_id = attempt.newest_id();
        summary.checkpoints += attempt.completed;
        summary.failed_checkpoints += attempt.failed;
        summary.records += counters.records();
        summary.bytes += counters.bytes();
        summary.hanging = counters.take_hanging();
        summary.lost.extend(counters.take_lost());
        summary.finished = matches!(result, Ok(CheckpointKind::Final));
        result.map(|_| ())
    }

    /// From the newest checkpoint to running subtasks.
    async fn begin(
        &self,
        (client, nodes): (&Client, &[Node]),
        store: &mut dyn CheckpointStore,
        config: &RunConfig,
        summary: &mut RunSummary,
    ) -> Result<Begun, RunError> {
        let (spec, parallelism) = sink_of(nodes);
        let mut sink = spec.config.clone();
        if config.checkpoints.interval < Duration::MAX {
            sink.checkpoint_interval = sink.checkpoint_interval.max(config.checkpoints.interval);
        }
        sink.validate()?;
        let topic = client.topic(&spec.topic).await?;
        let (checkpoint, refused) = self.restored(client, store, &topic).await?;
        let restored = Restored::read(&checkpoint, nodes, &*store.states()).await?;
        let sink = Sink::new(client.clone(), Arc::new(sink), vec![topic.clone()]);
        let (writers, report) = recover(&sink, parallelism, &checkpoint, config).await?;
        store.recovered().await?;
        summary.resumed += report.resumed.len() as u64;
        summary.aborted += report.aborted.len() as u64;
        summary.lost.extend(report.lost.iter().map(LostTransaction::from));
        config.observer.event(client.clock().now(), &JobEvent::Recovered { report: &report });
        if let Some(error) = refused {
            look_after(&sink.committer(), &checkpoint).await?;
            return Err(error.into());
        }
        let counters = Arc::new(Counters::default());
        let spans = Spans::new(Arc::clone(&self.job_id));
        let around = Surroundings {
            config,
            clock: client.clock(),
            states: store.states(),
            counters: Arc::clone(&counters),
            topic,
            spans: spans.clone(),
            group: spec.config.offsets_group.clone(),
            writers: with_commits(
                (client, &sink, &spans),
                config,
                (writers, spec.config.on_lost),
                (&checkpoint, report),
            ),
            settle_timeout: spec.config.settle_timeout,
        };
        let built = build(nodes, &restored, around).await?;
        Ok(Begun { built, counters, checkpoint, was_finished: restored.is_finished(), spans })
    }

    /// The checkpoint to begin from, and why nothing may be written, if so. A first one is stored at once: the job's ids
    /// must outlive a crash before the first real one.
    async fn restored(
        &self,
        client: &Client,
        store: &mut dyn CheckpointStore,
        topic: &Topic,
    ) -> Result<(Checkpoint, Option<StoreError>), RunError> {
        let cluster_id = client.cluster_id().await?.unwrap_or_else(|| Arc::from(""));
        if let Some(found) = store.load().await? {
            let binding = Binding {
                job_id: Some(Arc::clone(&self.job_id)),
                cluster_id: Some(cluster_id),
                topic: Some(Arc::clone(topic.name())),
                topic_id: Some(topic.id()),
                ..Binding::default()
            };
            return match binding.check(&found) {
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
            operators: Vec::new(),
            committables: Vec::new(),
            writers: Vec::new(),
        };
        store.write(&first, &mut |_| {}).await?;
        Ok((first, None))
    }
}

/// A life that can be lived.
struct Begun {
    built: Built,
    counters: Arc<Counters>,
    checkpoint: Checkpoint,
    was_finished: bool,
    spans: Spans,
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

fn sink_of(nodes: &[Node]) -> (&SinkSpec, u32) {
    let sinks = nodes.iter().filter_map(|node| match &node.kind {
        Kind::Sink(spec) => Some((&**spec, node.parallelism)),
        Kind::Source(_) | Kind::Operator(_) => None,
    });
    let mut sinks = sinks;
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

/// Sees whether what was committed is still there.
async fn look_after(committer: &Committer, checkpoint: &Checkpoint) -> Result<(), TaskError> {
    for ListedCommittable { committable, .. } in &checkpoint.committables {
        match committer.settle(committable).await {
            Ok(Settled { gone }) if !gone.is_empty() => {
                let committable = Box::new(committable.clone());
                return Err(TaskError::Gone { committable, partitions: gone });
            }
            Ok(_) | Err(_) => {}
        }
    }
    Ok(())
}

/// Gives each writer the committables and the hanging transactions of the ids that it answers for.
fn with_commits(
    (client, sink, spans): (&Client, &Sink, &Spans),
    config: &RunConfig,
    (writers, on_lost): (Vec<SinkWriter>, OnLost),
    (checkpoint, report): (&Checkpoint, RecoveryReport),
) -> Vec<(SinkWriter, Commits)> {
    let states: Vec<WriterState> = writers.iter().map(SinkWriter::snapshot).collect();
    let owned = |index: usize, id| WriterState::owner(&states, id) == index;
    let one = |(index, writer): (usize, SinkWriter)| {
        let listed = checkpoint.committables.iter();
        // What recovery has passed over is told, and then forgotten.
        let kept = listed.filter(|l| report.lost.iter().all(|lost| lost.committable != l.committable));
        let listed: Vec<ListedCommittable> =
            kept.filter(|l| owned(index, &l.committable.transactional_id)).cloned().collect();
        let hanging = report.hanging.iter().filter(|h| owned(index, &h.transactional_id)).cloned().collect();
        let ways = (spans.clone(), client.clone(), sink.committer());
        (writer, Commits::restored(ways, (config.on_hanging, on_lost), (checkpoint.id, listed), hanging))
    };
    writers.into_iter().enumerate().map(one).collect()
}

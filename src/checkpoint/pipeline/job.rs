//! The job as one of the runner.

use std::{future::Future, sync::Arc};

use tokio::sync::Notify;

use super::{
    Job, SINK, SOURCE,
    ledger::Ledger,
    report::{PipelineError, Summary},
    source::PipedLines,
};
use crate::{
    checkpoint::{
        CheckpointStore,
        binding::position,
        runner::{IdleCheckpoints, Observer, Pipeline, RunConfig, RunError, RunSummary, SinkSpec, TaskError},
    },
    client::Client,
    proto::checkpoint::coordinator::CoordinatorConfig,
    source::SourceError,
};

/// Runs the job until its input ends, `stop` is done, or something is wrong. It does not go back to its last checkpoint by
/// itself: what it reads may have no way back.
///
/// # Errors
/// [`PipelineError`], with what was done until then; everything up to the last complete checkpoint is safe.
///
/// # Cancel safety
/// Dropping the future is like a crash: run the job again.
pub async fn run(
    client: &Client,
    store: &mut dyn CheckpointStore,
    job: &Job,
    stop: impl Future<Output = ()> + Send,
) -> Result<Summary, (PipelineError, Summary)> {
    let early = |e: PipelineError| (e, Summary::default());
    job.sink.validate().map_err(|e| early(e.into()))?;
    let topic = client.topic(&job.topic).await.map_err(|e| early(e.into()))?;
    if let Some(checkpoint) = store.load().await.map_err(|e| early(e.into()))? {
        position(&checkpoint).map_err(|e| early(e.into()))?;
    }
    let (ledger, reading) = (Ledger::default(), Arc::new(Notify::new()));
    let pipeline = Pipeline::new(Arc::clone(&job.job_id));
    let source = PipedLines::new(job, topic, ledger.clone(), Arc::clone(&reading));
    let sink = SinkSpec { topic: job.topic.clone(), config: job.sink.clone() };
    pipeline.source(SOURCE, 1, source).sink(SINK, 1, sink);
    let stop = async move {
        stop.await;
        // What recovery has begun it finishes.
        reading.notified().await;
    };
    match pipeline.run(client, store, &config(job, &ledger), stop).await {
        Ok(run) => Ok(summary(run, &ledger)),
        Err((
            RunError::Task(TaskError::Source { error: SourceError::BadLine { line, why, .. }, .. }),
            run,
        )) => Ok(Summary { bad_line: Some((line, why)), ..summary(run, &ledger) }),
        Err((error, run)) => {
            let error = PipelineError::of(error, &ledger, job.checkpoint_timeout);
            Err((error, summary(run, &ledger)))
        }
    }
}

fn config(job: &Job, ledger: &Ledger) -> RunConfig {
    let (books, progress) = (ledger.clone(), Arc::clone(&job.progress));
    let observer = Observer::new(move |_, event| {
        if let Some(mark) = books.event(event) {
            progress(mark.records, mark.at);
        }
    });
    RunConfig {
        checkpoints: CoordinatorConfig {
            interval: job.checkpoint_interval,
            timeout: job.checkpoint_timeout,
            min_pause: job.min_pause,
            ..CoordinatorConfig::default()
        },
        restart_attempts: 0,
        on_hanging: job.on_hanging,
        stop_after: job.stop_after,
        idle_checkpoints: IdleCheckpoints::LeftOut,
        observer: observer.and(job.observer.clone()),
        steps: job.steps.clone(),
        ..RunConfig::default()
    }
}

fn summary(run: RunSummary, ledger: &Ledger) -> Summary {
    let durable = ledger.durable();
    // What was left open is behind the newest barrier, which may be that of no checkpoint.
    let reached = if run.open.is_empty() { durable } else { ledger.newest() };
    Summary {
        records: run.records,
        bytes: durable.bytes,
        skipped: reached.skipped(),
        checkpoints: run.checkpoints,
        resumed: run.resumed,
        aborted: run.aborted,
        hanging: run.hanging,
        lost: run.lost,
        finished: run.finished,
        open: run.open,
        bad_line: None,
    }
}

//! A writer whose records are refused, whose brokers are away, or that is closed.

use std::time::Duration;

use kafka_2pc::proto::resume::{CommitError, CoordinatorState};
use kafka_2pc::record::RecordRef;
use kafka_2pc::wire::api::Api;

use super::super::seen::until_state;
use super::job::{Job, Kept, only};
use crate::bench::{Bench, within};
use crate::outcome::{Failure, Shown, equal, holds};

/// INVALID_RECORD.
const INVALID_RECORD: i16 = 87;

/// A record that a broker refuses fails what comes next, whichever it is: a write, a checkpoint, or nothing at a close. The
/// transaction behind it knows nothing of it.
pub(super) async fn k11(bench: &Bench) -> Shown {
    let job = Job::new(bench).await?;
    let mut run = job.start(1, &Kept::default()).await?;
    let refused = RecordRef::value(b"refused");
    // By the checkpoint.
    within(run.writers[0].write(&run.topic, Some(0), refused)).await??;
    bench.refuse(Api::Produce, INVALID_RECORD, 1)?;
    let failed = within(run.writers[0].prepare_commit(1)).await?;
    holds(failed.is_err(), format!("the checkpoint: {failed:?}"))?;
    let again = within(run.writers[0].prepare_commit(2)).await?;
    holds(matches!(again, Ok(None)), format!("the next checkpoint: {again:?}"))?;
    // By a write, once the refusal is here.
    within(run.writers[0].write(&run.topic, Some(0), refused)).await??;
    bench.refuse(Api::Produce, INVALID_RECORD, 1)?;
    let told = within(async {
        loop {
            let ticked = run.writers[0].tick();
            let written = run.writers[0].write(&run.topic, Some(0), refused).await;
            match ticked.and(written) {
                Ok(()) => tokio::time::sleep(Duration::from_millis(5)).await,
                Err(error) => return error,
            }
        }
    })
    .await?;
    holds(!told.is_exhausted(), format!("the write: {told}"))?;
    // A close is no failure of what it closes.
    within(run.writers[0].abort()).await??;
    within(run.writers[0].write(&run.topic, Some(0), refused)).await??;
    bench.refuse(Api::Produce, INVALID_RECORD, 1)?;
    within(run.writers[0].abort()).await??;
    bench.embedded()?.clear_faults();
    run.checkpoint = 2;
    run.write(3).await?;
    run.complete().await?;
    job.exactly_once(bench, 3).await
}

/// All brokers are away: a write that waits for memory, a checkpoint, a close and a commit end in time, each with an error
/// that says so. When they are back, the job goes on from its checkpoint.
pub(super) async fn k12(bench: &Bench) -> Shown {
    let mut job = Job::new(bench).await?;
    job.config.delivery_timeout = Duration::from_secs(3);
    job.config.commit_timeout = Some(Duration::from_secs(2));
    job.config.buffer_bytes = 64 * 1024;
    let mut run = job.start(2, &Kept::default()).await?;
    run.write(2).await?;
    let first = run.prepare().await?;
    let kept = run.durable(&first);
    run.write(4).await?;
    bench.kill_node(1).await?;
    for committed in within(run.committer().commit(first)).await? {
        match committed.result {
            Err(error @ CommitError::Pending { .. }) => holds(error.is_retriable(), "not to be retried")?,
            other => return Err(Failure::wrong(format!("a commit without brokers: {other:?}"))),
        }
    }
    let failed = within(run.writers[0].prepare_commit(2)).await?;
    holds(failed.is_err(), format!("a checkpoint without brokers: {failed:?}"))?;
    let large = vec![b'x'; 40 * 1024];
    let written = within(async {
        loop {
            if let Err(error) = run.writers[1].write(&run.topic, Some(0), RecordRef::value(&large)).await {
                return error;
            }
        }
    })
    .await?;
    holds(!written.to_string().is_empty(), "no word of why nothing is written")?;
    // What could not be carried out is the broker's to abort.
    _ = within(run.writers[1].abort()).await?;
    drop(run);
    bench.restart_node(1).await?;
    let mut next = job.start(2, &kept).await?;
    equal("resumed", next.report.resumed.len(), 2)?;
    next.write(6).await?;
    next.complete().await?;
    job.exactly_once(bench, 6).await
}

/// A writer that is closed, or dropped, leaves nothing open: the next run's records are visible at once.
pub(super) async fn k13(bench: &Bench) -> Shown {
    let job = Job::new(bench).await?;
    for drops in [false, true] {
        let mut run = job.start(1, &Kept::default()).await?;
        let id = job.id(0, 0);
        within(run.writers[0].write(&run.topic, Some(0), RecordRef::value(b"left open"))).await??;
        // It is at the broker.
        within(async {
            while job.open().await?.is_empty() {
                run.writers[0].tick()?;
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Ok::<_, Failure>(())
        })
        .await??;
        if drops {
            drop(run);
        } else {
            within(run.writers[0].abort()).await??;
        }
        until_state(&job.client, &id, CoordinatorState::CompleteAbort).await?;
        let other =
            Job { config: kafka_2pc::sink::SinkConfig::new(&crate::bench::fresh("k13"))?, ..job.clone() };
        let mut next = other.start(1, &Kept::default()).await?;
        within(next.writers[0].write(&next.topic, Some(0), RecordRef::value(b"next"))).await??;
        let committable = only(&next.prepare().await?)?;
        super::job::is_committed(&super::job::commit(&next.committer(), &committable).await?)?;
        within(next.committer().settle(&committable)).await??;
        let expected = if drops { 2 } else { 1 };
        equal("visible at once", bench.visible(&job.topic).await?.len(), expected)?;
    }
    Ok(())
}

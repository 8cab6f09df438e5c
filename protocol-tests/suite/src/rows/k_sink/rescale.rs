//! Jobs that come back with more or fewer subtasks.

use std::collections::BTreeSet;

use kafka_2pc::proto::naming::NamingError;
use kafka_2pc::sink::{RecoverError, Share};

use super::job::{Job, Kept};
use crate::bench::{Bench, within};
use crate::outcome::{Failure, Shown, equal, holds};

const PAIRS: [(u32, u32); 10] =
    [(1, 2), (2, 1), (1, 3), (3, 1), (2, 3), (3, 2), (2, 4), (4, 2), (3, 4), (4, 3)];

/// How a run of the job ends.
#[derive(Debug, Clone, Copy)]
enum Ends {
    /// Killed, with a checkpoint prepared that nothing lists.
    Unlisted,
    /// Killed, with a durable checkpoint that is not committed.
    Uncommitted,
    /// Everything is committed and settled.
    Complete,
}

/// Each change of the parallelism, twice in a row, behind each kind of end: every record comes out once, nothing stays open.
/// States that leave a subtask out, or do not fit together, are refused, and so is a share that does not exist.
pub(super) async fn k16(bench: &Bench) -> Shown {
    for ((old, new), ends) in
        PAIRS.into_iter().zip([Ends::Uncommitted, Ends::Unlisted, Ends::Complete].into_iter().cycle())
    {
        let job = Job::new(bench).await?;
        let kept = run(&job, old, ends, Kept::default()).await?;
        let kept = run(&job, new, ends, kept).await?;
        let mut last = job.start((old + new) % 4 + 1, &kept).await?;
        let end = last.written + 4;
        last.write(end).await?;
        last.complete().await?;
        let shown = job.exactly_once(bench, end).await;
        shown.map_err(|why| Failure::wrong(format!("{old} to {new}, {ends:?}: {why:?}")))?;
    }
    refused(bench).await
}

async fn run(job: &Job, subtasks: u32, ends: Ends, kept: Kept) -> Result<Kept, Failure> {
    let mut run = job.start(subtasks, &kept).await?;
    run.write(run.written + 8).await?;
    let whole = run.complete().await?;
    run.write(run.written + 4).await?;
    match ends {
        Ends::Complete => run.complete().await,
        Ends::Unlisted => {
            run.prepare().await?;
            run.killed().await?;
            Ok(whole)
        }
        Ends::Uncommitted => {
            let prepared = run.prepare().await?;
            let kept = run.durable(&prepared);
            run.write(run.written + 2).await?;
            run.killed().await?;
            Ok(kept)
        }
    }
}

async fn refused(bench: &Bench) -> Shown {
    let job = Job::new(bench).await?;
    let mut run = job.start(3, &Kept::default()).await?;
    run.write(3).await?;
    let kept = run.complete().await?;
    drop(run);
    let share = Share { subtask: 2, total: 2 };
    let none = within(job.sink().recover_share(share, kept.state.clone(), &|_| {})).await?;
    let none = none.map(|_| ()).err();
    let right = matches!(none, Some(RecoverError::Naming(NamingError::NoSuchSubtask { .. })));
    holds(right, format!("a share that does not exist: {none:?}"))?;
    let naming = async |kept: &Kept| -> Result<Option<NamingError>, Failure> {
        match job.try_start(2, kept).await? {
            Err(RecoverError::Naming(error)) => Ok(Some(error)),
            other => Err(Failure::wrong(format!("states that do not fit together: {other:?}"))),
        }
    };
    let mut gap = kept.clone();
    gap.state.writers.remove(1);
    equal("a gap", naming(&gap).await?, Some(NamingError::Gap { subtask: 1, total: 3 }))?;
    let mut twice = kept.clone();
    twice.state.writers[2] = twice.state.writers[0].clone();
    equal("twice", naming(&twice).await?, Some(NamingError::OwnedTwice { subtask: 0 }))?;
    let mut other = Job::new(bench).await?.start(2, &Kept::default()).await?;
    other.write(2).await?;
    let two = other.complete().await?;
    let mut mixed = kept;
    mixed.state.writers[0] = two.state.writers[0].clone();
    let told = naming(&mixed).await?;
    holds(matches!(told, Some(NamingError::NotUniform { .. })), format!("of two jobs: {told:?}"))
}

/// Four subtasks died before their first checkpoint: the two that follow end what all four left.
pub(super) async fn k17(bench: &Bench) -> Shown {
    let job = Job::new(bench).await?;
    let mut first = job.start(4, &Kept::default()).await?;
    first.write(8).await?;
    first.killed().await?;
    let mut next = job.start(2, &Kept::default()).await?;
    let aborted: BTreeSet<_> = next.report.aborted.iter().cloned().collect();
    equal("aborted", aborted, (0..4).map(|subtask| job.id(subtask, 0)).collect::<BTreeSet<_>>())?;
    next.write(8).await?;
    next.complete().await?;
    job.exactly_once(bench, 8).await
}

//! What a restart finds, and what it must make of it.

use kafka_2pc::ids::TransactionalId;
use kafka_2pc::proto::recovery::Orphans;
use kafka_2pc::sink::RecoverError;

use super::job::{Job, Kept, is_committed, only, prepared};
use crate::bench::{Bench, fresh, within};
use crate::outcome::{Failure, Shown, equal, holds};

/// What one, two or three checkpoints list is committed; what nothing lists is aborted, open or prepared; what is of other
/// prefixes is left alone.
pub(super) async fn k08(bench: &Bench) -> Shown {
    for checkpoints in 1..=3 {
        let job = Job::new(bench).await?;
        let mut run = job.start(2, &Kept::default()).await?;
        let mut kept = Kept::default();
        for _ in 0..checkpoints {
            run.write(run.written + 4).await?;
            let prepared = run.prepare().await?;
            kept = run.durable(&prepared);
        }
        let foreign = TransactionalId::new(format!("{}x-0-0", job.config.prefix.as_str()));
        let foreign = prepared(bench, &job.client, (&foreign, &job.topic), &["foreign"]).await?;
        run.write(run.written + 2).await?;
        let unlisted = run.prepare().await?;
        drop(run);

        let mut next = job.start(2, &kept).await?;
        equal("resumed", next.report.resumed.len(), 2 * checkpoints)?;
        let mut aborted = next.report.aborted.clone();
        aborted.sort();
        let mut expected: Vec<_> = unlisted.iter().map(|c| c.transactional_id.clone()).collect();
        expected.sort();
        equal("aborted", aborted, expected)?;
        next.write(next.written + 2).await?;
        next.complete().await?;
        is_committed(&within(job.client.resume(foreign).commit()).await??.outcome)?;
        let seen = bench.committed(&job.topic).await?;
        equal("committed", seen.len(), next.written + 1)?;
    }
    Ok(())
}

/// One or two checkpoints were under way when the job died: everything comes out once.
pub(super) async fn k14(bench: &Bench) -> Shown {
    for under_way in [1, 2] {
        let job = Job::new(bench).await?;
        let mut run = job.start(2, &Kept::default()).await?;
        run.write(4).await?;
        run.complete().await?;
        let mut kept = Kept::default();
        for _ in 0..under_way {
            run.write(run.written + 4).await?;
            let prepared = run.prepare().await?;
            kept = run.durable(&prepared);
        }
        // One more, which never becomes durable.
        run.write(run.written + 4).await?;
        run.prepare().await?;
        run.write(run.written + 2).await?;
        run.killed().await?;
        let mut next = job.start(2, &kept).await?;
        equal("resumed", next.report.resumed.len(), 2 * under_way)?;
        holds(next.report.aborted.len() >= 2, format!("aborted: {:?}", next.report.aborted))?;
        let end = next.written + 4;
        next.write(end).await?;
        next.complete().await?;
        job.exactly_once(bench, end).await?;
    }
    Ok(())
}

/// A checkpoint fails when its transactions are prepared: the restart aborts them, also those of the subtasks that failed
/// later, and their records come again.
pub(super) async fn k15(bench: &Bench) -> Shown {
    let job = Job::new(bench).await?;
    let mut run = job.start(3, &Kept::default()).await?;
    run.write(6).await?;
    let kept = run.complete().await?;
    run.write(9).await?;
    let pending = run.prepare().await?;
    equal("prepared", pending.len(), 3)?;
    // One of them goes on before the failure reaches it.
    run.write(10).await?;
    drop(run);
    let mut next = job.start(3, &kept).await?;
    for committable in &pending {
        let aborted = next.report.aborted.contains(&committable.transactional_id);
        holds(aborted, format!("{} was left pending", committable.transactional_id))?;
    }
    equal("open", job.open().await?, Vec::<String>::new())?;
    next.write(12).await?;
    next.complete().await?;
    job.exactly_once(bench, 12).await
}

/// The same checkpoint restored twice commits once. An older one is refused, and leaves what the newest one lists alone.
pub(super) async fn k20(bench: &Bench) -> Shown {
    let job = Job::new(bench).await?;
    let mut run = job.start(2, &Kept::default()).await?;
    run.write(4).await?;
    let older = run.complete().await?;
    run.write(8).await?;
    run.complete().await?;
    run.write(12).await?;
    let prepared = run.prepare().await?;
    let newest = run.durable(&prepared);
    run.killed().await?;
    for _ in 0..2 {
        let again = job.start(2, &newest).await?;
        equal("resumed", again.report.resumed.len(), 2)?;
        again.killed().await?;
        equal("committed", bench.committed(&job.topic).await?.len(), 12)?;
    }
    match job.try_start(2, &older).await? {
        Err(RecoverError::Orphans(_)) => {}
        other => return Err(Failure::wrong(format!("an older checkpoint: {other:?}"))),
    }
    let mut last = job.start(2, &newest).await?;
    last.write(16).await?;
    last.complete().await?;
    job.exactly_once(bench, 16).await
}

/// The id of a listed transaction was used on: its commit is fenced, is proven to be done, and the newer transaction, which no
/// checkpoint lists, does not stay open.
pub(super) async fn k21(bench: &Bench) -> Shown {
    let mut job = Job::new(bench).await?;
    job.config.orphans = Orphans::WriteAgain;
    let mut run = job.start(1, &Kept::default()).await?;
    run.write(2).await?;
    let listed = run.prepare().await?;
    let kept = run.durable(&listed);
    run.commit().await?;
    run.settle().await?;
    drop(run);
    let id = only(&listed)?.transactional_id;
    prepared(bench, &job.client, (&id, &job.topic), &["superseded"]).await?;
    equal("open", job.open().await?, [id.to_string()])?;
    let mut next = job.start(1, &kept).await?;
    equal("resumed", next.report.resumed.len(), 1)?;
    is_committed(&next.report.resumed[0].1.outcome)?;
    equal("aborted", &next.report.aborted, &vec![id])?;
    equal("open after it", job.open().await?, Vec::<String>::new())?;
    next.write(4).await?;
    next.complete().await?;
    job.exactly_once(bench, 4).await
}

/// A writer dies when it has prepared and nobody has kept its committable: it is aborted, and written again.
pub(super) async fn k24(bench: &Bench) -> Shown {
    let job = Job::new(bench).await?;
    let mut run = job.start(1, &Kept::default()).await?;
    run.write(2).await?;
    let lost = only(&run.prepare().await?)?;
    drop(run);
    let mut next = job.start(1, &Kept::default()).await?;
    equal("aborted", &next.report.aborted, &vec![lost.transactional_id])?;
    equal("visible before it is written again", bench.committed(&job.topic).await?.len(), 0)?;
    next.write(2).await?;
    next.complete().await?;
    job.exactly_once(bench, 2).await
}

/// A writer dies when its committable is kept: the successor commits it before it writes, in another process's name.
pub(super) async fn k25(bench: &Bench) -> Shown {
    let job = Job::new(bench).await?;
    let mut run = job.start(1, &Kept::default()).await?;
    run.write(3).await?;
    let listed = run.prepare().await?;
    let mut kept = run.durable(&listed);
    run.write(4).await?;
    run.killed().await?;
    for (committable, _) in &mut kept.state.committables {
        *committable = kafka_2pc::proto::committable::Committable::from_bytes(&committable.to_bytes())?;
    }
    let other = Job { client: bench.client()?, ..job.clone() };
    let mut next = other.start(1, &kept).await?;
    equal("visible before the first record", bench.committed(&job.topic).await?, ["0", "1", "2"])?;
    next.write(5).await?;
    next.complete().await?;
    job.exactly_once(bench, 5).await?;
    // A stranger's prefix is nobody's leftover.
    let stranger = Job { config: kafka_2pc::sink::SinkConfig::new(&fresh("k25"))?, ..job };
    equal("a stranger aborts", stranger.start(1, &Kept::default()).await?.report.aborted, Vec::new())
}

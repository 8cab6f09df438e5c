//! The committer: what becomes of a commit, and when it is done again.

use std::time::Duration;

use kafka_2pc::broker::{Fault, Reaction};
use kafka_2pc::client::Prepared;
use kafka_2pc::proto::committable::Committable;
use kafka_2pc::proto::pool::SlotState;
use kafka_2pc::proto::resume::{CommitError, CoordinatorState, Outcome};
use kafka_2pc::wire::api::Api;

use super::super::seen::{ended, granted, until_state};
use super::job::{Job, Kept, commit, is_committed, is_lost, only, prepared};
use crate::bench::{Bench, within};
use crate::outcome::{Failure, Shown, equal, holds};
use crate::tap::Act;
use crate::writer;

/// What Flink's sink keeps of a transaction.
fn bare(committable: &Committable) -> Committable {
    Committable {
        end_txn_version: None,
        start_ms: None,
        timeout_ms: None,
        deadline_ms: None,
        cluster_id: None,
        partitions: Vec::new(),
        ..committable.clone()
    }
}

/// A process that never saw the writer commits from a committable's bytes, also from id, producer id and epoch alone.
pub(super) async fn k02(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let whole = prepared(bench, &client, (&bench.id("k02"), &topic), &["whole"]).await?;
    let other = prepared(bench, &client, (&bench.id("k02"), &topic), &["bare"]).await?;
    equal("visible before", bench.visible(&topic).await?.len(), 0)?;
    for committable in [whole, bare(&other)] {
        let said = writer::commit(&bench.bootstrap(), &committable).await?;
        equal("the other process said", &*said, "end Committed")?;
    }
    equal("committed", bench.committed(&topic).await?, ["whole", "bare"])
}

/// A committable under which nothing was written is no success, and a writer without records makes none: its id is as free
/// as before.
pub(super) async fn k03(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let id = bench.id("k03");
    bench.init(&client, &id).await?;
    let identity = *granted(bench)?.last().ok_or_else(|| Failure::wrong("nothing was granted"))?;
    let version = if bench.v2() { 5 } else { 4 };
    let empty = Committable {
        transactional_id: id,
        identity,
        end_txn_version: Some(version),
        start_ms: None,
        timeout_ms: None,
        deadline_ms: None,
        cluster_id: None,
        partitions: Vec::new(),
    };
    match within(client.resume(empty).timeout(Duration::from_secs(2)).commit()).await? {
        Ok(resumed) => holds(
            !matches!(resumed.outcome, Outcome::Committed | Outcome::AlreadyCommitted(_)),
            format!("an empty transaction was {}", resumed.outcome.story()),
        )?,
        Err(error) => holds(!error.to_string().is_empty(), "no word of it")?,
    }
    let job = Job::new(bench).await?;
    let mut run = job.start(1, &Kept::default()).await?;
    let before = bench.tap.count(Api::EndTxn);
    for _ in 0..6 {
        equal("committables without records", run.prepare().await?.len(), 0)?;
        run.durable(&[]);
    }
    equal("EndTxn without records", bench.tap.count(Api::EndTxn), before)?;
    run.write(1).await?;
    let prepared = run.prepare().await?;
    equal("the first id", only(&prepared)?.transactional_id, job.id(0, 0))?;
    run.durable(&prepared);
    run.commit().await?;
    run.settle().await?;
    job.exactly_once(bench, 1).await
}

/// Committed twice it is committed; aborted twice it is aborted; the one after the other tells what was decided.
pub(super) async fn k04(bench: &Bench) -> Shown {
    let job = Job::new(bench).await?;
    let mut run = job.start(1, &Kept::default()).await?;
    run.write(1).await?;
    let first = only(&run.prepare().await?)?;
    let committer = run.committer();
    // Side by side, and once more.
    for committed in within(committer.commit(vec![first.clone(), first.clone()])).await? {
        is_committed(&committed.result?.outcome)?;
    }
    is_committed(&commit(&committer, &first).await?)?;
    match within(job.client.resume(first).abort()).await??.outcome {
        Outcome::AlreadyCommitted(_) => {}
        other => return Err(Failure::wrong(format!("an abort after the commit: {}", other.story()))),
    }
    run.write(2).await?;
    let second = only(&run.prepare().await?)?;
    for _ in 0..2 {
        let aborted = within(job.client.resume(second.clone()).abort()).await??.outcome;
        equal("an abort", aborted, Outcome::Aborted)?;
    }
    is_lost(&commit(&committer, &second).await?)?;
    job.exactly_once(bench, 1).await
}

/// A commit that is refused for a while, or whose connection breaks, is sent again as it was; when its time is over it is
/// pending, and done later with what it has. No InitProducerId goes with it.
pub(super) async fn k05(bench: &Bench) -> Shown {
    // COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, CONCURRENT_TRANSACTIONS.
    const FOR_A_WHILE: [i16; 4] = [14, 15, 16, 51];
    let mut job = Job::new(bench).await?;
    job.config.commit_timeout = Some(Duration::from_millis(300));
    let mut run = job.start(1, &Kept::default()).await?;
    run.write(1).await?;
    let prepared = run.prepare().await?;
    run.durable(&prepared);
    let committable = only(&prepared)?;
    let begun = bench.tap.count(Api::InitProducerId);
    let refused = bench.embedded()?.inject(Fault::on(Api::EndTxn, Reaction::ErrorCode(14)).always());
    match within(run.committer().commit_one(committable.clone(), Default::default())).await?.result {
        Err(error @ CommitError::Pending { .. }) => holds(error.is_retriable(), "it is not to be retried")?,
        other => return Err(Failure::wrong(format!("a commit in front of a refusal: {other:?}"))),
    }
    bench.embedded()?.remove_fault(refused);
    let kept = run.writers[0].slots().any(|slot| slot == (0, &SlotState::Prepared(1)));
    holds(kept, "the writer no longer keeps what is pending")?;
    let mut job = job;
    job.config.commit_timeout = None;
    for code in FOR_A_WHILE {
        bench.refuse(Api::EndTxn, code, 1)?;
    }
    bench.tap.plan(Api::EndTxn, 5, Act::Drop);
    is_committed(&commit(&job.sink().committer(), &committable).await?)?;
    equal("InitProducerId since", bench.tap.count(Api::InitProducerId) - begun, 0)?;
    let ends = ended(bench)?;
    holds(ends.len() > FOR_A_WHILE.len() + 1, format!("EndTxn was sent {} times", ends.len()))?;
    holds(ends.iter().all(|end| *end == ends[0] && end.commit), format!("EndTxn changed: {ends:?}"))?;
    job.exactly_once(bench, 1).await
}

/// Codes that say fenced, invalid and unknown are no outcome: the coordinator is asked what became of it, and its word
/// counts. A loss stops the recovery, and the id is not used on.
pub(super) async fn k06(bench: &Bench) -> Shown {
    // INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, INVALID_PRODUCER_ID_MAPPING, UNKNOWN_PRODUCER_ID, PRODUCER_FENCED.
    for code in [47, 48, 49, 59, 90] {
        let job = Job::new(bench).await?;
        let mut run = job.start(1, &Kept::default()).await?;
        run.write(1).await?;
        let prepared = run.prepare().await?;
        run.durable(&prepared);
        let done = Reaction::ApplyThenErrorCode(code);
        bench.embedded()?.inject(Fault::on(Api::EndTxn, done));
        let asked = bench.tap.count(Api::DescribeTransactions);
        is_committed(&commit(&run.committer(), &only(&prepared)?).await?)?;
        holds(bench.tap.count(Api::DescribeTransactions) > asked, format!("{code}: nobody was asked"))?;
        // Somebody else has taken the id over, and the broker says so by this code.
        run.write(2).await?;
        let prepared = run.prepare().await?;
        let kept = run.durable(&prepared);
        let lost = only(&prepared)?;
        drop(run);
        within(job.client.transactional_producer(lost.transactional_id.clone()).init()).await??;
        bench.refuse(Api::EndTxn, code, 1)?;
        is_lost(&commit(&job.sink().committer(), &lost).await?)?;
        match job.try_start(1, &kept).await? {
            Err(kafka_2pc::sink::RecoverError::NotCommitted(failed)) => {
                let all: Vec<_> = failed.iter().filter(|failed| failed.is_lost()).collect();
                equal(&format!("{code}: lost"), all.len(), 1)?;
            }
            other => return Err(Failure::wrong(format!("{code}: a loss is swallowed: {other:?}"))),
        }
        skipped(bench, job, &kept, code).await?;
    }
    Ok(())
}

/// A job that was told to go on without what is lost says so, and does not use the id.
async fn skipped(bench: &Bench, mut job: Job, kept: &Kept, code: i16) -> Shown {
    job.config.on_lost = kafka_2pc::proto::recovery::OnLost::Skip;
    let mut run = job.start(1, kept).await?;
    equal(&format!("{code}: told as lost"), run.report.lost.len(), 1)?;
    let id = run.report.lost[0].committable.transactional_id.clone();
    run.write(3).await?;
    let next = only(&run.prepare().await?)?;
    holds(next.transactional_id != id, format!("{code}: {id} is used on"))?;
    is_committed(&commit(&run.committer(), &next).await?)?;
    equal("committed", bench.committed(&job.topic).await?, ["0", "2"])
}

/// Whoever waits for a commit goes away: nothing is lost, the writer still keeps it, and the next commit tells the outcome.
pub(super) async fn k07(bench: &Bench) -> Shown {
    let job = Job::new(bench).await?;
    let mut run = job.start(1, &Kept::default()).await?;
    run.write(1).await?;
    let prepared = run.prepare().await?;
    run.durable(&prepared);
    let committable = only(&prepared)?;
    for answer in [false, true] {
        let mut paused =
            if answer { bench.tap.pause_answer(Api::EndTxn) } else { bench.tap.pause(Api::EndTxn) };
        let committer = run.committer();
        let committing = committer.commit(vec![committable.clone()]);
        tokio::select! {
            done = committing => return Err(Failure::wrong(format!("it was not held: {done:?}"))),
            reached = paused.reached() => reached?,
        }
        let kept = run.writers[0].slots().any(|slot| slot == (0, &SlotState::Prepared(1)));
        holds(kept, "the writer no longer keeps what nobody knows the outcome of")?;
        if !answer {
            equal("committed before EndTxn", bench.visible(&job.topic).await?.len(), 0)?;
        }
        // It never arrives, or its answer does not.
        bench.tap.disconnect();
        drop(paused);
    }
    run.commit().await?;
    run.settle().await?;
    job.exactly_once(bench, 1).await
}

/// A committer dies between its EndTxn and the answer. Its successor finds the commit done, and nothing is doubled.
pub(super) async fn k26(bench: &Bench) -> Shown {
    let job = Job::new(bench).await?;
    let mut run = job.start(1, &Kept::default()).await?;
    run.write(2).await?;
    let prepared = run.prepare().await?;
    let kept = run.durable(&prepared);
    let mut paused = bench.tap.pause_answer(Api::EndTxn);
    let committer = run.committer();
    tokio::select! {
        done = committer.commit(prepared) => return Err(Failure::wrong(format!("it was not held: {done:?}"))),
        reached = paused.reached() => reached?,
    }
    // Its answer has come as far as the network.
    until_state(&bench.client()?, &job.id(0, 0), CoordinatorState::CompleteCommit).await?;
    bench.tap.disconnect();
    drop((paused, run, committer));
    let mut next = job.start(1, &kept).await?;
    equal("resumed", next.report.resumed.len(), 1)?;
    is_committed(&next.report.resumed[0].1.outcome)?;
    next.write(4).await?;
    next.complete().await?;
    job.exactly_once(bench, 4).await
}

/// A transaction of two topics and many partitions is visible as a whole or not at all, and its committable names every
/// partition with all its records.
pub(super) async fn k22(bench: &Bench) -> Shown {
    const PARTITIONS: i32 = 6;
    bench.trace.keep_private("how the adds and batches of many partitions mix is chance");
    let client = bench.client()?;
    let topics = [bench.topic(&client, PARTITIONS).await?, bench.topic(&client, PARTITIONS).await?];
    let mut producer = bench.init(&client, &bench.id("k22")).await?;
    for commits in [true, false] {
        let mut open = producer.begin();
        for topic in &topics {
            for partition in 0..PARTITIONS {
                bench.write(&mut open, topic, partition, &["1", "2"]).await?;
            }
        }
        let Prepared::Ready(committable) = within(open.prepare()).await?? else {
            return Err(Failure::wrong("nothing was prepared"));
        };
        equal("partitions", committable.partitions.len(), 2 * usize::try_from(PARTITIONS)?)?;
        equal("records", committable.records(), 4 * u64::try_from(PARTITIONS)?)?;
        let expected = |done: bool| if done { 2 * usize::try_from(PARTITIONS).unwrap_or(0) } else { 0 };
        for topic in &topics {
            equal("visible before", bench.visible(topic).await?.len(), expected(!commits))?;
        }
        let id = committable.transactional_id.clone();
        if commits {
            is_committed(&within(client.resume(committable).commit()).await??.outcome)?;
        } else {
            equal("the abort", within(client.resume(committable).abort()).await??.outcome, Outcome::Aborted)?;
        }
        for topic in &topics {
            equal("committed", bench.committed(topic).await?.len(), expected(true))?;
        }
        producer = bench.init(&client, &id).await?;
    }
    Ok(())
}

//! The transactional ids of a sink: which is taken, when one is free again, how old its transaction may be, and whose it is.

use std::collections::BTreeSet;
use std::time::Duration;

use kafka_2pc::ids::TransactionalId;
use kafka_2pc::proto::committable::Committable;
use kafka_2pc::proto::deadline::{Age, Stage};
use kafka_2pc::proto::resume::{CoordinatorState, Outcome};
use kafka_2pc::record::RecordRef;
use kafka_2pc::sink::{PrepareFailure, SinkConfigError, WriteError};
use kafka_2pc::wire::api::Api;

use super::super::seen::until_state;
use super::job::{Job, Kept, Run, commit, is_committed, is_lost, only, prepared};
use crate::bench::{Bench, fresh, within};
use crate::outcome::{Failure, Shown, equal, holds};

/// Writes one record and prepares it.
async fn next(run: &mut Run) -> Result<Committable, Failure> {
    run.write(run.written + 1).await?;
    only(&run.prepare().await?)
}

fn numbers(job: &Job, committables: &[Committable]) -> Result<Vec<u64>, Failure> {
    let number =
        |c: &Committable| job.config.prefix.parse(c.transactional_id.as_str()).map(|parts| parts.number);
    let all: Option<Vec<_>> = committables.iter().map(number).collect();
    all.ok_or_else(|| Failure::wrong(format!("ids of somebody else: {committables:?}")))
}

/// An id is free when its commit is decided, on every partition, and dropped by a durable checkpoint: not before. Those in
/// use are passed over, and one whose transaction was lost does not come back.
pub(super) async fn k09(bench: &Bench) -> Shown {
    let mut job = Job::new(bench).await?;
    job.config.slots = 8;
    let mut run = job.start(1, &Kept::default()).await?;
    let mut first = Vec::new();
    for _ in 0..6 {
        first.push(next(&mut run).await?);
    }
    equal("the first ids", numbers(&job, &first)?, [0, 1, 2, 3, 4, 5])?;
    run.durable(&first);

    // Decided is not settled, and settled is not dropped.
    let committer = run.committer();
    let ends: [&Committable; 4] = [&first[0], &first[1], &first[3], &first[5]];
    for committable in ends {
        let resumed = within(committer.commit_one(committable.clone(), Default::default())).await?.result?;
        is_committed(&resumed.outcome)?;
        run.writers[0].decided(committable, &resumed);
    }
    let listed = |keep: &[usize]| -> BTreeSet<TransactionalId> {
        keep.iter().map(|i| first[*i].transactional_id.clone()).collect()
    };
    run.writers[0].durable(&listed(&[2, 4]));
    let early = next(&mut run).await?;
    equal(
        "the next id while markers may be on their way",
        numbers(&job, std::slice::from_ref(&early))?,
        [6],
    )?;
    for committable in ends {
        within(committer.settle(committable)).await??;
        run.writers[0].settled(committable);
    }
    let mut again = Vec::new();
    for _ in 0..4 {
        again.push(next(&mut run).await?);
    }
    equal("ids again", numbers(&job, &again)?, [0, 1, 3, 5])?;

    // 2 was ended by somebody else.
    within(job.client.resume(first[2].clone()).abort()).await??;
    is_lost(&commit(&committer, &first[2]).await?)?;
    run.writers[0].avoid(&first[2].transactional_id);
    run.writers[0].durable(&listed(&[4]));
    equal("the id behind a loss", numbers(&job, &[next(&mut run).await?])?, [7])?;
    is_committed(&commit(&committer, &first[4]).await?)?;
    is_committed(&commit(&committer, &early).await?)
}

/// A writer without a free id says so, waits for a commit, and gives up when `max.block.ms` is over, by that name.
pub(super) async fn k10(bench: &Bench) -> Shown {
    let mut job = Job::new(bench).await?;
    job.config.max_block = Duration::from_millis(60);
    let mut run = job.start(1, &Kept::default()).await?;
    let mut all = Vec::new();
    for _ in 0..job.config.slots {
        all.push(next(&mut run).await?);
    }
    run.durable(&all);
    holds(run.writers[0].is_exhausted(), "it is not exhausted")?;
    let first = run.writers[0].ready().err().ok_or_else(|| Failure::wrong("an id too many"))?;
    holds(first.is_exhausted(), format!("at first: {first}"))?;
    tokio::time::sleep(Duration::from_millis(80)).await;
    let record = RecordRef::value(b"too much");
    match within(run.writers[0].write(&run.topic, Some(0), record)).await? {
        Err(error @ WriteError::Blocked(_)) => {
            holds(error.to_string().contains("max.block.ms = 60"), format!("blocked: {error}"))?;
        }
        other => return Err(Failure::wrong(format!("after max.block.ms: {other:?}"))),
    }
    run.commit().await?;
    run.settle().await?;
    run.writers[0].ready()?;
    run.write(run.written + 1).await?;
    run.complete().await?;
    job.exactly_once(bench, run.written).await
}

/// Half of the timeout, and four fifths of it, are told, for what is open and for what is prepared. What is too old is not
/// prepared. Intervals that do not fit into the timeout are refused before anything is written, with the numbers.
pub(super) async fn k23(bench: &Bench) -> Shown {
    let mut job = Job::new(bench).await?;
    (job.config.transaction_timeout, job.config.checkpoint_interval) =
        (Duration::from_secs(10), Duration::from_secs(6));
    job.config.tolerated_outage = Duration::from_secs(5);
    let before = bench.tap.count(Api::InitProducerId);
    match job.try_start(1, &Kept::default()).await? {
        Err(kafka_2pc::sink::RecoverError::Config(error @ SinkConfigError::TimeoutTooShort { .. })) => {
            let told = error.to_string();
            holds(told.contains("10000") && told.contains("6s") && told.contains("5s"), told)?;
        }
        other => return Err(Failure::wrong(format!("intervals that do not fit: {other:?}"))),
    }
    equal("InitProducerId", bench.tap.count(Api::InitProducerId), before)?;

    let timeout = Duration::from_millis(1000);
    (job.config.transaction_timeout, job.config.checkpoint_interval) = (timeout, Duration::from_millis(1));
    job.config.tolerated_outage = Duration::ZERO;
    let mut run = job.start(1, &Kept::default()).await?;
    let prepared = next(&mut run).await?;
    run.durable(std::slice::from_ref(&prepared));
    run.write(2).await?;
    let told = |run: &Run, least: Age| -> Vec<Stage> {
        let warnings = run.writers[0].warnings().into_iter();
        warnings.filter(|warning| warning.age >= least).map(|warning| warning.stage).collect()
    };
    equal("told at once", told(&run, Age::Half), Vec::<Stage>::new())?;
    within(async {
        while told(&run, Age::Old).len() < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await?;
    equal("told at four fifths", told(&run, Age::Old), [Stage::Prepared, Stage::Open])?;
    within(async {
        while told(&run, Age::Over).len() < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await?;
    match within(run.writers[0].prepare_commit(2)).await? {
        Err(error) if matches!(error.source, PrepareFailure::TooOld(_)) => {}
        other => return Err(Failure::wrong(format!("prepared when it was too old: {other:?}"))),
    }
    // The broker did not look yet: what was prepared in time is committed.
    run.commit().await?;
    run.settle().await?;
    job.exactly_once(bench, 1).await
}

/// Of all open transactions exactly those of the prefix are found, and ended: by taking the id over, or under their own
/// producer id and epoch.
pub(super) async fn k29(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let prefix = fresh("k29");
    let own = [format!("{prefix}-0-0"), format!("{prefix}-1-3")];
    let foreign = [format!("{prefix}x-0-0"), format!("{prefix}-0-0-0"), format!("x{prefix}-0-0")];
    let mut open = Vec::new();
    for id in own.iter().chain(&foreign) {
        let id = TransactionalId::new(&**id);
        open.push(prepared(bench, &client, (&id, &topic), &["left"]).await?);
    }
    let mut job = Job::new(bench).await?;
    job.topic = topic.clone();
    job.config.prefix = kafka_2pc::proto::naming::IdPrefix::new(&prefix)?;
    let found: BTreeSet<String> =
        job.open().await?.into_iter().filter(|id| job.config.prefix.parse(id).is_some()).collect();
    equal("leftovers", found, own.iter().cloned().collect::<BTreeSet<_>>())?;
    let id = TransactionalId::new(&*own[0]);
    let taken = within(client.admin().abort_transaction(&id, Duration::from_secs(60))).await??;
    holds(taken.is_none_or(|taken| taken != open[0].identity), format!("{taken:?}"))?;
    equal("by its pair", within(client.resume(open[1].clone()).abort()).await??.outcome, Outcome::Aborted)?;
    until_state(&client, &open[1].transactional_id, CoordinatorState::CompleteAbort).await?;
    let left: Vec<_> = job.open().await?.into_iter().filter(|id| own.contains(id)).collect();
    equal("leftovers after it", left, Vec::<String>::new())?;
    for committable in &open[2..] {
        is_committed(&within(client.resume(committable.clone()).commit()).await??.outcome)?;
    }
    equal("committed", bench.committed(&topic).await?, ["left", "left", "left"])
}

//! Whole jobs on the local runner, whose coordinator dies.

use std::future::pending;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use kafka_2pc::checkpoint::runner::{Pipeline, RunConfig, RunError, SinkSpec};
use kafka_2pc::checkpoint::{
    Binding, Checkpoint, CheckpointStore, DirectoryStore, MemoryStore, StateStore, StoreError, StorePoint,
};
use kafka_2pc::client::{Client, Topic};
use kafka_2pc::ids::Identity;
use kafka_2pc::proto::committable::Committable;
use kafka_2pc::proto::pool::SlotState;
use kafka_2pc::record::Record;
use kafka_2pc::sink::SinkConfig;
use kafka_2pc::source::GeneratorSource;
use tokio::sync::Notify;

use super::super::seen::ended;
use super::job::{Job, Kept, only};
use crate::bench::{Bench, fresh, within};
use crate::outcome::{Failure, Shown, equal, holds};

pub(super) const RECORDS: u64 = 400;

/// A job that writes the numbers up to [`RECORDS`], in order, into one partition.
pub(super) fn numbers(topic: &Topic, prefix: &str) -> Result<Pipeline, Failure> {
    let pipeline = Pipeline::new("job");
    let source = GeneratorSource::new(|index| Record::value(index.to_string())).limit(RECORDS);
    let source = source.records_per_second(1000);
    let sink = SinkSpec { topic: topic.name().to_string(), config: SinkConfig::new(prefix)? };
    pipeline.source("numbers", 1, source).sink("out", 1, sink);
    Ok(pipeline)
}

pub(super) fn quick() -> RunConfig {
    let mut config = RunConfig::default();
    config.checkpoints.interval = Duration::from_millis(30);
    config.restart_attempts = 0;
    config
}

/// All numbers are visible, once and in order.
pub(super) async fn all_once(bench: &Bench, topic: &Topic) -> Shown {
    let expected: Vec<_> = (0..RECORDS).map(|number| number.to_string()).collect();
    equal("committed", bench.committed(topic).await?, expected)
}

/// Runs to the end from what the directory holds; how many transactions of before it had to commit.
pub(super) async fn finish(client: &Client, pipeline: &Pipeline, state: &Path) -> Result<u64, Failure> {
    let mut store = open(state).await?;
    let run = within(pipeline.run(client, &mut store, &quick(), pending())).await?;
    let summary = run.map_err(|(error, _)| error)?;
    holds(summary.finished, "the job did not come to its end")?;
    Ok(summary.resumed)
}

/// The state, once tasks of a job that died in this process have let it go.
pub(super) async fn open(state: &Path) -> Result<DirectoryStore, Failure> {
    within(async {
        loop {
            match DirectoryStore::open(state, Binding::default()) {
                Err(StoreError::Locked { .. }) => tokio::time::sleep(Duration::from_millis(5)).await,
                opened => return Ok(opened?),
            }
        }
    })
    .await?
}

/// Where the coordinator dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dies {
    /// It has written a part of its decision.
    Torn,
    /// The decision is durable, and nobody was told.
    Durable,
}

/// A store whose owner dies while it writes a checkpoint: that never ends.
struct Dying {
    inner: DirectoryStore,
    /// Checkpoints that go well before it.
    left: u32,
    dies: Dies,
    dead: Arc<Notify>,
    listed: Arc<Mutex<Vec<Identity>>>,
}

impl CheckpointStore for Dying {
    fn load(&mut self) -> BoxFuture<'_, Result<Option<Checkpoint>, StoreError>> {
        self.inner.load()
    }

    fn write<'a>(
        &'a mut self,
        checkpoint: &'a Checkpoint,
        observer: &'a mut (dyn FnMut(StorePoint) + Send),
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            let pairs: Vec<_> = checkpoint.committables.iter().map(|l| l.committable.identity).collect();
            if self.left > 0 || pairs.is_empty() {
                self.left = self.left.saturating_sub(1);
                self.inner.write(checkpoint, observer).await?;
                self.listed.lock().unwrap_or_else(PoisonError::into_inner).extend(pairs);
                return Ok(());
            }
            match self.dies {
                Dies::Torn => {
                    let bytes = checkpoint.to_bytes();
                    let path = self.inner.dir().join(format!("checkpoint-{:020}.tmp", checkpoint.id));
                    std::fs::write(&path, &bytes[..bytes.len() / 2])
                        .map_err(|source| StoreError::Io { path, source })?;
                }
                Dies::Durable => self.inner.write(checkpoint, observer).await?,
            }
            self.dead.notify_one();
            pending().await
        }
        .boxed()
    }

    fn recovered(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.recovered()
    }

    fn keep<'a>(
        &'a mut self,
        committable: &'a Committable,
    ) -> BoxFuture<'a, Result<Option<std::path::PathBuf>, StoreError>> {
        self.inner.keep(committable)
    }

    fn states(&self) -> Arc<dyn StateStore> {
        self.inner.states()
    }
}

/// Runs until the store's owner dies, and a moment longer; the pairs that durable checkpoints listed before.
async fn until_death(
    client: &Client,
    pipeline: &Pipeline,
    (state, dies, left): (&Path, Dies, u32),
) -> Result<Vec<Identity>, Failure> {
    let (dead, listed) = (Arc::new(Notify::new()), Arc::default());
    let inner = open(state).await?;
    let mut store = Dying { inner, left, dies, dead: Arc::clone(&dead), listed: Arc::clone(&listed) };
    let config = quick();
    let dying = async {
        dead.notified().await;
        // Whoever acts before the decision is durable, or without being told, does it now.
        tokio::time::sleep(Duration::from_millis(150)).await;
    };
    tokio::select! {
        ended = pipeline.run(client, &mut store, &config, pending()) => {
            return Err(Failure::wrong(format!("it lived on: {ended:?}")));
        }
        died = within(dying) => died?,
    }
    let listed = listed.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Ok(listed)
}

/// The coordinator dies while it writes its decision, or when that is durable and nobody was told: until then nothing of that
/// checkpoint was committed. Its successor does what the durable decisions say, and no more.
pub(super) async fn k27(bench: &Bench) -> Shown {
    bench.trace.keep_private("when checkpoints are taken is a matter of time");
    for (dies, left) in [(Dies::Torn, 1), (Dies::Durable, 1), (Dies::Torn, 3), (Dies::Durable, 3)] {
        let client = bench.client()?;
        let topic = bench.topic(&client, 1).await?;
        let pipeline = numbers(&topic, &fresh("k27"))?;
        let state = tempfile::tempdir()?;
        let before = ended(bench)?.len();
        let listed = until_death(&client, &pipeline, (state.path(), dies, left)).await?;
        let early: Vec<_> = ended(bench)?
            .split_off(before)
            .into_iter()
            .filter(|e| e.commit && !listed.contains(&e.identity))
            .collect();
        equal(&format!("{dies:?}: commits without a decision that was told"), early, Vec::new())?;
        let resumed = finish(&client, &pipeline, state.path()).await?;
        holds(resumed > 0 || dies == Dies::Torn, format!("{dies:?}: the decision was forgotten"))?;
        all_once(bench, &topic).await?;
    }
    Ok(())
}

/// A source goes on where the last complete checkpoint has it, whenever the job dies. A notice about a transaction of before
/// changes nothing about the one that has its id now.
pub(super) async fn k30(bench: &Bench) -> Shown {
    bench.trace.keep_private("when checkpoints are taken is a matter of time");
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let pipeline = numbers(&topic, &fresh("k30"))?;
    let mut store = MemoryStore::default();
    for life in [70, 130, 90] {
        let config = quick();
        let run = pipeline.run(&client, &mut store, &config, pending());
        // Dropping it is a crash.
        _ = tokio::time::timeout(Duration::from_millis(life), run).await;
    }
    let run = within(pipeline.run(&client, &mut store, &quick(), pending())).await?;
    holds(run.map_err(|(error, _)| error)?.finished, "the job did not come to its end")?;
    all_once(bench, &topic).await?;
    late_notice(bench).await
}

async fn late_notice(bench: &Bench) -> Shown {
    let job = Job::new(bench).await?;
    let mut run = job.start(1, &Kept::default()).await?;
    run.write(1).await?;
    let first = run.prepare().await?;
    run.durable(&first);
    let first = only(&first)?;
    let resumed = within(run.committer().commit_one(first.clone(), Default::default())).await?.result?;
    run.writers[0].decided(&first, &resumed);
    within(run.committer().settle(&first)).await??;
    run.writers[0].settled(&first);
    run.listed.clear();
    run.durable(&[]);
    run.write(2).await?;
    let second = run.prepare().await?;
    run.durable(&second);
    let second = only(&second)?;
    equal("the id", &second.transactional_id, &first.transactional_id)?;
    // The notice of the first checkpoint comes once more.
    run.writers[0].decided(&first, &resumed);
    let prepared = run.writers[0].slots().any(|slot| slot == (0, &SlotState::Prepared(2)));
    holds(prepared, "a late notice about the first transaction has ended the second one")?;
    run.write(3).await?;
    let third = run.prepare().await?;
    holds(
        only(&third)?.transactional_id != second.transactional_id,
        "the id of a pending commit is used on",
    )?;
    run.durable(&third);
    run.commit().await?;
    run.settle().await?;
    job.exactly_once(bench, 3).await
}

/// Two jobs of one process with the same prefix would end each other's transactions: the second one is refused, and touches
/// nothing. When the first one is over, it may begin.
pub(super) async fn k19(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topics = [bench.topic(&client, 1).await?, bench.topic(&client, 1).await?];
    let prefix = fresh("k19");
    let (first, second) = (numbers(&topics[0], &prefix)?, numbers(&topics[1], &prefix)?);
    let mut stores = [MemoryStore::default(), MemoryStore::default()];
    let [one, other] = &mut stores;
    let config = quick();
    {
        let mut running = Box::pin(first.run(&client, one, &config, pending()));
        let early = tokio::time::timeout(Duration::from_millis(150), &mut running).await;
        holds(early.is_err(), "the first job was over too soon")?;
        let asked = || bench.tap.count(kafka_2pc::wire::api::Api::InitProducerId);
        let before = asked();
        // The first one stands still meanwhile: nobody polls it, but its tasks.
        match within(second.run(&client, other, &config, pending())).await? {
            Err((RunError::PrefixInUse { prefix: told }, _)) => equal("the prefix", told.as_str(), &*prefix)?,
            other => return Err(Failure::wrong(format!("the same prefix twice: {other:?}"))),
        }
        holds(asked() <= before + 1, "the second job began")?;
        let run = within(running).await?;
        holds(run.map_err(|(error, _)| error)?.finished, "the first job did not come to its end")?;
    }
    all_once(bench, &topics[0]).await?;
    let run = within(second.run(&client, other, &config, pending())).await?;
    holds(run.map_err(|(error, _)| error)?.finished, "the second job did not come to its end")?;
    all_once(bench, &topics[1]).await
}

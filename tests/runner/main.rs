//! Jobs of several subtasks on the local runner: exactly once through crashes and rescaling.
#![cfg(feature = "broker")]
#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "../kit/mod.rs"]
mod kit;

mod lost;
mod stops;
mod trouble;
mod watched;

use std::{collections::BTreeMap, future::pending, time::Duration};

use bytes::Bytes;
use kafka_2pc::{
    broker::{BrokerConfig, Profile},
    checkpoint::{
        MemoryStore,
        runner::{
            Context, Operator, OperatorError, Pipeline, RunConfig, RunError, RunSummary, SinkSpec, Stream,
        },
    },
    proto::checkpoint::alignment::Mode,
    record::Record,
    sink::SinkConfig,
    source::GeneratorSource,
};
use kit::{Bench, both, within};

const RECORDS: u64 = 3_000;
const KEYS: u64 = 50;

/// How many subtasks a job has.
#[derive(Debug, Clone, Copy)]
struct Width {
    source: u32,
    operator: u32,
    sink: u32,
}

const NARROW: Width = Width { source: 1, operator: 1, sink: 1 };

fn numbers(rate: Option<u32>) -> GeneratorSource {
    let make = |index: u64| Record::value(index.to_string()).with_key(format!("key-{}", index % KEYS));
    let source = GeneratorSource::new(make).limit(RECORDS).shards(4);
    rate.map_or_else(|| source.clone(), |rate| source.clone().records_per_second(rate))
}

/// Appends to each value which one of its key it is.
fn count(record: Record, context: &mut Context<'_>) -> Result<(), OperatorError> {
    let before = context.value().map_or(Ok(0), |v| {
        std::str::from_utf8(v)?.parse::<u64>().map_err(Box::<dyn std::error::Error + Send + Sync>::from)
    })?;
    context.set((before + 1).to_string());
    let value = String::from_utf8(record.value.clone().unwrap_or_default().to_vec())?;
    context.emit(Record { value: Some(format!("{value} {}", before + 1).into()), ..record });
    Ok(())
}

fn by_key(stream: Stream) -> Stream {
    stream.key_by(|record| record.key.clone().unwrap_or_default())
}

fn job(width: Width, rate: Option<u32>) -> Pipeline {
    let pipeline = Pipeline::new("job");
    let numbers = pipeline.source("numbers", width.source, numbers(rate));
    let counted = by_key(numbers).process("count", width.operator, || count);
    by_key(counted).sink("out", width.sink, spec());
    pipeline
}

fn spec() -> SinkSpec {
    SinkSpec { topic: kit::TOPIC.to_owned(), config: SinkConfig::new("job").unwrap() }
}

fn config() -> RunConfig {
    let mut config = RunConfig::default();
    config.checkpoints.interval = Duration::from_millis(30);
    config
}

async fn finish(b: &Bench, store: &mut MemoryStore, pipeline: &Pipeline, config: &RunConfig) -> RunSummary {
    let run = pipeline.run(&b.client, store, config, pending());
    tokio::time::timeout(Duration::from_secs(60), run).await.unwrap().map_err(|(e, _)| e).unwrap()
}

/// The records that readers see: each number once, and by key the counts in order.
async fn expect_exactly_once(b: &Bench) {
    let mut seen = Vec::new();
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    for value in b.committed().await {
        let (number, count) = value.split_once(' ').unwrap();
        let (number, count): (u64, u64) = (number.parse().unwrap(), count.parse().unwrap());
        seen.push(number);
        let last = counts.entry(number % KEYS).or_default();
        assert_eq!(count, *last + 1, "of the key of {number}");
        *last = count;
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..RECORDS).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_of_several_subtasks_ends_with_its_input() {
    for profile in both() {
        let b = Bench::new(profile).await;
        let mut store = MemoryStore::default();
        let width = Width { source: 3, operator: 2, sink: 2 };
        let summary = finish(&b, &mut store, &job(width, Some(20_000)), &config()).await;
        assert_eq!((summary.records, summary.finished), (RECORDS, true), "{summary:?}");
        expect_exactly_once(&b).await;
        // A job that is finished has nothing to do, and nothing to commit.
        let again = finish(&b, &mut store, &job(width, None), &config()).await;
        assert_eq!((again.records, again.resumed, again.checkpoints, again.finished), (0, 0, 0, true));
        expect_exactly_once(&b).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crashes_and_rescaling_lose_and_double_nothing() {
    let modes = [None, Some(Duration::ZERO), Some(Duration::from_millis(5))];
    for (profile, aligned_timeout) in both().into_iter().flat_map(|p| modes.map(|m| (p.clone(), m))) {
        let b = Bench::with(BrokerConfig { profile, ..BrokerConfig::default() }).await;
        let mut store = MemoryStore::default();
        let mut config = config();
        config.mode = Mode::ExactlyOnce { aligned_timeout };
        config.channel_capacity = 16;
        let mut crashes = 0;
        for (turn, life_ms) in [40, 90, 130, 60, 170, 110, 75].into_iter().enumerate() {
            let size = |n: usize| u32::try_from((turn * n) % 4 + 1).unwrap();
            let width = Width { source: size(1), operator: size(3), sink: size(2) };
            let job = job(width, Some(5_000));
            let run = job.run(&b.client, &mut store, &config, pending());
            // Dropping it is a crash.
            match tokio::time::timeout(Duration::from_millis(life_ms), run).await {
                Err(_) => crashes += 1,
                Ok(result) => assert!(result.map_err(|(e, _)| e).unwrap().finished),
            }
        }
        assert!(crashes >= 3, "{crashes}");
        finish(&b, &mut store, &job(Width { source: 2, operator: 4, sink: 2 }, None), &config).await;
        expect_exactly_once(&b).await;
    }
}

#[tokio::test]
async fn a_job_that_is_stopped_commits_what_it_has_read_and_goes_on_later() {
    let b = Bench::new(Profile::kafka_4_4()).await;
    let mut store = MemoryStore::default();
    let job = job(Width { source: 2, operator: 2, sink: 1 }, Some(10_000));
    let stop = tokio::time::sleep(Duration::from_millis(120));
    let summary = within(job.run(&b.client, &mut store, &config(), stop)).await.unwrap();
    assert!(!summary.finished && summary.records > 0, "{summary:?}");
    assert_eq!(b.committed().await.len() as u64, summary.records);
    let rest = finish(&b, &mut store, &job, &config()).await;
    assert_eq!((rest.records, rest.resumed, rest.aborted), (RECORDS - summary.records, 0, 0));
    expect_exactly_once(&b).await;
}

#[tokio::test]
async fn an_operator_that_fails_ends_the_job_and_keeps_what_is_complete() {
    let b = Bench::new(Profile::kafka_4_4()).await;
    let mut store = MemoryStore::default();
    let pipeline = Pipeline::new("job");
    let fail = |record: Record, context: &mut Context<'_>| {
        if record.value.as_deref() == Some(b"2000") {
            return Err("2000 is too much".into());
        }
        count(record, context)
    };
    let numbers = pipeline.source("numbers", 1, numbers(Some(10_000)));
    by_key(by_key(numbers).process("count", 1, move || fail)).sink("out", 1, spec());
    let (error, summary) =
        within(pipeline.run(&b.client, &mut store, &config(), pending())).await.unwrap_err();
    assert_eq!(error.to_string(), "count-0: 2000 is too much");
    assert!(summary.checkpoints > 0 && !error.is_transient());
    let summary = finish(&b, &mut store, &job(NARROW, None), &config()).await;
    assert!(summary.finished);
    expect_exactly_once(&b).await;
}

#[tokio::test]
async fn state_that_nobody_takes_is_refused() {
    let b = Bench::new(Profile::kafka_4_4()).await;
    let mut store = MemoryStore::default();
    finish(&b, &mut store, &job(NARROW, None), &config()).await;
    let pipeline = Pipeline::new("job");
    by_key(pipeline.source("numbers", 1, numbers(None))).process("tally", 1, || count).sink("out", 1, spec());
    let (error, _) = within(pipeline.run(&b.client, &mut store, &config(), pending())).await.unwrap_err();
    assert!(matches!(&error, RunError::Orphaned { uid } if uid == "count"), "{error}");
}

#[tokio::test]
async fn operators_flush_before_the_last_checkpoint() {
    struct Total;
    impl Operator for Total {
        fn process(&mut self, record: Record, context: &mut Context<'_>) -> Result<(), OperatorError> {
            count(record, context)?;
            Ok(())
        }

        fn finish(&mut self, context: &mut Context<'_>) -> Result<(), OperatorError> {
            let totals: Vec<_> = context
                .entries()
                .map(|(key, value)| Record {
                    key: Some(key.clone()),
                    value: Some(value.clone()),
                    ..Record::default()
                })
                .collect();
            totals.into_iter().for_each(|total| context.emit(total));
            Ok(())
        }
    }
    let b = Bench::new(Profile::kafka_4_4()).await;
    let mut store = MemoryStore::default();
    let pipeline = Pipeline::new("job");
    let totals = by_key(pipeline.source("numbers", 1, numbers(None))).process("total", 2, || Total);
    totals.filter(|r| !r.value.as_ref().is_some_and(|v: &Bytes| v.contains(&b' '))).sink("out", 1, spec());
    finish(&b, &mut store, &pipeline, &config()).await;
    let expected = vec![(RECORDS / KEYS).to_string(); usize::try_from(KEYS).unwrap()];
    assert_eq!(b.committed().await, expected);
    // The second run brings nothing new, and must not flush again.
    finish(&b, &mut store, &pipeline, &config()).await;
    assert_eq!(b.committed().await, expected);
}

#[tokio::test]
async fn state_belongs_to_one_job_and_to_the_topic_that_was_there() {
    let b = Bench::new(Profile::kafka_4_4()).await;
    let mut store = MemoryStore::default();
    let mine = job(NARROW, None);
    finish(&b, &mut store, &mine, &config()).await;
    let other = Pipeline::new("other");
    by_key(other.source("numbers", 1, numbers(None))).process("count", 1, || count).sink("out", 1, spec());
    let (error, _) = within(other.run(&b.client, &mut store, &config(), pending())).await.unwrap_err();
    assert!(error.to_string().contains("belongs to the job `job`"), "{error}");

    assert!(b.broker.delete_topic(kit::TOPIC));
    b.broker.create_topic(kit::TOPIC, 2).unwrap();
    let client = kafka_2pc::client::Client::new(kit::config_for(&b.broker));
    let (error, _) = within(mine.run(&client, &mut store, &config(), pending())).await.unwrap_err();
    assert!(
        matches!(error, RunError::Store(kafka_2pc::checkpoint::StoreError::TopicRecreated { .. })),
        "{error}"
    );
}

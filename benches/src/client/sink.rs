//! A whole job: records are made, go through the runner into transactions, and are committed with each checkpoint.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use kafka_2pc::{
    checkpoint::{
        Binding, DirectoryStore,
        runner::{JobEvent, Observer, Pipeline, RunConfig, SinkSpec},
    },
    client::{Client, ClientConfig},
    net::{Probe, ProbeEvent},
    record::Record,
    sink::SinkConfig,
    source::GeneratorSource,
    wire::api::Api,
};
use kafka_2pc_bench_child::{Job, Outcome, Stopwatch, values};
use kafka_2pc_benches::measure::Sample;

const INTERVAL: Duration = Duration::from_millis(500);

/// When checkpoints became durable, and how long each of their transactions took from then until it was settled.
#[derive(Debug, Default)]
struct Arrivals {
    stored: BTreeMap<u64, Instant>,
    took_ms: Vec<f64>,
    /// Requests until each checkpoint was durable.
    requests: Vec<u64>,
}

/// The first checkpoints open connections and use ids for the first time.
const WARM: usize = 4;

impl Arrivals {
    /// Requests for each checkpoint of the steady state; NaN if that was not reached.
    fn requests_each(&self) -> f64 {
        match (self.requests.get(WARM), self.requests.last()) {
            (Some(first), Some(last)) if self.requests.len() > WARM + 1 => {
                (last - first) as f64 / (self.requests.len() - WARM - 1) as f64
            }
            _ => f64::NAN,
        }
    }
}

pub(crate) async fn run(job: &Job) -> Result<Outcome> {
    let requests = Arc::new(AtomicU64::new(0));
    let counting = Arc::clone(&requests);
    let probe = Probe::new(move |event| {
        if matches!(event, ProbeEvent::Written(api) if api != Api::Produce) {
            counting.fetch_add(1, Ordering::Relaxed);
        }
    });
    let client = Client::new(ClientConfig::new(&job.bootstrap)?.probe(probe));
    let values: Vec<Record> = values(job.record_bytes).into_iter().map(Record::value).collect();
    let make = move |n: u64| values[usize::try_from(n).unwrap_or(0) % values.len()].clone();
    let mut source = GeneratorSource::new(make).limit(job.records);
    if job.per_second > 0 {
        source = source.records_per_second(job.per_second);
    }
    let pipeline = Pipeline::new("bench");
    let config = SinkConfig::new(&format!("bench-{}", std::process::id()))?;
    pipeline.source("numbers", 1, source).sink("out", 1, SinkSpec { topic: job.topic.clone(), config });
    let arrivals = Arc::new(Mutex::new(Arrivals::default()));
    let mut config = RunConfig::default();
    config.observer = observer(&arrivals, &requests);
    config.checkpoints.interval = INTERVAL;
    let folder = tempfile::tempdir()?;
    let mut store = DirectoryStore::open(folder.path(), Binding::default())?;
    let watch = Stopwatch::start();
    let run = pipeline.run(&client, &mut store, &config, std::future::pending::<()>());
    let summary = run.await.map_err(|(error, _)| error)?;
    ensure!(summary.finished && summary.records == job.records, "{} records were written", summary.records);
    let each = lock(&arrivals).requests_each();
    let took = Sample::new(std::mem::take(&mut lock(&arrivals).took_ms));
    let outcome = watch.stop().records(job.records).transactions(summary.checkpoints);
    Ok(outcome
        .number("settled_p50", took.median())
        .number("settled_p99", took.percentile(99))
        .number("requests", each))
}

fn observer(arrivals: &Arc<Mutex<Arrivals>>, requests: &Arc<AtomicU64>) -> Observer {
    let (arrivals, requests) = (Arc::clone(arrivals), Arc::clone(requests));
    Observer::new(move |_, event| {
        let now = Instant::now();
        match event {
            JobEvent::Stored { checkpoint } => {
                let mut arrivals = lock(&arrivals);
                arrivals.stored.insert(*checkpoint, now);
                arrivals.requests.push(requests.load(Ordering::Relaxed));
            }
            JobEvent::Visible { checkpoint, .. } => {
                let mut arrivals = lock(&arrivals);
                if let Some(stored) = arrivals.stored.get(checkpoint) {
                    let took = now.saturating_duration_since(*stored);
                    arrivals.took_ms.push(took.as_secs_f64() * 1e3);
                }
            }
            _ => {}
        }
    })
}

fn lock(arrivals: &Mutex<Arrivals>) -> std::sync::MutexGuard<'_, Arrivals> {
    arrivals.lock().unwrap_or_else(PoisonError::into_inner)
}

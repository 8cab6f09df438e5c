//! Jobs under load, with slow stores, late commits, brokers that refuse, and checkpoints that fail.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::pending,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures::{FutureExt, future::BoxFuture};
use kafka_2pc::{
    broker::{Api, BrokerConfig, Fault, Profile, Reaction},
    checkpoint::{
        Checkpoint, CheckpointStore, MemoryStore, StateHandle, StateStore, StoreError, StorePoint,
        runner::{
            Context, JobEvent, Observer, Operator, OperatorError, Pipeline, RunConfig, RunError, SinkSpec,
        },
    },
    client::Client,
    proto::checkpoint::{alignment::Mode, coordinator::AbortCause},
    record::Record,
    sink::{SinkConfig, SinkConfigError},
    source::{GeneratorSource, Source, SourceError, SourceReader, SplitState, Subtask},
};

use crate::{
    NARROW, RECORDS, Width, by_key, config, count, expect_exactly_once, finish, job,
    kit::{self, Bench, within},
    numbers,
};

const COORDINATOR_LOAD_IN_PROGRESS: i16 = 14;

/// Like [`count`], with so much work for each record.
fn slow(work: Duration) -> impl Fn(Record, &mut Context<'_>) -> Result<(), OperatorError> + Clone {
    move |record, context| {
        std::thread::sleep(work);
        count(record, context)
    }
}

/// A job whose operator is slower than its source.
fn slow_job(width: Width, work: Duration, sink: SinkConfig) -> Pipeline {
    let pipeline = Pipeline::new("job");
    let numbers = pipeline.source("numbers", width.source, numbers(None));
    let counted = by_key(numbers).process("count", width.operator, move || slow(work));
    by_key(counted).sink("out", width.sink, SinkSpec { topic: kit::TOPIC.to_owned(), config: sink });
    pipeline
}

fn sink() -> SinkConfig {
    SinkConfig::new("job").unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_that_is_never_idle_acknowledges_checkpoints() {
    let b = Bench::new(Profile::kafka_4_4()).await;
    let mut store = MemoryStore::default();
    let mut config = config();
    config.channel_capacity = 32;
    let job = slow_job(NARROW, Duration::from_micros(300), sink());
    let summary = finish(&b, &mut store, &job, &config).await;
    // Alone the last checkpoint finds it idle.
    assert!(summary.checkpoints >= 4, "{summary:?}");
    expect_exactly_once(&b).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ids_that_only_wait_for_the_next_checkpoint_do_not_keep_it_from_coming() {
    // All ids are decided, and settled later than the last checkpoint that lists them: the next one drops them, but its
    // barrier stands behind records.
    let marker_delay = Duration::from_millis(300);
    let b = Bench::with(BrokerConfig { marker_delay, ..BrokerConfig::default() }).await;
    let mut store = MemoryStore::default();
    let config = config();
    let mut sink = sink();
    sink.max_block = Duration::from_secs(4);
    sink.slots = 2;
    let pipeline = Pipeline::new("job");
    let counted = by_key(pipeline.source("numbers", 1, numbers(Some(2_000)))).process("count", 1, || count);
    by_key(counted).sink("out", 1, SinkSpec { topic: kit::TOPIC.to_owned(), config: sink });
    let summary = finish(&b, &mut store, &pipeline, &config).await;
    assert_eq!((summary.finished, summary.restarts), (true, 0), "{summary:?}");
    expect_exactly_once(&b).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_that_were_overtaken_come_before_newer_ones_of_any_channel() {
    let pass = |record: Record, context: &mut Context<'_>| {
        std::thread::sleep(Duration::from_micros(150));
        context.emit(record);
        Ok(())
    };
    let job = |count_width| {
        let pipeline = Pipeline::new("job");
        let numbers = pipeline.source("numbers", 1, numbers(None));
        let counted = by_key(numbers).process("count", count_width, || count);
        let passed = by_key(counted).process("pass", 1, move || pass);
        by_key(passed).sink("out", 1, SinkSpec { topic: kit::TOPIC.to_owned(), config: sink() });
        pipeline
    };
    let b = Bench::new(Profile::kafka_4_4()).await;
    let mut store = MemoryStore::default();
    let mut config = config();
    config.mode = Mode::ExactlyOnce { aligned_timeout: Some(Duration::ZERO) };
    // Dropping a run is a crash. Each time keys have moved to other subtasks, and so to other channels.
    for width in [1, 3, 2, 4] {
        let job = job(width);
        let run = job.run(&b.client, &mut store, &config, pending());
        _ = tokio::time::timeout(Duration::from_millis(150), run).await;
    }
    finish(&b, &mut store, &job(1), &config).await;
    expect_exactly_once(&b).await;
}

/// A finished input that is slow to say so.
struct LateEnd;

impl Source for LateEnd {
    fn open<'a>(
        &'a self,
        subtask: Subtask,
        restored: &'a [SplitState],
    ) -> BoxFuture<'a, Result<Box<dyn SourceReader>, SourceError>> {
        async move {
            let late = Box::pin(tokio::time::sleep(Duration::from_millis(150)));
            Ok(Box::new(Late(numbers(None).open(subtask, restored).await?, late)) as Box<dyn SourceReader>)
        }
        .boxed()
    }
}

struct Late(Box<dyn SourceReader>, Pin<Box<tokio::time::Sleep>>);

impl SourceReader for Late {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Vec<Record>>, SourceError>> {
        async move {
            self.1.as_mut().await;
            self.0.next().await
        }
        .boxed()
    }

    fn snapshot(&self) -> Vec<SplitState> {
        self.0.snapshot()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checkpoints_of_a_finished_job_do_not_make_it_unfinished() {
    struct Total;
    impl Operator for Total {
        fn process(&mut self, record: Record, context: &mut Context<'_>) -> Result<(), OperatorError> {
            context.set(record.value.unwrap_or_default());
            Ok(())
        }

        fn finish(&mut self, context: &mut Context<'_>) -> Result<(), OperatorError> {
            context.emit(Record::value("total"));
            Ok(())
        }
    }
    let job = |late: bool| {
        let pipeline = Pipeline::new("job");
        let numbers = if late {
            pipeline.source("numbers", 1, LateEnd)
        } else {
            pipeline.source("numbers", 1, numbers(None))
        };
        let spec = SinkSpec { topic: kit::TOPIC.to_owned(), config: sink() };
        by_key(numbers).process("total", 1, || Total).sink("out", 1, spec);
        pipeline
    };
    let b = Bench::new(Profile::kafka_4_4()).await;
    let mut store = MemoryStore::default();
    finish(&b, &mut store, &job(false), &config()).await;
    for _ in 0..2 {
        finish(&b, &mut store, &job(true), &config()).await;
    }
    assert_eq!(b.committed().await, ["total"]);
}

/// A store that takes its time, or fails, or counts.
pub(crate) struct Store {
    inner: MemoryStore,
    takes: Duration,
    /// States that were put and neither discarded nor named by a checkpoint.
    loose: Arc<Loose>,
}

#[derive(Default)]
struct Loose {
    names: Mutex<BTreeSet<Arc<str>>>,
    discarded: AtomicU64,
}

struct States(Arc<dyn StateStore>, Arc<Loose>);

impl Store {
    pub(crate) fn new(takes: Duration) -> Self {
        Self { inner: MemoryStore::default(), takes, loose: Arc::default() }
    }
}

impl CheckpointStore for Store {
    fn load(&mut self) -> BoxFuture<'_, Result<Option<Checkpoint>, StoreError>> {
        self.inner.load()
    }

    fn write<'a>(
        &'a mut self,
        checkpoint: &'a Checkpoint,
        observer: &'a mut (dyn FnMut(StorePoint) + Send),
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        for operator in &checkpoint.operators {
            for handle in &operator.subtasks {
                if let StateHandle::Stored { name, .. } = handle {
                    self.loose.names.lock().unwrap().remove(name);
                }
            }
        }
        let takes = self.takes;
        async move {
            tokio::time::sleep(takes).await;
            self.inner.write(checkpoint, observer).await
        }
        .boxed()
    }

    fn states(&self) -> Arc<dyn StateStore> {
        Arc::new(States(self.inner.states(), Arc::clone(&self.loose)))
    }
}

impl StateStore for States {
    fn put(&self, name: &str, bytes: Bytes) -> BoxFuture<'_, Result<StateHandle, StoreError>> {
        let name = name.to_owned();
        async move {
            let handle = self.0.put(&name, bytes).await?;
            if let StateHandle::Stored { name, .. } = &handle {
                self.1.names.lock().unwrap().insert(Arc::clone(name));
            }
            Ok(handle)
        }
        .boxed()
    }

    fn get<'a>(&'a self, handle: &'a StateHandle) -> BoxFuture<'a, Result<Bytes, StoreError>> {
        self.0.get(handle)
    }

    fn discard<'a>(&'a self, handle: &'a StateHandle) -> BoxFuture<'a, Result<(), StoreError>> {
        if let StateHandle::Stored { name, .. } = handle {
            if self.1.names.lock().unwrap().remove(name) {
                self.1.discarded.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.0.discard(handle)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_store_holds_up_neither_acknowledgements_nor_other_checkpoints() {
    let b = Bench::new(Profile::kafka_4_4()).await;
    let mut store = Store::new(Duration::from_millis(700));
    let mut config = config();
    config.checkpoints.interval = Duration::from_millis(20);
    config.checkpoints.timeout = Duration::from_millis(600);
    config.checkpoints.max_concurrent = 4;
    config.channel_capacity = 64;
    let mut sink = sink();
    sink.slots = 16;
    let job = slow_job(NARROW, Duration::from_micros(600), sink);
    let run = job.run(&b.client, &mut store, &config, pending());
    let summary = within(run).await.map_err(|(e, _)| e).unwrap();
    assert_eq!((summary.finished, summary.restarts), (true, 0), "{summary:?}");
    expect_exactly_once(&b).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_cannot_recover_yet_is_started_again_until_it_can() {
    let b = Bench::new(Profile::kafka_4_4()).await;
    let client = Client::new(kit::config_for(&b.broker).max_block(Duration::from_millis(200)));
    let mut store = MemoryStore::default();
    let mut config = config();
    config.restart_attempts = 200;
    config.restart_delay = Duration::from_millis(10);
    let mut sink = sink();
    sink.delivery_timeout = Duration::from_millis(200);
    let job = slow_job(NARROW, Duration::from_micros(100), sink);
    let outage = async {
        tokio::time::sleep(Duration::from_millis(150)).await;
        b.broker.stop_node(1).await.unwrap();
        // Longer than it takes to give up a record, and several times to find a broker.
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        b.broker.start_node(1).await.unwrap();
        pending::<()>().await;
    };
    let summary = tokio::select! {
        result = within(job.run(&client, &mut store, &config, pending())) => result.map_err(|(e, _)| e).unwrap(),
        () = outage => unreachable!(),
    };
    assert!(summary.finished && summary.restarts >= 2, "{summary:?}");
    expect_exactly_once(&b).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_is_not_decided_in_time_is_left_to_the_next_recovery() {
    let b = Bench::new(Profile::kafka_4_4()).await;
    let mut config = config();
    config.restart_delay = Duration::from_millis(10);
    let mut sink = sink();
    sink.commit_timeout = Some(Duration::from_millis(50));
    let reaction = Reaction::ErrorCode(COORDINATOR_LOAD_IN_PROGRESS);
    b.broker.inject(Fault::on(Api::EndTxn, reaction).times(6));
    let job = slow_job(NARROW, Duration::from_micros(50), sink);
    let summary = finish(&b, &mut MemoryStore::default(), &job, &config).await;
    assert!(summary.restarts >= 1 && summary.resumed >= 1, "{summary:?}");
    expect_exactly_once(&b).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_can_be_stopped_while_it_recovers() {
    let b = Bench::new(Profile::kafka_4_4()).await;
    let mut store = MemoryStore::default();
    let reaction = Reaction::ErrorCode(COORDINATOR_LOAD_IN_PROGRESS);
    b.broker.inject(Fault::on(Api::EndTxn, reaction).always());
    let job = slow_job(NARROW, Duration::from_micros(50), sink());
    let mut with_crash = config();
    let (tell, stored) = tokio::sync::oneshot::channel();
    let tell = Mutex::new(Some(tell));
    with_crash.observer = Observer::new(move |_, event| {
        if matches!(event, JobEvent::Stored { .. }) {
            tell.lock().unwrap().take().map(|tell| tell.send(()));
        }
    });
    tokio::select! {
        _ = job.run(&b.client, &mut store, &with_crash, pending()) => unreachable!("nothing can be committed"),
        _ = within(stored) => {}
    }
    let stop = tokio::time::sleep(Duration::from_millis(150));
    let (error, _) = within(job.run(&b.client, &mut store, &config(), stop)).await.unwrap_err();
    assert!(matches!(error, RunError::Stopped), "{error}");
    b.broker.clear_faults();
    assert!(finish(&b, &mut store, &job, &config()).await.resumed > 0);
    expect_exactly_once(&b).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checkpoints_that_time_out_are_tolerated_and_leave_no_state_behind() {
    let b = Bench::new(Profile::kafka_4_4()).await;
    let mut store = Store::new(Duration::ZERO);
    let mut config = config();
    config.checkpoints.timeout = Duration::from_millis(25);
    config.checkpoints.tolerable_failures = 1_000;
    let timeouts = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&timeouts);
    config.observer = Observer::new(move |_, event| {
        if matches!(event, JobEvent::Aborted { cause: AbortCause::Timeout { .. }, .. }) {
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    // The first operator's state is large and made durable at once; the second keeps every barrier waiting.
    let large = |record: Record, context: &mut Context<'_>| {
        context.set(vec![b'x'; 2_000]);
        context.emit(record);
        Ok(())
    };
    let pipeline = Pipeline::new("job");
    let large = by_key(pipeline.source("numbers", 1, numbers(None))).process("large", 1, move || large);
    let counted = by_key(large).process("count", 1, || slow(Duration::from_micros(300)));
    by_key(counted).sink("out", 1, SinkSpec { topic: kit::TOPIC.to_owned(), config: sink() });
    let loose = Arc::clone(&store.loose);
    let summary = within(pipeline.run(&b.client, &mut store, &config, pending())).await;
    let summary = summary.map_err(|(e, _)| e).unwrap();
    assert_eq!((summary.finished, summary.restarts), (true, 0), "{summary:?}");
    assert!(timeouts.load(Ordering::Relaxed) > 0, "{summary:?}");
    assert!(loose.discarded.load(Ordering::Relaxed) > 0);
    assert_eq!(*loose.names.lock().unwrap(), BTreeSet::new());
    expect_exactly_once(&b).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_checkpoints_in_flight_survive_crashes_and_rescaling() {
    for aligned_timeout in [None, Some(Duration::ZERO), Some(Duration::from_millis(10))] {
        let b = Bench::new(Profile::kafka_4_4()).await;
        let mut store = MemoryStore::default();
        let mut config = config();
        config.mode = Mode::ExactlyOnce { aligned_timeout };
        config.checkpoints.interval = Duration::from_millis(5);
        config.checkpoints.max_concurrent = 5;
        let width = |turn: u32| Width { source: 1 + turn % 3, operator: 1 + turn % 4, sink: 1 + turn % 2 };
        for turn in 0..5 {
            let job = slow_job(width(turn), Duration::from_micros(200), sink());
            let run = job.run(&b.client, &mut store, &config, pending());
            _ = tokio::time::timeout(Duration::from_millis(120), run).await;
        }
        finish(&b, &mut store, &slow_job(width(5), Duration::ZERO, sink()), &config).await;
        expect_exactly_once(&b).await;
    }
}

/// Nearly every record is of one key, which its number tells.
fn skewed_key(number: u64) -> u64 {
    if number.is_multiple_of(10) { number % 50 } else { 7 }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn skewed_channels_keep_every_record_and_the_order_of_keys() {
    let job = |width: Width| {
        let make =
            |number: u64| Record::value(number.to_string()).with_key(format!("key-{}", skewed_key(number)));
        // Three splits: of two or four subtasks one has more to read, or none has anything.
        let source = GeneratorSource::new(make).limit(RECORDS).shards(3);
        let pipeline = Pipeline::new("job");
        let counted =
            by_key(pipeline.source("numbers", width.source, source))
                .process("count", width.operator, || slow(Duration::from_micros(100)));
        by_key(counted).sink("out", width.sink, SinkSpec { topic: kit::TOPIC.to_owned(), config: sink() });
        pipeline
    };
    for aligned_timeout in [None, Some(Duration::ZERO), Some(Duration::from_millis(10))] {
        let b = Bench::new(Profile::kafka_4_4()).await;
        let mut store = MemoryStore::default();
        let mut config = config();
        config.mode = Mode::ExactlyOnce { aligned_timeout };
        config.channel_capacity = 64;
        for turn in 0..5 {
            let width = Width { source: 1 + turn % 4, operator: 4 - turn % 3, sink: 1 + turn % 3 };
            let job = job(width);
            let run = job.run(&b.client, &mut store, &config, pending());
            _ = tokio::time::timeout(Duration::from_millis(120), run).await;
        }
        finish(&b, &mut store, &job(Width { source: 2, operator: 3, sink: 2 }), &config).await;
        let (mut seen, mut counts) = (BTreeSet::new(), BTreeMap::<u64, u64>::new());
        for value in b.committed().await {
            let (number, count) = value.split_once(' ').unwrap();
            let (number, count): (u64, u64) = (number.parse().unwrap(), count.parse().unwrap());
            let last = counts.entry(skewed_key(number)).or_default();
            assert_eq!(count, *last + 1, "of the key of {number}, {aligned_timeout:?}");
            *last = count;
            assert!(seen.insert(number), "{number} twice");
        }
        assert_eq!(seen.len() as u64, RECORDS);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_least_once_loses_nothing() {
    let b = Bench::new(Profile::kafka_4_4()).await;
    let mut store = MemoryStore::default();
    let mut config = config();
    config.mode = Mode::AtLeastOnce;
    config.channel_capacity = 16;
    for turn in 0..5 {
        let width = Width { source: 1 + turn % 3, operator: 1 + turn % 2, sink: 2 };
        let job = slow_job(width, Duration::from_micros(100), sink());
        let run = job.run(&b.client, &mut store, &config, pending());
        _ = tokio::time::timeout(Duration::from_millis(90), run).await;
    }
    finish(&b, &mut store, &job(NARROW, None), &config).await;
    let mut seen: BTreeMap<u64, u64> = BTreeMap::new();
    for value in b.committed().await {
        *seen.entry(value.split_once(' ').unwrap().0.parse().unwrap()).or_default() += 1;
    }
    assert_eq!(seen.keys().copied().collect::<Vec<_>>(), (0..RECORDS).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_timeout_that_an_interval_would_pass_is_refused() {
    let b = Bench::new(Profile::kafka_4_4()).await;
    let mut config = RunConfig::default();
    config.checkpoints.interval = Duration::from_secs(1_200);
    let run = job(NARROW, None);
    let (error, _) =
        within(run.run(&b.client, &mut MemoryStore::default(), &config, pending())).await.unwrap_err();
    assert!(matches!(error, RunError::Sink(SinkConfigError::TimeoutTooShort { .. })), "{error}");
    // Who takes no checkpoints by the clock is asked for nothing.
    config.checkpoints.interval = Duration::MAX;
    let summary = finish(&b, &mut MemoryStore::default(), &run, &config).await;
    assert_eq!((summary.records, summary.finished), (RECORDS, true));
}

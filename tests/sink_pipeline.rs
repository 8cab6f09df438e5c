//! The pipeline on the embedded broker: crashes at every step, bad input, full disks, and brokers that trouble it.
#![cfg(feature = "broker")]
#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]

mod kit;

use std::{
    fmt::Write as _,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::{FutureExt, future::BoxFuture};
use kafka_2pc::{
    broker::{Api, Broker, BrokerConfig, Fault, Profile, Reaction},
    checkpoint::{
        Binding, Checkpoint, CheckpointStore, DirectoryStore, MemoryStore, StateStore, StoreError,
        StorePoint,
        pipeline::{
            Job, LineFormat, LineRecord, LinesInput, OnBadLine, OnHanging, PipelineError, StopAfter, Summary,
            run,
        },
        step::{Step, Steps},
    },
    client::Client,
    ids::TransactionalId,
    proto::{committable::Committable, naming::Naming, recovery::OnLost},
    sink::SinkConfig,
};
use kit::{both, config_for, numbered, visible, within};

const ONE: &str = "one";

/// A line is a value; one that begins with `!` is none.
struct Values;

impl LineFormat for Values {
    fn parse<'a>(&self, line: &'a [u8]) -> Result<LineRecord<'a>, String> {
        if line.starts_with(b"!") {
            return Err("a value does not begin with !".into());
        }
        Ok(LineRecord { value: Some(line.into()), ..LineRecord::default() })
    }
}

/// A broker with a topic of one partition, an input, and a directory for state.
struct Plant {
    broker: Arc<Broker>,
    dir: tempfile::TempDir,
}

type Ended = Result<Summary, (PipelineError, Summary)>;

impl Plant {
    async fn new(profile: Profile, lines: &[String]) -> Self {
        let config = BrokerConfig { profile, ..BrokerConfig::default() };
        let broker = Arc::new(Broker::start(config).await.unwrap());
        broker.create_topic(ONE, 1).unwrap();
        let plant = Self { broker, dir: tempfile::tempdir().unwrap() };
        plant.input(lines);
        plant
    }

    fn input(&self, lines: &[String]) {
        let text = lines.iter().fold(String::new(), |mut text, line| {
            writeln!(text, "{line}").unwrap();
            text
        });
        std::fs::write(self.path(), text).unwrap();
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("input")
    }

    fn job(&self) -> Job {
        let mut sink = SinkConfig::new("job").unwrap();
        sink.checkpoint_interval = Duration::from_millis(10);
        sink.delivery_timeout = Duration::from_secs(5);
        sink.settle_timeout = Duration::from_secs(5);
        Job {
            topic: ONE.into(),
            source: LinesInput::File(self.path()),
            format: Arc::new(Values),
            sink,
            job_id: "j".into(),
            checkpoint_interval: Duration::from_millis(10),
            checkpoint_timeout: Duration::from_secs(600),
            min_pause: Duration::ZERO,
            rate: Some(4000),
            on_bad_line: OnBadLine::Stop,
            refused: std::collections::BTreeMap::new(),
            stop_after: None,
            on_hanging: OnHanging::Report,
            steps: Steps::default(),
            observer: Default::default(),
            progress: Arc::new(|_, _| {}),
        }
    }

    fn store(&self) -> DirectoryStore {
        DirectoryStore::open(self.dir.path().join("state"), Binding::default()).unwrap()
    }

    async fn run(&self, job: &Job) -> Ended {
        let client = Client::new(config_for(&self.broker).probe(job.steps.probe()));
        let mut store = self.store();
        within(run(&client, &mut store, job, std::future::pending())).await
    }

    /// Runs the job in a runtime of its own, which is gone with everything in it at the `nth` passage of a step, as a
    /// process is. `None` if it came to that.
    async fn crash(&self, job: &Job, at: Step, nth: usize) -> Option<Ended> {
        let (job, config) = (job.clone(), config_for(&self.broker));
        let mut store = self.store();
        let process = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let crashed = Arc::new(tokio::sync::Notify::new());
            let (signal, passed) = (Arc::clone(&crashed), AtomicUsize::new(0));
            let on_step = move |step| {
                if step == at && passed.fetch_add(1, Ordering::Relaxed) + 1 == nth {
                    signal.notify_one();
                    // Nothing behind this step happens in the task that passed it.
                    std::panic::resume_unwind(Box::new("crash"));
                }
            };
            let job = Job { steps: Steps::new(on_step, |_| {}), ..job };
            let client = Client::new(config.probe(job.steps.probe()));
            runtime.block_on(async {
                tokio::select! {
                    biased;
                    () = crashed.notified() => None,
                    ended = run(&client, &mut store, &job, std::future::pending()) => Some(ended),
                }
            })
        };
        // A step that the job's own task passes unwinds through it.
        within(tokio::task::spawn_blocking(process)).await.unwrap_or_default()
    }

    /// What readers see once nothing is open.
    async fn seen(&self) -> Vec<String> {
        let client = Client::new(config_for(&self.broker));
        visible(&client, ONE).await
    }
}

fn finished(ended: Ended) -> Summary {
    let summary = ended.map_err(|(e, _)| e.to_string()).unwrap();
    assert!(summary.finished && summary.hanging.is_empty(), "{summary:?}");
    summary
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_at_any_step_loses_nothing_and_doubles_nothing() {
    // Enough for three checkpoints, also where the machine is slow.
    let lines = numbered("line ", 800);
    let during_a_run = [
        Step::Write,
        Step::Flush,
        Step::Prepared,
        Step::StoreHalf,
        Step::Durable,
        Step::EndTxnSent,
        Step::EndTxnAnswered,
    ];
    for profile in both() {
        for (step, nth) in during_a_run.into_iter().flat_map(|step| [(step, 1), (step, 3)]) {
            let plant = Plant::new(profile.clone(), &lines).await;
            let job = plant.job();
            let nth = if step == Step::Write { nth * 50 } else { nth };
            assert!(plant.crash(&job, step, nth).await.is_none(), "{step:?} {nth} was not passed");
            finished(plant.run(&job).await);
            assert_eq!(plant.seen().await, lines, "{} {step:?} {nth}", profile.name);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn incrementing_names_survive_crashes_too() {
    let lines = numbered("line ", 150);
    for profile in both() {
        for step in [Step::Write, Step::Prepared, Step::Durable, Step::EndTxnSent] {
            let plant = Plant::new(profile.clone(), &lines).await;
            let mut job = plant.job();
            job.sink.naming = Naming::Incrementing;
            let nth = if step == Step::Write { 70 } else { 2 };
            _ = plant.crash(&job, step, nth).await;
            finished(plant.run(&job).await);
            assert_eq!(plant.seen().await, lines, "{} {step:?}", profile.name);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_while_recovering_from_a_crash_is_no_worse() {
    let lines = numbered("line ", 120);
    for profile in both() {
        for (first, then) in [
            (Step::Durable, Step::RecoveryCommit),
            (Step::EndTxnSent, Step::RecoveryCommit),
            (Step::Write, Step::LeftoverAbort),
            (Step::Prepared, Step::LeftoverAbort),
        ] {
            let plant = Plant::new(profile.clone(), &lines).await;
            let job = plant.job();
            let nth = if first == Step::Write { 80 } else { 1 };
            assert!(plant.crash(&job, first, nth).await.is_none());
            for _ in 0..2 {
                // The second one may find the work done.
                _ = plant.crash(&job, then, 1).await;
            }
            finished(plant.run(&job).await);
            assert_eq!(plant.seen().await, lines, "{} {first:?} {then:?}", profile.name);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_crashes_in_a_row_still_give_every_line_once() {
    let lines = numbered("line ", 300);
    for (seed, profile) in (1u64..).zip(both().into_iter().chain(both())) {
        let plant = Plant::new(profile, &lines).await;
        let job = plant.job();
        let mut state = seed;
        for _ in 0..12 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let step = Step::ALL[usize::try_from(state >> 33).unwrap() % Step::ALL.len()];
            let nth = if step == Step::Write { 60 } else { 1 + usize::try_from(state >> 40).unwrap() % 3 };
            if let Some(ended) = plant.crash(&job, step, nth).await {
                finished(ended);
                break;
            }
        }
        finished(plant.run(&job).await);
        assert_eq!(plant.seen().await, lines, "seed {seed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finished_job_run_again_does_nothing_and_goes_on_with_new_lines() {
    for profile in both() {
        let mut lines = numbered("line ", 30);
        let plant = Plant::new(profile, &lines).await;
        assert_eq!(finished(plant.run(&plant.job()).await).records, 30);
        assert_eq!(finished(plant.run(&plant.job()).await).records, 0);
        lines.extend(numbered("more ", 20));
        plant.input(&lines);
        assert_eq!(finished(plant.run(&plant.job()).await).records, 20);
        assert_eq!(plant.seen().await, lines);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_input_than_before_is_refused() {
    let plant = Plant::new(Profile::kafka_4_4(), &numbered("line ", 30)).await;
    finished(plant.run(&plant.job()).await);
    plant.input(&numbered("other ", 60));
    assert!(matches!(plant.run(&plant.job()).await, Err((PipelineError::Input(_), _))));
    plant.input(&numbered("line ", 3));
    assert!(matches!(plant.run(&plant.job()).await, Err((PipelineError::Input(_), _))));
    assert_eq!(plant.seen().await, numbered("line ", 30));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_line_stops_the_job_behind_everything_before_it_or_is_passed_over() {
    for profile in both() {
        let mut lines = numbered("line ", 30);
        lines[20] = "!".into();
        let plant = Plant::new(profile, &lines).await;
        let stopped = plant.run(&plant.job()).await.map_err(|(e, _)| e.to_string()).unwrap();
        assert_eq!((stopped.bad_line.unwrap().0, stopped.finished), (21, false));
        assert_eq!(plant.seen().await, lines[..20]);
        let again = plant.run(&plant.job()).await.map_err(|(e, _)| e.to_string()).unwrap();
        assert_eq!((again.records, again.bad_line.unwrap().0), (0, 21));
        let skipping = Job { on_bad_line: OnBadLine::Skip, ..plant.job() };
        assert_eq!(finished(plant.run(&skipping).await).skipped, 1);
        lines.remove(20);
        assert_eq!(plant.seen().await, lines);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_that_no_request_can_hold_is_a_bad_line() {
    let mut lines = numbered("line ", 10);
    lines[5] = "x".repeat(3000);
    let plant = Plant::new(Profile::kafka_4_4(), &lines).await;
    let mut job = plant.job();
    job.sink.request_bytes = 2000;
    let stopped = plant.run(&job).await.map_err(|(e, _)| e.to_string()).unwrap();
    assert_eq!(stopped.bad_line.unwrap().0, 6);
    job.on_bad_line = OnBadLine::Skip;
    assert_eq!(finished(plant.run(&job).await).skipped, 1);
    lines.remove(5);
    assert_eq!(plant.seen().await, lines);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_completes_a_checkpoint_and_the_next_run_goes_on() {
    for profile in both() {
        let lines = numbered("line ", 200);
        let plant = Plant::new(profile, &lines).await;
        let job = plant.job();
        let client = Client::new(config_for(&plant.broker));
        let mut store = plant.store();
        let stop = tokio::time::sleep(Duration::from_millis(30));
        let stopped =
            within(run(&client, &mut store, &job, stop)).await.map_err(|(e, _)| e.to_string()).unwrap();
        drop(store);
        let written = usize::try_from(stopped.records).unwrap();
        assert!(!stopped.finished && written < 200);
        assert_eq!(plant.seen().await, lines[..written], "all that was read is committed");
        finished(plant.run(&job).await);
        assert_eq!(plant.seen().await, lines);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_stopped_after_prepare_is_aborted_and_after_durable_is_committed_by_the_next_run() {
    for profile in both() {
        for (stop, resumed) in [(StopAfter::Prepare, 0), (StopAfter::Durable, 1)] {
            let lines = numbered("line ", 100);
            let plant = Plant::new(profile.clone(), &lines).await;
            let stopping = Job { stop_after: Some(stop), ..plant.job() };
            let stopped = plant.run(&stopping).await.map_err(|(e, _)| e.to_string()).unwrap();
            assert_eq!(stopped.open.len(), 1);
            assert_eq!(plant.seen().await, [""; 0]);
            let next = finished(plant.run(&plant.job()).await);
            assert_eq!((next.resumed, next.aborted), (resumed, 1 - resumed), "{stop:?}");
            assert_eq!(plant.seen().await, lines);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn held_markers_push_back_and_nothing_is_lost() {
    for profile in both() {
        let lines = numbered("line ", 400);
        let plant = Plant::new(profile, &lines).await;
        plant.broker.hold_markers();
        let job = plant.job();
        let (broker, first) = (Arc::clone(&plant.broker), job.sink.slots);
        let release = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let used = broker.requests(Api::EndTxn);
            broker.release_markers();
            used
        });
        finished(plant.run(&job).await);
        let used = release.await.unwrap();
        assert!(used <= first as u64, "{used} transactions with {first} ids");
        assert_eq!(plant.seen().await, lines);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_the_broker_ends_the_run_and_the_next_one_goes_on() {
    for profile in both() {
        for (api, code) in [(Api::Produce, 47), (Api::Produce, 120), (Api::EndTxn, 53)] {
            let lines = numbered("line ", 150);
            let plant = Plant::new(profile.clone(), &lines).await;
            // A slow machine may need no second one.
            plant.broker.inject(Fault::on(api, Reaction::ErrorCode(code)));
            let (error, _) = plant.run(&plant.job()).await.unwrap_err();
            assert_eq!(error.is_transient(), api == Api::Produce, "{error}");
            finished(plant.run(&plant.job()).await);
            assert_eq!(plant.seen().await, lines, "{} {api:?} {code}", profile.name);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_survives_brokers_that_are_away_for_a_moment() {
    for profile in both() {
        let lines = numbered("line ", 400);
        let plant = Plant::new(profile, &lines).await;
        let broker = Arc::clone(&plant.broker);
        let outage = tokio::spawn(async move {
            for _ in 0..2 {
                tokio::time::sleep(Duration::from_millis(25)).await;
                broker.stop_node(1).await.unwrap();
                tokio::time::sleep(Duration::from_millis(25)).await;
                broker.start_node(1).await.unwrap();
            }
        });
        finished(plant.run(&plant.job()).await);
        outage.await.unwrap();
        assert_eq!(plant.seen().await, lines);
    }
}

/// A disk that is full from the `nth` checkpoint on.
struct Full(DirectoryStore, usize);

impl CheckpointStore for Full {
    fn load(&mut self) -> BoxFuture<'_, Result<Option<Checkpoint>, StoreError>> {
        self.0.load()
    }

    fn write<'a>(
        &'a mut self,
        checkpoint: &'a Checkpoint,
        observer: &'a mut (dyn FnMut(StorePoint) + Send),
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        match self.1.checked_sub(1) {
            Some(left) => self.1 = left,
            None => return async { Err(StoreError::Full { path: "disk".into() }) }.boxed(),
        }
        self.0.write(checkpoint, observer)
    }

    fn recovered(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.0.recovered()
    }

    fn keep<'a>(&'a mut self, c: &'a Committable) -> BoxFuture<'a, Result<Option<PathBuf>, StoreError>> {
        self.0.keep(c)
    }

    fn states(&self) -> Arc<dyn StateStore> {
        self.0.states()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_stops_the_job_and_what_it_prepared_is_aborted_later() {
    for profile in both() {
        let lines = numbered("line ", 200);
        for whole in [0, 1, 3] {
            let plant = Plant::new(profile.clone(), &lines).await;
            let client = Client::new(config_for(&plant.broker));
            let mut store = Full(plant.store(), whole);
            let ended = within(run(&client, &mut store, &plant.job(), std::future::pending())).await;
            assert!(matches!(&ended, Err((PipelineError::Store(StoreError::Full { .. }), _))), "{ended:?}");
            drop(store);
            finished(plant.run(&plant.job()).await);
            assert_eq!(plant.seen().await, lines, "{whole} checkpoints");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_input_goes_through_in_order_and_the_rate_is_kept() {
    let lines = numbered("line ", 20_000);
    let plant = Plant::new(Profile::kafka_4_4(), &lines).await;
    let mut job = Job { rate: None, ..plant.job() };
    job.sink.buffer_bytes = 10_000;
    job.sink.batch_bytes = 1000;
    let mut store = MemoryStore::default();
    let client = Client::new(config_for(&plant.broker));
    finished(within(run(&client, &mut store, &job, std::future::pending())).await);
    assert_eq!(plant.seen().await, lines);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_jobs_with_one_state_exclude_each_other() {
    let plant = Plant::new(Profile::kafka_4_4(), &numbered("line ", 10)).await;
    let _held = plant.store();
    let second = DirectoryStore::open(plant.dir.path().join("state"), Binding::default());
    assert!(matches!(second, Err(StoreError::Locked { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_deleted_and_created_again_is_refused_and_nothing_is_written_into_it() {
    for profile in both() {
        let mut lines = numbered("line ", 30);
        let plant = Plant::new(profile, &lines).await;
        finished(plant.run(&plant.job()).await);
        assert!(plant.broker.delete_topic(ONE));
        plant.broker.create_topic(ONE, 1).unwrap();
        lines.extend(numbered("more ", 20));
        plant.input(&lines);
        for _ in 0..2 {
            let (error, _) = plant.run(&plant.job()).await.unwrap_err();
            assert!(matches!(error, PipelineError::Store(StoreError::TopicRecreated { .. })), "{error}");
            let told = error.to_string();
            assert!(told.contains("`one` was deleted and created again"), "{told}");
            assert!(told.contains("use another state directory"), "{told}");
        }
        assert_eq!(plant.seen().await, [""; 0]);
        std::fs::remove_dir_all(plant.dir.path().join("state")).unwrap();
        finished(plant.run(&plant.job()).await);
        assert_eq!(plant.seen().await, lines);
    }
}

#[cfg(feature = "object-store")]
#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_state_lies_in_an_object_store_goes_on_after_a_crash() {
    use kafka_2pc::checkpoint::{ObjectCheckpointStore, ObjectStoreConfig, object_store::memory::InMemory};
    for profile in both() {
        let bucket = Arc::new(InMemory::new());
        let open = |binding| {
            let mut config = ObjectStoreConfig::new("jobs/one");
            (config.lease_duration, config.binding) = (Duration::from_millis(200), binding);
            ObjectCheckpointStore::open(Arc::clone(&bucket) as _, config)
        };
        let lines = numbered("line ", 400);
        let plant = Plant::new(profile, &lines).await;
        let client = Client::new(config_for(&plant.broker));
        let mut store = open(Binding::default()).await.unwrap();
        let (durable, seen) = tokio::sync::oneshot::channel();
        let durable = std::sync::Mutex::new(Some(durable));
        let on_step = move |step| {
            if step == Step::Durable {
                durable.lock().unwrap().take().map(|first| first.send(()));
            }
        };
        let job = Job { steps: Steps::new(on_step, |_| {}), ..plant.job() };
        tokio::select! {
            ended = run(&client, &mut store, &job, std::future::pending()) => panic!("{ended:?}"),
            _ = seen => {}
        }
        drop(store);
        let mut store = open(Binding::default()).await.unwrap();
        assert_eq!(store.owner_epoch(), 2);
        finished(within(run(&client, &mut store, &plant.job(), std::future::pending())).await);
        assert_eq!(plant.seen().await, lines);
        store.close().await.unwrap();
        let other = Binding { cluster_id: Some("other".into()), ..Binding::default() };
        let refused = open(other).await.unwrap_err();
        assert!(matches!(refused, StoreError::Foreign { what: "cluster", .. }), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_that_is_not_prepared_in_time_ends_the_run_and_nothing_is_doubled() {
    for profile in both() {
        let lines = numbered("line ", 50);
        let plant = Plant::new(profile, &lines).await;
        let job = Job { checkpoint_timeout: Duration::from_millis(20), ..plant.job() };
        let reaction = Reaction::Delay(Duration::from_secs(2));
        plant.broker.inject(Fault::on(Api::Produce, reaction));
        let (error, _) = plant.run(&job).await.unwrap_err();
        assert!(matches!(error, PipelineError::CheckpointTimeout { checkpoint: 1, .. }), "{error}");
        assert!(error.is_transient() && error.to_string().contains("execution.checkpointing.timeout"));
        finished(plant.run(&plant.job()).await);
        assert_eq!(plant.seen().await, lines);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn checkpoints_keep_their_pause() {
    let lines = numbered("line ", 400);
    let plant = Plant::new(both().into_iter().next().unwrap(), &lines).await;
    let job = Job { min_pause: Duration::from_secs(3600), ..plant.job() };
    let summary = plant.run(&job).await.unwrap();
    // A periodic one, the last one, and one without the committables.
    assert!(summary.checkpoints <= 3, "{summary:?}");
    assert_eq!(plant.seen().await, lines);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_is_lost_while_the_job_runs_is_passed_over_and_counted() {
    for profile in both() {
        let lines = numbered("line ", 300);
        let plant = Plant::new(profile, &lines).await;
        let mut job = plant.job();
        job.sink.on_lost = OnLost::Skip;
        plant.broker.inject(Fault::on(Api::EndTxn, Reaction::Delay(Duration::from_millis(300))));
        let broker = Arc::clone(&plant.broker);
        let rival = tokio::spawn(async move {
            while broker.requests(Api::EndTxn) < 1 {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            let client = Client::new(config_for(&broker));
            client.transactional_producer(TransactionalId::new("job-0-0")).init().await.unwrap();
        });
        let summary = finished(plant.run(&job).await);
        rival.await.unwrap();
        let [lost] = &summary.lost[..] else { panic!("{:?}", summary.lost) };
        assert!(lost.proven && lost.committable.transactional_id.as_str() == "job-0-0", "{}", lost.story);
        let records = usize::try_from(lost.committable.records()).unwrap();
        assert!(records > 0);
        assert_eq!(plant.seen().await, lines[records..]);
        assert!(finished(plant.run(&job).await).lost.is_empty(), "it is told once");
    }
}

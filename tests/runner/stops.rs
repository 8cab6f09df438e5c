//! Jobs that stop on purpose, or before something that is no record, and what they count.

use std::sync::{Arc, Mutex};

use futures::{FutureExt, future::BoxFuture};
use kafka_2pc::{
    broker::{Api, Fault, Reaction},
    checkpoint::{
        Binding, DirectoryStore,
        runner::{IdleCheckpoints, JobEvent, Observer, StopAfter, TaskError},
    },
    source::{LinesInput, LinesSource, OnBadLine, Source, SourceError, SourceReader, SplitState, Subtask},
};

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_stops_with_its_first_transactions_and_leaves_them_to_others() {
    for (profile, sinks) in both().into_iter().flat_map(|profile| [(profile.clone(), 1), (profile, 2)]) {
        for stop_after in [StopAfter::Prepare, StopAfter::Durable] {
            let b = Bench::new(profile.clone()).await;
            let state = tempfile::tempdir().unwrap();
            let mut store = DirectoryStore::open(state.path(), Binding::default()).unwrap();
            let job = job(Width { sink: sinks, ..NARROW }, Some(10_000));
            let mut stopping = config();
            stopping.stop_after = Some(stop_after);
            let left = within(job.run(&b.client, &mut store, &stopping, pending())).await.unwrap();
            assert!((1..=sinks as usize).contains(&left.open.len()), "{left:?}");
            let records: u64 = left.open.iter().map(|open| open.committable.records()).sum();
            assert!(records > 0 && left.records == records && !left.finished, "{left:?}");
            assert_eq!(left.checkpoints, u64::from(stop_after == StopAfter::Durable), "{left:?}");
            assert!(left.open.iter().all(|open| open.path.as_ref().is_some_and(|path| path.is_file())));
            assert_eq!(b.visible().await, [""; 0]);
            let config = config();
            let rest = job.run(&b.client, &mut store, &config, pending());
            let rest = tokio::time::timeout(Duration::from_secs(60), rest).await.unwrap().unwrap();
            let resumed = if stop_after == StopAfter::Durable { left.open.len() as u64 } else { 0 };
            assert_eq!(rest.resumed, resumed, "{rest:?}");
            assert_eq!(rest.records, if resumed > 0 { RECORDS - records } else { RECORDS });
            expect_exactly_once(&b).await;
        }
    }
}

fn lines(path: &std::path::Path, on_bad: OnBadLine) -> Pipeline {
    let pipeline = Pipeline::new("job");
    let parse = |line: &[u8]| match line {
        b"!" => Err("it is !".to_owned()),
        line => Ok(Record::value(line.to_vec())),
    };
    let source = LinesSource::new([LinesInput::File(path.to_owned())], parse).on_bad_line(on_bad);
    pipeline.source("lines", 1, source).sink("out", 1, spec());
    pipeline
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_that_stops_at_a_bad_line_ends_the_job_behind_everything_before_it() {
    let b = Bench::new(Profile::kafka_4_4()).await;
    let input = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(input.path(), "a\nb\n!\nc\n").unwrap();
    let mut store = MemoryStore::default();
    let stopping = lines(input.path(), OnBadLine::Stop);
    for records in [2, 0] {
        let ended = within(stopping.run(&b.client, &mut store, &config(), pending())).await;
        let (error, summary) = ended.unwrap_err();
        let TaskError::Source { error, .. } = (match error {
            RunError::Task(error) => error,
            other => panic!("{other}"),
        }) else {
            panic!("it is no error of the source")
        };
        assert!(matches!(error, SourceError::BadLine { line: 3, .. }), "{error}");
        assert_eq!((summary.records, summary.finished, summary.restarts), (records, false, 0), "{summary:?}");
        assert_eq!(b.committed().await, ["a", "b"]);
    }
    let summary = finish(&b, &mut store, &lines(input.path(), OnBadLine::Skip), &config()).await;
    assert_eq!((summary.records, summary.finished), (1, true));
    // They need not be in one partition.
    let mut committed = b.committed().await;
    committed.sort_unstable();
    assert_eq!(committed, ["a", "b", "c"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_are_counted_once_they_are_durable_over_restarts_and_after_an_error() {
    for profile in both() {
        for restart_attempts in [0, 3] {
            let b = Bench::new(profile.clone()).await;
            let mut store = MemoryStore::default();
            let mut config = config();
            config.restart_attempts = restart_attempts;
            config.restart_delay = Duration::from_millis(1);
            // INVALID_PRODUCER_EPOCH, after some transactions went through.
            let reaction = Reaction::ErrorCode(47);
            b.broker.inject(Fault::on(Api::Produce, reaction).nth(12));
            let job = job(NARROW, Some(10_000));
            let run = job.run(&b.client, &mut store, &config, pending());
            let first = match tokio::time::timeout(Duration::from_secs(60), run).await.unwrap() {
                Ok(summary) => {
                    assert_eq!((restart_attempts, summary.restarts), (3, 1), "{summary:?}");
                    summary
                }
                Err((error, summary)) => {
                    assert!(restart_attempts == 0 && error.is_transient(), "{error}");
                    summary
                }
            };
            let rest = finish(&b, &mut store, &job, &config).await;
            assert_eq!(first.records + rest.records, RECORDS, "{first:?}, {rest:?}");
            expect_exactly_once(&b).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_checkpoint_has_all_its_events() {
    let b = Bench::new(Profile::kafka_4_4()).await;
    let told: Arc<Mutex<BTreeMap<u64, Vec<&'static str>>>> = Arc::default();
    let heard = Arc::clone(&told);
    let observer = Observer::new(move |_, event| {
        let (checkpoint, what) = match event {
            JobEvent::Triggered { checkpoint, .. } => (*checkpoint, "triggered"),
            JobEvent::Snapshot { checkpoint, .. } => (*checkpoint, "snapshot"),
            JobEvent::Prepared { checkpoint, .. } => (*checkpoint, "prepared"),
            JobEvent::Acknowledged { checkpoint, .. } => (*checkpoint, "acknowledged"),
            JobEvent::Stored { checkpoint } => (*checkpoint, "stored"),
            JobEvent::Notified { checkpoint, .. } => (*checkpoint, "notified"),
            _ => return,
        };
        heard.lock().unwrap().entry(checkpoint).or_default().push(what);
    });
    let width = Width { source: 2, operator: 1, sink: 2 };
    let mut config = config();
    config.observer = observer;
    let summary = finish(&b, &mut MemoryStore::default(), &job(width, Some(20_000)), &config).await;
    let told = told.lock().unwrap();
    assert_eq!(told.len() as u64, summary.checkpoints + 1, "{told:?}");
    assert_eq!(told[&0], ["triggered"]);
    for (checkpoint, events) in told.iter().filter(|(checkpoint, _)| **checkpoint > 0) {
        let count = |what| events.iter().filter(|event| **event == what).count();
        let counts = ["triggered", "snapshot", "prepared", "acknowledged", "stored", "notified"].map(count);
        assert_eq!(counts, [1, 5, 2, 5, 1, 5], "{checkpoint}: {events:?}");
        assert_eq!(events.first(), Some(&"triggered"), "{checkpoint}: {events:?}");
    }
}

/// One record, and then nothing.
struct Single;

struct Reader(bool);

impl Source for Single {
    fn open<'a>(
        &'a self,
        _: Subtask,
        _: &'a [SplitState],
    ) -> BoxFuture<'a, Result<Box<dyn SourceReader>, SourceError>> {
        async { Ok(Box::new(Reader(false)) as Box<dyn SourceReader>) }.boxed()
    }
}

impl SourceReader for Reader {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Vec<Record>>, SourceError>> {
        if std::mem::replace(&mut self.0, true) {
            return pending().boxed();
        }
        async { Ok(Some(vec![Record::value("one")])) }.boxed()
    }

    fn snapshot(&self) -> Vec<SplitState> {
        vec![SplitState::new("single", Bytes::copy_from_slice(&[u8::from(self.0)]))]
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_waits_for_its_input_writes_nothing_if_that_was_asked_for() {
    for (idle_checkpoints, most) in [(IdleCheckpoints::LeftOut, 3), (IdleCheckpoints::Taken, u64::MAX)] {
        let b = Bench::new(Profile::kafka_4_4()).await;
        let pipeline = Pipeline::new("job");
        pipeline.source("single", 1, Single).sink("out", 1, spec());
        let mut config = config();
        config.idle_checkpoints = idle_checkpoints;
        config.checkpoints.interval = Duration::from_millis(5);
        let stored = Arc::new(tokio::sync::Semaphore::new(0));
        let seen = Arc::clone(&stored);
        config.observer = Observer::new(move |_, event| {
            if matches!(event, JobEvent::Stored { .. }) {
                seen.add_permits(1);
            }
        });
        // Taken, they never end; left out, nothing comes after some turns of the interval.
        let stop = async move {
            _ = tokio::time::timeout(Duration::from_millis(500), stored.acquire_many(20)).await
        };
        let mut store = MemoryStore::default();
        let summary = within(pipeline.run(&b.client, &mut store, &config, stop)).await.unwrap();
        // The one with the record, that without its transaction, and perhaps one more while it was committed.
        assert!(summary.checkpoints <= most, "{summary:?}");
        assert!(most < u64::MAX || summary.checkpoints > 3, "{summary:?}");
        assert_eq!((summary.records, b.committed().await.len()), (1, 1));
    }
}

//! What a restart waits for, counted in round trips: every byte is on its way for half of one, in each direction, and the
//! clock stands still but for that.
//!
//! A connection takes one for TCP, and one for what the broker can do. Whoever saves a round trip lowers a number.
#![cfg(feature = "broker")]
#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]

mod kit;

use std::{
    future::pending,
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::future::{BoxFuture, join};
use kafka_2pc::{
    broker::{Dialer, Profile},
    checkpoint::{
        MemoryStore,
        runner::{JobEvent, Observer, Pipeline, RunConfig, SinkSpec, StopAfter},
    },
    client::Client,
    net::{Connector, Stream},
    record::Record,
    sink::SinkConfig,
    source::GeneratorSource,
};
use kit::{Bench, within};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream},
    sync::mpsc,
    time::{Instant, sleep, sleep_until},
};

/// A round trip.
const TRIP: Duration = Duration::from_millis(4);

/// Streams to brokers that are far away.
struct Far(Dialer);

impl Connector for Far {
    fn connect<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<Box<dyn Stream>>> {
        Box::pin(async move {
            sleep(TRIP).await;
            Ok(Box::new(far(self.0.connect(host, port)?)) as Box<dyn Stream>)
        })
    }
}

fn far(near: DuplexStream) -> DuplexStream {
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let ((up, to_us), (down, to_broker)) = (tokio::io::split(theirs), tokio::io::split(near));
    tokio::spawn(carry(up, to_broker));
    tokio::spawn(carry(down, to_us));
    ours
}

async fn carry(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) {
    let (sent, mut due) = mpsc::unbounded_channel();
    let read = async move {
        let mut bytes = vec![0; 1 << 14];
        while let Ok(count @ 1..) = from.read(&mut bytes).await {
            _ = sent.send((Instant::now() + TRIP / 2, bytes[..count].to_vec()));
        }
    };
    let write = async move {
        while let Some((at, bytes)) = due.recv().await {
            sleep_until(at).await;
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
        _ = to.shutdown().await;
    };
    join(read, write).await;
}

/// What the process before left to the one that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    Nothing,
    /// A transaction that no checkpoint lists: it is aborted.
    Open,
    /// One that the newest checkpoint lists: it is committed.
    Prepared,
}

/// Round trips from the start of a job.
#[derive(Debug, Clone, Copy)]
struct Trips {
    /// Until it may write.
    ready: f64,
    /// Until its first transaction is known to be visible.
    visible: f64,
}

fn job(records: u64) -> Pipeline {
    let pipeline = Pipeline::new("job");
    let source = GeneratorSource::new(|n| Record::value(n.to_string())).limit(records).shards(1);
    let config = SinkConfig::new("job").unwrap();
    pipeline.source("numbers", 1, source).sink("out", 1, SinkSpec { topic: kit::TOPIC.to_owned(), config });
    pipeline
}

/// When each of these happened first.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    ready: Option<Instant>,
    first: Option<u64>,
    visible: Option<Instant>,
}

fn observer(seen: &Arc<Mutex<Seen>>) -> Observer {
    let seen = Arc::clone(seen);
    Observer::new(move |_, event| {
        let (now, mut seen) = (Instant::now(), seen.lock().unwrap());
        match event {
            JobEvent::Recovered { .. } => _ = seen.ready.get_or_insert(now),
            JobEvent::Triggered { checkpoint: 1.., .. } if seen.ready.is_some() => {
                let JobEvent::Triggered { checkpoint, .. } = event else { return };
                seen.first.get_or_insert(*checkpoint);
            }
            JobEvent::Visible { checkpoint, .. } if Some(*checkpoint) == seen.first => {
                seen.visible.get_or_insert(now);
            }
            _ => {}
        }
    })
}

async fn restart(profile: Profile, left: Left) -> Trips {
    let b = Bench::in_memory(profile).await;
    let mut store = MemoryStore::default();
    let mut config = RunConfig::default();
    config.stop_after = match left {
        Left::Nothing => None,
        Left::Open => Some(StopAfter::Prepare),
        Left::Prepared => Some(StopAfter::Durable),
    };
    if config.stop_after.is_some() {
        let job = job(10);
        let run = job.run(&b.client, &mut store, &config, pending());
        assert_eq!(run.await.map_err(|(e, _)| e).unwrap().open.len(), 1);
    }
    let seen = Arc::new(Mutex::new(Seen::default()));
    config.stop_after = None;
    config.observer = observer(&seen);
    let client = Client::with_connector(kit::config_for(&b.broker), Arc::new(Far(b.broker.dialer())));
    let begun = Instant::now();
    let job = job(20);
    let run = within(job.run(&client, &mut store, &config, pending()));
    let summary = run.await.map_err(|(e, _)| e).unwrap();
    let worked = (summary.resumed, summary.aborted);
    assert_eq!(worked, (u64::from(left == Left::Prepared), u64::from(left == Left::Open)));
    assert_eq!(b.committed().await.len(), 20);
    let seen = *seen.lock().unwrap();
    let trips = |at: Option<Instant>| (at.unwrap() - begun).as_secs_f64() / TRIP.as_secs_f64();
    Trips { ready: trips(seen.ready), visible: trips(seen.visible) }
}

/// At most so many round trips until a job may write, and until its first records are known to be visible.
async fn within_trips(profile: Profile, left: Left, ready: f64, visible: f64) {
    let name = profile.name.to_owned();
    let found = restart(profile, left).await;
    println!("{name}, {left:?}: ready after {:.1}, visible after {:.1}", found.ready, found.visible);
    assert!(found.ready <= ready && found.visible <= visible, "{name}, {left:?}: {found:?}");
}

#[tokio::test(start_paused = true)]
async fn a_first_start_looks_and_begins() {
    within_trips(Profile::kafka_4_4(), Left::Nothing, 4.0, 13.0).await;
    within_trips(Profile::kafka_4_4_v1(), Left::Nothing, 4.0, 14.0).await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_commits_what_was_prepared() {
    within_trips(Profile::kafka_4_4(), Left::Prepared, 9.0, 17.0).await;
    within_trips(Profile::kafka_4_4_v1(), Left::Prepared, 9.0, 18.0).await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_aborts_what_was_open() {
    within_trips(Profile::kafka_4_4(), Left::Open, 9.5, 17.5).await;
    within_trips(Profile::kafka_4_4_v1(), Left::Open, 9.5, 18.5).await;
}

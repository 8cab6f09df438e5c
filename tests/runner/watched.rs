//! What is told of a job while it waits: gauges that move, and spans from trigger to settled.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use kafka_2pc::{
    broker::{Api, Fault, Reaction},
    checkpoint::{
        MemoryStore,
        runner::{JobEvent, Observer},
    },
    sink::SinkUsage,
};
use tracing::{
    Id, Subscriber,
    field::{Field, Visit},
    span::Attributes,
};
use tracing_subscriber::{
    Layer,
    layer::{Context as LayerContext, SubscriberExt},
    registry::LookupSpan,
};

use super::*;
use crate::trouble::Store;

/// What was told of the sink in the course of one checkpoint.
#[derive(Debug, Default)]
struct Course {
    flushing: bool,
    flushed: bool,
    storing: bool,
    stored: bool,
    while_flushing: Vec<SinkUsage>,
    while_storing: Vec<SinkUsage>,
}

const WATCHED: u64 = 3;

/// Watches checkpoint 3, and does something when the one before is stored.
fn watch(before: impl Fn() + Send + Sync + 'static) -> (Observer, Arc<Mutex<Course>>) {
    let course = Arc::new(Mutex::new(Course::default()));
    let watched = Arc::clone(&course);
    let observer = Observer::new(move |_, event| {
        let mut course = watched.lock().unwrap();
        match event {
            JobEvent::Stored { checkpoint } if *checkpoint + 1 == WATCHED => before(),
            JobEvent::Snapshot { checkpoint: WATCHED, task } if &*task.uid == "out" => course.flushing = true,
            JobEvent::Prepared { checkpoint: WATCHED, .. } => {
                (course.flushing, course.flushed, course.storing) = (false, true, true);
            }
            JobEvent::Stored { checkpoint: WATCHED } => (course.storing, course.stored) = (false, true),
            JobEvent::Usage { usage, .. } if course.flushing => course.while_flushing.push(*usage),
            JobEvent::Usage { usage, .. } if course.storing => course.while_storing.push(*usage),
            _ => {}
        }
    });
    (observer, course)
}

#[track_caller]
fn expect_ageing(told: &[SinkUsage]) {
    let ages: Vec<Duration> = told.iter().map(|usage| usage.oldest).collect();
    assert!(ages.windows(2).any(|two| two[0] > Duration::ZERO && two[0] < two[1]), "{ages:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_sink_holds_is_told_while_its_flush_waits_and_commits_come_through_beside_it() {
    for profile in both() {
        let b = Arc::new(Bench::new(profile).await);
        let broker = Arc::clone(&b);
        // The commit of checkpoint 2 comes back while checkpoint 3 is flushed.
        let (observer, course) = watch(move || {
            let later = |api, by| {
                let reaction = Reaction::Delay(Duration::from_millis(by));
                broker.broker.inject(Fault { api, node: None, nth: 1, reaction });
            };
            later(Api::EndTxn, 1_500);
            later(Api::Produce, 4_500);
        });
        let mut config = config();
        config.observer = observer;
        config.checkpoints.interval = Duration::from_millis(200);
        let job = job(NARROW, Some(2_000));
        finish(&b, &mut MemoryStore::default(), &job, &config).await;
        expect_exactly_once(&b).await;
        let course = course.lock().unwrap();
        let told = &course.while_flushing;
        assert!(course.flushed, "{course:?}");
        expect_ageing(told);
        let first = told.iter().position(|usage| usage.prepared == 1);
        let later = told.iter().rposition(|usage| usage.prepared == 0);
        assert!(first.is_some() && first < later, "a commit that came through is not seen: {told:?}");
        let free = |by: fn(usize, usize) -> usize| told.iter().map(|usage| usage.free).reduce(by);
        assert!(free(usize::min) < free(usize::max), "no id came free: {told:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_sink_holds_is_told_while_a_store_takes_its_time() {
    let b = Bench::new(Profile::kafka_4_4()).await;
    let (observer, course) = watch(|| {});
    let mut config = config();
    config.observer = observer;
    let mut store = Store::new(Duration::from_millis(2_500));
    let job = job(NARROW, Some(500));
    let run = job.run(&b.client, &mut store, &config, pending());
    within(run).await.map_err(|(e, _)| e).unwrap();
    expect_exactly_once(&b).await;
    let course = course.lock().unwrap();
    assert!(course.stored, "{course:?}");
    expect_ageing(&course.while_storing);
    assert!(course.while_storing.iter().all(|usage| usage.prepared == 1), "{course:?}");
}

/// Spans in the order in which they were made and closed.
#[derive(Debug, Clone, Default)]
struct Spans(Arc<Mutex<Vec<Told>>>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Told {
    Begun { id: Id, parent: Option<Id>, name: &'static str, fields: BTreeMap<&'static str, String> },
    Closed { id: Id },
    Triggered { checkpoint: u64 },
    Visible { checkpoint: u64 },
}

struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Spans {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: LayerContext<'_, S>) {
        let mut fields = Fields(BTreeMap::new());
        attributes.record(&mut fields);
        let span = context.span(id).unwrap();
        let (parent, name) = (span.parent().map(|parent| parent.id()), span.name());
        self.0.lock().unwrap().push(Told::Begun { id: id.clone(), parent, name, fields: fields.0 });
    }

    fn on_close(&self, id: Id, _: LayerContext<'_, S>) {
        self.0.lock().unwrap().push(Told::Closed { id });
    }
}

/// One thread, so that the subscriber of this test sees every task of it.
#[tokio::test]
async fn a_checkpoint_has_a_span_from_its_trigger_until_it_is_settled() {
    let spans = Spans::default();
    // If there were one subscriber alone, the thread of another test, which has none, could decide that nobody wants a span.
    let _other = tracing::Dispatch::new(tracing_subscriber::registry());
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(spans.clone()));
    let b = Bench::new(Profile::kafka_4_4()).await;
    let heard = spans.clone();
    let observer = Observer::new(move |_, event| match event {
        JobEvent::Triggered { checkpoint, .. } => {
            heard.0.lock().unwrap().push(Told::Triggered { checkpoint: *checkpoint });
        }
        JobEvent::Visible { checkpoint, .. } => {
            heard.0.lock().unwrap().push(Told::Visible { checkpoint: *checkpoint });
        }
        _ => {}
    });
    let mut config = config();
    config.observer = observer;
    let summary = finish(&b, &mut MemoryStore::default(), &job(NARROW, Some(10_000)), &config).await;
    drop(_guard);
    let told = spans.0.lock().unwrap().clone();
    let at = |wanted: &Told| told.iter().position(|told| told == wanted).unwrap();
    let mut whole = 0;
    for (begun, one) in told.iter().enumerate() {
        let Told::Begun { id, parent: None, name: "checkpoint", fields } = one else { continue };
        let checkpoint: u64 = fields["checkpoint"].parse().unwrap();
        assert_eq!(fields["job"], "job");
        assert!(begun < at(&Told::Triggered { checkpoint }));
        // Ids of spans are used again: what counts ends where this one is closed.
        let closed =
            begun + told[begun..].iter().position(|t| *t == Told::Closed { id: id.clone() }).unwrap();
        let mut steps = BTreeMap::new();
        for step in &told[begun..closed] {
            let Told::Begun { parent, name, fields: of, .. } = step else { continue };
            if parent.as_ref() == Some(id) {
                assert_eq!(
                    (&of["job"], &of["checkpoint"]),
                    (&fields["job"], &fields["checkpoint"]),
                    "{name}"
                );
                *steps.entry(*name).or_insert(0) += 1;
            }
        }
        if steps.contains_key("commit") {
            assert_eq!(steps, BTreeMap::from(["prepare", "store", "commit", "settle"].map(|name| (name, 1))));
            let settle = told[begun..closed].iter().find_map(|step| match step {
                Told::Begun { id: settle, name: "settle", parent, .. } if parent.as_ref() == Some(id) => {
                    Some(settle)
                }
                _ => None,
            });
            let end = Told::Closed { id: settle.unwrap().clone() };
            assert!(told[begun..closed].contains(&end), "checkpoint {checkpoint} is closed too early");
            at(&Told::Visible { checkpoint });
            whole += 1;
        }
    }
    assert!(whole >= 3, "{whole} checkpoints with a commit in {summary:?}:\n{told:#?}");
}

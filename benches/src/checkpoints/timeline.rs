//! What a record waits for on its way to readers of committed records.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::Result;
use kafka_2pc::{
    checkpoint::runner::{Context, OperatorError, Pipeline, RunConfig},
    client::{Isolation, Start},
    ids::TopicPartition,
    record::Record,
    source::GeneratorSource,
};
use kafka_2pc_benches::measure::Sample;

use crate::{
    job::{Place, Size, by_key},
    row,
    watch::Life,
};

const PER_SECOND: u32 = 2_000;

pub(crate) async fn measure(place: &Place, size: Size) -> Result<()> {
    for (interval_ms, count) in [(1_000, size.pick(5, 40)), (100, size.pick(20, 200))] {
        println!(
            "timeline: a checkpoint every {interval_ms} ms, {count} of them; 2 sources, 2 operators, 2 sinks, \
             {PER_SECOND} records/s; of several subtasks the last one counts"
        );
        let (lives, waited_ms) = run(place, Duration::from_millis(interval_ms), count).await?;
        let parts = |name: &str, part: &dyn Fn(&Life) -> Option<f64>| {
            row(name, &Sample::new(lives.iter().filter_map(part).collect()));
        };
        let at = |life: &Life, uid: &str| life.barrier.get(uid).copied();
        parts("trigger to barrier at the sources", &|l| Life::ms(Some(l.triggered), at(l, "numbers")));
        parts("to barrier at the operators", &|l| Life::ms(at(l, "numbers"), at(l, "count")));
        parts("to barrier at the sinks", &|l| Life::ms(at(l, "count"), at(l, "out")));
        parts("to prepared (flushed)", &|l| Life::ms(at(l, "out"), l.prepared));
        parts("to the last acknowledgement", &|l| Life::ms(l.prepared, l.acknowledged));
        parts("to durable", &|l| Life::ms(l.acknowledged, l.stored));
        parts("to notified", &|l| Life::ms(l.stored, l.notified));
        parts("to EndTxn answered", &|l| Life::ms(l.notified, l.committed));
        parts("to settled on every partition", &|l| Life::ms(l.committed, l.visible));
        parts("trigger to settled", &|l| Life::ms(Some(l.triggered), l.visible));
        parts("notified to settled", &|l| Life::ms(l.notified, l.visible));
        row("a record, from its making to a reader", &Sample::new(waited_ms));
    }
    Ok(())
}

/// The lives of the checkpoints, and of every record how long it was on its way, in milliseconds.
async fn run(place: &Place, interval: Duration, count: usize) -> Result<(Vec<Life>, Vec<f64>)> {
    let began = Instant::now();
    let make = move |index: u64| {
        Record::value(began.elapsed().as_micros().to_string()).with_key(format!("key-{}", index % 1_000))
    };
    // What a record is told after a restart is another time; this job is not restarted.
    let source = GeneratorSource::new(make).records_per_second(PER_SECOND);
    let pass = || {
        |record: Record, context: &mut Context<'_>| -> Result<(), OperatorError> {
            context.set("1");
            context.emit(record);
            Ok(())
        }
    };
    let pipeline = Pipeline::new("timeline");
    let passed = by_key(pipeline.source("numbers", 2, source)).process("count", 2, pass);
    by_key(passed).sink("out", 2, place.sink()?);
    let mut config = RunConfig::default();
    config.checkpoints.interval = interval;
    let waited = Arc::new(Mutex::new(Vec::new()));
    let lives = tokio::select! {
        lives = place.run(&pipeline, config, count, || true) => lives?,
        ended = read(place, began, &waited) => return ended.map(|()| (Vec::new(), Vec::new())),
    };
    let waited = std::mem::take(&mut *waited.lock().unwrap_or_else(PoisonError::into_inner));
    Ok((lives, waited))
}

/// Reads what is committed from now on, for ever.
async fn read(place: &Place, began: Instant, waited: &Mutex<Vec<f64>>) -> Result<()> {
    let client = place.client()?;
    let topic = client.topic(&place.topic).await?;
    let mut consumer =
        client.consumer().isolation(Isolation::Committed).max_wait(Duration::from_millis(100)).build();
    let all = (0..topic.partitions()).map(|p| TopicPartition::new(place.topic.as_str(), p));
    consumer.assign(all.map(|partition| (partition, Start::End)));
    loop {
        let records = consumer.next_batch().await?;
        let now = began.elapsed();
        let made =
            records.iter().filter_map(|r| std::str::from_utf8(r.record.value.as_deref()?).ok()?.parse().ok());
        let made = made.map(Duration::from_micros);
        let mut waited = waited.lock().unwrap_or_else(PoisonError::into_inner);
        waited.extend(made.map(|made| now.saturating_sub(made).as_secs_f64() * 1e3));
    }
}

//! Checkpoints of a large state by key: written while the subtask waits, or while it goes on.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Result;
use kafka_2pc::{
    checkpoint::runner::{Context, OperatorError, Pipeline, RunConfig, Snapshots},
    record::Record,
    source::GeneratorSource,
};
use kafka_2pc_benches::measure::Sample;

use crate::{
    job::{Place, Size, by_key},
    row,
    watch::Life,
};

const VALUE_BYTES: usize = 1_000;
const PER_SECOND: u32 = 40_000;

/// When records came through.
#[derive(Default)]
struct Traffic {
    passed: AtomicU64,
    pauses: Mutex<Pauses>,
}

#[derive(Default)]
struct Pauses {
    last: Option<Instant>,
    /// Those of more than a millisecond: when they ended, and how long they were.
    long: Vec<(Instant, Duration)>,
}

impl Traffic {
    fn passes(&self) {
        self.passed.fetch_add(1, Ordering::Relaxed);
        let now = Instant::now();
        let mut pauses = self.pauses.lock().unwrap_or_else(PoisonError::into_inner);
        let before = pauses.last.replace(now).map(|last| now - last);
        if let Some(pause) = before.filter(|pause| *pause > Duration::from_millis(1)) {
            pauses.long.push((now, pause));
        }
    }

    /// The longest pause that touches this time.
    fn longest_ms(&self, from: Instant, to: Instant) -> f64 {
        let pauses = self.pauses.lock().unwrap_or_else(PoisonError::into_inner);
        let touching = pauses.long.iter().filter(|(end, pause)| *end >= from && *end - *pause <= to);
        touching.map(|(_, pause)| pause.as_secs_f64() * 1e3).fold(0.0, f64::max)
    }
}

pub(crate) async fn measure(place: &Place, size: Size) -> Result<()> {
    let keys = size.pick(20_000, 100_000);
    println!(
        "state: {keys} keys of {VALUE_BYTES} bytes in one subtask, {PER_SECOND} records/s, checkpoints on disk, {} each",
        size.pick(4, 12)
    );
    for snapshots in [Snapshots::Synchronous, Snapshots::Asynchronous] {
        let (lives, traffic) = run(place, keys, snapshots, size.pick(4, 12)).await?;
        let took = Sample::new(lives.iter().filter_map(Life::took_ms).collect());
        let still = lives.iter().filter_map(|life| Some(traffic.longest_ms(life.triggered, life.stored?)));
        let still = Sample::new(still.collect());
        row(&format!("{snapshots:?}: checkpoint"), &took);
        row(&format!("{snapshots:?}: records stood still"), &still);
    }
    Ok(())
}

async fn run(
    place: &Place,
    keys: u64,
    snapshots: Snapshots,
    count: usize,
) -> Result<(Vec<Life>, Arc<Traffic>)> {
    let traffic = Arc::new(Traffic::default());
    // First every key once, then keys all over the place.
    let key = move |index: u64| if index < keys { index } else { index.wrapping_mul(0x9e37_79b9) % keys };
    let make = move |index: u64| Record::value("").with_key(format!("key-{}", key(index)));
    let (passing, filled) = (Arc::clone(&traffic), Arc::clone(&traffic));
    let update = move || {
        let traffic = Arc::clone(&passing);
        move |record: Record, context: &mut Context<'_>| -> Result<(), OperatorError> {
            traffic.passes();
            let passed = traffic.passed.load(Ordering::Relaxed);
            context.set(vec![passed as u8; VALUE_BYTES]);
            // The sink is not what is measured.
            if passed % 100 == 0 {
                context.emit(record);
            }
            Ok(())
        }
    };
    let pipeline = Pipeline::new("state");
    let numbers =
        pipeline.source("numbers", 1, GeneratorSource::new(make).shards(1).records_per_second(PER_SECOND));
    by_key(by_key(numbers).process("state", 1, update)).sink("out", 1, place.sink()?);
    let mut config = RunConfig::default();
    config.snapshots = snapshots;
    config.checkpoints.interval = Duration::from_millis(800);
    config.checkpoints.min_pause = Duration::from_millis(800);
    let is_filled = move || filled.passed.load(Ordering::Relaxed) >= keys;
    Ok((place.run(&pipeline, config, count, is_filled).await?, traffic))
}

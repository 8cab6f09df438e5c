//! Checkpoints of a job whose operator is slower than its sources: barriers that wait in full queues, or overtake.

use std::time::Duration;

use anyhow::Result;
use kafka_2pc::{
    checkpoint::runner::{Context, OperatorError, Pipeline, RunConfig},
    proto::checkpoint::alignment::Mode,
    record::Record,
    source::GeneratorSource,
};
use kafka_2pc_benches::measure::Sample;

use crate::{
    job::{Place, Size, by_key},
    row,
    watch::Life,
};

const WORK: Duration = Duration::from_micros(300);
const CAPACITY: usize = 1024;

pub(crate) async fn measure(place: &Place, size: Size) -> Result<()> {
    let count = size.pick(4, 15);
    println!(
        "pressure: two sources without a limit, two operators with {WORK:?} of work for each record, queues of \
         {CAPACITY}, {count} checkpoints each"
    );
    let exactly_once = |aligned_timeout| Mode::ExactlyOnce { aligned_timeout };
    for (name, mode) in [
        ("aligned", exactly_once(None)),
        ("aligned, timeout 100 ms", exactly_once(Some(Duration::from_millis(100)))),
        ("unaligned", exactly_once(Some(Duration::ZERO))),
        ("at least once", Mode::AtLeastOnce),
    ] {
        let lives = run(place, mode, count).await?;
        row(&format!("{name}: checkpoint"), &Sample::new(lives.iter().filter_map(Life::took_ms).collect()));
    }
    Ok(())
}

async fn run(place: &Place, mode: Mode, count: usize) -> Result<Vec<Life>> {
    let make = |index: u64| Record::value("some value").with_key(format!("key-{}", index % 1_000));
    let work = || {
        |record: Record, context: &mut Context<'_>| -> Result<(), OperatorError> {
            std::thread::sleep(WORK);
            context.emit(record);
            Ok(())
        }
    };
    let pipeline = Pipeline::new("pressure");
    let numbers = pipeline.source("numbers", 2, GeneratorSource::new(make));
    by_key(by_key(numbers).process("work", 2, work)).sink("out", 1, place.sink()?);
    let mut config = RunConfig::default();
    config.mode = mode;
    config.channel_capacity = CAPACITY;
    config.checkpoints.interval = Duration::from_millis(500);
    config.checkpoints.min_pause = Duration::from_millis(500);
    place.run(&pipeline, config, count, || true).await
}

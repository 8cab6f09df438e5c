//! Checkpoints of a job under back-pressure, of a slow operator or of a slow sink: barriers that wait in full queues, or overtake.

use std::time::Duration;

use anyhow::Result;
use kafka_2pc::{
    checkpoint::runner::{Context, OperatorError, Pipeline, RunConfig, SinkSpec},
    proto::checkpoint::alignment::Mode,
    record::Record,
    source::GeneratorSource,
};
use kafka_2pc_benches::{measure::Sample, options::Options, server::Server};

use crate::{
    job::{Place, Size, by_key},
    row,
    watch::Life,
};

const WORK: Duration = Duration::from_micros(300);
const CAPACITY: usize = 1024;
/// How much later the slow broker answers.
const DELAY: Duration = Duration::from_millis(20);
/// Of the slow sink: it is full all the time, and what a flush has to wait for.
const BUFFER: usize = 1 << 20;
const VALUE: usize = 1_000;

pub(crate) async fn measure(place: &Place, options: &Options, size: Size) -> Result<()> {
    let count = size.pick(4, 15);
    println!(
        "pressure: two sources without a limit, two operators, queues of {CAPACITY}, {count} checkpoints each\n\
         slow operators: {WORK:?} of work for each record\n\
         slow sink: an embedded broker that answers Produce {DELAY:?} later, records of {VALUE} bytes, buffer.memory of \
         {} KiB, requests of {} KiB",
        BUFFER >> 10,
        BUFFER >> 14,
    );
    let operators = Load { place: place.clone(), work: WORK, value: 10 };
    // A cluster that was named is not slowed down.
    let server = Server::slow(options, DELAY)?;
    let slow = Place { bootstrap: server.bootstrap.clone(), topic: options.topic.clone() };
    let sink = Load { place: slow, work: Duration::ZERO, value: VALUE };
    for (what, load) in [("slow operators", operators), ("slow sink", sink)] {
        for (name, mode) in modes() {
            let lives = load.run(mode, count).await?;
            let took = |ms: fn(&Life) -> Option<f64>| Sample::new(lives.iter().filter_map(ms).collect());
            row(&format!("{what}, {name}: checkpoint"), &took(Life::took_ms));
            row("  of that, until it is at the sink", &took(Life::at_sink_ms));
            row("  and the flush", &took(Life::flush_ms));
        }
    }
    Ok(())
}

fn modes() -> [(&'static str, Mode); 4] {
    let exactly_once = |aligned_timeout| Mode::ExactlyOnce { aligned_timeout };
    [
        ("aligned", exactly_once(None)),
        ("aligned, timeout 100 ms", exactly_once(Some(Duration::from_millis(100)))),
        ("unaligned", exactly_once(Some(Duration::ZERO))),
        ("at least once", Mode::AtLeastOnce),
    ]
}

/// What is slow.
struct Load {
    place: Place,
    work: Duration,
    value: usize,
}

impl Load {
    fn sink(&self) -> Result<SinkSpec> {
        let mut sink = self.place.sink()?;
        if self.work.is_zero() {
            sink.config.buffer_bytes = BUFFER;
            sink.config.batch_bytes = BUFFER >> 6;
            sink.config.request_bytes = BUFFER >> 4;
        }
        Ok(sink)
    }

    async fn run(&self, mode: Mode, count: usize) -> Result<Vec<Life>> {
        let value = "v".repeat(self.value);
        let make = move |index: u64| Record::value(value.clone()).with_key(format!("key-{}", index % 1_000));
        let work = self.work;
        let operator = move || {
            move |record: Record, context: &mut Context<'_>| -> Result<(), OperatorError> {
                if !work.is_zero() {
                    std::thread::sleep(work);
                }
                context.emit(record);
                Ok(())
            }
        };
        let pipeline = Pipeline::new("pressure");
        let numbers = pipeline.source("numbers", 2, GeneratorSource::new(make));
        by_key(by_key(numbers).process("work", 2, operator)).sink("out", 1, self.sink()?);
        let mut config = RunConfig::default();
        config.mode = mode;
        config.channel_capacity = CAPACITY;
        config.checkpoints.interval = Duration::from_millis(500);
        config.checkpoints.min_pause = Duration::from_millis(500);
        self.place.run(&pipeline, config, count, || true).await
    }
}

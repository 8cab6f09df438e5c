//! librdkafka through rust-rdkafka.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow};
use kafka_2pc_bench_child::{Job, Outcome, Stopwatch, values};
use rdkafka::{
    ClientConfig,
    error::{KafkaError, RDKafkaErrorCode},
    producer::{BaseProducer, BaseRecord, FutureProducer, FutureRecord, Producer},
};

const PATIENCE: Duration = Duration::from_secs(60);
/// Delivery reports are looked at so often, in records.
const POLL_EVERY: u64 = 1024;
/// So many futures are held.
const FUTURES: usize = 100_000;

fn config(job: &Job) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", &job.bootstrap)
        .set("enable.idempotence", "true")
        .set("acks", "all")
        .set("batch.size", job.batch_bytes.to_string())
        .set("linger.ms", job.linger.as_millis().to_string())
        .set("message.max.bytes", job.request_bytes().to_string())
        .set("queue.buffering.max.kbytes", (job.buffer_bytes / 1024).to_string())
        // Bytes are the limits, as for the others.
        .set("queue.buffering.max.messages", "10000000")
        .set("batch.num.messages", "1000000")
        .set("max.in.flight.requests.per.connection", job.in_flight.to_string())
        .set("compression.codec", job.codec.to_string());
    config
}

/// Connects, and writes a record to each partition.
fn warm(producer: &BaseProducer, job: &Job) -> Result<()> {
    for partition in 0..job.partitions {
        send(producer, job, partition, b"warm")?;
    }
    drain(producer)
}

fn send(producer: &BaseProducer, job: &Job, partition: i32, value: &[u8]) -> Result<()> {
    let mut record = BaseRecord::<(), [u8]>::to(&job.topic).payload(value).partition(partition);
    loop {
        record = match producer.send(record) {
            Ok(()) => return Ok(()),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), record)) => record,
            Err((error, _)) => return Err(error.into()),
        };
        producer.poll(Duration::from_millis(10));
    }
}

/// Serves reports until none is missing, without the slices of 100 ms of the safe `flush`.
fn drain(producer: &BaseProducer) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while producer.in_flight_count() > 0 {
        producer.poll(Duration::from_millis(1));
        anyhow::ensure!(Instant::now() < deadline, "records are not acknowledged");
    }
    Ok(())
}

pub(crate) fn base(job: &Job) -> Result<Outcome> {
    let producer: BaseProducer = config(job).create()?;
    warm(&producer, job)?;
    let values = values(job.record_bytes);
    let watch = Stopwatch::start();
    for (n, value) in (0..job.records).zip(values.iter().cycle()) {
        send(&producer, job, job.partition(n), value)?;
        if n % POLL_EVERY == 0 {
            producer.poll(Duration::ZERO);
        }
    }
    drain(&producer)?;
    Ok(watch.stop().records(job.records))
}

pub(crate) async fn future(job: &Job) -> Result<Outcome> {
    let producer: FutureProducer = config(job).create()?;
    let values = values(job.record_bytes);
    let mut deliveries = VecDeque::new();
    let mut watch = Stopwatch::start();
    // The first round is one record a partition, and does not count.
    for records in [job.partitions.unsigned_abs().into(), job.records] {
        watch = Stopwatch::start();
        for (n, value) in (0..records).zip(values.iter().cycle()) {
            let mut record =
                FutureRecord::<(), [u8]>::to(&job.topic).payload(value).partition(job.partition(n));
            while let Err((error, back)) = producer.send_result(record).map(|d| deliveries.push_back(d)) {
                let KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull) = error else {
                    return Err(error.into());
                };
                record = back;
                deliveries.pop_front().context("full without records")?.await?.map_err(|(e, _)| e)?;
            }
            if deliveries.len() > FUTURES {
                deliveries.pop_front().context("there is one")?.await?.map_err(|(e, _)| e)?;
            }
        }
        for delivery in deliveries.drain(..) {
            delivery.await?.map_err(|(e, _)| anyhow!(e))?;
        }
    }
    Ok(watch.stop().records(job.records))
}

/// `raw` serves the reports itself before the commit, so that the wrapper's flush finds nothing to wait for in its slices of
/// 100 ms; `safe` calls the wrapper and nothing else.
pub(crate) fn transactions(job: &Job) -> Result<Outcome> {
    let mut config = config(job);
    config.set("transactional.id", format!("peer-{}", std::process::id()));
    if job.client == "raw" {
        // Nothing of a transaction waits for more records when its commit is called.
        config.set("linger.ms", "0");
    }
    let producer: BaseProducer = config.create()?;
    producer.init_transactions(PATIENCE)?;
    let values = values(job.record_bytes);
    let mut watch = Stopwatch::start();
    let mut times = Vec::new();
    for transaction in 0..=job.transactions {
        if transaction == 1 {
            watch = Stopwatch::start();
            times.clear();
        }
        let began = Instant::now();
        producer.begin_transaction()?;
        for (n, value) in (0..job.records).zip(values.iter().cycle()) {
            send(&producer, job, job.partition(n), value)?;
        }
        if job.client == "raw" {
            drain(&producer)?;
        }
        producer.commit_transaction(PATIENCE)?;
        times.push(began.elapsed());
    }
    let outcome = watch.stop().records(job.records * job.transactions).transactions(job.transactions);
    Ok(outcome.timed("transaction", times))
}

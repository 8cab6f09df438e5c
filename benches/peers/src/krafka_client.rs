//! krafka.

use std::time::Instant;

use anyhow::Result;
use bytes::Bytes;
use kafka_2pc_bench_child::{Codec, Job, Outcome, Stopwatch, values};
use krafka::{
    Compression, Kafka, Record,
    producer::{Acks, ProducerBuilder},
};

async fn builder(job: &Job) -> Result<ProducerBuilder> {
    let kafka = Kafka::builder(job.bootstrap.clone()).connect().await?;
    let compression = match job.codec {
        Codec::None => Compression::None,
        Codec::Lz4 => Compression::Lz4,
    };
    Ok(kafka
        .producer()
        .acks(Acks::All)
        .batch_size(job.batch_bytes)
        .linger(job.linger)
        .buffer_memory(job.buffer_bytes)
        .max_request_size(job.request_bytes())
        .compression(compression))
}

/// Values that are owned already, which saves this client a copy.
fn owned(job: &Job) -> Vec<Bytes> {
    values(job.record_bytes).into_iter().map(Bytes::from).collect()
}

fn record(job: &Job, n: u64, value: &Bytes) -> Record {
    Record::new(job.topic.as_str(), value.clone()).partition(job.partition(n))
}

pub(crate) async fn produce(job: &Job) -> Result<Outcome> {
    let producer = builder(job).await?.build().await?;
    let values = owned(job);
    let mut watch = Stopwatch::start();
    // The first round is one record a partition, and does not count.
    for records in [job.partitions.unsigned_abs().into(), job.records] {
        watch = Stopwatch::start();
        for (n, value) in (0..records).zip(values.iter().cycle()) {
            // The broker counts what arrives.
            drop(producer.enqueue(record(job, n, value)).await?);
        }
        producer.flush().await?;
    }
    Ok(watch.stop().records(job.records))
}

pub(crate) async fn transactions(job: &Job) -> Result<Outcome> {
    let id = format!("peer-{}", std::process::id());
    let producer = builder(job).await?.build_transactional(id).await?;
    let values = owned(job);
    let mut watch = Stopwatch::start();
    let mut times = Vec::new();
    for transaction in 0..=job.transactions {
        if transaction == 1 {
            watch = Stopwatch::start();
            times.clear();
        }
        let began = Instant::now();
        producer.begin()?;
        for (n, value) in (0..job.records).zip(values.iter().cycle()) {
            drop(producer.enqueue(record(job, n, value)).await?);
        }
        producer.commit().await?;
        times.push(began.elapsed());
    }
    let outcome = watch.stop().records(job.records * job.transactions).transactions(job.transactions);
    Ok(outcome.timed("transaction", times))
}

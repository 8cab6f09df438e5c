//! rskafka: no batching of its own and not idempotent, so batches are made by hand.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::Result;
use kafka_2pc_bench_child::{Job, Outcome, Stopwatch, values};
use rskafka::{
    chrono::{DateTime, Utc},
    client::{
        ClientBuilder,
        partition::{Compression, PartitionClient, UnknownTopicHandling},
    },
    record::Record,
};
use tokio::task::JoinSet;

/// What a record takes in a batch beside its value, about.
const OVERHEAD: usize = 10;

pub(crate) async fn produce(job: &Job) -> Result<Outcome> {
    let client = ClientBuilder::new(vec![job.bootstrap.clone()]).build().await?;
    let mut partitions = Vec::new();
    for partition in 0..job.partitions {
        let handling = UnknownTopicHandling::Error;
        partitions.push(Arc::new(client.partition_client(job.topic.clone(), partition, handling).await?));
    }
    let values = values(job.record_bytes);
    for partition in &partitions {
        partition.produce(vec![record(b"warm", now())], Compression::NoCompression).await?;
    }
    let watch = Stopwatch::start();
    send(job, &partitions, &values).await?;
    Ok(watch.stop().records(job.records))
}

async fn send(job: &Job, partitions: &[Arc<PartitionClient>], values: &[Vec<u8>]) -> Result<()> {
    let full = (job.batch_bytes / (job.record_bytes + OVERHEAD)).max(1);
    let mut open: Vec<Vec<Record>> = partitions.iter().map(|_| Vec::new()).collect();
    let mut sending = JoinSet::new();
    let mut timestamp = now();
    for (n, value) in (0..job.records).zip(values.iter().cycle()) {
        let at = usize::try_from(job.partition(n))?;
        open[at].push(record(value, timestamp));
        if open[at].len() < full {
            continue;
        }
        if sending.len() >= job.in_flight {
            sent(&mut sending).await?;
        }
        let (partition, batch) = (Arc::clone(&partitions[at]), std::mem::take(&mut open[at]));
        sending.spawn(async move { partition.produce(batch, Compression::NoCompression).await });
        timestamp = now();
    }
    for (partition, batch) in partitions.iter().zip(open) {
        partition.produce(batch, Compression::NoCompression).await?;
    }
    while !sending.is_empty() {
        sent(&mut sending).await?;
    }
    Ok(())
}

async fn sent(sending: &mut JoinSet<rskafka::client::error::Result<Vec<i64>>>) -> Result<()> {
    if let Some(done) = sending.join_next().await {
        done??;
    }
    Ok(())
}

fn record(value: &[u8], timestamp: DateTime<Utc>) -> Record {
    Record { key: None, value: Some(value.to_vec()), headers: BTreeMap::new(), timestamp }
}

fn now() -> DateTime<Utc> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    DateTime::from_timestamp_millis(i64::try_from(since.as_millis()).unwrap_or(0)).unwrap_or_default()
}

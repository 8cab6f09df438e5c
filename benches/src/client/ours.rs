//! Our client, records without transactions and whole transactions.

use std::time::{Duration, Instant};

use anyhow::Result;
use kafka_2pc::{
    client::{Client, ClientConfig, Producer, ProducerBuilder, Topic, Transaction, TransactionalProducer},
    ids::TransactionalId,
    record::{Compression, RecordRef},
};
use kafka_2pc_bench_child::{Codec, Job, Outcome, Stopwatch, values};

/// A client with the job's settings.
pub(crate) struct Ours<'a> {
    pub(crate) job: &'a Job,
    pub(crate) client: Client,
    pub(crate) topic: Topic,
    values: Vec<Vec<u8>>,
}

impl<'a> Ours<'a> {
    pub(crate) async fn connect(job: &'a Job) -> Result<Self> {
        let client = Client::new(ClientConfig::new(&job.bootstrap)?);
        let topic = client.topic(&job.topic).await?;
        Ok(Self { job, client, topic, values: values(job.record_bytes) })
    }

    pub(crate) fn builder(&self, id: impl Into<String>) -> ProducerBuilder {
        let job = self.job;
        self.client
            .transactional_producer(TransactionalId::new(id.into()))
            .batch_size(job.batch_bytes)
            .linger(job.linger)
            .buffer_memory(job.buffer_bytes)
            .max_request_size(job.request_bytes())
            .max_in_flight(job.in_flight)
            .compression(compression(job))
    }

    /// A producer without transactions.
    fn producer(&self) -> Producer {
        let job = self.job;
        self.client
            .idempotent_producer()
            .batch_size(job.batch_bytes)
            .linger(job.linger)
            .buffer_memory(job.buffer_bytes)
            .max_request_size(job.request_bytes())
            .max_in_flight(job.in_flight)
            .compression(compression(job))
            .start()
    }

    /// Writes this many records without a transaction, and waits until they are acknowledged.
    async fn produce(&self, producer: &Producer, records: u64) -> Result<()> {
        for (n, value) in (0..records).zip(self.values.iter().cycle()) {
            producer.send(&self.topic, Some(self.job.partition(n)), RecordRef::value(value)).await?;
        }
        Ok(producer.flush().await?)
    }

    /// Writes this many records.
    pub(crate) async fn write(&self, transaction: &mut Transaction, records: u64) -> Result<()> {
        for (n, value) in (0..records).zip(self.values.iter().cycle()) {
            transaction.send(&self.topic, Some(self.job.partition(n)), RecordRef::value(value)).await?;
        }
        Ok(())
    }

    /// A transaction, and how long it took.
    async fn transaction(
        &self,
        producer: TransactionalProducer,
    ) -> Result<(TransactionalProducer, Duration)> {
        let began = Instant::now();
        let mut transaction = producer.begin();
        self.write(&mut transaction, self.job.records).await?;
        let producer = transaction.commit().await?;
        Ok((producer, began.elapsed()))
    }
}

pub(crate) fn own_id(number: u64) -> String {
    format!("bench-{}-{number}", std::process::id())
}

fn compression(job: &Job) -> Compression {
    match job.codec {
        Codec::None => Compression::None,
        Codec::Lz4 => Compression::Lz4,
    }
}

/// Without transactions, as the others.
pub(crate) async fn produce(job: &Job) -> Result<Outcome> {
    let ours = Ours::connect(job).await?;
    let producer = ours.producer();
    ours.produce(&producer, job.partitions.unsigned_abs().into()).await?;
    let watch = Stopwatch::start();
    ours.produce(&producer, job.records).await?;
    let outcome = watch.stop().records(job.records);
    producer.close().await?;
    Ok(outcome)
}

pub(crate) async fn transactions(job: &Job) -> Result<Outcome> {
    let ours = Ours::connect(job).await?;
    let mut producer = ours.builder(own_id(0)).init().await?;
    let mut watch = Stopwatch::start();
    let mut times = Vec::new();
    for number in 0..=job.transactions {
        if number == 1 {
            watch = Stopwatch::start();
            times.clear();
        }
        let took;
        (producer, took) = ours.transaction(producer).await?;
        times.push(took);
    }
    let outcome = watch.stop().records(job.records * job.transactions).transactions(job.transactions);
    Ok(outcome.timed("transaction", times))
}

/// Under two ids: while a transaction of one is written, the other one gets the identity of the next.
pub(crate) async fn turns(job: &Job) -> Result<Outcome> {
    let ours = Ours::connect(job).await?;
    let mut ready = ours.builder(own_id(0)).init().await?;
    let mut used = ours.builder(own_id(1)).init().await?;
    let mut watch = Stopwatch::start();
    let mut times = Vec::new();
    for number in 0..job.transactions + 2 {
        // By then both ids were used once.
        if number == 2 {
            watch = Stopwatch::start();
            times.clear();
        }
        let prefetched = async { used.prefetch().await.map_err(anyhow::Error::from) };
        let ((committed, took), ()) = tokio::try_join!(ours.transaction(ready), prefetched)?;
        times.push(took);
        (ready, used) = (used, committed);
    }
    let outcome = watch.stop().records(job.records * job.transactions).transactions(job.transactions);
    Ok(outcome.timed("transaction", times))
}

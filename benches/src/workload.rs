//! The two workloads: many records, and many small transactions.
//!
//! Both write through the public client as a sink does: an id from a pool, prepare, commit by a resume of the
//! committable, settled, and the id back to the pool with the pair that the commit returned.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use kafka_2pc::{
    client::{Client, ClientConfig, Prepared, ProducerBuilder, Topic, TransactionalProducer},
    ids::TransactionalId,
    proto::{
        committable::Committable,
        settle::{SETTLE_PATIENCE, SettleTarget},
    },
    record::RecordRef,
};
use kafka_2pc_bench_child::values;

use crate::{
    measure::{Sample, cpu_time},
    options::Options,
};

const POOL: usize = 4;

/// A connected client, a pool of ids, and values to write.
#[derive(Debug)]
pub struct Bench {
    client: Client,
    topic: Topic,
    options: Options,
    pool: VecDeque<TransactionalProducer>,
    values: Vec<Vec<u8>>,
}

/// What the throughput workload gave, one value a round.
#[derive(Debug, Clone)]
pub struct Throughput {
    /// Records a second, from the first record until the last commit is settled.
    pub records_per_second: Sample,
    /// Processor seconds of this process, by million records.
    pub cpu_seconds_per_million: Sample,
}

/// What the latency workload gave, in milliseconds, one value a transaction.
#[derive(Debug, Clone, Default)]
pub struct Latency {
    /// From the call of prepare to the committable: the records are written, sent and acknowledged in it.
    pub prepare_ms: Sample,
    /// From the call of commit to its outcome.
    pub commit_ms: Sample,
    /// From the call of commit until the decision is seen on every partition.
    pub settled_ms: Sample,
}

/// The moments of one transaction.
struct Spent {
    prepare: Duration,
    commit: Duration,
    settled: Duration,
}

impl Bench {
    /// Connects, and initializes the ids of the pool.
    ///
    /// # Errors
    /// No broker, no topic, or no right.
    pub async fn new(bootstrap: &str, options: Options) -> Result<Self> {
        let client = Client::new(ClientConfig::new(bootstrap)?);
        let topic = client.topic(&options.topic).await?;
        let mut bench =
            Self { client, topic, values: values(options.record_bytes), options, pool: VecDeque::new() };
        for number in 0..POOL {
            let id = TransactionalId::new(format!("bench-{}-{number}", std::process::id()));
            let producer = bench.builder(&id).init().await?;
            bench.pool.push_back(producer);
        }
        Ok(bench)
    }

    /// Partitions of the topic.
    #[must_use]
    pub fn partitions(&self) -> i32 {
        self.topic.partitions()
    }

    /// Runs the throughput workload; the first round warms up and does not count.
    ///
    /// # Errors
    /// A transaction did not get committed.
    pub async fn throughput(&mut self) -> Result<Throughput> {
        let (mut rates, mut cpu) = (Vec::new(), Vec::new());
        for round in 0..=self.options.rounds {
            let (start, cpu_start) = (Instant::now(), cpu_time());
            let mut left = self.options.records;
            while left > 0 {
                let records = left.min(self.options.transaction_records);
                self.transaction(records).await?;
                left -= records;
            }
            let (wall, used) = (start.elapsed(), cpu_time() - cpu_start);
            if round > 0 {
                let records = self.options.records as f64;
                rates.push(records / wall.as_secs_f64());
                cpu.push(used.as_secs_f64() / records * 1e6);
            }
        }
        Ok(Throughput { records_per_second: Sample::new(rates), cpu_seconds_per_million: Sample::new(cpu) })
    }

    /// Runs the latency workload.
    ///
    /// # Errors
    /// A transaction did not get committed.
    pub async fn latency(&mut self) -> Result<Latency> {
        let (mut prepare, mut commit, mut settled) = (Vec::new(), Vec::new(), Vec::new());
        let milliseconds = |time: Duration| time.as_secs_f64() * 1000.0;
        for _ in 0..self.options.transactions {
            let spent = self.transaction(self.options.small_records).await?;
            prepare.push(milliseconds(spent.prepare));
            commit.push(milliseconds(spent.commit));
            settled.push(milliseconds(spent.settled));
        }
        Ok(Latency {
            prepare_ms: Sample::new(prepare),
            commit_ms: Sample::new(commit),
            settled_ms: Sample::new(settled),
        })
    }

    /// One transaction from its first record until it is settled.
    async fn transaction(&mut self, records: u64) -> Result<Spent> {
        let producer = self.pool.pop_front().context("the pool is empty")?;
        let mut transaction = producer.begin();
        let mut partition = 0;
        for value in self.values.iter().cycle().zip(0..records).map(|(value, _)| value) {
            transaction.send(&self.topic, Some(partition), RecordRef::value(value)).await?;
            partition = if partition + 1 < self.topic.partitions() { partition + 1 } else { 0 };
        }
        let start = Instant::now();
        let Prepared::Ready(committable) = transaction.prepare().await? else {
            bail!("nothing was prepared")
        };
        let prepare = start.elapsed();
        let (commit, settled) = self.commit(committable).await?;
        Ok(Spent { prepare, commit, settled })
    }

    async fn commit(&mut self, committable: Committable) -> Result<(Duration, Duration)> {
        let start = Instant::now();
        let resumed = self.client.resume(committable.clone()).commit().await?;
        let commit = start.elapsed();
        let Some(target) = SettleTarget::from_outcome(&committable, &resumed.outcome) else {
            bail!("not committed: {:?}", resumed.outcome);
        };
        self.client.settle(target, SETTLE_PATIENCE).await?;
        let settled = start.elapsed();
        let builder = self.builder(&committable.transactional_id);
        self.pool.push_back(match resumed.next {
            Some(identity) => builder.returned(identity),
            None => {
                let mut producer = builder.used(committable.identity);
                producer.prefetch().await?;
                producer
            }
        });
        Ok((commit, settled))
    }

    fn builder(&self, id: &TransactionalId) -> ProducerBuilder {
        self.client.transactional_producer(id.clone()).compression(self.options.compression)
    }
}

#[cfg(test)]
mod tests {
    use kafka_2pc::broker::{Broker, BrokerConfig};

    use super::*;

    #[tokio::test]
    async fn both_workloads_run_on_the_embedded_broker() {
        let broker = Broker::start(BrokerConfig::default()).await.unwrap();
        broker.create_topic("bench", 2).unwrap();
        let options = Options {
            records: 300,
            transaction_records: 100,
            rounds: 2,
            transactions: 3,
            ..Options::default()
        };
        let mut bench = Bench::new(&broker.bootstrap(), options).await.unwrap();
        assert_eq!(bench.partitions(), 2);
        assert!(bench.throughput().await.unwrap().records_per_second.min() > 0.0);
        let latency = bench.latency().await.unwrap();
        assert!(latency.settled_ms.min() >= latency.commit_ms.min());
        broker.stop().await;
    }
}

//! What a client is told to do, and with which settings.

use std::{fmt, str::FromStr, time::Duration};

use anyhow::{Context, Result, bail};

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workload {
    /// Records, as many a second as the client can, until all are acknowledged.
    Produce,
    /// Transactions, one after the other, begin to commit.
    Transactions,
    /// The same under two ids in turn: that of the next one is got ready meanwhile. Who needs no new identity for a
    /// transaction writes them all under one.
    Turns,
    /// From a barrier to the committable, with a batch acknowledged before the barrier and without.
    Prepare,
    /// From a decision on a committable to its outcome, with the coordinator known and unknown.
    Resume,
    /// Many committables of one checkpoint at once, and one by one.
    FanOut,
    /// The first records of a transaction whose id was ready, right after a prepare.
    HandOver,
    /// Transactions under a pool of ids, the next one begun while the last is committed.
    Pool,
    /// A job on the runner, from a generator to a topic, with a checkpoint every 500 ms.
    Sink,
}

/// `compression.type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    /// `none`.
    None,
    /// `lz4`.
    Lz4,
}

/// Where asynchronous clients run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runtime {
    /// One thread, which also makes the records.
    Current,
    /// A worker for each core.
    Multi,
}

/// A workload and its settings, with Kafka's names where it has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Which of the clients that a program knows.
    pub client: String,
    /// What is measured.
    pub workload: Workload,
    /// `bootstrap.servers`.
    pub bootstrap: String,
    /// The topic.
    pub topic: String,
    /// Its partitions; records go to them in turn.
    pub partitions: i32,
    /// Records, of each transaction where there are several.
    pub records: u64,
    /// Bytes of a value.
    pub record_bytes: usize,
    /// Transactions, after one that does not count.
    pub transactions: u64,
    /// `batch.size`.
    pub batch_bytes: usize,
    /// `linger.ms`.
    pub linger: Duration,
    /// `buffer.memory`.
    pub buffer_bytes: usize,
    /// `max.in.flight.requests.per.connection`.
    pub in_flight: usize,
    /// `compression.type`.
    pub codec: Codec,
    /// Where asynchronous clients run.
    pub runtime: Runtime,
    /// How fast records are made; 0 for as fast as they are taken.
    pub per_second: u32,
}

impl Default for Job {
    fn default() -> Self {
        Self {
            client: String::new(),
            workload: Workload::Produce,
            bootstrap: String::new(),
            topic: "bench".into(),
            partitions: 1,
            records: 1_000_000,
            record_bytes: 100,
            transactions: 100,
            batch_bytes: 128 * 1024,
            linger: Duration::from_millis(5),
            buffer_bytes: 32 << 20,
            in_flight: 5,
            codec: Codec::None,
            runtime: Runtime::Current,
            per_second: 0,
        }
    }
}

impl Job {
    /// Reads the words of a command line, as [`words`](Self::words) writes them.
    ///
    /// # Errors
    /// An option that there is not, or a value that does not fit.
    pub fn parse(words: impl IntoIterator<Item = String>) -> Result<Self> {
        let mut job = Self::default();
        let mut words = words.into_iter();
        while let Some(name) = words.next() {
            let value = words.next().with_context(|| format!("{name}: its value is missing"))?;
            job.set(&name, value).with_context(|| name.clone())?;
        }
        Ok(job)
    }

    fn set(&mut self, name: &str, value: String) -> Result<()> {
        match name {
            "--client" => self.client = value,
            "--workload" => self.workload = value.parse()?,
            "--bootstrap" => self.bootstrap = value,
            "--topic" => self.topic = value,
            "--partitions" => self.partitions = number::<i32>(&value)?.max(1),
            "--records" => self.records = number(&value)?,
            "--record-bytes" => self.record_bytes = number(&value)?,
            "--transactions" => self.transactions = number(&value)?,
            "--batch-bytes" => self.batch_bytes = number(&value)?,
            "--linger-ms" => self.linger = Duration::from_millis(number(&value)?),
            "--buffer-bytes" => self.buffer_bytes = number(&value)?,
            "--in-flight" => self.in_flight = number(&value)?,
            "--codec" => self.codec = value.parse()?,
            "--per-second" => self.per_second = number(&value)?,
            "--runtime" => self.runtime = value.parse()?,
            _ => bail!("no such option"),
        }
        Ok(())
    }

    /// The words of a command line that say this job.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let pairs = [
            ("--client", self.client.clone()),
            ("--workload", self.workload.to_string()),
            ("--bootstrap", self.bootstrap.clone()),
            ("--topic", self.topic.clone()),
            ("--partitions", self.partitions.to_string()),
            ("--records", self.records.to_string()),
            ("--record-bytes", self.record_bytes.to_string()),
            ("--transactions", self.transactions.to_string()),
            ("--batch-bytes", self.batch_bytes.to_string()),
            ("--linger-ms", self.linger.as_millis().to_string()),
            ("--buffer-bytes", self.buffer_bytes.to_string()),
            ("--in-flight", self.in_flight.to_string()),
            ("--codec", self.codec.to_string()),
            ("--per-second", self.per_second.to_string()),
            ("--runtime", self.runtime.to_string()),
        ];
        pairs.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect()
    }

    /// `max.request.size`: a batch and what is around it fits.
    #[must_use]
    pub fn request_bytes(&self) -> usize {
        (1 << 20).max(self.batch_bytes + 64 * 1024)
    }

    /// The partition of the record of this number.
    #[must_use]
    pub fn partition(&self, record: u64) -> i32 {
        i32::try_from(record % u64::from(self.partitions.unsigned_abs())).unwrap_or(0)
    }
}

fn number<T: FromStr<Err: std::error::Error + Send + Sync + 'static>>(text: &str) -> Result<T> {
    text.parse().with_context(|| format!("{text}: not a number that fits"))
}

/// Names of an enum's values, in both directions.
macro_rules! names {
    ($type:ty, $($value:path = $name:literal),+) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $($value => $name),+ })
            }
        }

        impl FromStr for $type {
            type Err = anyhow::Error;

            fn from_str(text: &str) -> Result<Self> {
                match text { $($name => Ok($value),)+ _ => bail!("{text}: not one of {}", [$($name),+].join(", ")) }
            }
        }
    };
}

names!(
    Workload,
    Workload::Produce = "produce",
    Workload::Transactions = "transactions",
    Workload::Turns = "turns",
    Workload::Prepare = "prepare",
    Workload::Resume = "resume",
    Workload::FanOut = "fan-out",
    Workload::HandOver = "hand-over",
    Workload::Pool = "pool",
    Workload::Sink = "sink"
);
names!(Codec, Codec::None = "none", Codec::Lz4 = "lz4");
names!(Runtime, Runtime::Current = "current", Runtime::Multi = "multi");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let job = Job {
            client: "x".into(),
            workload: Workload::FanOut,
            bootstrap: "a:1".into(),
            topic: "t".into(),
            partitions: 12,
            records: 3,
            record_bytes: 4,
            transactions: 5,
            batch_bytes: 6,
            linger: Duration::from_millis(7),
            buffer_bytes: 8,
            in_flight: 2,
            codec: Codec::Lz4,
            runtime: Runtime::Multi,
            per_second: 9,
        };
        assert_eq!(Job::parse(job.words()).unwrap(), job);
        assert_ne!(job, Job::default());
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (line, word) in
            [("--what 1", "--what"), ("--records", "missing"), ("--records x", "x"), ("--codec gzip", "lz4")]
        {
            let error = Job::parse(line.split(' ').map(str::to_owned)).unwrap_err();
            assert!(format!("{error:#}").contains(word), "{line}");
        }
    }

    #[test]
    fn records_go_to_partitions_in_turn() {
        let job = Job { partitions: 3, ..Job::default() };
        assert_eq!((0..5).map(|n| job.partition(n)).collect::<Vec<_>>(), [0, 1, 2, 0, 1]);
    }
}

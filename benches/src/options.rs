//! The options of `bench-transactions`.

use std::str::FromStr;

use anyhow::{Context, Result, bail};

/// How to call it.
pub const USAGE: &str = "\
usage: bench-transactions [OPTIONS]

  --bootstrap HOST:PORT,..   the cluster; without it, an embedded broker in a process of its own
  --profile NAME             of the embedded broker: kafka-4.4, kafka-4.4-v1  (kafka-4.4)
  --topic NAME               must exist on a cluster that was named  (bench)
  --partitions N             of the embedded broker's topic  (3)
  --records N                of one round of the throughput workload  (300000)
  --record-bytes N           size of a value  (100)
  --transaction-records N    records of one transaction in the throughput workload  (50000)
  --rounds N                 rounds, after one that is not counted  (7)
  --transactions N           transactions of the latency workload; 0 leaves it out  (200)
  --small-records N          records of one transaction in the latency workload  (100)
  --compression none|gzip|snappy|lz4|zstd  (none)
  --json                     the last line is one JSON object";

/// What to measure, and where.
#[derive(Debug, Clone)]
pub struct Options {
    /// The cluster; `None` for an embedded broker.
    pub bootstrap: Option<String>,
    /// Which Kafka the embedded broker imitates.
    pub profile: String,
    /// The topic.
    pub topic: String,
    /// Partitions of the embedded broker's topic.
    pub partitions: i32,
    /// Records of one round.
    pub records: u64,
    /// Bytes of a value.
    pub record_bytes: usize,
    /// Records of a transaction of the throughput workload.
    pub transaction_records: u64,
    /// Rounds that count.
    pub rounds: usize,
    /// Transactions of the latency workload.
    pub transactions: usize,
    /// Records of a transaction of the latency workload.
    pub small_records: u64,
    /// `compression.type`.
    pub compression: kafka_2pc::record::Compression,
    /// How results are printed.
    pub output: Output,
}

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// Lines for people.
    Text,
    /// One object at the end.
    Json,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            bootstrap: None,
            profile: "kafka-4.4".into(),
            topic: "bench".into(),
            partitions: 3,
            records: 300_000,
            record_bytes: 100,
            transaction_records: 50_000,
            rounds: 7,
            transactions: 200,
            small_records: 100,
            compression: kafka_2pc::record::Compression::None,
            output: Output::Text,
        }
    }
}

impl Options {
    /// Reads the words of a command line.
    ///
    /// # Errors
    /// An unknown option, or a value that is missing or out of range.
    pub fn parse(words: impl IntoIterator<Item = String>) -> Result<Self> {
        let mut options = Self::default();
        let mut words = words.into_iter();
        while let Some(name) = words.next() {
            if name == "--json" {
                options.output = Output::Json;
                continue;
            }
            let value =
                words.next().with_context(|| format!("{name}: no such option, or its value is missing"))?;
            options.set(&name, value).with_context(|| name.clone())?;
        }
        if options.records == 0 || options.transaction_records == 0 || options.rounds == 0 {
            bail!("--records, --transaction-records and --rounds must be above 0");
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: String) -> Result<()> {
        match name {
            "--bootstrap" => self.bootstrap = Some(value),
            "--profile" => self.profile = value,
            "--topic" => self.topic = value,
            "--partitions" => self.partitions = number(&value)?,
            "--records" => self.records = number(&value)?,
            "--record-bytes" => self.record_bytes = number(&value)?,
            "--transaction-records" => self.transaction_records = number(&value)?,
            "--rounds" => self.rounds = number(&value)?,
            "--transactions" => self.transactions = number(&value)?,
            "--small-records" => self.small_records = number::<u64>(&value)?.max(1),
            "--compression" => {
                self.compression = value.parse().with_context(|| value.clone())?;
            }
            _ => bail!("no such option"),
        }
        Ok(())
    }
}

fn number<T: FromStr<Err: std::error::Error + Send + Sync + 'static>>(text: &str) -> Result<T> {
    text.parse().with_context(|| format!("{text}: not a number that fits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options> {
        Options::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn every_option_is_read() {
        let options = parse("--records 7 --compression lz4 --json --bootstrap a:1").unwrap();
        assert_eq!((options.records, options.output), (7, Output::Json));
        assert_eq!(options.bootstrap.as_deref(), Some("a:1"));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (line, word) in [
            ("--what 1", "--what"),
            ("--records", "--records"),
            ("--records x", "x"),
            ("--rounds 0", "above 0"),
        ] {
            assert!(format!("{:#}", parse(line).unwrap_err()).contains(word), "{line}");
        }
    }
}

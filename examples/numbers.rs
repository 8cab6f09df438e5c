//! A job that lasts: numbered records, as fast as their reader follows, into a topic, with a transaction every 100 ms.
//!
//! ```text
//! cargo run --example numbers -- --bootstrap localhost:9092 --topic numbers --state ./numbers --seconds 600
//! ```
//! Record `n` goes to partition `n % partitions`, so that each partition holds its numbers in their order. With
//! `--followed FILE` the job is never further ahead than `--lead` records of the number that somebody writes into that
//! file: who reads along in a topic with a short retention misses nothing then.

use std::{env, error::Error, fs, path::PathBuf, time::Duration};

use bytes::Bytes;
use futures::future::BoxFuture;
use kafka_2pc::{
    checkpoint::{
        Binding, DirectoryStore,
        runner::{Pipeline, RunConfig, SinkSpec},
    },
    client::{Client, ClientConfig},
    record::Record,
    sink::SinkConfig,
    source::{Source, SourceError, SourceReader, SplitState, Subtask},
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Records that are handed out at once.
const BATCH: u64 = 256;
/// How often it is looked whether the reader has followed.
const LOOK: Duration = Duration::from_millis(10);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let options = Options::parse(env::args().skip(1))?;
    let client = Client::new(ClientConfig::new(&options.bootstrap)?);
    let mut store = DirectoryStore::open(&options.state, Binding::default())?;
    let mut config = RunConfig::default();
    config.checkpoints.interval = Duration::from_millis(100);

    let partitions = client.topic(&options.topic).await?.partitions();
    let numbers = Numbers { options: options.clone(), partitions: u64::try_from(partitions)? };
    let sink = SinkSpec { topic: options.topic.clone(), config: SinkConfig::new(&options.prefix)? };
    let pipeline = Pipeline::new("numbers");
    pipeline.source("numbers", 1, numbers).sink("topic", 1, sink);

    let stop = tokio::time::sleep(options.time);
    let run = pipeline.run(&client, &mut store, &config, stop).await;
    let summary = run.map_err(|(error, _)| error)?;
    println!(
        "{{\"records\": {}, \"checkpoints\": {}, \"restarts\": {}, \"hanging\": {}, \"lost\": {}}}",
        summary.records,
        summary.checkpoints,
        summary.restarts,
        summary.hanging.len(),
        summary.lost.len()
    );
    Ok(())
}

#[derive(Debug, Clone)]
struct Options {
    bootstrap: String,
    topic: String,
    state: PathBuf,
    prefix: String,
    time: Duration,
    value_bytes: usize,
    followed: Option<PathBuf>,
    lead: u64,
}

impl Options {
    fn parse(words: impl Iterator<Item = String>) -> Result<Self> {
        let mut options = Self {
            bootstrap: "localhost:9092".into(),
            topic: String::new(),
            state: PathBuf::new(),
            prefix: "numbers".into(),
            time: Duration::from_secs(60),
            value_bytes: 1000,
            followed: None,
            lead: 100_000,
        };
        let mut words = words;
        while let Some(name) = words.next() {
            let value = words.next().ok_or(format!("{name} needs a value"))?;
            match name.as_str() {
                "--bootstrap" => options.bootstrap = value,
                "--topic" => options.topic = value,
                "--state" => options.state = value.into(),
                "--prefix" => options.prefix = value,
                "--seconds" => options.time = Duration::from_secs(value.parse()?),
                "--value-bytes" => options.value_bytes = value.parse()?,
                "--followed" => options.followed = Some(value.into()),
                "--lead" => options.lead = value.parse()?,
                _ => return Err(format!("{name}: no such option").into()),
            }
        }
        if options.topic.is_empty() || options.state.as_os_str().is_empty() {
            return Err("--topic and --state are needed".into());
        }
        Ok(options)
    }
}

/// 0, 1, 2 and so on.
#[derive(Debug, Clone)]
struct Numbers {
    options: Options,
    partitions: u64,
}

struct Reader {
    numbers: Numbers,
    next: u64,
    /// As far as it may go.
    allowed: u64,
}

impl Source for Numbers {
    fn open<'a>(
        &'a self,
        subtask: Subtask,
        restored: &'a [SplitState],
    ) -> BoxFuture<'a, std::result::Result<Box<dyn SourceReader>, SourceError>> {
        Box::pin(async move {
            if subtask != Subtask::ONLY {
                return Err(SourceError::Settings("numbers are counted by one subtask".into()));
            }
            let kept = restored.first().and_then(|split| split.state.as_ref().try_into().ok());
            let next = kept.map_or(0, u64::from_be_bytes);
            Ok(Box::new(Reader { numbers: self.clone(), next, allowed: 0 }) as Box<dyn SourceReader>)
        })
    }
}

impl Reader {
    fn is_held(&mut self) -> bool {
        let Options { followed, lead, .. } = &self.numbers.options;
        let Some(file) = followed else { return false };
        if self.next >= self.allowed {
            let read = fs::read_to_string(file).ok().and_then(|text| text.trim().parse::<u64>().ok());
            self.allowed = read.unwrap_or(0) + lead;
        }
        self.next >= self.allowed
    }

    fn record(&self, number: u64) -> Record {
        let width = self.numbers.options.value_bytes;
        let partition = i32::try_from(number % self.numbers.partitions).ok();
        Record { partition, ..Record::value(format!("{number:0>width$}")) }
    }
}

impl SourceReader for Reader {
    fn next(&mut self) -> BoxFuture<'_, std::result::Result<Option<Vec<Record>>, SourceError>> {
        Box::pin(async move {
            // Others want the thread too; and nothing is taken before the last wait is over.
            tokio::task::yield_now().await;
            while self.is_held() {
                tokio::time::sleep(LOOK).await;
            }
            let numbers = self.next..self.next + BATCH;
            self.next = numbers.end;
            Ok(Some(numbers.map(|number| self.record(number)).collect()))
        })
    }

    fn snapshot(&self) -> Vec<SplitState> {
        vec![SplitState::new("numbers-0", Bytes::copy_from_slice(&self.next.to_be_bytes()))]
    }
}

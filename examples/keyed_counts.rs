//! A job with state by key on the local runner: reads a topic, counts the records of each key, and writes `KEY COUNT RECORD` to
//! another topic, exactly once through any crash. Started again with the same `--state`, it goes on, also with other
//! numbers of subtasks.
//!
//! ```text
//! cargo run --example keyed_counts -- --bootstrap localhost:9092 --input words --output counts --state ./counts
//! ```
//! `KAFKA_2PC_CRASH` and `KAFKA_2PC_TRACE` are understood as the program `kafka-2pc` understands them.

use std::{
    collections::HashMap,
    env,
    error::Error,
    fs::{File, OpenOptions},
    io::Write,
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use kafka_2pc::{
    checkpoint::{
        Binding, DirectoryStore,
        runner::{Context, OperatorError, Pipeline, RunConfig, RunSummary, SinkSpec},
        step::{Note, Step, Steps},
    },
    client::{Client, ClientConfig},
    proto::checkpoint::alignment::Mode,
    record::Record,
    sink::SinkConfig,
    source::KafkaSource,
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let options = Options::parse(env::args().skip(1))?;
    let steps = steps()?;
    let client = Client::new(ClientConfig::new(&options.bootstrap)?.probe(steps.probe()));
    let mut store = DirectoryStore::open(&options.state, Binding::default())?;

    let mut config = RunConfig::default();
    config.checkpoints.interval = options.interval;
    config.mode = options.mode;
    config.steps = steps;
    let stop = async { _ = tokio::signal::ctrl_c().await };
    let (summary, error) = match job(&options, &client)?.run(&client, &mut store, &config, stop).await {
        Ok(summary) => (summary, None),
        Err((error, summary)) => (summary, Some(error)),
    };
    println!("{}", report(&summary));
    match error {
        None => Ok(ExitCode::SUCCESS),
        Some(error) => Err(error.into()),
    }
}

fn job(options: &Options, client: &Client) -> Result<Pipeline> {
    let source = KafkaSource::new(client, [options.input.as_str()])
        .without_partition()
        .records_per_second(options.rate);
    let source = if options.until_end { source.until_end() } else { source };
    let sink = SinkConfig::new(&options.prefix)?;

    let pipeline = Pipeline::new("keyed-counts");
    pipeline
        .source("records", options.sources, source)
        .key_by(key)
        .process("count", options.operators, || count)
        .key_by(key)
        .sink("counts", options.sinks, SinkSpec { topic: options.output.clone(), config: sink });
    Ok(pipeline)
}

fn key(record: &Record) -> Bytes {
    record.key.clone().unwrap_or_default()
}

/// The state of a key is how many records it had.
fn count(record: Record, context: &mut Context<'_>) -> std::result::Result<(), OperatorError> {
    let before = context.value().map_or([0; 8], |state| state.as_ref().try_into().unwrap_or_default());
    let count = u64::from_be_bytes(before) + 1;
    context.set(Bytes::copy_from_slice(&count.to_be_bytes()));
    let mut value = key(&record).to_vec();
    value.extend_from_slice(format!(" {count} ").as_bytes());
    value.extend_from_slice(record.value.as_deref().unwrap_or_default());
    context.emit(Record { value: Some(value.into()), ..record });
    Ok(())
}

fn report(summary: &RunSummary) -> serde_json::Value {
    serde_json::json!({
        "records": summary.records,
        "checkpoints": summary.checkpoints,
        "failed_checkpoints": summary.failed_checkpoints,
        "resumed": summary.resumed,
        "aborted": summary.aborted,
        "restarts": summary.restarts,
        "hanging": summary.hanging.len(),
        "finished": summary.finished,
    })
}

struct Options {
    bootstrap: String,
    input: String,
    output: String,
    state: String,
    prefix: String,
    sources: u32,
    operators: u32,
    sinks: u32,
    interval: Duration,
    mode: Mode,
    /// Records a second; 0 for no limit.
    rate: u32,
    until_end: bool,
}

const USAGE: &str = "\
usage: keyed_counts --bootstrap HOST:PORT,.. --input TOPIC --output TOPIC --state DIR
         [--prefix P] [--sources N] [--operators N] [--sinks N] [--rate RECORDS_PER_SECOND] [--interval MS]
         [--mode aligned|unaligned|aligned-timeout=MS|at-least-once] [--until-end]";

impl Options {
    fn parse(words: impl IntoIterator<Item = String>) -> Result<Self> {
        let mut options = Self {
            bootstrap: String::new(),
            input: String::new(),
            output: String::new(),
            state: String::new(),
            prefix: "keyed-counts".to_owned(),
            sources: 2,
            operators: 2,
            sinks: 2,
            interval: Duration::from_secs(1),
            mode: Mode::ExactlyOnce { aligned_timeout: None },
            rate: 0,
            until_end: false,
        };
        let mut words = words.into_iter();
        while let Some(name) = words.next() {
            if name == "--until-end" {
                options.until_end = true;
                continue;
            }
            let value =
                words.next().ok_or_else(|| format!("{name}: no such option, or no value\n{USAGE}"))?;
            options.set(&name, value).map_err(|error| format!("{name}: {error}\n{USAGE}"))?;
        }
        let needed = [&options.bootstrap, &options.input, &options.output, &options.state];
        if needed.iter().any(|text| text.is_empty()) {
            return Err(USAGE.into());
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: String) -> Result<()> {
        match name {
            "--bootstrap" => self.bootstrap = value,
            "--input" => self.input = value,
            "--output" => self.output = value,
            "--state" => self.state = value,
            "--prefix" => self.prefix = value,
            "--sources" => self.sources = value.parse()?,
            "--operators" => self.operators = value.parse()?,
            "--sinks" => self.sinks = value.parse()?,
            "--interval" => self.interval = Duration::from_millis(value.parse()?),
            "--rate" => self.rate = value.parse()?,
            "--mode" => self.mode = mode(&value)?,
            _ => return Err("no such option".into()),
        }
        Ok(())
    }
}

fn mode(name: &str) -> Result<Mode> {
    let exactly_once = |aligned_timeout| Mode::ExactlyOnce { aligned_timeout };
    match name {
        "aligned" => Ok(exactly_once(None)),
        "unaligned" => Ok(exactly_once(Some(Duration::ZERO))),
        "at-least-once" => Ok(Mode::AtLeastOnce),
        other => {
            let ms = other.strip_prefix("aligned-timeout=").ok_or("no such mode")?;
            Ok(exactly_once(Some(Duration::from_millis(ms.parse()?))))
        }
    }
}

/// The steps of the job, written down and crashed at as the environment says: `KAFKA_2PC_CRASH=POINT:NTH`,
/// `KAFKA_2PC_TRACE=FILE`.
fn steps() -> Result<Steps> {
    let crash = env::var("KAFKA_2PC_CRASH").ok().map(|text| {
        let (point, nth) = text.split_once(':').ok_or("KAFKA_2PC_CRASH is POINT:NTH")?;
        Ok::<_, Box<dyn Error>>((point.parse::<Step>()?, nth.parse::<u64>()?))
    });
    let crash = crash.transpose()?;
    let trace = env::var_os("KAFKA_2PC_TRACE");
    let trace = trace.map(|path| OpenOptions::new().create(true).append(true).open(path)).transpose()?;
    let trace = Arc::new(trace);
    let (counts, noted) = (Mutex::new(HashMap::new()), Arc::clone(&trace));
    let on_step = move |step: Step| {
        let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count: &mut u64 = counts.entry(step).or_default();
        *count += 1;
        write_down(&trace, &format!("{} {count}", step.name()));
        if crash == Some((step, *count)) {
            _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
            // The lock is held until the signal arrives, so that nothing passes a later step.
            loop {
                std::thread::park();
            }
        }
    };
    let on_note = move |note| match note {
        Note::Recovery => write_down(&noted, "recovery"),
        Note::Recovered { .. } => write_down(&noted, "recovered"),
        Note::Prepare => write_down(&noted, "prepare"),
        Note::Checkpoint(id) => write_down(&noted, &format!("checkpoint {id}")),
        Note::Took(..) => {}
    };
    Ok(Steps::new(on_step, on_note))
}

#[expect(clippy::disallowed_methods, reason = "a program reads clocks")]
fn write_down(trace: &Option<File>, what: &str) {
    let Some(mut file) = trace.as_ref() else { return };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
    // One write, so that lines do not mix.
    _ = file.write_all(format!("{now} {} {what}\n", std::process::id()).as_bytes());
}

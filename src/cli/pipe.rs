//! `pipe`: lines into a topic, exactly once.

use std::{collections::BTreeMap, future::Future, path::PathBuf, sync::Arc, time::Duration};

use futures::FutureExt;
use serde_json::json;

use super::{
    Usage,
    context::{Context, tell},
    crash,
    duration::parse_duration,
    exit::Exit,
    format::{Format, FormatName},
    policy::Policy,
    settings::{self, Settings},
};
use crate::{
    checkpoint::{
        Binding, DirectoryStore, JobStore, MemoryStore,
        pipeline::{
            self, Job, LineFormat, LineRecord, LinesInput, OnBadLine, OnHanging, PipelineError, RefusedLines,
            StopAfter, Summary,
        },
        step::Steps,
    },
    client::{Client, TopicError},
    net::Clock,
    proto::pool::Reuse,
    record::Compression,
    sink::SinkConfig,
};

/// Options of `pipe`.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Args {
    /// Topic to write to
    #[arg(long)]
    topic: String,
    /// File to read, or - for standard input
    #[arg(long, default_value = "-", value_name = "FILE|-")]
    input: String,
    /// What a line holds: lines (a value) or json (an object with key, value, headers, partition, timestamp)
    #[arg(long, value_enum, hide_possible_values = true, value_name = "lines|json", default_value = "lines")]
    format: FormatName,
    /// With --format lines: what stands between key and value
    #[arg(long, value_name = "S")]
    key_separator: Option<String>,
    /// Directory to keep checkpoints in; without it nothing survives a crash
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Time between checkpoints; records become visible with the next one
    #[arg(long, default_value = "1s", value_parser = parse_duration, value_name = "TIME")]
    checkpoint_interval: Duration,
    /// Write at most N records a second
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
    /// What transactional ids begin with [default: the topic and a random id]
    #[arg(long, value_name = "P")]
    transactional_id_prefix: Option<String>,
    /// Create the topic with N partitions if it is missing
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    partitions: Option<i32>,
    /// How records are compressed: none or lz4 [default: lz4]
    #[arg(long, value_name = "CODEC")]
    compression: Option<String>,
    /// Set a property by its Kafka name, such as linger.ms=10; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// File with such properties, one a line
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// At a line that is no record: stop before it, or skip and count it
    #[arg(long, value_enum, hide_possible_values = true, value_name = "stop|skip", default_value = "stop")]
    on_bad_line: BadLineArg,
    /// Stop with the first transaction prepared, before or after its checkpoint, for `txn commit`
    #[arg(long, value_enum, hide_possible_values = true, value_name = "prepare|durable", requires = "state")]
    stop_after: Option<StopAfterArg>,
    /// Write the missing marker of a commit that hangs (KAFKA-20734)
    #[arg(long)]
    repair_hanging: bool,
    /// How long brokers or this job may be away before anything is lost
    #[arg(long, default_value = "5m", value_parser = parse_duration, value_name = "TIME")]
    tolerated_outage: Duration,
    #[command(flatten)]
    policy: Policy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum BadLineArg {
    /// Commit what is before it, and stop
    Stop,
    /// Count it, report it, go on
    Skip,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum StopAfterArg {
    /// Prepared, and not listed in a checkpoint
    Prepare,
    /// Listed in a checkpoint, and not committed
    Durable,
}

impl LineFormat for Format {
    fn parse<'a>(&self, line: &'a [u8]) -> Result<LineRecord<'a>, String> {
        self.parse_line(line).map_err(|e| e.to_string())
    }
}

/// Makes a job use transactional ids again before that is safe, for tests that show what the rule is good for.
const UNSAFE_REUSE: &str = "KAFKA_2PC_UNSAFE_REUSE";

/// How often a job is started again from its last checkpoint without completing another one.
const RESTARTS: u32 = 3;

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    let steps = crash::steps()?;
    let settings = Settings::read(args.config.as_deref(), &args.set)?;
    let mut config = context.client_config_or(settings.bootstrap())?.probe(steps.probe());
    let mut sink = SinkConfig::new("unnamed")?;
    sink.compression = Compression::Lz4;
    sink.checkpoint_interval = args.checkpoint_interval;
    sink.tolerated_outage = args.tolerated_outage;
    args.policy.apply(&mut sink);
    if std::env::var_os(UNSAFE_REUSE).is_some_and(|on| on == "1") {
        context.warn(format!(
            "{UNSAFE_REUSE}=1: transactional ids are used again too early, records may be lost"
        ));
        sink.reuse = Reuse::AtOnce;
    }
    settings.apply(&mut config, &mut sink)?;
    if let Some(codec) = &args.compression {
        settings::set(&mut config, &mut sink, "compression.type", codec)?;
    }
    sink.validate().map_err(|e| Usage(e.to_string()))?;
    if args.checkpoint_interval.is_zero() {
        return Err(Usage("--checkpoint-interval 0: it must be above 0".to_owned()).into());
    }
    if args.tolerated_outage.is_zero() {
        context
            .warn("--tolerated-outage 0: whatever is prepared when brokers or this job are away may be lost");
    }
    let client = Client::new(config);
    ensure_topic(context, &client, &args).await?;
    let mut store = open_store(context, &client, &args).await?;
    let job = job(context, &args, &mut *store, sink, steps).await?;
    let result = attempts(context, &client, &mut *store, &job).await;
    report(context, result, &args)
}

async fn ensure_topic(context: &Context, client: &Client, args: &Args) -> anyhow::Result<()> {
    match (client.topic(&args.topic).await, args.partitions) {
        (Ok(topic), Some(wanted)) if topic.partitions() != wanted => {
            context.warn(format!("topic {} has {} partitions already", args.topic, topic.partitions()));
            Ok(())
        }
        (Ok(_), _) => Ok(()),
        (Err(TopicError::Missing(_)), Some(partitions)) => {
            client.create_topic(&args.topic, partitions, None).await?;
            Ok(())
        }
        (Err(e @ TopicError::Missing(_)), None) => {
            anyhow::bail!("{e}, or let --partitions N create it")
        }
        (Err(e), _) => Err(e.into()),
    }
}

async fn open_store(context: &Context, client: &Client, args: &Args) -> anyhow::Result<Box<dyn JobStore>> {
    let Some(dir) = &args.state else {
        context.warn("without --state nothing survives a crash: what is not yet committed then is aborted");
        return Ok(Box::new(MemoryStore::default()));
    };
    let binding = Binding {
        cluster_id: client.cluster_id().await?,
        topic: Some(Arc::from(args.topic.as_str())),
        ..Binding::default()
    };
    let store = DirectoryStore::open(dir, binding)?;
    let retained = Settings::read(args.config.as_deref(), &args.set)?.num_retained();
    Ok(Box::new(match retained {
        Some(checkpoints) => store.num_retained(checkpoints),
        None => store,
    }))
}

async fn job(
    context: &Context,
    args: &Args,
    store: &mut dyn JobStore,
    sink: SinkConfig,
    steps: Steps,
) -> anyhow::Result<Job> {
    let job_id = match store.load().await? {
        Some(checkpoint) => checkpoint.job_id,
        None => Arc::from(format!("{:08x}", Clock::seed() & 0xffff_ffff).as_str()),
    };
    let prefix = match &args.transactional_id_prefix {
        Some(prefix) => prefix.clone(),
        None => format!("{}-{job_id}", args.topic),
    };
    let named = SinkConfig::new(&prefix).map_err(|e| Usage(e.to_string()))?;
    Ok(Job {
        topic: args.topic.clone(),
        source: match args.input.as_str() {
            "-" => LinesInput::Stdin,
            path => LinesInput::File(path.into()),
        },
        format: Arc::new(Format::new(args.format, args.key_separator.as_deref())?),
        sink: SinkConfig { prefix: named.prefix, ..sink },
        job_id,
        checkpoint_interval: args.checkpoint_interval,
        rate: args.rate,
        on_bad_line: match args.on_bad_line {
            BadLineArg::Stop => OnBadLine::Stop,
            BadLineArg::Skip => OnBadLine::Skip,
        },
        refused: BTreeMap::new(),
        stop_after: args.stop_after.map(|at| match at {
            StopAfterArg::Prepare => StopAfter::Prepare,
            StopAfterArg::Durable => StopAfter::Durable,
        }),
        on_hanging: if args.repair_hanging { OnHanging::Repair } else { OnHanging::Report },
        steps,
        progress: progress(context, args),
    })
}

/// Runs the job, again from its last checkpoint after an error that may pass.
async fn attempts(
    context: &Context,
    client: &Client,
    store: &mut dyn JobStore,
    job: &Job,
) -> (Summary, Option<PipelineError>) {
    let mut job = job.clone();
    let mut total = Summary::default();
    let mut left = RESTARTS;
    // A state that can't be read is reported by the run.
    let mut newest = store.load().await.ok().flatten().map(|c| c.id);
    let stop = signals(context);
    loop {
        let error = match pipeline::run(client, store, &job, stop.clone()).await {
            Ok(summary) => return (total.and(summary), None),
            Err((error, summary)) => {
                total = total.and(summary);
                error
            }
        };
        if job.source.is_seekable() && passes_over(&mut job, &error) {
            context.warn(format!("{error}; going on without it from the last checkpoint"));
            continue;
        }
        let now = store.load().await.ok().flatten().map(|c| c.id);
        left = if now == newest { left - 1 } else { RESTARTS };
        newest = now;
        if !error.is_transient() || !job.source.is_seekable() || left == 0 {
            return (total, Some(error));
        }
        context.warn(format!("{error}; going on from the last checkpoint"));
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// Whether another attempt leaves out the lines that a broker refused. It can only if the broker named them, and no line is
/// named twice: this comes to an end.
fn passes_over(job: &mut Job, error: &PipelineError) -> bool {
    let PipelineError::Refused { lines: RefusedLines::Named(lines), cause, .. } = error else { return false };
    let why: Arc<str> = Arc::from(cause.to_string());
    let new = lines.iter().filter(|line| job.refused.insert(**line, Arc::clone(&why)).is_none()).count();
    job.on_bad_line == OnBadLine::Skip && new > 0
}

/// Done with the first SIGINT or SIGTERM: complete a checkpoint and end. The second one ends the process at once.
///
/// One for all attempts: a signal that comes between two of them, or while one recovers, counts as well.
fn signals(context: &Context) -> impl Future<Output = ()> + Clone + Send + use<> {
    use tokio::signal::unix::{SignalKind, signal};
    let (first, heard) = tokio::sync::oneshot::channel();
    let tells = context.tells();
    let both = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
    // Nobody waits for signals in order: the task ends with the process.
    std::mem::forget(crate::net::Background::start(async move {
        let (Ok(mut interrupt), Ok(mut terminate)) = both else {
            return std::future::pending().await;
        };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        if tells {
            tell("completing a checkpoint; a second signal ends at once");
        }
        // The job may have ended in this moment.
        _ = first.send(());
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        std::process::exit(130);
    }));
    heard.map(|_| ()).shared()
}

fn progress(context: &Context, args: &Args) -> Arc<dyn Fn(u64, u64) + Send + Sync> {
    if !context.shows_progress() {
        return Arc::new(|_, _| {});
    }
    let bytes = std::fs::metadata(&args.input).ok().filter(std::fs::Metadata::is_file).map(|m| m.len());
    let bar = match bytes {
        Some(bytes) => indicatif::ProgressBar::new(bytes),
        None => indicatif::ProgressBar::new_spinner(),
    };
    let template = if bytes.is_some() {
        "{bar:30} {bytes}/{total_bytes} {msg} {elapsed}"
    } else {
        "{spinner} {bytes} {msg} {elapsed}"
    };
    if let Ok(style) = indicatif::ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    Arc::new(move |records, bytes| {
        bar.set_position(bytes);
        bar.set_message(format!("{records} records"));
    })
}

fn report(
    context: &Context,
    (summary, error): (Summary, Option<PipelineError>),
    args: &Args,
) -> anyhow::Result<Exit> {
    for open in &summary.open {
        let path = open.path.as_deref().map(std::path::absolute).transpose()?;
        let path = path.map(|p| p.display().to_string()).unwrap_or_default();
        let id = open.committable.transactional_id.as_str();
        let line = if context.json() {
            json!({"committable": path, "transactional_id": id}).to_string()
        } else {
            path
        };
        context.print(line)?;
    }
    if let Some((line, what)) = &summary.bad_line {
        // Without state a second run begins at the first line, and what is in the topic would be there twice.
        let remedy = match args.state {
            Some(_) => {
                "Mend the line and run the same command again, or pass such lines over with --on-bad-line skip"
            }
            None => {
                "Go on with this line and those behind it: without --state, a second run writes all of them again"
            }
        };
        tell(format!("kafka-2pc: line {line}: {what}\nEverything before it is in the topic. {remedy}"));
    }
    for hanging in &summary.hanging {
        let file = hanging.file.as_deref().map(std::path::absolute).transpose()?;
        let file = file.map(|file| format!(" ({})", file.display())).unwrap_or_default();
        tell(format!(
            "kafka-2pc: {}{file} is decided, but hangs: readers stall in front of it. `kafka-2pc txn repair --state DIR` \
             or --repair-hanging writes the missing marker",
            hanging.transactional_id
        ));
    }
    let object = json!({
        "records": summary.records,
        "bytes": summary.bytes,
        "skipped": summary.skipped,
        "checkpoints": summary.checkpoints,
        "resumed": summary.resumed,
        "aborted": summary.aborted,
        "hanging": summary.hanging.len(),
        "finished": summary.finished,
    });
    if context.json() {
        context.print(object.to_string())?;
    } else if summary.open.is_empty() && error.is_none() {
        context.say(told(&summary, &args.topic));
    }
    if let Some(error) = error {
        tell(format!("kafka-2pc: {error}"));
        if let PipelineError::Refused { lines, .. } = &error {
            tell(remedy(lines, args));
        }
        return Ok(exit_of(&error));
    }
    let failed = summary.bad_line.is_some() || !summary.hanging.is_empty();
    Ok(if failed { Exit::Failed } else { Exit::Done })
}

/// What to do about a record that a broker refused.
fn remedy(lines: &RefusedLines, args: &Args) -> String {
    let again = match (&args.state, args.on_bad_line, lines) {
        (None, _, _) => "Without --state, a second run writes again what this one has committed",
        (Some(_), BadLineArg::Stop, RefusedLines::Named(_)) => {
            "Mend the line and run the same command again, or pass such lines over with --on-bad-line skip"
        }
        (Some(_), BadLineArg::Stop, RefusedLines::Among(_)) | (Some(_), BadLineArg::Skip, _) => {
            "Mend the line, or the setting of the topic that forbids it, and run the same command again"
        }
    };
    format!("What was committed before stays. {again}")
}

fn exit_of(error: &PipelineError) -> Exit {
    match (error.is_lost(), error.is_undecidable()) {
        (true, _) => Exit::Lost,
        (false, true) => Exit::Undecidable,
        (false, false) => Exit::Failed,
    }
}

/// The summary for people.
fn told(summary: &Summary, topic: &str) -> String {
    let mut told = format!("{} records into {topic}, {} checkpoints", summary.records, summary.checkpoints);
    for (count, what) in
        [(summary.skipped, "lines passed over"), (summary.resumed, "resumed"), (summary.aborted, "aborted")]
    {
        if count > 0 {
            told.push_str(&format!(", {count} {what}"));
        }
    }
    told
}

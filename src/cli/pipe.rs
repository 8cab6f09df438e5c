//! `pipe`: lines into a topic, exactly once.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::json;

use super::{
    Usage,
    context::{Context, tell},
    crash,
    exit::Exit,
    format::{Format, FormatName},
    job::{
        self, Metrics, Observers, Options, exit_of, exit_of_lost, signals, tell_cure, tell_hanging,
        tell_lost, told,
    },
    settings::{Command, JobConfig},
    state::shown,
};
use crate::{
    checkpoint::{
        CheckpointStore,
        pipeline::{
            self, Job, LineFormat, LineRecord, LinesInput, OnBadLine, PipelineError, RefusedLines, StopAfter,
            Summary,
        },
        runner::{Observer, Role, RunConfig},
        step::Steps,
    },
    client::Client,
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
    /// Write at most N records a second
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
    /// Create the topic with N partitions if it is missing
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    partitions: Option<i32>,
    /// At a line that is no record: stop before it, or skip and count it
    #[arg(long, value_enum, hide_possible_values = true, value_name = "stop|skip", default_value = "stop")]
    on_bad_line: BadLineArg,
    /// Stop with the first transaction prepared, before or after its checkpoint, for `txn commit`
    #[arg(long, value_enum, hide_possible_values = true, value_name = "prepare|durable", requires = "state")]
    stop_after: Option<StopAfterArg>,
    #[command(flatten)]
    options: Options,
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

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    if args.stop_after.is_some() && !args.options.keeps_state() {
        return Err(
            Usage("--stop-after needs a --state that is kept: nobody could commit it".to_owned()).into()
        );
    }
    let steps = crash::steps()?;
    let settings = args.options.settings()?;
    let client = context.client_config_or(settings.bootstrap())?.probe(steps.probe());
    let config = args.options.configure(context, client, Command::Pipe)?;
    let metrics = Metrics::start(&args.options).await?;
    let client = Client::new(config.client.clone());
    job::ensure_topic(context, &client, &args.topic, args.partitions).await?;
    let mut store = job::store(context, &client, (&args.options, &config), &args.topic).await?;
    let roles = [(pipeline::SOURCE, Role::Source), (pipeline::SINK, Role::Sink)];
    let roles = roles.map(|(uid, role)| (Arc::from(uid), role)).into();
    let observers = Observers::new(&args.options, roles, client.clock());
    let watched = Watched { steps, observer: observers.observer(), metrics: &metrics };
    let job = job(context, &args, &mut *store, (&config, watched)).await?;
    let result = attempts(context, &client, &mut *store, (&job, &config.run)).await;
    observers.close().await;
    job::close(context, &mut *store).await;
    report(context, result, &args)
}

/// Who watches the job.
struct Watched<'a> {
    steps: Steps,
    observer: Observer,
    metrics: &'a Metrics,
}

async fn job(
    context: &Context,
    args: &Args,
    store: &mut dyn CheckpointStore,
    (config, watched): (&JobConfig, Watched<'_>),
) -> anyhow::Result<Job> {
    let Watched { steps, observer, metrics } = watched;
    let job_id = job::job_id(store).await?;
    let prefix = job::prefix(config, &args.topic, &job_id)?;
    Ok(Job {
        topic: args.topic.clone(),
        source: match args.input.as_str() {
            "-" => LinesInput::Stdin,
            path => LinesInput::File(path.into()),
        },
        format: Arc::new(Format::new(args.format, args.key_separator.as_deref())?),
        observer: metrics.count(observer, &prefix),
        sink: SinkConfig { prefix, ..config.sink.clone() },
        job_id,
        checkpoint_interval: config.run.checkpoints.interval,
        checkpoint_timeout: config.run.checkpoints.timeout,
        min_pause: config.run.checkpoints.min_pause,
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
        on_hanging: config.run.on_hanging,
        steps,
        progress: job::progress(context, bytes_of(&args.input)),
    })
}

/// Runs the job, again from its last checkpoint after an error that may pass.
async fn attempts(
    context: &Context,
    client: &Client,
    store: &mut dyn CheckpointStore,
    (job, config): (&Job, &RunConfig),
) -> (Summary, Option<PipelineError>) {
    let mut job = job.clone();
    let mut total = Summary::default();
    let mut left = config.restart_attempts;
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
        if now != newest {
            left = config.restart_attempts;
        }
        newest = now;
        if !error.is_transient() || !job.source.is_seekable() || left == 0 {
            return (total, Some(error));
        }
        left -= 1;
        context.warn(format!("{error}; going on from the last checkpoint"));
        tokio::time::sleep(config.restart_delay).await;
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

/// How long a file is.
fn bytes_of(input: &str) -> Option<u64> {
    std::fs::metadata(input).ok().filter(std::fs::Metadata::is_file).map(|m| m.len())
}

fn report(
    context: &Context,
    (summary, error): (Summary, Option<PipelineError>),
    args: &Args,
) -> anyhow::Result<Exit> {
    for open in &summary.open {
        let path = open.path.as_deref().map(shown).transpose()?.unwrap_or_default();
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
        let remedy = match args.options.keeps_state() {
            true => {
                "Mend the line and run the same command again, or pass such lines over with --on-bad-line skip"
            }
            false => {
                "Go on with this line and those behind it: without --state, a second run writes all of them again"
            }
        };
        tell(format!("kafka-2pc: line {line}: {what}\nEverything before it is in the topic. {remedy}"));
    }
    for hanging in &summary.hanging {
        tell_hanging(hanging)?;
    }
    tell_lost(&summary.lost);
    let object = json!({
        "records": summary.records,
        "bytes": summary.bytes,
        "skipped": summary.skipped,
        "checkpoints": summary.checkpoints,
        "resumed": summary.resumed,
        "aborted": summary.aborted,
        "hanging": summary.hanging.len(),
        "lost": summary.lost.len(),
        "finished": summary.finished,
    });
    if context.json() {
        context.print(object.to_string())?;
    } else if summary.open.is_empty() && error.is_none() {
        let counts = [
            (summary.skipped, "lines passed over"),
            (summary.resumed, "resumed"),
            (summary.aborted, "aborted"),
        ];
        context.say(told((summary.records, summary.checkpoints), &args.topic, &counts));
    }
    if let Some(error) = error {
        tell(format!("kafka-2pc: {error}"));
        tell_cure(&error);
        if let PipelineError::Refused { lines, .. } = &error {
            tell(remedy(lines, args));
        }
        return Ok(exit_of(&error));
    }
    if let Some(exit) = exit_of_lost(&summary.lost) {
        return Ok(exit);
    }
    let failed = summary.bad_line.is_some() || !summary.hanging.is_empty();
    Ok(if failed { Exit::Failed } else { Exit::Done })
}

/// What to do about a record that a broker refused.
fn remedy(lines: &RefusedLines, args: &Args) -> String {
    let again = match (args.options.keeps_state(), args.on_bad_line, lines) {
        (false, _, _) => "Without --state, a second run writes again what this one has committed",
        (true, BadLineArg::Stop, RefusedLines::Named(_)) => {
            "Mend the line and run the same command again, or pass such lines over with --on-bad-line skip"
        }
        (true, BadLineArg::Stop, RefusedLines::Among(_)) | (true, BadLineArg::Skip, _) => {
            "Mend the line, or the setting of the topic that forbids it, and run the same command again"
        }
    };
    format!("What was committed before stays. {again}")
}

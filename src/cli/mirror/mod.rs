//! `mirror`: a topic into another one, exactly once.
//!
//! ```text
//! FROM, one cluster ── read_committed ──► records, each with its partition ──► TO, another cluster or the same
//!        offsets ─┐                                                 ┌─ prepared transactions
//!                 └──────────────► one checkpoint ◄─────────────────┘
//! ```

mod origin;
mod source;
mod topics;

use std::sync::Arc;

use serde_json::json;

use super::{
    Usage,
    context::{Context, tell},
    crash,
    exit::Exit,
    job::{
        self, Metrics, Observers, Options, exit_of, exit_of_lost, signals, tell_cure, tell_hanging,
        tell_lost, told,
    },
    settings::{Command, JobConfig},
};
use crate::{
    checkpoint::{
        CheckpointStore,
        runner::{HangingTransaction, LostTransaction, Pipeline, RunConfig, RunError, RunSummary, SinkSpec},
    },
    client::{Client, ClientConfig},
    ids::GroupId,
    sink::SinkConfig,
    source::KafkaSource,
};
use origin::Origin;
use source::{Lacking, MirrorSource, Read};
use topics::{Partitions, Topics};

/// Options of `mirror`.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Args {
    /// Topic to copy
    #[arg(long, value_name = "TOPIC")]
    from: String,
    /// Topic to copy it into
    #[arg(long, value_name = "TOPIC")]
    to: String,
    /// Brokers of the cluster to copy from [default: those of --bootstrap]
    #[arg(long, value_name = "HOST:PORT,..")]
    from_bootstrap: Option<String>,
    /// Brokers of the cluster to copy into [default: those of --bootstrap]
    #[arg(long, value_name = "HOST:PORT,..")]
    to_bootstrap: Option<String>,
    /// Create the topic if it is missing, with N partitions, or with as many as the other has: source
    #[arg(long, value_name = "N|source")]
    partitions: Option<Partitions>,
    /// Stop where readers of committed records get at the start
    #[arg(long)]
    until_end: bool,
    /// Commit where the copy stands to a consumer group, with each checkpoint: for tools that watch lag
    #[arg(long, value_name = "GROUP")]
    commit_offsets: Option<String>,
    /// How many subtasks read and write side by side [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=128))]
    parallelism: Option<u32>,
    #[command(flatten)]
    options: Options,
}

/// Under these names the state holds what belongs to the source and to the sink.
const SOURCE: &str = "source";
const SINK: &str = "sink";

/// What all attempts together have done.
#[derive(Debug, Default)]
struct Total {
    records: u64,
    bytes: u64,
    checkpoints: u64,
    resumed: u64,
    aborted: u64,
    hanging: Vec<HangingTransaction>,
    lost: Vec<LostTransaction>,
    finished: bool,
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    let steps = crash::steps()?;
    let to = context.client_config_of(args.to_bootstrap.as_deref())?;
    let from = context.client_config_of(args.from_bootstrap.as_deref())?;
    let mut config = args.options.configure(context, to, Command::Mirror)?;
    config.parallelism.option(args.parallelism);
    if let Some(group) = &args.commit_offsets {
        config.sink.offsets_group = Some(GroupId::new(group.as_str()));
        config.sink.validate().map_err(|e| Usage(e.to_string()))?;
    }
    config.run.steps = steps.clone();
    let metrics = Metrics::start(&args.options).await?;
    // What is said of the client counts for both.
    let from = Client::new(ClientConfig { bootstrap: from.bootstrap, ..config.client.clone() });
    let to = Client::new(config.client.clone().probe(steps.probe()));
    let topics = Topics::resolve(context, &args, (&from, &to)).await?;
    if let Some(group) = config.sink.offsets_group.as_ref().filter(|_| topics.are_apart) {
        return Err(Usage(format!(
            "offsets of the consumer group {group} can't be committed: they lie in the cluster of the source, and the \
             transaction in the other one. Copy within one cluster, or set commit.offsets.on.checkpoint=false and leave \
             --commit-offsets out"
        ))
        .into());
    }
    let mut store = job::store(context, &to, (&args.options, &config), &args.to).await?;
    let origin = Origin { cluster: topics.from_cluster.clone(), topic: Arc::from(args.from.as_str()) };
    if let Some(checkpoint) = store.load().await? {
        origin.check(&checkpoint)?;
    }
    let mirror = Mirror { args, from, to, topics, origin, config, metrics };
    let ran = mirror.attempts(context, &mut *store).await;
    job::close(context, &mut *store).await;
    let (total, error) = ran?;
    report(context, &total, error, &mirror.args.to)
}

struct Mirror {
    args: Args,
    from: Client,
    to: Client,
    topics: Topics,
    origin: Origin,
    config: JobConfig,
    metrics: Metrics,
}

impl Mirror {
    /// Runs the job, again after the target has got the partitions that it lacked.
    async fn attempts(
        &self,
        context: &Context,
        store: &mut dyn CheckpointStore,
    ) -> anyhow::Result<(Total, Option<RunError>)> {
        let job_id = job::job_id(store).await?;
        let prefix = job::prefix(&self.config, &self.args.to, &job_id)?;
        let sink = SinkConfig { prefix, ..self.config.sink.clone() };
        let parallelism = self.config.parallelism;
        let (read, stop) = (Arc::new(Read::default()), signals(context));
        let progress = job::progress(context, None);
        let (mut total, mut partitions) = (Total::default(), self.topics.to.partitions());
        loop {
            let finished = store.load().await?.is_some_and(|checkpoint| checkpoint.is_finished());
            let source = self.source(finished, partitions, &read);
            let pipeline = Pipeline::new(Arc::clone(&job_id));
            let records = pipeline.source(SOURCE, parallelism.source(), source).by_partition();
            let spec = SinkSpec { topic: self.args.to.clone(), config: sink.clone() };
            records.sink(SINK, parallelism.sink(), spec);
            let seen = Arc::clone(&read);
            let tell = Arc::clone(&progress);
            let observers = Observers::new(&self.args.options, pipeline.roles(), self.to.clock())
                .on_checkpoint(move || tell(seen.records(), seen.bytes()));
            let observer = self.metrics.count(observers.observer(), &sink.prefix);
            let config = RunConfig { observer, ..self.config.run.clone() };
            let error = match pipeline.run(&self.to, &mut *store, &config, stop.clone()).await {
                Ok(summary) => total.add(summary),
                Err((error, summary)) => {
                    total.add(summary);
                    Some(error)
                }
            };
            observers.close().await;
            let lacks = error.as_ref().and_then(Lacking::of);
            let now = match lacks {
                Some(_) => self.to.topic(&self.args.to).await?.partitions(),
                None => partitions,
            };
            if now <= partitions {
                return Ok((total, error));
            }
            context.say(format!("{} has {now} partitions now; going on", self.args.to));
            partitions = now;
        }
    }

    fn source(&self, finished: bool, partitions: i32, read: &Arc<Read>) -> MirrorSource {
        let source = KafkaSource::new(&self.from, [self.args.from.as_str()]);
        let source = self.config.source.apply(source, &self.args.from);
        let source = match (self.args.until_end, finished) {
            (false, _) => source,
            (true, false) => source.until_end(),
            // The last run came to its end. This one reads what was written since.
            (true, true) => source.until_new_end(),
        };
        MirrorSource {
            source,
            origin: self.origin.clone(),
            to: Arc::from(self.args.to.as_str()),
            partitions,
            read: Arc::clone(read),
        }
    }
}

impl Total {
    /// Nothing more to say of a run that ended well.
    fn add(&mut self, summary: RunSummary) -> Option<RunError> {
        self.records += summary.records;
        self.bytes += summary.bytes;
        self.checkpoints += summary.checkpoints;
        self.resumed += summary.resumed;
        self.aborted += summary.aborted;
        self.hanging = summary.hanging;
        self.lost.extend(summary.lost);
        self.finished = summary.finished;
        None
    }
}

fn report(context: &Context, total: &Total, error: Option<RunError>, to: &str) -> anyhow::Result<Exit> {
    for hanging in &total.hanging {
        tell_hanging(hanging)?;
    }
    tell_lost(&total.lost);
    let object = json!({
        "records": total.records,
        "bytes": total.bytes,
        "checkpoints": total.checkpoints,
        "resumed": total.resumed,
        "aborted": total.aborted,
        "hanging": total.hanging.len(),
        "lost": total.lost.len(),
        "finished": total.finished,
    });
    if context.json() {
        context.print(object.to_string())?;
    } else if error.is_none() {
        let counts = [(total.resumed, "resumed"), (total.aborted, "aborted")];
        context.say(told((total.records, total.checkpoints), to, &counts));
    }
    if let Some(error) = error {
        tell(format!("kafka-2pc: {error}"));
        tell_cure(&error);
        return Ok(exit_of(&error));
    }
    let exit = if total.hanging.is_empty() { Exit::Done } else { Exit::Failed };
    Ok(exit_of_lost(&total.lost).unwrap_or(exit))
}

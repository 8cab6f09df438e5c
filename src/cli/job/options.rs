//! Options of a job.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use crate::{
    checkpoint::{Binding, runner::OnHanging},
    cli::{
        Usage,
        context::Context,
        duration::parse_duration,
        policy::Policy,
        settings::{Command, JobConfig, Settings},
        state::{Opening, StatePlace},
    },
    client::ClientConfig,
    proto::{checkpoint::alignment::Mode, pool::Reuse},
    record::Compression,
    sink::SinkConfig,
};

/// Options of every job.
#[derive(Debug, Clone, clap::Args)]
pub(in crate::cli) struct Options {
    /// Where to keep checkpoints: a directory, or file:///DIR, s3://BUCKET/PREFIX; without it nothing survives a crash
    #[arg(long, value_name = "DIR|URL", value_parser = StatePlace::parser())]
    pub(in crate::cli) state: Option<StatePlace>,
    /// With --state URL: how long this job may be silent before another one may take its state over [default: 10s]
    #[arg(long, value_parser = parse_duration, value_name = "TIME", requires = "state")]
    lease: Option<Duration>,
    /// Time between checkpoints; records become visible with the next one [default: 1s]
    #[arg(long, value_parser = parse_duration, value_name = "TIME")]
    checkpoint_interval: Option<Duration>,
    /// What transactional ids begin with [default: the topic and a random id]
    #[arg(long, value_name = "P")]
    transactional_id_prefix: Option<String>,
    /// How records are compressed: none, gzip, snappy, lz4 or zstd [default: lz4]
    #[arg(long, value_name = "CODEC")]
    compression: Option<String>,
    /// Set a property by its Kafka or Flink name, such as linger.ms=10; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// File with such properties, one a line, NAME=VALUE or NAME: VALUE
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Write the missing marker of a commit that hangs (KAFKA-20734)
    #[arg(long)]
    repair_hanging: bool,
    /// How long brokers or this job may be away before anything is lost
    #[arg(long, default_value = "5m", value_parser = parse_duration, value_name = "TIME")]
    tolerated_outage: Duration,
    /// Serve metrics for Prometheus on this address, at /metrics; port 0 takes a free one and tells it
    #[arg(long, value_name = "IP:PORT")]
    pub(in crate::cli) metrics: Option<SocketAddr>,
    #[command(flatten)]
    policy: Policy,
}

/// An owner gives a sign of life three times in it.
const SHORTEST_LEASE: Duration = Duration::from_secs(1);

/// Makes a job use transactional ids again before that is safe, for tests that show what the rule is good for.
const UNSAFE_REUSE: &str = "KAFKA_2PC_UNSAFE_REUSE";

impl Options {
    /// The properties that were given.
    ///
    /// # Errors
    /// [`Usage`]: the file can't be read, or something is not `NAME=VALUE`.
    pub(in crate::cli) fn settings(&self) -> Result<Settings, Usage> {
        Settings::read(self.config.as_deref(), &self.set)
    }

    /// Whether the job's state outlives it.
    pub(in crate::cli) fn keeps_state(&self) -> bool {
        self.state.as_ref().is_some_and(StatePlace::is_kept)
    }

    /// What the owner of the state asks for.
    pub(super) fn opening(&self, binding: Binding, config: &JobConfig) -> Opening {
        Opening { binding, num_retained: config.num_retained, lease: self.lease }
    }

    /// What options and properties say for this command; `client` has its cluster.
    ///
    /// # Errors
    /// [`Usage`] for what cannot work.
    pub(in crate::cli) fn configure(
        &self,
        context: &Context,
        client: ClientConfig,
        command: Command,
    ) -> anyhow::Result<JobConfig> {
        let mut sink = SinkConfig::new("unnamed")?;
        sink.compression = Compression::Lz4;
        sink.tolerated_outage = self.tolerated_outage;
        if std::env::var_os(UNSAFE_REUSE).is_some_and(|on| on == "1") {
            context.warn(format!(
                "{UNSAFE_REUSE}=1: transactional ids are used again too early, records may be lost"
            ));
            sink.reuse = Reuse::AtOnce;
        }
        let mut config = JobConfig::new(client, sink);
        let settings = self.settings()?;
        settings.apply(&mut config, command)?;
        for told in settings.repeated() {
            context.warn(told);
        }
        self.overrule(&mut config)?;
        config.complete()?;
        config.sink.validate().map_err(|e| Usage(e.to_string()))?;
        if config.run.mode == Mode::AtLeastOnce {
            context.warn(
                "execution.checkpointing.mode=AT_LEAST_ONCE: records may be there twice after a restart",
            );
        }
        if self.tolerated_outage.is_zero() {
            context.warn(
                "--tolerated-outage 0: whatever is prepared when brokers or this job are away may be lost",
            );
        }
        Ok(config)
    }

    /// Options come before properties.
    fn overrule(&self, config: &mut JobConfig) -> Result<(), Usage> {
        self.policy.apply(&mut config.sink);
        if let Some(interval) = self.checkpoint_interval {
            if interval.is_zero() {
                return Err(Usage("--checkpoint-interval 0: it must be above 0".to_owned()));
            }
            config.run.checkpoints.interval = interval;
        }
        if let Some(prefix) = &self.transactional_id_prefix {
            config.prefix = Some(prefix.clone());
        }
        match (&self.state, self.lease) {
            (Some(StatePlace::Objects(_)), Some(lease)) if lease < SHORTEST_LEASE => {
                return Err(Usage("--lease: it must be at least 1s".to_owned()));
            }
            (Some(StatePlace::Objects(_)), _) | (_, None) => {}
            (_, Some(_)) => {
                let why = "--lease goes with --state URL: a directory is owned by a lock, without a time";
                return Err(Usage(why.to_owned()));
            }
        }
        config.run.on_hanging = if self.repair_hanging { OnHanging::Repair } else { OnHanging::Report };
        match &self.compression {
            Some(codec) => config.compress(codec),
            None => Ok(()),
        }
    }
}

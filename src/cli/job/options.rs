//! Options of a job.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use crate::{
    cli::{
        Usage,
        context::Context,
        duration::parse_duration,
        policy::Policy,
        settings::{self, Own, Settings},
    },
    client::ClientConfig,
    proto::pool::Reuse,
    record::Compression,
    sink::SinkConfig,
};

/// Options of every job.
#[derive(Debug, Clone, clap::Args)]
pub(in crate::cli) struct Options {
    /// Directory to keep checkpoints in; without it nothing survives a crash
    #[arg(long, value_name = "DIR")]
    pub(in crate::cli) state: Option<PathBuf>,
    /// Time between checkpoints; records become visible with the next one
    #[arg(long, default_value = "1s", value_parser = parse_duration, value_name = "TIME")]
    pub(in crate::cli) checkpoint_interval: Duration,
    /// What transactional ids begin with [default: the topic and a random id]
    #[arg(long, value_name = "P")]
    pub(in crate::cli) transactional_id_prefix: Option<String>,
    /// How records are compressed: none or lz4 [default: lz4]
    #[arg(long, value_name = "CODEC")]
    compression: Option<String>,
    /// Set a property by its Kafka name, such as linger.ms=10; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    pub(in crate::cli) set: Vec<String>,
    /// File with such properties, one a line
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) config: Option<PathBuf>,
    /// Write the missing marker of a commit that hangs (KAFKA-20734)
    #[arg(long)]
    pub(in crate::cli) repair_hanging: bool,
    /// How long brokers or this job may be away before anything is lost
    #[arg(long, default_value = "5m", value_parser = parse_duration, value_name = "TIME")]
    tolerated_outage: Duration,
    /// Serve metrics for Prometheus on this address, at /metrics; port 0 takes a free one and tells it
    #[arg(long, value_name = "IP:PORT")]
    pub(in crate::cli) metrics: Option<SocketAddr>,
    #[command(flatten)]
    policy: Policy,
}

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

    /// The settings of the client, which has its cluster, and of the sink. `own` may take properties that only this
    /// command has.
    ///
    /// # Errors
    /// [`Usage`] for what cannot work.
    pub(in crate::cli) fn configure(
        &self,
        context: &Context,
        mut client: ClientConfig,
        own: &mut Own<'_>,
    ) -> anyhow::Result<(ClientConfig, SinkConfig)> {
        let mut sink = SinkConfig::new("unnamed")?;
        sink.compression = Compression::Lz4;
        sink.checkpoint_interval = self.checkpoint_interval;
        sink.tolerated_outage = self.tolerated_outage;
        self.policy.apply(&mut sink);
        if std::env::var_os(UNSAFE_REUSE).is_some_and(|on| on == "1") {
            context.warn(format!(
                "{UNSAFE_REUSE}=1: transactional ids are used again too early, records may be lost"
            ));
            sink.reuse = Reuse::AtOnce;
        }
        self.settings()?.apply(&mut client, &mut sink, own)?;
        if let Some(codec) = &self.compression {
            settings::set(&mut client, &mut sink, "compression.type", codec)?;
        }
        sink.validate().map_err(|e| Usage(e.to_string()))?;
        if self.checkpoint_interval.is_zero() {
            return Err(Usage("--checkpoint-interval 0: it must be above 0".to_owned()).into());
        }
        if self.tolerated_outage.is_zero() {
            context.warn(
                "--tolerated-outage 0: whatever is prepared when brokers or this job are away may be lost",
            );
        }
        Ok((client, sink))
    }
}

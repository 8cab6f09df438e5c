//! What settings change.

use std::{num::NonZeroUsize, time::Duration};

use crate::{
    checkpoint::runner::RunConfig,
    client::{ClientConfig, OutOfRangePolicy},
    proto::{checkpoint::alignment::Mode, pool::DEFAULT_SLOTS},
    sink::SinkConfig,
    source::{KafkaSource, StartFrom},
};

/// Everything that a setting of a job may change.
#[derive(Debug, Clone)]
pub(in crate::cli) struct JobConfig {
    pub(in crate::cli) client: ClientConfig,
    pub(in crate::cli) sink: SinkConfig,
    /// How checkpoints are taken and what happens after a failure.
    pub(in crate::cli) run: RunConfig,
    pub(in crate::cli) source: SourceConfig,
    pub(in crate::cli) parallelism: Parallelism,
    /// How many checkpoints a state keeps, if that was said.
    pub(in crate::cli) num_retained: Option<NonZeroUsize>,
    /// What transactional ids begin with, if that was said.
    pub(in crate::cli) prefix: Option<String>,
    pub(super) barriers: Barriers,
    pub(super) restarts: Restarts,
}

/// How many subtasks there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::cli) struct Parallelism {
    pub(super) default: Option<u32>,
    pub(super) sink: Option<u32>,
}

impl Parallelism {
    /// An option of the command line, which comes before every setting.
    pub(in crate::cli) fn option(&mut self, given: Option<u32>) {
        if given.is_some() {
            *self = Self { default: given, sink: None };
        }
    }

    pub(in crate::cli) fn source(self) -> u32 {
        self.default.unwrap_or(1)
    }

    pub(in crate::cli) fn sink(self) -> u32 {
        self.sink.unwrap_or(self.source())
    }
}

/// Settings that mean something only together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Barriers {
    pub(super) guarantee: Guarantee,
    pub(super) overtaking: Overtaking,
    pub(super) aligned_timeout: Option<Duration>,
}

/// `execution.checkpointing.mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Guarantee {
    #[default]
    ExactlyOnce,
    AtLeastOnce,
}

/// `execution.checkpointing.unaligned.enabled`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Overtaking {
    #[default]
    Off,
    On,
}

/// `restart-strategy.type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Restarts {
    #[default]
    FixedDelay,
    Never,
}

/// Settings of the source. What is not set is as [`KafkaSource`] has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::cli) struct SourceConfig {
    pub(super) startup: Startup,
    pub(super) startup_millis: Option<i64>,
    pub(super) out_of_range: OutOfRangePolicy,
    pub(super) discovery_interval: Option<Duration>,
    pub(super) max_wait: Option<Duration>,
    pub(super) max_bytes: Option<i32>,
    pub(super) max_partition_bytes: Option<i32>,
}

/// `scan.startup.mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Startup {
    #[default]
    Earliest,
    Latest,
    Timestamp,
}

impl SourceConfig {
    /// The source with these settings.
    pub(in crate::cli) fn apply(&self, mut source: KafkaSource) -> KafkaSource {
        source = source.start(self.start()).out_of_range(self.out_of_range);
        if let Some(interval) = self.discovery_interval {
            source = source.discovery_interval(interval);
        }
        if let Some(wait) = self.max_wait {
            source = source.max_wait(wait);
        }
        if let Some(bytes) = self.max_bytes {
            source = source.max_bytes(bytes);
        }
        if let Some(bytes) = self.max_partition_bytes {
            source = source.max_partition_bytes(bytes);
        }
        source
    }

    pub(super) fn start(&self) -> StartFrom {
        match (self.startup, self.startup_millis) {
            (Startup::Timestamp, Some(millis)) => StartFrom::Timestamp(millis),
            (Startup::Latest, _) => StartFrom::Latest,
            (Startup::Earliest | Startup::Timestamp, _) => StartFrom::Earliest,
        }
    }

    fn check(&self) -> Result<(), &'static str> {
        match (self.startup, self.startup_millis) {
            (Startup::Timestamp, None) => {
                Err("scan.startup.mode=timestamp needs scan.startup.timestamp-millis")
            }
            (Startup::Earliest | Startup::Latest, Some(_)) => {
                Err("scan.startup.timestamp-millis needs scan.startup.mode=timestamp")
            }
            (_, _) => Ok(()),
        }
    }
}

impl JobConfig {
    /// A job with these, and defaults for the rest.
    pub(in crate::cli) fn new(client: ClientConfig, sink: SinkConfig) -> Self {
        let run = RunConfig { restart_delay: Duration::from_millis(500), ..RunConfig::default() };
        Self {
            client,
            sink,
            run,
            source: SourceConfig::default(),
            parallelism: Parallelism::default(),
            num_retained: None,
            prefix: None,
            barriers: Barriers::default(),
            restarts: Restarts::default(),
        }
    }

    /// Carries out what makes sense only once everything is known.
    ///
    /// # Errors
    /// Settings that contradict one another.
    pub(super) fn settle(&mut self) -> Result<(), &'static str> {
        self.source.check()?;
        self.run.mode = self.barriers.mode()?;
        if self.restarts == Restarts::Never {
            self.run.restart_attempts = 0;
        }
        let checkpoints = &self.run.checkpoints;
        self.sink.checkpoint_interval = checkpoints.interval.max(checkpoints.min_pause);
        // A checkpoint under way keeps an id, and one that failed does until a later one is complete.
        let kept = checkpoints.max_concurrent.saturating_add(checkpoints.tolerable_failures as usize);
        self.sink.slots = self.sink.slots.max(DEFAULT_SLOTS - 1 + kept);
        Ok(())
    }
}

impl Barriers {
    fn mode(self) -> Result<Mode, &'static str> {
        match (self.guarantee, self.overtaking, self.aligned_timeout) {
            (Guarantee::AtLeastOnce, Overtaking::On, _) => Err(
                "execution.checkpointing.unaligned.enabled=true needs execution.checkpointing.mode=EXACTLY_ONCE",
            ),
            (_, Overtaking::Off, Some(_)) => Err("execution.checkpointing.aligned-checkpoint-timeout needs \
                                                  execution.checkpointing.unaligned.enabled=true"),
            (Guarantee::AtLeastOnce, Overtaking::Off, None) => Ok(Mode::AtLeastOnce),
            (Guarantee::ExactlyOnce, Overtaking::Off, None) => {
                Ok(Mode::ExactlyOnce { aligned_timeout: None })
            }
            (Guarantee::ExactlyOnce, Overtaking::On, timeout) => {
                Ok(Mode::ExactlyOnce { aligned_timeout: Some(timeout.unwrap_or_default()) })
            }
        }
    }
}

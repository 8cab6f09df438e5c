//! What settings change.

use std::{collections::BTreeMap, num::NonZeroUsize, time::Duration};

use crate::{
    checkpoint::runner::RunConfig,
    client::{ClientConfig, OutOfRangePolicy},
    ids::{GroupId, TopicPartition},
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
    /// Offsets by partition.
    pub(super) startup_offsets: Option<BTreeMap<i32, i64>>,
    pub(super) group: Option<GroupId>,
    pub(super) commit_offsets: Option<bool>,
    pub(super) out_of_range: OutOfRangePolicy,
    pub(super) discovery_interval: Option<Duration>,
    pub(super) max_wait: Option<Duration>,
    pub(super) max_bytes: Option<i32>,
    pub(super) max_partition_bytes: Option<i32>,
    pub(super) queued_max_bytes: Option<usize>,
}

/// `scan.startup.mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Startup {
    #[default]
    Earliest,
    Latest,
    Timestamp,
    GroupOffsets,
    SpecificOffsets,
}

impl Startup {
    fn name(self) -> &'static str {
        match self {
            Self::Earliest => "earliest-offset",
            Self::Latest => "latest-offset",
            Self::Timestamp => "timestamp",
            Self::GroupOffsets => "group-offsets",
            Self::SpecificOffsets => "specific-offsets",
        }
    }
}

impl SourceConfig {
    /// The source of this topic with these settings.
    pub(in crate::cli) fn apply(&self, mut source: KafkaSource, topic: &str) -> KafkaSource {
        source = source.start(self.start(topic)).out_of_range(self.out_of_range);
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
        if let Some(bytes) = self.queued_max_bytes {
            source = source.queued_max_bytes(bytes);
        }
        source
    }

    /// What is missing for a mode was refused before.
    pub(super) fn start(&self, topic: &str) -> StartFrom {
        match (self.startup, self.startup_millis, &self.startup_offsets, &self.group) {
            (Startup::Timestamp, Some(millis), ..) => StartFrom::Timestamp(millis),
            (Startup::Latest, ..) => StartFrom::Latest,
            (Startup::SpecificOffsets, _, Some(offsets), _) => {
                let place =
                    |(partition, offset): (&i32, &i64)| (TopicPartition::new(topic, *partition), *offset);
                StartFrom::Offsets(offsets.iter().map(place).collect())
            }
            (Startup::GroupOffsets, _, _, Some(group)) => {
                StartFrom::Committed { group: group.clone(), otherwise: self.out_of_range }
            }
            (
                Startup::Earliest | Startup::Timestamp | Startup::SpecificOffsets | Startup::GroupOffsets,
                ..,
            ) => StartFrom::Earliest,
        }
    }

    /// Each mode needs its own setting, and a setting of another one is a mistake.
    fn check(&self) -> Result<(), String> {
        let mode = |mode: Startup| format!("scan.startup.mode={}", mode.name());
        let settings = [
            (Startup::Timestamp, self.startup_millis.is_some(), "scan.startup.timestamp-millis"),
            (Startup::SpecificOffsets, self.startup_offsets.is_some(), "scan.startup.specific-offsets"),
        ];
        for (needed_by, is_set, name) in settings {
            match (self.startup == needed_by, is_set) {
                (true, false) => return Err(format!("{} needs {name}", mode(needed_by))),
                (false, true) => return Err(format!("{name} needs {}", mode(needed_by))),
                (true, true) | (false, false) => {}
            }
        }
        if self.startup == Startup::GroupOffsets && self.group.is_none() {
            return Err(format!("{} needs group.id", mode(Startup::GroupOffsets)));
        }
        if self.commit_offsets == Some(true) && self.group.is_none() {
            return Err("commit.offsets.on.checkpoint=true needs group.id".to_owned());
        }
        Ok(())
    }

    /// The group to which offsets are committed.
    fn commits_to(&self) -> Option<GroupId> {
        self.group.clone().filter(|_| self.commit_offsets != Some(false))
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
    pub(super) fn settle(&mut self) -> Result<(), String> {
        self.source.check()?;
        self.sink.offsets_group = self.source.commits_to();
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

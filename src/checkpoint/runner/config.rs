//! Settings of a run.

use std::time::Duration;

use super::event::Observer;
use crate::{
    checkpoint::{pipeline::OnHanging, step::Steps},
    proto::checkpoint::{alignment::Mode, coordinator::CoordinatorConfig},
};

/// How state by key is kept at a barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Snapshots {
    /// The subtask goes on while its snapshot is written.
    #[default]
    Asynchronous,
    /// It waits.
    Synchronous,
}

/// Settings of a run, each with Flink's name where there is one.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RunConfig {
    /// When checkpoints are taken. Default: every second.
    pub checkpoints: CoordinatorConfig,
    /// `execution.checkpointing.mode`, `execution.checkpointing.unaligned.enabled` and
    /// `execution.checkpointing.aligned-checkpoint-timeout`. Default: exactly once, always aligned.
    pub mode: Mode,
    /// How state by key is kept. Default: in the background.
    pub snapshots: Snapshots,
    /// Records that may wait between two subtasks. Default 1024.
    pub channel_capacity: usize,
    /// `restart-strategy.fixed-delay.attempts`: how often the job goes back to its last checkpoint by itself after a
    /// failure that may pass; a checkpoint that becomes complete begins the count anew. Default 3.
    pub restart_attempts: u32,
    /// `restart-strategy.fixed-delay.delay`. Default 1 s.
    pub restart_delay: Duration,
    /// What is done with a decision whose marker is missing (KAFKA-20734). Default: it is reported.
    pub on_hanging: OnHanging,
    /// Is told what happens.
    pub observer: Observer,
    /// Watches the steps at which a crash is interesting.
    pub steps: Steps,
}

impl Default for RunConfig {
    fn default() -> Self {
        Self {
            checkpoints: CoordinatorConfig::default(),
            mode: Mode::ExactlyOnce { aligned_timeout: None },
            snapshots: Snapshots::default(),
            channel_capacity: 1024,
            restart_attempts: 3,
            restart_delay: Duration::from_secs(1),
            on_hanging: OnHanging::default(),
            observer: Observer::default(),
            steps: Steps::default(),
        }
    }
}

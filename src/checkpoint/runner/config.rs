//! Settings of a run.

use std::time::Duration;

use super::event::Observer;
use crate::{
    checkpoint::step::Steps,
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

/// What is done with a decision whose marker is missing on a partition (KAFKA-20734).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnHanging {
    /// It is reported, and nothing of ours touches it.
    #[default]
    Report,
    /// The missing marker is written; needs ALTER on the cluster.
    Repair,
}

/// Where a job stops on purpose, leaving its transactions to others: at the first checkpoint for which any was prepared.
/// Each is kept by the store, and its sink writes nothing more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopAfter {
    /// A committable exists, and no checkpoint lists it.
    Prepare,
    /// A checkpoint lists it, and it is not committed.
    Durable,
}

/// What becomes of a periodic checkpoint when nothing was read, committed or settled since the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IdleCheckpoints {
    /// It is taken, as Flink does: somebody who watches the job sees that it lives.
    #[default]
    Taken,
    /// It is left out: a job that waits for its input writes nothing to its state.
    LeftOut,
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
    /// Bytes of memory that they may take, by [`Record::size_bytes`](crate::record::Record::size_bytes). A batch that a source
    /// reads at once may exceed both. Default 4 MiB.
    pub channel_bytes: usize,
    /// `restart-strategy.fixed-delay.attempts`: how often the job goes back to its last checkpoint by itself after a
    /// failure that may pass; a checkpoint that becomes complete begins the count anew. Default 3.
    pub restart_attempts: u32,
    /// `restart-strategy.fixed-delay.delay`. Default 1 s.
    pub restart_delay: Duration,
    /// What is done with a decision whose marker is missing (KAFKA-20734). Default: it is reported.
    pub on_hanging: OnHanging,
    /// Where the job stops on purpose. Default: nowhere.
    pub stop_after: Option<StopAfter>,
    /// What becomes of a periodic checkpoint that would hold nothing new. Default: it is taken.
    pub idle_checkpoints: IdleCheckpoints,
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
            channel_bytes: 4 << 20,
            restart_attempts: 3,
            restart_delay: Duration::from_secs(1),
            on_hanging: OnHanging::default(),
            stop_after: None,
            idle_checkpoints: IdleCheckpoints::default(),
            observer: Observer::default(),
            steps: Steps::default(),
        }
    }
}

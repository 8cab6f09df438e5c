//! What the alignment is told, and what it asks for.

use std::time::Duration;

use crate::{ids::Moment, proto::checkpoint::CheckpointKind};

/// A barrier: the records before it belong to the checkpoint, those behind it do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Barrier {
    /// The checkpoint.
    pub checkpoint: u64,
    /// Why it is taken.
    pub kind: CheckpointKind,
    /// When the coordinator triggered it.
    pub triggered: Moment,
}

/// What a snapshot promises, and what a barrier waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Each record counts once. A channel whose barrier was reached is not read until those of all channels are.
    ///
    /// A barrier that is older than the timeout stops waiting: it overtakes the records that stand in its way, and
    /// they join the snapshot. `None`: never; zero: at once. (`execution.checkpointing.unaligned.enabled`,
    /// `execution.checkpointing.aligned-checkpoint-timeout`.) Suspend and Final checkpoints always wait.
    ExactlyOnce {
        /// The age, since the trigger, at which a barrier stops waiting.
        aligned_timeout: Option<Duration>,
    },
    /// No channel waits. The snapshot is made when the last barrier is reached, and holds some of the records behind
    /// the first ones: those come again after a restart.
    AtLeastOnce,
}

/// A fact. Channels are numbered from 0; the barriers of one channel come with growing checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AlignmentInput {
    /// A barrier was put into the queue of this channel; records before it may still be unread. It comes before
    /// `Reached`, and `Reached` alone implies it.
    Announced {
        /// The channel.
        channel: usize,
        /// The barrier.
        barrier: Barrier,
    },
    /// The barrier is at the head of its queue: all records before it were processed.
    Reached {
        /// The channel.
        channel: usize,
        /// The barrier.
        barrier: Barrier,
    },
    /// The coordinator gave this checkpoint up: what was captured for it can be dropped.
    Aborted {
        /// The checkpoint.
        checkpoint: u64,
    },
    /// Everything in the channel's queue was read, and it will bring nothing more, not even barriers.
    Ended {
        /// The channel.
        channel: usize,
    },
    /// Look at the clock.
    Tick,
}

/// An intent. All of them are to be carried out before the next record of any channel is processed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AlignmentEffect {
    /// Read no further from this channel, until `Unblock`.
    Block {
        /// The channel.
        channel: usize,
    },
    /// Read on.
    Unblock {
        /// The channel.
        channel: usize,
    },
    /// Snapshot the operator's state now and send the barrier on.
    Snapshot {
        /// The barrier.
        barrier: Barrier,
        /// Whether it goes behind what is queued for output, or ahead of it.
        cut: Cut,
    },
    /// What stands in this channel's queue before the checkpoint's barrier, and what still arrives there before it,
    /// belongs to the snapshot. Copy it now, and on arrival; not when it is read. The records are processed as usual,
    /// too. Barriers of other checkpoints among them are no end of it, and are not captured.
    Capture {
        /// The checkpoint.
        checkpoint: u64,
        /// The channel.
        channel: usize,
    },
    /// The checkpoint can be acknowledged: the snapshot was made, and the barrier of every channel was announced, so
    /// that every captured record is known.
    Complete {
        /// The checkpoint.
        checkpoint: u64,
    },
    /// Its barrier will not come on every channel: decline it, and drop what was captured for it.
    GiveUp {
        /// The checkpoint.
        checkpoint: u64,
    },
}

/// How a snapshot cuts through the input channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cut {
    /// At the barriers. The barrier goes on behind all output of the records before it.
    Aligned,
    /// At what was read last. What stands before the barriers is captured, and the barrier goes on ahead of queued
    /// output, which is captured by whoever holds it.
    Unaligned,
}

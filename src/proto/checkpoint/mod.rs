//! Checkpoints of a whole job, as two machines.
//!
//! ```text
//!  Coordinator ── Trigger ──► sources ══ barrier, among the records ══► operators ══► sinks
//!      ▲                         │                  Alignment: one per subtask with input channels
//!      └───────── Ack ───────────┴────── each subtask, with its snapshot ──────┴───────┘
//!  every ack ─► Store ─► Stored ─► Notify ─► Confirmed
//! ```
//! The [`Coordinator`] decides when a checkpoint begins, whether it is complete, and who must still hear of it. The
//! [`Alignment`] of a subtask decides at which record of each input channel the snapshot is cut.
//!
//! # What an abort means for a sink
//! A checkpoint that is given up undoes nothing. Records before its barrier were processed, nobody replays them, and
//! a transaction that a writer prepared for it holds some of them. So what was prepared goes into the next
//! checkpoint, and is committed with that one. Only a restart from an older checkpoint makes it a leftover.

pub mod alignment;
pub mod coordinator;

pub use alignment::Alignment;
pub use coordinator::Coordinator;

/// Why a checkpoint is taken, carried by its barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CheckpointKind {
    /// The interval has elapsed.
    Periodic,
    /// Somebody asked for one.
    Manual,
    /// The last one before the job stops: sources emit nothing after its barrier, except another barrier of this kind
    /// when it failed.
    Suspend,
    /// All sources came to their end: operators flush (`finish`) before they snapshot.
    Final,
}

impl CheckpointKind {
    /// Whether the job ends with it.
    #[must_use]
    pub fn is_last(self) -> bool {
        match self {
            Self::Suspend | Self::Final => true,
            Self::Periodic | Self::Manual => false,
        }
    }
}

/// A fact that cannot be, or that was not asked for; the state is as before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this fact was not asked for")]
pub struct Misuse;

//! The states of a slot, and when it is used again.

use crate::proto::settle::CommittedButHanging;

/// A slot's number.
pub type Slot = u64;

/// Where a slot stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SlotState {
    /// Its transaction is being written.
    Active,
    /// Its transaction is a committable of this checkpoint.
    Prepared(u64),
    /// Its transaction is decided.
    Decided {
        /// Whether a durable checkpoint no longer lists the committable.
        listed: Listed,
        /// Whether the decision is on every partition.
        visible: Visible,
    },
    /// Its transaction hangs; neither the id nor its producer id is used again.
    Retired(Box<CommittedButHanging>),
    /// Whether something of its producer id is open is not known: it is not used in this run.
    Avoided,
}

/// Whether a restart could still find the committable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listed {
    /// The newest durable checkpoint may list it.
    Maybe,
    /// It does not.
    No,
}

/// Whether the decision has reached every partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visible {
    /// Not known.
    NotKnown,
    /// It has.
    Everywhere,
}

/// When an id whose transaction is decided is used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reuse {
    /// When no durable checkpoint lists it, and the decision is on every partition.
    #[default]
    WhenSettled,
    /// At once. **It loses records and doubles others**: for tests that show what the rule is good for.
    AtOnce,
}

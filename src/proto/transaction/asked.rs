//! What the machine has asked for, and what has come of it.

use crate::ids::Moment;

/// The one request to the coordinator that may be under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    Idle,
    Asked,
    Wait(Moment),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Topics {
    NotAsked,
    Asked,
    Checked,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StartTime {
    NotAsked,
    Asked,
    Told(Option<i64>),
}

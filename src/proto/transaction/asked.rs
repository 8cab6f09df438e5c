//! What the machine has asked for, and what has come of it.

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

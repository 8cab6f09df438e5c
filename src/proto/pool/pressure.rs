//! A writer that finds no free slot, and for how long.

use std::time::Duration;

use crate::ids::Moment;

/// Why there is no slot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "all {capacity} transactional ids of the writer are in use: {active} written, {prepared} waiting for their \
     commit, {decided} committed and waiting to be settled"
)]
pub struct PoolExhausted {
    /// How many may be in use.
    pub capacity: usize,
    /// Being written.
    pub active: usize,
    /// Prepared and not decided.
    pub prepared: usize,
    /// Decided, and not settled.
    pub decided: usize,
}

/// There has been no slot for longer than a writer may be held up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{exhausted}, for {waited:?}, longer than max.block.ms = {}: commits do not come through", max_block.as_millis())]
pub struct Blocked {
    /// What the slots wait for.
    pub exhausted: PoolExhausted,
    /// For how long there was none.
    pub waited: Duration,
    /// `max.block.ms`.
    pub max_block: Duration,
}

/// How long a writer has been held up by a pool without a free slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pressure {
    max_block: Duration,
    since: Option<Moment>,
}

impl Pressure {
    /// None yet. It may last for `max_block`.
    #[must_use]
    pub fn new(max_block: Duration) -> Self {
        Self { max_block, since: None }
    }

    /// There is a slot.
    pub fn relieved(&mut self) {
        self.since = None;
    }

    /// There is none, now.
    ///
    /// # Errors
    /// [`Blocked`] when that has lasted too long.
    pub fn exhausted(&mut self, now: Moment, exhausted: PoolExhausted) -> Result<PoolExhausted, Blocked> {
        let waited = now.since(*self.since.get_or_insert(now));
        let max_block = self.max_block;
        if waited >= max_block { Err(Blocked { exhausted, waited, max_block }) } else { Ok(exhausted) }
    }
}

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

impl PoolExhausted {
    /// What to do about it, for people.
    #[must_use]
    pub fn cure(&self) -> &'static str {
        if self.prepared >= self.decided {
            "See what the commits wait for (commit timeouts); if they are slow for good, give each subtask more slots \
             (sink.slots)"
        } else {
            "Markers are slow: look at the leaders of the target's partitions; if they are slow for good, give each \
             subtask more slots (sink.slots)"
        }
    }
}

/// There has been no slot for longer than a writer may be held up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{exhausted}, for {waited:?}, longer than max.block.ms = {}: commits do not come through. {}",
    max_block.as_millis(), exhausted.cure()
)]
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
    told: bool,
}

/// A pause that is longer than this is worth telling.
const TELL_AFTER: Duration = Duration::from_secs(1);

impl Pressure {
    /// None yet. It may last for `max_block`.
    #[must_use]
    pub fn new(max_block: Duration) -> Self {
        Self { max_block, since: None, told: false }
    }

    /// There is a slot.
    pub fn relieved(&mut self) {
        self.since = None;
        self.told = false;
    }

    /// For how long there has been none, once for each time that this lasts for a second.
    pub fn due(&mut self, now: Moment) -> Option<Duration> {
        let waited = self.since.map(|since| now.since(since)).filter(|waited| *waited >= TELL_AFTER)?;
        (!std::mem::replace(&mut self.told, true)).then_some(waited)
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

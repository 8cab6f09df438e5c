//! When the next periodic checkpoint is due.

use std::time::Duration;

use crate::ids::Moment;

/// A fixed rate, held up by the pause after each checkpoint.
#[derive(Debug)]
pub(super) struct Schedule {
    interval: Duration,
    min_pause: Duration,
    due: Moment,
    pause_until: Moment,
}

impl Schedule {
    pub(super) fn new(interval: Duration, min_pause: Duration, now: Moment) -> Self {
        Self { interval, min_pause, due: now.after(interval), pause_until: now }
    }

    /// When the next one may begin, as far as the clock is concerned. It stays in the past while the limit holds it up.
    pub(super) fn due(&self) -> Moment {
        self.due.max(self.pause_until)
    }

    /// When the pause is over.
    pub(super) fn pause_until(&self) -> Moment {
        self.pause_until
    }

    /// A periodic one begins now. One that was held up leaves the rate as it is, and those missed are not made up.
    pub(super) fn begun(&mut self, now: Moment) {
        let next = self.due.after(self.interval);
        self.due = if next > now { next } else { now.after(self.interval) };
    }

    /// A checkpoint has ended, well or badly.
    pub(super) fn ended(&mut self, now: Moment) {
        self.pause_until = now.after(self.min_pause);
    }
}

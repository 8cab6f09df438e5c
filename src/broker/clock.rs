//! The broker's clock: the wall's time at its start, and from then on the runtime's. So a paused runtime pauses it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

/// Copies agree with each other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    origin: Instant,
    origin_ms: i64,
}

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "the broker is a program with a clock of its own")]
    pub(crate) fn start() -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Self { origin: Instant::now(), origin_ms: millis(wall) }
    }

    /// Milliseconds since the Unix epoch.
    #[expect(clippy::disallowed_methods, reason = "the broker is a program with a clock of its own")]
    pub(crate) fn now_ms(&self) -> i64 {
        self.origin_ms.saturating_add(millis(Instant::now().duration_since(self.origin)))
    }
}

/// A duration as Kafka counts it.
pub(crate) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

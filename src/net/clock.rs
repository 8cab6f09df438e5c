//! The one clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use crate::ids::Moment;

/// Turns the runtime's clock into [`Moment`]s. Copies agree with each other.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    /// A clock that starts now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is where the clock is read")]
    pub fn start() -> Self {
        Self { origin: Instant::now() }
    }

    /// The present moment.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is where the clock is read")]
    pub fn now(&self) -> Moment {
        Moment::default().after(Instant::now().duration_since(self.origin))
    }

    /// Milliseconds since the Unix epoch, by the machine's wall clock.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is where the clock is read")]
    pub fn wall_ms() -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }

    /// The same from a clock that ticks every few milliseconds (1 to 10), where the system has one: reading it costs a
    /// fraction.
    #[must_use]
    pub fn coarse_wall_ms() -> i64 {
        #[cfg(target_os = "linux")]
        {
            use rustix::time::{ClockId, clock_gettime};
            let now = Duration::try_from(clock_gettime(ClockId::RealtimeCoarse)).unwrap_or_default();
            i64::try_from(now.as_secs()).unwrap_or_default() * 1000 + i64::from(now.subsec_millis())
        }
        #[cfg(not(target_os = "linux"))]
        Self::wall_ms()
    }

    /// A number that differs between processes and calls, for jitter and names; not a secret.
    #[must_use]
    pub fn seed() -> u64 {
        use std::hash::{BuildHasher, Hasher, RandomState};
        RandomState::new().build_hasher().finish()
    }

    /// Waits until `moment`; for ever if there is none.
    ///
    /// # Cancel safety
    /// Cancel safe: it holds no state.
    pub async fn sleep_until(&self, moment: Option<Moment>) {
        match moment {
            Some(moment) => tokio::time::sleep_until(self.origin + moment.since(Moment::default())).await,
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_coarse_clock_is_a_few_milliseconds_behind_at_most() {
        let late = || {
            let coarse = Clock::coarse_wall_ms();
            Clock::wall_ms() - coarse
        };
        // Whoever is interrupted between the two tries again.
        let closest = (0..1000).map(|_| late()).min_by_key(|late| late.abs());
        assert!(closest.is_some_and(|late| (-1..=10).contains(&late)), "{closest:?}");
    }
}

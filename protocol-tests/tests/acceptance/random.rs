//! Random moments that can be had again: `KAFKA_2PC_SEED` sets the seed, which is printed.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// SplitMix64.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// From the environment's seed, else from the clock.
    pub(crate) fn seeded() -> Self {
        let given = std::env::var("KAFKA_2PC_SEED").ok().and_then(|seed| seed.parse().ok());
        let clock = || {
            SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
        };
        let seed = given.unwrap_or_else(clock);
        eprintln!("KAFKA_2PC_SEED={seed}");
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    /// A time below `bound`, in microseconds.
    pub(crate) fn within(&mut self, bound: Duration) -> Duration {
        Duration::from_micros(self.below(u64::try_from(bound.as_micros()).unwrap_or(u64::MAX)))
    }
}

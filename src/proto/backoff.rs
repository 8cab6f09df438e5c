//! Waiting times that double, with jitter from a seed: pure, so that a simulation repeats them.

use std::time::Duration;

/// An exponential back-off with full reproducibility: the same seed gives the same waits.
#[derive(Debug, Clone)]
pub struct Backoff {
    first: Duration,
    most: Duration,
    tries: u32,
    seed: u64,
}

impl Backoff {
    /// Waits start at `first` and double up to `most`; each is then cut by up to a quarter, by `seed`.
    #[must_use]
    pub fn new(first: Duration, most: Duration, seed: u64) -> Self {
        Self { first, most, tries: 0, seed }
    }

    /// The next wait.
    pub fn next_wait(&mut self) -> Duration {
        let whole = self.first.saturating_mul(1u32 << self.tries.min(20)).min(self.most);
        self.tries = self.tries.saturating_add(1);
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let cut = mix(self.seed) % 256;
        whole - whole.mul_f64(f64::from(u8::try_from(cut).unwrap_or(u8::MAX)) / 1024.0)
    }

    /// How many waits were handed out since the last reset.
    #[must_use]
    pub fn tries(&self) -> u32 {
        self.tries
    }

    /// Starts again from the first wait: something worked.
    pub fn reset(&mut self) {
        self.tries = 0;
    }
}

/// How long to wait at most, after so many tries, for a coordinator that is busy with the end of a transaction: that takes
/// milliseconds, unless a partition has no leader. `None` once that must be so.
#[must_use]
pub fn soon(tries: u32) -> Option<Duration> {
    match tries {
        0..8 => Some(Duration::from_millis(1 << (tries / 2))),
        8..30 => Some(Duration::from_millis(16)),
        _ => None,
    }
}

/// The output function of splitmix64.
fn mix(seed: u64) -> u64 {
    let z = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_milliseconds_is_tried_again_soon_and_not_for_ever() {
        let waits: Vec<_> = (0..31).map(|tries| soon(tries).map(|wait| wait.as_millis())).collect();
        assert_eq!(waits[..10], [1, 1, 2, 2, 4, 4, 8, 8, 16, 16].map(Some));
        assert_eq!(waits[29..], [Some(16), None]);
    }

    #[test]
    fn waits_double_up_to_the_most_and_repeat_for_a_seed() {
        let waits = |seed| {
            let mut b = Backoff::new(Duration::from_millis(20), Duration::from_secs(1), seed);
            (0..12).map(|_| b.next_wait()).collect::<Vec<_>>()
        };
        assert_eq!(waits(7), waits(7));
        assert_ne!(waits(7), waits(8));
        for (i, wait) in waits(7).into_iter().enumerate() {
            let whole = Duration::from_millis(20 << i).min(Duration::from_secs(1));
            assert!(wait <= whole && wait >= whole.mul_f64(0.75), "{i}: {wait:?}");
        }
    }
}

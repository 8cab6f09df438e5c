//! How long things took.

use std::time::Duration;

/// Times, one for each time that something was done.
#[derive(Debug, Clone, Default)]
pub(in crate::cli) struct Latencies(Vec<Duration>);

/// The two figures that are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) struct Percentiles {
    /// Half of them took no longer.
    pub(in crate::cli) p50: Duration,
    /// 99 of 100 took no longer.
    pub(in crate::cli) p99: Duration,
}

impl Latencies {
    pub(in crate::cli) fn push(&mut self, took: Duration) {
        self.0.push(took);
    }

    pub(in crate::cli) fn count(&self) -> usize {
        self.0.len()
    }

    /// `None` if nothing was measured.
    pub(in crate::cli) fn percentiles(&self) -> Option<Percentiles> {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        // The nearest rank: the smallest time that so many are not above.
        let rank =
            |percent: usize| sorted.get((sorted.len() * percent).div_ceil(100).saturating_sub(1)).copied();
        Some(Percentiles { p50: rank(50)?, p99: rank(99)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn percentiles(count: u64) -> Option<(u64, u64)> {
        let mut all = Latencies::default();
        for ms in (1..=count).rev() {
            all.push(Duration::from_millis(ms));
        }
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap();
        all.percentiles().map(|p| (ms(p.p50), ms(p.p99)))
    }

    #[test]
    fn percentiles_are_times_that_were_measured() {
        assert_eq!(percentiles(0), None);
        assert_eq!(percentiles(1), Some((1, 1)));
        assert_eq!(percentiles(2), Some((1, 2)));
        assert_eq!(percentiles(100), Some((50, 99)));
        assert_eq!(percentiles(1000), Some((500, 990)));
    }
}

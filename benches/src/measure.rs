//! What this process has used, and the numbers that stand for many.

pub use kafka_2pc_bench_child::{cpu_time, peak_memory_bytes};

/// Values of one kind, sorted.
#[derive(Debug, Clone, Default)]
pub struct Sample(Vec<f64>);

impl Sample {
    /// A sample of these values.
    #[must_use]
    pub fn new(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        Self(values)
    }

    /// The value below which `percent` of the sample lies, by nearest rank; NaN without values.
    #[must_use]
    pub fn percentile(&self, percent: usize) -> f64 {
        let rank = (self.0.len() * percent).div_ceil(100).max(1);
        self.0.get(rank - 1).copied().unwrap_or(f64::NAN)
    }

    /// The median.
    #[must_use]
    pub fn median(&self) -> f64 {
        self.percentile(50)
    }

    /// The smallest value; NaN without values.
    #[must_use]
    pub fn min(&self) -> f64 {
        self.0.first().copied().unwrap_or(f64::NAN)
    }

    /// The largest value; NaN without values.
    #[must_use]
    pub fn max(&self) -> f64 {
        self.0.last().copied().unwrap_or(f64::NAN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_of_the_sample() {
        let sample = Sample::new((1..=100).rev().map(f64::from).collect());
        assert_eq!(
            (sample.min(), sample.median(), sample.percentile(99), sample.max()),
            (1.0, 50.0, 99.0, 100.0)
        );
        assert_eq!(Sample::new(vec![7.0]).percentile(99), 7.0);
        assert!(Sample::default().median().is_nan());
    }
}

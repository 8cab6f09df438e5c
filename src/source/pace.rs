//! Keeps to a rate: pure, time is an argument.

use std::time::Duration;

use crate::ids::Moment;

/// What was not used of the time before is used up to this at most. It makes up for late timers, and is too short for a
/// burst that anybody would notice.
const MOST_LATE: Duration = Duration::from_millis(20);

/// Lets `per_second` things pass, evenly. Nothing is made up for after a stop, a stall or a restart.
#[derive(Debug, Clone)]
pub(super) struct Pace {
    gap_micros: f64,
    /// When the next one is due, in microseconds as a [`Moment`] counts them.
    due: Option<f64>,
}

impl Pace {
    pub(super) fn new(per_second: f64) -> Self {
        Self { gap_micros: 1e6 / per_second, due: None }
    }

    /// How many may pass now, or when the next one may.
    pub(super) fn allowed(&mut self, now: Moment) -> Result<u64, Moment> {
        let now_micros = now.0 as f64;
        let oldest = now_micros - MOST_LATE.as_micros() as f64;
        let due = self.due.map_or(now_micros, |due| due.max(oldest));
        self.due = Some(due);
        if due <= now_micros {
            Ok(((now_micros - due) / self.gap_micros) as u64 + 1)
        } else {
            Err(Moment(due.ceil() as u64))
        }
    }

    /// So many have passed.
    pub(super) fn passed(&mut self, count: u64) {
        self.due = self.due.map(|due| due + count as f64 * self.gap_micros);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What passes in each of `steps` at which one looks.
    fn run(pace: &mut Pace, steps: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let mut passed = |at| {
            let count = pace.allowed(Moment(at)).unwrap_or(0);
            pace.passed(count);
            count
        };
        steps.into_iter().map(&mut passed).collect()
    }

    #[test]
    fn a_low_rate_lets_one_pass_at_a_time() {
        let mut pace = Pace::new(4.0);
        let seconds = run(&mut pace, (0..=2_000_000).step_by(1000));
        assert_eq!(seconds.iter().sum::<u64>(), 9);
        assert!(seconds.iter().all(|count| *count <= 1));
    }

    #[test]
    fn a_high_rate_is_kept_with_slow_looks() {
        let mut pace = Pace::new(1_000_000.0);
        let counts = run(&mut pace, (0..=1_000_000).step_by(7000));
        assert!((990_000..=1_000_000).contains(&counts.iter().sum::<u64>()), "{counts:?}");
    }

    #[test]
    fn a_stall_is_not_made_up_for() {
        let mut pace = Pace::new(1000.0);
        run(&mut pace, [0, 10_000]);
        assert!(run(&mut pace, [60_000_000]).iter().sum::<u64>() <= 21);
    }

    #[test]
    fn the_next_one_is_due_a_gap_after_the_last() {
        let mut pace = Pace::new(10.0);
        assert_eq!(pace.allowed(Moment(500)), Ok(1));
        pace.passed(1);
        assert_eq!(pace.allowed(Moment(600)), Err(Moment(100_500)));
        assert_eq!(pace.allowed(Moment(100_500)), Ok(1));
    }
}

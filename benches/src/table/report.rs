//! The table.

use kafka_2pc_benches::measure::Sample;
use serde_json::{Value, json};

use crate::rows::Goal;

/// A row with its values, or with the reason why it has none.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) id: &'static str,
    pub(crate) what: String,
    pub(crate) goal: Goal,
    /// One a round.
    pub(crate) values: Result<Sample, String>,
}

/// What a row came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    Stretch,
    Met,
    Missed,
    Shown,
    NotMeasured,
}

impl Row {
    pub(crate) fn measured(id: &'static str, what: String, goal: Goal, values: Vec<f64>) -> Self {
        let values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        let values = if values.is_empty() { Err("no value".into()) } else { Ok(Sample::new(values)) };
        Self { id, what, goal, values }
    }

    pub(crate) fn missing(id: &'static str, what: String, reason: String) -> Self {
        Self { id, what, goal: Goal::Shown, values: Err(reason) }
    }

    pub(crate) fn mark(&self) -> Mark {
        let Ok(sample) = &self.values else { return Mark::NotMeasured };
        match self.goal.is_met(sample.median()) {
            None => Mark::Shown,
            Some((_, true)) => Mark::Stretch,
            Some((true, false)) => Mark::Met,
            Some((false, false)) => Mark::Missed,
        }
    }

    fn goal_text(&self) -> String {
        match self.goal {
            Goal::AtMost(must, stretch) => format!("<= {must} ({stretch})"),
            Goal::AtLeast(must, stretch) => format!(">= {must} ({stretch})"),
            Goal::Shown => String::new(),
        }
    }

    pub(crate) fn line(&self) -> String {
        let head = format!("{:<3} {:<52}", self.id, self.what);
        match &self.values {
            Err(reason) => format!("{head} not measured: {reason}"),
            Ok(sample) => {
                let numbers = format!(
                    "{:>9} {:>17}",
                    short(sample.median()),
                    format!("{}..{}", short(sample.min()), short(sample.max()))
                );
                format!("{head} {numbers}   {:<14} {}", self.goal_text(), self.mark().word())
                    .trim_end()
                    .to_owned()
            }
        }
    }

    pub(crate) fn json(&self) -> Value {
        let values = match &self.values {
            Ok(sample) => json!({"median": sample.median(), "min": sample.min(), "max": sample.max()}),
            Err(reason) => json!({"reason": reason}),
        };
        let (goal, mark) = (self.goal_text(), format!("{:?}", self.mark()));
        json!({"id": self.id, "what": self.what.trim(), "goal": goal, "mark": mark, "values": values})
    }
}

impl Mark {
    fn word(self) -> &'static str {
        match self {
            Self::Stretch => "reached, and the stretch",
            Self::Met => "reached",
            Self::Missed => "MISSED",
            Self::Shown | Self::NotMeasured => "",
        }
    }
}

/// Three digits that count.
pub(crate) fn short(value: f64) -> String {
    let digits = if value.abs() >= 100.0 {
        0
    } else if value.abs() >= 10.0 {
        1
    } else if value.abs() >= 1.0 {
        2
    } else {
        3
    };
    format!("{value:.digits$}")
}

/// How many rows with a goal came to what.
pub(crate) fn summary(rows: &[Row]) -> String {
    let count = |mark| rows.iter().filter(|row| row.mark() == mark).count();
    format!(
        "{} reached ({} of them the stretch), {} missed, {} not measured",
        count(Mark::Met) + count(Mark::Stretch),
        count(Mark::Stretch),
        count(Mark::Missed),
        count(Mark::NotMeasured)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(goal: Goal, values: &[f64]) -> Row {
        Row::measured("X1", "what".into(), goal, values.to_vec())
    }

    #[test]
    fn goals_are_held_against_the_median() {
        assert_eq!(row(Goal::AtMost(0.5, 0.3), &[0.2, 0.4, 9.0]).mark(), Mark::Met);
        assert_eq!(row(Goal::AtMost(0.5, 0.3), &[0.3]).mark(), Mark::Stretch);
        assert_eq!(row(Goal::AtLeast(3.0, 5.0), &[2.9]).mark(), Mark::Missed);
        assert_eq!(row(Goal::Shown, &[1.0]).mark(), Mark::Shown);
        assert_eq!(row(Goal::Shown, &[f64::NAN]).mark(), Mark::NotMeasured);
    }

    #[test]
    fn lines_tell_what_was_missed_and_what_was_not_measured() {
        assert!(row(Goal::AtMost(0.5, 0.3), &[0.7]).line().ends_with("MISSED"));
        assert!(Row::missing("T8", "x".into(), "why".into()).line().contains("not measured: why"));
        assert_eq!([0.123_4, 1.234, 12.34, 123.4].map(short), ["0.123", "1.23", "12.3", "123"]);
    }
}

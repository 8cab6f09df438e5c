//! Times as people write them: `100ms`, `1s`, `1.5s`, `5m`, `2h`.

use std::time::Duration;

/// The time that a text names; a bare 0 is allowed.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "" if number == "0" => 1.0,
        _ => return Err(format!("{text:?} is no time: write 100ms, 1s, 5m or 2h")),
    };
    let number: f64 = number.parse().map_err(|_| format!("{text:?} is no time"))?;
    Duration::try_from_secs_f64(number * factor).map_err(|e| format!("{text:?}: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(parse_duration("100ms"), Ok(Duration::from_millis(100)));
        assert_eq!(parse_duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_duration("5m"), Ok(Duration::from_secs(300)));
        assert_eq!(parse_duration("0"), Ok(Duration::ZERO));
        for wrong in ["", "5", "s", "1d", "-1s", "1e400s"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }
}

//! Values and lines as Kafka and Flink write them.

use std::time::Duration;

/// Kafka's `.ms`: a bare number.
pub(super) fn millis(value: &str) -> Result<Duration, String> {
    value.parse().map(Duration::from_millis).map_err(|_| "it must be a number of milliseconds".into())
}

/// A time to wait for something. Nothing comes within none.
pub(super) fn wait(value: &str) -> Result<Duration, String> {
    above_zero(millis(value)?)
}

/// Flink's `Duration`: a whole number and a unit, with or without a blank between them; without a unit milliseconds.
pub(super) fn duration(value: &str) -> Result<Duration, String> {
    let digits = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    let (number, unit) = value.split_at(digits);
    let nanos: u64 = match unit.trim().to_lowercase().as_str() {
        "ns" | "nano" | "nanos" | "nanosecond" | "nanoseconds" => 1,
        "us" | "µs" | "micro" | "micros" | "microsecond" | "microseconds" => 1_000,
        "" | "ms" | "milli" | "millis" | "millisecond" | "milliseconds" => 1_000_000,
        "s" | "sec" | "secs" | "second" | "seconds" => 1_000_000_000,
        "m" | "min" | "mins" | "minute" | "minutes" => 60_000_000_000,
        "h" | "hour" | "hours" => 3_600_000_000_000,
        "d" | "day" | "days" => 86_400_000_000_000,
        _ => return Err("it must be a time such as 500 ms, 30 s, 10 min, 2 h or 1 d".into()),
    };
    let number: u64 = number.parse().map_err(|_| "it must begin with a whole number".to_owned())?;
    let nanos = number.checked_mul(nanos).ok_or("it is longer than 584 years")?;
    Ok(Duration::from_nanos(nanos))
}

/// A [`duration`] that can't be zero.
pub(super) fn duration_above_zero(value: &str) -> Result<Duration, String> {
    above_zero(duration(value)?)
}

fn above_zero(time: Duration) -> Result<Duration, String> {
    if time.is_zero() { Err("it must be above 0".into()) } else { Ok(time) }
}

/// A number of bytes above 0.
pub(super) fn bytes(value: &str) -> Result<usize, String> {
    let number = value.parse().ok().filter(|n| *n > 0);
    number.ok_or_else(|| "it must be a number of bytes above 0".into())
}

/// A whole number from `least` to `most`.
pub(super) fn number(value: &str, least: u32, most: u32) -> Result<u32, String> {
    let number = value.parse().ok().filter(|n| (least..=most).contains(n));
    number.ok_or_else(|| match most {
        u32::MAX => format!("it must be a whole number of at least {least}"),
        _ => format!("it must be a whole number from {least} to {most}"),
    })
}

/// `true` or `false`.
pub(super) fn switch(value: &str) -> Result<bool, String> {
    value.to_lowercase().parse().map_err(|_| "it must be true or false".into())
}

/// A word in Flink's enumerations, where case and `-` or `_` make no difference.
pub(super) fn word(value: &str) -> String {
    value.to_lowercase().replace('_', "-")
}

/// What a line of a file says: `name=value`, as in Kafka's properties, or `name: value`, as in Flink's flat YAML, where a
/// value may be quoted and ` #` begins a comment. `None` for an empty line or a comment.
pub(super) fn line(line: &str) -> Result<Option<(&str, &str)>, String> {
    let line = line.trim();
    if line.is_empty() || line.starts_with(['#', '!']) || line == "---" {
        return Ok(None);
    }
    match line.find(['=', ':']).map(|at| (line.split_at(at), line[at..].starts_with(':'))) {
        Some(((name, value), false)) => Ok(Some((name.trim(), value[1..].trim()))),
        Some(((name, value), true)) => {
            let value = value[1..].split(" #").next().unwrap_or_default().trim();
            if value.is_empty() {
                return Err(format!("{line:?} has no value; of YAML, only flat lines are read, NAME: VALUE"));
            }
            Ok(Some((name.trim(), unquoted(value))))
        }
        None => Err(format!("{line:?} is not NAME=VALUE or NAME: VALUE")),
    }
}

fn unquoted(value: &str) -> &str {
    let within = |quote| value.strip_prefix(quote).and_then(|v| v.strip_suffix(quote));
    within('"').or_else(|| within('\'')).unwrap_or(value)
}

/// How many characters must be changed to make one of the other (Levenshtein).
pub(super) fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = corner + usize::from(x != *y);
            corner = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(corner + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_flink_reads_them() {
        for (text, ms) in [
            ("30 s", 30_000),
            ("30s", 30_000),
            ("10min", 600_000),
            ("10 MIN", 600_000),
            ("2 hours", 7_200_000),
            ("1d", 86_400_000),
            ("1 m", 60_000),
            ("250", 250),
            ("0", 0),
            ("5 milliseconds", 5),
            ("7000 us", 7),
            ("9000000ns", 9),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "s", "-1 s", "1.5 s", "3 weeks", "99999999999 d"] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert!(duration_above_zero("0 s").unwrap_err().contains("above 0"));
    }

    #[test]
    fn lines_of_both_kinds_are_read() {
        for (text, read) in [
            ("a.b=c", Some(("a.b", "c"))),
            (" a.b = x:1 ", Some(("a.b", "x:1"))),
            ("a.b: x:1=2", Some(("a.b", "x:1=2"))),
            ("a.b: 30 s # half a minute", Some(("a.b", "30 s"))),
            ("a.b: \"30 s\"", Some(("a.b", "30 s"))),
            ("a.b: 'c'", Some(("a.b", "c"))),
            ("a=b #c", Some(("a", "b #c"))),
            ("a=", Some(("a", ""))),
            ("# a=b", None),
            ("! a=b", None),
            ("---", None),
            ("", None),
        ] {
            assert_eq!(line(text), Ok(read), "{text}");
        }
        assert!(line("execution:").unwrap_err().contains("flat"));
        assert!(line("nonsense").unwrap_err().contains("NAME=VALUE"));
    }
}

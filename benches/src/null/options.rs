//! How the null broker behaves.

use std::{str::FromStr, time::Duration};

use anyhow::{Context, Result, bail};

/// When an answer leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// At once.
    Instant,
    /// So much after its request came; meanwhile the next requests are read. A network that is far.
    Delay(Duration),
    /// One request of a connection at a time, so much for each: real brokers mute a connection until its answer is sent.
    Serial(Duration),
}

/// What is looked at in a Produce request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// The headers of its batches.
    Headers,
    /// Everything: checksums, sequences, the records themselves unless they are compressed.
    Everything,
}

/// The settings of a [`NullBroker`](super::NullBroker).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// When answers leave.
    pub pace: Pace,
    /// What is looked at.
    pub check: Check,
    /// The only topic.
    pub topic: String,
    /// Its partitions.
    pub partitions: i32,
    /// The level of the feature `transaction.version`; 0 is a broker without that feature.
    pub transaction_version: i16,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            pace: Pace::Instant,
            check: Check::Headers,
            topic: "bench".into(),
            partitions: 1,
            transaction_version: 2,
        }
    }
}

impl Settings {
    /// Reads the words of a command line.
    ///
    /// # Errors
    /// An option that there is not, or a value that does not fit.
    pub fn parse(words: impl IntoIterator<Item = String>) -> Result<Self> {
        let (mut settings, mut mode, mut delay_ms) = (Self::default(), "instant".to_owned(), 0);
        let mut words = words.into_iter();
        while let Some(name) = words.next() {
            let value = words.next().with_context(|| format!("{name}: its value is missing"))?;
            match name.as_str() {
                "--mode" => mode = value,
                "--delay-ms" => delay_ms = number(&value)?,
                "--topic" => settings.topic = value,
                "--partitions" => settings.partitions = number::<i32>(&value)?.max(1),
                "--transaction-version" => settings.transaction_version = number(&value)?,
                _ => bail!("{name}: no such option"),
            }
        }
        let delay = Duration::from_millis(delay_ms);
        (settings.pace, settings.check) = match mode.as_str() {
            "instant" => (Pace::Instant, Check::Headers),
            "delay" => (Pace::Delay(delay), Check::Headers),
            "serial" => (Pace::Serial(delay), Check::Headers),
            "verify" => (Pace::Instant, Check::Everything),
            _ => bail!("{mode}: instant, delay, serial or verify"),
        };
        Ok(settings)
    }
}

fn number<T: FromStr<Err: std::error::Error + Send + Sync + 'static>>(text: &str) -> Result<T> {
    text.parse().with_context(|| format!("{text}: not a number that fits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Settings> {
        Settings::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn modes_are_read() {
        let serial = parse("--mode serial --delay-ms 2 --partitions 12 --transaction-version 1").unwrap();
        assert_eq!(serial.pace, Pace::Serial(Duration::from_millis(2)));
        assert_eq!((serial.partitions, serial.transaction_version), (12, 1));
        assert_eq!(parse("--mode verify").unwrap().check, Check::Everything);
        assert_eq!(parse("").unwrap(), Settings::default());
        for wrong in ["--mode slow", "--partitions x", "--what 1", "--mode"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}

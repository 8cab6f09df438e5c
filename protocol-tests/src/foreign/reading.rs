//! Reading a topic with a foreign client.

use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use super::{ForeignError, Venv};

const SCRIPT: &str = "reader.py";

/// Whose client reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Library {
    /// librdkafka, through confluent-kafka.
    Confluent,
    /// aiokafka, pure Python.
    Aiokafka,
}

impl Library {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Confluent, Self::Aiokafka];

    fn name(self) -> &'static str {
        match self {
            Self::Confluent => "confluent",
            Self::Aiokafka => "aiokafka",
        }
    }
}

/// Kafka's `isolation.level`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// Only committed records, up to the last stable offset.
    Committed,
    /// Every record, up to the high watermark.
    Uncommitted,
}

impl Isolation {
    /// As Kafka's property spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Committed => "read_committed",
            Self::Uncommitted => "read_uncommitted",
        }
    }
}

/// Among which records order is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Those of a partition.
    ByPartition,
    /// Those of a key.
    ByKey,
}

impl Order {
    fn name(self) -> &'static str {
        match self {
            Self::ByPartition => "partition",
            Self::ByKey => "key",
        }
    }
}

/// What to read: a topic, from its start to the end that it has when reading begins.
#[derive(Debug, Clone)]
pub struct Reading<'a> {
    /// Whose client reads.
    pub library: Library,
    /// Where the cluster is.
    pub bootstrap: &'a str,
    /// The topic.
    pub topic: &'a str,
    /// Whether uncommitted records count.
    pub isolation: Isolation,
    /// Among which records [`Venv::compare`] looks at the order.
    pub order: Order,
    /// How long it may take.
    pub timeout: Duration,
}

impl<'a> Reading<'a> {
    /// Committed records by this library, within 60 s.
    pub fn committed(library: Library, bootstrap: &'a str, topic: &'a str) -> Self {
        Self {
            library,
            bootstrap,
            topic,
            isolation: Isolation::Committed,
            order: Order::ByPartition,
            timeout: Duration::from_secs(60),
        }
    }

    /// Every record by this library, within 60 s.
    pub fn uncommitted(library: Library, bootstrap: &'a str, topic: &'a str) -> Self {
        Self { isolation: Isolation::Uncommitted, ..Self::committed(library, bootstrap, topic) }
    }

    fn arguments(&self) -> Vec<String> {
        let timeout = self.timeout.as_secs_f64().to_string();
        let words = [
            ("--library", self.library.name()),
            ("--bootstrap", self.bootstrap),
            ("--topic", self.topic),
            ("--isolation", self.isolation.name()),
            ("--order", self.order.name()),
            ("--timeout", &timeout),
        ];
        let mut all = vec!["--until-end".to_owned()];
        all.extend(words.iter().flat_map(|(name, value)| [(*name).to_owned(), (*value).to_owned()]));
        all
    }

    /// The script keeps to its own limit; this one is for a script that hangs.
    fn limit(&self) -> Duration {
        self.timeout + Duration::from_secs(20)
    }
}

/// A record as the foreign client saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Partition.
    pub partition: i32,
    /// Offset.
    pub offset: i64,
    /// Milliseconds since 1970.
    pub timestamp_ms: i64,
    /// Key, or null.
    pub key: Option<Vec<u8>>,
    /// Value, or null.
    pub value: Option<Vec<u8>>,
    /// Headers in their order, repeated names too.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

impl Record {
    /// The value as text; lossy, and empty when null.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(self.value.as_deref().unwrap_or_default()).into_owned()
    }
}

/// The values of a topic against the lines of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Comparison {
    /// Values read.
    pub records: u64,
    /// Values read more often than the file has them.
    pub duplicated: u64,
    /// Lines read too rarely.
    pub lost: u64,
    /// Values that are no line.
    pub unexpected: u64,
    /// Values that break the file's order within their partition, or among those of their key.
    pub out_of_order: u64,
    /// A few of each kind, as JSON, for the failure message.
    pub examples: String,
}

impl Comparison {
    /// True when every line was read exactly once and in order.
    pub fn is_exact(&self) -> bool {
        self.duplicated == 0 && self.lost == 0 && self.unexpected == 0 && self.out_of_order == 0
    }
}

impl Venv {
    /// All records, partition by partition in the order of their offsets.
    ///
    /// # Errors
    /// The client fails, or does not reach the end in time.
    pub fn read(&self, reading: &Reading<'_>) -> Result<Vec<Record>, ForeignError> {
        let folder = tempfile::tempdir().map_err(ForeignError::io("create a temporary folder"))?;
        let output = folder.path().join("records");
        let mut arguments = reading.arguments();
        arguments.extend(["--output".to_owned(), output.display().to_string()]);
        self.run(SCRIPT, &arguments, reading.limit())?;
        let text = std::fs::read_to_string(&output).map_err(ForeignError::io("read the records"))?;
        let mut records = text.lines().map(record).collect::<Result<Vec<_>, _>>()?;
        records.sort_by_key(|record| (record.partition, record.offset));
        Ok(records)
    }

    /// Compares the values with the lines of a file: 100,000 take about a second.
    ///
    /// # Errors
    /// The client fails, or does not reach the end in time. A difference is no error: see [`Comparison::is_exact`].
    pub fn compare(&self, reading: &Reading<'_>, lines: &Path) -> Result<Comparison, ForeignError> {
        let mut arguments = reading.arguments();
        arguments.extend(["--expect-lines".to_owned(), lines.display().to_string()]);
        let captured = self.run(SCRIPT, &arguments, reading.limit())?;
        let summary: Value = serde_json::from_str(captured.stdout.trim()).map_err(|e| strange(&e))?;
        let count =
            |name: &str| summary[name].as_u64().ok_or_else(|| strange(&format!("no {name} in {summary}")));
        Ok(Comparison {
            records: count("records")?,
            duplicated: count("duplicated")?,
            lost: count("lost")?,
            unexpected: count("unexpected")?,
            out_of_order: count("out_of_order")?,
            examples: summary["examples"].to_string(),
        })
    }
}

fn record(line: &str) -> Result<Record, ForeignError> {
    let json: Value = serde_json::from_str(line).map_err(|e| strange(&e))?;
    let number = |name: &str| json[name].as_i64().ok_or_else(|| strange(&format!("no {name} in {json}")));
    let header = |pair: &Value| {
        let name = pair[0].as_str().ok_or_else(|| strange(&format!("header {pair}")))?;
        Ok((name.to_owned(), bytes(&pair[1])?))
    };
    Ok(Record {
        partition: i32::try_from(number("partition")?).map_err(|e| strange(&e))?,
        offset: number("offset")?,
        timestamp_ms: number("timestamp")?,
        key: bytes(&json["key"])?,
        value: bytes(&json["value"])?,
        headers: json["headers"].as_array().into_iter().flatten().map(header).collect::<Result<_, _>>()?,
    })
}

fn bytes(json: &Value) -> Result<Option<Vec<u8>>, ForeignError> {
    match json {
        Value::Null => Ok(None),
        Value::String(text) => BASE64_STANDARD.decode(text).map(Some).map_err(|e| strange(&e)),
        other => Err(strange(&format!("{other} is no base64"))),
    }
}

pub(super) fn strange(what: &dyn std::fmt::Display) -> ForeignError {
    ForeignError::Strange { script: SCRIPT, what: what.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_becomes_a_record() {
        let line = r#"{"partition": 1, "offset": 7, "timestamp": 5, "key": null, "value": "YQ==", "headers": [["h", ""], ["h", null]]}"#;
        let read = record(line).unwrap();
        assert_eq!((read.partition, read.offset, read.timestamp_ms), (1, 7, 5));
        assert_eq!((read.key.as_deref(), read.text().as_str()), (None, "a"));
        assert_eq!(read.headers, [("h".to_owned(), Some(vec![])), ("h".to_owned(), None)]);
    }

    #[test]
    fn a_strange_line_is_an_error() {
        for line in ["", "{}", r#"{"partition": 1, "offset": 7, "timestamp": 5, "key": 3}"#] {
            assert!(matches!(record(line), Err(ForeignError::Strange { .. })), "{line}");
        }
    }
}

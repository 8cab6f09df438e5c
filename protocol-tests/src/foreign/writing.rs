//! Writing transactions with librdkafka, or one with aiokafka.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::{ForeignError, Library, Venv};
use crate::process::Guarded;

const SCRIPT: &str = "writer.py";

/// The same with aiokafka, for one transaction that is committed.
const AIOKAFKA: &str = "aio_writer.py";

/// How the writer leaves its transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Commits each.
    Commit,
    /// Flushes and aborts each.
    Abort,
    /// Flushes the first and dies: it stays open. A second run under the same id fences it: "fence and replay".
    Open,
}

impl End {
    fn name(self) -> &'static str {
        match self {
            Self::Commit => "commit",
            Self::Abort => "abort",
            Self::Open => "open",
        }
    }
}

/// What records have besides their values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shapes {
    /// Their number as the key.
    Plain,
    /// Everything that a copy could lose: null keys and values, headers (repeated, empty, null), timestamps of long ago.
    All,
}

/// What a line of a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineForm {
    /// A value. Its key is its number.
    Value,
    /// A key, a space, a value. The partition depends on the key alone.
    KeyAndValue,
}

/// What to write: values `PREFIX-NUMBER`, or the lines of a file, round robin over the partitions.
#[derive(Debug, Clone)]
pub struct Writing<'a> {
    /// Whose client writes.
    pub library: Library,
    /// Where the cluster is.
    pub bootstrap: &'a str,
    /// The topic.
    pub topic: &'a str,
    /// The transactional id; whoever holds it is fenced.
    pub transactional_id: &'a str,
    /// Number of records; not looked at when `lines` is given.
    pub records: u32,
    /// The number of the first record.
    pub start: u32,
    /// What values begin with.
    pub prefix: &'a str,
    /// A file whose lines are the values.
    pub lines: Option<&'a Path>,
    /// What the records have besides.
    pub shapes: Shapes,
    /// What a line holds.
    pub form: LineForm,
    /// The most records in a batch (`batch.num.messages`).
    pub batch_records: u32,
    /// Number of transactions that share the records.
    pub transactions: u32,
    /// Writes to this partition only.
    pub partition: Option<i32>,
    /// Kafka's `compression.type`.
    pub compression: &'a str,
    /// Kafka's `linger.ms`.
    pub linger: Duration,
    /// Kafka's `transaction.timeout.ms`.
    pub transaction_timeout: Duration,
}

impl<'a> Writing<'a> {
    /// Ten records in one transaction by librdkafka, uncompressed, with a minute's transaction timeout.
    pub fn new(bootstrap: &'a str, topic: &'a str, transactional_id: &'a str) -> Self {
        Self {
            library: Library::Confluent,
            bootstrap,
            topic,
            transactional_id,
            records: 10,
            start: 0,
            prefix: "value",
            lines: None,
            shapes: Shapes::Plain,
            form: LineForm::Value,
            batch_records: 10_000,
            transactions: 1,
            partition: None,
            compression: "none",
            linger: Duration::from_millis(5),
            transaction_timeout: Duration::from_secs(60),
        }
    }

    fn arguments(&self, end: &str) -> Vec<String> {
        let numbers = [
            self.records.to_string(),
            self.transactions.to_string(),
            self.transaction_timeout.as_millis().to_string(),
            self.batch_records.to_string(),
            self.linger.as_millis().to_string(),
            self.start.to_string(),
        ];
        let words = [
            ("--bootstrap", self.bootstrap),
            ("--topic", self.topic),
            ("--transactional-id", self.transactional_id),
            ("--records", &numbers[0]),
            ("--prefix", self.prefix),
            ("--transactions", &numbers[1]),
            ("--compression", self.compression),
            ("--transaction-timeout-ms", &numbers[2]),
            ("--batch-records", &numbers[3]),
            ("--linger-ms", &numbers[4]),
            ("--start", &numbers[5]),
            ("--end", end),
        ];
        let mut all: Vec<_> =
            words.iter().flat_map(|(name, value)| [(*name).to_owned(), (*value).to_owned()]).collect();
        if let Some(lines) = self.lines {
            all.extend(["--lines".to_owned(), lines.display().to_string()]);
        }
        if self.shapes == Shapes::All {
            all.push("--shapes".to_owned());
        }
        if self.form == LineForm::KeyAndValue {
            all.push("--keyed".to_owned());
        }
        if let Some(partition) = self.partition {
            all.extend(["--partition".to_owned(), partition.to_string()]);
        }
        all
    }
}

/// One thing the writer did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// `init_transactions` is done.
    Initialized,
    /// All records of a transaction are acknowledged: their number, and first and last offset per partition.
    Flushed {
        /// Number of records.
        records: u64,
        /// First and last offset of each partition written to.
        offsets: BTreeMap<i32, (i64, i64)>,
    },
    /// The transaction was committed.
    Committed,
    /// The transaction was aborted.
    Aborted,
    /// The writer left the transaction open and died.
    LeftOpen,
    /// The writer keeps the transaction open and waits.
    Holding,
    /// librdkafka refused: its error code and text.
    Failed {
        /// librdkafka's code; Kafka's own codes are the positive ones.
        code: i64,
        /// What it says.
        error: String,
    },
}

/// A writer that keeps its flushed transaction open until it is told. Dropped, it is killed, and the transaction stays open.
#[derive(Debug)]
pub struct Held {
    process: Guarded,
    folder: TempDir,
}

impl Venv {
    /// Writes, and says what was done.
    ///
    /// # Errors
    /// The client fails.
    pub fn write(&self, writing: &Writing<'_>, end: End) -> Result<Vec<Step>, ForeignError> {
        let script = match writing.library {
            Library::Confluent => SCRIPT,
            Library::Aiokafka => AIOKAFKA,
        };
        let captured = self.run(script, &writing.arguments(end.name()), Duration::from_secs(180))?;
        steps(&captured.stdout)
    }

    /// Writes one transaction, and returns while it is open and its records are acknowledged.
    ///
    /// # Errors
    /// The client fails before that.
    pub fn hold(&self, writing: &Writing<'_>) -> Result<Held, ForeignError> {
        let folder = tempfile::tempdir().map_err(ForeignError::io("create a temporary folder"))?;
        let file =
            |name: &str| File::create(folder.path().join(name)).map_err(ForeignError::io("create a file"));
        let mut arguments = vec![Self::script(SCRIPT)];
        arguments.extend(writing.arguments("hold"));
        let process = self
            .watchdog
            .spawn_split(&self.python(), &arguments, file("out")?, file("err")?)
            .map_err(ForeignError::io("start writer.py"))?;
        let mut held = Held { process, folder };
        let deadline = Instant::now() + Duration::from_secs(60);
        while !held.steps()?.contains(&Step::Holding) {
            let ended = held.process.exit().map_err(ForeignError::io("look at writer.py"))?.is_some();
            if ended || Instant::now() >= deadline {
                return Err(held.failed("did not come to hold a transaction"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(held)
    }
}

impl Held {
    /// Commits, and says all steps: [`Step::Committed`] last, or [`Step::Failed`] when it was fenced meanwhile.
    ///
    /// # Errors
    /// The client hangs or breaks.
    pub fn commit(self) -> Result<Vec<Step>, ForeignError> {
        self.decide("commit")
    }

    /// Aborts, and says all steps.
    ///
    /// # Errors
    /// The client hangs or breaks.
    pub fn abort(self) -> Result<Vec<Step>, ForeignError> {
        self.decide("abort")
    }

    fn decide(mut self, how: &str) -> Result<Vec<Step>, ForeignError> {
        self.process.tell(how).map_err(ForeignError::io("tell writer.py"))?;
        let exit = self
            .process
            .exit_within(Duration::from_secs(90))
            .map_err(ForeignError::io("wait for writer.py"))?;
        let steps = self.steps()?;
        match steps.last() {
            Some(Step::Committed | Step::Aborted | Step::Failed { .. }) if exit.is_some() => Ok(steps),
            _ => Err(self.failed("did not end its transaction")),
        }
    }

    /// What it did so far; a line that is not finished yet is left for the next time.
    fn steps(&self) -> Result<Vec<Step>, ForeignError> {
        let text = std::fs::read_to_string(self.folder.path().join("out"))
            .map_err(ForeignError::io("read what writer.py printed"))?;
        steps(&text[..text.rfind('\n').map_or(0, |end| end + 1)])
    }

    fn failed(&self, outcome: &str) -> ForeignError {
        let text = |name| std::fs::read_to_string(self.folder.path().join(name)).unwrap_or_default();
        let output = format!("{}{}", text("out"), text("err"));
        ForeignError::Failed { script: SCRIPT, outcome: outcome.into(), output }
    }
}

fn steps(text: &str) -> Result<Vec<Step>, ForeignError> {
    text.lines().map(step).collect()
}

fn step(line: &str) -> Result<Step, ForeignError> {
    let strange = || ForeignError::Strange { script: SCRIPT, what: line.to_owned() };
    let json: Value = serde_json::from_str(line).map_err(|_| strange())?;
    match json["step"].as_str() {
        Some("initialized") => Ok(Step::Initialized),
        Some("committed") => Ok(Step::Committed),
        Some("aborted") => Ok(Step::Aborted),
        Some("left open") => Ok(Step::LeftOpen),
        Some("holding") => Ok(Step::Holding),
        Some("flushed") => flushed(&json).ok_or_else(strange),
        Some("failed") => Ok(Step::Failed {
            code: json["code"].as_i64().ok_or_else(strange)?,
            error: json["error"].as_str().unwrap_or_default().to_owned(),
        }),
        _ => Err(strange()),
    }
}

fn flushed(json: &Value) -> Option<Step> {
    let ends = |(partition, ends): (&String, &Value)| {
        Some((partition.parse().ok()?, (ends[0].as_i64()?, ends[1].as_i64()?)))
    };
    let offsets = json["offsets"].as_object()?.iter().map(ends).collect::<Option<_>>()?;
    Some(Step::Flushed { records: json["records"].as_u64()?, offsets })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_read() {
        let text = r#"{"step": "initialized", "transactional_id": "a"}
{"step": "flushed", "transaction": 0, "records": 3, "offsets": {"0": [4, 6]}}
{"step": "failed", "code": -144, "error": "fenced", "fatal": true}
"#;
        let read = steps(text).unwrap();
        assert_eq!(read[0], Step::Initialized);
        assert_eq!(read[1], Step::Flushed { records: 3, offsets: BTreeMap::from([(0, (4, 6))]) });
        assert_eq!(read[2], Step::Failed { code: -144, error: "fenced".into() });
        assert!(steps("{\"step\": \"danced\"}").is_err());
    }
}

//! Kafka's own command line tools, as the second opinion on what is in the log.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;

use super::jars::{self, JarSet, Jars};
use super::{KafkaError, launch};
use crate::process::{self, Watchdog};

const LIMIT: Duration = Duration::from_secs(120);

/// The tools of one Kafka version, against one cluster.
#[derive(Debug)]
pub struct Tools {
    jars: Jars,
    bootstrap: String,
    watchdog: Arc<Watchdog>,
    folder: TempDir,
}

/// What a tool printed.
#[derive(Debug, Clone)]
pub struct ToolOutput {
    /// Standard output.
    pub stdout: String,
    /// Standard error, with the tool's log.
    pub stderr: String,
}

/// A row of `kafka-transactions list`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedTransaction {
    /// The transactional id.
    pub transactional_id: String,
    /// The node that coordinates it.
    pub coordinator: i32,
    /// Its producer id.
    pub producer_id: i64,
    /// Its state, as Kafka names it: `Ongoing`, `CompleteCommit`...
    pub state: String,
}

/// What `kafka-console-consumer` shall read, from the beginning.
#[derive(Debug, Clone)]
pub struct ConsoleRead<'a> {
    /// The topic.
    pub topic: &'a str,
    /// `read_committed` or `read_uncommitted`.
    pub isolation: &'a str,
    /// Stop after so many; `None`: only when nothing has come for `idle`.
    pub max_messages: Option<u64>,
    /// Stop when nothing has come for so long.
    pub idle: Duration,
}

/// What `kafka-console-producer` shall write.
#[derive(Debug, Clone)]
pub struct ConsoleWrite<'a> {
    /// The topic.
    pub topic: &'a str,
    /// Kafka's `compression.type`.
    pub compression: &'a str,
    /// A file of lines `HEADERS`, tab, `KEY`, tab, `VALUE`.
    pub lines: &'a Path,
    /// What stands for null in a line.
    pub null: &'a str,
}

/// A batch as `kafka-dump-log` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DumpedBatch {
    /// How many records it holds.
    pub records: u32,
    /// `none`, `lz4`, `snappy`..
    pub codec: String,
    /// Its size in the log.
    pub bytes: u64,
    /// Whether it is a marker.
    pub is_control: bool,
}

impl Tools {
    /// The tools of `version`, their jars fetched at first use.
    ///
    /// # Errors
    /// The jars can not be fetched.
    pub fn new(version: &str, bootstrap: &str) -> Result<Self, KafkaError> {
        let jars = Jars::ensure(version, JarSet::Tools)?;
        let folder = tempfile::tempdir().map_err(KafkaError::io("create a temporary folder"))?;
        let watchdog = Watchdog::start(None).map_err(KafkaError::io("start the watchdog"))?;
        launch::write_logging(folder.path())?;
        Ok(Self { jars, bootstrap: bootstrap.into(), watchdog: Arc::new(watchdog), folder })
    }

    /// Runs a class, `--bootstrap-server` first and then these arguments. At most 120 s.
    ///
    /// # Errors
    /// [`KafkaError::ToolFailed`] with all that it printed.
    pub fn run(&self, class: &str, arguments: &[&str]) -> Result<ToolOutput, KafkaError> {
        let mut all = vec!["--bootstrap-server", &self.bootstrap];
        all.extend(arguments);
        self.run_alone(class, &all)
    }

    /// `kafka-console-producer`, with keys and headers: Kafka's Java producer, in one batch if there is room.
    ///
    /// # Errors
    /// The tool fails.
    pub fn console_producer(&self, write: &ConsoleWrite<'_>) -> Result<(), KafkaError> {
        let null = format!("null.marker={}", write.null);
        let mut arguments = vec!["--topic", write.topic, "--compression-codec", write.compression];
        for property in ["parse.key=true", "parse.headers=true", &null] {
            arguments.extend(["--reader-property", property]);
        }
        for property in ["linger.ms=500", "batch.size=900000"] {
            arguments.extend(["--producer-property", property]);
        }
        let class = "org.apache.kafka.tools.ConsoleProducer";
        let mut run = vec![class, "--bootstrap-server", &self.bootstrap];
        run.extend(arguments);
        let mut words = vec!["-c".to_owned(), r#"input=$1; shift; exec "$@" <"$input""#.to_owned()];
        words.extend(["with-input".to_owned(), write.lines.display().to_string()]);
        words.push(jars::java().display().to_string());
        words.extend(launch::java_arguments(&self.jars, self.folder.path(), &run));
        self.captured(class, Path::new("sh"), &words).map(|_| ())
    }

    /// Runs a class that asks no cluster.
    fn run_alone(&self, class: &str, arguments: &[&str]) -> Result<ToolOutput, KafkaError> {
        let mut run = vec![class];
        run.extend(arguments);
        let arguments = launch::java_arguments(&self.jars, self.folder.path(), &run);
        self.captured(class, &jars::java(), &arguments)
    }

    fn captured(&self, class: &str, program: &Path, arguments: &[String]) -> Result<ToolOutput, KafkaError> {
        let captured = process::capture(&self.watchdog, program, arguments, LIMIT)
            .map_err(KafkaError::io(format!("run {class}")))?;
        let failure = captured.failure(LIMIT);
        let output = ToolOutput { stdout: captured.stdout, stderr: captured.stderr };
        match failure {
            None => Ok(output),
            Some(outcome) => {
                let output = format!("{}{}", output.stdout, output.stderr);
                Err(KafkaError::ToolFailed { class: class.into(), outcome, output })
            }
        }
    }

    /// `kafka-transactions list`, only ids with this prefix.
    ///
    /// # Errors
    /// The tool fails.
    pub fn transactions(&self, prefix: &str) -> Result<Vec<ListedTransaction>, KafkaError> {
        let output = self.run("org.apache.kafka.tools.TransactionsCommand", &["list"])?;
        Ok(rows(&output.stdout).filter(|row| row.transactional_id.starts_with(prefix)).collect())
    }

    /// `kafka-consumer-groups --describe`: where a group stands in the partitions of a topic; nothing for a group that is
    /// not there, or has committed nothing.
    ///
    /// # Errors
    /// The tool fails.
    pub fn group_offsets(&self, group: &str, topic: &str) -> Result<BTreeMap<i32, i64>, KafkaError> {
        let class = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand";
        let printed = match self.run(class, &["--describe", "--group", group, "--offsets"]) {
            Ok(output) => output.stdout,
            Err(KafkaError::ToolFailed { output, .. })
                if output.contains("does not exist") || output.contains("GroupIdNotFound") =>
            {
                return Ok(BTreeMap::new());
            }
            Err(other) => return Err(other),
        };
        Ok(standings(&printed, group, topic))
    }

    /// `kafka-dump-log`: the batches in the first segment of a partition's folder.
    ///
    /// # Errors
    /// The tool fails.
    pub fn dump_log(&self, partition: &Path) -> Result<Vec<DumpedBatch>, KafkaError> {
        let file = partition.join("00000000000000000000.log").display().to_string();
        let printed = self.run_alone("org.apache.kafka.tools.DumpLogSegments", &["--files", &file])?;
        Ok(printed.stdout.lines().filter_map(dumped).collect())
    }

    /// `kafka-console-consumer --from-beginning`: the values as lines.
    ///
    /// # Errors
    /// The tool fails. Reading nothing is no failure.
    pub fn console_consumer(&self, read: &ConsoleRead<'_>) -> Result<Vec<String>, KafkaError> {
        let idle = read.idle.as_millis().to_string();
        let isolation = ["--isolation-level", read.isolation, "--from-beginning", "--timeout-ms", &idle];
        let max = read.max_messages.map(|max| max.to_string());
        let mut arguments = vec!["--topic", read.topic];
        arguments.extend(isolation);
        if let Some(max) = &max {
            arguments.extend(["--max-messages", max]);
        }
        let output = match self.run("org.apache.kafka.tools.consumer.ConsoleConsumer", &arguments) {
            // Its name before it was written in Java.
            Err(KafkaError::ToolFailed { output, .. }) if output.contains("ClassNotFoundException") => {
                self.run("kafka.tools.ConsoleConsumer", &arguments)?
            }
            output => output?,
        };
        Ok(output.stdout.lines().map(str::to_owned).collect())
    }
}

/// Lines `GROUP TOPIC PARTITION CURRENT-OFFSET ..`, where the offset may be `-`.
fn standings(table: &str, group: &str, topic: &str) -> BTreeMap<i32, i64> {
    let row = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        match words[..] {
            [of, on, partition, offset, ..] if of == group && on == topic => {
                Some((partition.parse().ok()?, offset.parse().ok()?))
            }
            _ => None,
        }
    };
    table.lines().filter_map(row).collect()
}

/// A line `baseOffset: 0 lastOffset: 9 count: 10 .. compresscodec: lz4 ..`.
fn dumped(line: &str) -> Option<DumpedBatch> {
    let words: Vec<_> = line.split_whitespace().collect();
    let value =
        |name: &str| words.iter().position(|word| *word == name).and_then(|at| words.get(at + 1).copied());
    if words.first() != Some(&"baseOffset:") {
        return None;
    }
    Some(DumpedBatch {
        records: value("count:")?.parse().ok()?,
        codec: value("compresscodec:")?.to_lowercase(),
        bytes: value("size:")?.parse().ok()?,
        is_control: value("isControl:")? == "true",
    })
}

fn rows(table: &str) -> impl Iterator<Item = ListedTransaction> + '_ {
    table.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        // The heading and anything else without two numbers is no row.
        Some(ListedTransaction {
            transactional_id: words.next()?.to_owned(),
            coordinator: words.next()?.parse().ok()?,
            producer_id: words.next()?.parse().ok()?,
            state: words.next()?.to_owned(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_and_batches_are_read_as_the_tools_print_them() {
        let table = "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID\n\
                     g t 0 5 7 2 - - -\ng t 1 - 7 - - - -\ng u 2 4 4 0 - - -\n";
        assert_eq!(standings(table, "g", "t"), [(0, 5)].into());
        let line = "baseOffset: 0 lastOffset: 9 count: 10 baseSequence: 0 lastSequence: 9 producerId: 0 producerEpoch: 0 \
                    partitionLeaderEpoch: 0 isTransactional: true isControl: false deleteHorizonMs: OptionalLong.empty \
                    position: 0 CreateTime: 1 size: 300 magic: 2 compresscodec: LZ4 crc: 1 isvalid: true";
        let batch = DumpedBatch { records: 10, codec: "lz4".into(), bytes: 300, is_control: false };
        assert_eq!(dumped(line), Some(batch));
        assert_eq!(dumped("Starting offset: 0"), None);
    }

    #[test]
    fn rows_of_the_table_are_read_and_its_heading_is_not() {
        let table = "TransactionalId\tCoordinator\tProducerId\tTransactionState\njob-0  \t1          \t4000      \tOngoing         \n";
        let read: Vec<_> = rows(table).collect();
        assert_eq!(read.len(), 1);
        assert_eq!((read[0].transactional_id.as_str(), read[0].producer_id), ("job-0", 4000));
        assert_eq!(read[0].state, "Ongoing");
    }
}

//! Kafka's own command line tools, as the second opinion on what is in the log.

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
        let mut run = vec![class, "--bootstrap-server", &self.bootstrap];
        run.extend(arguments);
        let arguments = launch::java_arguments(&self.jars, self.folder.path(), &run);
        let captured = process::capture(&self.watchdog, &jars::java(), &arguments, LIMIT)
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
    fn rows_of_the_table_are_read_and_its_heading_is_not() {
        let table = "TransactionalId\tCoordinator\tProducerId\tTransactionState\njob-0  \t1          \t4000      \tOngoing         \n";
        let read: Vec<_> = rows(table).collect();
        assert_eq!(read.len(), 1);
        assert_eq!((read[0].transactional_id.as_str(), read[0].producer_id), ("job-0", 4000));
        assert_eq!(read[0].state, "Ongoing");
    }
}

//! From a checked spec to formatted storage, and from a node number to a running process.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::jars::{self, Jars};
use super::ports::PortBlock;
use super::{KafkaError, Spec, properties};
use crate::process::{Guarded, Watchdog};

const LOG4J2: &str = include_str!("../../kafka/log4j2.xml");
const LOG4J: &str = include_str!("../../kafka/log4j.properties");
const FORMAT_LIMIT: Duration = Duration::from_secs(120);

/// What it takes to start one of a cluster's nodes, any number of times.
#[derive(Debug)]
pub(crate) struct Launch {
    pub(crate) folder: PathBuf,
    pub(crate) cluster_id: String,
    pub(crate) ports: PortBlock,
    pub(crate) watchdog: Arc<Watchdog>,
    jars: Jars,
}

impl Launch {
    /// Writes each node's properties and formats its storage, all nodes at once.
    pub(crate) fn prepare(
        spec: &Spec,
        jars: Jars,
        ports: PortBlock,
        folder: &Path,
        watchdog: Watchdog,
    ) -> Result<Self, KafkaError> {
        let launch = Self {
            folder: folder.into(),
            cluster_id: cluster_id()?,
            ports,
            watchdog: Arc::new(watchdog),
            jars,
        };
        write_logging(folder)?;
        for node in 1..=spec.nodes {
            let text = properties::server(spec, &launch.ports, node, &launch.data(node));
            write(&launch.properties(node), &text)?;
        }
        let mut formats = Vec::new();
        for node in 1..=spec.nodes {
            formats.push((node, launch.format(spec, node)?));
        }
        for (node, mut format) in formats {
            let exit = format.exit_within(FORMAT_LIMIT).map_err(KafkaError::io("wait for the format"))?;
            if !exit.is_some_and(|exit| exit.success()) {
                return Err(KafkaError::FormatFailed { node, trouble: trouble(&launch.log(node)) });
            }
        }
        Ok(launch)
    }

    fn format(&self, spec: &Spec, node: u8) -> Result<Guarded, KafkaError> {
        let properties = self.properties(node).display().to_string();
        let mut arguments =
            vec!["kafka.tools.StorageTool", "format", "-t", &self.cluster_id, "-c", &properties];
        let feature = format!("transaction.version={}", spec.transaction_version);
        if spec.has_transaction_version() {
            arguments.extend(["--feature", &feature]);
        }
        self.java(node, &arguments)
    }

    /// Starts a node's process; it is not ready yet.
    pub(crate) fn start(&self, node: u8) -> Result<Guarded, KafkaError> {
        self.java(node, &["kafka.Kafka", &self.properties(node).display().to_string()])
    }

    fn java(&self, node: u8, arguments: &[&str]) -> Result<Guarded, KafkaError> {
        let path = self.log(node);
        let log = append(&path)?;
        let arguments = java_arguments(&self.jars, &self.folder, arguments);
        self.watchdog
            .spawn(&jars::java(), &arguments, log)
            .map_err(KafkaError::io(format!("start Java for node {node}")))
    }

    pub(crate) fn address(&self, node: u8) -> String {
        format!("127.0.0.1:{}", self.ports.broker(node))
    }

    pub(crate) fn log(&self, node: u8) -> PathBuf {
        self.folder.join(format!("node-{node}.log"))
    }

    fn properties(&self, node: u8) -> PathBuf {
        self.folder.join(format!("node-{node}.properties"))
    }

    pub(crate) fn data(&self, node: u8) -> PathBuf {
        self.folder.join(format!("node-{node}"))
    }
}

/// Options of the virtual machine, small and quick to start, and then what to run.
pub(crate) fn java_arguments(jars: &Jars, folder: &Path, run: &[&str]) -> Vec<String> {
    let options = [
        "-Xms96m",
        "-Xmx512m",
        "-Xss512k",
        "-XX:MaxDirectMemorySize=128m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-XX:-UsePerfData",
        "-XX:+ExitOnOutOfMemoryError",
        "-Djava.awt.headless=true",
        "-Djava.net.preferIPv4Stack=true",
    ];
    let mut arguments: Vec<String> = options.map(str::to_owned).into();
    arguments.push(format!("-Dlog4j2.configurationFile=file:{}/log4j2.xml", folder.display()));
    arguments.push(format!("-Dlog4j.configuration=file:{}/log4j.properties", folder.display()));
    arguments.extend(["-cp".to_owned(), jars.classpath()]);
    arguments.extend(run.iter().map(|word| (*word).to_owned()));
    arguments
}

/// Both loggers' configurations, which `java_arguments` names.
pub(crate) fn write_logging(folder: &Path) -> Result<(), KafkaError> {
    write(&folder.join("log4j2.xml"), LOG4J2)?;
    write(&folder.join("log4j.properties"), LOG4J)
}

fn write(path: &Path, text: &str) -> Result<(), KafkaError> {
    std::fs::write(path, text).map_err(KafkaError::io(format!("write {}", path.display())))
}

pub(crate) fn append(path: &Path) -> Result<File, KafkaError> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .map_err(KafkaError::io(format!("open {}", path.display())))
}

/// The lines of a log that name errors, else its last lines.
pub(crate) fn trouble(log: &Path) -> String {
    const LINES: usize = 12;
    let text =
        std::fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    let errors: Vec<_> = lines
        .iter()
        .filter(|line| ["ERROR", "FATAL", "Exception", "Error:"].iter().any(|word| line.contains(word)))
        .take(LINES)
        .copied()
        .collect();
    if errors.is_empty() { lines[lines.len().saturating_sub(LINES)..].join("\n") } else { errors.join("\n") }
}

/// An id of its own for every cluster, so that no other cluster can be mistaken for it: 16 random bytes as Kafka's `Uuid` prints them.
fn cluster_id() -> Result<String, KafkaError> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let random = random_bytes()?;
    let digit = |bits: u128| char::from(DIGITS[(bits & 63) as usize]);
    // 21 digits of 6 bits and one of the last 2; the first is a letter, for an id must not start with a dash.
    let bits = u128::from_be_bytes(random) & (u128::MAX >> 2);
    let mut id: String = (0..21).map(|place| digit(bits >> (122 - 6 * place))).collect();
    id.push(digit((bits & 3) << 4));
    Ok(id)
}

pub(crate) fn random_bytes() -> Result<[u8; 16], KafkaError> {
    use std::io::Read as _;
    let mut random = [0; 16];
    File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut random))
        .map_err(KafkaError::io("read random bytes"))?;
    Ok(random)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cluster_ids_differ_and_look_like_uuids() {
        let (one, other) = (cluster_id().unwrap(), cluster_id().unwrap());
        assert_ne!(one, other);
        for id in [one, other] {
            assert_eq!(id.len(), 22);
            assert!(id.starts_with(|first: char| first.is_ascii_uppercase()), "{id}");
            assert!(id.ends_with(['A', 'Q', 'g', 'w']), "{id}");
        }
    }

    #[test]
    fn trouble_prefers_error_lines() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        std::fs::write(&log, "fine\n12:00 ERROR port taken\nmore\n").unwrap();
        assert_eq!(trouble(&log), "12:00 ERROR port taken");
        std::fs::write(&log, "one\ntwo\n").unwrap();
        assert_eq!(trouble(&log), "one\ntwo");
        assert_eq!(trouble(&folder.path().join("absent")), "");
    }
}

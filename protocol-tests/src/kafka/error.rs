//! What can go wrong between a [`Spec`](super::Spec) and a cluster that answers.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why Kafka could not be fetched, started, asked or stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KafkaError {
    /// No Java virtual machine: neither `JAVA_HOME` nor the path has one.
    #[error("Java is missing ({program}): {source}")]
    JavaMissing {
        /// The program that was tried.
        program: String,
        /// Why it could not be run.
        source: io::Error,
    },
    /// The Java virtual machine is older than this Kafka version needs.
    #[error("Java {found} is too old for Kafka {kafka}, which needs {needed}")]
    JavaTooOld {
        /// Major version found.
        found: u32,
        /// Lowest major version that works.
        needed: u32,
        /// The Kafka version asked for.
        kafka: String,
    },
    /// The jars are not in the cache, and there is no Maven to fetch them.
    #[error("Maven (mvn) is missing, and Kafka {kafka} is not in the cache")]
    MavenMissing {
        /// The Kafka version asked for.
        kafka: String,
    },
    /// Maven could not fetch the jars.
    #[error("fetching Kafka {kafka} failed:\n{output}")]
    FetchFailed {
        /// The Kafka version asked for.
        kafka: String,
        /// The end of what Maven said.
        output: String,
    },
    /// The spec contradicts itself or the Kafka version.
    #[error("a cluster can not be like this: {0}")]
    BadSpec(String),
    /// No block of free ports was found.
    #[error("no free block of ports between {first} and {last}")]
    NoPorts {
        /// First port tried.
        first: u16,
        /// Last port tried.
        last: u16,
    },
    /// A node's storage could not be formatted.
    #[error("formatting node {node} failed:\n{trouble}")]
    FormatFailed {
        /// The node.
        node: u8,
        /// What its log says.
        trouble: String,
    },
    /// A node's process ended by itself.
    #[error("node {node} died ({status}); its log, {} (kept if KAFKA_KEEP is set), says:\n{trouble}", log.display())]
    NodeDied {
        /// The node.
        node: u8,
        /// How the process ended.
        status: String,
        /// Its log.
        log: PathBuf,
        /// The errors in its log, or the log's end.
        trouble: String,
    },
    /// Something answers on our port that is not this cluster.
    #[error("{address} belongs to cluster {found}, not to {expected}: another Kafka holds the port")]
    OtherCluster {
        /// The address asked.
        address: String,
        /// The cluster id it answered.
        found: String,
        /// The cluster id of this cluster.
        expected: String,
    },
    /// The cluster did not become ready in time.
    #[error("not ready after {waited:?}: {last}")]
    NotReady {
        /// How long was waited.
        waited: Duration,
        /// What was still missing.
        last: String,
    },
    /// A node number that the cluster does not have, or in a state that forbids the request.
    #[error("node {node}: {why}")]
    BadNode {
        /// The node.
        node: u8,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A broker refused a request of ours.
    #[error("{api} of {subject}: broker error {code}")]
    Refused {
        /// The API.
        api: &'static str,
        /// What was asked about.
        subject: String,
        /// Kafka's error code.
        code: i16,
    },
    /// One of Kafka's own command line tools failed.
    #[error("{class} {outcome}:\n{output}")]
    ToolFailed {
        /// The tool's class.
        class: String,
        /// Exit status, or that it took too long.
        outcome: String,
        /// What it printed, errors last.
        output: String,
    },
    /// The operating system refused something.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
}

impl KafkaError {
    /// True when this machine lacks what Kafka needs: tests are then skipped with this reason, not failed.
    pub fn is_missing(&self) -> bool {
        matches!(
            self,
            Self::JavaMissing { .. }
                | Self::JavaTooOld { .. }
                | Self::MavenMissing { .. }
                | Self::FetchFailed { .. }
        )
    }

    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}

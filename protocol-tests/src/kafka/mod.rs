//! Real Apache Kafka as child processes: KRaft clusters on 127.0.0.1 that live exactly as long as their handle.
//!
//! ```text
//! Spec ──> jars (Maven, cached) ──> PortBlock ──> format ──> nodes ──> proof that *this* cluster answers ──> KafkaCluster
//!                                                  │
//!                                                  └── watchdog: a shell on the other end of a pipe, kills the nodes when we die
//! ```

mod cluster;
mod detour;
mod error;
mod jars;
mod launch;
mod look;
mod ports;
mod probe;
mod properties;
mod ready;
mod spec;
mod tools;
mod topics;

pub use cluster::KafkaCluster;
pub use detour::{Detour, END_TXN, PRODUCE, Watcher, Way};
pub use error::KafkaError;
pub use jars::{JarSet, Jars};
pub use look::{Described, OpenProducer, describe, open_producers, transactions};
pub(crate) use ports::PortBlock;
pub use ready::{Expected, prove};
pub use spec::Spec;
pub use tools::{ConsoleRead, ConsoleWrite, DumpedBatch, ListedTransaction, ToolOutput, Tools};
pub use topics::{Topic, broker_count, create_topic, transaction_version};

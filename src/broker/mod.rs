//! An embedded Kafka: in-process, in-memory, on one or several nodes, over TCP or streams in memory.
//!
//! It speaks the protocol of Apache Kafka 4.4 with transactions V1 and V2, so that tests and demonstrations need no
//! Java. It keeps nothing on disk: a stopped *node* keeps its logs, a stopped *broker* is gone. Authentication,
//! quotas, compaction, retention and group rebalancing between several members are left out.
//!
//! ```no_run
//! # async fn example() -> Result<(), kafka_2pc::broker::BrokerError> {
//! use kafka_2pc::broker::{Broker, BrokerConfig};
//!
//! let broker = Broker::start(BrokerConfig { nodes: 3, ..BrokerConfig::default() }).await?;
//! println!("bootstrap.servers={}", broker.bootstrap());
//! broker.stop_node(3).await?;
//! broker.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! What can be done to it, and how tests run on it without waiting: `docs/testing.md`.
//!
//! ```text
//! network -> server -> frame -> dispatch -> perform -> api::* -> cluster { topics { log }, coordinator, groups }
//!                                    |         |          |         ^
//!                                 journal    fault     access    election, markers (tasks that write markers, sweep)
//! ```
//! `coordinator` and `log` are pure; everything they decide is decided under the cluster's one lock.

mod access;
mod api;
mod clock;
mod cluster;
mod config;
mod control;
mod coordinator;
mod dispatch;
mod election;
mod error;
mod fault;
mod frame;
mod groups;
mod journal;
mod log;
mod markers;
mod network;
mod offsets_log;
mod perform;
mod profile;
mod random;
mod server;
mod shared;
mod topics;

pub use self::access::{Denial, Operation, Resource};
pub use self::config::{BrokerConfig, Security, UnknownTopics};
pub use self::control::Broker;
pub use self::error::BrokerError;
pub use self::fault::{Fault, FaultId, Reaction};
pub use self::journal::{JournalEntry, Keys};
pub use self::network::{Dialer, Network};
pub use self::profile::{Features, Profile, Quirk, Verification};
pub use crate::wire::api::Api;
pub use crate::wire::versions::TransactionVersion;

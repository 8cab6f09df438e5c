//! An embedded Kafka: in-process, in-memory, real TCP on one or several nodes.
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
//! ```text
//! server -> frame -> dispatch -> api::* -> cluster { topics { log }, coordinator, groups }
//!                       |                     ^
//!                     fault                markers (tasks that write markers, sweep timeouts)
//! ```
//! `coordinator` and `log` are pure; everything they decide is decided under the cluster's one lock.

mod api;
mod cluster;
mod config;
mod control;
mod coordinator;
mod dispatch;
mod error;
mod fault;
mod frame;
mod groups;
mod log;
mod markers;
mod offsets_log;
mod profile;
mod random;
mod server;
mod shared;
mod topics;

pub use self::config::{BrokerConfig, UnknownTopics};
pub use self::control::Broker;
pub use self::error::BrokerError;
pub use self::fault::{Fault, Reaction};
pub use self::profile::{LeaderlessMarker, Profile, Verification};
pub use crate::wire::api::Api;
pub use crate::wire::versions::TransactionVersion;

//! What can go wrong with the broker itself.

use std::io;

/// The broker could not do what its owner asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BrokerError {
    /// The configuration makes no sense.
    #[error("broker configuration: {0}")]
    Config(String),
    /// A node could not listen.
    #[error("node {node} cannot listen on {address}")]
    Listen {
        /// The node.
        node: i32,
        /// The address it was to listen on.
        address: String,
        /// Why it cannot.
        #[source]
        source: io::Error,
    },
    /// There is no such node.
    #[error("there is no node {0}")]
    UnknownNode(i32),
    /// There is no such partition.
    #[error("there is no partition {0}")]
    UnknownPartition(crate::ids::TopicPartition),
    /// The partition has no such replica, or its node is down.
    #[error("that node cannot lead {0}: it holds no replica, or is down")]
    CannotLead(crate::ids::TopicPartition),
    /// A topic of this name exists.
    #[error("topic {0} exists")]
    TopicExists(String),
    /// The offset lies outside the partition's log.
    #[error("offset {offset} is out of range of {partition}")]
    OffsetOutOfRange {
        /// The partition.
        partition: crate::ids::TopicPartition,
        /// The offset that was asked for.
        offset: i64,
    },
}

//! How a broker is to be started.

use std::time::Duration;

use super::profile::Profile;

/// What the broker does when a client names a topic that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UnknownTopics {
    /// Answers UNKNOWN_TOPIC_OR_PARTITION (`auto.create.topics.enable=false`).
    Refused,
    /// Creates it on Metadata, when the client allows that.
    Created,
}

/// The configuration of an embedded cluster. Kafka's property names stand beside the fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerConfig {
    /// How many nodes; their ids are 1, 2, 3 and so on. Default 1.
    pub nodes: usize,
    /// The Kafka to imitate. Default [`Profile::kafka_4_4`].
    pub profile: Profile,
    /// The address of the first node, host and port; node `i` listens `i - 1` ports above. Port 0 takes free ports.
    /// Default `127.0.0.1:0`.
    pub listen: String,
    /// `auto.create.topics.enable`. Default [`UnknownTopics::Refused`].
    pub unknown_topics: UnknownTopics,
    /// `num.partitions`: for topics created without a count. Default 1.
    pub default_partitions: i32,
    /// `default.replication.factor`. `None` (default) is 3, or the number of nodes if there are fewer.
    pub default_replication: Option<i16>,
    /// `min.insync.replicas`. Default 1.
    pub min_insync_replicas: usize,
    /// `message.max.bytes`, per record batch. Default 1048588.
    pub max_message_bytes: usize,
    /// `socket.request.max.bytes`. Default 104857600.
    pub max_request_bytes: usize,
    /// `transaction.max.timeout.ms`. Default 900000.
    pub max_transaction_timeout_ms: i32,
    /// `transaction.abort.timed.out.transaction.cleanup.interval.ms`. Default 10 s.
    pub sweep_interval: Duration,
    /// How long a `Prepare` state lasts before its markers are written. Default 1 ms.
    pub marker_delay: Duration,
    /// How long after its records are in the log a Produce is answered, as by slow replicas; the connection serves nothing else
    /// meanwhile, as in Kafka. Default: not at all.
    pub produce_delay: Duration,
    /// `transaction.state.log.num.partitions`. Default 50.
    pub transaction_partitions: i32,
    /// `offsets.topic.num.partitions`. Default 50.
    pub offsets_partitions: i32,
    /// The cluster's id. `None` (default) makes a random one.
    pub cluster_id: Option<String>,
}

impl Default for BrokerConfig {
    fn default() -> Self {
        Self {
            nodes: 1,
            profile: Profile::kafka_4_4(),
            listen: "127.0.0.1:0".to_owned(),
            unknown_topics: UnknownTopics::Refused,
            default_partitions: 1,
            default_replication: None,
            min_insync_replicas: 1,
            max_message_bytes: 1_048_588,
            max_request_bytes: 104_857_600,
            max_transaction_timeout_ms: 900_000,
            sweep_interval: Duration::from_secs(10),
            marker_delay: Duration::from_millis(1),
            produce_delay: Duration::ZERO,
            transaction_partitions: 50,
            offsets_partitions: 50,
            cluster_id: None,
        }
    }
}

impl BrokerConfig {
    /// The replication factor of topics that do not choose one.
    pub(crate) fn replication(&self) -> usize {
        let wanted = self.default_replication.map_or(3, |n| usize::try_from(n).unwrap_or(1));
        wanted.clamp(1, self.nodes.max(1))
    }
}

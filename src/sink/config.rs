//! Settings of a sink.

use std::time::Duration;

use crate::{
    client::Partitioner,
    ids::GroupId,
    proto::{
        naming::{IdPrefix, Naming, NamingError},
        pool::{DEFAULT_SLOTS, Reuse},
        recovery::{OnLost, Orphans},
        resume::Leaderless,
        settle::SETTLE_PATIENCE,
    },
    record::{Compression, CompressionLevels},
};

/// Settings of a sink's writers and committers, each with Kafka's or Flink's name.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SinkConfig {
    /// `transactional.id.prefix`: ids are `prefix-subtask-number`. Two jobs must never share one.
    pub prefix: IdPrefix,
    /// How ids are named and leftovers found. Default: pooled.
    pub naming: Naming,
    /// How many transactions of one writer may be open, prepared or not yet settled. Default 4.
    pub slots: usize,
    /// `transaction.timeout.ms`. Default 900 s, which is what brokers allow unless told otherwise.
    pub transaction_timeout: Duration,
    /// How long checkpoints are expected to be apart.
    pub checkpoint_interval: Duration,
    /// How long job and brokers may be away without losing what is prepared. Default 5 min. Zero is allowed.
    pub tolerated_outage: Duration,
    /// `delivery.timeout.ms`. Default 120 s.
    pub delivery_timeout: Duration,
    /// `linger.ms`. Default 5 ms.
    pub linger: Duration,
    /// `batch.size` in bytes. Default 128 KiB.
    pub batch_bytes: usize,
    /// `max.request.size` in bytes. Default 1 MiB.
    pub request_bytes: usize,
    /// `buffer.memory` in bytes. Default 32 MiB.
    pub buffer_bytes: usize,
    /// `max.in.flight.requests.per.connection`: how many requests of a writer may be on their way to one broker, 1 to 5.
    /// Their order is kept in any case. Default 5.
    pub max_in_flight: usize,
    /// `compression.type`. Default none.
    pub compression: Compression,
    /// `compression.gzip.level`, `compression.lz4.level`, `compression.zstd.level`. Defaults as in Kafka.
    pub compression_levels: CompressionLevels,
    /// `partitioner`, by librdkafka's names: what chooses the partition of a record that names none. Default:
    /// `murmur2_random`, as Kafka's Java client.
    pub partitioner: Partitioner,
    /// `group.id`: the consumer group to which a job on the local runner commits where its Kafka sources stand, in the
    /// transaction of the same checkpoint (Flink: `commit.offsets.on.checkpoint`). It is for tools that watch the job's
    /// lag: a restart reads the checkpoint. The sources' topics must be in the sink's cluster. Default: none.
    pub offsets_group: Option<GroupId>,
    /// What a commit does while a partition has no leader. Default: wait for one.
    pub leaderless: Leaderless,
    /// `commit.connections`, a name of this project: how many connections to each coordinator commits are spread over. A
    /// broker serves one request of a connection at a time. They are opened as they are needed. Default 8.
    pub commit_connections: u16,
    /// `max.block.ms`: how long writing may be held up because every transactional id is in use. Default 5 min, an outage
    /// that is tolerated.
    pub max_block: Duration,
    /// How long a commit is tried before it is pending. Default: until the transaction's deadline and a minute.
    pub commit_timeout: Option<Duration>,
    /// How long markers may be on their way before a decision is looked at as hanging. Default 30 s.
    pub settle_timeout: Duration,
    /// What is done about a transaction of a complete checkpoint that is lost, or of which nothing proves whether it is.
    /// Default: fail.
    pub on_lost: OnLost,
    /// What a recovery does where the restored checkpoint is not the newest one. Default: refuse.
    pub orphans: Orphans,
    /// When a transactional id is used again; anything but the default is for tests that show what the rule is for.
    #[doc(hidden)]
    pub reuse: Reuse,
}

/// A configuration that would lose data.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SinkConfigError {
    /// The prefix is not usable.
    #[error(transparent)]
    Prefix(#[from] NamingError),
    /// A prepared transaction could be aborted by its timeout in normal operation.
    #[error(
        "transaction.timeout.ms = {} is shorter than a checkpoint interval of {interval:?} and a tolerated outage of \
         {outage:?} together: raise the timeout, or lower one of the others",
        timeout.as_millis()
    )]
    TimeoutTooShort {
        /// `transaction.timeout.ms`.
        timeout: Duration,
        /// The checkpoint interval.
        interval: Duration,
        /// The tolerated outage.
        outage: Duration,
    },
    /// The brokers refuse such a timeout.
    #[error(
        "transaction.timeout.ms = {} exceeds the brokers' transaction.max.timeout.ms = {}: lower the one, or raise the \
         other",
        timeout.as_millis(),
        limit.as_millis()
    )]
    TimeoutOverLimit {
        /// `transaction.timeout.ms`.
        timeout: Duration,
        /// `transaction.max.timeout.ms`.
        limit: Duration,
    },
    /// A value is out of its range.
    #[error("{name} = {value}: {why}")]
    OutOfRange {
        /// The setting.
        name: &'static str,
        /// Its value.
        value: String,
        /// What is wrong with it.
        why: &'static str,
    },
}

impl SinkConfig {
    /// Defaults for everything but the prefix.
    ///
    /// # Errors
    /// [`SinkConfigError::Prefix`].
    pub fn new(prefix: &str) -> Result<Self, SinkConfigError> {
        Ok(Self {
            prefix: IdPrefix::new(prefix)?,
            naming: Naming::Pooled,
            slots: DEFAULT_SLOTS,
            transaction_timeout: Duration::from_secs(900),
            checkpoint_interval: Duration::from_secs(1),
            tolerated_outage: Duration::from_secs(300),
            delivery_timeout: Duration::from_secs(120),
            linger: Duration::from_millis(5),
            batch_bytes: 128 * 1024,
            request_bytes: 1 << 20,
            buffer_bytes: 32 << 20,
            max_in_flight: 5,
            compression: Compression::None,
            compression_levels: CompressionLevels::default(),
            partitioner: Partitioner::default(),
            offsets_group: None,
            leaderless: Leaderless::Wait,
            commit_connections: 8,
            max_block: Duration::from_secs(300),
            commit_timeout: None,
            settle_timeout: SETTLE_PATIENCE,
            on_lost: OnLost::Fail,
            orphans: Orphans::Refuse,
            reuse: Reuse::WhenSettled,
        })
    }

    /// Refuses what can't work.
    ///
    /// # Errors
    /// [`SinkConfigError`].
    pub fn validate(&self) -> Result<(), SinkConfigError> {
        let (timeout, interval, outage) =
            (self.transaction_timeout, self.checkpoint_interval, self.tolerated_outage);
        let range = |name, value: String, why| Err(SinkConfigError::OutOfRange { name, value, why });
        if timeout.is_zero() || timeout.as_millis() >= i32::MAX as u128 {
            // The largest value means "never" to a broker (KIP-939).
            let value = timeout.as_millis().to_string();
            return range("transaction.timeout.ms", value, "it must be between 1 and 2147483646");
        }
        if self.slots < 2 {
            return range(
                "slots",
                self.slots.to_string(),
                "one transaction is written while one is committed",
            );
        }
        for (name, bytes) in [
            ("batch.size", self.batch_bytes),
            ("max.request.size", self.request_bytes),
            ("buffer.memory", self.buffer_bytes),
        ] {
            if bytes == 0 {
                return range(name, bytes.to_string(), "nothing fits into it");
            }
        }
        if !self.compression.is_built() {
            let why = "this build lacks the codec: build with the feature of the same name";
            return range("compression.type", self.compression.to_string(), why);
        }
        if !(1..=5).contains(&self.max_in_flight) {
            let why = "brokers recognise repeats of up to 5 batches, and none would never arrive";
            return range("max.in.flight.requests.per.connection", self.max_in_flight.to_string(), why);
        }
        if self.offsets_group.as_ref().is_some_and(|group| group.as_str().is_empty()) {
            return range("group.id", String::new(), "a group has a name");
        }
        if self.commit_connections == 0 {
            return range("commit.connections", "0".to_owned(), "a commit needs a connection");
        }
        if self.max_block.is_zero() {
            return range("max.block.ms", "0".to_owned(), "a commit that is under way needs time");
        }
        if self.delivery_timeout.is_zero() {
            return range("delivery.timeout.ms", "0".to_owned(), "nothing arrives within no time");
        }
        if self.linger >= self.delivery_timeout {
            let (value, why) = (self.linger.as_millis().to_string(), "delivery.timeout.ms is over by then");
            return range("linger.ms", value, why);
        }
        if interval.saturating_add(outage) > timeout {
            return Err(SinkConfigError::TimeoutTooShort { timeout, interval, outage });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_work_is_refused_by_its_name() {
        let good = SinkConfig::new("job").unwrap();
        let refused = |config: SinkConfig| config.validate().unwrap_err().to_string();
        for slots in [0, 1] {
            assert!(refused(SinkConfig { slots, ..good.clone() }).starts_with("slots = "));
        }
        assert!(refused(SinkConfig { batch_bytes: 0, ..good.clone() }).starts_with("batch.size = 0"));
        assert!(refused(SinkConfig { request_bytes: 0, ..good.clone() }).starts_with("max.request.size"));
        assert!(refused(SinkConfig { buffer_bytes: 0, ..good.clone() }).starts_with("buffer.memory"));
        for max_in_flight in [0, 6] {
            let refused = refused(SinkConfig { max_in_flight, ..good.clone() });
            assert!(refused.starts_with("max.in.flight.requests.per.connection"), "{refused}");
        }
        let never = SinkConfig { delivery_timeout: Duration::ZERO, ..good.clone() };
        assert!(refused(never).starts_with("delivery.timeout.ms"));
        let lazy = SinkConfig { linger: good.delivery_timeout, ..good.clone() };
        assert!(refused(lazy).starts_with("linger.ms = 120000"));
        for compression in Compression::ALL {
            let config = SinkConfig { compression, ..good.clone() };
            let told = config.validate().map_err(|e| e.to_string());
            if compression.is_built() {
                assert_eq!(told, Ok(()));
            } else {
                assert!(told.unwrap_err().starts_with(&format!("compression.type = {compression}")));
            }
        }
        let nameless = SinkConfig { offsets_group: Some(GroupId::new("")), ..good.clone() };
        assert!(refused(nameless).starts_with("group.id"));
        assert!(
            refused(SinkConfig { commit_connections: 0, ..good.clone() }).starts_with("commit.connections")
        );
        assert!(
            refused(SinkConfig { max_block: Duration::ZERO, ..good.clone() }).starts_with("max.block.ms")
        );
        assert!(matches!(SinkConfig::new(""), Err(SinkConfigError::Prefix(NamingError::Empty))));
        let ages = SinkConfig { tolerated_outage: Duration::MAX, ..good };
        assert!(matches!(ages.validate(), Err(SinkConfigError::TimeoutTooShort { .. })));
    }

    #[test]
    fn a_timeout_that_an_outage_would_pass_is_refused() {
        let config = SinkConfig::new("job").unwrap();
        config.validate().unwrap();
        let short = SinkConfig { transaction_timeout: Duration::from_secs(10), ..config.clone() };
        assert!(matches!(short.validate(), Err(SinkConfigError::TimeoutTooShort { .. })));
        SinkConfig { tolerated_outage: Duration::ZERO, ..short }.validate().unwrap();
        let never = SinkConfig { transaction_timeout: Duration::from_millis(2_147_483_647), ..config };
        assert!(matches!(never.validate(), Err(SinkConfigError::OutOfRange { .. })));
    }
}

//! Settings that producers with and without transactions have.

use std::time::Duration;

use super::accumulator::Settings;

/// The last batches of a producer of which a broker recognises repeats.
pub(crate) const MAX_IN_FLIGHT: usize = 5;

/// Settings of a producer, each with Kafka's name and default.
#[derive(Debug, Clone)]
pub(crate) struct ProducerConfig {
    /// `transaction.timeout.ms`; of no meaning without transactions.
    pub(crate) transaction_timeout: Duration,
    pub(crate) delivery_timeout: Duration,
    pub(crate) batching: Settings,
    pub(crate) in_flight: usize,
    pub(crate) retry_backoff: Duration,
    pub(crate) retry_backoff_max: Duration,
}

impl Default for ProducerConfig {
    fn default() -> Self {
        Self {
            transaction_timeout: Duration::from_secs(900),
            delivery_timeout: Duration::from_secs(120),
            batching: Settings::default(),
            in_flight: MAX_IN_FLIGHT,
            retry_backoff: Duration::from_millis(100),
            retry_backoff_max: Duration::from_secs(1),
        }
    }
}

/// The setters of a builder whose field `config` is a [`ProducerConfig`].
macro_rules! producer_settings {
    (delivery: $delivery:literal, linger: $linger:literal,) => {
        #[doc = $delivery]
        #[must_use]
        pub fn delivery_timeout(mut self, timeout: std::time::Duration) -> Self {
            self.config.delivery_timeout = timeout;
            self
        }

        #[doc = $linger]
        #[must_use]
        pub fn linger(mut self, linger: std::time::Duration) -> Self {
            self.config.batching.linger = linger;
            self
        }

        /// `batch.size`, in bytes before compression. Default 128 KiB.
        #[must_use]
        pub fn batch_size(mut self, bytes: usize) -> Self {
            self.config.batching.batch_bytes = bytes;
            self
        }

        /// `max.request.size`, in bytes. Default 1 MiB. It also bounds one record.
        #[must_use]
        pub fn max_request_size(mut self, bytes: usize) -> Self {
            self.config.batching.request_bytes = bytes;
            self
        }

        /// `buffer.memory`, in bytes: records that are not acknowledged. Default 32 MiB.
        #[must_use]
        pub fn buffer_memory(mut self, bytes: usize) -> Self {
            self.config.batching.buffer_bytes = bytes;
            self
        }

        /// `max.in.flight.requests.per.connection`: how many requests of this producer or of one of its transactions may
        /// be on their way to one broker, and how many batches to one partition. Default 5, which is also the most: of so
        /// many batches a broker recognises repeats. Values outside of 1 to 5 count as the nearest of these.
        #[must_use]
        pub fn max_in_flight(mut self, requests: usize) -> Self {
            self.config.in_flight = requests.clamp(1, $crate::client::settings::MAX_IN_FLIGHT);
            self
        }

        /// `compression.type`. Default none. With a codec that is not part of this build
        /// ([`is_built`](crate::record::Compression::is_built)) no record is taken.
        #[must_use]
        pub fn compression(mut self, compression: $crate::record::Compression) -> Self {
            self.config.batching.compression = compression;
            self
        }

        /// `compression.gzip.level`, `compression.lz4.level`, `compression.zstd.level`. Defaults as in Kafka.
        #[must_use]
        pub fn compression_levels(mut self, levels: $crate::record::CompressionLevels) -> Self {
            self.config.batching.levels = levels;
            self
        }

        /// What chooses the partition of a record that names none (librdkafka: `partitioner`, Java: `partitioner.class`). Default:
        /// [`Partitioner::Murmur2Random`](crate::client::Partitioner::Murmur2Random), as Java's.
        #[must_use]
        pub fn partitioner(mut self, partitioner: $crate::client::Partitioner) -> Self {
            self.config.batching.partitioner = partitioner;
            self
        }

        /// `retry.backoff.ms`: the wait before the first retry; it doubles with each. Default 100 ms.
        #[must_use]
        pub fn retry_backoff(mut self, wait: std::time::Duration) -> Self {
            self.config.retry_backoff = wait;
            self
        }

        /// `retry.backoff.max.ms`: the longest wait before a retry. Default 1 s.
        #[must_use]
        pub fn retry_backoff_max(mut self, wait: std::time::Duration) -> Self {
            self.config.retry_backoff_max = wait;
            self
        }
    };
}

//! Properties that only a job with a Kafka source has.

use std::time::Duration;

use crate::{
    cli::{Usage, settings},
    source::KafkaSource,
};

/// Settings of the source, each by its name in Kafka or Flink. What is not set is as [`KafkaSource`] has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Properties {
    discovery_interval: Option<Duration>,
    max_wait: Option<Duration>,
    max_bytes: Option<i32>,
    max_partition_bytes: Option<i32>,
}

impl Properties {
    /// Takes a property of a source; `None` if it is none.
    pub(super) fn take(&mut self, name: &str, value: &str) -> Option<Result<(), Usage>> {
        let bytes = |value| settings::bytes(value).map(|n| Some(i32::try_from(n).unwrap_or(i32::MAX)));
        let taken = match name {
            "partition.discovery.interval.ms" => {
                settings::millis(value).map(|d| self.discovery_interval = Some(d))
            }
            "fetch.max.wait.ms" => settings::millis(value).map(|d| self.max_wait = Some(d)),
            "fetch.max.bytes" => bytes(value).map(|n| self.max_bytes = n),
            "max.partition.fetch.bytes" => bytes(value).map(|n| self.max_partition_bytes = n),
            "isolation.level" if value == "read_committed" => Ok(()),
            "isolation.level" => Err("what is not committed is not copied".to_owned()),
            "auto.offset.reset" if value == "earliest" => Ok(()),
            "auto.offset.reset" => Err("a copy begins at the beginning".to_owned()),
            "bootstrap.servers" => Err("use --from-bootstrap and --to-bootstrap".to_owned()),
            _ => return None,
        };
        Some(taken.map_err(|e| Usage(format!("{name}={value}: {e}"))))
    }

    /// The source with these settings.
    pub(super) fn apply(&self, mut source: KafkaSource) -> KafkaSource {
        if let Some(interval) = self.discovery_interval {
            source = source.discovery_interval(interval);
        }
        if let Some(wait) = self.max_wait {
            source = source.max_wait(wait);
        }
        if let Some(bytes) = self.max_bytes {
            source = source.max_bytes(bytes);
        }
        if let Some(bytes) = self.max_partition_bytes {
            source = source.max_partition_bytes(bytes);
        }
        source
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_changes_its_setting_and_what_a_mirror_cannot_do_says_why() {
        let mut p = Properties::default();
        for (name, value) in [
            ("partition.discovery.interval.ms", "1"),
            ("fetch.max.wait.ms", "2"),
            ("fetch.max.bytes", "3"),
            ("max.partition.fetch.bytes", "4"),
            ("isolation.level", "read_committed"),
            ("auto.offset.reset", "earliest"),
        ] {
            p.take(name, value).unwrap().unwrap();
        }
        let ms = |n| Some(Duration::from_millis(n));
        assert_eq!((p.discovery_interval, p.max_wait), (ms(1), ms(2)));
        assert_eq!((p.max_bytes, p.max_partition_bytes), (Some(3), Some(4)));
        for (name, value, why) in [
            ("isolation.level", "read_uncommitted", "not committed"),
            ("auto.offset.reset", "latest", "beginning"),
            ("bootstrap.servers", "a:1", "--from-bootstrap"),
            ("fetch.max.bytes", "0", "above 0"),
        ] {
            let Usage(told) = p.take(name, value).unwrap().unwrap_err();
            assert!(told.contains(why), "{told}");
        }
        assert!(p.take("linger.ms", "5").is_none());
    }
}

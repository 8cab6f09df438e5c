//! The names and numbers that identify things in Kafka, one type per meaning.

use std::{fmt, sync::Arc};

/// A broker's node id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub i32);

/// A producer id, given out by a transaction coordinator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProducerId(pub i64);

/// The generation of a producer id. A higher one fences the lower ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProducerEpoch(pub i16);

/// Producer id and epoch: what a broker knows a producer by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// The producer id.
    pub producer_id: ProducerId,
    /// Its epoch.
    pub epoch: ProducerEpoch,
}

/// A topic's unique id (KIP-516): a topic that is deleted and created again has another one.
///
/// [`TopicId::UNKNOWN`] stands for "the broker did not tell", which brokers before 2.8 do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicId(pub [u8; 16]);

/// A `transactional.id`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionalId(Arc<str>);

/// A `group.id`: the name of a consumer group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(Arc<str>);

/// What a coordinator is looked up for: the transaction coordinator of a transactional id and the group coordinator
/// of a group of the same name are two brokers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CoordinatorKey {
    /// A transactional id.
    Transaction(TransactionalId),
    /// A consumer group.
    Group(GroupId),
}

/// A topic's name. Cheap to clone.
pub type TopicName = Arc<str>;

/// One partition of one topic.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    /// The topic's name.
    pub topic: TopicName,
    /// The partition's index, from 0.
    pub partition: i32,
}

/// A moment on the driver's monotonic clock, in microseconds since an origin that the driver chose.
///
/// Pure code gets it as an argument and never reads a clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Moment(pub u64);

impl Moment {
    /// This moment moved `by` into the future.
    #[must_use]
    pub fn after(self, by: std::time::Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(by.as_micros()).unwrap_or(u64::MAX)))
    }

    /// This moment moved `by` into the past, as far as that goes.
    #[must_use]
    pub fn before(self, by: std::time::Duration) -> Self {
        Self(self.0.saturating_sub(u64::try_from(by.as_micros()).unwrap_or(u64::MAX)))
    }

    /// The time from `earlier` to this moment; zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> std::time::Duration {
        std::time::Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl TransactionalId {
    /// A transactional id from its text.
    pub fn new(id: impl Into<Arc<str>>) -> Self {
        Self(id.into())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl GroupId {
    /// A consumer group from its name.
    pub fn new(id: impl Into<Arc<str>>) -> Self {
        Self(id.into())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl CoordinatorKey {
    /// The text that brokers are asked with.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Transaction(id) => id.as_str(),
            Self::Group(group) => group.as_str(),
        }
    }
}

impl TopicPartition {
    /// Partition `partition` of `topic`.
    pub fn new(topic: impl Into<TopicName>, partition: i32) -> Self {
        Self { topic: topic.into(), partition }
    }
}

impl Identity {
    /// Producer id and epoch from their numbers on the wire.
    #[must_use]
    pub fn new(producer_id: i64, epoch: i16) -> Self {
        Self { producer_id: ProducerId(producer_id), epoch: ProducerEpoch(epoch) }
    }
}

impl TopicId {
    /// The zero id: "not known".
    pub const UNKNOWN: Self = Self([0; 16]);

    /// False for the zero id.
    #[must_use]
    pub fn is_known(self) -> bool {
        self != Self::UNKNOWN
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for ProducerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for ProducerEpoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "producer id {} epoch {}", self.producer_id, self.epoch)
    }
}

impl fmt::Display for TransactionalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

/// Kafka's own text form: URL-safe base64 without padding, 22 characters.
impl fmt::Display for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let bits = u128::from_be_bytes(self.0);
        for sextet in (0..22u32).map(|i| if i < 21 { bits >> (122 - 6 * i) } else { bits << 4 }) {
            f.write_str(std::str::from_utf8(&ALPHABET[(sextet & 63) as usize..][..1]).unwrap_or("?"))?;
        }
        Ok(())
    }
}

impl fmt::Debug for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TopicId({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topic_id_reads_as_kafka_prints_it() {
        assert_eq!(TopicId::UNKNOWN.to_string(), "AAAAAAAAAAAAAAAAAAAAAA");
        assert_eq!(TopicId([0xff; 16]).to_string(), "_____________________w");
    }

    #[test]
    fn moments_saturate() {
        let late = Moment(u64::MAX);
        assert_eq!(late.after(std::time::Duration::from_secs(1)), late);
        assert_eq!(Moment(1).since(Moment(2)), std::time::Duration::ZERO);
    }
}

//! Where a record goes that names no partition.

use std::{fmt, str::FromStr, sync::Arc};

use super::topic::Topic;
use crate::record::RecordRef;

/// What chooses the partition of a record that names none, by the names of librdkafka's property `partitioner`. Order by key
/// holds only among producers that choose alike.
///
/// "Sticky" are records that fill one partition's batch after the other's, whatever they are.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum Partitioner {
    /// `murmur2_random`, the default: by key as Kafka's Java client; without a key, sticky.
    #[default]
    Murmur2Random,
    /// `murmur2`: the same, and all records without a key go to one partition.
    Murmur2,
    /// `consistent_random`, librdkafka's own default: by CRC-32 of the key; without a key or with an empty one, sticky.
    ConsistentRandom,
    /// `consistent`: the same, and all records without a key or with an empty one go to one partition.
    Consistent,
    /// `fnv1a_random`: by FNV-1a of the key, as Sarama; without a key, sticky.
    Fnv1aRandom,
    /// `fnv1a`: the same, and all records without a key go to one partition.
    Fnv1a,
    /// `random`: sticky, whatever the key (Java: `partitioner.ignore.keys`).
    Random,
    /// What the user says.
    Custom(Arc<dyn ChoosePartition>),
}

/// A user's own choice of partitions; closures are one.
pub trait ChoosePartition: Send + Sync {
    /// The partition of a record, below [`Topic::partitions`], or `None` for any: it is sticky then. Called once for each
    /// record, so it should be quick. It must not use the [`Producer`](super::Producer) that asks, nor wait for somebody who
    /// does: the producer is locked meanwhile, and that never ends.
    fn choose(&self, topic: &Topic, record: &RecordRef<'_>) -> Option<i32>;
}

impl<F: Fn(&Topic, &RecordRef<'_>) -> Option<i32> + Send + Sync> ChoosePartition for F {
    fn choose(&self, topic: &Topic, record: &RecordRef<'_>) -> Option<i32> {
        self(topic, record)
    }
}

/// There is no partitioner of this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no partitioner; there are murmur2_random, murmur2, consistent_random, consistent, fnv1a_random, fnv1a and random"
)]
pub struct UnknownPartitioner(pub String);

impl Partitioner {
    /// Those that have a name.
    pub const NAMED: [Self; 7] = [
        Self::Murmur2Random,
        Self::Murmur2,
        Self::ConsistentRandom,
        Self::Consistent,
        Self::Fnv1aRandom,
        Self::Fnv1a,
        Self::Random,
    ];

    /// One of the user's own.
    pub fn custom(choice: impl ChoosePartition + 'static) -> Self {
        Self::Custom(Arc::new(choice))
    }

    /// Its name in configurations.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Murmur2Random => "murmur2_random",
            Self::Murmur2 => "murmur2",
            Self::ConsistentRandom => "consistent_random",
            Self::Consistent => "consistent",
            Self::Fnv1aRandom => "fnv1a_random",
            Self::Fnv1a => "fnv1a",
            Self::Random => "random",
            Self::Custom(_) => "custom",
        }
    }

    /// The partition of a record; `None` for any.
    pub(super) fn of(&self, topic: &Topic, record: &RecordRef<'_>) -> Option<i32> {
        let hash = match (self, record.key) {
            (Self::Random, _)
            | (Self::Murmur2Random | Self::Fnv1aRandom, None)
            | (Self::ConsistentRandom, None | Some([])) => return None,
            (Self::Custom(choice), _) => return choice.choose(topic, record),
            (Self::Murmur2 | Self::Murmur2Random, key) => murmur2(key.unwrap_or_default()) & 0x7fff_ffff,
            (Self::Consistent | Self::ConsistentRandom, key) => crc32(key.unwrap_or_default()),
            (Self::Fnv1a | Self::Fnv1aRandom, key) => fnv1a(key.unwrap_or_default()),
        };
        let partitions = topic.partitions().max(1).unsigned_abs();
        i32::try_from(hash % partitions).ok()
    }
}

impl fmt::Debug for Partitioner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Partitioner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Partitioner {
    type Err = UnknownPartitioner;

    fn from_str(name: &str) -> Result<Self, UnknownPartitioner> {
        let found = Self::NAMED.into_iter().find(|partitioner| partitioner.name() == name);
        found.ok_or_else(|| UnknownPartitioner(name.to_owned()))
    }
}

/// Kafka's murmur2, as its default partitioner uses it (`org.apache.kafka.common.utils.Utils.murmur2`).
fn murmur2(data: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    const R: u32 = 24;
    // Java's length is an int; a key never comes near its end.
    let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
    let mut h = 0x9747_b28c ^ length;
    let mut words = data.chunks_exact(4);
    for word in &mut words {
        let k = u32::from_le_bytes([word[0], word[1], word[2], word[3]]).wrapping_mul(M);
        h = h.wrapping_mul(M) ^ (k ^ (k >> R)).wrapping_mul(M);
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        let tail = rest.iter().rev().fold(0, |acc, byte| (acc << 8) | u32::from(*byte));
        h = (h ^ tail).wrapping_mul(M);
    }
    h = (h ^ (h >> 13)).wrapping_mul(M);
    h ^ (h >> 15)
}

/// The CRC-32 of zlib, four bits at a time.
fn crc32(data: &[u8]) -> u32 {
    const REVERSED: u32 = 0xedb8_8320;
    const OF_NIBBLE: [u32; 16] = {
        let mut table = [0; 16];
        let mut nibble = 0;
        while nibble < 16 {
            let (mut crc, mut bit) = (nibble as u32, 0);
            while bit < 4 {
                crc = if crc & 1 == 1 { crc >> 1 ^ REVERSED } else { crc >> 1 };
                bit += 1;
            }
            table[nibble] = crc;
            nibble += 1;
        }
        table
    };
    let step = |crc: u32, bits: u32| crc >> 4 ^ OF_NIBBLE[((crc ^ bits) & 15) as usize];
    !data.iter().fold(!0, |crc, byte| step(step(crc, u32::from(*byte)), u32::from(*byte >> 4)))
}

/// FNV-1a of 32 bits, taken for a signed number whose sign is dropped, as Sarama does.
fn fnv1a(data: &[u8]) -> u32 {
    let hash =
        data.iter().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    hash.cast_signed().unsigned_abs()
}

/// Records without a key stay on one partition until a batch's worth of bytes went there (KIP-480, KIP-794).
#[derive(Debug)]
pub(super) struct Sticky {
    partition: i32,
    bytes: usize,
}

impl Sticky {
    pub(super) fn new(first: u64, partitions: i32) -> Self {
        let first = first % u64::from(partitions.max(1).unsigned_abs());
        Self { partition: i32::try_from(first).unwrap_or_default(), bytes: 0 }
    }

    /// The partition for a record.
    pub(super) fn next(&mut self, batch_bytes: usize, partitions: i32) -> i32 {
        if self.bytes >= batch_bytes || self.partition >= partitions {
            self.partition = (self.partition + 1) % partitions.max(1);
            self.bytes = 0;
        }
        self.partition
    }

    /// A record of so many bytes was taken there.
    pub(super) fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
    }
}

#[cfg(test)]
#[path = "partitioner_tests.rs"]
mod tests;

//! Topics and their partitions: who leads them, and their logs.

use std::collections::BTreeMap;

use super::log::PartitionLog;
use crate::ids::{TopicId, TopicName};
use crate::record::{Compression, CompressionLevels};

/// A topic.
#[derive(Debug)]
pub(crate) struct Topic {
    pub(crate) id: TopicId,
    pub(crate) partitions: Vec<Partition>,
    /// What CreateTopics was given.
    pub(crate) configs: BTreeMap<String, String>,
    pub(crate) internal: bool,
}

/// A partition. Its replicas share one log: a follower here is never behind.
#[derive(Debug)]
pub(crate) struct Partition {
    pub(crate) replicas: Vec<i32>,
    pub(crate) leader: Option<i32>,
    pub(crate) leader_epoch: i32,
    pub(crate) log: PartitionLog,
}

impl Partition {
    pub(crate) fn new(replicas: Vec<i32>, is_up: impl Fn(i32) -> bool) -> Self {
        let leader = replicas.iter().copied().find(|n| is_up(*n));
        Self { replicas, leader, leader_epoch: 0, log: PartitionLog::default() }
    }

    /// Keeps the leader while it is up, else the first replica that is; true when it changed.
    pub(crate) fn elect(&mut self, is_up: impl Fn(i32) -> bool) -> bool {
        if self.leader.is_some_and(&is_up) {
            return false;
        }
        let elected = self.replicas.iter().copied().find(|n| is_up(*n));
        let changed = elected != self.leader;
        if changed {
            self.leader = elected;
            self.leader_epoch += 1;
        }
        changed
    }

    /// The replica behind the leader that is up, else the leader.
    pub(crate) fn next_leader(&self, is_up: impl Fn(i32) -> bool) -> Option<i32> {
        let at = self.leader.and_then(|leader| self.replicas.iter().position(|n| *n == leader));
        let (before, behind) = self.replicas.split_at(at.map_or(0, |at| at + 1));
        behind.iter().chain(before).copied().find(|n| is_up(*n))
    }

    /// The replicas that are up; when none is, the ones that were last in sync: all of them.
    pub(crate) fn in_sync(&self, is_up: impl Fn(i32) -> bool) -> Vec<i32> {
        let up: Vec<i32> = self.replicas.iter().copied().filter(|n| is_up(*n)).collect();
        if up.is_empty() { self.replicas.clone() } else { up }
    }
}

impl Topic {
    /// Does the topic stamp records with the broker's time?
    pub(crate) fn stamps_append_time(&self) -> bool {
        self.configs.get("message.timestamp.type").is_some_and(|kind| kind == "LogAppendTime")
    }

    /// `max.message.bytes`, or the broker's own limit.
    pub(crate) fn max_message_bytes(&self, broker: usize) -> usize {
        self.configs.get("max.message.bytes").and_then(|n| n.parse().ok()).unwrap_or(broker)
    }

    /// The latest time that a record may carry: `message.timestamp.after.max.ms` (one hour) from now.
    pub(crate) fn latest_timestamp(&self, now_ms: i64) -> i64 {
        let ahead = self.configs.get("message.timestamp.after.max.ms").and_then(|n| n.parse().ok());
        now_ms.saturating_add(ahead.unwrap_or(3_600_000))
    }

    /// `compression.type`: the codec that batches are kept in, whatever they come in; nothing for `producer`.
    pub(crate) fn compression(&self) -> Option<Compression> {
        self.configs.get("compression.type").and_then(|name| codec_named(name)).flatten()
    }

    /// How hard the broker tries when it compresses.
    pub(crate) fn compression_levels(&self) -> CompressionLevels {
        levels(&self.configs).unwrap_or_default()
    }

    /// `min.insync.replicas`, or the broker's own.
    pub(crate) fn min_insync_replicas(&self, broker: usize) -> usize {
        self.configs.get("min.insync.replicas").and_then(|n| n.parse().ok()).unwrap_or(broker)
    }

    pub(crate) fn partition(&self, index: i32) -> Option<&Partition> {
        usize::try_from(index).ok().and_then(|i| self.partitions.get(i))
    }

    pub(crate) fn partition_mut(&mut self, index: i32) -> Option<&mut Partition> {
        usize::try_from(index).ok().and_then(|i| self.partitions.get_mut(i))
    }
}

/// Are the settings about compression those that Kafka knows?
pub(crate) fn compresses(configs: &BTreeMap<String, String>) -> bool {
    let codec = configs.get("compression.type").map(|name| codec_named(name));
    codec != Some(None) && levels(configs).is_some()
}

/// What a `compression.type` of a topic asks for, if it is one: the producer's codec, or this one.
fn codec_named(name: &str) -> Option<Option<Compression>> {
    match name {
        "producer" => Some(None),
        "uncompressed" => Some(Some(Compression::None)),
        "none" => None,
        name => name.parse().ok().map(Some),
    }
}

/// The levels that settings name, if they are levels.
fn levels(configs: &BTreeMap<String, String>) -> Option<CompressionLevels> {
    let mut levels = CompressionLevels::default();
    for codec in [Compression::Gzip, Compression::Lz4, Compression::Zstd] {
        if let Some(level) = configs.get(&format!("compression.{codec}.level")) {
            levels = levels.with(codec, level.parse().ok()?).ok()?;
        }
    }
    Some(levels)
}

/// All topics, by name and by id.
#[derive(Debug, Default)]
pub(crate) struct Topics {
    by_name: BTreeMap<TopicName, Topic>,
    names: BTreeMap<TopicId, TopicName>,
}

impl Topics {
    pub(crate) fn insert(&mut self, name: TopicName, topic: Topic) {
        self.names.insert(topic.id, name.clone());
        self.by_name.insert(name, topic);
    }

    pub(crate) fn remove(&mut self, name: &str) -> Option<Topic> {
        let topic = self.by_name.remove(name)?;
        self.names.remove(&topic.id);
        Some(topic)
    }

    pub(crate) fn named(&self, name: &str) -> Option<&Topic> {
        self.by_name.get(name)
    }

    pub(crate) fn named_mut(&mut self, name: &str) -> Option<&mut Topic> {
        self.by_name.get_mut(name)
    }

    pub(crate) fn name_of(&self, id: TopicId) -> Option<&TopicName> {
        self.names.get(&id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&TopicName, &Topic)> {
        self.by_name.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&TopicName, &mut Topic)> {
        self.by_name.iter_mut()
    }
}

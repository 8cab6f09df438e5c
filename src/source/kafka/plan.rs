//! What a subtask reads, and where it begins: from the topics, the checkpoint and the settings.

use std::collections::HashMap;

use super::{
    Bound, KafkaSource, StartFrom,
    state::{self, KafkaSplit},
};
use crate::{
    client::{ConsumerError, Isolation, OffsetAt, OutOfRangePolicy, Topic},
    ids::TopicPartition,
    source::{SourceError, SplitState, Subtask},
};

pub(super) struct Plan {
    pub(super) topics: Vec<Topic>,
    pub(super) splits: Vec<KafkaSplit>,
}

/// Every start is an offset when this returns, so that the first snapshot says where reading began.
pub(super) async fn plan(
    source: &KafkaSource,
    subtask: Subtask,
    restored: &[SplitState],
) -> Result<Plan, SourceError> {
    if source.topics.is_empty() {
        return Err(SourceError::Settings("a Kafka source needs a topic".into()));
    }
    let restored = restored.iter().map(KafkaSplit::read).collect::<Result<Vec<_>, _>>()?;
    if let Some(other) = restored.iter().find(|split| !source.topics.contains(&split.place.topic)) {
        let what = format!("it has read the topic {}, which is not to be read any more", other.place.topic);
        return Err(SourceError::Mismatch(what));
    }
    let mut topics = Vec::new();
    for name in &source.topics {
        topics.push(source.client.topic(name).await?);
    }
    offsets_exist(source, &topics)?;
    let mut splits = Vec::new();
    let (mut starts, mut of_group) = (Vec::new(), Vec::new());
    for topic in &topics {
        let of_topic: Vec<_> = restored.iter().filter(|s| s.place.topic == *topic.name()).collect();
        is_the_same(topic, &of_topic)?;
        for place in owned(topic, subtask, 0) {
            match of_topic.iter().find(|split| split.place == place) {
                Some(split) => splits.push(KafkaSplit { topic_id: topic.id(), ..(*split).clone() }),
                None if of_topic.is_empty() => match configured(&source.start, &place) {
                    Begin::Offset(next) => splits.push(new_split(topic, place, next)),
                    Begin::At(at) => starts.push((place, at)),
                    Begin::Committed => of_group.push(place),
                },
                // It was added since.
                None if source.bound != Bound::Stable => starts.push((place, OffsetAt::Earliest)),
                None => {}
            }
        }
    }
    let mut found = committed(source, of_group, &mut starts).await?;
    found.extend(looked_up(source, starts).await?);
    for (place, next) in found {
        splits.extend(topics.iter().find(|t| *t.name() == place.topic).map(|t| new_split(t, place, next)));
    }
    bounded(source, &mut splits).await?;
    Ok(Plan { topics, splits })
}

/// The partitions of a topic from this one on that belong to the subtask.
pub(super) fn owned(
    topic: &Topic,
    subtask: Subtask,
    from: i32,
) -> impl Iterator<Item = TopicPartition> + use<> {
    let name = topic.name().clone();
    let places = (from..topic.partitions()).map(move |index| TopicPartition::new(name.clone(), index));
    places.filter(move |place| subtask.owns(&state::name(place)))
}

pub(super) fn new_split(topic: &Topic, place: TopicPartition, next: i64) -> KafkaSplit {
    KafkaSplit { place, topic_id: topic.id(), next, leader_epoch: None, end: None }
}

/// The checkpoint must mean this topic and not an earlier one of its name.
fn is_the_same(topic: &Topic, restored: &[&KafkaSplit]) -> Result<(), ConsumerError> {
    for split in restored {
        let (expected, found) = (split.topic_id, topic.id());
        if expected.is_known() && found.is_known() && expected != found {
            return Err(ConsumerError::Recreated { topic: topic.name().clone(), expected, found });
        }
        if split.place.partition >= topic.partitions() {
            return Err(ConsumerError::Missing(split.place.clone()));
        }
    }
    Ok(())
}

enum Begin {
    Offset(i64),
    At(OffsetAt),
    Committed,
}

/// Offsets of a partition that is not there are a mistake, and must not be passed over.
fn offsets_exist(source: &KafkaSource, topics: &[Topic]) -> Result<(), SourceError> {
    let StartFrom::Offsets(offsets) = &source.start else { return Ok(()) };
    for (place, offset) in offsets {
        let topic = topics.iter().find(|topic| *topic.name() == place.topic);
        let why = match topic {
            None => format!("a start offset is given for {place}, and its topic is not read"),
            Some(topic) if !(0..topic.partitions()).contains(&place.partition) => {
                format!(
                    "a start offset is given for {place}, and {} has {} partitions",
                    topic.name(),
                    topic.partitions()
                )
            }
            Some(_) if *offset < 0 => format!("{place} can't be read from offset {offset}"),
            Some(_) => continue,
        };
        return Err(SourceError::Settings(why));
    }
    Ok(())
}

fn configured(start: &StartFrom, place: &TopicPartition) -> Begin {
    match start {
        StartFrom::Earliest => Begin::At(OffsetAt::Earliest),
        StartFrom::Latest => Begin::At(OffsetAt::Latest),
        StartFrom::Timestamp(ms) => Begin::At(OffsetAt::Timestamp(*ms)),
        StartFrom::Offsets(offsets) => {
            offsets.get(place).map_or(Begin::At(OffsetAt::Earliest), |offset| Begin::Offset(*offset))
        }
        StartFrom::Committed { .. } => Begin::Committed,
    }
}

/// Where the group stands; partitions of which it has committed nothing are looked up with the others, if that is wanted.
async fn committed(
    source: &KafkaSource,
    places: Vec<TopicPartition>,
    starts: &mut Vec<(TopicPartition, OffsetAt)>,
) -> Result<HashMap<TopicPartition, i64>, SourceError> {
    let StartFrom::Committed { group, otherwise } = &source.start else { return Ok(HashMap::new()) };
    let mut found = HashMap::new();
    for (place, told) in source.client.committed(group, places).await? {
        match (told, otherwise) {
            (Some(at), _) => _ = found.insert(place, at.offset),
            (None, OutOfRangePolicy::Earliest) => starts.push((place, OffsetAt::Earliest)),
            (None, OutOfRangePolicy::Latest) => starts.push((place, OffsetAt::Latest)),
            (None, OutOfRangePolicy::Error) => {
                return Err(SourceError::Settings(format!(
                    "the consumer group {group} has committed no offset of {place}: auto.offset.reset says where to begin \
                     then"
                )));
            }
        }
    }
    Ok(found)
}

async fn looked_up(
    source: &KafkaSource,
    asked: Vec<(TopicPartition, OffsetAt)>,
) -> Result<HashMap<TopicPartition, i64>, SourceError> {
    let found = list(source, asked).await?;
    // No record is as young as that: behind the last one.
    let late = found.iter().filter(|(_, offset)| offset.is_none());
    let ends = list(source, late.map(|(place, _)| (place.clone(), OffsetAt::Latest)).collect()).await?;
    let known = found.into_iter().chain(ends);
    Ok(known.filter_map(|(place, offset)| Some((place, offset?))).collect())
}

async fn list(
    source: &KafkaSource,
    asked: Vec<(TopicPartition, OffsetAt)>,
) -> Result<HashMap<TopicPartition, Option<i64>>, SourceError> {
    if asked.is_empty() {
        return Ok(HashMap::new());
    }
    Ok(source.client.list_offsets(source.isolation, asked).await?)
}

/// Ends that are kept stay; others are looked up, or forgotten where there is to be no end.
async fn bounded(source: &KafkaSource, splits: &mut [KafkaSplit]) -> Result<(), SourceError> {
    if source.bound == Bound::Anew {
        splits.iter_mut().for_each(|split| split.end = None);
    }
    let ends = match source.bound {
        Bound::None => HashMap::new(),
        Bound::Stable | Bound::Anew => {
            let open = splits.iter().filter(|split| split.end.is_none());
            list(source, open.map(|split| (split.place.clone(), OffsetAt::Latest)).collect()).await?
        }
    };
    for split in splits.iter_mut() {
        split.end = match source.bound {
            Bound::None => None,
            Bound::Stable | Bound::Anew => split.end.or(ends.get(&split.place).copied().flatten()),
        };
    }
    hidden(source, splits).await
}

/// A start behind the end, in what open transactions hide, has nothing to read up to there. One behind that is not in the
/// log, which the policy for such offsets decides.
async fn hidden(source: &KafkaSource, splits: &mut [KafkaSplit]) -> Result<(), SourceError> {
    let is_beyond = |split: &KafkaSplit| split.end.is_some_and(|end| split.next > end);
    let beyond = splits.iter().filter(|split| is_beyond(split));
    let asked: Vec<_> = beyond.map(|split| (split.place.clone(), OffsetAt::Latest)).collect();
    if asked.is_empty() {
        return Ok(());
    }
    let watermarks = source.client.list_offsets(Isolation::Uncommitted, asked).await?;
    for split in splits.iter_mut().filter(|split| is_beyond(split)) {
        let watermark = watermarks.get(&split.place).copied().flatten();
        if watermark.is_some_and(|watermark| split.next <= watermark) {
            split.end = Some(split.next);
        }
    }
    Ok(())
}

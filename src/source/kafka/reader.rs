//! What one subtask reads.

use std::collections::BTreeMap;

use futures::{FutureExt, future::BoxFuture};

use super::{Bound, Partition, SourceOffset, discovery::Discovery, state::KafkaSplit};
use crate::{
    client::{Consumer, ConsumerRecord, Start},
    ids::TopicPartition,
    net::Clock,
    record::Record,
    source::{SourceError, SourceReader, SplitState, pace::Pace},
};

pub(super) struct Reader {
    consumer: Consumer,
    /// Every split of the subtask; those that are assigned to the consumer are not at their end.
    splits: BTreeMap<TopicPartition, KafkaSplit>,
    discovery: Option<Discovery>,
    partition: Partition,
    bound: Bound,
    pace: Option<(Pace, Clock)>,
}

impl Reader {
    pub(super) fn new(
        consumer: Consumer,
        splits: Vec<KafkaSplit>,
        discovery: Option<Discovery>,
        (partition, bound): (Partition, Bound),
    ) -> Self {
        let mut reader = Self { consumer, splits: BTreeMap::new(), discovery, partition, bound, pace: None };
        splits.into_iter().for_each(|split| reader.add(split));
        reader
    }

    pub(super) fn paced(self, pace: Option<Pace>, clock: Clock) -> Self {
        Self { pace: pace.map(|pace| (pace, clock)), ..self }
    }

    fn add(&mut self, split: KafkaSplit) {
        if !split.is_finished() {
            self.consumer.add(split.place.clone(), Start::Offset(split.next), split.topic_id);
            self.consumer.read_at_epoch(&split.place, split.leader_epoch);
        }
        self.splits.insert(split.place.clone(), split);
    }

    async fn batch(&mut self) -> Result<Option<Vec<Record>>, SourceError> {
        loop {
            let reads = self.splits.values().any(|split| !split.is_finished());
            if !reads && self.bound != Bound::None {
                return Ok(None);
            }
            let early =
                self.pace.as_mut().and_then(|(pace, clock)| Some((pace.allowed(clock.now()).err()?, *clock)));
            let paid = async {
                match early {
                    Some((due, clock)) => clock.sleep_until(Some(due)).await,
                    None => std::future::pending().await,
                }
            };
            let found = async {
                match &mut self.discovery {
                    Some(discovery) => discovery.next().await,
                    None => std::future::pending().await,
                }
            };
            // Nothing waits behind these, so that what they gave is not lost.
            tokio::select! {
                biased;
                found = found => found.into_iter().for_each(|split| self.add(split)),
                () = paid => {}
                records = self.consumer.advance(), if reads && early.is_none() => {
                    let records = self.take(records?);
                    if let Some((pace, _)) = &mut self.pace {
                        pace.passed(records.len() as u64);
                    }
                    if !records.is_empty() {
                        return Ok(Some(records));
                    }
                }
            }
        }
    }

    /// Moves the positions, and makes records of what lies before the end.
    fn take(&mut self, read: Vec<ConsumerRecord>) -> Vec<Record> {
        // A batch is of one partition.
        let Some(first) = read.first() else {
            let moved: Vec<_> = self.consumer.positions().map(|(p, at)| (p.clone(), at)).collect();
            moved.into_iter().for_each(|(place, position)| self.moved(&place, position));
            return Vec::new();
        };
        let place = TopicPartition { topic: first.topic.clone(), partition: first.partition };
        let position = self.consumer.position(&place);
        self.moved(&place, position);
        let end = self.splits.get(&place).and_then(|split| split.end).unwrap_or(i64::MAX);
        read.into_iter().filter(|r| r.record.offset < end).map(|r| self.record(r)).collect()
    }

    fn moved(&mut self, place: &TopicPartition, position: Option<i64>) {
        let (Some(split), Some(position)) = (self.splits.get_mut(place), position) else { return };
        if split.end.is_some_and(|end| split.next > end && position > end) {
            // It began beyond the end, and the leader was not asked yet whether there is such an offset.
            return;
        }
        let next = split.end.map_or(position, |end| position.min(end));
        if next != split.next {
            split.next = next;
            split.leader_epoch = self.consumer.leader_epoch(place);
        }
        if split.is_finished() {
            self.consumer.unassign(place);
        }
    }

    fn record(&self, read: ConsumerRecord) -> Record {
        let record = read.record;
        Record {
            partition: (self.partition == Partition::Kept).then_some(read.partition),
            key: record.key,
            value: record.value,
            headers: record.headers.into_iter().map(|header| (header.key, header.value)).collect(),
            // Also that it has none, -1: a copy of it has none either.
            timestamp: Some(record.timestamp),
        }
    }
}

impl SourceReader for Reader {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Vec<Record>>, SourceError>> {
        self.batch().boxed()
    }

    fn snapshot(&self) -> Vec<SplitState> {
        self.splits.values().map(KafkaSplit::write).collect()
    }

    fn offsets(&self) -> Vec<SourceOffset> {
        self.splits.values().cloned().map(KafkaSplit::offset).collect()
    }
}

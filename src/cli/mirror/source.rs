//! The Kafka source of a mirror: it knows where it reads, and what the target can take.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use futures::{FutureExt, future::BoxFuture};

use super::origin::Origin;
use crate::{
    checkpoint::runner::{RunError, TaskError},
    record::Record,
    source::{KafkaSource, Source, SourceError, SourceOffset, SourceReader, SplitState, Subtask},
};

/// The source.
pub(super) struct MirrorSource {
    pub(super) source: KafkaSource,
    pub(super) origin: Origin,
    /// The target topic, and how many partitions it has.
    pub(super) to: Arc<str>,
    pub(super) partitions: i32,
    pub(super) read: Arc<Read>,
}

/// What all subtasks have read.
#[derive(Debug, Default)]
pub(super) struct Read {
    records: AtomicU64,
    bytes: AtomicU64,
}

impl Read {
    pub(super) fn records(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// A partition was added to the source, and has records now; the target has no such partition.
#[derive(Debug, thiserror::Error)]
#[error(
    "partition {partition} of {from} was added and has records, but {to} has {partitions} partitions: add partitions to \
     it, and run the same command again"
)]
pub(super) struct Lacking {
    partition: i32,
    partitions: i32,
    from: Arc<str>,
    to: Arc<str>,
}

impl Lacking {
    /// Whether a run ended for that reason.
    pub(super) fn of(error: &RunError) -> Option<&Self> {
        match error {
            RunError::Task(TaskError::Source { error: SourceError::Other(other), .. }) => {
                other.downcast_ref()
            }
            _ => None,
        }
    }
}

struct Reader {
    reader: Box<dyn SourceReader>,
    origin: Origin,
    to: Arc<str>,
    partitions: i32,
    read: Arc<Read>,
}

impl Source for MirrorSource {
    fn open<'a>(
        &'a self,
        subtask: Subtask,
        restored: &'a [SplitState],
    ) -> BoxFuture<'a, Result<Box<dyn SourceReader>, SourceError>> {
        async move {
            let partitions = restored.iter().filter(|split| !Origin::is_told_by(split));
            let partitions: Vec<_> = partitions.cloned().collect();
            let reader = Reader {
                reader: self.source.open(subtask, &partitions).await?,
                origin: self.origin.clone(),
                to: Arc::clone(&self.to),
                partitions: self.partitions,
                read: Arc::clone(&self.read),
            };
            Ok(Box::new(reader) as Box<dyn SourceReader>)
        }
        .boxed()
    }
}

impl Reader {
    /// The job must not lose a record that has no place in the target, nor put it into another partition.
    fn check(&self, records: &[Record]) -> Result<(), Lacking> {
        let highest = records.iter().filter_map(|record| record.partition).max();
        match highest.filter(|partition| *partition >= self.partitions) {
            None => Ok(()),
            Some(partition) => Err(Lacking {
                partition,
                partitions: self.partitions,
                from: Arc::clone(&self.origin.topic),
                to: Arc::clone(&self.to),
            }),
        }
    }

    fn count(&self, records: &[Record]) {
        let length = |part: &Option<bytes::Bytes>| part.as_ref().map_or(0, bytes::Bytes::len);
        let bytes: usize = records.iter().map(|r| length(&r.key) + length(&r.value)).sum();
        self.read.records.fetch_add(records.len() as u64, Ordering::Relaxed);
        self.read.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl SourceReader for Reader {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Vec<Record>>, SourceError>> {
        async move {
            let records = self.reader.next().await?;
            let read = records.as_deref().unwrap_or_default();
            self.check(read).map_err(SourceError::other)?;
            self.count(read);
            Ok(records)
        }
        .boxed()
    }

    fn snapshot(&self) -> Vec<SplitState> {
        let mut splits = self.reader.snapshot();
        splits.push(self.origin.split());
        splits
    }

    fn offsets(&self) -> Vec<SourceOffset> {
        self.reader.offsets()
    }

    fn completed(&mut self, checkpoint: u64) {
        self.reader.completed(checkpoint);
    }
}

//! Closed batches that are not acknowledged, by the name that a machine knows them by.

use std::{collections::HashMap, mem, sync::Arc};

use bytes::Bytes;
use tokio::sync::watch;

use super::{
    accumulator::Sealed,
    buffers::Buffers,
    link::{BatchFate, BatchState, Link, Waiting},
};
use crate::{
    ids::{Moment, TopicId, TopicPartition},
    proto::{
        cause::Cause,
        numbers::Numbers,
        outbox::{self, BatchId},
    },
    record::CompressionLevels,
    wire::batch::{Batch, SealedBatch, SplitError, Stamp, recycle},
};

/// The batches.
#[derive(Debug, Default)]
pub(super) struct Held {
    batches: HashMap<BatchId, One>,
    next: u64,
}

#[derive(Debug)]
struct One {
    body: Body,
    topic: TopicId,
    numbers: Arc<Numbers>,
    bytes: usize,
    deadline: Moment,
    tracked: Option<watch::Sender<BatchState>>,
    /// Until it leaves for the first time.
    waiting: Option<Waiting>,
}

/// A batch gets its identity and sequence when it leaves; as long as these are the same its bytes are.
#[derive(Debug)]
enum Body {
    Sealed(SealedBatch),
    Sent(Bytes, Stamp),
    Gone,
}

impl Held {
    /// Takes a batch that is given up at `deadline`.
    pub(super) fn take(&mut self, sealed: Sealed, deadline: Moment) -> (TopicPartition, outbox::Batch) {
        let Sealed { partition, topic_id, batch, numbers, tracked, waiting, .. } = sealed;
        let taken = self.add((topic_id, batch), numbers, deadline, tracked);
        if let Some(one) = self.batches.get_mut(&taken.id) {
            one.waiting = Some(waiting);
        }
        (partition, taken)
    }

    fn add(
        &mut self,
        (topic, sealed): (TopicId, SealedBatch),
        numbers: Arc<Numbers>,
        deadline: Moment,
        tracked: Option<watch::Sender<BatchState>>,
    ) -> outbox::Batch {
        let id = BatchId(self.next);
        self.next += 1;
        let (records, bytes) = (sealed.count(), sealed.len());
        let body = Body::Sealed(sealed);
        let one = One { body, topic, numbers, bytes, deadline, tracked, waiting: None };
        self.batches.insert(id, one);
        outbox::Batch { id, topic, records, bytes, deadline }
    }

    /// The bytes of a batch under this stamp. They are the same each time, until the stamp is another one.
    pub(super) fn bytes(&mut self, batch: BatchId, stamp: Stamp) -> Option<Bytes> {
        let one = self.batches.get_mut(&batch)?;
        drop(one.waiting.take());
        let bytes = match mem::replace(&mut one.body, Body::Gone) {
            Body::Sealed(sealed) => stamped(sealed, stamp),
            Body::Sent(bytes, before) if before == stamp => bytes,
            Body::Sent(bytes, _) => stamped(reopened(bytes)?, stamp),
            Body::Gone => return None,
        };
        one.body = Body::Sent(bytes.clone(), stamp);
        Some(bytes)
    }

    /// Which records a batch holds.
    pub(super) fn numbers(&self, batch: BatchId) -> Arc<Numbers> {
        self.batches.get(&batch).map(|one| Arc::clone(&one.numbers)).unwrap_or_default()
    }

    /// Whether its bytes were asked for, which are sent then.
    pub(super) fn was_sent(&self, batch: BatchId) -> bool {
        self.batches.get(&batch).is_some_and(|one| !matches!(one.body, Body::Sealed(_)))
    }

    /// All of them.
    pub(super) fn names(&self) -> Vec<BatchId> {
        self.batches.keys().copied().collect()
    }

    /// A batch is over: its memory is free, and whoever tracks it is told. Returns how many records it held.
    pub(super) fn release(
        &mut self,
        batch: BatchId,
        result: Result<Option<i64>, Cause>,
        (link, buffers): (&Link, &Buffers),
    ) -> u64 {
        let Some(one) = self.batches.remove(&batch) else { return 0 };
        if let Body::Sent(bytes, _) = one.body {
            // Unless it is still being written somewhere.
            _ = recycle(bytes).map(|buffer| buffers.give(buffer));
        }
        link.free(one.bytes);
        if let Some(tracked) = one.tracked {
            tracked.send_replace(Some(BatchFate::Known(result)));
        }
        one.numbers.count() as u64
    }

    /// Puts two smaller batches in the place of one; none if that can't be.
    pub(super) fn split(
        &mut self,
        whole: BatchId,
        levels: CompressionLevels,
        link: &Link,
    ) -> Vec<outbox::Batch> {
        let Some(One { body: Body::Sent(bytes, _), .. }) = self.batches.get(&whole) else {
            return Vec::new();
        };
        let halves = Batch::produced(bytes.clone()).map_err(SplitError::from).and_then(|b| b.split(levels));
        let (first, second) = match halves {
            Ok(halves) => halves,
            Err(error) => {
                tracing::debug!(%error, "a batch that is too large is not split");
                return Vec::new();
            }
        };
        let Some(one) = self.batches.remove(&whole) else { return Vec::new() };
        link.hold(first.len() + second.len());
        link.free(one.bytes);
        let numbers = one.numbers.split_at(usize::try_from(first.count()).unwrap_or(0));
        let starts = [0, first.count()];
        let (mut parts, mut fates) = (Vec::new(), Vec::new());
        for (start, (sealed, numbers)) in starts.into_iter().zip([(first, numbers.0), (second, numbers.1)]) {
            let tracked = one.tracked.is_some().then(|| watch::channel(None).0);
            fates.extend(tracked.iter().map(|tracked| (start, tracked.subscribe())));
            parts.push(self.add((one.topic, sealed), Arc::new(numbers), one.deadline, tracked));
        }
        if let Some(tracked) = one.tracked {
            tracked.send_replace(Some(BatchFate::Split(fates)));
        }
        parts
    }
}

fn stamped(mut sealed: SealedBatch, stamp: Stamp) -> Bytes {
    sealed.stamp(stamp);
    sealed.freeze()
}

/// A batch that somebody still holds, a connection that failed for one, is copied: what was sent never changes.
fn reopened(bytes: Bytes) -> Option<SealedBatch> {
    SealedBatch::reopen(bytes).or_else(|shared| SealedBatch::reopen(Bytes::copy_from_slice(&shared))).ok()
}

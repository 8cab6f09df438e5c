//! Where the sources stand at a checkpoint, told to the one subtask of the sink that commits it to a consumer group.
//!
//! Barriers don't carry it: with operators between, they would have to merge it, and a sink without records would wait
//! for nothing. Every source subtask tells its offsets at once when a checkpoint is triggered, before its barrier leaves,
//! so the sink waits for them no longer than for the barrier.

use std::collections::BTreeMap;

use tokio::sync::mpsc;

use crate::{
    client::{ConsumerGroupMetadata, OffsetAndMetadata},
    ids::TopicPartition,
    sink::{SinkWriter, WriteError},
    source::{SourceOffset, SourceReader},
};

/// What a source subtask says.
enum Told {
    At { checkpoint: u64, offsets: Vec<SourceOffset> },
    Gone,
}

/// The end of a source subtask. When it goes, nobody waits for it any more.
pub(super) struct OffsetSender(mpsc::UnboundedSender<Told>);

/// The end of the sink's subtask.
pub(super) struct GroupCommits {
    group: ConsumerGroupMetadata,
    /// How many source subtasks there are.
    sources: usize,
    told: mpsc::UnboundedReceiver<Told>,
    /// By checkpoint: how many have told, and what.
    waiting: BTreeMap<u64, (usize, Vec<SourceOffset>)>,
    /// A source has ended that should have gone on: the job is over.
    gone: bool,
    /// What this run has sent last. A position that did not move is no reason for a transaction.
    sent: BTreeMap<TopicPartition, i64>,
}

/// The ends for so many source subtasks, and for the sink.
pub(super) fn group_commits(
    group: ConsumerGroupMetadata,
    sources: usize,
) -> (Vec<OffsetSender>, GroupCommits) {
    let (sender, told) = mpsc::unbounded_channel();
    let offset_senders = (0..sources).map(|_| OffsetSender(sender.clone())).collect();
    let (waiting, sent) = (BTreeMap::new(), BTreeMap::new());
    (offset_senders, GroupCommits { group, sources, told, waiting, gone: false, sent })
}

impl OffsetSender {
    pub(super) fn tell(&self, checkpoint: u64, reader: &dyn SourceReader) {
        // Nobody listens when the sink is gone.
        _ = self.0.send(Told::At { checkpoint, offsets: reader.offsets() });
    }
}

impl Drop for OffsetSender {
    fn drop(&mut self) {
        _ = self.0.send(Told::Gone);
    }
}

impl GroupCommits {
    /// Puts the offsets of a checkpoint into the writer's transaction, which is begun if there is none. The writer prepares
    /// it next, and waits for the group's coordinator then.
    ///
    /// Without a free transactional id they are left to the next checkpoint: they tell how far the job is, and nothing
    /// waits for them.
    ///
    /// # Errors
    /// [`WriteError`] if the transaction can only be aborted.
    ///
    /// # Cancel safety
    /// Cancel safe up to the first record of the next checkpoint.
    pub(super) async fn put(&mut self, checkpoint: u64, writer: &mut SinkWriter) -> Result<(), WriteError> {
        let Some(offsets) = self.at(checkpoint).await else { return Ok(()) };
        let moved = offsets.into_iter().filter(|at| self.sent.get(&at.partition) != Some(&at.offset));
        let moved: Vec<(TopicPartition, OffsetAndMetadata)> = moved.map(SourceOffset::into).collect();
        if writer.is_exhausted() {
            tracing::debug!(checkpoint, group = %self.group.group_id, "no free id for offsets of the sources");
            return Ok(());
        }
        let now: Vec<_> = moved.iter().map(|(place, at)| (place.clone(), at.offset)).collect();
        writer.send_offsets(&self.group, moved)?;
        self.sent.extend(now);
        Ok(())
    }

    /// What all sources told of this checkpoint; `None` if one of them is gone.
    async fn at(&mut self, checkpoint: u64) -> Option<Vec<SourceOffset>> {
        loop {
            if self.waiting.get(&checkpoint).is_some_and(|(count, _)| *count == self.sources) {
                let (_, offsets) = self.waiting.remove(&checkpoint)?;
                // Those of checkpoints that were given up.
                self.waiting.retain(|other, _| *other > checkpoint);
                return Some(offsets);
            }
            if self.gone {
                return None;
            }
            match self.told.recv().await {
                Some(Told::At { checkpoint, offsets }) => {
                    let (count, all) = self.waiting.entry(checkpoint).or_default();
                    *count += 1;
                    all.extend(offsets);
                }
                Some(Told::Gone) | None => self.gone = true,
            }
        }
    }
}

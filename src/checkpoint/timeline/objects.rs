//! Objects, where nothing can be appended: the newest piece is put again and again, until it is full.

use std::time::Duration;

use tokio::sync::mpsc;

use super::{
    KEPT_CHECKPOINTS, line,
    times::{CheckpointTimes, gather},
    writer::Entry,
};
use crate::{
    checkpoint::{
        ObjectState, StoreError,
        object::{Bucket, Folder},
    },
    ids::Moment,
    net::Clock,
};

/// How long news may wait.
const EVERY: Duration = Duration::from_secs(10);
/// A piece that is this large is left, and another one begun.
const PIECE: usize = 256 << 10;
/// How many pieces are kept.
const KEPT_PIECES: usize = 64;

/// Writes what comes until nobody is left to send it.
pub(super) async fn work((bucket, run): (Bucket, i64), clock: Clock, mut queue: mpsc::Receiver<Entry>) {
    let mut pieces = Pieces { bucket, run, number: 0, text: String::new(), cut: false };
    let (mut due, mut told) = (None::<Moment>, false);
    loop {
        let mut closing = None;
        let full = tokio::select! {
            entry = queue.recv() => match entry {
                None => return,
                Some(Entry::Event(key, mark)) => {
                    pieces.text.push_str(&line::write(key, &mark));
                    due = due.or_else(|| Some(clock.now().after(EVERY)));
                    pieces.text.len() >= PIECE
                }
                Some(Entry::Close(done)) => {
                    closing = Some(done);
                    false
                }
            },
            () = clock.sleep_until(due) => false,
        };
        let news = due.is_some_and(|due| full || closing.is_some() || due <= clock.now());
        if news {
            due = None;
            if let Err(error) = pieces.put(full).await {
                if !std::mem::replace(&mut told, true) {
                    tracing::warn!(%error, "a part of the timeline is not written");
                }
                // It may be there all the same.
                pieces.begin();
            }
        }
        if let Some(done) = closing {
            _ = done.send(());
        }
    }
}

struct Pieces {
    bucket: Bucket,
    run: i64,
    /// Of the piece that is being written.
    number: u32,
    text: String,
    /// Whether this run has removed old pieces since it began a piece.
    cut: bool,
}

impl Pieces {
    async fn put(&mut self, full: bool) -> Result<(), StoreError> {
        let name = format!("{:015}-{:06}.ndjson", self.run, self.number);
        self.bucket.put(Folder::Timeline, &name, self.text.clone().into()).await?;
        if !self.cut {
            let names = self.bucket.names(Folder::Timeline).await?;
            for old in &names[..names.len().saturating_sub(KEPT_PIECES)] {
                self.bucket.remove(Folder::Timeline, old).await?;
            }
            self.cut = true;
        }
        if full {
            self.begin();
        }
        Ok(())
    }

    fn begin(&mut self) {
        self.text.clear();
        self.number += 1;
        self.cut = false;
    }
}

impl ObjectState {
    /// The newest checkpoints of the job's timeline, as [`read_timeline`](super::read_timeline) tells them.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be asked.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn timeline(&self) -> Result<Vec<CheckpointTimes>, StoreError> {
        let bucket = self.bucket();
        let mut text = String::new();
        for name in bucket.names(Folder::Timeline).await? {
            // A job removes old ones.
            if let Some(bytes) = bucket.read(Folder::Timeline, &name).await? {
                text.push_str(&String::from_utf8_lossy(&bytes));
            }
        }
        let mut all = gather(text.lines().filter_map(line::read));
        all.drain(..all.len().saturating_sub(KEPT_CHECKPOINTS));
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use object_store::memory::InMemory;

    use super::*;
    use crate::checkpoint::{
        runner::JobEvent,
        timeline::{Stage, TimelineWriter},
    };

    fn state() -> ObjectState {
        ObjectState::new(Arc::new(InMemory::new()), "jobs/one", None)
    }

    fn write(
        state: &ObjectState,
        clock: Clock,
        checkpoints: std::ops::RangeInclusive<u64>,
    ) -> TimelineWriter {
        let writer = TimelineWriter::beside(state, [].into(), clock);
        for checkpoint in checkpoints {
            writer.record(clock.now(), &JobEvent::Stored { checkpoint });
        }
        writer
    }

    async fn ids(state: &ObjectState) -> Vec<u64> {
        state.timeline().await.unwrap().iter().map(|times| times.checkpoint).collect()
    }

    #[tokio::test]
    async fn what_one_run_wrote_the_next_one_keeps() {
        let (state, clock) = (state(), Clock::start());
        write(&state, clock, 1..=3).close().await;
        assert_eq!(ids(&state).await, [1, 2, 3]);
        // Runs have their beginning in their names.
        tokio::time::sleep(Duration::from_millis(5)).await;
        write(&state, clock, 4..=5).close().await;
        assert_eq!(ids(&state).await, [1, 2, 3, 4, 5]);
        assert_eq!(state.timeline().await.unwrap()[4].marks[0].stage, Stage::Durable);
    }

    #[tokio::test(start_paused = true)]
    async fn news_is_put_after_a_while_without_an_end() {
        let (state, clock) = (state(), Clock::start());
        let writer = write(&state, clock, 1..=1);
        tokio::time::sleep(EVERY / 2).await;
        assert_eq!(ids(&state).await, [0; 0]);
        tokio::time::sleep(EVERY).await;
        assert_eq!(ids(&state).await, [1]);
        drop(writer);
    }

    #[tokio::test]
    async fn only_the_newest_pieces_are_kept() {
        let state = state();
        let line = line::write((1, 1), &super::super::Mark { stage: Stage::Durable, task: None, at_us: 1 });
        let mut pieces =
            Pieces { bucket: state.bucket().clone(), run: 1, number: 0, text: String::new(), cut: false };
        for _ in 0..KEPT_PIECES + 3 {
            pieces.text.push_str(&line);
            pieces.put(true).await.unwrap();
        }
        let names = state.bucket().names(Folder::Timeline).await.unwrap();
        assert_eq!(names.len(), KEPT_PIECES);
        assert_eq!(names[0], "000000000000001-000003.ndjson");
    }
}

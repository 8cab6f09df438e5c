//! Sources: where a pipeline's records come from, and how it finds its place again after a crash.
//!
//! ```text
//!            open(subtask, restored splits) ┌──────────────────────────────┐
//!  Source ─────────────────────────────────►│ SourceReader of one subtask  │── next ──► records
//!                                           │  a position for each split   │
//!                                           └──────────────────────────────┘
//!                         at the barrier: snapshot ──► SplitState of every split ──► the checkpoint
//! ```
//! A split is what can be read by itself: a partition, a file, a part of a sequence. A reader takes those that belong
//! to its subtask, and says for each where it stands. What `next` returned is before that, and nothing else; so a
//! restored job repeats exactly what came after the checkpoint.
//!
//! The states of all subtasks are given to every subtask on restore: under another parallelism splits belong to
//! other subtasks.

mod error;
mod generator;
mod kafka;
mod lines;
mod pace;
mod split;

pub use error::SourceError;
pub use generator::GeneratorSource;
pub use kafka::{KafkaSource, SourceOffset, StartError, StartFrom};
pub use lines::{Input, InputError, InputHash, InputPosition, LinesInput, LinesSource, OnBadLine};
pub use split::{SplitState, Subtask};

use futures::future::BoxFuture;

use crate::record::Record;

/// A source; one per job, which opens a reader for each of its subtasks.
///
/// ```
/// use std::sync::Arc;
///
/// use bytes::Bytes;
/// use futures::{FutureExt, future::BoxFuture};
/// use kafka_2pc::{
///     record::Record,
///     source::{Source, SourceError, SourceReader, SplitState, Subtask},
/// };
///
/// /// The numbers below 10, in one split.
/// struct Numbers;
///
/// struct Reader(Option<u8>);
///
/// impl Source for Numbers {
///     fn open<'a>(
///         &'a self,
///         subtask: Subtask,
///         restored: &'a [SplitState],
///     ) -> BoxFuture<'a, Result<Box<dyn SourceReader>, SourceError>> {
///         let next = restored.iter().find(|s| &*s.split == "numbers").map_or(0, |s| s.state[0]);
///         let reader = Reader(subtask.owns("numbers").then_some(next));
///         async move { Ok(Box::new(reader) as Box<dyn SourceReader>) }.boxed()
///     }
/// }
///
/// impl SourceReader for Reader {
///     fn next(&mut self) -> BoxFuture<'_, Result<Option<Vec<Record>>, SourceError>> {
///         async move {
///             let Some(next) = self.0.as_mut().filter(|next| **next < 10) else { return Ok(None) };
///             *next += 1;
///             Ok(Some(vec![Record::value(next.to_string())]))
///         }
///         .boxed()
///     }
///
///     fn snapshot(&self) -> Vec<SplitState> {
///         let split = |next: u8| SplitState::new("numbers", Bytes::copy_from_slice(&[next]));
///         self.0.map(split).into_iter().collect()
///     }
/// }
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let mut reader = Numbers.open(Subtask::ONLY, &[]).await?;
/// while reader.next().await?.is_some_and(|records| records[0].value.as_deref() != Some(b"4")) {}
/// let kept = reader.snapshot();
/// let mut again = Numbers.open(Subtask::ONLY, &kept).await?;
/// assert_eq!(again.next().await?, Some(vec![Record::value("5")]));
/// # Ok::<(), SourceError>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Source: Send + Sync {
    /// Opens the reader of one subtask.
    ///
    /// `restored` holds every split of the restored checkpoint, of all subtasks; it is empty at a first start. The
    /// reader takes those that belong to it under the present parallelism ([`Subtask::owns`]), so that a job can go
    /// on with more or fewer subtasks.
    ///
    /// # Errors
    /// [`SourceError`].
    ///
    /// # Cancel safety
    /// A job that ends meanwhile drops the future: what it has taken of an input that can be read once only is then gone.
    fn open<'a>(
        &'a self,
        subtask: Subtask,
        restored: &'a [SplitState],
    ) -> BoxFuture<'a, Result<Box<dyn SourceReader>, SourceError>>;

    /// The splits as they are before anything was read, for the checkpoint that a new state begins with. A source need not
    /// know them yet: it is opened without any then.
    fn beginning(&self) -> Vec<SplitState> {
        Vec::new()
    }
}

/// What one subtask reads.
pub trait SourceReader: Send {
    /// The next records, at least one, those of a split in its order. Waits while there is none; `None` at the end of
    /// a bounded input, and from then on.
    ///
    /// # Errors
    /// [`SourceError`]; the position is as before the call.
    ///
    /// # Cancel safety
    /// Cancel safe: records are taken when they are returned, and dropping the future loses none.
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Vec<Record>>, SourceError>>;

    /// Where the reader stands: everything that [`next`](Self::next) returned is before it, and nothing else. Every
    /// split of this reader is in it, also one that is at its end.
    fn snapshot(&self) -> Vec<SplitState>;

    /// Where the reader stands in Kafka topics, as [`snapshot`](Self::snapshot) says it: what a job commits to a consumer
    /// group with the transaction of the same checkpoint
    /// ([`SinkConfig::offsets_group`](crate::sink::SinkConfig::offsets_group)), for tools that watch its lag. Nothing for
    /// other sources.
    fn offsets(&self) -> Vec<SourceOffset> {
        Vec::new()
    }

    /// A checkpoint is complete. For tools that watch from outside how far a job is; nothing depends on it.
    fn completed(&mut self, checkpoint: u64) {
        _ = checkpoint;
    }
}

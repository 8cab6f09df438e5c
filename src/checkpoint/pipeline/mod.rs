//! A job on one machine: lines in, records in a topic, exactly once.
//!
//! ```text
//! input ──line──► source: parse ──record──► sink: write
//!                                             │ every interval, at the end, on a signal
//!                                             ▼
//!                                    prepare ──► checkpoint durable ──► commit (in the background) ──► settled
//! ```
//! It is a job of the [`runner`](super::runner) with one subtask of each. What is its own: an input that may have another
//! name, a ledger of the lines that records came from, and the words in which it tells how it ended.

mod job;
mod ledger;
mod lines;
mod report;
mod source;

pub use job::run;
pub use lines::RefusedLines;
pub use report::{PipelineError, Summary};

use std::{borrow::Cow, collections::BTreeMap, sync::Arc, time::Duration};

pub use super::runner::{HangingTransaction, LostTransaction, OnHanging, OpenCommittable, StopAfter};
use super::{runner::Observer, state::INPUT, step::Steps};
use crate::sink::SinkConfig;
pub use crate::source::{Input, InputError, LinesInput, OnBadLine};

/// The uid of the source of such a job, in its events and in its state.
pub const SOURCE: &str = INPUT;
/// The uid of its sink.
pub const SINK: &str = "sink";

/// What a line becomes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LineRecord<'a> {
    /// The partition, if the line names one.
    pub partition: Option<i32>,
    /// The key, or null.
    pub key: Option<Cow<'a, [u8]>>,
    /// The value, or null.
    pub value: Option<Cow<'a, [u8]>>,
    /// Headers, in order.
    pub headers: Vec<LineHeader<'a>>,
    /// Milliseconds since the Unix epoch; `None` for now.
    pub timestamp: Option<i64>,
}

/// A header's key, and its value or null.
pub type LineHeader<'a> = (Cow<'a, [u8]>, Option<Cow<'a, [u8]>>);

/// Makes records of lines.
pub trait LineFormat: Send + Sync {
    /// The record of a line, which comes without its end.
    ///
    /// # Errors
    /// What is wrong with the line, for people.
    fn parse<'a>(&self, line: &'a [u8]) -> Result<LineRecord<'a>, String>;
}

/// A job.
#[derive(Clone)]
pub struct Job {
    /// The topic.
    pub topic: String,
    /// The input.
    pub source: LinesInput,
    /// How lines become records.
    pub format: Arc<dyn LineFormat>,
    /// The sink's settings.
    pub sink: SinkConfig,
    /// The job's id, kept in its state.
    pub job_id: Arc<str>,
    /// How far checkpoints are apart (`execution.checkpointing.interval`).
    pub checkpoint_interval: Duration,
    /// How long a checkpoint may take to be prepared (`execution.checkpointing.timeout`). One that takes longer ends the
    /// run with [`PipelineError::CheckpointTimeout`].
    pub checkpoint_timeout: Duration,
    /// From the end of a checkpoint to the next periodic one at least (`execution.checkpointing.min-pause`).
    pub min_pause: Duration,
    /// At most so many records a second.
    pub rate: Option<u32>,
    /// What is done with a line that is no record.
    pub on_bad_line: OnBadLine,
    /// Lines whose records a broker has refused, with the reason: they are bad lines. For another attempt after
    /// [`PipelineError::Refused`]; empty at first.
    pub refused: BTreeMap<u64, Arc<str>>,
    /// Where to stop on purpose.
    pub stop_after: Option<StopAfter>,
    /// What is done with a commit that hangs.
    pub on_hanging: OnHanging,
    /// Watches the job.
    pub steps: Steps,
    /// Is told what happens. The source's uid is [`SOURCE`], the sink's is [`SINK`].
    pub observer: Observer,
    /// Told of progress: records so far, and bytes of input.
    pub progress: Arc<dyn Fn(u64, u64) + Send + Sync>,
}

//! When each checkpoint of a job passed what: written beside its state while it runs, for whoever looks later.
//!
//! ```text
//! JobEvent ──► TimelineWriter::record ──► a bounded queue ──► a task of its own ──► DIR/timeline.ndjson
//!                                          full: left out       broken: said once, and left
//! ```
//! The file has a line for each event, and keeps the newest checkpoints. Nothing of a job depends on it: it is not
//! synced, and what can't be written is left out.

mod file;
mod line;
#[cfg(feature = "object-store")]
mod objects;
mod times;
mod writer;

pub use file::{KEPT_CHECKPOINTS, read_timeline};
pub use line::Stage;
pub use times::{CheckpointTimes, Mark};
pub use writer::TimelineWriter;

#[cfg(test)]
mod tests;

//! What every client under measure shares, ours and the others: it is a process of its own, it is told a [`Job`] by
//! arguments, and it tells an [`Outcome`] as the last line of its output. So settings are equal because they are the
//! same words, and no client pays for another's allocator, threads or warm caches.

mod job;
mod outcome;
mod process;
mod values;

pub use job::{Codec, Job, Runtime, Workload};
pub use outcome::{Outcome, Stopwatch};
pub use process::{cpu_time, peak_memory_bytes};
pub use values::values;

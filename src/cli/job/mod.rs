//! What the commands share that run a job: `pipe` and `mirror`.

mod metrics;
mod observers;
mod options;
mod progress;
mod report;
mod signals;
mod state;

pub(super) use metrics::Metrics;
pub(super) use observers::Observers;
pub(super) use options::Options;
pub(super) use progress::progress;
pub(super) use report::{exit_of, exit_of_lost, tell_cure, tell_hanging, tell_lost, told};
pub(super) use signals::signals;
pub(super) use state::{close, ensure_topic, job_id, prefix, store};

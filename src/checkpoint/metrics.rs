//! Metrics of a job, for whatever recorder the crate `metrics` is given (feature `metrics`).
//!
//! ```text
//! JobEvent ──► Observer ──► counters, gauges, histograms ──► the recorder of the process
//! ```
//! [`TABLE`] has their names. Without a recorder they cost next to nothing.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use metrics::{Label, Unit, counter, gauge, histogram};

use super::runner::{JobEvent, Observer, TaskName};
use crate::{
    ids::Moment,
    proto::resume::Outcome,
    sink::{RecoveryReport, SinkUsage, Taken},
};

/// What a metric is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It grows.
    Counter,
    /// It goes up and down.
    Gauge,
    /// How often a value lay where.
    Histogram,
}

/// A metric.
#[derive(Debug, Clone, Copy)]
pub struct Described {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Its unit.
    pub unit: Unit,
    /// What it counts or measures.
    pub help: &'static str,
}

const fn row(name: &'static str, kind: Kind, unit: Unit, help: &'static str) -> Described {
    Described { name, kind, unit, help }
}

const RECORDS: &str = "kafka_2pc_num_records_out_total";
const BYTES: &str = "kafka_2pc_num_bytes_out_total";
const COMPLETED: &str = "kafka_2pc_number_of_completed_checkpoints_total";
const FAILED: &str = "kafka_2pc_number_of_failed_checkpoints_total";
const LAST: &str = "kafka_2pc_last_checkpoint_duration_seconds";
const SUCCESSFUL: &str = "kafka_2pc_successful_committables_total";
const ALREADY: &str = "kafka_2pc_already_committed_committables_total";
const NOT_COMMITTED: &str = "kafka_2pc_failed_committables_total";
const PENDING: &str = "kafka_2pc_pending_committables";
const OPEN: &str = "kafka_2pc_open_transactions";
const UNSETTLED: &str = "kafka_2pc_unsettled_transactions";
const HANGING: &str = "kafka_2pc_hanging_transactions";
const OLDEST: &str = "kafka_2pc_oldest_transaction_age_seconds";
const FREE: &str = "kafka_2pc_free_transactional_ids";
const COMMIT: &str = "kafka_2pc_commit_latency_seconds";
const VISIBLE: &str = "kafka_2pc_visibility_latency_seconds";
const RECOVERIES: &str = "kafka_2pc_recoveries_total";
const RESUMED: &str = "kafka_2pc_resumed_transactions_total";
const ABORTED: &str = "kafka_2pc_aborted_transactions_total";
const LOST: &str = "kafka_2pc_lost_transactions_total";
const FENCED: &str = "kafka_2pc_fenced_total";

/// Every metric of a job. All have the label `prefix`; those of one subtask have `subtask`, too.
pub const TABLE: [Described; 21] = {
    use Kind::{Counter, Gauge, Histogram};
    [
        row(RECORDS, Counter, Unit::Count, "Records that sinks took."),
        row(BYTES, Counter, Unit::Bytes, "Bytes of keys and values of these records."),
        row(COMPLETED, Counter, Unit::Count, "Checkpoints that became complete."),
        row(FAILED, Counter, Unit::Count, "Checkpoints that were given up."),
        row(LAST, Gauge, Unit::Seconds, "How long the last complete checkpoint took, from its trigger on."),
        row(SUCCESSFUL, Counter, Unit::Count, "Prepared transactions that this run committed."),
        row(ALREADY, Counter, Unit::Count, "Prepared transactions that were found committed before."),
        row(
            NOT_COMMITTED,
            Counter,
            Unit::Count,
            "Prepared transactions whose commit failed or is not proven.",
        ),
        row(PENDING, Gauge, Unit::Count, "Prepared transactions that are not decided."),
        row(OPEN, Gauge, Unit::Count, "Transactions that are being written."),
        row(UNSETTLED, Gauge, Unit::Count, "Committed transactions that are not on every partition yet."),
        row(
            HANGING,
            Gauge,
            Unit::Count,
            "Transactions found without their marker on a partition; their ids are not used again.",
        ),
        row(OLDEST, Gauge, Unit::Seconds, "Age of the oldest open or prepared transaction; 0 without one."),
        row(FREE, Gauge, Unit::Count, "Transactions that could be begun before one is settled."),
        row(COMMIT, Histogram, Unit::Seconds, "From the notification of a checkpoint to the decided commit."),
        row(
            VISIBLE,
            Histogram,
            Unit::Seconds,
            "From the durable checkpoint to the commit on every partition.",
        ),
        row(RECOVERIES, Counter, Unit::Count, "How often the job recovered, its start included."),
        row(RESUMED, Counter, Unit::Count, "Transactions of an earlier run that recovery committed."),
        row(ABORTED, Counter, Unit::Count, "Leftovers that recovery aborted."),
        row(
            LOST,
            Counter,
            Unit::Count,
            "Transactions whose records are lost, or may be, and were passed over.",
        ),
        row(FENCED, Counter, Unit::Count, "How often another owner, or a timeout, took an id from the job."),
    ]
};

/// An observer that counts and measures, under the label `prefix`: what the job's transactional ids begin with.
///
/// It describes [`TABLE`] to the recorder of the process, which must be installed before.
#[must_use]
pub fn metrics_observer(prefix: &str) -> Observer {
    TABLE.iter().for_each(Described::describe);
    let job = Job { prefix: Arc::from(prefix), seen: Mutex::default() };
    job.begin();
    Observer::new(move |at, event| job.event(at, event))
}

impl Described {
    fn describe(&self) {
        match self.kind {
            Kind::Counter => metrics::describe_counter!(self.name, self.unit, self.help),
            Kind::Gauge => metrics::describe_gauge!(self.name, self.unit, self.help),
            Kind::Histogram => metrics::describe_histogram!(self.name, self.unit, self.help),
        }
    }
}

struct Job {
    prefix: Arc<str>,
    seen: Mutex<Seen>,
}

/// What the events before have told.
#[derive(Default)]
struct Seen {
    /// Checkpoints that are not known to be durable: when they were triggered.
    triggered: BTreeMap<u64, Moment>,
    /// When the newest of those that are became so.
    durable: BTreeMap<u64, Moment>,
    /// What writers had taken.
    taken: BTreeMap<u32, Taken>,
}

/// So many checkpoints are remembered.
const REMEMBERED: usize = 1000;

impl Job {
    fn labels(&self) -> Vec<Label> {
        vec![Label::new("prefix", self.prefix.to_string())]
    }

    fn of(&self, task: &TaskName) -> Vec<Label> {
        let mut labels = self.labels();
        labels.push(Label::new("subtask", task.index.to_string()));
        labels
    }

    /// What counts for the whole job is there from the start: an alert on its growth sees the first step.
    fn begin(&self) {
        for name in [COMPLETED, FAILED, RECOVERIES, RESUMED, ABORTED, LOST, FENCED] {
            counter!(name, self.labels()).increment(0);
        }
    }

    fn event(&self, at: Moment, event: &JobEvent<'_>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            // What a new state begins with is never told to be durable.
            JobEvent::Triggered { checkpoint: 0, .. } => {}
            JobEvent::Triggered { checkpoint, .. } => {
                remember(&mut seen.triggered, *checkpoint, at);
            }
            JobEvent::Stored { checkpoint } => {
                counter!(COMPLETED, self.labels()).increment(1);
                if let Some(triggered) = seen.triggered.remove(checkpoint) {
                    gauge!(LAST, self.labels()).set(at.since(triggered).as_secs_f64());
                }
                remember(&mut seen.durable, *checkpoint, at);
            }
            JobEvent::Aborted { checkpoint, .. } => {
                counter!(FAILED, self.labels()).increment(1);
                seen.triggered.remove(checkpoint);
            }
            JobEvent::Committed { task, took, outcome, .. } => {
                let name = match outcome {
                    Outcome::AlreadyCommitted(_) => ALREADY,
                    _ => SUCCESSFUL,
                };
                counter!(name, self.of(task)).increment(1);
                histogram!(COMMIT, self.of(task)).record(took.as_secs_f64());
            }
            JobEvent::Visible { checkpoint, task, .. } => {
                if let Some(durable) = seen.durable.get(checkpoint) {
                    histogram!(VISIBLE, self.of(task)).record(at.since(*durable).as_secs_f64());
                }
            }
            JobEvent::NotCommitted { task, .. } => counter!(NOT_COMMITTED, self.of(task)).increment(1),
            JobEvent::Fenced { .. } => counter!(FENCED, self.labels()).increment(1),
            JobEvent::GivenUp { .. } => counter!(LOST, self.labels()).increment(1),
            JobEvent::Recovered { report } => {
                // Checkpoints that were under way are gone, and writers begin to count anew.
                *seen = Seen::default();
                self.recovered(report);
            }
            JobEvent::Usage { task, usage } => {
                let before = seen.taken.insert(task.index, usage.taken).unwrap_or_default();
                self.usage(task, usage, before);
            }
            JobEvent::Snapshot { .. }
            | JobEvent::Prepared { .. }
            | JobEvent::Acknowledged { .. }
            | JobEvent::Notified { .. } => {}
        }
    }

    fn recovered(&self, report: &RecoveryReport) {
        let count = |name, by: usize| counter!(name, self.labels()).increment(by as u64);
        count(RECOVERIES, 1);
        count(RESUMED, report.resumed.len());
        count(ABORTED, report.aborted.len());
        count(LOST, report.lost.len());
    }

    fn usage(&self, task: &TaskName, usage: &SinkUsage, before: Taken) {
        let labels = self.of(task);
        counter!(RECORDS, labels.clone()).increment(usage.taken.records.saturating_sub(before.records));
        counter!(BYTES, labels.clone()).increment(usage.taken.bytes.saturating_sub(before.bytes));
        for name in [SUCCESSFUL, ALREADY, NOT_COMMITTED] {
            counter!(name, labels.clone()).increment(0);
        }
        let now = [
            (OPEN, usage.open),
            (PENDING, usage.prepared),
            (UNSETTLED, usage.unsettled),
            (HANGING, usage.hanging),
            (FREE, usage.free),
        ];
        for (name, number) in now {
            gauge!(name, labels.clone()).set(number as f64);
        }
        gauge!(OLDEST, labels).set(usage.oldest.as_secs_f64());
    }
}

fn remember(moments: &mut BTreeMap<u64, Moment>, checkpoint: u64, at: Moment) {
    moments.insert(checkpoint, at);
    while moments.len() > REMEMBERED {
        moments.pop_first();
    }
}

#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;

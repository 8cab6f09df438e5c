use std::time::Duration;

use metrics_exporter_prometheus::PrometheusBuilder;

use super::*;
use crate::{
    ids::TransactionalId,
    proto::checkpoint::{CheckpointKind, coordinator::AbortCause},
};

const DOCUMENTED: &str = include_str!("../../docs/operations.md");

/// What is told of a job after these events, one second apart.
fn told(events: &[JobEvent<'_>]) -> String {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    metrics::with_local_recorder(&recorder, || {
        let observer = metrics_observer("job");
        for (at, event) in (0u32..).zip(events) {
            observer.event(Moment::default().after(Duration::from_secs(1) * at), event);
        }
    });
    handle.render()
}

#[track_caller]
fn expect(told: &str, lines: &[&str]) {
    for line in lines {
        assert!(told.lines().any(|told| told == *line), "no {line} in\n{told}");
    }
}

fn sink() -> TaskName {
    TaskName { uid: Arc::from("sink"), index: 3 }
}

fn usage(records: u64, bytes: u64) -> SinkUsage {
    let oldest = Duration::from_millis(2500);
    let taken = Taken { records, bytes };
    SinkUsage { open: 1, prepared: 2, unsettled: 4, hanging: 5, free: 6, oldest, taken }
}

#[test]
fn a_checkpoint_is_measured_from_its_trigger_and_a_commit_until_it_is_visible() {
    let (task, id, checkpoint) = (sink(), TransactionalId::new("job-0"), 7);
    let (took, outcome, transactional_id) = (Duration::from_millis(1500), &Outcome::Committed, &id);
    let told = told(&[
        JobEvent::Triggered { checkpoint, kind: CheckpointKind::Periodic },
        JobEvent::Prepared { checkpoint, task: &task, transactional_id: Some(&id) },
        JobEvent::Stored { checkpoint },
        JobEvent::Committed { checkpoint, task: &task, transactional_id, took, outcome },
        JobEvent::Visible { checkpoint, task: &task, transactional_id },
        // Of a run before: nobody knows since when.
        JobEvent::Visible { checkpoint: 0, task: &task, transactional_id },
        JobEvent::Aborted { checkpoint: 8, cause: &AbortCause::Subsumed { by: 9 } },
        JobEvent::NotCommitted { task: &task, transactional_id },
        JobEvent::NotCommitted { task: &task, transactional_id },
        JobEvent::GivenUp { task: &task, transactional_id },
        JobEvent::Fenced { task: &task },
    ]);
    expect(
        &told,
        &[
            "kafka_2pc_number_of_completed_checkpoints_total{prefix=\"job\"} 1",
            "kafka_2pc_number_of_failed_checkpoints_total{prefix=\"job\"} 1",
            "kafka_2pc_last_checkpoint_duration_seconds{prefix=\"job\"} 2",
            "kafka_2pc_successful_committables_total{prefix=\"job\",subtask=\"3\"} 1",
            "kafka_2pc_failed_committables_total{prefix=\"job\",subtask=\"3\"} 2",
            "kafka_2pc_lost_transactions_total{prefix=\"job\"} 1",
            "kafka_2pc_fenced_total{prefix=\"job\"} 1",
            "kafka_2pc_commit_latency_seconds_sum{prefix=\"job\",subtask=\"3\"} 1.5",
            "kafka_2pc_visibility_latency_seconds_sum{prefix=\"job\",subtask=\"3\"} 2",
            "kafka_2pc_visibility_latency_seconds_count{prefix=\"job\",subtask=\"3\"} 1",
        ],
    );
}

#[test]
fn what_writers_take_is_counted_through_restarts() {
    let task = sink();
    let report = RecoveryReport { aborted: vec![TransactionalId::new("job-1")], ..RecoveryReport::default() };
    let told = told(&[
        JobEvent::Recovered { report: &report },
        JobEvent::Usage { task: &task, usage: usage(10, 100) },
        JobEvent::Usage { task: &task, usage: usage(15, 150) },
        JobEvent::Recovered { report: &report },
        // More than the writer before had taken: only the recovery tells that it is another one.
        JobEvent::Usage { task: &task, usage: usage(20, 200) },
    ]);
    expect(
        &told,
        &[
            "kafka_2pc_num_records_out_total{prefix=\"job\",subtask=\"3\"} 35",
            "kafka_2pc_num_bytes_out_total{prefix=\"job\",subtask=\"3\"} 350",
            "kafka_2pc_recoveries_total{prefix=\"job\"} 2",
            "kafka_2pc_aborted_transactions_total{prefix=\"job\"} 2",
            "kafka_2pc_open_transactions{prefix=\"job\",subtask=\"3\"} 1",
            "kafka_2pc_pending_committables{prefix=\"job\",subtask=\"3\"} 2",
            "kafka_2pc_unsettled_transactions{prefix=\"job\",subtask=\"3\"} 4",
            "kafka_2pc_hanging_transactions{prefix=\"job\",subtask=\"3\"} 5",
            "kafka_2pc_free_transactional_ids{prefix=\"job\",subtask=\"3\"} 6",
            "kafka_2pc_oldest_transaction_age_seconds{prefix=\"job\",subtask=\"3\"} 2.5",
        ],
    );
}

#[test]
fn every_metric_is_documented_with_its_kind() {
    for Described { name, kind, .. } in TABLE {
        let kind = format!("{kind:?}").to_lowercase();
        let row = DOCUMENTED.lines().find(|line| line.starts_with(&format!("| `{name}` | {kind} |")));
        assert!(row.is_some(), "no row of the {kind} {name}");
    }
    let documented = DOCUMENTED.lines().filter(|line| line.starts_with("| `kafka_2pc_"));
    assert_eq!(documented.count(), TABLE.len());
}

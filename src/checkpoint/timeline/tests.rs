use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use super::{CheckpointTimes, KEPT_CHECKPOINTS, Stage, TimelineWriter, read_timeline};
use crate::{
    checkpoint::runner::{JobEvent, Role, TaskName},
    net::Clock,
    proto::checkpoint::CheckpointKind,
};

fn task(uid: &str) -> TaskName {
    TaskName { uid: uid.into(), index: 0 }
}

fn open(dir: &Path, clock: Clock) -> TimelineWriter {
    let roles = [("from", Role::Source), ("count", Role::Operator), ("to", Role::Sink)];
    let roles: BTreeMap<Arc<str>, Role> = roles.map(|(uid, role)| (uid.into(), role)).into();
    TimelineWriter::open(dir, roles, clock)
}

/// Records one checkpoint, each event a millisecond after the one before.
async fn record(file: &TimelineWriter, clock: Clock, checkpoint: u64) {
    let tasks = [task("from"), task("count"), task("to")];
    let (start, kind) = (clock.now(), CheckpointKind::Periodic);
    let mut events = vec![JobEvent::Triggered { checkpoint, kind }];
    events.extend(tasks.iter().map(|task| JobEvent::Snapshot { checkpoint, task }));
    events.push(JobEvent::Prepared { checkpoint, task: &tasks[2], transactional_id: None });
    events.extend(tasks.iter().map(|task| JobEvent::Acknowledged { checkpoint, task }));
    events.push(JobEvent::Stored { checkpoint });
    for (event, after) in events.iter().zip(0..) {
        file.record(start.after(Duration::from_millis(after)), event);
    }
    // The queue is bounded, and nobody waits for it.
    file.close().await;
}

fn ids(all: &[CheckpointTimes]) -> Vec<u64> {
    all.iter().map(|times| times.checkpoint).collect()
}

#[tokio::test]
async fn a_checkpoint_tells_its_stages_in_their_order() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), Clock::start());
    let file = open(dir.path(), clock);
    record(&file, clock, 7).await;
    let all = read_timeline(dir.path()).unwrap();
    assert_eq!(ids(&all), [7]);
    let stages: Vec<Stage> = all[0].marks.iter().map(|mark| mark.stage).collect();
    use Stage::{Acknowledged, AtOperator, AtSink, AtSource, Durable, Prepared, Triggered};
    let acks = [Acknowledged; 3];
    assert_eq!(stages[..5], [Triggered, AtSource, AtOperator, AtSink, Prepared]);
    assert_eq!((&stages[5..8], stages[8]), (&acks[..], Durable));
    assert_eq!(all[0].since_trigger(Prepared), Some(4_000));
    assert_eq!(all[0].since_trigger(Acknowledged), Some(7_000), "the last one counts");
    assert_eq!(all[0].since_trigger(Stage::Visible), None);
}

#[tokio::test]
async fn a_torn_line_costs_itself_and_not_the_next_run() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), Clock::start());
    let path = dir.path().join("timeline.ndjson");
    record(&open(dir.path(), clock), clock, 1).await;
    let whole = std::fs::read(&path).unwrap();
    for cut in 1..whole.len() {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let marks = read_timeline(dir.path()).unwrap().iter().map(|times| times.marks.len()).sum::<usize>();
        let ends = whole[..cut].iter().filter(|byte| **byte == b'\n').count();
        assert!((ends..=ends + 1).contains(&marks), "{marks} of {ends} lines");
    }
    std::fs::write(&path, &whole[..whole.len() - 10]).unwrap();
    record(&open(dir.path(), clock), clock, 2).await;
    let all = read_timeline(dir.path()).unwrap();
    assert_eq!((ids(&all), all[0].marks.len(), all[1].marks.len()), (vec![1, 2], 8, 9));
}

#[tokio::test]
async fn only_the_newest_checkpoints_are_kept() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), Clock::start());
    let newest = 2 * KEPT_CHECKPOINTS as u64 + 5;
    let file = open(dir.path(), clock);
    for checkpoint in 1..=newest {
        record(&file, clock, checkpoint).await;
    }
    let text = std::fs::read_to_string(dir.path().join("timeline.ndjson")).unwrap();
    assert!(!text.contains("\"checkpoint\":1000,") && text.contains("\"checkpoint\":1010,"));
    let all = read_timeline(dir.path()).unwrap();
    assert_eq!(ids(&all), (newest - KEPT_CHECKPOINTS as u64 + 1..=newest).collect::<Vec<_>>());
    assert!(all.iter().all(|times| times.marks.len() == 9));
}

#[tokio::test]
async fn a_file_that_cannot_be_written_is_no_error() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), Clock::start());
    std::fs::create_dir(dir.path().join("timeline.ndjson")).unwrap();
    let file = open(dir.path(), clock);
    record(&file, clock, 1).await;
    record(&file, clock, 2).await;
    assert!(read_timeline(dir.path()).is_err());
    assert_eq!(read_timeline(Path::new("/nowhere/at/all")).unwrap(), []);
}

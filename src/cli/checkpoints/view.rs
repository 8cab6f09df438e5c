//! Checkpoints for people and for scripts.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::{
    checkpoint::{Checkpoint, CheckpointFile, CommitStatus, ListedCommittable, OperatorState, StateHandle},
    proto::{pool::WriterState, resume::Decision},
};

/// What a table of checkpoints says of one.
pub(super) fn row(file: &CheckpointFile) -> [String; 6] {
    let head = [file.id.to_string(), time(file).unwrap_or_default(), file.bytes.to_string()];
    let tail = match &file.checkpoint {
        Ok(checkpoint) => [
            checkpoint.owner_epoch.to_string(),
            committables(&checkpoint.committables),
            operators(&checkpoint.operators),
        ],
        Err(_) => [String::new(), "cannot be read".to_owned(), String::new()],
    };
    let ([a, b, c], [d, e, f]) = (head, tail);
    [a, b, c, d, e, f]
}

/// The same as an object, with each committable and operator.
pub(super) fn line(file: &CheckpointFile) -> Value {
    let mut object = json!({
        "id": file.id,
        "file": file.path.display().to_string(),
        "time": time(file),
        "bytes": file.bytes,
    });
    match &file.checkpoint {
        Err(error) => object["fault"] = json!(error.to_string()),
        Ok(checkpoint) => {
            object["owner_epoch"] = json!(checkpoint.owner_epoch);
            let listed = checkpoint.committables.iter().map(|listed| {
                json!({
                    "transactional_id": listed.committable.transactional_id.as_str(),
                    "status": status(listed.status),
                    "records": listed.committable.records(),
                })
            });
            object["committables"] = listed.collect();
            let operators = checkpoint.operators.iter().map(|operator| {
                json!({
                    "uid": &*operator.uid,
                    "subtasks": operator.subtasks.len(),
                    "bytes": bytes(operator),
                })
            });
            object["operators"] = operators.collect();
        }
    }
    object
}

/// Everything that can be read in a checkpoint.
pub(super) fn whole(file: &CheckpointFile) -> Value {
    let mut object = line(file);
    let Ok(checkpoint) = &file.checkpoint else { return object };
    object["job_id"] = json!(&*checkpoint.job_id);
    object["cluster_id"] = json!(&*checkpoint.cluster_id);
    object["topic"] = json!(&*checkpoint.topic);
    object["topic_id"] = json!(checkpoint.topic_id.is_known().then(|| checkpoint.topic_id.to_string()));
    object["input"] = input(checkpoint);
    object["committables"] = checkpoint.committables.iter().map(committable).collect();
    object["operators"] = checkpoint.operators.iter().map(operator).collect();
    object["writers"] = checkpoint.writers.iter().map(writer).collect();
    object
}

/// Where a job that pipes lines stands; null for other jobs.
fn input(checkpoint: &Checkpoint) -> Value {
    match checkpoint.input() {
        Ok(Some(input)) => json!({"source": &*input.source, "bytes": input.bytes, "lines": input.lines}),
        Ok(None) | Err(_) => Value::Null,
    }
}

fn committable(listed: &ListedCommittable) -> Value {
    json!({"status": status(listed.status), "committable": listed.committable.to_json()})
}

fn operator(operator: &OperatorState) -> Value {
    let subtask = |handle: &StateHandle| match handle {
        StateHandle::Inline(_) => json!({"bytes": handle.len()}),
        StateHandle::Stored { name, .. } => json!({"bytes": handle.len(), "state": &**name}),
    };
    json!({
        "uid": &*operator.uid,
        "bytes": bytes(operator),
        "subtasks": operator.subtasks.iter().map(subtask).collect::<Vec<_>>(),
    })
}

fn writer(writer: &WriterState) -> Value {
    let former = writer.former_prefixes.iter().map(|prefix| prefix.as_str());
    let hanging = writer.retired.iter().map(|hanging| hanging.transactional_id.as_str());
    json!({
        "subtask": writer.ownership.subtask(),
        "prefix": writer.prefix.as_str(),
        "former_prefixes": former.collect::<Vec<_>>(),
        "naming": format!("{:?}", writer.naming).to_lowercase(),
        "active": writer.active.iter().map(|id| id.as_str()).collect::<Vec<_>>(),
        "hanging": hanging.collect::<Vec<_>>(),
    })
}

fn status(status: CommitStatus) -> &'static str {
    match status {
        CommitStatus::Pending => "pending",
        CommitStatus::Decided(Decision::Commit) => "committed",
        CommitStatus::Decided(Decision::Abort) => "aborted",
    }
}

/// `2 pending, 1 committed`.
fn committables(all: &[ListedCommittable]) -> String {
    let told = ["pending", "committed", "aborted"].iter().filter_map(|name| {
        let count = all.iter().filter(|listed| status(listed.status) == *name).count();
        (count > 0).then(|| format!("{count} {name}"))
    });
    told.collect::<Vec<_>>().join(", ")
}

/// `input 96, count 4194304 in 4`: an operator's bytes, and how many subtasks they are in.
fn operators(all: &[OperatorState]) -> String {
    let told = all.iter().map(|operator| match operator.subtasks.len() {
        1 => format!("{} {}", operator.uid, bytes(operator)),
        subtasks => format!("{} {} in {subtasks}", operator.uid, bytes(operator)),
    });
    told.collect::<Vec<_>>().join(", ")
}

fn bytes(operator: &OperatorState) -> u64 {
    operator.subtasks.iter().fold(0, |sum, handle| sum.saturating_add(handle.len()))
}

fn time(file: &CheckpointFile) -> Option<String> {
    file.modified.and_then(utc)
}

/// A time of the wall clock as RFC 3339 writes it, to the second.
fn utc(time: SystemTime) -> Option<String> {
    let seconds = time.duration_since(UNIX_EPOCH).ok()?.as_secs();
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Days since March 1 of the year 0, in eras of 400 years; a year that begins in March has its odd day at its end.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (month, day) = (if month < 10 { month + 3 } else { month - 9 }, day - (153 * month + 2) / 5 + 1);
    let year = 400 * era + year + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    Some(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        let at = |seconds| utc(UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(at(951_868_799), "2000-02-29T23:59:59Z");
        assert_eq!(at(1_709_164_800), "2024-02-29T00:00:00Z");
        assert_eq!(at(1_735_689_599), "2024-12-31T23:59:59Z");
        assert_eq!(at(4_107_542_400), "2100-03-01T00:00:00Z");
    }
}

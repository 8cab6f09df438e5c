//! Writing a prepared transaction's markers, and aborting transactions that timed out.
//!
//! EndTxn is answered once the `Prepare` state is entered; the markers follow. So success proves the decision, and
//! readers see the records a moment later.

use std::sync::Arc;

use super::cluster::{Cluster, OFFSETS_TOPIC};
use super::coordinator::partition_for;
use super::log::marker::{Marker, Outcome};
use super::profile::LeaderlessMarker;
use super::shared::{Shared, now_ms};
use crate::ids::TopicPartition;

/// Sends the markers of `id` in the background.
pub(crate) fn send(shared: &Arc<Shared>, id: &str) {
    let (task, id) = (Arc::clone(shared), id.to_owned());
    shared.spawn(async move { run(&task, &id).await });
}

async fn run(shared: &Shared, id: &str) {
    tokio::time::sleep(shared.config.marker_delay).await;
    loop {
        shared.markers_released().await;
        let mut changes = shared.changes();
        let progress = write_outstanding(&mut shared.cluster(), id, shared.config.profile.leaderless_marker);
        match progress {
            Progress::Done => return shared.announce(),
            Progress::Some => shared.announce(),
            // Some partition, or the coordinator itself, has no leader: look again when something changed.
            Progress::None if changes.changed().await.is_err() => return,
            Progress::None => {}
        }
    }
}

/// How far the markers of a transaction got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    None,
    Some,
    Done,
}

/// Writes what can be written now, and completes the transaction when nothing is left.
fn write_outstanding(cluster: &mut Cluster, id: &str, leaderless: LeaderlessMarker) -> Progress {
    let Some((_, coordinator_epoch)) = cluster.transaction_coordinator(id) else {
        return Progress::None;
    };
    let Some(entry) = cluster.transactions.entry(id) else {
        return Progress::Done;
    };
    let (Some(marker), partitions) = (entry.marker(coordinator_epoch), entry.partitions.clone()) else {
        return Progress::Done;
    };
    let mut outstanding = partitions.clone();
    outstanding.retain(|partition| !write(cluster, partition, &marker, leaderless));
    let progress = if outstanding.is_empty() {
        Progress::Done
    } else if outstanding.len() < partitions.len() {
        Progress::Some
    } else {
        Progress::None
    };
    if let Some(entry) = cluster.transactions.entry_mut(id) {
        entry.partitions = outstanding;
        if progress == Progress::Done {
            entry.complete(now_ms());
        }
    }
    progress
}

/// True when the coordinator has nothing more to do for this partition.
fn write(cluster: &mut Cluster, at: &TopicPartition, marker: &Marker, leaderless: LeaderlessMarker) -> bool {
    let Some(partition) = cluster.topics.named_mut(&at.topic).and_then(|t| t.partition_mut(at.partition))
    else {
        return true; // the topic was deleted
    };
    if partition.leader.is_none() {
        return leaderless == LeaderlessMarker::Skipped;
    }
    // A refused marker is given up by Kafka's coordinator, and the transaction stays `Prepare` until it moves.
    if partition.log.append_marker(marker, partition.leader_epoch, now_ms()).is_err() {
        return false;
    }
    end_offsets(cluster, at, marker);
    true
}

/// A marker on `__consumer_offsets` decides the offsets that the transaction carried.
pub(crate) fn end_offsets(cluster: &mut Cluster, at: &TopicPartition, marker: &Marker) {
    if &*at.topic != OFFSETS_TOPIC {
        return;
    }
    let count = cluster.topics.named(OFFSETS_TOPIC).map_or(1, |t| t.partitions.len());
    let count = i32::try_from(count).unwrap_or(1);
    let commit = marker.outcome == Outcome::Commit;
    cluster.groups.end_transaction(marker.producer_id, commit, |g| partition_for(g, count) == at.partition);
}

/// Aborts transactions whose timeout has passed, every sweep interval, until the broker stops.
pub(crate) async fn sweep_forever(shared: Arc<Shared>) {
    loop {
        tokio::time::sleep(shared.config.sweep_interval).await;
        sweep(&shared);
    }
}

/// One sweep.
pub(crate) fn sweep(shared: &Arc<Shared>) {
    let fenced = {
        let mut cluster = shared.cluster();
        let now = now_ms();
        let due: Vec<String> = cluster
            .transactions
            .entries()
            .filter(|(id, entry)| entry.has_timed_out(now) && cluster.transaction_coordinator(id).is_some())
            .map(|(id, _)| id.to_owned())
            .collect();
        cluster.transactions.sweep(now, |id| due.iter().any(|d| d == id))
    };
    fenced.iter().for_each(|id| send(shared, id));
}

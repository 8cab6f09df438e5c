//! Writing a prepared transaction's markers, and aborting transactions that timed out.
//!
//! EndTxn is answered once the `Prepare` state is entered; the markers follow. So success proves the decision, and
//! readers see the records a moment later.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::clock::millis;
use super::cluster::{Cluster, OFFSETS_TOPIC};
use super::coordinator::partition_for;
use super::coordinator::transit::Appended;
use super::log::marker::{Marker, Outcome};
use super::profile::Quirk;
use super::shared::Shared;
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
        let skips = shared.config.profile.has(Quirk::LeaderlessMarkerSkipped);
        let leaderless = if skips { Leaderless::Skipped } else { Leaderless::Awaited };
        let progress = write_outstanding(&mut shared.cluster(), id, leaderless);
        match progress {
            Progress::Done => return shared.announce(),
            Progress::Some => shared.announce(),
            // Some partition, or the coordinator itself, has no leader, or the coordinator has given up: look again when
            // something changed.
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

/// What a coordinator does with the marker of a partition that has no leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leaderless {
    Skipped,
    Awaited,
}

/// What became of one marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    /// The coordinator has nothing more to do for this partition.
    Done,
    Not,
    /// The partition knows a newer epoch.
    Refused,
}

/// Writes what can be written now, and completes the transaction when nothing is left.
fn write_outstanding(cluster: &mut Cluster, id: &str, leaderless: Leaderless) -> Progress {
    let Some((node, coordinator_epoch)) = cluster.transaction_coordinator(id) else {
        return Progress::None;
    };
    if cluster.is_frozen(node) {
        return Progress::None;
    }
    let Some(entry) = cluster.transactions.entry(id) else {
        return Progress::Done;
    };
    if entry.given_up {
        return Progress::None;
    }
    let (Some(marker), partitions) = (entry.marker(coordinator_epoch), entry.partitions.clone()) else {
        return Progress::Done;
    };
    let mut outstanding = partitions.clone();
    let mut refused = false;
    outstanding.retain(|partition| {
        let written = write(cluster, partition, &marker, leaderless);
        refused |= written == Written::Refused;
        written != Written::Done
    });
    let progress = if outstanding.is_empty() {
        Progress::Done
    } else if outstanding.len() < partitions.len() {
        Progress::Some
    } else {
        Progress::None
    };
    let now_ms = cluster.clock.now_ms();
    if let Some(entry) = cluster.transactions.entry_mut(id) {
        entry.partitions = outstanding;
        entry.given_up = refused;
        if progress == Progress::Done {
            entry.complete(now_ms);
        }
    }
    progress
}

fn write(cluster: &mut Cluster, at: &TopicPartition, marker: &Marker, leaderless: Leaderless) -> Written {
    let Some(partition) = cluster.partition(at) else {
        return Written::Done; // the topic was deleted
    };
    match partition.leader {
        None if leaderless == Leaderless::Skipped => return Written::Done,
        None => return Written::Not,
        Some(leader) if cluster.is_frozen(leader) => return Written::Not,
        Some(_) => {}
    }
    // A refused marker is given up by Kafka's coordinator, and the transaction stays `Prepare` until it moves.
    if cluster.mark(at, marker).is_err() {
        return Written::Refused;
    }
    end_offsets(cluster, at, marker);
    Written::Done
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

/// Forgets ids that are idle for too long, every expiration interval, until the broker stops.
pub(crate) async fn expire_forever(shared: Arc<Shared>) {
    loop {
        tokio::time::sleep(shared.config.expiration_interval).await;
        expire(&shared);
    }
}

/// One sweep.
pub(crate) fn sweep(shared: &Arc<Shared>) {
    let fenced = {
        let mut cluster = shared.cluster();
        let (now_ms, acting) = (cluster.clock.now_ms(), acting(&cluster));
        cluster.transactions.sweep(now_ms, |id| acting.contains(id))
    };
    fenced.into_iter().for_each(|fence| follow(shared, fence));
}

/// Sends the markers of an abort that the coordinator began by itself, once it is appended.
pub(crate) fn follow(shared: &Arc<Shared>, (id, append): (String, Appended)) {
    let task = Arc::clone(shared);
    shared.spawn(async move {
        if task.appended(&id, append).await.is_ok() {
            run(&task, &id).await;
        }
    });
}

/// One search for expired ids.
pub(crate) fn expire(shared: &Shared) {
    let mut cluster = shared.cluster();
    let (now_ms, acting) = (cluster.clock.now_ms(), acting(&cluster));
    let after = millis(shared.config.transactional_id_expiration);
    cluster.transactions.expire_idle(after, now_ms, |id| acting.contains(id));
}

/// The ids whose coordinators can act now.
fn acting(cluster: &Cluster) -> BTreeSet<String> {
    let acts =
        |id: &str| cluster.transaction_coordinator(id).is_some_and(|(node, _)| !cluster.is_frozen(node));
    cluster.transactions.entries().filter(|(id, _)| acts(id)).map(|(id, _)| id.to_owned()).collect()
}

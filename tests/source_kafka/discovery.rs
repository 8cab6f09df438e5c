//! Partitions that are added while a job runs, or between two runs.

use std::time::Duration;

use kafka_2pc::{
    broker::{Api, BrokerConfig, Reaction},
    source::{Source, SourceReader, StartFrom, Subtask},
};

use crate::{
    commit, is_silent,
    kit::{Bench, TOPIC, numbered, within},
    offsets, opened, place, some, source,
};

const SOON: Duration = Duration::from_millis(20);

/// What subtasks that run side by side read, until it is so much of all of them.
async fn side_by_side(readers: &mut [Box<dyn SourceReader>], count: usize) -> Vec<Vec<String>> {
    let mut seen = vec![Vec::new(); readers.len()];
    within(async {
        while seen.iter().map(Vec::len).sum::<usize>() < count {
            for (reader, seen) in readers.iter_mut().zip(&mut seen) {
                if let Ok(records) = tokio::time::timeout(SOON, reader.next()).await {
                    seen.extend(records.unwrap().unwrap().iter().map(crate::text));
                }
            }
        }
    })
    .await;
    seen
}

#[tokio::test]
async fn new_partitions_are_read_from_their_beginning_by_exactly_one_subtask() {
    let b = Bench::with(BrokerConfig::default()).await;
    commit(&b.client, "a", &place(TOPIC, 0), &numbered("a", 2)).await;
    let source = source(&b.client, &[TOPIC]).start(StartFrom::Latest).discovery_interval(SOON);
    let mut readers = Vec::new();
    for index in 0..3 {
        readers.push(within(source.open(Subtask::new(index, 3), &[])).await.unwrap());
    }
    let mut wanted = Vec::new();
    for more in [3, 7] {
        b.broker.add_partitions(TOPIC, more);
        for partition in 0..more {
            let values = numbered(&format!("{more}/{partition}/"), 3);
            commit(&b.client, "a", &place(TOPIC, partition), &values).await;
            wanted.extend(values);
        }
    }
    let seen = side_by_side(&mut readers, wanted.len()).await;
    assert!(seen.iter().all(|of_one| !of_one.is_empty()), "{seen:?}");
    assert_eq!(crate::sorted(seen.concat()), crate::sorted(wanted));
    let places: Vec<_> = readers.iter().flat_map(|r| offsets(r.as_ref()).into_keys()).collect();
    assert_eq!(places.len(), 7);
}

#[tokio::test]
async fn partitions_that_came_between_two_runs_are_read_from_their_beginning() {
    let b = Bench::with(BrokerConfig::default()).await;
    let latest = source(&b.client, &[TOPIC]).start(StartFrom::Latest).discovery_interval(Duration::ZERO);
    let kept = opened(&latest, &[]).await.snapshot();
    b.broker.add_partitions(TOPIC, 3);
    commit(&b.client, "a", &place(TOPIC, 2), &numbered("new", 3)).await;
    let mut reader = opened(&latest, &kept).await;
    assert_eq!(some(reader.as_mut(), 3).await, numbered("new", 3));
    assert_eq!(reader.snapshot().len(), 3);
}

#[tokio::test]
async fn without_an_interval_nothing_is_discovered() {
    let b = Bench::with(BrokerConfig::default()).await;
    let mut reader = opened(&source(&b.client, &[TOPIC]).discovery_interval(Duration::ZERO), &[]).await;
    b.broker.add_partitions(TOPIC, 3);
    commit(&b.client, "a", &place(TOPIC, 2), &numbered("new", 3)).await;
    assert!(is_silent(reader.as_mut()).await);
    assert_eq!(reader.snapshot().len(), 2);
}

#[tokio::test]
async fn a_discovery_that_fails_or_is_given_up_is_done_again() {
    let b = Bench::with(BrokerConfig::default()).await;
    let source = source(&b.client, &[TOPIC]).discovery_interval(SOON);
    let mut reader = opened(&source, &[]).await;
    b.broker.add_partitions(TOPIC, 3);
    commit(&b.client, "a", &place(TOPIC, 2), &numbered("new", 3)).await;
    // TOPIC_AUTHORIZATION_FAILED
    b.fault(Api::ListOffsets, Reaction::ErrorCode(29));
    let mut seen = Vec::new();
    for patience in (0..10_000).map(|n| Duration::from_micros(n * 37 % 2000)) {
        if let Ok(records) = tokio::time::timeout(patience, reader.next()).await {
            seen.extend(records.unwrap().unwrap().iter().map(crate::text));
            break;
        }
    }
    assert_eq!(seen, numbered("new", 3));
}

//! Every record once, wherever a job stops, and however many subtasks it goes on with.

use std::time::Duration;

use kafka_2pc::{
    broker::{BrokerConfig, Profile},
    source::{KafkaSource, Source, SplitState, Subtask},
};

use crate::{
    commit, is_silent,
    kit::{Bench, TOPIC, numbered, within},
    mixed, opened, place, read, some, sorted, source,
};

#[tokio::test]
async fn a_restore_at_every_batch_boundary_gives_every_record_once() {
    for profile in Profile::all() {
        let b = Bench::new(profile).await;
        let mut committed = mixed(&b.client, &place(TOPIC, 0), 5, 8).await;
        committed.extend(mixed(&b.client, &place(TOPIC, 1), 3, 8).await);
        let source = source(&b.client, &[TOPIC]).until_end();
        for stop in 0.. {
            let mut reader = opened(&source, &[]).await;
            let before = read(reader.as_mut(), stop).await;
            let mut again = opened(&source, &reader.snapshot()).await;
            let after = read(again.as_mut(), usize::MAX).await;
            let whole = [before.as_slice(), &after].concat();
            for partition in ["t-0", "t-1"] {
                let of = |values: &[String]| -> Vec<_> {
                    values.iter().filter(|v| v.starts_with(partition)).cloned().collect()
                };
                assert_eq!(of(&whole), of(&committed), "{partition} after {stop} batches");
            }
            if after.is_empty() {
                assert!(stop > 5, "there are several batches: {stop}");
                break;
            }
        }
    }
}

/// One run: every subtask reads some batches, and a checkpoint is taken.
async fn run(
    source: &KafkaSource,
    total: u32,
    batches: usize,
    kept: &mut Vec<SplitState>,
    seen: &mut Vec<String>,
) {
    let mut states = Vec::new();
    for subtask in (0..total).map(|index| Subtask::new(index, total)) {
        let mut reader = within(source.open(subtask, kept)).await.unwrap();
        seen.extend(read(reader.as_mut(), batches).await);
        states.extend(reader.snapshot());
    }
    *kept = states;
}

#[tokio::test]
async fn a_job_is_rescaled_and_every_record_comes_once() {
    let b = Bench::with(BrokerConfig { nodes: 2, ..BrokerConfig::default() }).await;
    b.broker.create_topic("other", 5).unwrap();
    let mut committed = Vec::new();
    for (topic, partitions) in [(TOPIC, 2), ("other", 5)] {
        for partition in 0..partitions {
            committed.extend(mixed(&b.client, &place(topic, partition), 3, 6).await);
        }
    }
    let source = source(&b.client, &[TOPIC, "other"]).until_end();
    for (before, after) in (1..=4).flat_map(|a| (1..=4).map(move |b| (a, b))) {
        let (mut kept, mut seen) = (Vec::new(), Vec::new());
        run(&source, before, 2, &mut kept, &mut seen).await;
        assert_eq!(kept.len(), 7, "every partition has one owner");
        run(&source, after, usize::MAX, &mut kept, &mut seen).await;
        assert_eq!(sorted(seen), sorted(committed.clone()), "from {before} to {after}");
        assert_eq!(kept.len(), 7);
    }
}

#[tokio::test]
async fn subtasks_without_a_partition_end_or_wait_as_the_others_do() {
    let b = Bench::with(BrokerConfig::default()).await;
    commit(&b.client, "w", &place(TOPIC, 0), &numbered("a", 3)).await;
    let mut silent = 0;
    for subtask in (0..4).map(|index| Subtask::new(index, 4)) {
        let bounded = source(&b.client, &[TOPIC]).until_end();
        let mut reader = within(bounded.open(subtask, &[])).await.unwrap();
        read(reader.as_mut(), usize::MAX).await;
        assert_eq!(within(reader.next()).await.unwrap(), None, "from then on");
        let endless = source(&b.client, &[TOPIC]).discovery_interval(Duration::ZERO);
        let mut reader = within(endless.open(subtask, &[])).await.unwrap();
        silent += u32::from(is_silent(reader.as_mut()).await);
    }
    assert_eq!(silent, 3);
}

#[tokio::test]
async fn a_wait_that_is_given_up_anywhere_loses_nothing() {
    let b = Bench::with(BrokerConfig { nodes: 2, ..BrokerConfig::default() }).await;
    let mut committed = Vec::new();
    for partition in 0..2 {
        committed.extend(mixed(&b.client, &place(TOPIC, partition), 6, 20).await);
    }
    let source = source(&b.client, &[TOPIC]).until_end();
    for seed in 0..8u64 {
        let mut reader = opened(&source, &[]).await;
        let mut seen = Vec::new();
        for n in seed.. {
            let patience = Duration::from_micros(n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 1500);
            match tokio::time::timeout(patience, reader.next()).await.map(Result::unwrap) {
                Err(_) if n % 7 == 0 => reader = opened(&source, &reader.snapshot()).await,
                Err(_) => {}
                Ok(None) => break,
                Ok(Some(records)) => seen.extend(records.iter().map(crate::text)),
            }
        }
        assert_eq!(sorted(seen), sorted(committed.clone()), "seed {seed}");
    }
}

#[tokio::test]
async fn what_comes_later_is_read_on_and_on() {
    let b = Bench::with(BrokerConfig::default()).await;
    let mut kept = Vec::new();
    for round in 0..4 {
        let values = numbered(&format!("{round}/"), 3);
        let mut reader = opened(&source(&b.client, &[TOPIC]), &kept).await;
        commit(&b.client, "w", &place(TOPIC, 0), &values).await;
        assert_eq!(some(reader.as_mut(), 3).await, values);
        assert!(is_silent(reader.as_mut()).await);
        kept = reader.snapshot();
    }
}

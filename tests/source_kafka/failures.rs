//! Offsets that are gone, brokers that answer with errors, move, and are away.

use kafka_2pc::{
    broker::{Api, BrokerConfig, Reaction},
    client::{ConsumerError, OutOfRangePolicy},
    source::{SourceError, StartFrom},
};

use crate::{
    commit,
    kit::{Bench, TOPIC, both, numbered, within},
    mixed, offsets, opened, place, read, some, sorted, source,
};

#[tokio::test]
async fn an_offset_that_retention_removed_is_named_or_passed_over() {
    let b = Bench::with(BrokerConfig::default()).await;
    let here = place(TOPIC, 0);
    commit(&b.client, "a", &here, &numbered("a", 20)).await;
    let plain = source(&b.client, &[TOPIC]);
    let mut reader = opened(&plain, &[]).await;
    let first = read(reader.as_mut(), 1).await.len();
    let kept = reader.snapshot();
    commit(&b.client, "a", &here, &numbered("b", 3)).await;
    b.broker.delete_records(&here, 21).unwrap();

    let mut fails = opened(&plain, &kept).await;
    for _ in 0..2 {
        let error = within(fails.next()).await.unwrap_err();
        let SourceError::Consumer(ConsumerError::OutOfRange { partition, wanted, available }) = &error else {
            panic!("{error}")
        };
        assert_eq!((partition, *wanted, available), (&here, i64::try_from(first).unwrap(), &(21..25)));
        assert_eq!(fails.snapshot(), kept, "the position stays");
    }

    let mut earliest = opened(&plain.clone().out_of_range(OutOfRangePolicy::Earliest), &kept).await;
    assert_eq!(some(earliest.as_mut(), 3).await, numbered("b", 3));

    let mut latest = opened(&plain.clone().out_of_range(OutOfRangePolicy::Latest), &kept).await;
    assert!(crate::is_silent(latest.as_mut()).await);
    assert_eq!(offsets(latest.as_ref())[&here], 25);
    commit(&b.client, "a", &here, &numbered("c", 3)).await;
    assert_eq!(some(latest.as_mut(), 3).await, numbered("c", 3));
}

#[tokio::test]
async fn an_offset_behind_a_truncated_log_is_named() {
    let b = Bench::with(BrokerConfig::default()).await;
    let here = place(TOPIC, 0);
    commit(&b.client, "a", &here, &numbered("a", 2)).await;
    let beyond = StartFrom::Offsets([(here.clone(), 100), (place(TOPIC, 1), 0)].into());
    let mut reader = opened(&source(&b.client, &[TOPIC]).start(beyond), &[]).await;
    let error = within(reader.next()).await.unwrap_err();
    assert!(
        matches!(&error, SourceError::Consumer(ConsumerError::OutOfRange { wanted: 100, available, .. }) if *available == (0..3)),
        "{error}"
    );
}

#[tokio::test]
async fn a_bounded_source_ends_where_everything_before_its_end_is_gone() {
    let b = Bench::with(BrokerConfig::default()).await;
    let here = place(TOPIC, 0);
    commit(&b.client, "a", &here, &numbered("a", 5)).await;
    let bounded = source(&b.client, &[TOPIC]).until_end().out_of_range(OutOfRangePolicy::Earliest);
    let kept = opened(&bounded, &[]).await.snapshot();
    commit(&b.client, "a", &here, &numbered("b", 5)).await;
    b.broker.delete_records(&here, 8).unwrap();
    let mut reader = opened(&bounded, &kept).await;
    assert_eq!(within(reader.next()).await.unwrap(), None);
    assert_eq!(offsets(reader.as_ref())[&here], 6);
}

#[tokio::test]
async fn lost_answers_and_busy_leaders_are_asked_again() {
    let b = Bench::with(BrokerConfig::default()).await;
    let committed = mixed(&b.client, &place(TOPIC, 0), 3, 5).await;
    let source = source(&b.client, &[TOPIC]).until_end();
    for api in [Api::Metadata, Api::ListOffsets, Api::Fetch, Api::ApiVersions] {
        // NOT_LEADER_OR_FOLLOWER, REQUEST_TIMED_OUT, KAFKA_STORAGE_ERROR
        for reaction in [Reaction::Drop, Reaction::ApplyThenDrop]
            .into_iter()
            .chain([6, 7, 56].map(Reaction::ErrorCode))
            .filter(|r| !matches!((api, r), (Api::Metadata | Api::ApiVersions, Reaction::ErrorCode(_))))
        {
            b.fault(api, reaction);
            let mut reader = opened(&source, &[]).await;
            b.fault(api, reaction);
            assert_eq!(read(reader.as_mut(), usize::MAX).await, committed, "{api:?} {reaction:?}");
            b.broker.clear_faults();
        }
    }
}

#[tokio::test]
async fn reading_goes_on_while_leaders_move_and_nodes_restart() {
    for profile in both() {
        let b = Bench::with(BrokerConfig { nodes: 3, profile, ..BrokerConfig::default() }).await;
        let mut reader = opened(&source(&b.client, &[TOPIC]), &[]).await;
        let (mut seen, mut wanted) = (Vec::new(), Vec::new());
        for node in 1..=3 {
            b.broker.stop_node(node).await.unwrap();
            for partition in 0..2 {
                let values = numbered(&format!("{node}/{partition}/"), 4);
                commit(&b.client, &format!("w{partition}"), &place(TOPIC, partition), &values).await;
                wanted.extend(values);
            }
            b.broker.start_node(node).await.unwrap();
            seen.extend(some(reader.as_mut(), wanted.len() - seen.len()).await);
            reader = opened(&source(&b.client, &[TOPIC]), &reader.snapshot()).await;
        }
        assert_eq!(sorted(seen), sorted(wanted));
    }
}

#[tokio::test]
async fn a_broker_that_is_away_is_waited_for() {
    let b = Bench::with(BrokerConfig::default()).await;
    commit(&b.client, "a", &place(TOPIC, 0), &numbered("a", 3)).await;
    let mut reader = opened(&source(&b.client, &[TOPIC]), &[]).await;
    b.broker.stop_node(1).await.unwrap();
    assert!(crate::is_silent(reader.as_mut()).await);
    b.broker.start_node(1).await.unwrap();
    assert_eq!(some(reader.as_mut(), 3).await, numbered("a", 3));
}

#[tokio::test]
async fn a_small_partition_does_not_wait_for_the_end_of_a_large_one() {
    let b = Bench::with(BrokerConfig::default()).await;
    let large = numbered("large", 400);
    commit(&b.client, "a", &place(TOPIC, 0), &large).await;
    commit(&b.client, "a", &place(TOPIC, 1), &numbered("small", 2)).await;
    let source = source(&b.client, &[TOPIC]).until_end().max_partition_bytes(500).max_bytes(1000);
    let mut reader = opened(&source, &[]).await;
    let seen = read(reader.as_mut(), usize::MAX).await;
    assert_eq!(seen.len(), 402);
    let at = seen.iter().position(|value| value == "small1").unwrap();
    assert!(at < 100, "{at} of the large one come before");
}

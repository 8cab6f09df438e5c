//! What some releases do and others do not: each quirk as raw requests see it, and that our client survives it.
#![cfg(feature = "broker")]
#![expect(clippy::unwrap_used, reason = "tests and what they share")]

mod kit;
mod raw;

use kafka_2pc::broker::{Broker, BrokerConfig, Network, Profile, Quirk};
use kafka_2pc::proto::resume::Outcome;
use kit::{Bench, within};
use raw::{Cluster, Pair, batch, unique};

/// A broker in memory, with the quirk or without.
async fn broker(profile: Profile, nodes: usize) -> (Broker, Cluster) {
    let config = BrokerConfig { profile, nodes, network: Network::Memory, ..BrokerConfig::default() };
    let broker = Broker::start(config).await.unwrap();
    broker.create_topic("t", 2).unwrap();
    let cluster = Cluster::in_memory(&broker);
    (broker, cluster)
}

/// Kafka 4.4 without the quirk, then with it.
fn without_and_with(quirk: Quirk) -> [(bool, Profile); 2] {
    let plain = Profile::kafka_4_4().without(quirk);
    [(false, plain.clone()), (true, plain.with(quirk))]
}

/// An open transaction V2 of one record.
async fn open(c: &Cluster) -> (String, Pair) {
    let txn = unique("txn");
    let pair = c.init(&txn, None).await.unwrap();
    assert_eq!(c.produce(12, &txn, ("t", 0), batch(pair, 0, 1)).await, Ok(0));
    (txn, pair)
}

#[test]
fn every_quirk_has_a_name() {
    for quirk in Quirk::ALL {
        assert_eq!(Quirk::named(quirk.name()), Some(quirk));
    }
    assert!(Profile::kafka_4_4().has(Quirk::LeaderlessMarkerSkipped));
    assert!(!Profile::kafka_3_9().has(Quirk::LeaderlessMarkerSkipped));
}

#[tokio::test(start_paused = true)]
async fn kafka_20734_skips_the_marker_of_a_partition_without_leader() {
    for (quirk, profile) in without_and_with(Quirk::LeaderlessMarkerSkipped) {
        let (broker, c) = broker(profile, 3).await;
        let (txn, pair) = open(&c).await;
        let at = kafka_2pc::ids::TopicPartition::new("t", 0);
        broker.take_leader(&at).unwrap();
        assert_eq!(c.end(5, &txn, pair, true).await.0, 0);
        tokio::time::sleep(std::time::Duration::from_secs(60)).await;
        let state = if quirk { "CompleteCommit" } else { "PrepareCommit" };
        assert_eq!(&*c.describe(&txn).await.transaction_state, state);
        broker.move_leader(&at, 1).unwrap();
        c.settled_as(&txn, "CompleteCommit").await;
        let stable = c.fetch("t", 0, 0, 1).await.responses[0].partitions[0].last_stable_offset;
        assert_eq!(stable, if quirk { 0 } else { 2 });
    }
}

#[tokio::test(start_paused = true)]
async fn kafka_19367_a_fence_costs_three_epochs() {
    for (quirk, profile) in without_and_with(Quirk::FenceRaisesTwice) {
        let (_broker, c) = broker(profile, 1).await;
        let (txn, pair) = open(&c).await;
        let raised = i16::from(quirk);
        assert_eq!(c.init(&txn, None).await, Ok((pair.0, pair.1 + 2 + raised)));
        let (txn, pair) = open_at(&c, 2).await;
        assert_eq!(c.try_init(&txn, None).await, Err(51));
        assert_eq!(c.settled(&txn).await.producer_epoch, pair.1 + 1 + raised);
        // e+2 is no retry of e.
        assert_eq!(c.end(5, &txn, pair, true).await.0, if quirk { 90 } else { 48 });
    }
}

/// As [`open`], at an offset.
async fn open_at(c: &Cluster, offset: i64) -> (String, Pair) {
    let txn = unique("txn");
    let pair = c.init(&txn, None).await.unwrap();
    assert_eq!(c.produce(12, &txn, ("t", 0), batch(pair, 0, 1)).await, Ok(offset));
    (txn, pair)
}

#[tokio::test(start_paused = true)]
async fn before_kafka_19690_a_fenced_batch_is_an_invalid_state() {
    for (quirk, profile) in without_and_with(Quirk::FencedBatchIsInvalidState) {
        let (_broker, c) = broker(profile, 1).await;
        let (txn, pair) = open(&c).await;
        c.init(&txn, None).await.unwrap();
        for version in [11, 12] {
            let late = c.produce(version, &txn, ("t", 0), batch(pair, 1, 1)).await;
            assert_eq!(late, Err(if quirk { 48 } else { 47 }), "Produce {version}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn before_kafka_19999_a_failover_between_markers_never_ends() {
    for (quirk, profile) in without_and_with(Quirk::RepeatedMarkerRefused) {
        let (broker, c) = broker(profile.without(Quirk::LeaderlessMarkerSkipped), 3).await;
        let (txn, pair) = open(&c).await;
        assert_eq!(c.produce(12, &txn, ("t", 1), batch(pair, 0, 1)).await, Ok(0));
        // One marker is written, the other one waits for its leader; then the coordinator moves.
        let waits = kafka_2pc::ids::TopicPartition::new("t", 1);
        broker.take_leader(&waits).unwrap();
        assert_eq!(c.end(5, &txn, pair, true).await.0, 0);
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        let coordinator = broker.transaction_coordinator(&txn).unwrap();
        broker.move_coordinator(&txn, coordinator % 3 + 1).unwrap();
        broker.move_leader(&waits, 2).unwrap();
        tokio::time::sleep(std::time::Duration::from_secs(3600)).await;
        let state = if quirk { "PrepareCommit" } else { "CompleteCommit" };
        assert_eq!(&*c.describe(&txn).await.transaction_state, state);
        assert_eq!(c.end(5, &txn, pair, true).await.0, if quirk { 51 } else { 0 });
    }
}

#[tokio::test(start_paused = true)]
async fn after_kafka_20785_a_timed_out_commit_is_fenced() {
    for (quirk, profile) in without_and_with(Quirk::AbortedIsFenced) {
        let (_broker, c) = broker(profile, 1).await;
        let (txn, pair) = open(&c).await;
        tokio::time::sleep(std::time::Duration::from_secs(80)).await;
        assert_eq!(&*c.describe(&txn).await.transaction_state, "CompleteAbort");
        assert_eq!(c.end(5, &txn, pair, true).await.0, if quirk { 90 } else { 48 });
        assert_eq!(c.end(5, &txn, pair, false).await.0, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_end_may_be_an_unknown_server_error_and_done() {
    for version in [4, 5] {
        let (_broker, c) = broker(Profile::kafka_4_4().with(Quirk::EndTxnUnknownServerError), 1).await;
        let (txn, pair) = open(&c).await;
        assert_eq!(c.end(version, &txn, pair, true).await.0, -1);
        assert_eq!(&*c.settled(&txn).await.transaction_state, "CompleteCommit");
        assert_eq!(c.end(version, &txn, pair, true).await.0, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn aborted_lists_may_be_unsorted_and_go_to_everybody() {
    let profile =
        Profile::kafka_4_4().with(Quirk::AbortedListUnsorted).with(Quirk::AbortedListForUncommitted);
    for (quirk, profile) in [(false, Profile::kafka_4_4()), (true, profile)] {
        let (_broker, c) = broker(profile, 1).await;
        for offset in [0, 2, 4] {
            let (txn, pair) = open_at(&c, offset).await;
            assert_eq!(c.end(5, &txn, pair, false).await.0, 0);
            c.settled(&txn).await;
        }
        let list = async |isolation| {
            let partition = c.fetch("t", 0, 0, isolation).await.responses[0].partitions[0].clone();
            let list = partition.aborted_transactions;
            list.map(|list| list.iter().map(|a| a.first_offset).collect::<Vec<_>>())
        };
        assert_eq!(list(1).await.unwrap(), if quirk { [4, 2, 0] } else { [0, 2, 4] });
        assert_eq!(list(0).await, quirk.then(|| vec![4, 2, 0]));
    }
}

#[tokio::test(start_paused = true)]
async fn in_kafka_3_a_stranger_learns_of_itself_before_it_learns_of_a_transition() {
    for (profile, code) in [(Profile::kafka_4_4_v1(), 51), (Profile::kafka_3_9(), 90)] {
        let (broker, c) = broker(profile, 1).await;
        let txn = unique("txn");
        let pair = c.init(&txn, None).await.unwrap();
        assert_eq!(c.add(&txn, pair, "t", 0).await, 0);
        broker.hold_markers();
        assert_eq!(c.end(4, &txn, pair, true).await.0, 0);
        assert_eq!(c.add(&txn, (pair.0, pair.1 + 1), "t", 0).await, code);
        assert_eq!(c.add(&txn, pair, "t", 0).await, 51);
    }
}

/// Our client on a broker with each of them: commits, aborts, takes over, resumes; and readers see what they should.
#[tokio::test(start_paused = true)]
async fn the_client_survives_every_quirk() {
    for quirk in Quirk::ALL {
        for profile in kit::both() {
            let b = Bench::in_memory(profile.with(quirk)).await;
            let mut transaction = b.open("x", &["a"]).await;
            b.write(&mut transaction, &["b"]).await;
            let producer = within(transaction.commit()).await.unwrap();
            let mut transaction = producer.begin();
            b.write(&mut transaction, &["lost"]).await;
            within(transaction.abort()).await.unwrap();
            let left = b.open("x", &["fenced"]).await;
            let committable = b.prepared("x", &["c", "d"]).await;
            drop(left);
            let other = kit::client_for(&b.broker);
            for client in [&other, &b.client] {
                let outcome = within(client.resume(committable.clone()).commit()).await.unwrap().outcome;
                let committed = matches!(outcome, Outcome::Committed | Outcome::AlreadyCommitted(_));
                assert!(committed, "{quirk}: {outcome:?}");
            }
            assert_eq!(b.committed().await, ["a", "b", "c", "d"], "{quirk}");
        }
    }
}

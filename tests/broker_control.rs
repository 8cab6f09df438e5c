//! The embedded broker's controls: nodes, faults, held markers, leaderless partitions.
#![cfg(feature = "broker")]
#![expect(clippy::unwrap_used, reason = "tests and what they share")]

mod raw;

use std::time::Duration;

use kafka_2pc::broker::{Api, Broker, BrokerConfig, Fault, Profile, Quirk, Reaction};
use kafka_2pc::ids::TopicPartition;
use kafka_protocol::messages as m;
use raw::{Cluster, Connection, batch, unique};

const CONCURRENT_TRANSACTIONS: i16 = 51;

async fn start(config: BrokerConfig) -> (Broker, Cluster) {
    let broker = Broker::start(config).await.unwrap();
    let cluster = Cluster::new(broker.bootstrap());
    (broker, cluster)
}

/// A transactional id that node `node` coordinates.
fn id_of(broker: &Broker, node: i32) -> String {
    std::iter::repeat_with(|| unique("txn"))
        .find(|t| broker.transaction_coordinator(t) == Some(node))
        .unwrap()
}

async fn state(cluster: &Cluster, txn: &str) -> String {
    cluster.describe(txn).await.transaction_state.to_string()
}

async fn last_stable_offset(cluster: &Cluster, topic: &str) -> i64 {
    cluster.fetch(topic, 0, 0, 1).await.responses[0].partitions[0].last_stable_offset
}

#[tokio::test]
async fn an_unknown_version_of_api_versions_gets_the_range_of_that_api() {
    let (_broker, cluster) = start(BrokerConfig::default()).await;
    let answer = cluster.any().await.exchange(&[0, 18, 0, 99, 0, 0, 0, 1, 0, 1, b'x', 0, 9]).await.unwrap();
    assert_eq!(answer[..], [0, 0, 0, 1, 0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 5]);
    let newest =
        [&[0, 18, 0, 5, 0, 0, 0, 1, 0, 1, b'x', 0][..], &[2, b'm', 2, b'1', 0, 255, 255, 255, 255, 0]];
    let answer = cluster.any().await.exchange(&newest.concat()).await.unwrap();
    assert_eq!(answer[4..6], [0, 0]);
}

#[tokio::test]
async fn hostile_and_unknown_requests_close_the_connection_only() {
    let (_broker, cluster) = start(BrokerConfig::default()).await;
    let hostile = [&[0, 3, 0, 1, 0, 0, 0, 1, 255, 255][..], &[127, 255, 255, 255]].concat();
    for frame in
        [hostile, vec![3, 232, 0, 0, 0, 0, 0, 1, 255, 255], vec![0, 0, 0, 2, 0, 0, 0, 1, 255, 255], vec![0]]
    {
        assert_eq!(cluster.any().await.exchange(&frame).await, None);
    }
    assert!(cluster.any().await.exchange(&[0, 18, 0, 0, 0, 0, 0, 1, 255, 255]).await.is_some());
}

#[tokio::test]
async fn held_markers_keep_the_transaction_preparing_and_take_late_batches() {
    for version in [4, 5] {
        let (broker, c) = start(BrokerConfig::default()).await;
        c.create_topic("t", 2).await;
        let txn = unique("txn");
        let pair = c.init(&txn, None).await.unwrap();
        for partition in [0, 1] {
            assert_eq!(c.add(&txn, pair, "t", partition).await, 0);
        }
        assert_eq!(c.produce(11, &txn, ("t", 0), batch(pair, 0, 1)).await, Ok(0));
        broker.hold_markers();
        assert_eq!(c.end(version, &txn, pair, true).await.0, 0);
        let held = c.describe(&txn).await;
        assert_eq!((&*held.transaction_state, held.topics[0].partitions.len()), ("PrepareCommit", 2));
        for other in [4, 5] {
            let refused = if other == 4 && version == 5 { 90 } else { CONCURRENT_TRANSACTIONS };
            assert_eq!(c.end(other, &txn, pair, true).await.0, refused);
        }
        assert_eq!(c.try_init(&txn, None).await, Err(CONCURRENT_TRANSACTIONS));
        assert_eq!(c.produce(11, &txn, ("t", 0), batch(pair, 1, 1)).await, Ok(1), "still part of it");
        assert_eq!(last_stable_offset(&c, "t").await, 0);
        broker.release_markers();
        assert_eq!(&*c.settled(&txn).await.transaction_state, "CompleteCommit");
        assert_eq!(last_stable_offset(&c, "t").await, 3);
    }
}

/// Three nodes; a transaction on a partition that only node 3 holds, coordinated by node 1.
async fn on_a_lonely_partition(profile: Profile) -> (Broker, Cluster, String, raw::Pair) {
    let (broker, c) = start(BrokerConfig { nodes: 3, profile, ..BrokerConfig::default() }).await;
    broker.create_topic_on("t", vec![vec![3]]).unwrap();
    let txn = id_of(&broker, 1);
    let pair = c.init(&txn, None).await.unwrap();
    assert_eq!(c.produce(12, &txn, ("t", 0), batch(pair, 0, 1)).await, Ok(0));
    broker.stop_node(3).await.unwrap();
    assert_eq!(broker.leader(&TopicPartition::new("t", 0)), None);
    assert_eq!(c.end(5, &txn, pair, true).await.0, 0);
    (broker, c, txn, (pair.0, pair.1 + 1))
}

#[tokio::test]
async fn a_marker_for_a_partition_without_leader_is_lost_and_can_be_repaired() {
    let (broker, c, txn, next) = on_a_lonely_partition(Profile::kafka_4_4()).await;
    assert_eq!(&*c.settled(&txn).await.transaction_state, "CompleteCommit");
    broker.start_node(3).await.unwrap();
    assert_eq!(last_stable_offset(&c, "t").await, 0);
    let open = &c.producers("t", 0).await[0];
    assert_eq!((open.producer_id.0, open.current_txn_start_offset), (next.0, 0));
    // The next transaction's abort closes both.
    let (marked, lost) = (next, c.produce(12, &txn, ("t", 0), batch(next, 0, 1)).await);
    assert_eq!(lost, Ok(1));
    assert_eq!(c.mark(("t", 0), marked, true).await, 0);
    assert_eq!(last_stable_offset(&c, "t").await, 3);
    assert_eq!(c.end(5, &txn, marked, false).await.0, 0);
    c.settled(&txn).await;
    assert!(c.producers("t", 0).await.iter().all(|p| p.current_txn_start_offset == -1));
}

#[tokio::test]
async fn the_abort_after_a_lost_commit_marker_aborts_both() {
    let (broker, c, txn, next) = on_a_lonely_partition(Profile::kafka_4_4()).await;
    c.settled(&txn).await;
    broker.start_node(3).await.unwrap();
    assert_eq!(c.produce(12, &txn, ("t", 0), batch(next, 0, 1)).await, Ok(1));
    assert_eq!(c.end(5, &txn, next, false).await.0, 0);
    c.settled(&txn).await;
    let aborted = c.fetch("t", 0, 0, 1).await.responses[0].partitions[0].aborted_transactions.clone();
    assert_eq!(aborted.unwrap().iter().map(|a| a.first_offset).collect::<Vec<_>>(), [0]);
}

#[tokio::test]
async fn other_kafkas_wait_for_the_leader() {
    let fixed = Profile::kafka_4_4().without(Quirk::LeaderlessMarkerSkipped);
    let (broker, c, txn, _) = on_a_lonely_partition(fixed).await;
    tokio::time::sleep(Duration::from_millis(30)).await;
    assert_eq!(state(&c, &txn).await, "PrepareCommit");
    broker.start_node(3).await.unwrap();
    assert_eq!(&*c.settled(&txn).await.transaction_state, "CompleteCommit");
    assert_eq!(last_stable_offset(&c, "t").await, 2);
}

#[tokio::test]
async fn a_stopped_node_hands_its_partitions_and_transactions_over() {
    let (broker, c) = start(BrokerConfig { nodes: 3, ..BrokerConfig::default() }).await;
    broker.create_topic("t", 3).unwrap();
    let txn = id_of(&broker, 1);
    let pair = c.init(&txn, None).await.unwrap();
    assert_eq!(c.produce(12, &txn, ("t", 0), batch(pair, 0, 1)).await, Ok(0));
    let mut cut = Connection::open(&broker.address(1).unwrap()).await;
    broker.stop_node(1).await.unwrap();
    assert_eq!(cut.exchange(&[0, 18, 0, 0, 0, 0, 0, 1, 255, 255]).await, None);
    assert_ne!(broker.leader(&TopicPartition::new("t", 0)), Some(1));
    assert_eq!(c.end(5, &txn, pair, true).await.0, 0);
    c.settled(&txn).await;
    assert_eq!(last_stable_offset(&c, "t").await, 2);
    assert_eq!(c.producers("t", 0).await[0].coordinator_epoch, 1);
    broker.start_node(1).await.unwrap();
    assert!(
        Connection::open(&broker.address(1).unwrap())
            .await
            .exchange(&[0, 18, 0, 0, 0, 0, 0, 1, 255, 255])
            .await
            .is_some()
    );
}

#[tokio::test]
async fn faults_answer_drop_apply_and_delay() {
    let (broker, c) = start(BrokerConfig::default()).await;
    broker.create_topic("t", 1).unwrap();
    let txn = unique("txn");
    let pair = c.init(&txn, None).await.unwrap();
    assert_eq!(c.produce(12, &txn, ("t", 0), batch(pair, 0, 1)).await, Ok(0));
    let request = m::EndTxnRequest::default()
        .with_transactional_id(raw::id(&txn))
        .with_producer_id(pair.0.into())
        .with_producer_epoch(pair.1)
        .with_committed(true);
    let end = async || c.coordinator(&txn).await.try_call(5, &request).await.map(|r| r.error_code);
    let fault = |reaction| Fault::on(Api::EndTxn, reaction);
    broker.inject(fault(Reaction::ErrorCode(16)));
    assert_eq!(end().await, Some(16));
    broker.inject(fault(Reaction::Drop));
    assert_eq!(end().await, None);
    assert_eq!(state(&c, &txn).await, "Ongoing");
    broker.inject(fault(Reaction::ApplyThenDrop));
    assert_eq!(end().await, None);
    assert_eq!(&*c.settled(&txn).await.transaction_state, "CompleteCommit");
    broker.inject(fault(Reaction::Delay(Duration::from_millis(30))));
    let patience = tokio::time::timeout(Duration::from_millis(5), end()).await;
    assert!(patience.is_err());
    assert_eq!(end().await, Some(0));
    assert_eq!(broker.requests(Api::EndTxn), 5);
    broker.inject(fault(Reaction::Drop));
    broker.clear_faults();
    assert_eq!(end().await, Some(0));
}

#[tokio::test]
async fn level_0_refuses_level_2_requests_and_is_stuck_until_the_coordinator_moves() {
    let config = BrokerConfig { nodes: 3, profile: Profile::kafka_4_4_v0(), ..BrokerConfig::default() };
    let (broker, c) = start(config).await;
    broker.create_topic("t", 1).unwrap();
    let txn = id_of(&broker, 2);
    let pair = c.init(&txn, None).await.unwrap();
    assert_eq!(c.add(&txn, pair, "t", 0).await, 0);
    assert_eq!(c.produce(11, &txn, ("t", 0), batch(pair, 0, 1)).await, Ok(0));
    assert_eq!(c.end(5, &txn, pair, true).await.0, 35);
    assert_eq!(c.end(4, &txn, pair, true).await.0, CONCURRENT_TRANSACTIONS);
    assert_eq!(c.try_init(&txn, None).await, Err(CONCURRENT_TRANSACTIONS));
    assert_eq!(state(&c, &txn).await, "Ongoing");
    broker.stop_node(2).await.unwrap();
    assert_eq!(c.end(4, &txn, pair, true).await.0, 0);
}

#[tokio::test]
async fn ids_expire_and_records_go_on_command() {
    let (broker, c) = start(BrokerConfig::default()).await;
    broker.create_topic("t", 1).unwrap();
    let txn = unique("txn");
    let pair = c.init(&txn, None).await.unwrap();
    assert_eq!(c.produce(12, &txn, ("t", 0), batch(pair, 0, 2)).await, Ok(0));
    assert!(!broker.expire_transactional_id(&txn));
    let at = TopicPartition::new("t", 0);
    broker.delete_records(&at, 1).unwrap();
    assert_eq!(c.fetch("t", 0, 0, 0).await.responses[0].partitions[0].error_code, 1);
    assert_eq!(c.end(5, &txn, pair, true).await.0, 0);
    c.settled(&txn).await;
    assert!(broker.expire_transactional_id(&txn));
    assert_eq!(c.describe(&txn).await.error_code, 105);
    assert_eq!(c.end(5, &txn, pair, true).await.0, 49);
    let (id, epoch) = c.init(&txn, Some(pair)).await.unwrap();
    assert!(id != pair.0 && epoch == 0);
}

#[tokio::test]
async fn a_stopped_broker_frees_its_ports_and_a_dropped_one_cuts_its_clients() {
    let (broker, c) = start(BrokerConfig::default()).await;
    let address = broker.bootstrap();
    let mut connection = c.any().await;
    broker.stop().await;
    assert_eq!(connection.exchange(&[0, 18, 0, 0, 0, 0, 0, 1, 255, 255]).await, None);
    let again = Broker::start(BrokerConfig { listen: address.clone(), ..BrokerConfig::default() }).await;
    assert_eq!(again.unwrap().bootstrap(), address);
    let (broker, c) = start(BrokerConfig::default()).await;
    let mut connection = c.any().await;
    drop(broker);
    assert_eq!(connection.exchange(&[0, 18, 0, 0, 0, 0, 0, 1, 255, 255]).await, None);
}

//! The embedded broker against what real Kafka 4.4 was measured to do.
//!
//! The same tests run against a real cluster: `KAFKA_2PC_BOOTSTRAP=host:port cargo test --features broker --test
//! broker_semantics` (any level of `transaction.version` from 1 on; what depends on it says so). `protocol-tests` does
//! that, with `broker_cells` beside it.
#![cfg(feature = "broker")]
#![expect(clippy::unwrap_used, reason = "tests and what they share")]

mod raw;

use std::time::Duration;

use bytes::Bytes;
use kafka_2pc::broker::{Broker, BrokerConfig, Profile};
use kafka_2pc::wire::batch::{Batches, ControlType};
use kafka_protocol::messages as m;
use raw::{Cluster, batch, unique};

const INVALID_PRODUCER_EPOCH: i16 = 47;
const INVALID_TXN_STATE: i16 = 48;
const CONCURRENT_TRANSACTIONS: i16 = 51;
const PRODUCER_FENCED: i16 = 90;
const TRANSACTION_ABORTABLE: i16 = 120;

/// The cluster to test, with one topic; a broker lives as long as the first value.
async fn cluster() -> (Option<Broker>, Cluster, String) {
    let name = unique("t");
    let (broker, cluster) = match std::env::var("KAFKA_2PC_BOOTSTRAP") {
        Ok(bootstrap) => (None, Cluster::new(bootstrap)),
        Err(_) => {
            let broker = Broker::start(BrokerConfig::default()).await.unwrap();
            let cluster = Cluster::new(broker.bootstrap());
            (Some(broker), cluster)
        }
    };
    cluster.create_topic(&name, 2).await;
    (broker, cluster, name)
}

/// The markers of a partition: producer epoch and what they say.
async fn markers(cluster: &Cluster, topic: &str) -> Vec<(i16, ControlType)> {
    let fetched = cluster.fetch(topic, 0, 0, 0).await;
    let records = fetched.responses[0].partitions[0].records.clone().unwrap_or_default();
    let batches = Batches::new(records).map(Result::unwrap);
    batches.filter_map(|b| Some((b.header().producer_epoch, b.control().ok()??.control_type))).collect()
}

#[tokio::test]
async fn v1_commits_with_its_own_epoch_and_may_be_repeated() {
    let (_broker, c, topic) = cluster().await;
    let txn = unique("txn");
    let pair = c.init(&txn, None).await.unwrap();
    assert_eq!(pair.1, 0);
    assert_eq!(c.describe(&txn).await.transaction_start_time_ms, -1);
    assert_eq!(c.produce(11, &txn, (&topic, 0), batch(pair, 0, 2)).await, Err(TRANSACTION_ABORTABLE));
    assert_eq!(c.produce(10, &txn, (&topic, 0), batch(pair, 0, 2)).await, Err(INVALID_TXN_STATE));
    assert_eq!(c.add(&txn, pair, &topic, 0).await, 0);
    let start = c.describe(&txn).await.transaction_start_time_ms;
    assert!(start > 0);
    assert_eq!(c.produce(11, &txn, (&topic, 0), batch(pair, 0, 2)).await, Ok(0));
    assert_eq!(c.produce(11, &txn, (&topic, 0), batch(pair, 0, 2)).await, Ok(0), "a duplicate");
    assert_eq!(c.end(4, &txn, pair, true).await, (0, (-1, -1)));
    let state = c.settled(&txn).await;
    assert_eq!(&*state.transaction_state, "CompleteCommit");
    assert_eq!((state.producer_epoch, state.transaction_start_time_ms), (0, start));
    assert_eq!(c.end(4, &txn, pair, true).await.0, 0);
    assert_eq!(c.end(4, &txn, pair, false).await.0, INVALID_TXN_STATE);
    assert_eq!(c.end(5, &txn, pair, true).await.0, INVALID_TXN_STATE);
    assert_eq!(c.produce(11, &txn, (&topic, 0), batch(pair, 2, 1)).await, Err(TRANSACTION_ABORTABLE));
    assert_eq!(markers(&c, &topic).await, [(0, ControlType::Commit)]);
}

#[tokio::test]
async fn v2_adds_by_itself_and_raises_the_epoch() {
    let (_broker, c, topic) = cluster().await;
    let txn = unique("txn");
    let (id, epoch) = c.init(&txn, None).await.unwrap();
    let pair = (id, epoch);
    assert_eq!(c.produce(12, &txn, (&topic, 0), batch(pair, 0, 2)).await, Ok(0));
    assert_eq!(c.end(5, &txn, pair, true).await, (0, (id, epoch + 1)));
    let state = c.settled(&txn).await;
    assert_eq!((&*state.transaction_state, state.producer_epoch), ("CompleteCommit", epoch + 1));
    assert_eq!(c.end(5, &txn, pair, true).await, (0, (id, epoch + 1)));
    assert_eq!(c.end(5, &txn, pair, false).await.0, INVALID_TXN_STATE);
    assert_eq!(c.end(4, &txn, pair, true).await.0, PRODUCER_FENCED);
    let late = c.produce(12, &txn, (&topic, 0), batch(pair, 2, 1)).await;
    assert_eq!(late, Err(INVALID_PRODUCER_EPOCH));
    let next = (id, epoch + 1);
    assert_eq!(c.produce(12, &txn, (&topic, 0), batch(next, 1, 1)).await, Err(45));
    assert_eq!(c.produce(12, &txn, (&topic, 0), batch(next, 0, 1)).await, Ok(3));
    assert_eq!(c.end(5, &txn, next, false).await, (0, (id, epoch + 2)));
    c.settled(&txn).await;
    assert_eq!(
        markers(&c, &topic).await,
        [(epoch + 1, ControlType::Commit), (epoch + 2, ControlType::Abort)]
    );
    let fetched = c.fetch(&topic, 0, 0, 1).await;
    let partition = &fetched.responses[0].partitions[0];
    assert_eq!((partition.high_watermark, partition.last_stable_offset), (5, 5));
    let aborted = partition.aborted_transactions.clone().unwrap();
    assert_eq!(aborted.iter().map(|a| (a.producer_id.0, a.first_offset)).collect::<Vec<_>>(), [(id, 3)]);
}

#[tokio::test]
async fn empty_transactions_end_as_measured() {
    let (_broker, c, topic) = cluster().await;
    let txn = unique("txn");
    let pair = c.init(&txn, None).await.unwrap();
    for version in [3, 4, 5] {
        assert_eq!(c.end(version, &txn, pair, true).await.0, INVALID_TXN_STATE);
    }
    assert_eq!(c.end(4, &txn, pair, false).await.0, INVALID_TXN_STATE);
    let (code, next) = c.end(5, &txn, pair, false).await;
    assert_eq!((code, next), (0, (pair.0, pair.1 + 1)));
    let state = c.settled(&txn).await;
    assert_eq!(&*state.transaction_state, "CompleteAbort");
    assert!(state.transaction_start_time_ms > 0);
    assert_eq!(c.add(&txn, next, &topic, 0).await, 0);
    assert_eq!(c.end(4, &txn, next, true).await.0, 0);
    c.settled(&txn).await;
    assert_eq!(markers(&c, &topic).await, [(next.1, ControlType::Commit)], "a marker without data");
}

#[tokio::test]
async fn a_second_owner_fences_the_first() {
    let (_broker, c, topic) = cluster().await;
    let txn = unique("txn");
    let first = c.init(&txn, None).await.unwrap();
    assert_eq!(c.produce(12, &txn, (&topic, 0), batch(first, 0, 1)).await, Ok(0));
    let start = c.describe(&txn).await.transaction_start_time_ms;
    assert_eq!(c.try_init(&txn, None).await, Err(CONCURRENT_TRANSACTIONS));
    let state = c.settled(&txn).await;
    assert_eq!(&*state.transaction_state, "CompleteAbort");
    assert_eq!((state.producer_epoch, state.transaction_start_time_ms), (first.1 + 1, start));
    assert_eq!(c.end(4, &txn, first, true).await.0, PRODUCER_FENCED);
    assert_eq!(c.end(5, &txn, first, true).await.0, INVALID_TXN_STATE);
    assert_eq!(c.init(&txn, None).await, Ok((first.0, first.1 + 2)));
    for version in [4, 5] {
        assert_eq!(c.end(version, &txn, first, true).await.0, PRODUCER_FENCED);
    }
    assert_eq!(c.try_init(&txn, Some(first)).await, Err(PRODUCER_FENCED));
    let late = c.produce(12, &txn, (&topic, 0), batch(first, 1, 1)).await;
    assert_eq!(late, Err(INVALID_PRODUCER_EPOCH));
    let late = c.produce(11, &txn, (&topic, 0), batch(first, 1, 1)).await;
    assert_eq!(late, Err(INVALID_PRODUCER_EPOCH));
    assert_eq!(markers(&c, &topic).await, [(first.1 + 1, ControlType::Abort)]);
}

#[tokio::test]
async fn an_init_that_names_its_pair_is_idempotent_once() {
    let (_broker, c, _) = cluster().await;
    let txn = unique("txn");
    let first = c.init(&txn, None).await.unwrap();
    let second = c.init(&txn, Some(first)).await.unwrap();
    assert_eq!(second, (first.0, first.1 + 1));
    assert_eq!(c.init(&txn, Some(first)).await, Ok(second));
    assert_eq!(c.init(&txn, None).await, Ok((first.0, first.1 + 2)));
    assert_eq!(c.init(&txn, Some(second)).await, Err(PRODUCER_FENCED));
}

#[tokio::test]
async fn on_v1_a_restart_at_sequence_0_of_the_same_epoch_is_taken_for_a_duplicate() {
    let (_broker, c, topic) = cluster().await;
    let txn = unique("txn");
    let pair = c.init(&txn, None).await.unwrap();
    for round in 0..2 {
        assert_eq!(c.add(&txn, pair, &topic, 0).await, 0);
        assert_eq!(c.produce(11, &txn, (&topic, 0), batch(pair, 0, 2)).await, Ok(0), "round {round}");
        assert_eq!(c.end(4, &txn, pair, true).await.0, 0);
        c.settled(&txn).await;
    }
    assert_eq!(markers(&c, &topic).await.len(), 2);
    assert_eq!(c.fetch(&topic, 0, 0, 0).await.responses[0].partitions[0].high_watermark, 4);
}

#[tokio::test]
async fn what_cannot_be_produced_is_refused_by_name() {
    let (_broker, c, topic) = cluster().await;
    let txn = unique("txn");
    let pair = c.init(&txn, None).await.unwrap();
    let send = async |records: Vec<u8>| c.produce(12, &txn, (&topic, 0), records.into()).await;
    let good = batch(pair, 0, 2).to_vec();
    let flipped = good.iter().enumerate().map(|(i, b)| if i == 80 { b ^ 1 } else { *b }).collect();
    assert_eq!(send(flipped).await, Err(2));
    assert_eq!(send([good.clone(), good.clone()].concat()).await, Err(87));
    assert_eq!(send(batch((pair.0, pair.1), 7, 1).to_vec()).await, Err(45));
    assert_eq!(send(batch((pair.0 + 1_000_000, 0), 0, 1).to_vec()).await, Err(49));
    assert_eq!(send(good).await, Ok(0));
}

#[tokio::test]
async fn more_partitions_than_a_request_may_create_are_refused_all_of_them() {
    const POLICY_VIOLATION: i16 = 44;
    let (_broker, c, _) = cluster().await;
    for counts in [&[10_001][..], &[i32::MAX], &[6_000, 6_000]] {
        let names: Vec<_> = counts.iter().map(|_| unique("many")).collect();
        let new = |(name, count): (&String, &i32)| {
            m::create_topics_request::CreatableTopic::default()
                .with_name(raw::topic(name))
                .with_num_partitions(*count)
                .with_replication_factor(1)
        };
        let topics = names.iter().zip(counts).map(new).collect();
        let request = m::CreateTopicsRequest::default().with_topics(topics).with_timeout_ms(10_000);
        let created = c.any().await.call(5, &request).await;
        let codes: Vec<_> = created.topics.iter().map(|topic| topic.error_code).collect();
        assert_eq!(codes, vec![POLICY_VIOLATION; counts.len()], "{counts:?}");
    }
}

#[tokio::test]
async fn offsets_beyond_the_log_are_out_of_range_and_tell_nothing() {
    let (_broker, c, topic) = cluster().await;
    let answer = c.fetch(&topic, 0, 5, 1).await;
    let partition = &answer.responses[0].partitions[0];
    assert_eq!(partition.error_code, 1);
    let offsets = (partition.high_watermark, partition.last_stable_offset, partition.log_start_offset);
    assert_eq!(offsets, (-1, -1, -1));
}

#[tokio::test]
async fn timed_out_transactions_are_swept_and_fenced() {
    if std::env::var("KAFKA_2PC_BOOTSTRAP").is_ok() {
        return; // the timeout of the raw client is a minute
    }
    for profile in [Profile::kafka_4_4(), Profile::kafka_4_4_v1(), Profile::kafka_4_4_v0()] {
        let sweep_interval = Duration::from_millis(20);
        let broker = Broker::start(BrokerConfig { profile, sweep_interval, ..BrokerConfig::default() }).await;
        let broker = broker.unwrap();
        let (c, topic, txn) = (Cluster::new(broker.bootstrap()), unique("t"), unique("txn"));
        c.create_topic(&topic, 1).await;
        let request = kafka_protocol::messages::InitProducerIdRequest::default()
            .with_transactional_id(Some(raw::id(&txn)))
            .with_transaction_timeout_ms(50);
        let answer = c.coordinator(&txn).await.call(4, &request).await;
        let pair = (answer.producer_id.0, answer.producer_epoch);
        assert_eq!(c.add(&txn, pair, &topic, 0).await, 0);
        assert_eq!(c.produce(11, &txn, (&topic, 0), batch(pair, 0, 1)).await, Ok(0));
        while &*c.describe(&txn).await.transaction_state != "CompleteAbort" {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(c.end(4, &txn, pair, true).await.0, PRODUCER_FENCED);
        assert_eq!(c.end(5, &txn, pair, true).await.0, INVALID_TXN_STATE);
        assert_eq!(markers(&c, &topic).await, [(pair.1 + 1, ControlType::Abort)]);
    }
}

/// A Produce of one batch to one partition, with all that can be wrong about it.
async fn odd_produce(c: &Cluster, txn: Option<&str>, acks: i16, to: (&str, i32), records: Bytes) -> i16 {
    let data =
        m::produce_request::PartitionProduceData::default().with_index(to.1).with_records(Some(records));
    let topics = m::produce_request::TopicProduceData::default()
        .with_name(raw::topic(to.0))
        .with_partition_data(vec![data]);
    let request = m::ProduceRequest::default()
        .with_transactional_id(txn.map(raw::id))
        .with_acks(acks)
        .with_timeout_ms(1000)
        .with_topic_data(vec![topics]);
    c.any().await.call(12, &request).await.responses[0].partition_responses[0].error_code
}

#[tokio::test]
async fn odd_produces_are_refused_by_name() {
    let (_broker, c, topic) = cluster().await;
    let txn = unique("txn");
    let pair = c.init(&txn, None).await.unwrap();
    assert_eq!(c.produce(12, &txn, (&topic, 0), batch(pair, 0, 1)).await, Ok(0));
    let good = || batch(pair, 1, 1);
    assert_eq!(odd_produce(&c, Some(&txn), 2, (&topic, 0), good()).await, 21);
    assert_eq!(odd_produce(&c, Some(&txn), -1, ("none-such", 0), good()).await, 3);
    assert_eq!(odd_produce(&c, Some(&txn), -1, (&topic, 9), good()).await, 3);
    assert_eq!(odd_produce(&c, None, -1, (&topic, 0), good()).await, 53);
    let late = raw::batch_at(pair, 1, 1, raw::now_ms() + 7_200_000);
    assert_eq!(odd_produce(&c, Some(&txn), -1, (&topic, 0), late).await, 32);
    let large = raw::batch_of(pair, 1, &vec![7; 1_048_600]);
    assert_eq!(odd_produce(&c, Some(&txn), -1, (&topic, 0), large).await, 10);
    assert_eq!(odd_produce(&c, Some(&txn), 1, (&topic, 0), good()).await, 0);
}

#[tokio::test]
async fn odd_coordinator_requests_are_refused_by_name() {
    let (_broker, c, topic) = cluster().await;
    let txn = unique("txn");
    let pair = c.init(&txn, None).await.unwrap();
    let init = async |timeout_ms: i32, id: i64, epoch: i16| {
        let request = m::InitProducerIdRequest::default()
            .with_transactional_id(Some(raw::id(&txn)))
            .with_transaction_timeout_ms(timeout_ms)
            .with_producer_id(id.into())
            .with_producer_epoch(epoch);
        c.coordinator(&txn).await.call(4, &request).await.error_code
    };
    assert_eq!(init(900_001, -1, -1).await, 50);
    assert_eq!(init(0, -1, -1).await, 50);
    assert_eq!(init(1000, pair.0, -1).await, 42);
    assert_eq!(init(1000, -1, 3).await, 42);
    assert_eq!(init(1000, pair.0 + 1_000_000, 0).await, PRODUCER_FENCED);
    assert_eq!(c.add(&txn, pair, &topic, 9).await, 3);
    assert_eq!(c.add(&txn, (pair.0, pair.1 + 1), &topic, 0).await, PRODUCER_FENCED);
    assert_eq!(c.add(&txn, (pair.0 + 1_000_000, 0), &topic, 0).await, 49);
    assert_eq!(c.end(5, &unique("none"), pair, true).await.0, 49);
    assert_eq!(c.describe(&unique("none")).await.error_code, 105);
    let bare =
        m::InitProducerIdRequest::default().with_transactional_id(None).with_transaction_timeout_ms(-5);
    assert_eq!(c.any().await.call(4, &bare).await.error_code, 0);
    let find =
        m::FindCoordinatorRequest::default().with_key_type(9).with_coordinator_keys(vec![raw::text("x")]);
    let found = c.any().await.call(4, &find).await;
    assert_eq!(found.coordinators.first().map(|f| f.error_code), Some(42));
}

#[tokio::test]
async fn listing_filters_as_kafka_does() {
    let (_broker, c, topic) = cluster().await;
    let (open, idle) = (unique("list-open"), unique("list-idle"));
    let pair = c.init(&open, None).await.unwrap();
    c.init(&idle, None).await.unwrap();
    assert_eq!(c.produce(12, &open, (&topic, 0), batch(pair, 0, 1)).await, Ok(0));
    let list = async |request: m::ListTransactionsRequest| {
        let answer = c.coordinator(&open).await.call(2, &request).await;
        let mine = |id: &str| [&open, &idle].into_iter().any(|known| known == id);
        let ids = answer.transaction_states.iter().map(|t| t.transactional_id.to_string());
        let mut ids: Vec<String> = ids.filter(|id| mine(id)).collect();
        ids.sort();
        (answer.error_code, ids, answer.unknown_state_filters.len())
    };
    let all = || m::ListTransactionsRequest::default().with_duration_filter(-1);
    let quoted = |id: &str| Some(raw::text(&format!("\\Q{id}\\E")));
    assert_eq!(list(all()).await, (0, vec![idle.clone(), open.clone()], 0));
    let ongoing = all().with_state_filters(vec![raw::text("Ongoing")]);
    assert_eq!(list(ongoing).await, (0, vec![open.clone()], 0));
    let unknown = all().with_state_filters(vec![raw::text("ongoing"), raw::text("Dead")]);
    assert_eq!(list(unknown).await, (0, vec![], 1));
    let producer = all().with_producer_id_filters(vec![pair.0.into()]);
    assert_eq!(list(producer).await, (0, vec![open.clone()], 0));
    let old = all().with_duration_filter(60_000);
    assert_eq!(list(old).await, (0, vec![idle.clone()], 0), "an empty id passes every duration");
    assert_eq!(list(all().with_transactional_id_pattern(quoted(&open))).await.1, std::slice::from_ref(&open));
    assert_eq!(list(all().with_transactional_id_pattern(quoted("list-"))).await.1, [] as [&str; 0]);
    assert_eq!(list(all().with_transactional_id_pattern(Some(raw::text("(")))).await.0, 128);
}

#[tokio::test]
async fn an_administrators_abort_is_not_told_to_the_coordinator() {
    let (_broker, c, topic) = cluster().await;
    let txn = unique("txn");
    let pair = c.init(&txn, None).await.unwrap();
    for partition in [0, 1] {
        assert_eq!(c.produce(12, &txn, (&topic, partition), batch(pair, 0, 1)).await, Ok(0));
    }
    assert_eq!(c.mark((&topic, 0), pair, false).await, 0);
    assert_eq!(&*c.describe(&txn).await.transaction_state, "Ongoing");
    assert_eq!(c.end(5, &txn, pair, true).await.0, 0);
    assert_eq!(&*c.settled(&txn).await.transaction_state, "CompleteCommit");
    assert_eq!(markers(&c, &topic).await, [(pair.1, ControlType::Abort), (pair.1 + 1, ControlType::Commit)]);
    assert_eq!(c.mark((&topic, 0), pair, true).await, INVALID_PRODUCER_EPOCH);
    assert_eq!(c.mark((&topic, 0), (pair.0, pair.1 + 1), true).await, 0, "once more does no harm");
}

#[tokio::test]
async fn a_deleted_topic_lets_the_commit_succeed() {
    let (_broker, c, topic) = cluster().await;
    let (txn, other) = (unique("txn"), unique("t"));
    c.create_topic(&other, 1).await;
    let pair = c.init(&txn, None).await.unwrap();
    for name in [&topic, &other] {
        assert_eq!(c.produce(12, &txn, (name, 0), batch(pair, 0, 1)).await, Ok(0));
    }
    let request =
        m::DeleteTopicsRequest::default().with_topic_names(vec![raw::topic(&other)]).with_timeout_ms(5000);
    assert_eq!(c.any().await.call(5, &request).await.responses[0].error_code, 0);
    assert_eq!(c.end(5, &txn, pair, true).await.0, 0);
    assert_eq!(&*c.settled(&txn).await.transaction_state, "CompleteCommit");
    assert_eq!(c.end(5, &txn, pair, true).await.0, 0);
    assert_eq!(markers(&c, &topic).await, [(pair.1 + 1, ControlType::Commit)]);
}

#[tokio::test]
async fn deleted_records_of_an_open_transaction_do_not_end_it() {
    let (_broker, c, topic) = cluster().await;
    let txn = unique("txn");
    let pair = c.init(&txn, None).await.unwrap();
    assert_eq!(c.produce(12, &txn, (&topic, 0), batch(pair, 0, 2)).await, Ok(0));
    assert_eq!(c.produce(12, &txn, (&topic, 0), batch(pair, 2, 1)).await, Ok(2));
    for (offset, stable) in [(1, 0), (2, 2)] {
        let partition = m::delete_records_request::DeleteRecordsPartition::default().with_offset(offset);
        let named = m::delete_records_request::DeleteRecordsTopic::default()
            .with_name(raw::topic(&topic))
            .with_partitions(vec![partition]);
        let request = m::DeleteRecordsRequest::default().with_topics(vec![named]).with_timeout_ms(5000);
        let answer = c.leader(&topic, 0).await.call(2, &request).await;
        assert_eq!(answer.topics[0].partitions[0].low_watermark, offset);
        let fetched = c.fetch(&topic, 0, offset, 1).await.responses[0].partitions[0].clone();
        assert_eq!((fetched.log_start_offset, fetched.last_stable_offset), (offset, stable));
    }
    assert_eq!(c.end(5, &txn, pair, true).await.0, 0);
    c.settled(&txn).await;
    let fetched = c.fetch(&topic, 0, 2, 1).await;
    assert_eq!(fetched.responses[0].partitions[0].last_stable_offset, 4);
}

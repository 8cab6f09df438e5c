//! Transactions of the client while brokers answer with errors, lose connections, move, and are away.
#![cfg(feature = "broker")]
#![expect(clippy::disallowed_methods, reason = "tests")]

mod kit;

use std::time::Duration;

use kafka_2pc::{
    broker::{Api, Broker, BrokerConfig, Fault, Profile, Reaction, TransactionVersion},
    client::{Client, ClientConfig, EndError, PrepareError, Prepared, SendError, Transaction},
    ids::TransactionalId,
    proto::cause::CauseKind,
    record::RecordRef,
};
use kit::{Bench, TOPIC, both, config_for, numbered, within};

const CUTS: [Reaction; 2] = [Reaction::Drop, Reaction::ApplyThenDrop];

/// Writes many small batches, so that several are under way at once.
async fn write_many(b: &Bench, transaction: &mut Transaction, values: &[String]) -> Result<(), SendError> {
    let topic = b.topic().await;
    for value in values {
        transaction.send(&topic, Some(0), RecordRef::value(value.as_bytes())).await?;
    }
    transaction.flush().await
}

#[tokio::test]
async fn a_cut_connection_at_every_request_loses_nothing_and_doubles_nothing() {
    let apis = [
        Api::ApiVersions,
        Api::Metadata,
        Api::FindCoordinator,
        Api::InitProducerId,
        Api::AddPartitionsToTxn,
        Api::Produce,
        Api::EndTxn,
    ];
    for profile in both() {
        for (api, reaction) in apis.iter().flat_map(|api| CUTS.map(|cut| (*api, cut))) {
            let b = Bench::new(profile.clone()).await;
            let mut producer = b.producer("a").batch_size(70).lazy();
            for round in ["a", "b"] {
                let mut transaction = producer.begin();
                b.fault(api, reaction);
                within(write_many(&b, &mut transaction, &numbered(round, 12))).await.unwrap();
                b.fault(api, reaction);
                producer = within(transaction.commit()).await.unwrap();
                b.broker.clear_faults();
            }
            let wanted: Vec<_> = ["a", "b"].iter().flat_map(|r| numbered(r, 12)).collect();
            assert_eq!(b.committed().await, wanted, "{} {api:?} {reaction:?}", profile.name);
        }
    }
}

#[tokio::test]
async fn answers_that_ask_for_a_retry_keep_order_bytes_and_sequence() {
    // NOT_LEADER_OR_FOLLOWER, REQUEST_TIMED_OUT, NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS_AFTER_APPEND, UNKNOWN_TOPIC
    // (a metadata gap), CORRUPT_MESSAGE, CONCURRENT_TRANSACTIONS, KAFKA_STORAGE_ERROR, COORDINATOR_LOAD_IN_PROGRESS.
    let codes = [6, 7, 19, 20, 3, 2, 51, 56, 14];
    for profile in both() {
        for (code, nth) in codes.iter().flat_map(|code| [1, 2, 4].map(|nth| (*code, nth))) {
            let b = Bench::new(profile.clone()).await;
            let mut transaction = b.producer("a").batch_size(70).init().await.unwrap().begin();
            b.broker.inject(Fault::on(Api::Produce, Reaction::ErrorCode(code)).nth(nth));
            within(write_many(&b, &mut transaction, &numbered("v", 20))).await.unwrap();
            transaction.commit().await.unwrap();
            assert_eq!(b.committed().await, numbered("v", 20), "{} code {code}, request {nth}", profile.name);
        }
    }
}

#[tokio::test]
async fn answers_that_end_the_transaction_fail_it_once_and_the_next_one_works() {
    // OUT_OF_ORDER, INVALID_PRODUCER_EPOCH, TRANSACTION_ABORTABLE, UNKNOWN_PRODUCER_ID, INVALID_TXN_STATE,
    // INVALID_RECORD, TOPIC_AUTHORIZATION_FAILED, MESSAGE_TOO_LARGE, UNKNOWN_SERVER_ERROR, a code of the future.
    for profile in both() {
        for code in [45, 47, 120, 59, 48, 87, 29, 10, -1, 9999] {
            let b = Bench::new(profile.clone()).await;
            let mut transaction = b.producer("a").init().await.unwrap().begin();
            b.write(&mut transaction, &["no"]).await;
            b.fault(Api::Produce, Reaction::ErrorCode(code));
            let inits = b.broker.requests(Api::InitProducerId);
            let Err(SendError::Failed(cause)) =
                within(write_many(&b, &mut transaction, &numbered("no", 3))).await
            else {
                panic!("{code} was ignored")
            };
            assert_eq!(b.broker.requests(Api::InitProducerId), inits, "no new identity inside a transaction");
            let producer = if code == 45 {
                assert_eq!(cause.kind, CauseKind::SequenceGap);
                let PrepareError { cause: again, .. } = within(transaction.prepare()).await.unwrap_err();
                assert_eq!(again, cause);
                b.producer("a").init().await.unwrap()
            } else {
                within(transaction.abort()).await.unwrap()
            };
            let mut next = producer.begin();
            b.write(&mut next, &["yes"]).await;
            next.commit().await.unwrap();
            assert_eq!(b.committed().await, ["yes"], "{} code {code}", profile.name);
        }
    }
}

#[tokio::test]
async fn a_record_that_is_never_acknowledged_poisons_the_transaction() {
    for profile in both() {
        let b = Bench::new(profile).await;
        let producer = b.producer("a").delivery_timeout(Duration::from_millis(100)).init().await.unwrap();
        for _ in 0..50 {
            b.fault(Api::Produce, Reaction::ErrorCode(19));
        }
        let mut transaction = producer.begin();
        let topic = b.topic().await;
        let delivery = transaction.send_tracked(&topic, Some(0), RecordRef::value(b"no")).await.unwrap();
        let e = within(transaction.prepare()).await.unwrap_err();
        assert_eq!(e.cause.kind, CauseKind::DeliveryTimeout);
        assert!(within(delivery.stored()).await.is_err());
        b.broker.clear_faults();
        b.open("a", &["yes"]).await.commit().await.unwrap();
        assert_eq!(b.committed().await, ["yes"]);
    }
}

#[tokio::test]
async fn adding_partitions_is_tried_again_or_fails_by_its_code() {
    for code in [15, 16, 14, 51, 3, 7, -1] {
        let b = Bench::new(Profile::kafka_4_4_v1()).await;
        let mut transaction = b.producer("a").init().await.unwrap().begin();
        b.fault(Api::AddPartitionsToTxn, Reaction::ErrorCode(code));
        within(write_many(&b, &mut transaction, &numbered("v", 3))).await.unwrap();
        transaction.commit().await.unwrap();
        assert_eq!(b.committed().await, numbered("v", 3), "code {code}");
    }
    for (code, kind) in [(29, CauseKind::Denied), (53, CauseKind::Denied), (48, CauseKind::InvalidState)] {
        let b = Bench::new(Profile::kafka_4_4_v1()).await;
        let mut transaction = b.producer("a").init().await.unwrap().begin();
        b.fault(Api::AddPartitionsToTxn, Reaction::ErrorCode(code));
        let Err(SendError::Failed(cause)) =
            within(write_many(&b, &mut transaction, &numbered("no", 3))).await
        else {
            panic!("{code} was ignored")
        };
        assert_eq!(cause.kind, kind);
        assert_eq!(b.broker.requests(Api::Produce), 0, "nothing is produced before the add");
        let mut next = within(transaction.abort()).await.unwrap().begin();
        b.write(&mut next, &["yes"]).await;
        next.commit().await.unwrap();
        assert_eq!(b.committed().await, ["yes"]);
    }
}

#[tokio::test]
async fn initializing_is_tried_again_or_fails_by_its_code() {
    for code in [15, 16, 14, 51, 7, 19, -1] {
        let b = Bench::new(Profile::kafka_4_4()).await;
        b.fault(Api::InitProducerId, Reaction::ErrorCode(code));
        within(b.producer("a").init()).await.unwrap();
    }
    let fatal =
        [(53, CauseKind::Denied), (31, CauseKind::Denied), (90, CauseKind::Fenced), (47, CauseKind::Fenced)];
    for (code, kind) in fatal {
        let b = Bench::new(Profile::kafka_4_4()).await;
        b.fault(Api::InitProducerId, Reaction::ErrorCode(code));
        assert_eq!(within(b.producer("a").init()).await.unwrap_err().kind, kind, "code {code}");
        within(b.producer("a").init()).await.unwrap();
    }
    let b = Bench::new(Profile::kafka_4_4()).await;
    let long = b.producer("a").transaction_timeout(Duration::from_secs(10_000));
    let cause = within(long.init()).await.unwrap_err();
    assert_eq!(cause.kind, CauseKind::TimeoutTooLarge);
    assert!(cause.detail.contains("10000000"), "{cause}");
}

#[tokio::test]
async fn the_end_of_a_transaction_is_asked_for_until_it_is_answered() {
    for profile in both() {
        for (code, commit) in [15, 16, 14, 51, -1, 7].into_iter().flat_map(|c| [(c, true), (c, false)]) {
            let b = Bench::new(profile.clone()).await;
            let transaction = b.open("a", &["1"]).await;
            b.fault(Api::EndTxn, Reaction::ErrorCode(code));
            b.fault(Api::EndTxn, Reaction::ErrorCode(code));
            let producer = if commit {
                within(transaction.commit()).await.unwrap()
            } else {
                within(transaction.abort()).await.unwrap()
            };
            let mut next = producer.begin();
            b.write(&mut next, &["2"]).await;
            next.commit().await.unwrap();
            let wanted: &[&str] = if commit { &["1", "2"] } else { &["2"] };
            assert_eq!(b.committed().await, wanted, "{} code {code}", profile.name);
        }
    }
}

#[tokio::test]
async fn leaders_and_coordinators_move_while_a_transaction_is_written() {
    for profile in both() {
        let b = Bench::with(BrokerConfig { nodes: 3, profile, ..BrokerConfig::default() }).await;
        let topic = b.topic().await;
        let mut producer = b.producer("a").batch_size(70).lazy();
        for round in 0..3 {
            let mut transaction = producer.begin();
            for (i, value) in numbered(&format!("{round}-"), 30).iter().enumerate() {
                transaction.send(&topic, Some(0), RecordRef::value(value.as_bytes())).await.unwrap();
                if i == 15 {
                    b.broker.stop_node(round + 1).await.unwrap();
                }
            }
            within(transaction.flush()).await.unwrap();
            b.broker.start_node(round + 1).await.unwrap();
            producer = within(transaction.commit()).await.unwrap();
        }
        let wanted: Vec<_> = (0..3).flat_map(|r| numbered(&format!("{r}-"), 30)).collect();
        assert_eq!(b.committed().await, wanted);
    }
}

#[tokio::test]
async fn all_brokers_down_and_back_is_survived_without_help() {
    for profile in both() {
        let b = Bench::new(profile).await;
        let mut transaction = b.open("a", &["1"]).await;
        b.broker.stop_node(1).await.unwrap();
        let topic = b.client.topic(TOPIC);
        assert!(tokio::time::timeout(Duration::from_millis(50), topic).await.is_err(), "nobody answers");
        b.broker.start_node(1).await.unwrap();
        b.write(&mut transaction, &["2"]).await;
        b.broker.stop_node(1).await.unwrap();
        let commit = tokio::spawn(transaction.commit());
        tokio::time::sleep(Duration::from_millis(50)).await;
        b.broker.start_node(1).await.unwrap();
        within(commit).await.unwrap().unwrap();
        assert_eq!(b.committed().await, ["1", "2"]);
    }
}

#[tokio::test]
async fn without_any_broker_every_call_ends_in_time() {
    let b = Bench::new(Profile::kafka_4_4_v1()).await;
    let config = config_for(&b.broker).max_block(Duration::from_millis(200));
    let client = Client::new(config);
    let topic = client.topic(TOPIC).await.unwrap();
    let producer = |id: &str| {
        let builder = client.transactional_producer(TransactionalId::new(id));
        builder.delivery_timeout(Duration::from_millis(200))
    };
    let mut written = producer("a").init().await.unwrap().begin();
    let mut flushed = producer("b").init().await.unwrap().begin();
    let fresh = producer("c").init().await.unwrap();
    for transaction in [&mut written, &mut flushed] {
        transaction.send(&topic, Some(0), RecordRef::value(b"no")).await.unwrap();
        transaction.flush().await.unwrap();
    }
    b.broker.stop_node(1).await.unwrap();
    assert_eq!(within(producer("d").init()).await.unwrap_err().kind, CauseKind::Unreachable);
    assert!(within(client.topic("other")).await.is_err());
    assert!(matches!(within(written.abort()).await, Err(EndError::Abandoned(_))));
    flushed.send(&topic, Some(0), RecordRef::value(b"no")).await.unwrap();
    assert!(within(flushed.flush()).await.is_err());
    assert!(within(flushed.prepare()).await.is_err());
    let mut lazy = producer("e").lazy().begin();
    lazy.send(&topic, Some(0), RecordRef::value(b"no")).await.unwrap();
    assert!(matches!(within(lazy.commit()).await, Err(EndError::Failed(_))));
    let mut fresh = fresh.begin();
    fresh.send(&topic, Some(0), RecordRef::value(b"no")).await.unwrap();
    assert!(within(fresh.prepare()).await.is_err(), "nothing left is not nothing written");
}

#[tokio::test]
async fn what_is_no_kafka_is_told_at_once() {
    use tokio::io::AsyncWriteExt;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        }
    });
    let client = Client::new(ClientConfig::new(&address).unwrap());
    let e = within(client.topic(TOPIC)).await.unwrap_err().to_string();
    assert!(e.contains("not a Kafka broker") && e.contains(&address), "{e}");
    let e = within(client.transactional_producer(TransactionalId::new("a")).init()).await.unwrap_err();
    assert!(e.detail.contains("not a Kafka broker"), "{e}");
    server.abort();
}

#[tokio::test]
async fn the_level_of_transactions_changes_between_two_of_them() {
    use TransactionVersion::{V0, V1, V2};
    let b = Bench::new(Profile::kafka_4_4()).await;
    let mut producer = b.producer("a").lazy();
    let mut wanted = Vec::new();
    for (round, level) in [V2, V1, V2, V0, V2, V2, V1, V1, V0].into_iter().enumerate() {
        b.broker.set_transaction_version(level);
        // A level is believed for a tenth of a second.
        tokio::time::sleep(Duration::from_millis(110)).await;
        let value = format!("{round} at {level:?}");
        let mut transaction = producer.begin();
        b.write(&mut transaction, &[&value]).await;
        wanted.push(value);
        producer = within(transaction.commit()).await.unwrap();
    }
    assert_eq!(b.committed().await, wanted);
}

#[tokio::test]
async fn a_transaction_of_version_2_ends_at_level_0_without_a_request_that_would_brick_it() {
    for commit in [true, false] {
        let b = Bench::new(Profile::kafka_4_4()).await;
        let transaction = b.open("a", &["1"]).await;
        b.broker.set_transaction_version(TransactionVersion::V0);
        tokio::time::sleep(Duration::from_millis(110)).await;
        let producer = if commit {
            within(transaction.commit()).await.unwrap()
        } else {
            within(transaction.abort()).await.unwrap()
        };
        let mut next = producer.begin();
        b.write(&mut next, &["2"]).await;
        within(next.commit()).await.unwrap();
        let wanted: &[&str] = if commit { &["1", "2"] } else { &["2"] };
        assert_eq!(b.committed().await, wanted);
    }
}

#[tokio::test]
async fn a_takeover_of_a_dropped_handle_is_not_tried_on() {
    let b = Bench::new(Profile::kafka_4_4_v1()).await;
    for _ in 0..100 {
        b.fault(Api::InitProducerId, Reaction::ErrorCode(15));
    }
    let transaction = b.producer("a").lazy().begin();
    tokio::time::sleep(Duration::from_millis(20)).await;
    drop(transaction);
    tokio::time::sleep(Duration::from_millis(50)).await;
    b.broker.clear_faults();
    let Ok(Prepared::Ready(committable)) = b.open("a", &["yes"]).await.prepare().await else { panic!() };
    tokio::time::sleep(Duration::from_millis(200)).await;
    within(b.client.resume(committable).commit()).await.unwrap();
    assert_eq!(b.committed().await, ["yes"]);
}

#[tokio::test]
async fn a_future_dropped_at_any_poll_leaves_all_or_nothing() {
    use std::{future::Future, pin::pin, task::Poll};
    for profile in both() {
        let b = Bench::new(profile).await;
        let mut polls = 0;
        let mut last = Vec::new();
        loop {
            polls += 1;
            let value = format!("v{polls}");
            let transaction = b.open("a", &[&value]).await;
            let done = {
                let mut commit = pin!(transaction.commit());
                let mut left = polls;
                std::future::poll_fn(|cx| {
                    left -= 1;
                    match commit.as_mut().poll(cx) {
                        Poll::Ready(result) => Poll::Ready(Some(result.is_ok())),
                        Poll::Pending if left == 0 => Poll::Ready(None),
                        Poll::Pending => Poll::Pending,
                    }
                })
                .await
            };
            let seen = b.committed().await;
            let whole: Vec<_> = last.iter().cloned().chain([value]).collect();
            assert!(seen == last || seen == whole, "{polls} polls: {seen:?}");
            last = seen;
            if done == Some(true) {
                break;
            }
        }
        assert!(polls > 1 && !last.is_empty());
    }
}

#[tokio::test]
async fn a_prepare_whose_future_is_dropped_leaves_nothing_open() {
    let b = Bench::new(Profile::kafka_4_4()).await;
    b.fault(Api::DescribeTransactions, Reaction::Delay(Duration::from_millis(50)));
    let transaction = b.open("a", &["no"]).await;
    assert!(tokio::time::timeout(Duration::from_millis(10), transaction.prepare()).await.is_err());
    assert_eq!(b.committed().await, [""; 0], "aborted, without a timeout");
}

#[tokio::test]
async fn a_stopped_cluster_of_another_name_gets_nothing() {
    let b = Bench::new(Profile::kafka_4_4()).await;
    let address = b.broker.address(1).unwrap();
    let Ok(Prepared::Ready(committable)) = b.open("a", &["1"]).await.prepare().await else { panic!() };
    b.broker.stop_node(1).await.unwrap();
    let late = Client::new(ClientConfig::new(&address).unwrap());
    let commit = tokio::spawn(late.resume(committable).commit());
    tokio::time::sleep(Duration::from_millis(50)).await;
    let other = Broker::start(BrokerConfig { listen: address, ..BrokerConfig::default() }).await.unwrap();
    let e = within(commit).await.unwrap().unwrap_err();
    assert!(e.to_string().contains(other.cluster_id()), "{e}");
    assert_eq!(other.requests(Api::EndTxn), 0);
}

/// A frozen broker has an open port and says nothing; here it would do so for an hour.
#[tokio::test]
async fn a_server_that_says_nothing_holds_no_question_up() {
    let hour = Duration::from_secs(3600);
    let broker = Broker::start(BrokerConfig { nodes: 3, ..BrokerConfig::default() }).await.unwrap();
    broker.create_topic(TOPIC, 2).unwrap();
    let mut frozen = Vec::new();
    for _ in 0..3 {
        frozen.push(tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap());
    }
    let frozen_servers = frozen.iter().map(|l| l.local_addr().unwrap().to_string());
    let servers: Vec<_> = frozen_servers.chain([broker.address(2).unwrap()]).collect();
    for api in [Api::ApiVersions, Api::Metadata, Api::FindCoordinator] {
        for _ in 0..20 {
            broker.inject(Fault::on(api, Reaction::Delay(hour)).node(1));
        }
    }
    let mut config = ClientConfig::new(&servers.join(",")).unwrap().request_timeout(hour);
    config.setup_timeout = hour;
    let client = Client::new(config);
    // The brokers are known now, and every question may begin with another one.
    for _ in 0..8 {
        within(client.topic(TOPIC)).await.unwrap();
    }
    let asked_elsewhere = (0..).map(|n| format!("id-{n}"));
    let mut ids = asked_elsewhere.filter(|id| broker.transaction_coordinator(id) != Some(1));
    let id = TransactionalId::new(ids.next().unwrap());
    let described = within(client.admin().describe_transaction(&id)).await.unwrap();
    assert!(described.is_none());
}

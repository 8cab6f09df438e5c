//! The producer without transactions, while brokers answer with errors, lose connections, move, and are away.
#![cfg(feature = "broker")]
#![expect(clippy::disallowed_methods, reason = "tests")]

mod kit;

use std::time::Duration;

use kafka_2pc::{
    broker::{Api, BrokerConfig, Fault, Profile, Reaction},
    client::{NotStored, Producer, SendError, TrySendError},
    ids::TopicPartition,
    proto::{cause::CauseKind, numbers::Culprits},
    record::{Compression, RecordRef},
};
use kit::{Bench, TOPIC, numbered, visible, within};

/// Batches of one record, so that several are under way at once.
fn small(b: &Bench) -> Producer {
    b.client.idempotent_producer().batch_size(70).retry_backoff(Duration::from_millis(10)).start()
}

async fn send(b: &Bench, producer: &Producer, values: &[String]) {
    let topic = b.topic().await;
    for value in values {
        producer.send(&topic, Some(0), RecordRef::value(value.as_bytes())).await.expect("it is taken");
    }
}

async fn write(b: &Bench, producer: &Producer, values: &[String]) -> Result<(), NotStored> {
    send(b, producer, values).await;
    producer.flush().await
}

fn on_first() -> TopicPartition {
    TopicPartition::new(TOPIC, 0)
}

#[tokio::test]
async fn nobody_but_brokers_writes_to_a_topic_of_theirs() {
    let b = Bench::new(Profile::kafka_4_4()).await;
    let topic = within(b.client.topic("__consumer_offsets")).await.unwrap();
    let producer = small(&b);
    producer.send(&topic, Some(0), RecordRef::value(b"v")).await.unwrap();
    let told = within(producer.flush()).await.unwrap_err();
    assert_eq!((told.records, told.unknown, told.cause.kind), (1, 0, CauseKind::Refused));
    assert!(told.cause.to_string().contains("INVALID_TOPIC_EXCEPTION"), "{told}");
}

#[tokio::test]
async fn a_cut_connection_at_every_request_loses_nothing_and_doubles_nothing() {
    for api in [Api::ApiVersions, Api::Metadata, Api::InitProducerId, Api::Produce] {
        for (reaction, nth) in
            [Reaction::Drop, Reaction::ApplyThenDrop].into_iter().flat_map(|r| [(r, 1), (r, 3)])
        {
            let b = Bench::new(Profile::kafka_4_4()).await;
            let producer = small(&b);
            b.broker.inject(Fault::on(api, reaction).nth(nth));
            within(write(&b, &producer, &numbered("v", 12))).await.unwrap();
            assert_eq!(b.visible().await, numbered("v", 12), "{api:?} {reaction:?} {nth}");
        }
    }
}

#[tokio::test]
async fn answers_that_ask_for_a_retry_keep_order_bytes_and_sequence() {
    // NOT_LEADER_OR_FOLLOWER, REQUEST_TIMED_OUT, NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS_AFTER_APPEND, UNKNOWN_TOPIC
    // (a metadata gap), CORRUPT_MESSAGE, KAFKA_STORAGE_ERROR.
    let refused = [6, 7, 19, 20, 3, 2, 56].map(Reaction::ErrorCode);
    // The same after the append, where a leader can say so, and DUPLICATE_SEQUENCE_NUMBER.
    let applied = [6, 7, 20, 3, 56, 46].map(Reaction::ApplyThenErrorCode);
    for (reaction, nth) in refused.into_iter().chain(applied).flat_map(|r| [1, 2, 4].map(|nth| (r, nth))) {
        let b = Bench::new(Profile::kafka_4_4()).await;
        let producer = small(&b);
        b.broker.inject(Fault::on(Api::Produce, reaction).nth(nth));
        within(write(&b, &producer, &numbered("v", 20))).await.unwrap();
        assert_eq!(b.visible().await, numbered("v", 20), "{reaction:?}, request {nth}");
        assert_eq!(b.broker.requests(Api::InitProducerId), 1);
    }
}

#[tokio::test]
async fn a_refused_batch_fails_alone_and_what_is_behind_it_goes_on() {
    let cases = [
        (87, CauseKind::Refused, 0),
        (32, CauseKind::Refused, 0),
        (29, CauseKind::Denied, 0),
        (31, CauseKind::Denied, 0),
        (10, CauseKind::RecordTooLarge, 0),
        (48, CauseKind::Refused, 0),
        (35, CauseKind::Unsupported, 0),
        (-1, CauseKind::OutcomeUnknown, 1),
        (9999, CauseKind::OutcomeUnknown, 1),
    ];
    for ((code, kind, unknown), nth) in cases.into_iter().flat_map(|case| [(case, 1), (case, 3)]) {
        let b = Bench::new(Profile::kafka_4_4()).await;
        let producer = small(&b);
        b.broker.inject(Fault::on(Api::Produce, Reaction::ErrorCode(code)).nth(nth));
        let told = within(write(&b, &producer, &numbered("v", 12))).await.unwrap_err();
        assert_eq!((told.records, told.unknown, told.cause.kind), (1, unknown, kind), "{code}");
        assert_eq!(told.cause.outcome_unknown(), unknown > 0);
        let failed = usize::try_from(nth).unwrap() - 1;
        let mut wanted = numbered("v", 12);
        wanted.remove(failed);
        assert_eq!(b.visible().await, wanted, "{code}");
        within(write(&b, &producer, &["after".to_owned()])).await.expect("it was told once");
        assert_eq!(b.visible().await.last().unwrap(), "after");
    }
}

#[tokio::test]
async fn handles_tell_the_fate_of_their_records() {
    let b = Bench::new(Profile::kafka_4_4()).await;
    let (producer, topic) = (small(&b), b.topic().await);
    b.broker.inject(Fault::on(Api::Produce, Reaction::ErrorCode(87)).nth(2));
    let mut handles = Vec::new();
    for value in numbered("v", 3) {
        let record = RecordRef::value(value.as_bytes());
        handles.push(within(producer.send_tracked(&topic, Some(0), record)).await.unwrap());
    }
    let mut fates = Vec::new();
    for handle in handles {
        fates.push(within(handle.stored()).await.map_err(|cause| (cause.kind, cause.records)));
    }
    let culprit = (CauseKind::Refused, Some(Culprits::Named(vec![1])));
    assert_eq!(fates, [Ok(Some(0)), Err(culprit), Ok(Some(1))], "and nobody had to flush");
}

#[tokio::test]
async fn a_history_that_the_broker_lost_begins_anew_without_a_loss() {
    // OUT_OF_ORDER_SEQUENCE_NUMBER, UNKNOWN_PRODUCER_ID, INVALID_PRODUCER_EPOCH, PRODUCER_FENCED,
    // INVALID_PRODUCER_ID_MAPPING; the last three need a producer id that nobody else has.
    for ((code, ids), nth) in
        [(45, 1), (59, 1), (47, 2), (90, 2), (49, 2)].into_iter().flat_map(|case| [(case, 1), (case, 4)])
    {
        let b = Bench::new(Profile::kafka_4_4()).await;
        let producer = small(&b);
        b.broker.inject(Fault::on(Api::Produce, Reaction::ErrorCode(code)).nth(nth));
        within(write(&b, &producer, &numbered("v", 12))).await.unwrap();
        assert_eq!(b.visible().await, numbered("v", 12), "{code}");
        assert_eq!(b.broker.requests(Api::InitProducerId), ids, "{code}");
    }
}

#[tokio::test]
async fn a_log_that_was_cut_back_takes_what_comes_next() {
    let b = Bench::new(Profile::kafka_4_4()).await;
    let producer = small(&b);
    within(write(&b, &producer, &numbered("a", 6))).await.unwrap();
    // An unclean leader election.
    b.broker.truncate(&on_first(), 3).unwrap();
    within(write(&b, &producer, &numbered("b", 6))).await.unwrap();
    let wanted: Vec<_> = numbered("a", 3).into_iter().chain(numbered("b", 6)).collect();
    assert_eq!(b.visible().await, wanted);
    b.broker.expire_producers(&on_first()).unwrap();
    within(write(&b, &producer, &numbered("c", 6))).await.unwrap();
    assert_eq!(b.visible().await.split_off(9), numbered("c", 6));
}

#[tokio::test]
async fn a_leader_that_moves_with_batches_under_way_keeps_their_order() {
    let b = Bench::with(BrokerConfig { nodes: 3, ..BrokerConfig::default() }).await;
    b.broker.create_topic_on("moving", vec![vec![1, 2, 3]]).unwrap();
    let (producer, topic) = (small(&b), b.client.topic("moving").await.unwrap());
    for nth in [2, 4, 5, 9] {
        b.broker.inject(Fault::on(Api::Produce, Reaction::MoveLeader).nth(nth));
    }
    for value in numbered("v", 40) {
        within(producer.send(&topic, Some(0), RecordRef::value(value.as_bytes()))).await.unwrap();
    }
    within(producer.flush()).await.unwrap();
    assert_eq!(visible(&b.client, "moving").await, numbered("v", 40));
}

#[tokio::test(start_paused = true)]
async fn what_every_try_refused_is_told_to_be_not_stored_and_the_producer_heals() {
    let b = Bench::in_memory(Profile::kafka_4_4()).await;
    let builder = b.client.idempotent_producer().batch_size(70).delivery_timeout(Duration::from_millis(100));
    let producer = builder.start();
    within(write(&b, &producer, &["before".to_owned()])).await.unwrap();
    let away = b.broker.inject(Fault::on(Api::Produce, Reaction::ErrorCode(19)).always());
    let told = within(write(&b, &producer, &numbered("no", 8))).await.unwrap_err();
    assert_eq!((told.records, told.unknown, told.cause.kind), (8, 0, CauseKind::DeliveryTimeout));
    b.broker.remove_fault(away);
    within(write(&b, &producer, &["after".to_owned()])).await.unwrap();
    assert_eq!(b.visible().await, ["before", "after"]);
}

/// A request is caught on its way and delivered after its connection was given up, before or after the next record.
#[tokio::test(start_paused = true)]
async fn what_arrives_after_it_was_given_up_is_neither_doubled_nor_out_of_order() {
    for late in [true, false] {
        let b = Bench::in_memory(Profile::kafka_4_4()).await;
        let builder = b.client.idempotent_producer().delivery_timeout(Duration::from_secs(10));
        let producer = builder.start();
        within(write(&b, &producer, &["before".to_owned()])).await.unwrap();
        b.fault(Api::Produce, Reaction::HoldUntilDelivered);
        // The connection is given up after request.timeout.ms, 30 s.
        let told = write(&b, &producer, &["held".to_owned()]).await.unwrap_err();
        assert_eq!((told.records, told.unknown), (1, 1));
        assert!(told.cause.outcome_unknown(), "{told}");
        if late {
            within(write(&b, &producer, &["after".to_owned()])).await.unwrap();
            b.broker.deliver_held();
            within(write(&b, &producer, &["last".to_owned()])).await.unwrap();
            assert_eq!(b.visible().await, ["before", "after", "last"], "the next epoch fences what is late");
        } else {
            b.broker.deliver_held();
            within(async {
                while b.visible().await.len() < 2 {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            })
            .await;
            within(write(&b, &producer, &["after".to_owned()])).await.unwrap();
            assert_eq!(b.visible().await, ["before", "held", "after"]);
        }
    }
}

#[tokio::test]
async fn a_batch_that_is_too_large_is_split_until_one_record_is_at_fault() {
    for codec in [Compression::None, Compression::Lz4] {
        let b = Bench::with(BrokerConfig { max_message_bytes: 1000, ..BrokerConfig::default() }).await;
        let topic = b.topic().await;
        let producer =
            b.client.idempotent_producer().linger(Duration::from_secs(60)).compression(codec).start();
        // What no codec makes small.
        let noise = |seed: u32, bytes: usize| -> String {
            let next = |x: &mut u32| {
                *x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                Some(char::from(b'!' + u8::try_from((*x >> 24) % 90).unwrap()))
            };
            let mut x = seed;
            std::iter::from_fn(move || next(&mut x)).take(bytes).collect()
        };
        let mut handles = Vec::new();
        let mut wanted = Vec::new();
        for number in 0..11u32 {
            let value = noise(number + 1, if number == 6 { 5000 } else { 300 });
            let record = RecordRef::value(value.as_bytes());
            handles.push(within(producer.send_tracked(&topic, Some(0), record)).await.unwrap());
            wanted.extend((number != 6).then_some(value));
        }
        let told = within(producer.flush()).await.unwrap_err();
        assert_eq!((told.records, told.cause.kind), (1, CauseKind::RecordTooLarge));
        assert_eq!(told.cause.records, Some(Culprits::Named(vec![6])));
        assert_eq!(b.visible().await, wanted, "{codec}");
        let mut offset = 0;
        for (number, handle) in handles.into_iter().enumerate() {
            match within(handle.stored()).await {
                Ok(stored) => {
                    assert_eq!(stored, Some(offset), "record {number}");
                    offset += 1;
                }
                Err(cause) => assert_eq!((number, cause.kind), (6, CauseKind::RecordTooLarge)),
            }
        }
    }
}

#[tokio::test]
async fn a_batch_leaves_when_it_has_lingered_though_nobody_calls() {
    let b = Bench::new(Profile::kafka_4_4()).await;
    let topic = b.topic().await;
    for linger in [Duration::ZERO, Duration::from_millis(20)] {
        let producer = b.client.idempotent_producer().linger(linger).start();
        for (partition, value) in [(0, "a"), (1, "b"), (0, "c")] {
            let record = RecordRef::value(value.as_bytes());
            let stored =
                within(producer.send_tracked(&topic, Some(partition), record)).await.unwrap().stored();
            within(stored).await.unwrap();
        }
    }
    assert_eq!(b.visible().await, ["a", "c", "a", "c", "b", "b"]);
}

#[tokio::test]
async fn what_was_taken_is_sent_when_the_last_handle_is_dropped() {
    let b = Bench::new(Profile::kafka_4_4()).await;
    let producer = b.client.idempotent_producer().linger(Duration::from_secs(3600)).start();
    send(&b, &producer.clone(), &numbered("v", 5)).await;
    drop(producer);
    within(async {
        while b.visible().await != numbered("v", 5) {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_closed_producer_takes_nothing_from_any_clone() {
    let b = Bench::new(Profile::kafka_4_4()).await;
    let producer = b.client.idempotent_producer().linger(Duration::from_secs(3600)).start();
    let (other, topic) = (producer.clone(), b.topic().await);
    send(&b, &other, &numbered("v", 5)).await;
    within(producer.close()).await.unwrap();
    assert_eq!(b.visible().await, numbered("v", 5));
    let record = RecordRef::value(b"no");
    assert!(matches!(other.try_send(&topic, None, record), Err(TrySendError::Failed(_))));
    assert!(matches!(within(other.send(&topic, None, record)).await, Err(SendError::Failed(_))));
    within(other.flush()).await.expect("nothing is left");
}

#[tokio::test]
async fn a_full_memory_is_waited_for() {
    let b = Bench::new(Profile::kafka_4_4()).await;
    let topic = b.topic().await;
    let producer = b.client.idempotent_producer().buffer_memory(2000).start();
    b.broker.inject(Fault::on(Api::Produce, Reaction::Delay(Duration::from_millis(5))).always());
    let value = vec![b'x'; 900];
    let mut taken = 0;
    while producer.try_send(&topic, Some(0), RecordRef::value(&value)).is_ok() {
        taken += 1;
    }
    assert_eq!(taken, 2);
    for _ in 0..20 {
        within(producer.send(&topic, Some(0), RecordRef::value(&value))).await.unwrap();
    }
    within(producer.flush()).await.unwrap();
    assert_eq!(b.visible().await.len(), 22);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clones_share_one_order() {
    let b = Bench::new(Profile::kafka_4_4()).await;
    let producer = small(&b);
    let writers = (0..4).map(|writer| {
        let (producer, client) = (producer.clone(), b.client.clone());
        tokio::spawn(async move {
            let topic = client.topic(TOPIC).await.unwrap();
            for value in numbered(&format!("w{writer}-"), 50) {
                producer.send(&topic, Some(0), RecordRef::value(value.as_bytes())).await.unwrap();
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        within(writer).await.unwrap();
    }
    within(producer.flush()).await.unwrap();
    let found = b.visible().await;
    for writer in 0..4 {
        let of: Vec<_> = found.iter().filter(|v| v.starts_with(&format!("w{writer}-"))).cloned().collect();
        assert_eq!(of, numbered(&format!("w{writer}-"), 50));
    }
}

#[tokio::test]
async fn a_producer_id_is_asked_for_until_it_is_granted_or_refused() {
    for code in [15, 14, 7, -1] {
        let b = Bench::new(Profile::kafka_4_4()).await;
        b.fault(Api::InitProducerId, Reaction::ErrorCode(code));
        within(write(&b, &small(&b), &numbered("v", 3))).await.unwrap();
        assert_eq!(b.visible().await, numbered("v", 3), "{code}");
    }
    let b = Bench::new(Profile::kafka_4_4()).await;
    let denied = b.broker.inject(Fault::on(Api::InitProducerId, Reaction::ErrorCode(31)).always());
    let producer = small(&b);
    let told = within(write(&b, &producer, &numbered("no", 3))).await.unwrap_err();
    assert_eq!((told.records, told.cause.kind), (3, CauseKind::Denied));
    b.broker.remove_fault(denied);
    within(write(&b, &producer, &numbered("v", 3))).await.unwrap();
    assert_eq!(b.visible().await, numbered("v", 3));
}

#[tokio::test]
async fn a_record_for_no_partition_of_the_topic_is_refused_and_nothing_else() {
    let b = Bench::new(Profile::kafka_4_4()).await;
    let (producer, topic) = (small(&b), b.topic().await);
    let error = producer.try_send(&topic, Some(7), RecordRef::value(b"no")).unwrap_err();
    assert!(matches!(error, TrySendError::Record(SendError::NoSuchPartition { partition: 7, .. })));
    within(write(&b, &producer, &numbered("v", 2))).await.unwrap();
    assert_eq!(b.visible().await, numbered("v", 2));
}

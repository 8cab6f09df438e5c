//! Transactions of the client against the embedded broker: how they end, and under which identity.
#![cfg(feature = "broker")]

mod kit;
mod raw;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use kafka_2pc::{
    broker::{Api, BrokerConfig, Profile, Reaction},
    client::{Client, EndError, Prepared, SendError, TrySendError},
    ids::TransactionalId,
    net::{Probe, ProbeEvent},
    proto::cause::CauseKind,
    record::RecordRef,
    wire::batch::Batches,
};
use kit::{Bench, TOPIC, both, numbered, within};

#[tokio::test]
async fn what_is_committed_is_seen_and_what_is_aborted_is_not() {
    for profile in Profile::all() {
        let b = Bench::new(profile).await;
        let producer = b.open("a", &["1", "2"]).await.commit().await.unwrap();
        let mut second = producer.begin();
        b.write(&mut second, &["no"]).await;
        let mut third = second.abort().await.unwrap().begin();
        b.write(&mut third, &["3"]).await;
        third.commit().await.unwrap();
        assert_eq!(b.committed().await, ["1", "2", "3"], "{}", b.broker.cluster_id());
    }
}

#[tokio::test]
async fn several_partitions_and_topics_are_all_or_nothing() {
    for profile in both() {
        let b = Bench::new(profile).await;
        b.broker.create_topic("u", 3).unwrap();
        let (t, u) = (b.topic().await, b.client.topic("u").await.unwrap());
        let mut producer = b.producer("a").lazy();
        for round in 0..4 {
            let mut transaction = producer.begin();
            for i in 0..10 {
                let value = format!("{round}-{i}");
                let (topic, partition) = if i % 2 == 0 { (&t, i / 2 % 2) } else { (&u, i / 2 % 3) };
                transaction.send(topic, Some(partition), RecordRef::value(value.as_bytes())).await.unwrap();
            }
            producer = if round % 2 == 0 {
                transaction.commit().await.unwrap()
            } else {
                transaction.flush().await.unwrap();
                transaction.abort().await.unwrap()
            };
        }
        let mut seen = b.committed().await;
        assert_eq!(kit::visible(&b.client, "u").await.len(), 10);
        seen.extend(kit::visible(&b.client, "u").await);
        seen.sort();
        let mut wanted: Vec<_> = [0, 2].iter().flat_map(|r| numbered(&format!("{r}-"), 10)).collect();
        wanted.sort();
        assert_eq!(seen, wanted);
    }
}

/// `max.in.flight.requests.per.connection`: while the first answer is late, so many requests are on their way and no more.
#[tokio::test]
async fn no_more_requests_are_on_their_way_than_allowed() {
    for allowed in [1, 3, 5] {
        let b = Bench::new(Profile::kafka_4_4()).await;
        let seen = Arc::new(Mutex::new((0, 0)));
        let watched = Arc::clone(&seen);
        let probe = Probe::new(move |event| {
            let (now, most) = &mut *watched.lock().unwrap();
            match event {
                ProbeEvent::Written(Api::Produce) => *now += 1,
                ProbeEvent::Answered(Api::Produce) => *now -= 1,
                ProbeEvent::Written(_) | ProbeEvent::Answered(_) => {}
            }
            *most = (*now).max(*most);
        });
        let client = Client::new(kit::config_for(&b.broker).probe(probe));
        let builder = client.transactional_producer(TransactionalId::new("a"));
        let mut transaction = builder.batch_size(1).max_in_flight(allowed).lazy().begin();
        let (topic, values) = (b.topic().await, numbered("", 20));
        b.write(&mut transaction, &[&values[0]]).await;
        b.fault(Api::Produce, Reaction::Delay(Duration::from_millis(500)));
        for value in &values[1..] {
            transaction.send(&topic, Some(0), RecordRef::value(value.as_bytes())).await.unwrap();
            // The batch before this one has left, if it may.
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        transaction.commit().await.unwrap();
        assert_eq!(*seen.lock().unwrap(), (0, allowed));
        assert_eq!(b.committed().await, values);
    }
}

#[tokio::test]
async fn an_empty_transaction_costs_no_end_and_keeps_its_identity() {
    for profile in both() {
        let b = Bench::new(profile).await;
        let producer = b.producer("a").init().await.unwrap();
        let producer = producer.begin().commit().await.unwrap();
        let producer = producer.begin().abort().await.unwrap();
        let Ok(Prepared::Empty(producer)) = producer.begin().prepare().await else { panic!("not empty") };
        let mut transaction = producer.begin();
        transaction.flush().await.unwrap();
        b.write(&mut transaction, &["x"]).await;
        assert_eq!((b.broker.requests(Api::EndTxn), b.broker.requests(Api::InitProducerId)), (0, 1));
        transaction.commit().await.unwrap();
        assert_eq!(b.committed().await, ["x"]);
    }
}

#[tokio::test]
async fn v1_adds_partitions_and_renews_its_epoch_before_every_transaction_and_v2_does_neither() {
    for (profile, renews, adds) in [(Profile::kafka_4_4_v1(), true, 6), (Profile::kafka_4_4(), false, 0)] {
        let b = Bench::new(profile).await;
        let topic = b.topic().await;
        let mut producer = b.producer("a").lazy();
        let mut identities = Vec::new();
        for _ in 0..3 {
            let mut transaction = producer.begin();
            for partition in [0, 1] {
                transaction.send(&topic, Some(partition), RecordRef::value(b"x")).await.unwrap();
                transaction.flush().await.unwrap();
            }
            let Ok(Prepared::Ready(committable)) = transaction.prepare().await else {
                panic!("not prepared")
            };
            identities.push(committable.identity);
            let resumed = b.client.resume(committable.clone()).commit().await.unwrap();
            let builder = b.producer("a");
            producer = match resumed.next {
                Some(next) => builder.returned(next),
                None => builder.used(committable.identity),
            };
        }
        // One is tried again while markers are being written.
        let inits = b.broker.requests(Api::InitProducerId);
        assert!(if renews { inits >= 3 } else { inits == 1 }, "{inits}");
        assert!(b.broker.requests(Api::AddPartitionsToTxn) >= adds, "{adds}");
        assert!(renews || b.broker.requests(Api::AddPartitionsToTxn) == 0);
        identities.dedup();
        assert_eq!(identities.len(), 3, "one transaction per producer id and epoch");
        assert_eq!(b.committed().await.len(), 6);
    }
}

#[tokio::test]
async fn a_new_owner_fences_the_old_one_at_every_call() {
    for profile in both() {
        let b = Bench::new(profile).await;
        let topic = b.topic().await;
        // Fenced before anything was written, before an AddPartitions, before a Produce, before an end.
        let idle = b.producer("a").init().await.unwrap();
        b.producer("a").init().await.unwrap();
        let mut transaction = idle.begin();
        transaction.send(&topic, Some(0), RecordRef::value(b"no")).await.unwrap();
        let e = within(transaction.commit()).await.unwrap_err();
        assert!(matches!(e, EndError::Fenced(_) | EndError::Failed(_)), "{e}");

        let mut written = b.open("a", &["no"]).await;
        b.producer("a").init().await.unwrap();
        written.send(&topic, Some(1), RecordRef::value(b"no")).await.unwrap();
        assert!(matches!(within(written.flush()).await, Err(SendError::Failed(_))));
        let e = within(written.commit()).await.unwrap_err();
        assert!(matches!(e, EndError::Fenced(_) | EndError::Failed(_)), "{e}");

        let ready = b.open("a", &["no"]).await;
        b.producer("a").init().await.unwrap();
        let e = within(ready.commit()).await.unwrap_err();
        assert!(matches!(&e, EndError::Outcome(o) if o.story().contains("abort")), "{e}");

        let ready = b.open("a", &["no"]).await;
        b.producer("a").init().await.unwrap();
        let e = within(ready.abort()).await.unwrap_err();
        assert!(matches!(e, EndError::Fenced(_)), "{e}");
        assert_eq!(b.committed().await, [""; 0]);
    }
}

#[tokio::test]
async fn a_fenced_transaction_says_so_at_each_later_call() {
    let b = Bench::new(Profile::kafka_4_4_v1()).await;
    let topic = b.topic().await;
    let fenced = |e: &EndError| matches!(e, EndError::Fenced(c) if c.is_fenced());
    for call in 0..3 {
        let mut transaction = b.producer("a").init().await.unwrap().begin();
        b.fault(Api::AddPartitionsToTxn, Reaction::ErrorCode(90));
        transaction.send(&topic, Some(0), RecordRef::value(b"no")).await.unwrap();
        let Err(SendError::Failed(cause)) = within(transaction.flush()).await else { panic!("not fenced") };
        assert_eq!(cause.kind, CauseKind::Fenced);
        assert!(matches!(
            transaction.try_send(&topic, None, RecordRef::value(b"no")),
            Err(TrySendError::Failed(c)) if c.is_fenced()
        ));
        match call {
            0 => assert!(fenced(&within(transaction.commit()).await.unwrap_err())),
            1 => assert!(fenced(&within(transaction.abort()).await.unwrap_err())),
            _ => assert!(within(transaction.prepare()).await.unwrap_err().is_fenced()),
        }
    }
}

#[tokio::test]
async fn an_expired_transaction_can_not_be_committed() {
    for profile in both() {
        let b = Bench::new(profile).await;
        let producer = b.producer("a").transaction_timeout(Duration::from_millis(1)).init().await.unwrap();
        let mut transaction = producer.begin();
        b.write(&mut transaction, &["no"]).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
        b.broker.sweep_timeouts();
        let e = within(transaction.commit()).await.unwrap_err();
        assert!(matches!(&e, EndError::Outcome(_) | EndError::Failed(_)), "{e}");
        let next = b.open("a", &["yes"]).await;
        next.commit().await.unwrap();
        assert_eq!(b.committed().await, ["yes"]);
    }
}

#[tokio::test]
async fn a_record_that_is_too_large_is_refused_before_and_poisons_after() {
    for profile in both() {
        let b =
            Bench::with(BrokerConfig { profile, max_message_bytes: 2000, ..BrokerConfig::default() }).await;
        let topic = b.topic().await;
        let producer = b.producer("a").max_request_size(5000).init().await.unwrap();
        let mut transaction = producer.begin();
        b.write(&mut transaction, &["no"]).await;
        let e = transaction.send(&topic, Some(0), RecordRef::value(&[0; 6000])).await.unwrap_err();
        assert!(matches!(e, SendError::TooLarge { .. }), "{e}");
        b.write(&mut transaction, &["no"]).await;
        let delivery = transaction.send_tracked(&topic, Some(0), RecordRef::value(&[0; 3000])).await.unwrap();
        let Err(SendError::Failed(cause)) = within(transaction.flush()).await else { panic!("stored") };
        assert_eq!(cause.kind, CauseKind::RecordTooLarge);
        assert_eq!(within(delivery.stored()).await.unwrap_err().kind, CauseKind::RecordTooLarge);
        let mut next = within(transaction.abort()).await.unwrap().begin();
        b.write(&mut next, &["yes"]).await;
        next.commit().await.unwrap();
        assert_eq!(b.committed().await, ["yes"]);
    }
}

#[tokio::test]
async fn deliveries_tell_offsets_once_and_a_cause_otherwise() {
    let b = Bench::new(Profile::kafka_4_4()).await;
    let topic = b.topic().await;
    let mut transaction = b.producer("a").batch_size(200).init().await.unwrap().begin();
    let mut deliveries = Vec::new();
    for _ in 0..50 {
        deliveries.push(transaction.send_tracked(&topic, Some(0), RecordRef::value(&[7; 40])).await.unwrap());
    }
    transaction.flush().await.unwrap();
    for (i, delivery) in deliveries.iter().enumerate() {
        let twice = [delivery.clone().stored().await, delivery.clone().stored().await];
        assert_eq!(twice, [Ok(Some(i64::try_from(i).unwrap())), Ok(Some(i64::try_from(i).unwrap()))]);
    }
    let open = transaction.send_tracked(&topic, Some(0), RecordRef::value(b"open")).await.unwrap();
    transaction.abort().await.unwrap();
    assert_eq!(within(open.stored()).await.unwrap_err().kind, CauseKind::Dropped);
}

#[tokio::test]
async fn a_tiny_memory_pushes_back_and_nothing_hangs() {
    for profile in both() {
        let b = Bench::new(profile).await;
        let topic = b.topic().await;
        let producer = b.producer("a").buffer_memory(300).batch_size(64).linger(Duration::MAX);
        let mut transaction = producer.init().await.unwrap().begin();
        let mut full = 0;
        for value in numbered("v", 200) {
            let record = RecordRef::value(value.as_bytes());
            if transaction.try_send(&topic, Some(0), record) == Err(TrySendError::Full) {
                full += 1;
                within(transaction.send(&topic, Some(0), record)).await.unwrap();
            }
        }
        assert!(full > 0, "300 bytes hold 200 records");
        // One record alone may exceed the memory.
        within(transaction.send(&topic, Some(0), RecordRef::value(&[b'x'; 1000]))).await.unwrap();
        within(transaction.commit()).await.unwrap();
        assert_eq!(b.committed().await[..200], numbered("v", 200));
    }
}

#[tokio::test]
async fn a_dropped_open_transaction_is_aborted_and_a_prepared_one_is_not() {
    for profile in both() {
        let b = Bench::new(profile).await;
        drop(b.open("dropped", &["no"]).await);
        assert_eq!(b.committed().await, [""; 0]);
        let mut untouched = b.producer("untouched").init().await.unwrap().begin();
        untouched.try_send(&b.topic().await, Some(0), RecordRef::value(b"no")).unwrap();
        drop(untouched);
        let Ok(Prepared::Ready(committable)) = b.open("kept", &["yes"]).await.prepare().await else {
            panic!()
        };
        drop(b.producer("other").init().await.unwrap());
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(b.broker.requests(Api::EndTxn), 1, "that of the dropped one");
        b.client.resume(committable).commit().await.unwrap();
        assert_eq!(b.committed().await, ["yes"]);
    }
}

#[tokio::test]
async fn a_topic_created_anew_under_its_name_is_not_written_to_silently() {
    for profile in both() {
        let b = Bench::new(profile).await;
        let mut transaction = b.open("a", &["1", "2", "3"]).await;
        assert!(b.broker.delete_topic(TOPIC));
        b.broker.create_topic(TOPIC, 2).unwrap();
        let topic = b.topic().await;
        _ = transaction.send(&topic, Some(0), RecordRef::value(b"4")).await;
        let flushed = within(transaction.flush()).await;
        let prepared = within(transaction.prepare()).await;
        assert!(flushed.is_err() || prepared.is_err(), "half of it is gone");
    }
}

#[tokio::test]
async fn every_request_names_its_transaction_and_every_batch_says_so() {
    for profile in both() {
        let b = Bench::new(profile).await;
        b.open("a", &["1"]).await.commit().await.unwrap();
        b.open("a", &["no"]).await.abort().await.unwrap();
        let named: Vec<_> = b.broker.journal().into_iter().filter(|e| e.api == Api::Produce).collect();
        assert!(
            named.len() >= 2 && named.iter().all(|e| e.keys.transactional_id.as_deref() == Some("a")),
            "{named:?}"
        );
        let inits = b.broker.journal().into_iter().filter(|e| e.api == Api::InitProducerId);
        assert!(inits.map(|e| e.keys.transactional_id).all(|id| id.as_deref() == Some("a")));

        assert_eq!(b.committed().await, ["1"]);
        let raw = raw::Cluster::new(b.broker.bootstrap());
        let fetched = raw.fetch(TOPIC, 0, 0, 0).await;
        let records = fetched.responses[0].partitions[0].records.clone().unwrap_or_default();
        let batches: Vec<_> = Batches::new(records).map(Result::unwrap).collect();
        assert!(batches.len() >= 4, "two of data and their markers");
        assert!(
            batches.iter().all(|batch| batch.header().is_transactional() && batch.header().producer_id >= 0)
        );
    }
}

#[tokio::test]
async fn partitions_that_a_topic_gets_are_written_by_the_open_transaction() {
    for profile in both() {
        let b = Bench::new(profile).await;
        let mut transaction = b.open("a", &["old"]).await;
        assert!(b.broker.add_partitions(TOPIC, 4));
        let grown = within(async {
            loop {
                let topic = b.topic().await;
                if topic.partitions() == 4 {
                    break topic;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        let topic = grown.await;
        for partition in 0..4 {
            let value = format!("new-{partition}");
            transaction.send(&topic, Some(partition), RecordRef::value(value.as_bytes())).await.unwrap();
        }
        within(transaction.commit()).await.unwrap();
        assert_eq!(b.committed().await, ["old", "new-0", "new-1", "new-2", "new-3"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_barrier_does_not_wait_for_a_coordinator_that_it_does_not_need() {
    let b = Bench::with(BrokerConfig { nodes: 3, ..BrokerConfig::default() }).await;
    b.broker.create_topic_on("elsewhere", vec![vec![3]]).unwrap();
    let topic = b.client.topic("elsewhere").await.unwrap();
    let coordinated_by_1 = |id: &String| b.broker.transaction_coordinator(id) == Some(1);
    let id = (0..).map(|i| format!("id{i}")).find(coordinated_by_1).unwrap();
    let mut transaction = b.producer(&id).init().await.unwrap().begin();
    transaction.send(&topic, Some(0), RecordRef::value(b"1")).await.unwrap();
    // Its start is told in the meantime, which is all that is wanted of the coordinator.
    transaction.flush().await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    b.broker.freeze_node(1).unwrap();
    let prepared = within(transaction.prepare()).await;
    b.broker.thaw_node(1);
    assert!(matches!(prepared, Ok(Prepared::Ready(_))), "{prepared:?}");
}

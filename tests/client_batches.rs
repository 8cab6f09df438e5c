//! How records of the client become batches and leave: when memory is short, on one thread, and to which partitions.
#![cfg(feature = "broker")]

mod kit;

use std::time::Duration;

use kafka_2pc::{
    broker::{Api, Profile},
    client::{Partitioner, Topic},
    record::RecordRef,
};
use kit::{Bench, TOPIC, both, numbered, within};

#[tokio::test]
async fn twelve_open_batches_that_fill_the_memory_do_not_wait_for_each_other() {
    for profile in both() {
        let b = Bench::new(profile).await;
        assert!(b.broker.add_partitions(TOPIC, 12));
        let topic = b.topic().await;
        let producer = b.producer("a").buffer_memory(1 << 20).batch_size(128 << 10).linger(Duration::MAX);
        let mut transaction = producer.init().await.unwrap().begin();
        let value = [b'x'; 1024];
        for n in 0..3000 {
            let sent = transaction.send(&topic, Some(n % 12), RecordRef::value(&value));
            within(sent).await.unwrap();
        }
        within(transaction.commit()).await.unwrap();
        assert_eq!(b.committed().await.len(), 3000);
    }
}

#[tokio::test(flavor = "current_thread")]
async fn batches_leave_while_one_thread_does_nothing_but_send() {
    for profile in both() {
        let b = Bench::new(profile).await;
        let topic = b.topic().await;
        let producer = b.producer("a").batch_size(1024).linger(Duration::MAX);
        let mut transaction = producer.init().await.unwrap().begin();
        let mut sent = 0;
        // The memory is far from full, so that nothing but its own good manners lets the rest of this thread work.
        while b.broker.requests(Api::Produce) == 0 {
            assert!(sent < 100_000, "a thousand batches are still here");
            transaction.send(&topic, Some(0), RecordRef::value(&[7; 100])).await.unwrap();
            sent += 1;
        }
        within(transaction.commit()).await.unwrap();
        assert_eq!(b.committed().await.len(), sent);
    }
}

#[tokio::test]
async fn a_send_that_is_dropped_while_it_waits_has_taken_nothing() {
    for profile in both() {
        let b = Bench::new(profile).await;
        let topic = b.topic().await;
        let producer = b.producer("a").batch_size(256).buffer_memory(1000).linger(Duration::MAX);
        let mut transaction = producer.init().await.unwrap().begin();
        let (mut taken, mut dropped) = (Vec::new(), 0);
        for value in numbered("v", 100) {
            let once = {
                let mut sending =
                    std::pin::pin!(transaction.send(&topic, Some(0), RecordRef::value(value.as_bytes())));
                futures::poll!(sending.as_mut())
            };
            if once.is_ready() {
                taken.push(value);
            } else {
                dropped += 1;
                tokio::task::yield_now().await;
            }
        }
        within(transaction.commit()).await.unwrap();
        assert!(dropped > 0, "it never waited");
        assert_eq!(b.committed().await, taken);
    }
}

#[tokio::test]
async fn keys_go_where_the_chosen_partitioner_puts_them() {
    let b = Bench::new(Profile::kafka_4_4()).await;
    // Where librdkafka puts the key "42" in a topic of 12 partitions.
    let by_hand = Partitioner::custom(|_: &Topic, _: &RecordRef<'_>| Some(11));
    let choices = [(Partitioner::default(), 4), (Partitioner::ConsistentRandom, 8), (by_hand, 11)];
    for (n, (partitioner, expected)) in choices.into_iter().enumerate() {
        let name = format!("wide-{n}");
        b.broker.create_topic(&name, 12).unwrap();
        let topic = b.client.topic(&name).await.unwrap();
        let producer = b.producer("a").partitioner(partitioner).init().await.unwrap();
        let mut transaction = producer.begin();
        let record = RecordRef { key: Some(b"42"), ..RecordRef::value(b"v") };
        let placed = transaction.send_tracked(&topic, None, record).await.unwrap();
        let named = transaction.send_tracked(&topic, Some(3), record).await.unwrap();
        transaction.flush().await.unwrap();
        assert_eq!((placed.stored().await, named.stored().await), (Ok(Some(0)), Ok(Some(0))));
        let committable = transaction.prepare().await.unwrap().committable().unwrap();
        let mut partitions: Vec<_> = committable.partitions.iter().map(|p| p.partition).collect();
        partitions.sort_unstable();
        assert_eq!(partitions, [3, expected]);
        b.client.resume(committable).commit().await.unwrap();
    }
}

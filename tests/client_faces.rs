//! The faces of the client for code that does not await each record.
#![cfg(feature = "broker")]

mod kit;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{FutureExt, SinkExt, StreamExt, stream};
use kafka_2pc::{
    broker::{Api, Profile, Reaction},
    client::{Outgoing, SendError, Topic},
    record::{Record, RecordRef},
    sink::{Share, Sink, SinkConfig, SinkState, WriteError},
};
use kit::{Bench, both, within};

fn outgoing(topic: &Topic, value: String) -> Outgoing {
    let headers = vec![(Bytes::from_static(b"h"), None)];
    let record = Record { partition: Some(0), headers, ..Record::value(value) };
    Outgoing { topic: topic.clone(), record }
}

#[tokio::test]
async fn a_sink_of_records_takes_a_stream_and_hands_the_transaction_back() {
    for profile in both() {
        let b = Bench::new(profile).await;
        let topic = b.topic().await;
        let producer = b.producer("a").buffer_memory(4096).batch_size(512).init().await.unwrap();
        let mut sink = producer.begin().into_sink();
        let values: Vec<String> = (0..500).map(|i| format!("record {i:04}")).collect();
        let records = values.iter().map(|v| Ok(outgoing(&topic, v.clone())));
        within(sink.send_all(&mut stream::iter(records))).await.unwrap();
        within(sink.flush()).await.unwrap();
        within(sink.finish()).await.unwrap().commit().await.unwrap();
        assert_eq!(b.committed().await, values);
    }
}

#[tokio::test]
async fn a_record_that_was_taken_is_part_of_the_transaction_without_a_flush() {
    let b = Bench::new(Profile::kafka_4_4()).await;
    let topic = b.topic().await;
    let mut sink =
        b.producer("a").buffer_memory(256).batch_size(128).init().await.unwrap().begin().into_sink();
    for i in 0..20 {
        within(sink.feed(outgoing(&topic, format!("record {i:02}")))).await.unwrap();
    }
    within(sink.finish()).await.unwrap().commit().await.unwrap();
    assert_eq!(b.committed().await.len(), 20);
}

#[tokio::test]
async fn a_flush_is_of_everything_that_was_taken_before_it_ended() {
    let b = Bench::new(Profile::kafka_4_4()).await;
    let topic = b.topic().await;
    let mut sink = b.producer("a").init().await.unwrap().begin().into_sink();
    b.fault(Api::Produce, Reaction::ApplyThenDelay(Duration::from_millis(100)));
    within(sink.feed(outgoing(&topic, "first".into()))).await.unwrap();
    // As a stream is forwarded that pauses: a flush begins, and then there is another record.
    assert!(sink.flush().now_or_never().is_none());
    within(sink.feed(outgoing(&topic, "second".into()))).await.unwrap();
    within(sink.flush()).await.unwrap();
    let stored = b.broker.journal().iter().filter(|e| e.api == Api::Produce).count();
    assert_eq!(stored, 2, "batches that were sent by the end of the flush");
    within(sink.finish()).await.unwrap().commit().await.unwrap();
    assert_eq!(b.committed().await, ["first", "second"]);
}

#[tokio::test]
async fn a_failure_comes_out_of_the_sink() {
    let b = Bench::new(Profile::kafka_4_4()).await;
    let topic = b.topic().await;
    let mut sink = b.producer("a").init().await.unwrap().begin().into_sink();
    b.fault(Api::Produce, Reaction::ErrorCode(29));
    sink.feed(outgoing(&topic, "refused".into())).await.unwrap();
    let error = within(sink.flush()).await.unwrap_err();
    assert!(matches!(error, SendError::Failed(_)), "{error:?}");
    assert!(stream::iter([Ok(outgoing(&topic, "late".into()))]).forward(sink).await.is_err());
}

#[tokio::test]
async fn a_writer_that_must_not_wait_says_that_its_memory_is_full() {
    let b = Bench::new(Profile::kafka_4_4()).await;
    let topic = b.topic().await;
    let mut config = SinkConfig::new("faces").unwrap();
    (config.buffer_bytes, config.batch_bytes) = (1024, 256);
    let config = Arc::new(config);
    let sink = Sink::new(b.client.clone(), Arc::clone(&config), vec![topic.clone()]);
    let share = Share { subtask: 0, total: 1 };
    let (mut writer, _) = sink.recover_share(share, SinkState::default(), &|_| {}).await.unwrap();
    let (mut taken, mut full) = (0, 0);
    while taken < 100 {
        match writer.try_write(&topic, None, RecordRef::value(b"a value of some length")) {
            Ok(()) => taken += 1,
            Err(WriteError::Full) => {
                full += 1;
                tokio::task::yield_now().await;
            }
            Err(e) => panic!("{e}"),
        }
    }
    assert!(full > 0);
    let committable = writer.prepare_commit(1).await.unwrap().unwrap();
    assert_eq!(committable.records(), 100);
    sink.committer().commit(vec![committable]).await;
    assert_eq!(b.committed().await.len(), 100);
}

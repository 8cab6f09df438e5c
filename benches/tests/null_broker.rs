//! The null broker takes what our client sends, and notices what no broker would take.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use bytes::Bytes;
use kafka_2pc::{
    client::{Client, ClientConfig},
    ids::{Identity, ProducerEpoch, ProducerId, TopicId, TransactionalId},
    record::{Compression, RecordRef},
    wire::{
        batch::{BatchBuilder, Stamp},
        produce::{ProduceHead, ProduceTopic, frame},
    },
};
use kafka_2pc_benches::null::{Check, Counters, NullBroker, Pace, Settings};
use kafka_protocol::messages::ApiKey;

fn verifying(partitions: i32, transaction_version: i16) -> Settings {
    Settings { check: Check::Everything, partitions, transaction_version, ..Settings::default() }
}

#[tokio::test]
async fn our_transactions_are_taken_on_both_levels() {
    for level in [1, 2] {
        let broker = NullBroker::start(verifying(3, level)).unwrap();
        let client = Client::new(ClientConfig::new(&broker.bootstrap()).unwrap());
        let topic = client.topic("bench").await.unwrap();
        let mut producer = client.transactional_producer(TransactionalId::new("id")).init().await.unwrap();
        for _ in 0..3 {
            let mut transaction = producer.begin();
            for n in 0..300 {
                transaction.send(&topic, Some(n % 3), RecordRef::value(b"record")).await.unwrap();
            }
            producer = transaction.commit().await.unwrap();
        }
        let counters = broker.counters();
        assert_eq!(counters.faults(), Vec::<String>::new(), "level {level}");
        assert_eq!((counters.records, counters.commits, counters.aborts), (900, 3, 0));
        assert_eq!(counters.of(ApiKey::AddPartitionsToTxn) > 0, level == 1);
    }
}

/// One record as a batch of this sequence.
fn batch(base_sequence: i32) -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    builder.append(&RecordRef::value(b"record"), 0).unwrap();
    let mut batch = builder.seal(Compression::None).unwrap();
    let identity = Identity { producer_id: ProducerId(7), epoch: ProducerEpoch(0) };
    batch.stamp(Stamp::Idempotent { identity, base_sequence });
    batch.freeze().to_vec()
}

/// What the broker counts of these batches, each in a request of its own.
fn counted(settings: Settings, transactional_id: Option<&str>, batches: Vec<Vec<u8>>) -> Counters {
    let broker = NullBroker::start(settings).unwrap();
    let mut stream = TcpStream::connect(broker.bootstrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    for batch in batches {
        let head =
            ProduceHead { version: 11, correlation_id: 1, client_id: None, transactional_id, timeout_ms: 1 };
        let partitions = [(0, Bytes::from(batch))];
        let topics = [ProduceTopic { name: "bench", id: TopicId::UNKNOWN, partitions: &partitions }];
        for piece in frame(&head, &topics).unwrap() {
            stream.write_all(&piece).unwrap();
        }
        let mut length = [0; 4];
        stream.read_exact(&mut length).unwrap();
        stream.read_exact(&mut vec![0; u32::from_be_bytes(length) as usize]).unwrap();
    }
    broker.counters()
}

#[test]
fn batches_that_are_right_have_no_faults() {
    let counters = counted(verifying(1, 2), None, vec![batch(0), batch(1)]);
    assert_eq!((counters.records, counters.faults().len()), (2, 0));
}

#[test]
fn a_flipped_bit_is_a_wrong_checksum() {
    let mut broken = batch(0);
    *broken.last_mut().unwrap() ^= 1;
    assert_eq!(counted(verifying(1, 2), None, vec![broken.clone()]).crc_errors, 1);
    let headers = Settings::default();
    assert_eq!(counted(headers, None, vec![broken]).crc_errors, 0, "nobody looks");
}

#[test]
fn a_batch_that_is_missing_or_comes_twice_is_a_gap() {
    assert_eq!(counted(verifying(1, 2), None, vec![batch(0), batch(2)]).sequence_gaps, 1);
    assert_eq!(counted(verifying(1, 2), None, vec![batch(0), batch(0)]).sequence_gaps, 1);
}

#[test]
fn batches_of_a_transaction_that_nobody_began_are_complained_about() {
    let counters = counted(verifying(1, 1), Some("nobody"), vec![batch(0)]);
    assert!(counters.faults()[0].contains("never initialized"), "{:?}", counters.faults());
}

#[test]
fn a_serial_broker_answers_in_turn() {
    let settings = Settings { pace: Pace::Serial(Duration::from_millis(1)), ..verifying(1, 2) };
    assert_eq!(counted(settings, None, vec![batch(0), batch(1), batch(2)]).of(ApiKey::Produce), 3);
}

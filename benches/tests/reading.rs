//! What is allocated on the way from the broker to the application grows with batches and answers, not with records.
//!
//! As many bytes are read twice, once as few large records and once as many small ones; the broker is a process of its own.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod served;

use std::alloc::System;

use kafka_2pc::{
    client::{Client, ClientConfig, Start},
    ids::{TopicPartition, TransactionalId},
    record::{Compression, RecordRef},
};
use served::Broker;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// So many batches are read.
const BATCHES: u64 = 40;
const BATCH_BYTES: u64 = 128 * 1024;

/// Allocations that one record more may cost: none is made for a record; a batch of more records lets its list grow once more.
const PER_RECORD: f64 = 0.01;
/// Allocations that one batch may cost, with its share of a request and of its answer, and of what is decompressed.
const PER_BATCH: f64 = 12.0;

/// Allocations and growths of buffers while so many records of so many bytes are read.
async fn allocations(compression: Compression, records: u64, bytes: usize) -> usize {
    let broker =
        Broker::start(env!("CARGO_BIN_EXE_bench-transactions"), &["serve", "kafka-4.4", "bench", "1", "0"]);
    let client = Client::new(ClientConfig::new(&broker.bootstrap).unwrap());
    let topic = client.topic("bench").await.unwrap();
    let producer = client.transactional_producer(TransactionalId::new("w")).compression(compression);
    let mut transaction = producer.init().await.unwrap().begin();
    let value: Vec<u8> = (0..=255u8).cycle().take(bytes).collect();
    for _ in 0..records {
        let record = RecordRef { timestamp: Some(1_700_000_000_000), ..RecordRef::value(&value) };
        transaction.send(&topic, Some(0), record).await.unwrap();
    }
    transaction.commit().await.unwrap();
    let mut consumer = client.consumer().build();
    consumer.assign([(TopicPartition::new("bench", 0), Start::Beginning)]);
    let mut seen = u64::try_from(consumer.next_batch().await.unwrap().len()).unwrap();
    let region = Region::new(COUNTING);
    while seen < records {
        let batch = consumer.next_batch().await.unwrap();
        assert!(batch.iter().all(|r| r.record.value.as_ref().unwrap().len() == bytes));
        seen += u64::try_from(batch.len()).unwrap();
    }
    let stats = region.change();
    stats.allocations + stats.reallocations
}

async fn grow_with_batches(compression: Compression) {
    // A record of 1024 bytes has 1033 in its batch, one of 60 has 69.
    let (few, many) = (BATCHES * BATCH_BYTES / 1033, BATCHES * BATCH_BYTES / 69);
    let large = allocations(compression, few, 1024).await;
    let small = allocations(compression, many, 60).await;
    let per_record = (small as f64 - large as f64) / (many - few) as f64;
    let per_batch = large as f64 / BATCHES as f64;
    println!(
        "{compression}: {large} with {few} records, {small} with {many}: {per_record:.5} by record, {per_batch:.1} by batch"
    );
    assert!(per_record <= PER_RECORD, "{per_record} allocations by record: {small} and {large}");
    assert!(per_batch <= PER_BATCH, "{per_batch} allocations by batch");
}

/// One after the other: what is counted is the whole process's.
#[tokio::test]
async fn they_grow_with_batches_and_not_with_records() {
    grow_with_batches(Compression::None).await;
    grow_with_batches(Compression::Lz4).await;
}

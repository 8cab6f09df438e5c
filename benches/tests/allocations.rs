//! Row E4: what is allocated on the way from a record to the broker grows with batches and requests, not with records.
//!
//! The same number of batches is sent twice, once with few large records and once with many small ones. The broker is a
//! process of its own, so that what is counted is the client's.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod served;

use std::alloc::System;

use kafka_2pc::{
    client::{Client, ClientConfig},
    ids::TransactionalId,
    record::RecordRef,
};
use served::Broker;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// So many batches are filled in each run.
const BATCHES: u64 = 40;
const BATCH_BYTES: u64 = 128 * 1024;

/// Allocations that one record more may cost. None is made for a record; a batch of more records lets a few buffers grow once
/// more, by doubling.
const PER_RECORD: f64 = 0.01;
/// Allocations and growths of buffers that one batch may cost beside its records, with its share of a request and of its
/// answer.
const PER_BATCH: f64 = 60.0;

/// Allocations and reallocations while so many records of so many bytes are sent and acknowledged.
async fn allocations(bootstrap: &str, id: &str, records: u64, bytes: usize) -> usize {
    let client = Client::new(ClientConfig::new(bootstrap).unwrap());
    let topic = client.topic("bench").await.unwrap();
    let producer = client.transactional_producer(TransactionalId::new(id)).init().await.unwrap();
    let value = vec![7; bytes];
    let mut transaction = producer.begin();
    transaction.send(&topic, Some(0), RecordRef::value(&value)).await.unwrap();
    transaction.flush().await.unwrap();
    let region = Region::new(COUNTING);
    for _ in 0..records {
        // No clock is read for it, and no batch is closed for its age.
        let record = RecordRef { timestamp: Some(1_700_000_000_000), ..RecordRef::value(&value) };
        transaction.send(&topic, Some(0), record).await.unwrap();
    }
    transaction.flush().await.unwrap();
    let stats = region.change();
    transaction.commit().await.unwrap();
    stats.allocations + stats.reallocations
}

#[tokio::test]
async fn they_grow_with_batches_and_not_with_records() {
    let broker = Broker::start(env!("CARGO_BIN_EXE_null-broker"), &[]);
    // A record of 1024 bytes has 1033 in its batch, one of 60 has 69.
    let (few, many) = (BATCHES * BATCH_BYTES / 1033, BATCHES * BATCH_BYTES / 69);
    let large = allocations(&broker.bootstrap, "large", few, 1024).await;
    let small = allocations(&broker.bootstrap, "small", many, 60).await;
    let per_record = (small as f64 - large as f64) / (many - few) as f64;
    let per_batch = (large as f64 - per_record * few as f64) / BATCHES as f64;
    println!(
        "{large} with {few} records, {small} with {many}: {per_record:.5} by record, {per_batch:.1} by batch"
    );
    assert!(per_record <= PER_RECORD, "{per_record} allocations by record: {small} and {large}");
    assert!(per_batch <= PER_BATCH, "{per_batch} allocations by batch");
}

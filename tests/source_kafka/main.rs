//! The Kafka source against the embedded broker.
#![cfg(feature = "broker")]
#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "../kit/mod.rs"]
mod kit;

mod bounds;
mod discovery;
mod failures;
mod places;
mod restore;

use std::{collections::BTreeMap, time::Duration};

use kafka_2pc::{
    client::{Client, Isolation, OffsetAt, Transaction},
    ids::{TopicPartition, TransactionalId},
    record::{Record, RecordRef},
    source::{KafkaSource, Source, SourceError, SourceReader, SplitState, Subtask},
};
use kit::within;

/// A source of these topics that does not wait long for records.
fn source(client: &Client, topics: &[&str]) -> KafkaSource {
    KafkaSource::new(client, topics.iter().copied()).max_wait(Duration::from_millis(20))
}

fn place(topic: &str, partition: i32) -> TopicPartition {
    TopicPartition::new(topic, partition)
}

/// An open transaction with these values, flushed, in batches of a few.
async fn open(client: &Client, id: &str, to: &TopicPartition, values: &[String]) -> Transaction {
    let topic = client.topic(&to.topic).await.unwrap();
    let producer = client.transactional_producer(TransactionalId::new(id)).batch_size(100);
    let mut transaction = producer.init().await.unwrap().begin();
    for value in values {
        transaction.send(&topic, Some(to.partition), RecordRef::value(value.as_bytes())).await.unwrap();
    }
    transaction.flush().await.unwrap();
    transaction
}

async fn commit(client: &Client, id: &str, to: &TopicPartition, values: &[String]) {
    open(client, id, to, values).await.commit().await.unwrap();
    settled(client, to).await;
}

async fn abort(client: &Client, id: &str, to: &TopicPartition, values: &[String]) {
    open(client, id, to, values).await.abort().await.unwrap();
    settled(client, to).await;
}

/// Waits for the markers: they come a moment after the answer.
async fn settled(client: &Client, at: &TopicPartition) {
    within(async {
        while end(client, at, Isolation::Committed).await != end(client, at, Isolation::Uncommitted).await {}
    })
    .await;
}

async fn end(client: &Client, at: &TopicPartition, isolation: Isolation) -> i64 {
    let found = client.list_offsets(isolation, [(at.clone(), OffsetAt::Latest)]).await.unwrap();
    found[at].unwrap()
}

fn text(record: &Record) -> String {
    String::from_utf8(record.value.as_deref().unwrap().to_vec()).unwrap()
}

async fn opened(source: &KafkaSource, kept: &[SplitState]) -> Box<dyn SourceReader> {
    within(source.open(Subtask::ONLY, kept)).await.unwrap()
}

async fn refused(source: &KafkaSource, kept: &[SplitState]) -> SourceError {
    within(source.open(Subtask::ONLY, kept)).await.err().unwrap()
}

/// The values of at most so many batches, up to the end.
async fn read(reader: &mut dyn SourceReader, batches: usize) -> Vec<String> {
    let mut seen = Vec::new();
    for _ in 0..batches {
        match within(reader.next()).await.unwrap() {
            None => break,
            Some(records) => {
                assert!(!records.is_empty());
                seen.extend(records.iter().map(text));
            }
        }
    }
    seen
}

/// So many values of a source without an end.
async fn some(reader: &mut dyn SourceReader, count: usize) -> Vec<String> {
    let mut seen = Vec::new();
    while seen.len() < count {
        seen.extend(within(reader.next()).await.unwrap().unwrap().iter().map(text));
    }
    seen
}

/// True if nothing comes for a while.
async fn is_silent(reader: &mut dyn SourceReader) -> bool {
    tokio::time::timeout(Duration::from_millis(150), reader.next()).await.is_err()
}

/// Where a reader stands in each partition.
fn offsets(reader: &dyn SourceReader) -> BTreeMap<TopicPartition, i64> {
    let offsets = KafkaSource::offsets(&reader.snapshot()).unwrap();
    offsets.into_iter().map(|o| (o.partition, o.offset)).collect()
}

fn sorted(mut values: Vec<String>) -> Vec<String> {
    values.sort();
    values
}

/// Committed and aborted transactions, in turn, with `count` records in each. Gives what is committed.
async fn mixed(client: &Client, to: &TopicPartition, transactions: usize, count: usize) -> Vec<String> {
    let mut committed = Vec::new();
    for n in 0..transactions {
        let values = kit::numbered(&format!("{}-{}/{n}/", to.topic, to.partition), count);
        let id = format!("mixed-{}-{}", to.topic, to.partition);
        if n % 3 == 1 {
            abort(client, &id, to, &values).await;
        } else {
            commit(client, &id, to, &values).await;
            committed.extend(values);
        }
    }
    committed
}

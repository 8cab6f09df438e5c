//! What is in the topics: records of every shape, and how to compare them.

use std::{error::Error, time::Duration};

use kafka_2pc::{
    client::{Client, Isolation, Start},
    ids::{TopicPartition, TransactionalId},
    record::{HeaderRef, RecordRef},
};

/// Key, value, headers and timestamp.
type Parts = (Option<Vec<u8>>, Option<Vec<u8>>, Vec<(Vec<u8>, Option<Vec<u8>>)>, i64);

/// Every committed record: its partition, and the rest, in the order of its partition.
pub(super) type Contents = Vec<(i32, Parts)>;

/// Writes 90 records from number `first` on, and in between some that are aborted. Gives the number of the committed ones.
pub(crate) async fn fill(client: &Client, name: &str, first: u64) -> Result<u64, Box<dyn Error>> {
    let topic = client.topic(name).await?;
    let producer = client.transactional_producer(TransactionalId::new("filler"));
    let mut producer = producer.batch_size(300).init().await?;
    let mut committed = 0;
    for turn in 0..4 {
        let mut transaction = producer.begin();
        for number in (0..30).map(|n| first + turn * 30 + n) {
            let (key, value) = (format!("key-{}", number % 7), format!("value-{number}"));
            let headers = [
                HeaderRef { key: b"same", value: Some(value.as_bytes()) },
                HeaderRef { key: b"same", value: Some(b"") },
                HeaderRef { key: b"null", value: None },
                HeaderRef { key: b"\xff\x00", value: Some(b"\x00\xff") },
            ];
            let record = RecordRef {
                key: (number % 3 > 0).then_some(key.as_bytes()),
                value: (number % 11 > 0).then_some(value.as_bytes()),
                headers: &headers[..usize::try_from(number % 5)?],
                timestamp: Some(1_700_000_000_000 + i64::try_from(number * 37 % 1_000)?),
            };
            let partition = i32::try_from(number)? % topic.partitions();
            transaction.send(&topic, Some(partition), record).await?;
        }
        producer = if turn == 2 {
            transaction.abort().await?
        } else {
            committed += 30;
            transaction.commit().await?
        };
    }
    Ok(committed)
}

/// All that a reader of committed records sees, when no transaction is open any more.
pub(super) async fn contents(client: &Client, name: &str) -> Result<Contents, Box<dyn Error>> {
    let topic = client.topic(name).await?;
    let mut found = Vec::new();
    for partition in 0..topic.partitions() {
        let place = TopicPartition::new(name, partition);
        let mut consumer = client.consumer().max_wait(Duration::from_millis(5)).build();
        consumer.assign([(place.clone(), Start::Beginning)]);
        let end = loop {
            let stable = consumer.end_offsets(Isolation::Committed).await?[&place];
            if stable == consumer.end_offsets(Isolation::Uncommitted).await?[&place] {
                break stable;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        while consumer.position(&place).is_none_or(|at| at < end) {
            for read in consumer.poll(Duration::from_millis(20)).await? {
                let bytes = |part: &Option<bytes::Bytes>| part.as_ref().map(|part| part.to_vec());
                let record = read.record;
                let headers = record.headers.iter().map(|h| (h.key.to_vec(), bytes(&h.value))).collect();
                let parts = (bytes(&record.key), bytes(&record.value), headers, record.timestamp);
                found.push((partition, parts));
            }
        }
    }
    Ok(found)
}

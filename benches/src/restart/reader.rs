//! A reader of committed records that waits at the end of a topic.

use std::time::Duration;

use anyhow::Result;
use kafka_2pc::{
    client::{Client, ClientConfig, Consumer, Start},
    ids::TopicPartition,
};

pub(crate) struct Reader(Consumer);

impl Reader {
    /// It is connected, and waits, when this returns.
    pub(crate) async fn new(bootstrap: &str, topic: &str) -> Result<Self> {
        let client = Client::new(ClientConfig::new(bootstrap)?);
        let topic = client.topic(topic).await?;
        let mut consumer = client.consumer().max_wait(Duration::from_millis(500)).build();
        let places = (0..topic.partitions()).map(|p| TopicPartition::new(topic.name().clone(), p));
        consumer.assign(places.map(|place| (place, Start::Beginning)));
        // What is there already.
        while !consumer.poll(Duration::from_millis(200)).await?.is_empty() {}
        Ok(Self(consumer))
    }

    /// Waits for a line of at least this number.
    pub(crate) async fn sees(&mut self, first: u64) -> Result<()> {
        loop {
            for record in self.0.next_batch().await? {
                let line = record.record.value.unwrap_or_default();
                if std::str::from_utf8(&line)?.parse::<u64>()? >= first {
                    return Ok(());
                }
            }
        }
    }
}

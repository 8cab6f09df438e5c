//! What rows write and read without the client: records outside of transactions, and logs batch by batch.

use bytes::Bytes;
use kafka_2pc::client::Topic;
use kafka_2pc::ids::{Identity, TopicPartition};
use kafka_2pc::record::{Compression, RecordRef};
use kafka_2pc::wire::batch::{Batch, BatchBuilder, Batches, Stamp};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{
    FetchRequest, InitProducerIdRequest, MetadataRequest, ProduceRequest, TopicName,
};
use kafka_protocol::protocol::StrBytes;

use super::Bench;
use crate::outcome::{Failure, Shown, equal};
use crate::raw::{Raw, identity};

impl Bench {
    /// Writes values outside of any transaction, in one batch; the offset of the first.
    ///
    /// # Errors
    /// They are refused.
    pub async fn write_plain(&self, topic: &Topic, partition: i32, values: &[&str]) -> Result<i64, Failure> {
        let records: Vec<_> = values.iter().map(|value| RecordRef::value(value.as_bytes())).collect();
        self.produce(topic, partition, (&records, Stamp::Anonymous)).await
    }

    /// The same under a key, alone in its batch, to the first partition.
    ///
    /// # Errors
    /// It is refused.
    pub async fn write_keyed(&self, topic: &Topic, key: &str, value: &str) -> Shown {
        let record = RecordRef::value(value.as_bytes()).with_key(key.as_bytes());
        self.produce(topic, 0, (&[record], Stamp::Anonymous)).await.map(|_| ())
    }

    /// The same by an idempotent producer that nobody has seen before.
    ///
    /// # Errors
    /// It is refused.
    pub async fn write_idempotent(&self, topic: &Topic, key: &str, value: &str) -> Shown {
        let identity = self.new_identity().await?;
        let record = RecordRef::value(value.as_bytes()).with_key(key.as_bytes());
        self.produce(topic, 0, (&[record], Stamp::Idempotent { identity, base_sequence: 0 }))
            .await
            .map(|_| ())
    }

    /// Writes values to the first partition of a topic in one batch, under the identity of an idempotent producer and from
    /// this sequence on; the offset of the first.
    ///
    /// # Errors
    /// They are refused.
    pub async fn write_as(
        &self,
        topic: &Topic,
        (identity, base_sequence): (Identity, i32),
        values: &[&str],
    ) -> Result<i64, Failure> {
        let records: Vec<_> = values.iter().map(|value| RecordRef::value(value.as_bytes())).collect();
        self.produce(topic, 0, (&records, Stamp::Idempotent { identity, base_sequence })).await
    }

    /// A producer id that nobody has seen before, with its first epoch.
    ///
    /// # Errors
    /// None is granted.
    pub async fn new_identity(&self) -> Result<Identity, Failure> {
        let request = InitProducerIdRequest::default()
            .with_transactional_id(None)
            .with_producer_id((-1).into())
            .with_producer_epoch(-1);
        let granted = self.raw().await?.ask(4, &request).await?;
        equal("the answer to InitProducerId", granted.error_code, 0)?;
        Ok(identity(granted.producer_id, granted.producer_epoch))
    }

    async fn produce(
        &self,
        topic: &Topic,
        partition: i32,
        (records, stamp): (&[RecordRef<'_>], Stamp),
    ) -> Result<i64, Failure> {
        let now = i64::try_from(std::time::UNIX_EPOCH.elapsed()?.as_millis())?;
        let mut builder = BatchBuilder::new();
        for record in records {
            builder.append(record, now)?;
        }
        let mut batch = builder.seal(Compression::None)?;
        batch.stamp(stamp);
        let data = PartitionProduceData::default().with_index(partition).with_records(Some(batch.freeze()));
        let data = TopicProduceData::default().with_name(name(topic)).with_partition_data(vec![data]);
        let request =
            ProduceRequest::default().with_acks(-1).with_timeout_ms(10_000).with_topic_data(vec![data]);
        let answer = self.at_leader(topic, partition).await?.ask(9, &request).await?;
        let partitions = answer.responses.iter().flat_map(|t| &t.partition_responses);
        let stored: Vec<_> = partitions.map(|p| (p.error_code, p.base_offset)).collect();
        match stored[..] {
            [(0, offset)] => Ok(offset),
            _ => Err(Failure::wrong(format!("a Produce was answered {stored:?}"))),
        }
    }

    /// Every batch in the first partition of a topic, whatever it holds.
    ///
    /// # Errors
    /// It can't be read.
    pub async fn log(&self, topic: &Topic) -> Result<Vec<Batch>, Failure> {
        let mut raw = self.at_leader(topic, 0).await?;
        let mut all: Vec<Batch> = Vec::new();
        loop {
            let from = all.last().map_or(0, |batch| batch.header().next_offset());
            let partition = FetchPartition::default()
                .with_current_leader_epoch(-1)
                .with_fetch_offset(from)
                .with_log_start_offset(-1)
                .with_partition_max_bytes(1 << 20);
            let wanted = FetchTopic::default().with_topic(name(topic)).with_partitions(vec![partition]);
            let request = FetchRequest::default()
                .with_replica_id((-1).into())
                .with_max_bytes(1 << 20)
                .with_session_epoch(-1)
                .with_topics(vec![wanted]);
            let answer = raw.ask(11, &request).await?;
            let found = answer.responses.into_iter().flat_map(|t| t.partitions).next();
            let found = found.ok_or_else(|| Failure::wrong("a Fetch was answered without its partition"))?;
            equal("the answer to Fetch", found.error_code, 0)?;
            let before = all.len();
            for batch in Batches::new(found.records.unwrap_or_else(Bytes::new)) {
                all.push(batch?);
            }
            if all.len() == before {
                return Ok(all);
            }
        }
    }

    async fn at_leader(&self, topic: &Topic, partition: i32) -> Result<Raw, Failure> {
        let at = TopicPartition::new(topic.name().clone(), partition);
        let (leader, _) = self.leader(&at).await?;
        let known = self.raw().await?.ask(4, &MetadataRequest::default()).await?;
        let broker = known.brokers.iter().find(|broker| broker.node_id.0 == leader);
        let broker = broker.ok_or_else(|| Failure::wrong(format!("nobody leads {at}")))?;
        Raw::connect(&self.net(), &format!("{}:{}", &*broker.host, broker.port)).await
    }
}

fn name(topic: &Topic) -> TopicName {
    TopicName(StrBytes::from_string(topic.name().to_string()))
}

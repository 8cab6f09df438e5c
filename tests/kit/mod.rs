//! What tests of the client and the sink share: a broker, a client, and a reader of what is committed.
#![expect(clippy::unwrap_used, reason = "a test ends where something is missing")]
#![allow(
    unreachable_pub,
    dead_code,
    reason = "a module of several test binaries, some of which use all of it and some a part"
)]

pub mod job;

use std::{future::Future, sync::Arc, time::Duration};

use kafka_2pc::{
    broker::{Api, Broker, BrokerConfig, Fault, Network, Profile, Reaction},
    client::{Client, ClientConfig, Isolation, Prepared, ProducerBuilder, Start, Topic, Transaction},
    ids::{TopicPartition, TransactionalId},
    proto::committable::Committable,
    record::RecordRef,
};

/// The name of the one topic that most tests need.
pub const TOPIC: &str = "t";

/// A cluster, and one client of it.
pub struct Bench {
    pub broker: Broker,
    pub client: Client,
}

/// Kafka 4.4 with transactions V2 and V1.
pub fn both() -> [Profile; 2] {
    [Profile::kafka_4_4(), Profile::kafka_4_4_v1()]
}

impl Bench {
    /// One node with [`TOPIC`] of two partitions.
    pub async fn new(profile: Profile) -> Self {
        Self::with(BrokerConfig { profile, ..BrokerConfig::default() }).await
    }

    /// A cluster with [`TOPIC`] of two partitions.
    pub async fn with(config: BrokerConfig) -> Self {
        let broker = Broker::start(config).await.unwrap();
        broker.create_topic(TOPIC, 2).unwrap();
        let client = client_for(&broker);
        Self { broker, client }
    }

    /// One node in memory, for a clock that stands still.
    pub async fn in_memory(profile: Profile) -> Self {
        Self::with(BrokerConfig { profile, network: Network::Memory, ..BrokerConfig::default() }).await
    }

    pub async fn topic(&self) -> Topic {
        self.client.topic(TOPIC).await.unwrap()
    }

    pub fn producer(&self, id: &str) -> ProducerBuilder {
        self.client.transactional_producer(TransactionalId::new(id))
    }

    /// An open transaction of a new owner of `id` with one flushed record per value, all on partition 0.
    pub async fn open(&self, id: &str, values: &[&str]) -> Transaction {
        let mut transaction = self.producer(id).init().await.unwrap().begin();
        self.write(&mut transaction, values).await;
        transaction
    }

    /// A prepared transaction of a new owner of `id`.
    pub async fn prepared(&self, id: &str, values: &[&str]) -> Committable {
        match self.open(id, values).await.prepare().await.unwrap() {
            Prepared::Ready(committable) => committable,
            other => panic!("nothing was written: {other:?}"),
        }
    }

    /// Writes values to partition 0, and flushes.
    pub async fn write(&self, transaction: &mut Transaction, values: &[&str]) {
        let topic = self.topic().await;
        for value in values {
            transaction.send(&topic, Some(0), RecordRef::value(value.as_bytes())).await.unwrap();
        }
        transaction.flush().await.unwrap();
    }

    /// The next request of an API meets this.
    pub fn fault(&self, api: Api, reaction: Reaction) {
        self.broker.inject(Fault::on(api, reaction));
    }

    /// Every value that a reader of committed records sees in [`TOPIC`], in order per partition. Waits until no
    /// transaction is open any more.
    pub async fn committed(&self) -> Vec<String> {
        within(async {
            loop {
                let (stable, all) =
                    (self.ends(Isolation::Committed).await, self.ends(Isolation::Uncommitted).await);
                if stable == all {
                    return self.visible().await;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await
    }

    /// What a reader of committed records sees now.
    pub async fn visible(&self) -> Vec<String> {
        visible(&self.client, TOPIC).await
    }

    async fn ends(&self, isolation: Isolation) -> Vec<i64> {
        let mut consumer = self.client.consumer().build();
        let topic = self.topic().await;
        consumer.assign(places(&topic).map(|p| (p, Start::Beginning)));
        let ends = consumer.end_offsets(isolation).await.unwrap();
        places(&topic).map(|p| ends[&p]).collect()
    }
}

fn places(topic: &Topic) -> impl Iterator<Item = TopicPartition> + use<> {
    let name = topic.name().clone();
    (0..topic.partitions()).map(move |i| TopicPartition::new(name.clone(), i))
}

/// What a reader of committed records sees in a topic now, in order per partition.
pub async fn visible(client: &Client, topic: &str) -> Vec<String> {
    let topic = within(client.topic(topic)).await.unwrap();
    let mut values = Vec::new();
    for place in places(&topic) {
        let mut consumer =
            client.consumer().isolation(Isolation::Committed).max_wait(Duration::from_millis(5)).build();
        consumer.assign([(place.clone(), Start::Beginning)]);
        let end = consumer.end_offsets(Isolation::Committed).await.unwrap()[&place];
        while consumer.position(&place).is_none_or(|at| at < end) {
            for r in within(consumer.poll(Duration::from_millis(20))).await.unwrap() {
                values.push(String::from_utf8(r.record.value.unwrap().to_vec()).unwrap());
            }
        }
    }
    values
}

/// A client of its own.
pub fn client_for(broker: &Broker) -> Client {
    let dialer = broker.dialer();
    // Hosts of nodes in memory have names; the others are addresses.
    if broker.bootstrap().starts_with("node-") {
        let connector = move |host: &str, port| dialer.connect(host, port);
        return Client::with_connector(config_for(broker), Arc::new(connector));
    }
    Client::new(config_for(broker))
}

/// Settings of a client that gives up soon.
pub fn config_for(broker: &Broker) -> ClientConfig {
    ClientConfig::new(&broker.bootstrap()).unwrap().max_block(Duration::from_secs(10))
}

/// The test hangs if this takes long.
pub async fn within<F: Future>(work: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(20), work).await.expect("this must not take so long")
}

/// `values[..n]` as text, `a0, a1, ..`.
pub fn numbered(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|i| format!("{prefix}{i}")).collect()
}

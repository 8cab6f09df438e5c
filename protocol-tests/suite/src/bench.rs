//! What the body of a row stands on.

mod changes;
mod log;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use kafka_2pc::broker::{Broker, BrokerConfig, Network};
use kafka_2pc::client::{Client, ClientConfig, Isolation, ProducerBuilder, Start, Topic, Transaction};
use kafka_2pc::ids::{TopicPartition, TransactionalId};
use kafka_2pc::record::RecordRef;
use kafka_2pc_protocol_tests::foreign::{Library, Reading, Venv};
use kafka_2pc_protocol_tests::kafka::{self, KafkaCluster};

use crate::arm::Arm;
use crate::net::Net;
use crate::outcome::{Failure, Shown, holds};
use crate::raw::Raw;
use crate::tap::Tap;
use crate::trace::Trace;

/// One row on one arm: a cluster, a tap, a trace.
#[derive(Debug)]
pub struct Bench {
    arm: Arm,
    world: World,
    /// Between every client of [`client`](Self::client) and the brokers.
    pub tap: Tap,
    /// What the client sees.
    pub trace: Trace,
}

/// What is at the other end.
#[derive(Debug, Clone)]
pub enum World {
    /// Nothing.
    None,
    /// A broker of this process, for this row alone, in memory.
    Embedded(Arc<Broker>),
    /// A cluster that was started here, shared with other rows.
    Real(Arc<KafkaCluster>),
    /// A cluster that somebody named.
    Given(String),
}

impl World {
    /// An embedded cluster that needs no operating system, so that the clock may stand still.
    pub(crate) async fn start(config: BrokerConfig) -> Result<Self, Failure> {
        let broker = Broker::start(BrokerConfig { network: Network::Memory, ..config }).await?;
        Ok(Self::Embedded(Arc::new(broker)))
    }

    fn net(&self) -> Net {
        match self {
            Self::Embedded(broker) => Net::Memory(broker.dialer()),
            Self::None | Self::Real(_) | Self::Given(_) => Net::Tcp,
        }
    }
}

/// How long a body may wait for anything.
pub const PATIENCE: Duration = Duration::from_secs(40);

impl Bench {
    pub(crate) fn new(arm: Arm, world: World) -> Self {
        let tap = Tap::on(world.net());
        Self { arm, world, tap, trace: Trace::default() }
    }

    /// The arm.
    #[must_use]
    pub const fn arm(&self) -> &Arm {
        &self.arm
    }

    /// True where transactions V2 are in use.
    #[must_use]
    pub const fn v2(&self) -> bool {
        self.arm.level() == 2
    }

    /// `bootstrap.servers`.
    #[must_use]
    pub fn bootstrap(&self) -> String {
        match &self.world {
            World::None => String::new(),
            World::Embedded(broker) => broker.bootstrap(),
            World::Real(cluster) => cluster.bootstrap(),
            World::Given(bootstrap) => bootstrap.clone(),
        }
    }

    /// The address of the first broker, for what is sent without a client.
    #[must_use]
    pub fn address(&self) -> String {
        let bootstrap = self.bootstrap();
        bootstrap.split(',').next().unwrap_or_default().to_owned()
    }

    /// How its brokers are reached.
    #[must_use]
    pub fn net(&self) -> Net {
        self.world.net()
    }

    /// A connection to the first broker, for what is sent without a client.
    ///
    /// # Errors
    /// Nobody listens there.
    pub async fn raw(&self) -> Result<Raw, Failure> {
        Raw::connect(&self.net(), &self.address()).await
    }

    /// Lets an idle id look as if it had been used very often: its next initialization grants `epoch`, of which 32766 is
    /// the last of a producer id. On real brokers it really is used so often, which takes seconds.
    ///
    /// # Errors
    /// The id is not idle.
    pub async fn wear_out(&self, id: &TransactionalId, epoch: i16) -> Shown {
        let mut raw = self.raw().await?;
        match &self.world {
            World::Embedded(broker) => {
                if broker.wear_out(id.as_str(), epoch) {
                    return Ok(());
                }
                raw.wear_out(id, 1).await?;
                holds(broker.wear_out(id.as_str(), epoch), "the id is not idle")
            }
            _ => raw.wear_out(id, epoch).await,
        }
    }

    /// The embedded broker, for rows that bend it.
    ///
    /// # Errors
    /// [`Failure::NotOffered`] on any other arm.
    pub fn embedded(&self) -> Result<&Broker, Failure> {
        match &self.world {
            World::Embedded(broker) => Ok(broker),
            _ => Err(Failure::not_offered("only the embedded broker can be bent like that")),
        }
    }

    /// Another embedded broker of the same profile, with other settings, for rows that need them from the start.
    ///
    /// # Errors
    /// [`Failure::NotOffered`] on any other arm.
    pub async fn another(&self, change: impl FnOnce(&mut BrokerConfig)) -> Result<Self, Failure> {
        let Arm::Embedded(profile) = &self.arm else {
            self.embedded().map(|_| ())?;
            unreachable!()
        };
        let mut config = BrokerConfig { profile: profile.clone(), ..BrokerConfig::default() };
        change(&mut config);
        let world = World::start(config).await?;
        Ok(Self {
            arm: self.arm.clone(),
            tap: self.tap.moved_to(world.net()),
            world,
            trace: self.trace.clone(),
        })
    }

    /// The same cluster behind another tap, with a trace of its own.
    #[must_use]
    pub fn with_another_tap(&self) -> Self {
        Self::new(self.arm.clone(), self.world.clone())
    }

    /// Settings of a client that gives up before the row does.
    ///
    /// # Errors
    /// There is no cluster on this arm.
    pub fn config(&self) -> Result<ClientConfig, Failure> {
        Ok(ClientConfig::new(&self.bootstrap())?.max_block(Duration::from_secs(20)))
    }

    /// A client behind the tap.
    ///
    /// # Errors
    /// There is no cluster on this arm.
    pub fn client(&self) -> Result<Client, Failure> {
        Ok(self.client_of(self.config()?))
    }

    /// A client that the tap does not see.
    ///
    /// # Errors
    /// There is no cluster on this arm.
    pub fn untapped(&self) -> Result<Client, Failure> {
        Ok(Client::with_connector(self.config()?, Arc::new(self.net())))
    }

    /// The same as [`client`](Self::client) with settings of the row's own.
    #[must_use]
    pub fn client_of(&self, config: ClientConfig) -> Client {
        Client::with_connector(config, Arc::new(self.tap.clone()))
    }

    /// A transactional id that nobody used before.
    #[must_use]
    pub fn id(&self, name: &str) -> TransactionalId {
        TransactionalId::new(&*fresh(name))
    }

    /// A new topic, as seen by `client`.
    ///
    /// # Errors
    /// The cluster does not create it.
    pub async fn topic(&self, client: &Client, partitions: i32) -> Result<Topic, Failure> {
        let name = fresh("topic");
        match &self.world {
            World::Embedded(broker) => {
                broker.create_topic(&name, partitions)?;
            }
            _ => self.make_topic(kafka::Topic::new(&name, partitions)).await?,
        }
        Ok(within(client.topic(&name)).await??)
    }

    /// The version of real Kafka that was started for this.
    #[must_use]
    pub fn kafka_version(&self) -> Option<&str> {
        match &self.arm {
            Arm::Real(spec) => Some(&spec.version),
            Arm::Unit | Arm::Embedded(_) | Arm::Given(_) => None,
        }
    }

    /// Notes a call and how it ended in the trace, and hands the result on. Only the kind of an error is noted, as the
    /// text up to its first `:` or `(` says it.
    ///
    /// # Errors
    /// Those of `result`.
    pub fn step<T, E: fmt::Display>(&self, call: &str, result: Result<T, E>) -> Result<T, E> {
        match &result {
            Ok(_) => self.trace.call(&self.tap, call, "ok"),
            Err(e) => {
                let text = e.to_string();
                let kind = text.split([':', '(']).next().unwrap_or_default().trim();
                self.trace.call(&self.tap, call, kind);
            }
        }
        result
    }

    /// A producer of `id` that has its identity.
    ///
    /// # Errors
    /// It does not get one.
    pub async fn init(
        &self,
        client: &Client,
        id: &TransactionalId,
    ) -> Result<kafka_2pc::client::TransactionalProducer, Failure> {
        self.init_of(client.transactional_producer(id.clone())).await
    }

    /// The same with settings of the row's own.
    ///
    /// # Errors
    /// It does not get an identity.
    pub async fn init_of(
        &self,
        builder: ProducerBuilder,
    ) -> Result<kafka_2pc::client::TransactionalProducer, Failure> {
        Ok(self.step("init", within(builder.init()).await?)?)
    }

    /// Writes values to a partition, and flushes.
    ///
    /// # Errors
    /// A record is refused.
    pub async fn write(
        &self,
        transaction: &mut Transaction,
        topic: &Topic,
        partition: i32,
        values: &[&str],
    ) -> Shown {
        for value in values {
            within(transaction.send(topic, Some(partition), RecordRef::value(value.as_bytes()))).await??;
        }
        Ok(self.step("flush", within(transaction.flush()).await?)?)
    }

    /// Every value that a reader of committed records sees in a topic, in order per partition, once no transaction is open
    /// in it any more. On real brokers librdkafka reads it too, and must see the same.
    ///
    /// # Errors
    /// It can't be read, or the readers disagree.
    pub async fn committed(&self, topic: &Topic) -> Result<Vec<String>, Failure> {
        let reader = self.untapped()?;
        let topic = within(reader.topic(topic.name())).await??;
        within(async {
            while self.ends(&reader, &topic, Isolation::Committed).await?
                != self.ends(&reader, &topic, Isolation::Uncommitted).await?
            {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Ok::<_, Failure>(())
        })
        .await??;
        self.visible(&topic).await
    }

    /// What a reader of committed records sees now. On real brokers librdkafka reads it too, and must see the same.
    ///
    /// # Errors
    /// As for [`committed`](Self::committed).
    pub async fn visible(&self, topic: &Topic) -> Result<Vec<String>, Failure> {
        let ours = self.read(topic, Isolation::Committed).await?;
        if self.arm.is_real() {
            let (bootstrap, name) = (self.bootstrap(), topic.name().to_string());
            let theirs = blocking(move || -> Result<Vec<String>, Failure> {
                let reading = Reading::committed(Library::Confluent, &bootstrap, &name);
                let mut records = venv()?.read(&reading)?;
                records.sort_by_key(|record| (record.partition, record.offset));
                Ok(records.iter().map(kafka_2pc_protocol_tests::foreign::Record::text).collect())
            })
            .await??;
            crate::outcome::equal("librdkafka reads", &theirs, &ours)?;
        }
        Ok(ours)
    }

    /// What our own reader sees up to the end of its isolation.
    ///
    /// # Errors
    /// It can't be read.
    pub async fn read(&self, topic: &Topic, isolation: Isolation) -> Result<Vec<String>, Failure> {
        let reader = self.untapped()?;
        let mut values = Vec::new();
        for place in places(topic) {
            let mut consumer =
                reader.consumer().isolation(isolation).max_wait(Duration::from_millis(5)).build();
            consumer.assign([(place.clone(), Start::Beginning)]);
            let end = within(consumer.end_offsets(isolation)).await??[&place];
            while consumer.position(&place).is_none_or(|at| at < end) {
                for r in within(consumer.poll(Duration::from_millis(20))).await?? {
                    values.push(String::from_utf8_lossy(&r.record.value.unwrap_or_default()).into_owned());
                }
            }
        }
        Ok(values)
    }

    async fn ends(&self, reader: &Client, topic: &Topic, isolation: Isolation) -> Result<Vec<i64>, Failure> {
        let mut consumer = reader.consumer().build();
        consumer.assign(places(topic).map(|p| (p, Start::Beginning)));
        let ends = within(consumer.end_offsets(isolation)).await??;
        Ok(places(topic).map(|p| ends[&p]).collect())
    }

    /// Kills a node, as `kill -9` does.
    ///
    /// # Errors
    /// The arm gives no power over its nodes.
    pub async fn kill_node(&self, node: i32) -> Shown {
        self.on_node(node, Broker::stop_node, KafkaCluster::kill).await
    }

    /// Starts a killed node again.
    ///
    /// # Errors
    /// The arm gives no power over its nodes.
    pub async fn start_node(&self, node: i32) -> Shown {
        self.on_node(node, Broker::start_node, KafkaCluster::start_node).await
    }

    async fn on_node<B>(
        &self,
        node: i32,
        embedded: B,
        real: fn(&KafkaCluster, u8) -> Result<(), kafka::KafkaError>,
    ) -> Shown
    where
        B: AsyncFn(&Broker, i32) -> Result<(), kafka_2pc::broker::BrokerError>,
    {
        match &self.world {
            World::Embedded(broker) => Ok(embedded(broker, node).await?),
            World::Real(cluster) => {
                let (cluster, node) = (Arc::clone(cluster), u8::try_from(node)?);
                Ok(blocking(move || real(&cluster, node)).await??)
            }
            World::None | World::Given(_) => Err(Failure::not_offered("power over the nodes")),
        }
    }

    /// The node that coordinates a transactional id.
    ///
    /// # Errors
    /// None does, or the arm is not one of ours.
    pub async fn coordinator(&self, id: &TransactionalId) -> Result<i32, Failure> {
        match &self.world {
            World::Embedded(broker) => {
                broker.transaction_coordinator(id.as_str()).ok_or_else(|| Failure::wrong("no coordinator"))
            }
            World::Real(cluster) => {
                let (cluster, id) = (Arc::clone(cluster), id.to_string());
                Ok(i32::from(blocking(move || cluster.coordinator(&id)).await??))
            }
            World::None | World::Given(_) => Err(Failure::not_offered("power over the nodes")),
        }
    }

    /// The real cluster, for rows that ask its own tools.
    ///
    /// # Errors
    /// [`Failure::NotOffered`] where it was not started here.
    pub fn cluster(&self) -> Result<Arc<KafkaCluster>, Failure> {
        match &self.world {
            World::Real(cluster) => Ok(Arc::clone(cluster)),
            _ => Err(Failure::not_offered("a cluster that was started here")),
        }
    }
}

/// Whether more and longer things are asked for than in every run.
#[must_use]
pub fn full_size() -> bool {
    std::env::var("KAFKA_2PC_SIZE").is_ok_and(|size| size == "full")
}

/// All partitions of a topic.
pub fn places(topic: &Topic) -> impl Iterator<Item = TopicPartition> + use<> {
    let name = topic.name().clone();
    (0..topic.partitions()).map(move |i| TopicPartition::new(name.clone(), i))
}

/// The result of `work`, or a failure if it takes longer than any row should.
///
/// # Errors
/// It takes longer than [`PATIENCE`].
pub async fn within<F: Future>(work: F) -> Result<F::Output, Failure> {
    let late = |_| Failure::wrong(format!("still not done after {} s", PATIENCE.as_secs()));
    tokio::time::timeout(PATIENCE, work).await.map_err(late)
}

/// Runs what blocks beside the tasks of the client.
///
/// # Errors
/// It panics.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Failure> {
    Ok(tokio::task::spawn_blocking(work).await?)
}

/// A name that no other row and no earlier run used.
#[must_use]
pub fn fresh(name: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let run = UNIX_EPOCH.elapsed().unwrap_or_default().as_millis();
    format!("{name}-{run:x}-{:x}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The foreign clients, installed at first use.
pub(crate) fn venv() -> Result<Venv, Failure> {
    static VENV: std::sync::Mutex<Option<Venv>> = std::sync::Mutex::new(None);
    let mut venv = VENV.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    match venv.as_ref() {
        Some(venv) => Ok(venv.clone()),
        None => Ok(venv.insert(Venv::ensure()?).clone()),
    }
}

//! Calls that never reach a broker.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::future::BoxFuture;
use kafka_2pc::broker::{Broker, BrokerConfig, Network};
use kafka_2pc::client::{Client, ClientConfig, Topic};
use kafka_2pc::ids::{Identity, TransactionalId};
use kafka_2pc::net::{Connector, Probe, Stream};
use kafka_2pc::proto::cause::CauseKind;
use kafka_2pc::proto::committable::Committable;
use kafka_2pc::record::RecordRef;
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::bench::{Bench, within};
use crate::net::Net;
use crate::outcome::{Failure, Shown, equal, holds};

/// Nobody listens.
#[derive(Debug, Default)]
struct Nobody(AtomicUsize);

impl Connector for Nobody {
    fn connect<'a>(&'a self, _: &'a str, _: u16) -> BoxFuture<'a, io::Result<Box<dyn Stream>>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::pin(async { Err(io::ErrorKind::ConnectionRefused.into()) })
    }
}

/// How long calls may try, and how much later they may end, by the clock of the runtime, which stands still while there is
/// something to do.
const PATIENCE: Duration = Duration::from_secs(7);
const TOLERANCE: Duration = Duration::from_secs(2);

/// Without any broker each call ends when its time is over: not for ever, not much later, and not before.
pub(super) async fn h07(_: &Bench) -> Shown {
    let client = Client::with_connector(
        ClientConfig::new("nobody:9092")?.max_block(PATIENCE),
        Arc::new(Nobody::default()),
    );
    let id = || TransactionalId::new("h07");
    let refused = |what: &str, ended: bool| holds(!ended, format!("{what} succeeded without a broker"));

    let started = Instant::now();
    refused("topic", client.topic("t").await.is_ok())?;
    in_time("topic", started)?;

    let started = Instant::now();
    match client.transactional_producer(id()).init().await {
        Err(cause) => equal("the cause", cause.kind, CauseKind::Unreachable)?,
        Ok(_) => refused("init", true)?,
    }
    in_time("init", started)?;

    let started = Instant::now();
    let mut producer = client.transactional_producer(id()).used(Identity::new(1, 0));
    refused("prefetch", producer.prefetch().await.is_ok())?;
    in_time("prefetch", started)?;

    for commit in [true, false] {
        let started = Instant::now();
        let resume = client.resume(committable()).timeout(PATIENCE);
        let ended = if commit { resume.commit().await } else { resume.abort().await };
        match ended {
            Err(error) => holds(error.is_retriable(), format!("{error}"))?,
            Ok(_) => refused("a resumed end", true)?,
        }
        in_time("a resumed end", started)?;
    }

    let started = Instant::now();
    refused("describe", client.admin().describe_transaction(&id()).await.is_ok())?;
    // It gives up when the next try would come too late.
    holds(started.elapsed() <= PATIENCE + TOLERANCE, "describe took too long")
}

fn in_time(what: &str, started: Instant) -> Shown {
    let took = started.elapsed();
    holds((PATIENCE..=PATIENCE + TOLERANCE).contains(&took), format!("{what} ended after {took:?}"))
}

fn committable() -> Committable {
    Committable {
        transactional_id: TransactionalId::new("h07"),
        identity: Identity::new(1, 0),
        end_txn_version: Some(4),
        start_ms: Some(1),
        timeout_ms: None,
        deadline_ms: None,
        cluster_id: None,
        partitions: Vec::new(),
    }
}

/// What is not configured is said at once, in words, and without asking anybody.
pub(super) async fn h08(_: &Bench) -> Shown {
    let nobody = Arc::new(Nobody::default());
    let client = Client::with_connector(ClientConfig::new("nobody:9092")?, nobody.clone());
    let mut lazy = client.transactional_producer(TransactionalId::new("")).lazy();
    let causes = [
        client.transactional_producer(TransactionalId::new("")).init().await.err(),
        lazy.prefetch().await.err(),
    ];
    for cause in causes {
        let cause = cause.ok_or_else(|| Failure::wrong("an empty transactional id was taken"))?;
        equal("the kind", cause.kind, CauseKind::Refused)?;
        holds(cause.detail.contains("transactional.id"), cause.detail)?;
    }
    equal("connections", nobody.0.load(Ordering::Relaxed), 0)?;
    for servers in ["", "nobody", "nobody:0"] {
        match ClientConfig::new(servers) {
            Err(error) => holds(error.to_string().contains("bootstrap.servers"), error)?,
            Ok(_) => return Err(Failure::wrong(format!("{servers:?} was taken for servers"))),
        }
    }
    Ok(())
}

/// The one callback there is, the probe of the connections, may use the client that calls it.
pub(super) async fn h09(_: &Bench) -> Shown {
    let broker = Broker::start(BrokerConfig { network: Network::Memory, ..BrokerConfig::default() }).await?;
    broker.create_topic("h09", 1)?;
    let shared: Arc<OnceLock<(Client, Topic)>> = Arc::default();
    let (inner, entered) = (Arc::clone(&shared), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&entered);
    let probe = Probe::new(move |_| {
        let Some((client, topic)) = inner.get() else { return };
        let number = counted.fetch_add(1, Ordering::Relaxed);
        if number < 20 {
            let id = TransactionalId::new(format!("h09-inner-{number}"));
            let mut transaction = client.transactional_producer(id).lazy().begin();
            let _ = transaction.try_send(topic, Some(0), RecordRef::value(b"inner"));
            let client = client.clone();
            Handle::current().spawn(async move { client.cluster_id().await.is_ok() });
        }
    });
    let config = ClientConfig::new(&broker.bootstrap())?.probe(probe);
    let client = Client::with_connector(config, Arc::new(Net::Memory(broker.dialer())));
    let topic = within(client.topic("h09")).await??;
    let _ = shared.set((client.clone(), topic.clone()));
    let producer = within(client.transactional_producer(TransactionalId::new("h09")).init()).await??;
    let mut transaction = producer.begin();
    within(transaction.send(&topic, Some(0), RecordRef::value(b"outer"))).await??;
    within(transaction.commit()).await??;
    holds(entered.load(Ordering::Relaxed) > 4, "the probe was not called")
}

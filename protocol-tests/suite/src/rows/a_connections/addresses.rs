//! Where brokers are, and where they are no more.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kafka_2pc::client::{ClientConfig, Topic, TransactionalProducer};
use kafka_2pc::proto::backoff::Backoff;
use kafka_2pc::proto::cause::CauseKind;
use kafka_protocol::messages::MetadataRequest;
use kafka_protocol::protocol::StrBytes;

use crate::bench::{Bench, within};
use crate::net::parts;
use crate::outcome::{Failure, Shown, equal, holds};
use crate::tap::Dial;

/// Where names lead at the moment, and where brokers say that they are.
#[derive(Debug, Clone)]
struct Names(Arc<Mutex<(Vec<String>, &'static str)>>);

impl Names {
    /// `alive` lead to the broker, all other names nowhere; metadata calls the broker `said`.
    fn set(&self, alive: &[&str], said: &'static str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (owned(alive), said);
    }

    /// Names on this bench.
    fn on(bench: &Bench, alive: &[&str], said: &'static str) -> Result<Self, Failure> {
        let names = Self(Arc::new(Mutex::new((owned(alive), said))));
        let (host, port) = parts(&bench.address())?;
        let known = names.clone();
        bench.tap.on_dial(move |name, _| {
            let known = known.0.lock().unwrap_or_else(PoisonError::into_inner);
            let alive = known.0.iter().any(|alive| alive == name);
            Some(if alive { Dial::To(host.clone(), port) } else { Dial::Refuse })
        });
        let known = names.clone();
        bench.tap.rewrite::<MetadataRequest>(u32::MAX, move |answer| {
            let said = known.0.lock().unwrap_or_else(PoisonError::into_inner).1;
            answer.brokers.iter_mut().for_each(|broker| broker.host = StrBytes::from_static_str(said));
            true
        });
        Ok(names)
    }
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

async fn transact(
    bench: &Bench,
    producer: TransactionalProducer,
    topic: &Topic,
    value: &str,
) -> Result<TransactionalProducer, Failure> {
    let mut transaction = producer.begin();
    bench.write(&mut transaction, topic, 0, &[value]).await?;
    Ok(bench.step("commit", within(transaction.commit()).await?)?)
}

/// A broker that can't be reached is tried again after pauses that grow and differ between clients, until the time is over.
pub(super) async fn a11(bench: &Bench) -> Shown {
    bench.tap.on_dial(|_, _| Some(Dial::Refuse));
    let config = bench.config()?.max_block(Duration::from_secs(1));
    let init = bench.client_of(config).transactional_producer(bench.id("a11")).init();
    match within(init).await? {
        Err(cause) => equal("the cause", cause.kind, CauseKind::Unreachable)?,
        Ok(_) => return Err(Failure::wrong("an identity without a broker")),
    }
    let dials = bench.tap.dials().len();
    holds((3..=15).contains(&dials), format!("{dials} attempts to connect in a second"))?;
    let mut left = 5;
    bench.tap.on_dial(move |_, _| {
        left -= 1;
        (left >= 0).then_some(Dial::Refuse)
    });
    bench.init(&bench.client()?, &bench.id("a11")).await?;
    let waits = |seed| {
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(1), seed);
        (0..10).map(|_| backoff.next_wait()).collect::<Vec<_>>()
    };
    holds(waits(1) != waits(2), "two clients wait alike")?;
    holds(waits(1).iter().all(|wait| *wait <= Duration::from_secs(1)), "a wait has no bound")
}

/// A broker moves to another address: the client follows when the metadata says so.
pub(super) async fn a12(bench: &Bench) -> Shown {
    let (server, _) = parts(&bench.address())?;
    let names = Names::on(bench, &[&server, "old"], "old")?;
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let producer = bench.init(&client, &bench.id("a12")).await?;
    let producer = transact(bench, producer, &topic, "1").await?;
    let mut open = producer.begin();
    bench.write(&mut open, &topic, 0, &["2"]).await?;
    names.set(&[&server, "new"], "new");
    bench.tap.disconnect();
    bench.write(&mut open, &topic, 0, &["3"]).await?;
    let producer = bench.step("commit", within(open.commit()).await?)?;
    transact(bench, producer, &topic, "4").await?;
    let dialed = |name: &str| bench.tap.dials().iter().any(|(host, _)| host == name);
    holds(dialed("old") && dialed("new"), "the addresses of the metadata were not used")?;
    equal("committed", bench.committed(&topic).await?, ["1", "2", "3", "4"])
}

/// The bootstrap servers are needed at the start, and again when every broker that is known has gone; in between they may
/// be away.
pub(super) async fn a13(bench: &Bench) -> Shown {
    let names = Names::on(bench, &["seed", "first"], "first")?;
    let config = ClientConfig::new("stale:1,seed:1,gone:1")?.max_block(Duration::from_secs(20));
    let client = bench.client_of(config);
    let plain = bench.topic(&bench.untapped()?, 1).await?;
    let topic = within(client.topic(plain.name())).await??;
    let producer = bench.init(&client, &bench.id("a13")).await?;
    let producer = transact(bench, producer, &topic, "1").await?;
    names.set(&["first"], "first");
    bench.tap.disconnect();
    let producer = transact(bench, producer, &topic, "2").await?;
    names.set(&["seed", "second"], "second");
    bench.tap.disconnect();
    transact(bench, producer, &topic, "3").await?;
    equal("committed", bench.committed(&topic).await?, ["1", "2", "3"])
}

//! Renewals of a pair that are slow, refused or lost.

use std::time::Duration;

use kafka_2pc::client::{Client, EndError, ProducerBuilder};
use kafka_2pc::ids::{Identity, TransactionalId};
use kafka_2pc::proto::cause::CauseKind;
use kafka_2pc::wire::api::Api;

use super::super::seen::granted;
use super::bump::{commit, refuse};
use crate::bench::{Bench, within};
use crate::outcome::{Failure, Shown, equal, holds};
use crate::raw::initialize;
use crate::tap::Act;

const PRODUCER_FENCED: i16 = 90;

/// A renewal that takes longer than its caller waits can be asked for again, and is granted.
pub(super) async fn b19(bench: &Bench) -> Shown {
    let client = impatient(bench)?;
    let topic = bench.topic(&client, 1).await?;
    let mut producer = owner(bench, &client, &bench.id("b19")).await?.lazy_used();
    let mut paused = bench.tap.pause(Api::InitProducerId);
    match within(producer.prefetch()).await? {
        Err(cause) => {
            holds(cause.kind == CauseKind::Unreachable && cause.kind.is_transient(), format!("{cause:?}"))?
        }
        Ok(()) => return Err(Failure::wrong("it was granted without an answer")),
    }
    paused.reached().await?;
    paused.release();
    within(producer.prefetch()).await??;
    commit(bench, producer, &topic, "v").await?;
    equal("committed", bench.committed(&topic).await?, ["v"])
}

/// A renewal that is refused by a fence ends whatever waits for it.
pub(super) async fn b20(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let producer = owner(bench, &client, &bench.id("b20")).await?.lazy_used();
    refuse(bench, Api::InitProducerId, 1, PRODUCER_FENCED)?;
    let mut transaction = producer.begin();
    holds(
        bench.write(&mut transaction, &topic, 0, &["v"]).await.is_err(),
        "it was flushed without an identity",
    )?;
    match within(transaction.commit()).await? {
        Err(EndError::Fenced(cause)) => holds(cause.is_fenced(), format!("{cause:?}"))?,
        other => return Err(Failure::wrong(format!("the commit: {other:?}"))),
    }
    equal("Produce without an identity", bench.tap.count(Api::Produce), 0)
}

/// A renewal while its coordinator goes away is granted by the next one.
pub(super) async fn b21(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let id = bench.id("b21");
    let own = owner(bench, &client, &id).await?;
    let coordinator = bench.coordinator(&id).await?;
    let mut producer = own.lazy_used();
    let mut paused = bench.tap.pause(Api::InitProducerId);
    let moving = async {
        paused.reached().await?;
        bench.kill_node(coordinator).await?;
        paused.release();
        Ok::<_, Failure>(())
    };
    let (renewed, moved) = tokio::join!(within(producer.prefetch()), moving);
    moved?;
    renewed??;
    holds(bench.coordinator(&id).await? != coordinator, "the coordinator has not moved")?;
    commit(bench, producer, &topic, "v").await?;
    equal("committed", bench.committed(&topic).await?, ["v"])
}

/// PRODUCER_FENCED to a renewal whose first answer was lost: the coordinator is asked whether the newer pair is the one
/// that this renewal made. If it is, the owner goes on with it; if somebody else has the id, it is fenced.
pub(super) async fn b24(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let id = bench.id("b24");
    let own = owner(bench, &client, &id).await?;
    bench.tap.plan(Api::InitProducerId, 1, Act::ApplyThenDrop);
    // A coordinator that was restarted in between has forgotten which pair was renewed.
    refuse(bench, Api::InitProducerId, 2, PRODUCER_FENCED)?;
    let mut producer = own.lazy_used();
    within(producer.prefetch()).await??;
    commit(bench, producer, &topic, "own").await?;

    // The same where the first try was given up by its caller.
    let impatient = impatient(bench)?;
    let own = owner(bench, &impatient, &bench.id("b24")).await?;
    let mut producer = own.lazy_used();
    let mut paused = bench.tap.pause(Api::InitProducerId);
    let given_up = within(producer.prefetch()).await?;
    holds(given_up.is_err(), "it was granted without an answer")?;
    paused.reached().await?;
    paused.release();
    refuse(bench, Api::InitProducerId, 2, PRODUCER_FENCED)?;
    within(producer.prefetch()).await??;
    commit(bench, producer, &topic, "own, too").await?;
    bench.embedded()?.clear_faults();

    let id = bench.id("b24");
    let own = owner(bench, &client, &id).await?;
    bench.tap.plan(Api::InitProducerId, 1, Act::ApplyThenDrop);
    let mut paused = bench.tap.pause_nth(Api::InitProducerId, 2);
    let rival = async {
        paused.reached().await?;
        let mut raw = bench.raw().await?;
        equal("the rival", raw.ask(4, &initialize(&id, 60_000)).await?.error_code, 0)?;
        paused.release();
        Ok::<_, Failure>(())
    };
    let mut producer = own.lazy_used();
    let (renewed, rival) = tokio::join!(within(producer.prefetch()), rival);
    rival?;
    match renewed? {
        Err(cause) => holds(cause.is_fenced(), format!("{cause:?}"))?,
        Ok(()) => return Err(Failure::wrong("the rival's pair was taken")),
    }
    equal("committed", bench.committed(&topic).await?, ["own", "own, too"])
}

/// A client that gives a call up before its answer comes.
fn impatient(bench: &Bench) -> Result<Client, Failure> {
    let config = bench.config()?.max_block(Duration::from_millis(300));
    Ok(bench.client_of(config.request_timeout(Duration::from_secs(600))))
}

/// An owner whose pair was used.
struct Owner {
    builder: ProducerBuilder,
    own: Identity,
}

impl Owner {
    fn lazy_used(&self) -> kafka_2pc::client::TransactionalProducer {
        self.builder.clone().used(self.own)
    }
}

async fn owner(bench: &Bench, client: &Client, id: &TransactionalId) -> Result<Owner, Failure> {
    bench.init(client, id).await?;
    let own = *granted(bench)?.last().ok_or_else(|| Failure::wrong("nothing was granted"))?;
    Ok(Owner { builder: client.transactional_producer(id.clone()), own })
}

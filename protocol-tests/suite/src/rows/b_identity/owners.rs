//! Who gets an identity, and what it does to others.

use std::time::Duration;

use kafka_2pc::proto::cause::CauseKind;
use kafka_2pc::wire::api::Api;

use super::super::seen::granted;
use crate::bench::{Bench, within};
use crate::outcome::{Failure, Shown, equal, holds};

/// Who takes an id over with a transaction open in it aborts that, and is served.
pub(super) async fn b02(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let id = bench.id("b02");
    let mut left = bench.init(&client, &id).await?.begin();
    bench.write(&mut left, &topic, 0, &["left open"]).await?;
    let mut own = bench.init(&client, &id).await?.begin();
    bench.write(&mut own, &topic, 0, &["own"]).await?;
    bench.step("commit", within(own.commit()).await?)?;
    equal("committed", bench.committed(&topic).await?, ["own"])?;
    let granted = granted(bench)?;
    holds(granted[1].epoch > granted[0].epoch, format!("the pairs were {granted:?}"))
}

/// A transaction timeout beyond what the brokers allow is refused at once, with its reason; a shorter one is taken.
pub(super) async fn b07(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let id = bench.id("b07");
    let asking = |timeout| client.transactional_producer(id.clone()).transaction_timeout(timeout).init();
    match bench.step("init for too long", within(asking(Duration::from_secs(901))).await?) {
        Err(cause) => {
            equal("the kind", cause.kind, CauseKind::TimeoutTooLarge)?;
            holds(cause.detail.contains("transaction.max.timeout.ms"), cause.detail)?;
        }
        Ok(_) => return Err(Failure::wrong("901 s were granted")),
    }
    equal("requests", bench.tap.count(Api::InitProducerId), 1)?;
    bench.step("init", within(asking(Duration::from_secs(900))).await?)?;
    Ok(())
}

/// An id that one may not write with is refused with that reason; once the rule is mended, the same client goes on.
pub(super) async fn b08(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let id = bench.id("b08");
    bench.forbid_id(&id).await?;
    match bench
        .step("init without the right", within(client.transactional_producer(id.clone()).init()).await?)
    {
        Err(cause) => equal("the kind", cause.kind, CauseKind::Denied)?,
        Ok(_) => return Err(Failure::wrong("it was granted")),
    }
    bench.allow_id(&id).await?;
    let topic = bench.topic(&client, 1).await?;
    let mut transaction = bench.init(&client, &id).await?.begin();
    bench.write(&mut transaction, &topic, 0, &["v"]).await?;
    bench.step("commit", within(transaction.commit()).await?)?;
    equal("committed", bench.committed(&topic).await?, ["v"])
}

/// Of several that initialize one id at the same time, one can write; the others learn that they are fenced.
pub(super) async fn b13(bench: &Bench) -> Shown {
    bench.trace.keep_private("who comes last is chance");
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let id = bench.id("b13");
    let clients: Vec<_> = (0..4).map(|_| bench.client()).collect::<Result<_, _>>()?;
    let asking = clients.iter().map(|client| client.transactional_producer(id.clone()).init());
    let producers = within(futures::future::join_all(asking)).await?;
    let mut pairs = granted(bench)?;
    equal("granted", pairs.len(), 4)?;
    pairs.sort_by_key(|pair| (pair.producer_id.0, pair.epoch.0));
    pairs.dedup();
    equal("different pairs", pairs.len(), 4)?;

    let mut committed = Vec::new();
    for (who, producer) in producers.into_iter().enumerate() {
        let mut transaction = producer?.begin();
        let value = format!("of {who}");
        if bench.write(&mut transaction, &topic, 0, &[&value]).await.is_ok() {
            within(transaction.commit()).await??;
            committed.push(value);
            continue;
        }
        match within(transaction.abort()).await? {
            Err(kafka_2pc::client::EndError::Fenced(_)) => {}
            other => {
                return Err(Failure::wrong(format!("number {who} was not told of the fence: {other:?}")));
            }
        }
    }
    equal("survivors", committed.len(), 1)?;
    equal("committed", bench.committed(&topic).await?, committed)
}

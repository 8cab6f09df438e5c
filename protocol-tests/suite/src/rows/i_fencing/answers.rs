//! What brokers call a fence, and where it is none.

use std::future::Future;

use kafka_2pc::broker::{Fault, Reaction};
use kafka_2pc::client::{EndError, SendError};
use kafka_2pc::record::RecordRef;
use kafka_2pc::wire::api::Api;

use super::super::seen::{granted, written};
use crate::bench::{Bench, within};
use crate::outcome::{Failure, Shown, equal, holds};
use crate::tap::Act;

const INVALID_PRODUCER_EPOCH: i16 = 47;
const PRODUCER_FENCED: i16 = 90;

/// INVALID_PRODUCER_EPOCH from a coordinator is a fence, by its older name; from a partition's leader it is a reason to
/// abort, and no more.
pub(super) async fn i02(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let id = bench.id("i02");

    let mut transaction = bench.init(&client, &id).await?.begin();
    refuse(bench, Api::Produce, 1, INVALID_PRODUCER_EPOCH)?;
    within(transaction.send(&topic, Some(0), RecordRef::value(b"refused"))).await??;
    match within(transaction.flush()).await? {
        Err(SendError::Failed(cause)) => holds(!cause.is_fenced(), format!("a leader's word: {cause:?}"))?,
        other => return Err(Failure::wrong(format!("the flush: {other:?}"))),
    }
    let producer = within(transaction.abort()).await??;

    let mut transaction = producer.begin();
    bench.write(&mut transaction, &topic, 0, &["aborted"]).await?;
    refuse(bench, Api::EndTxn, 1, INVALID_PRODUCER_EPOCH)?;
    fenced("EndTxn", transaction.abort()).await?;

    bench.init(&client, &id).await?;
    let own = *granted(bench)?.last().ok_or_else(|| Failure::wrong("nothing was granted"))?;
    refuse(bench, Api::InitProducerId, 1, INVALID_PRODUCER_EPOCH)?;
    match within(client.transactional_producer(id.clone()).used(own).prefetch()).await? {
        Err(cause) => holds(cause.is_fenced(), format!("InitProducerId: {cause:?}"))?,
        Ok(()) => return Err(Failure::wrong("InitProducerId: granted")),
    }

    if !bench.v2() {
        let mut transaction = bench.init(&client, &id).await?.begin();
        refuse(bench, Api::AddPartitionsToTxn, 1, INVALID_PRODUCER_EPOCH)?;
        within(transaction.send(&topic, Some(0), RecordRef::value(b"never"))).await??;
        match within(transaction.flush()).await? {
            Err(SendError::Failed(cause)) => {
                holds(cause.is_fenced(), format!("AddPartitionsToTxn: {cause:?}"))?
            }
            other => return Err(Failure::wrong(format!("AddPartitionsToTxn: {other:?}"))),
        }
        fenced("AddPartitionsToTxn", transaction.commit()).await?;
    }
    equal("committed", bench.committed(&topic).await?.len(), 0)
}

/// An abort that is told of a fence ends with that, at once, and so does one after the fence was met elsewhere.
pub(super) async fn i03(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let mut flushed = bench.init(&client, &bench.id("i03")).await?.begin();
    bench.write(&mut flushed, &topic, 0, &["flushed"]).await?;
    refuse(bench, Api::EndTxn, 1, PRODUCER_FENCED)?;
    fenced("an abort", flushed.abort()).await?;
    equal("EndTxn", bench.tap.count(Api::EndTxn), 1)?;

    let mut failed = bench.init(&client, &bench.id("i03")).await?.begin();
    refuse(bench, Api::Produce, 1, PRODUCER_FENCED)?;
    within(failed.send(&topic, Some(0), RecordRef::value(b"failed"))).await??;
    holds(within(failed.flush()).await?.is_err(), "it was flushed")?;
    fenced("an abort after it", failed.abort()).await?;
    equal("EndTxn of one who is fenced", bench.tap.count(Api::EndTxn), 1)
}

/// A takeover that the coordinator can't store at first, or whose answer is lost, is asked for until it is done; then the
/// former owner is fenced, and what it left open is aborted.
pub(super) async fn i06(bench: &Bench) -> Shown {
    const COORDINATOR_NOT_AVAILABLE: i16 = 15;
    const UNKNOWN_SERVER_ERROR: i16 = -1;
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let id = bench.id("i06");
    let mut former = bench.init(&client, &id).await?.begin();
    bench.write(&mut former, &topic, 0, &["former"]).await?;

    bench.tap.plan(Api::InitProducerId, 1, Act::ApplyThenDrop);
    refuse(bench, Api::InitProducerId, 2, COORDINATOR_NOT_AVAILABLE)?;
    refuse(bench, Api::InitProducerId, 3, UNKNOWN_SERVER_ERROR)?;
    let mut own = bench.init(&client, &id).await?.begin();
    bench.write(&mut own, &topic, 0, &["own"]).await?;
    fenced("the former owner", former.abort()).await?;
    within(own.commit()).await??;
    let pairs: Vec<_> = written(bench)?.iter().map(|batch| batch.identity).collect();
    holds(pairs[1].epoch > pairs[0].epoch, format!("{pairs:?}"))?;
    equal("committed", bench.committed(&topic).await?, ["own"])
}

async fn fenced<T: std::fmt::Debug>(what: &str, end: impl Future<Output = Result<T, EndError>>) -> Shown {
    match within(end).await? {
        Err(EndError::Fenced(cause)) => holds(cause.is_fenced(), format!("{what}: {cause:?}")),
        other => Err(Failure::wrong(format!("{what}: {other:?}"))),
    }
}

fn refuse(bench: &Bench, api: Api, nth: u64, code: i16) -> Shown {
    bench.embedded()?.inject(Fault::on(api, Reaction::ErrorCode(code)).nth(nth));
    Ok(())
}

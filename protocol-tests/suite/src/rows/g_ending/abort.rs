//! Aborts.

use std::time::Duration;

use kafka_2pc::broker::{Fault, Reaction};
use kafka_2pc::client::SendError;
use kafka_2pc::record::RecordRef;
use kafka_2pc::wire::api::Api;

use super::super::seen::ended;
use crate::bench::{Bench, within};
use crate::outcome::{Failure, Shown, equal, holds};
use crate::tap::Act;

const TRANSACTION_ABORTABLE: i16 = 120;

/// An abort drops what was not sent and waits for what was; who waited for a dropped record is told.
pub(super) async fn g07(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let value = |text: &'static str| RecordRef::value(text.as_bytes());
    let mut unsent = bench.init(&client, &bench.id("g07")).await?.begin();
    let dropped = within(unsent.send_tracked(&topic, Some(0), value("unsent"))).await??;
    let producer = within(unsent.abort()).await??;
    equal("requests for what was not sent", bench.tap.count(Api::Produce) + bench.tap.count(Api::EndTxn), 0)?;
    holds(within(dropped.stored()).await?.is_err(), "a record that was never sent counts as stored")?;

    let mut transaction = producer.begin();
    let mut paused = bench.tap.pause(Api::Produce);
    let sent = within(transaction.send_tracked(&topic, Some(0), value("sent"))).await??;
    let flushing = transaction.flush();
    let (flushed, reached) =
        tokio::join!(tokio::time::timeout(Duration::from_millis(50), flushing), paused.reached());
    holds(flushed.is_err(), "it was flushed without an answer")?;
    reached?;
    let behind = within(transaction.send_tracked(&topic, Some(0), value("behind"))).await??;
    let watching = async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        equal("EndTxn while a Produce is under way", bench.tap.count(Api::EndTxn), 0)?;
        paused.release();
        Ok::<_, Failure>(())
    };
    let (aborted, watched) = tokio::join!(within(transaction.abort()), watching);
    watched?;
    let producer = aborted??;
    holds(within(behind.stored()).await?.is_err(), "a record that was dropped counts as stored")?;
    // It was stored, or the abort came first: both are true. What matters is that it is told at all.
    let _ = within(sent.stored()).await?;
    equal("Produce requests", bench.tap.count(Api::Produce), 1)?;

    let mut next = producer.begin();
    bench.write(&mut next, &topic, 0, &["next"]).await?;
    within(next.commit()).await??;
    equal("committed", bench.committed(&topic).await?, ["next"])
}

/// What goes wrong during an abort does not make anything else of it.
pub(super) async fn g08(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let mut transaction = bench.init(&client, &bench.id("g08")).await?.begin();
    bench.write(&mut transaction, &topic, 0, &["stored"]).await?;
    refuse(bench, Api::Produce, 1, TRANSACTION_ABORTABLE)?;
    within(transaction.send(&topic, Some(0), RecordRef::value(b"refused"))).await??;
    match within(transaction.flush()).await? {
        Err(SendError::Failed(cause)) => holds(!cause.is_fenced(), format!("{cause}"))?,
        other => return Err(Failure::wrong(format!("the flush: {other:?}"))),
    }
    bench.tap.plan(Api::EndTxn, 1, Act::Drop);
    for (nth, code) in [(1, 51), (2, -1), (3, 16), (4, 15)] {
        refuse(bench, Api::EndTxn, nth, code)?;
    }
    let producer = within(transaction.abort()).await??;
    let ends = ended(bench)?;
    holds(ends.len() == 6 && ends.iter().all(|end| !end.commit), format!("EndTxn: {ends:?}"))?;
    let mut next = producer.begin();
    bench.write(&mut next, &topic, 0, &["next"]).await?;
    within(next.commit()).await??;
    equal("committed", bench.committed(&topic).await?, ["next"])
}

/// An abort while the transaction's first request is under way, answered late or never, is an abort and nothing worse.
pub(super) async fn g09(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let first = if bench.v2() { Api::Produce } else { Api::AddPartitionsToTxn };
    // A partition that is new to its leader may be answered with "not yet", and an abort does not try again.
    let mut known = bench.init(&client, &bench.id("g09-known")).await?.begin();
    bench.write(&mut known, &topic, 0, &["known"]).await?;
    bench.step("commit", within(known.commit()).await?)?;
    let builder = client.transactional_producer(bench.id("g09")).linger(Duration::ZERO);
    let mut answered = bench.init_of(builder).await?.begin();
    let mut paused = bench.tap.pause(first);
    within(answered.send(&topic, Some(0), RecordRef::value(b"answered"))).await??;
    answered.tick()?;
    paused.reached().await?;
    let ends = bench.tap.count(Api::EndTxn);
    let releasing = async {
        for _ in 0..100 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        equal("EndTxn while it is under way", bench.tap.count(Api::EndTxn), ends)?;
        paused.release();
        Ok::<_, Failure>(())
    };
    let (aborted, released) = tokio::join!(within(answered.abort()), releasing);
    released?;
    let producer = bench.step("abort", aborted?)?;

    let mut lost = producer.begin();
    let held = bench.tap.hold(first);
    // Its repetitions do not get there either.
    for nth in 2..=20 {
        bench.tap.plan(first, nth, Act::Drop);
    }
    within(lost.send(&topic, Some(0), RecordRef::value(b"lost"))).await??;
    lost.tick()?;
    let late = within(held).await??;
    let producer = bench.step("abort", within(lost.abort()).await?)?;
    bench.tap.clear();
    late.deliver().await?;

    let mut next = producer.begin();
    bench.write(&mut next, &topic, 0, &["next"]).await?;
    bench.step("commit", within(next.commit()).await?)?;
    equal("committed", bench.committed(&topic).await?, ["known", "next"])
}

fn refuse(bench: &Bench, api: Api, nth: u64, code: i16) -> Shown {
    bench.embedded()?.inject(Fault::on(api, Reaction::ErrorCode(code)).nth(nth));
    Ok(())
}

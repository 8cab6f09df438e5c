//! Ends whose answer does not come, or tells nothing.

use std::time::Duration;

use kafka_2pc::broker::{Fault, Reaction};
use kafka_2pc::client::{Client, Prepared, Topic};
use kafka_2pc::proto::committable::Committable;
use kafka_2pc::proto::resume::{CommitError, Outcome, PendingCause};
use kafka_2pc::wire::api::Api;
use kafka_2pc::wire::versions::TransactionVersion;

use super::super::seen::{ended, granted, returned, written};
use crate::bench::{Bench, within};
use crate::outcome::{Failure, Shown, equal, holds};
use crate::tap::Act;

/// Too short for an answer that does not come.
const SHORT: Duration = Duration::from_millis(300);

/// An end that takes longer than its caller waits is pending; asked again it tells how it went.
pub(super) async fn g03(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    for commit in [true, false] {
        let committable = prepared(bench, &client, &topic, if commit { "kept" } else { "dropped" }).await?;
        let end = |patience| {
            let resume = client.resume(committable.clone()).timeout(patience);
            async move { if commit { resume.commit().await } else { resume.abort().await } }
        };
        let mut paused = bench.tap.pause(Api::EndTxn);
        match within(end(SHORT)).await? {
            Err(error) => holds(error.is_retriable(), format!("{error}"))?,
            Ok(resumed) => return Err(Failure::wrong(format!("it did not wait: {resumed:?}"))),
        }
        paused.reached().await?;
        paused.release();
        let expected = if commit { Outcome::Committed } else { Outcome::Aborted };
        equal("asked again", within(end(Duration::from_secs(20))).await??.outcome, expected)?;
    }
    equal("committed", bench.committed(&topic).await?, ["kept"])
}

/// EndTxn whose request, and then whose answer, is lost is sent again unchanged; the pair is not used for another
/// transaction.
pub(super) async fn g04(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let mut first = bench.init(&client, &bench.id("g04")).await?.begin();
    bench.write(&mut first, &topic, 0, &["first"]).await?;
    bench.tap.plan(Api::EndTxn, 1, Act::Drop);
    bench.tap.plan(Api::EndTxn, 2, Act::ApplyThenDrop);
    let producer = within(first.commit()).await??;
    let ends = ended(bench)?;
    holds(ends.len() >= 3 && ends.iter().all(|end| *end == ends[0]), format!("EndTxn: {ends:?}"))?;
    let mut second = producer.begin();
    bench.write(&mut second, &topic, 0, &["second"]).await?;
    let own = written(bench)?[1].identity;
    holds(own != ends[0].identity, "the second transaction has the first one's pair")?;
    let expected = if bench.v2() { returned(bench)?[0] } else { granted(bench)?[1] };
    equal("the pair of the second transaction", own, expected)?;
    within(second.commit()).await??;
    equal("committed", bench.committed(&topic).await?, ["first", "second"])
}

/// While it is not known how one decision went, the other one can't be had: who asks for it is told what was decided.
pub(super) async fn g05(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let committed = prepared(bench, &client, &topic, "committed").await?;
    lost_answer(bench);
    let pending = within(client.resume(committed.clone()).timeout(SHORT).commit()).await?;
    holds(matches!(&pending, Err(e) if e.is_retriable()), format!("the commit: {pending:?}"))?;
    bench.tap.clear();
    match within(client.resume(committed).abort()).await??.outcome {
        Outcome::AlreadyCommitted(_) => {}
        other => return Err(Failure::wrong(format!("an abort of what is committed: {other:?}"))),
    }

    let aborted = prepared(bench, &client, &topic, "aborted").await?;
    lost_answer(bench);
    let pending = within(client.resume(aborted.clone()).timeout(SHORT).abort()).await?;
    holds(matches!(&pending, Err(e) if e.is_retriable()), format!("the abort: {pending:?}"))?;
    bench.tap.clear();
    match within(client.resume(aborted).commit()).await??.outcome {
        Outcome::Lost { .. } => {}
        other => return Err(Failure::wrong(format!("a commit of what is aborted: {other:?}"))),
    }
    equal("committed", bench.committed(&topic).await?, ["committed"])
}

/// UNKNOWN_SERVER_ERROR to EndTxn decides nothing: the same request goes out again, and never the opposite one.
pub(super) async fn g11(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    for commit in [true, false] {
        let committable = prepared(bench, &client, &topic, if commit { "kept" } else { "dropped" }).await?;
        let end = |patience| {
            let resume = client.resume(committable.clone()).timeout(patience);
            async move { if commit { resume.commit().await } else { resume.abort().await } }
        };
        let before = ended(bench)?.len();
        for nth in 1..=20 {
            let reaction = Reaction::ErrorCode(-1);
            bench.embedded()?.inject(Fault::on(Api::EndTxn, reaction).nth(nth));
        }
        match within(end(SHORT)).await? {
            Err(CommitError::Pending { cause: PendingCause::NotKnown, tries, .. }) => {
                holds(tries > 1, "it was not asked again")?;
            }
            other => return Err(Failure::wrong(format!("without an answer: {other:?}"))),
        }
        bench.embedded()?.clear_faults();
        let expected = if commit { Outcome::Committed } else { Outcome::Aborted };
        equal("asked again", within(end(Duration::from_secs(20))).await??.outcome, expected)?;
        let ends = ended(bench)?.split_off(before);
        holds(ends.iter().all(|end| *end == ends[0] && end.commit == commit), format!("EndTxn: {ends:?}"))?;
    }
    equal("committed", bench.committed(&topic).await?, ["kept"])
}

/// Without any limit of time everything works, through faults as well.
pub(super) async fn g18(bench: &Bench) -> Shown {
    let ever = Duration::MAX;
    let client = bench.client_of(bench.config()?.max_block(ever).request_timeout(ever));
    let topic = bench.topic(&client, 1).await?;
    let builder = client.transactional_producer(bench.id("g18")).delivery_timeout(ever);
    refuse(bench, Api::InitProducerId, 14)?;
    let mut transaction = bench.init_of(builder).await?.begin();
    bench.tap.plan(Api::Produce, 1, Act::Drop);
    bench.write(&mut transaction, &topic, 0, &["v"]).await?;
    let Prepared::Ready(committable) = within(transaction.prepare()).await?? else {
        return Err(Failure::wrong("nothing was prepared"));
    };
    refuse(bench, Api::EndTxn, 51)?;
    equal(
        "the commit",
        within(client.resume(committable).timeout(ever).commit()).await??.outcome,
        Outcome::Committed,
    )?;
    equal("committed", bench.committed(&topic).await?, ["v"])
}

/// EndTxn 5 that arrives at a cluster which has been lowered to level 0: the id is stuck until its coordinator moves.
/// That is told as such, and afterwards the truth is.
pub(super) async fn g19(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let committable = prepared(bench, &client, &topic, "v").await?;
    let broker = bench.embedded()?;
    let mut paused = bench.tap.pause(Api::EndTxn);
    let lowering = async {
        paused.reached().await?;
        broker.set_transaction_version(TransactionVersion::V0);
        paused.release();
        Ok::<_, Failure>(())
    };
    let patience = Duration::from_secs(1);
    let commit = within(client.resume(committable.clone()).timeout(patience).commit());
    let (pending, lowered) = tokio::join!(commit, lowering);
    lowered?;
    match pending? {
        Err(CommitError::Pending { cause: PendingCause::Stuck, .. }) => {}
        other => return Err(Failure::wrong(format!("on a stuck id: {other:?}"))),
    }
    holds(bench.tap.answers().iter().any(|a| a.api == Api::EndTxn && a.codes == [35]), "nothing was stuck")?;
    equal("visible while it is stuck", bench.visible(&topic).await?.len(), 0)?;
    bench.kill_node(1).await?;
    bench.start_node(1).await?;
    equal("after the move", within(client.resume(committable).commit()).await??.outcome, Outcome::Committed)?;
    equal("committed", bench.committed(&topic).await?, ["v"])
}

async fn prepared(
    bench: &Bench,
    client: &Client,
    topic: &Topic,
    value: &str,
) -> Result<Committable, Failure> {
    let mut transaction = bench.init(client, &bench.id("doubt")).await?.begin();
    bench.write(&mut transaction, topic, 0, &[value]).await?;
    match within(transaction.prepare()).await?? {
        Prepared::Ready(committable) => Ok(committable),
        _ => Err(Failure::wrong("nothing was prepared")),
    }
}

/// The next EndTxn is carried out, and neither its answer comes back nor any other request gets there.
fn lost_answer(bench: &Bench) {
    bench.tap.plan(Api::EndTxn, 1, Act::ApplyThenDrop);
    for nth in 2..=20 {
        bench.tap.plan(Api::EndTxn, nth, Act::Drop);
    }
}

fn refuse(bench: &Bench, api: Api, code: i16) -> Shown {
    bench.embedded()?.inject(Fault::on(api, Reaction::ErrorCode(code)));
    Ok(())
}

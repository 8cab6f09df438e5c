//! Batches that are sent more than once, and stored once.

use std::collections::BTreeSet;
use std::time::Duration;

use kafka_2pc::wire::api::Api;

use super::{CORRUPT, DUPLICATE, OLD_EPOCH, OUT_OF_ORDER, fails, flush, send, small, write};
use crate::bench::{Bench, within};
use crate::outcome::{Failure, Shown, equal, holds};
use crate::rows::e_produce::{answer_with, numbered, repeats_are_identical};
use crate::rows::seen::written;
use crate::tap::Act;

/// Everything was written under one identity, and what was sent twice was the same both times.
fn under_one_identity(bench: &Bench) -> Shown {
    let identities: BTreeSet<_> = written(bench)?.iter().map(|b| b.identity).collect();
    equal("identities", identities.len(), 1)?;
    repeats_are_identical(bench)
}

/// An answer that was lost: the same bytes are sent again, and the offset is that of the first time. DUPLICATE_SEQUENCE_NUMBER,
/// which tells none, is a success.
pub(super) async fn p01(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let producer = small(&client).start();
    write(bench, &producer, &topic, &["0"]).await?;
    bench.tap.plan(Api::Produce, 1, Act::ApplyThenDrop);
    let repeated = send(&producer, &topic, "1").await?;
    flush(bench, &producer).await??;
    equal("the offset of the repeat", within(repeated.stored()).await??, Some(1))?;
    answer_with(bench, DUPLICATE, 1);
    let unplaced = send(&producer, &topic, "2").await?;
    flush(bench, &producer).await??;
    equal("an offset that was not told", within(unplaced.stored()).await??, None)?;
    equal("Produce sent", bench.tap.count(Api::Produce), 4)?;
    under_one_identity(bench)?;
    equal("stored", bench.committed(&topic).await?, ["0", "1", "2"])
}

/// The connection is cut again and again, before a request, in the middle of one, and before its answer.
pub(super) async fn p02(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    for api in [Api::InitProducerId, Api::Metadata] {
        bench.tap.plan(api, 1, Act::Cut(7));
        bench.tap.plan(api, 2, Act::ApplyThenDrop);
    }
    let acts = [Act::ApplyThenDrop, Act::Drop, Act::Cut(1), Act::ApplyThenDrop, Act::Cut(40), Act::Cut(90)];
    for (nth, act) in (1..).zip(acts) {
        bench.tap.plan(Api::Produce, 3 * nth - 2, act);
    }
    let producer = small(&client).start();
    write(bench, &producer, &topic, &numbered(60)).await?;
    under_one_identity(bench)?;
    equal("stored", bench.committed(&topic).await?, numbered(60))
}

/// The first of five batches under way arrives damaged: its leader refuses it, and those behind it for their sequences. They
/// are sent again as they were, oldest first.
pub(super) async fn p03(bench: &Bench) -> Shown {
    bench.trace.keep_private("how many batches are under way behind the damaged one depends on the moment");
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    // The first of all leaves alone: when it is answered, five others are there.
    let mut first = bench.tap.pause_answer(Api::Produce);
    bench.tap.plan(Api::Produce, 2, Act::Damage);
    let producer = small(&client).start();
    for value in numbered(30) {
        send(&producer, &topic, &value).await?;
    }
    first.reached().await?;
    first.release();
    flush(bench, &producer).await??;
    for code in [CORRUPT, OUT_OF_ORDER] {
        holds(
            bench.tap.answers().iter().any(|a| a.codes == [code]),
            format!("nothing was refused with {code}"),
        )?;
    }
    under_one_identity(bench)?;
    equal("stored", bench.committed(&topic).await?, numbered(30))
}

/// A copy of a request that its connection has lost arrives late: behind its repeat it is a repeat, or out of order; and behind
/// the next epoch it is refused.
pub(super) async fn p04(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let producer = small(&client).start();
    write(bench, &producer, &topic, &["0"]).await?;
    let held = bench.tap.hold(Api::Produce);
    write(bench, &producer, &topic, &["1"]).await?;
    let late = within(held).await??;
    equal("the late copy", late.deliver().await?, [0])?;
    for value in ["2", "3", "4", "5", "6"] {
        write(bench, &producer, &topic, &[value]).await?;
    }
    equal("the late copy, five batches later", late.deliver().await?, [OUT_OF_ORDER])?;
    under_one_identity(bench)?;
    equal("stored", bench.committed(&topic).await?, ["0", "1", "2", "3", "4", "5", "6"])?;
    late_for_the_epoch(bench).await
}

/// The same where no repeat arrives, so that its time is over and the next record goes on under the next epoch.
async fn late_for_the_epoch(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    // Longer than a client waits before it connects again.
    let producer = small(&client).delivery_timeout(Duration::from_millis(2500)).start();
    write(bench, &producer, &topic, &["before"]).await?;
    let held = bench.tap.hold(Api::Produce);
    (0..200).for_each(|_| bench.tap.plan(Api::Produce, 1, Act::Drop));
    let told = fails(bench, &producer, (&topic, "held")).await?;
    equal("records of which nothing is known", told.unknown, 1)?;
    holds(told.cause.outcome_unknown(), format!("what is told: {told}"))?;
    let late = within(held).await??;
    bench.tap.clear();
    let before =
        written(bench)?.last().map(|b| b.identity).ok_or_else(|| Failure::wrong("nothing was written"))?;
    write(bench, &producer, &topic, &["after"]).await?;
    let next = written(bench)?.last().map(|b| (b.identity.producer_id, b.identity.epoch.0, b.sequence));
    equal("what goes on", next, Some((before.producer_id, before.epoch.0 + 1, 0)))?;
    equal("the late copy behind the next epoch", late.deliver().await?, [OLD_EPOCH])?;
    write(bench, &producer, &topic, &["last"]).await?;
    equal("stored", bench.committed(&topic).await?, ["before", "after", "last"])
}

//! How transactions end.

use kafka_2pc::client::Prepared;
use kafka_2pc::wire::api::Api;

use super::{Row, rows};
use crate::bench::{Bench, within};
use crate::outcome::{Failure, Shown, equal};

pub(super) const ROWS: &[Row] = rows![g10 g16];

/// A transaction without records commits and aborts without a word to anybody, and leaves no committable.
async fn g10(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let producer = bench.init(&client, &bench.id("g10")).await?;
    let producer = bench.step("commit", within(producer.begin().commit()).await?)?;
    let producer = bench.step("abort", within(producer.begin().abort()).await?)?;
    match bench.step("prepare", within(producer.begin().prepare()).await?)? {
        Prepared::Empty(_) => {}
        _ => return Err(Failure::wrong("a committable without records")),
    }
    equal("EndTxn sent", bench.tap.count(Api::EndTxn), 0)
}

/// A copy of EndTxn that arrives while the next transaction of the same id is open does nothing to it.
async fn g16(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let mut first = bench.init(&client, &bench.id("g16")).await?.begin();
    bench.write(&mut first, &topic, 0, &["first"]).await?;
    let held = bench.tap.hold(Api::EndTxn);
    let producer = bench.step("commit", within(first.commit()).await?)?;
    let late = within(held).await??;
    let mut second = producer.begin();
    bench.write(&mut second, &topic, 0, &["second"]).await?;
    late.deliver().await?;
    bench.write(&mut second, &topic, 0, &["third"]).await?;
    equal("visible while the second is open", bench.visible(&topic).await?, ["first"])?;
    bench.step("abort", within(second.abort()).await?)?;
    equal("visible after the abort", bench.committed(&topic).await?, ["first"])
}

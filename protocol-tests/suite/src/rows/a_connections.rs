//! Connections, versions, metadata.

use std::collections::BTreeSet;

use kafka_2pc::wire::api::Api;

use super::{Row, rows};
use crate::bench::{Bench, within};
use crate::outcome::{Shown, equal, holds};

pub(super) const ROWS: &[Row] = rows![a01];

/// Each connection begins with ApiVersions, and every version that follows is one that both sides know.
async fn a01(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let mut transaction = bench.init(&client, &bench.id("a01")).await?.begin();
    bench.write(&mut transaction, &topic, 0, &["v"]).await?;
    bench.step("commit", within(transaction.commit()).await?)?;
    let mut seen = BTreeSet::new();
    for request in bench.tap.requests() {
        if seen.insert(request.connection) {
            equal("the first request of a connection", request.api, Api::ApiVersions)?;
        }
    }
    for answer in bench.tap.answers() {
        holds(!answer.codes.contains(&35), format!("{} {} is not known there", answer.api, answer.version))?;
    }
    Ok(())
}

//! Producer ids and epochs.

use kafka_2pc::wire::api::Api;
use kafka_protocol::messages::InitProducerIdRequest;

use super::{Row, rows};
use crate::bench::Bench;
use crate::outcome::{Failure, Shown, equal, holds};

pub(super) const ROWS: &[Row] = rows![b14];

/// The epoch of an id rises with every initialization.
async fn b14(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let id = bench.id("b14");
    for _ in 0..5 {
        bench.init(&client, &id).await?;
    }
    let answers = bench.tap.answers();
    let granted = answers.iter().filter(|a| a.api == Api::InitProducerId && a.codes == [0]);
    let epochs: Vec<_> = granted
        .map(|a| Ok(a.decode::<InitProducerIdRequest>()?.producer_epoch))
        .collect::<Result<_, Failure>>()?;
    equal("initializations that were granted", epochs.len(), 5)?;
    holds(epochs.is_sorted_by(|one, next| one < next), format!("the epochs were {epochs:?}"))
}

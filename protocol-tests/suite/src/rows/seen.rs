//! What the tap saw, as facts that rows speak of.

use kafka_2pc::client::Client;
use kafka_2pc::ids::{Identity, TransactionalId};
use kafka_2pc::proto::resume::CoordinatorState;
use kafka_2pc::wire::api::Api;
use kafka_protocol::messages::{EndTxnRequest, InitProducerIdRequest};

use crate::bench::{Bench, within};
use crate::outcome::Failure;
use crate::raw::identity;

/// The pairs that InitProducerId granted, in order.
pub(super) fn granted(bench: &Bench) -> Result<Vec<Identity>, Failure> {
    let answers = bench.tap.answers();
    let granted = answers.iter().filter(|a| a.api == Api::InitProducerId && a.codes == [0]);
    granted
        .map(|a| {
            let answer = a.decode::<InitProducerIdRequest>()?;
            Ok(identity(answer.producer_id, answer.producer_epoch))
        })
        .collect()
}

/// The pairs that EndTxn returned, in order.
pub(super) fn returned(bench: &Bench) -> Result<Vec<Identity>, Failure> {
    let answers = bench.tap.answers();
    let ended = answers.iter().filter(|a| a.api == Api::EndTxn && a.codes == [0]);
    ended
        .map(|a| {
            let answer = a.decode::<EndTxnRequest>()?;
            Ok(identity(answer.producer_id, answer.producer_epoch))
        })
        .collect()
}

/// A batch that left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) identity: Identity,
    pub(super) partition: i32,
    pub(super) sequence: i32,
}

/// The batches that left, in order, repeats too.
pub(super) fn written(bench: &Bench) -> Result<Vec<Written>, Failure> {
    let mut all = Vec::new();
    for request in bench.tap.requests().iter().filter(|r| r.api == Api::Produce) {
        all.extend(request.batches()?.into_iter().map(|(_, partition, batch)| Written {
            identity: Identity::new(batch.producer_id, batch.producer_epoch),
            partition,
            sequence: batch.base_sequence,
        }));
    }
    Ok(all)
}

/// An EndTxn that left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) identity: Identity,
    pub(super) commit: bool,
    pub(super) version: i16,
}

/// The EndTxn requests that left, in order.
pub(super) fn ended(bench: &Bench) -> Result<Vec<Ended>, Failure> {
    let requests = bench.tap.requests();
    let ends = requests.iter().filter(|r| r.api == Api::EndTxn);
    ends.map(|r| {
        let end = r.decode::<EndTxnRequest>()?;
        let identity = identity(end.producer_id, end.producer_epoch);
        Ok(Ended { identity, commit: end.committed, version: r.version })
    })
    .collect()
}

/// Waits until the coordinator shows an id in a state.
pub(super) async fn until_state(
    client: &Client,
    id: &TransactionalId,
    wanted: CoordinatorState,
) -> Result<(), Failure> {
    within(async {
        loop {
            let described = client.admin().describe_transaction(id).await?;
            if described.is_some_and(|d| d.state == wanted) {
                return Ok(());
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    })
    .await?
}

//! Partitions that are not added, and why.

use kafka_2pc::client::{EndError, SendError, Topic, Transaction};
use kafka_2pc::proto::cause::{Cause, CauseKind};
use kafka_2pc::proto::resume::CoordinatorState;
use kafka_2pc::record::RecordRef;
use kafka_2pc::wire::api::Api;
use kafka_protocol::messages::AddPartitionsToTxnRequest;

use crate::bench::{Bench, within};
use crate::outcome::{Failure, Shown, equal, holds};
use crate::rows::seen::{ended, until_state, written};

/// UNKNOWN_TOPIC_OR_PARTITION.
const UNKNOWN_TOPIC: i16 = 3;
/// TOPIC_AUTHORIZATION_FAILED.
const TOPIC_DENIED: i16 = 29;
/// INVALID_TXN_STATE.
const INVALID_STATE: i16 = 48;
/// INVALID_PRODUCER_ID_MAPPING.
const NO_MAPPING: i16 = 49;
/// OPERATION_NOT_ATTEMPTED.
const NOT_ATTEMPTED: i16 = 55;
/// UNKNOWN_PRODUCER_ID.
const UNKNOWN_PRODUCER: i16 = 59;
/// TRANSACTION_ABORTABLE.
const ABORTABLE: i16 = 120;

/// What adds a partition here.
fn adding(bench: &Bench) -> Api {
    if bench.v2() { Api::Produce } else { Api::AddPartitionsToTxn }
}

/// Sends a record, whose flush must fail.
async fn refused(transaction: &mut Transaction, topic: &Topic, partitions: &[i32]) -> Result<Cause, Failure> {
    for partition in partitions {
        within(transaction.send(topic, Some(*partition), RecordRef::value(b"no"))).await??;
    }
    match within(transaction.flush()).await? {
        Err(SendError::Failed(cause)) => Ok(cause),
        other => Err(Failure::wrong(format!("the flush ended with {other:?}"))),
    }
}

/// Of several partitions the one that failed decides; those that were not tried for its sake are added with it later if
/// waiting helps it, and not at all otherwise.
pub(super) async fn d04(bench: &Bench) -> Shown {
    let answer_with = |code: i16| {
        bench.tap.rewrite::<AddPartitionsToTxnRequest>(1, move |answer| {
            let mut failed = false;
            for p in answer.results_by_topic_v3_and_below.iter_mut().flat_map(|t| &mut t.results_by_partition)
            {
                failed |= p.partition_index == 1;
                p.partition_error_code = if p.partition_index == 1 { code } else { NOT_ATTEMPTED };
            }
            failed
        });
    };
    let client = bench.client()?;
    let topic = bench.topic(&client, 3).await?;
    let mut transaction = bench.init(&client, &bench.id("d04")).await?.begin();
    answer_with(TOPIC_DENIED);
    let cause = refused(&mut transaction, &topic, &[0, 1, 2]).await?;
    equal("the cause", cause.kind, CauseKind::Denied)?;
    equal("the partition that is named", cause.partition.map(|p| p.partition), Some(1))?;
    holds(written(bench)?.iter().all(|b| b.partition == 0), "what was not added was written")?;
    let mut next = bench.step("abort", within(transaction.abort()).await?)?.begin();
    answer_with(UNKNOWN_TOPIC);
    for partition in 0..3 {
        within(next.send(&topic, Some(partition), RecordRef::value(b"yes"))).await??;
    }
    bench.step("commit", within(next.commit()).await?)?;
    let asked = bench.tap.requests().into_iter().filter(|r| r.api == Api::AddPartitionsToTxn);
    let last = asked.last().ok_or_else(|| Failure::wrong("nothing was added"))?;
    let again = last.decode::<AddPartitionsToTxnRequest>()?.v3_and_below_topics;
    let again: Vec<_> = again.iter().flat_map(|t| t.partitions.clone()).collect();
    equal("partitions in the second try", again, [0, 1, 2])?;
    equal("committed", bench.committed(&topic).await?, ["yes"; 3])
}

/// A topic that the coordinator or the leader does not know yet is waited for.
pub(super) async fn d06(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let mut transaction = bench.init(&client, &bench.id("d06")).await?.begin();
    bench.refuse(adding(bench), UNKNOWN_TOPIC, 3)?;
    bench.write(&mut transaction, &topic, 0, &["v"]).await?;
    equal("tries", bench.tap.count(adding(bench)), 4)?;
    bench.step("commit", within(transaction.commit()).await?)?;
    equal("committed", bench.committed(&topic).await?, ["v"])
}

/// A transaction whose add is refused with `code` fails, is aborted, and nothing more is written under its identity.
async fn another_identity(bench: &Bench, code: i16) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let mut transaction = bench.init(&client, &bench.id("d")).await?.begin();
    bench.write(&mut transaction, &topic, 0, &["no"]).await?;
    let mut transaction = bench.step("abort", within(transaction.abort()).await?)?.begin();
    let before = written(bench)?.len();
    let inits = bench.tap.count(Api::InitProducerId);
    bench.refuse(adding(bench), code, 1)?;
    let cause = refused(&mut transaction, &topic, &[0]).await?;
    equal(&format!("the cause of {code}"), cause.kind, CauseKind::InvalidState)?;
    let producer = bench.step("abort", within(transaction.abort()).await?)?;
    let between = written(bench)?.len();
    let mut next = producer.begin();
    bench.write(&mut next, &topic, 0, &["yes"]).await?;
    bench.step("commit", within(next.commit()).await?)?;
    let batches = written(bench)?;
    let new = batches.last().map(|b| b.identity);
    let reused = batches[before..between].iter().any(|b| Some(b.identity) == new);
    holds(!reused, format!("after {code} the identity was used again"))?;
    holds(bench.v2() || bench.tap.count(Api::InitProducerId) > inits, "no identity was asked for")?;
    equal("the first sequence of the next transaction", batches.last().map(|b| b.sequence), Some(0))?;
    equal("committed", bench.committed(&topic).await?, ["yes"])
}

/// UNKNOWN_PRODUCER_ID and INVALID_PRODUCER_ID_MAPPING end the transaction; the next one has another epoch.
pub(super) async fn d07(bench: &Bench) -> Shown {
    another_identity(bench, UNKNOWN_PRODUCER).await?;
    another_identity(bench, NO_MAPPING).await
}

/// INVALID_TXN_STATE ends the transaction, and nothing is written under its identity any more.
pub(super) async fn d08(bench: &Bench) -> Shown {
    another_identity(bench, INVALID_STATE).await
}

/// Partitions that were added before one was refused are members: their transaction is ended at the broker.
pub(super) async fn d10(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 2).await?;
    let id = bench.id("d10");
    let mut transaction = bench.init(&client, &id).await?.begin();
    bench.write(&mut transaction, &topic, 0, &["no"]).await?;
    bench.refuse(Api::AddPartitionsToTxn, TOPIC_DENIED, 1)?;
    let cause = refused(&mut transaction, &topic, &[1]).await?;
    equal("the cause", cause.kind, CauseKind::Denied)?;
    bench.step("abort", within(transaction.abort()).await?)?;
    let ends = ended(bench)?;
    equal("EndTxn sent", ends.iter().map(|e| e.commit).collect::<Vec<_>>(), [false])?;
    until_state(&client, &id, CoordinatorState::CompleteAbort).await?;
    equal("committed", bench.committed(&topic).await?, Vec::<String>::new())
}

/// TRANSACTION_ABORTABLE, to whatever request, costs this transaction and no more.
pub(super) async fn d13(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let id = bench.id("d13");
    bench.refuse(Api::InitProducerId, ABORTABLE, 1)?;
    match within(client.transactional_producer(id.clone()).init()).await? {
        Err(cause) => equal("the cause at the start", cause.kind, CauseKind::InvalidState)?,
        Ok(_) => return Err(Failure::wrong("an identity in spite of TRANSACTION_ABORTABLE")),
    }
    let mut producer = bench.init(&client, &id).await?;
    let mut apis = vec![Api::Produce];
    if !bench.v2() {
        apis.push(Api::AddPartitionsToTxn);
    }
    for api in apis {
        let mut transaction = producer.begin();
        bench.refuse(api, ABORTABLE, 1)?;
        let cause = refused(&mut transaction, &topic, &[0]).await?;
        equal(&format!("the cause at {api}"), cause.kind, CauseKind::InvalidState)?;
        producer = bench.step("abort", within(transaction.abort()).await?)?;
    }
    let mut transaction = producer.begin();
    bench.write(&mut transaction, &topic, 0, &["last"]).await?;
    bench.refuse(Api::EndTxn, ABORTABLE, 1)?;
    // To a commit it is no proof: the coordinator is asked, and what the commit says is the truth.
    let mut expected = match within(transaction.commit()).await? {
        Ok(_) => vec!["last"],
        Err(EndError::Outcome(_) | EndError::Failed(_)) => vec![],
        Err(other) => return Err(Failure::wrong(format!("the commit ended with {other:?}"))),
    };
    expected.push("yes");
    let mut next = bench.init(&client, &id).await?.begin();
    bench.write(&mut next, &topic, 0, &["yes"]).await?;
    bench.step("commit", within(next.commit()).await?)?;
    equal("committed", bench.committed(&topic).await?, expected)
}

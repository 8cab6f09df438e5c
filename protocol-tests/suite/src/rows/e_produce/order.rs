//! Sequences: in order, without gaps, and never carried over.

use kafka_2pc::client::{Client, SendError, Topic, TransactionalProducer};
use kafka_2pc::ids::Identity;
use kafka_2pc::proto::cause::CauseKind;
use kafka_2pc::record::{Compression, RecordRef};
use kafka_2pc::wire::api::Api;
use kafka_2pc::wire::batch::{Batch, BatchBuilder, Batches, Stamp, increment_sequence};
use kafka_protocol::messages::ProduceRequest;

use super::{numbered, repeats_are_identical};
use crate::bench::{Bench, within};
use crate::outcome::{Failure, Shown, equal, holds};
use crate::rows::seen::{ended, written};
use crate::tap::Act;

/// REQUEST_TIMED_OUT.
const TIMED_OUT: i16 = 7;
/// NOT_ENOUGH_REPLICAS.
const NOT_ENOUGH_REPLICAS: i16 = 19;
/// TOPIC_AUTHORIZATION_FAILED.
const TOPIC_DENIED: i16 = 29;
/// OUT_OF_ORDER_SEQUENCE_NUMBER.
const OUT_OF_ORDER: i16 = 45;
/// INVALID_RECORD.
const INVALID_RECORD: i16 = 87;

/// A producer of batches that hold a record or two.
async fn small(bench: &Bench, client: &Client, name: &str) -> Result<TransactionalProducer, Failure> {
    bench.init_of(client.transactional_producer(bench.id(name)).batch_size(80)).await
}

/// Writes values in many batches at once, commits, and expects them in order.
async fn in_order(bench: &Bench, producer: TransactionalProducer, topic: &Topic) -> Shown {
    let values = numbered(30);
    let mut transaction = producer.begin();
    for value in &values {
        within(transaction.send(topic, Some(0), RecordRef::value(value.as_bytes()))).await??;
    }
    bench.step("flush", within(transaction.flush()).await?)?;
    bench.step("commit", within(transaction.commit()).await?)?;
    repeats_are_identical(bench)?;
    equal("committed", bench.committed(topic).await?, values)
}

/// One of five batches in flight fails: it and those behind it are sent again, in order.
pub(super) async fn e01(bench: &Bench) -> Shown {
    let client = bench.client()?;
    for nth in 1..=6 {
        let topic = bench.topic(&client, 1).await?;
        let producer = small(bench, &client, "e01").await?;
        bench.tap.plan(Api::Produce, nth, Act::Drop);
        in_order(bench, producer, &topic).await?;
    }
    let most = written(bench)?.iter().map(|b| b.sequence).max();
    holds(most.is_some_and(|most| most > 5), "there were not several batches")
}

/// A gap in the sequences without anything missing before it ends the transaction, and no new identity hides it.
pub(super) async fn e03(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let mut transaction = bench.init(&client, &bench.id("e03")).await?.begin();
    bench.write(&mut transaction, &topic, 0, &["no"]).await?;
    let inits = bench.tap.count(Api::InitProducerId);
    bench.refuse(Api::Produce, OUT_OF_ORDER, 1)?;
    within(transaction.send(&topic, Some(0), RecordRef::value(b"no"))).await??;
    match within(transaction.flush()).await? {
        Err(SendError::Failed(cause)) => equal("the cause", cause.kind, CauseKind::SequenceGap)?,
        other => return Err(Failure::wrong(format!("the flush ended with {other:?}"))),
    }
    let later = within(transaction.send(&topic, Some(0), RecordRef::value(b"no"))).await?;
    holds(later.is_err(), "a record was taken after the gap")?;
    equal("InitProducerId sent", bench.tap.count(Api::InitProducerId), inits)?;
    let mut next = bench.step("abort", within(transaction.abort()).await?)?.begin();
    bench.write(&mut next, &topic, 0, &["yes"]).await?;
    bench.step("commit", within(next.commit()).await?)?;
    equal("committed", bench.committed(&topic).await?, ["yes"])
}

/// The first batch of a partition fails while others are under way: order is kept if it can be sent again, and nothing
/// becomes visible if it can not.
pub(super) async fn e05(bench: &Bench) -> Shown {
    let client = bench.client()?;
    for code in [NOT_ENOUGH_REPLICAS, TIMED_OUT] {
        let topic = bench.topic(&client, 1).await?;
        let producer = small(bench, &client, "e05").await?;
        bench.refuse(Api::Produce, code, 1)?;
        in_order(bench, producer, &topic).await?;
    }
    let topic = bench.topic(&client, 1).await?;
    let mut transaction = small(bench, &client, "e05").await?.begin();
    bench.refuse(Api::Produce, INVALID_RECORD, 1)?;
    for value in numbered(10) {
        // Once the failure is known, no more are taken.
        if within(transaction.send(&topic, Some(0), RecordRef::value(value.as_bytes()))).await?.is_err() {
            break;
        }
    }
    let failed = within(transaction.flush()).await?;
    holds(matches!(failed, Err(SendError::Failed(_))), format!("the flush ended with {failed:?}"))?;
    let failed = bench.step("commit", within(transaction.commit()).await?);
    holds(failed.is_err(), "a transaction without its first batch was committed")?;
    equal("committed", bench.committed(&topic).await?, Vec::<String>::new())
}

/// Sequences go on from 2³¹-1 with 0, in the numbers of a batch's records as in those of batches.
pub(super) async fn e10(_: &Bench) -> Shown {
    let cases = [
        (i32::MAX, 1, 0),
        (i32::MAX - 2, 2, i32::MAX),
        (i32::MAX - 1, 4, 2),
        (i32::MAX, i32::MAX, i32::MAX - 1),
    ];
    for (first, records, next) in cases {
        equal(&format!("{records} after {first}"), increment_sequence(first, records), next)?;
    }
    let mut builder = BatchBuilder::new();
    for _ in 0..3 {
        builder.append(&RecordRef::value(b"v"), 1)?;
    }
    let mut sealed = builder.seal(Compression::None)?;
    sealed.stamp(Stamp::Transactional { identity: Identity::new(1, 0), base_sequence: i32::MAX - 1 });
    let batches: Vec<Batch> = Batches::new(sealed.freeze()).collect::<Result<_, _>>()?;
    let batch = batches.first().ok_or_else(|| Failure::wrong("no batch"))?;
    equal("the first sequence", batch.header().base_sequence, i32::MAX - 1)?;
    equal("the records", batch.records()?.count(), 3)
}

/// After any end, the sequences of all partitions begin at 0 again.
pub(super) async fn e11(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 3).await?;
    let mut producer = bench.init(&client, &bench.id("e11")).await?;
    for end in ["abort", "commit", "refused", "commit"] {
        let before = written(bench)?.len();
        let mut transaction = producer.begin();
        for partition in [0, 1, 2] {
            bench.write(&mut transaction, &topic, partition, &[end, end]).await?;
        }
        bench.write(&mut transaction, &topic, 0, &[end]).await?;
        if end == "refused" {
            bench.refuse(Api::Produce, INVALID_RECORD, 1)?;
            within(transaction.send(&topic, Some(1), RecordRef::value(b"no"))).await??;
            holds(within(transaction.flush()).await?.is_err(), "INVALID_RECORD was passed over")?;
        }
        producer = match end {
            "commit" => bench.step("commit", within(transaction.commit()).await?)?,
            _ => bench.step("abort", within(transaction.abort()).await?)?,
        };
        let batches = written(bench)?.split_off(before);
        for partition in [0, 1, 2] {
            let mut expected = 0;
            for batch in batches.iter().filter(|b| b.partition == partition).take(2) {
                equal(&format!("a sequence of partition {partition}"), batch.sequence, expected)?;
                expected = 2;
            }
        }
    }
    equal("committed", bench.committed(&topic).await?.len(), 14)
}

/// Batches that have left keep identity and sequence however often they are repeated; new identities come between
/// transactions only.
pub(super) async fn e12(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let producer = small(bench, &client, "e12").await?;
    for (nth, act) in [(2, Act::ApplyThenDrop), (3, Act::Drop), (6, Act::ApplyThenDrop), (9, Act::Drop)] {
        bench.tap.plan(Api::Produce, nth, act);
    }
    bench.refuse(Api::Produce, NOT_ENOUGH_REPLICAS, 2)?;
    let inits = bench.tap.count(Api::InitProducerId);
    in_order(bench, producer, &topic).await?;
    equal("InitProducerId sent", bench.tap.count(Api::InitProducerId), inits)?;
    let mut identities: Vec<_> = written(bench)?.iter().map(|b| b.identity).collect();
    identities.dedup();
    equal("identities of the transaction", identities.len(), 1)
}

/// On V2 a partition may be a member although every Produce was refused: the transaction is ended at the broker.
pub(super) async fn e13(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let mut transaction = bench.init(&client, &bench.id("e13")).await?.begin();
    bench.tap.rewrite::<ProduceRequest>(1, |answer| {
        for p in answer.responses.iter_mut().flat_map(|t| &mut t.partition_responses) {
            p.error_code = TOPIC_DENIED;
        }
        true
    });
    within(transaction.send(&topic, Some(0), RecordRef::value(b"no"))).await??;
    holds(within(transaction.flush()).await?.is_err(), "TOPIC_AUTHORIZATION_FAILED was passed over")?;
    let producer = bench.step("abort", within(transaction.abort()).await?)?;
    equal("EndTxn sent", ended(bench)?.iter().map(|e| e.commit).collect::<Vec<_>>(), [false])?;
    let mut next = producer.begin();
    bench.write(&mut next, &topic, 0, &["yes"]).await?;
    bench.step("commit", within(next.commit()).await?)?;
    equal("committed", bench.committed(&topic).await?, ["yes"])
}

//! How partitions become members of a transaction.

use std::time::Duration;

use kafka_2pc::client::SendError;
use kafka_2pc::ids::{Moment, NodeId, TopicId, TopicPartition};
use kafka_2pc::proto::cause::CauseKind;
use kafka_2pc::proto::outbox::{Batch, BatchId, FirstBatch, Limits};
use kafka_2pc::proto::transaction::{AddFact, Effect, Goal, Input, Transaction};
use kafka_2pc::record::RecordRef;
use kafka_2pc::wire::api::Api;
use kafka_2pc::wire::versions::TransactionVersion;

use crate::bench::{Bench, within};
use crate::outcome::{Failure, Shown, equal, holds};
use crate::rows::seen::written;
use crate::rules::{Operation, Resource};

/// TOPIC_AUTHORIZATION_FAILED.
const TOPIC_DENIED: i16 = 29;

/// On V2 nobody asks for partitions to be added: Produce does it.
pub(super) async fn d02(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 2).await?;
    let mut transaction = bench.init(&client, &bench.id("d02")).await?.begin();
    bench.write(&mut transaction, &topic, 0, &["0"]).await?;
    bench.write(&mut transaction, &topic, 1, &["1"]).await?;
    bench.step("commit", within(transaction.commit()).await?)?;
    equal("committed", bench.committed(&topic).await?, ["0", "1"])?;
    equal("AddPartitionsToTxn sent", bench.tap.count(Api::AddPartitionsToTxn), 0)
}

/// A topic that may not be written is named, the transaction can only be aborted, and the next one writes to others.
pub(super) async fn d05(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let (allowed, forbidden) = (bench.topic(&client, 1).await?, bench.topic(&client, 1).await?);
    if bench.embedded().is_ok() {
        let api = if bench.v2() { Api::Produce } else { Api::AddPartitionsToTxn };
        bench.refuse(api, TOPIC_DENIED, 1)?;
    } else {
        bench.allow(Resource::Topic, forbidden.name(), Operation::Describe).await?;
    }
    let mut transaction = bench.init(&client, &bench.id("d05")).await?.begin();
    within(transaction.send(&forbidden, Some(0), RecordRef::value(b"no"))).await??;
    match bench.step("flush", within(transaction.flush()).await?) {
        Err(SendError::Failed(cause)) => {
            equal("the cause", cause.kind, CauseKind::Denied)?;
            let named = cause.partition.map(|p| p.topic.to_string());
            equal("the topic that is named", named.as_deref(), Some(&**forbidden.name()))?;
        }
        other => return Err(Failure::wrong(format!("the flush ended with {other:?}"))),
    }
    let producer = bench.step("abort", within(transaction.abort()).await?)?;
    let mut next = producer.begin();
    bench.write(&mut next, &allowed, 0, &["yes"]).await?;
    bench.step("commit", within(next.commit()).await?)?;
    equal("committed", bench.committed(&allowed).await?, ["yes"])
}

/// One AddPartitionsToTxn is under way at a time, and the end of the transaction waits for its answer: one that came later
/// would open a transaction that nobody ends.
pub(super) async fn d14(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 4).await?;
    let mut transaction = bench.init(&client, &bench.id("d14")).await?.begin();
    let mut late = bench.tap.pause(Api::AddPartitionsToTxn);
    for partition in 0..4 {
        within(transaction.send(&topic, Some(partition), RecordRef::value(b"v"))).await??;
        // Lets the batch leave now, and not with the others.
        tokio::select! {
            flushed = transaction.flush() => flushed?,
            () = tokio::time::sleep(Duration::from_millis(5)) => {}
        }
    }
    late.reached().await?;
    let release = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        late.release();
    };
    let (committed, ()) = tokio::join!(transaction.commit(), release);
    bench.step("commit", committed)?;
    equal("committed", bench.committed(&topic).await?, ["v"; 4])?;
    let (requests, answers) = (bench.tap.requests(), bench.tap.answers());
    let asked: Vec<_> =
        requests.iter().filter(|r| r.api == Api::AddPartitionsToTxn).map(|r| r.order).collect();
    let told: Vec<_> = answers.iter().filter(|a| a.api == Api::AddPartitionsToTxn).map(|a| a.order).collect();
    holds(asked.len() > 1, "all partitions were added at once")?;
    equal("answers to AddPartitionsToTxn", told.len(), asked.len())?;
    let apart = told.iter().zip(&asked[1..]).all(|(answer, next)| answer < next);
    holds(apart, format!("asked at {asked:?}, answered at {told:?}"))?;
    let end = requests.iter().find(|r| r.api == Api::EndTxn).map(|r| r.order);
    holds(told.last().copied() < end, format!("answered at {told:?}, ended at {end:?}"))
}

/// On V1 no batch leaves for a partition before the answer that says that it was added.
pub(super) async fn d01(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 2).await?;
    let mut transaction = bench.init(&client, &bench.id("d01")).await?.begin();
    for partition in [0, 1] {
        let mut add = bench.tap.pause(Api::AddPartitionsToTxn);
        let write = bench.write(&mut transaction, &topic, partition, &["v"]);
        let watch = async {
            add.reached().await?;
            tokio::time::sleep(Duration::from_millis(30)).await;
            let early = written(bench)?.iter().any(|batch| batch.partition == partition);
            holds(!early, format!("partition {partition} was written before it was added"))?;
            add.release();
            Ok::<_, Failure>(())
        };
        let (wrote, watched) = tokio::join!(write, watch);
        watched?;
        wrote?;
    }
    // It is a member: it is not added again.
    bench.write(&mut transaction, &topic, 0, &["w"]).await?;
    bench.step("commit", within(transaction.commit()).await?)?;
    equal("AddPartitionsToTxn sent", bench.tap.count(Api::AddPartitionsToTxn), 2)?;
    equal("committed", bench.committed(&topic).await?, ["v", "w", "v"])
}

/// Partitions that come while others are being added are added after them, and nobody waits for ever.
pub(super) async fn d09(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 5).await?;
    let mut transaction = bench.init(&client, &bench.id("d09")).await?.begin();
    let mut add = bench.tap.pause(Api::AddPartitionsToTxn);
    within(transaction.send(&topic, Some(0), RecordRef::value(b"v"))).await??;
    tokio::select! {
        flushed = transaction.flush() => flushed?,
        reached = add.reached() => reached?,
    }
    for partition in 1..5 {
        within(transaction.send(&topic, Some(partition), RecordRef::value(b"v"))).await??;
    }
    let release = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        add.release();
    };
    let (flushed, ()) = within(async { tokio::join!(transaction.flush(), release) }).await?;
    flushed?;
    bench.step("commit", within(transaction.commit()).await?)?;
    equal("AddPartitionsToTxn sent", bench.tap.count(Api::AddPartitionsToTxn), 2)?;
    equal("committed", bench.committed(&topic).await?, ["v"; 5])
}

/// An abort takes back what was not sent: no partition is added and nothing is ended at a broker that never heard of the
/// transaction. What may have reached one is ended.
pub(super) async fn d12(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let mut transaction = bench.init(&client, &bench.id("d12")).await?.begin();
    transaction.try_send(&topic, Some(0), RecordRef::value(b"no"))?;
    let producer = bench.step("abort", within(transaction.abort()).await?)?;
    let heard = |api| bench.tap.count(api);
    let all = [Api::AddPartitionsToTxn, Api::Produce, Api::EndTxn].map(heard);
    equal("AddPartitionsToTxn, Produce, EndTxn of a transaction that was not sent", all, [0, 0, 0])?;

    // The first request that names the transaction is lost on its way.
    let first = if bench.v2() { Api::Produce } else { Api::AddPartitionsToTxn };
    let mut transaction = producer.begin();
    let held = bench.tap.hold(first);
    within(transaction.send(&topic, Some(0), RecordRef::value(b"no"))).await??;
    tokio::select! {
        flushed = transaction.flush() => return Err(Failure::wrong(format!("the flush ended with {flushed:?}"))),
        held = held => drop(held?),
    }
    let producer = bench.step("abort", within(transaction.abort()).await?)?;
    holds(heard(Api::EndTxn) > 0, "what may have reached the broker was not ended")?;
    let mut next = producer.begin();
    bench.write(&mut next, &topic, 0, &["yes"]).await?;
    bench.step("commit", within(next.commit()).await?)?;
    equal("committed", bench.committed(&topic).await?, ["yes"])
}

/// A transaction V1 of the machine, with one batch for a partition.
fn machine() -> Result<Transaction, Failure> {
    let limits = Limits {
        first_batch: FirstBatch::Alone,
        in_flight: 5,
        request_bytes: 1 << 20,
        retry: Duration::from_millis(100),
        retry_max: Duration::from_secs(1),
    };
    let mut machine = Transaction::new(TransactionVersion::V1, limits, 1);
    take(&mut machine, Moment(0), 0)?;
    Ok(machine)
}

fn take(machine: &mut Transaction, now: Moment, partition: i32) -> Shown {
    let id = BatchId(u64::try_from(partition)?);
    let batch = Batch { id, topic: TopicId::UNKNOWN, records: 1, bytes: 100, deadline: Moment(u64::MAX) };
    Ok(machine
        .handle(now, Input::Batch { partition: TopicPartition::new("t", partition), batch, leader: None })?)
}

fn effects(machine: &mut Transaction) -> Vec<Effect> {
    std::iter::from_fn(|| machine.poll_effect()).collect()
}

/// How many adds the machine asks for.
fn adds(effects: &[Effect]) -> usize {
    effects.iter().filter(|e| matches!(e, Effect::AddPartitions(_))).count()
}

/// While the transaction before still ends, the first add is tried again soon, but not for ever; once a partition was
/// added, the end that is under way is this transaction's own, and the usual pauses hold.
pub(super) async fn d03(bench: &Bench) -> Shown {
    let soon = Duration::from_millis(20);
    let mut machine = machine()?;
    let mut now = Moment(0);
    let waited = |machine: &mut Transaction, now: &mut Moment| {
        machine.handle(*now, Input::Added(AddFact::RetrySoon))?;
        let due = machine.next_deadline(*now).ok_or_else(|| Failure::wrong("no retry is due"))?;
        let wait = due.since(*now);
        *now = due;
        machine.handle(due, Input::Tick)?;
        equal("adds after the wait", adds(&effects(machine)), 1)?;
        Ok::<_, Failure>(wait)
    };
    equal("adds at first", adds(&effects(&mut machine)), 1)?;
    let mut waits = Vec::new();
    for _ in 0..40 {
        waits.push(waited(&mut machine, &mut now)?);
    }
    holds(waits[..10].iter().all(|wait| *wait <= soon), format!("the first waits were {:?}", &waits[..10]))?;
    holds(
        waits[30..].iter().all(|wait| *wait > soon * 10),
        format!("the last waits were {:?}", &waits[30..]),
    )?;
    machine.handle(now, Input::Added(AddFact::Added))?;
    take(&mut machine, now, 1)?;
    effects(&mut machine);
    for _ in 0..3 {
        waits.push(waited(&mut machine, &mut now)?);
    }
    holds(waits[42] > soon, format!("once a partition was added, the waits were {:?}", &waits[40..]))?;

    // And a broker whose last transaction still ends lets the next one in when it has ended.
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let mut first = bench.init(&client, &bench.id("d03")).await?.begin();
    bench.write(&mut first, &topic, 0, &["1"]).await?;
    bench.embedded()?.hold_markers();
    let mut second = bench.step("commit", within(first.commit()).await?)?.begin();
    let release = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        bench.embedded().map(kafka_2pc::broker::Broker::release_markers)
    };
    let (wrote, released) = tokio::join!(bench.write(&mut second, &topic, 0, &["2"]), release);
    released?;
    wrote?;
    bench.step("commit", within(second.commit()).await?)?;
    equal("committed", bench.committed(&topic).await?, ["1", "2"])
}

/// A partition that waits to be added when the transaction is given up is never added.
pub(super) async fn d11(_: &Bench) -> Shown {
    let mut machine = machine()?;
    let now = Moment(0);
    equal("adds at first", adds(&effects(&mut machine)), 1)?;
    take(&mut machine, now, 1)?;
    machine.handle(now, Input::Leaders(vec![(TopicPartition::new("t", 1), Some(NodeId(1)))].into()))?;
    equal("adds while one is under way", adds(&effects(&mut machine)), 0)?;
    machine.handle(now, Input::End(Goal::Abort))?;
    machine.handle(now, Input::Added(AddFact::Added))?;
    let left = effects(&mut machine);
    equal("adds after the abort", adds(&left), 0)?;
    holds(left.iter().any(|e| matches!(e, Effect::Abort)), format!("no abort among {left:?}"))
}

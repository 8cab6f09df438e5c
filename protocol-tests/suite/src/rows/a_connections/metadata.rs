//! Who leads what, and whether a topic is the one that it was.

use std::time::Duration;

use kafka_2pc::client::{Client, EndError, Isolation, SendError, Start, Topic, TopicError, Transaction};
use kafka_2pc::ids::TopicPartition;
use kafka_2pc::proto::cause::CauseKind;
use kafka_2pc::proto::resume::{Decision, Outcome};
use kafka_2pc::proto::settle::SettleTarget;
use kafka_2pc::record::RecordRef;
use kafka_2pc::wire::api::Api;
use kafka_protocol::messages::MetadataRequest;

use crate::bench::{Bench, within};
use crate::outcome::{Failure, Shown, equal, holds};
use crate::rows::e_produce::repeats_are_identical;

/// NOT_LEADER_OR_FOLLOWER.
const NOT_LEADER: i16 = 6;
/// Higher than any leader epoch there is.
const FALSE_EPOCH: i32 = i32::MAX;
/// UNKNOWN_TOPIC_OR_PARTITION.
const UNKNOWN_TOPIC: i16 = 3;
/// UNKNOWN_TOPIC_ID.
const UNKNOWN_ID: i16 = 100;
/// The first Produce that names topics by their ids.
const BY_ID: i16 = 13;

/// A batch that meets a leader of yesterday is sent again as it is, to the leader that the refusal names.
pub(super) async fn a14(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let at = TopicPartition::new(topic.name().clone(), 0);
    let mut transaction = bench.init(&client, &bench.id("a14")).await?.begin();
    bench.write(&mut transaction, &topic, 0, &["1"]).await?;
    bench.move_leader(&at).await?;
    bench.write(&mut transaction, &topic, 0, &["2"]).await?;
    bench.step("commit", within(transaction.commit()).await?)?;
    equal("committed", bench.committed(&topic).await?, ["1", "2"])?;
    let answers = bench.tap.answers();
    let refused = answers.iter().find(|a| a.api == Api::Produce && a.codes == [NOT_LEADER]);
    let refused = refused.ok_or_else(|| Failure::wrong("no Produce met the old leader"))?.order;
    let requests = bench.tap.requests();
    let (before, after): (Vec<_>, Vec<_>) =
        requests.iter().filter(|r| r.api == Api::Produce).partition(|r| r.order < refused);
    let first = before.last().ok_or_else(|| Failure::wrong("no Produce before the refusal"))?;
    let again = after.first().ok_or_else(|| Failure::wrong("no Produce after the refusal"))?;
    equal("the batch that is sent again", again.batches()?, first.batches()?)?;
    holds(again.connection != first.connection, "it went to the old leader once more")?;
    // Before Produce 10, a refusal names nobody.
    let asked = first.version >= 10
        && requests.iter().any(|r| r.api == Api::Metadata && (refused..again.order).contains(&r.order));
    holds(!asked, "the refusal named the leader, and it was asked for nevertheless")
}

/// Metadata of before a move, or without an epoch, does not overrule what is known: nobody goes back to the old leader.
pub(super) async fn a15(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let at = TopicPartition::new(topic.name().clone(), 0);
    let mut transaction = bench.init(&client, &bench.id("a15")).await?.begin();
    bench.write(&mut transaction, &topic, 0, &["1"]).await?;
    let (old, _) = bench.leader(&at).await?;
    bench.move_leader(&at).await?;
    bench.write(&mut transaction, &topic, 0, &["2"]).await?;
    let mut producer = bench.step("commit", within(transaction.commit()).await?)?;
    let refused =
        || bench.tap.answers().iter().filter(|a| a.api == Api::Produce && a.codes == [NOT_LEADER]).count();
    equal("answers of an old leader", refused(), 1)?;
    for epoch in [0, -1] {
        bench.tap.clear();
        bench.tap.rewrite::<MetadataRequest>(u32::MAX, move |answer| {
            for partition in answer.topics.iter_mut().flat_map(|t| &mut t.partitions) {
                partition.leader_id = old.into();
                partition.leader_epoch = epoch;
            }
            true
        });
        within(client.topic(topic.name())).await??;
        let mut next = producer.begin();
        bench.write(&mut next, &topic, 0, &["3"]).await?;
        producer = bench.step("commit", within(next.commit()).await?)?;
        equal("answers of an old leader", refused(), 1)?;
    }
    equal("committed", bench.committed(&topic).await?, ["1", "2", "3", "3"])
}

/// A leader epoch that was told too high by mistake holds until the leader that it names refuses, is silent, is no broker, or
/// is nobody; then the next answer counts, and the false one costs nothing but that.
pub(super) async fn a23(bench: &Bench) -> Shown {
    for what in ["another broker", "a dead broker", "no broker", "nobody"] {
        false_epoch(bench, what).await.map_err(|failure| failure.on(what))?;
    }
    Ok(())
}

async fn false_epoch(bench: &Bench, what: &'static str) -> Shown {
    let client = bench.client_of(bench.config()?.request_timeout(Duration::from_secs(2)));
    let topic = bench.topic(&bench.untapped()?, 1).await?;
    let at = TopicPartition::new(topic.name().clone(), 0);
    let (leader, _) = bench.leader(&at).await?;
    let id = loop {
        // The one that dies must be of no other use.
        let id = bench.id("a23");
        if bench.coordinator(&id).await? == leader {
            break id;
        }
    };
    let other = (1..=3).find(|node| *node != leader).unwrap_or_default();
    let named = match what {
        "no broker" => 99,
        "nobody" => -1,
        _ => other,
    };
    if what == "a dead broker" {
        bench.kill_node(other).await?;
    }
    mislead(bench, named);
    let topic = within(client.topic(topic.name())).await??;
    equal("false answers that were not told", bench.tap.to_come(), 0)?;
    let mut transaction = bench.init(&client, &id).await?.begin();
    bench.write(&mut transaction, &topic, 0, &["1"]).await?;
    bench.step("commit", within(transaction.commit()).await?)?;
    // A reader has its own knowledge, and is misled by its own first answer.
    mislead(bench, named);
    let mut consumer = client.consumer().isolation(Isolation::Committed).build();
    consumer.assign([(at.clone(), Start::Beginning)]);
    let read = async {
        while consumer.poll(Duration::from_millis(20)).await?.is_empty() {}
        Ok::<_, Failure>(())
    };
    within(read).await??;
    equal("false answers that were not told", bench.tap.to_come(), 0)?;
    if what == "a dead broker" {
        bench.start_node(other).await?;
    }
    equal("committed", bench.committed(&topic).await?, ["1"])
}

/// The next answer about a topic names this leader, of an epoch that is too high.
fn mislead(bench: &Bench, leader: i32) {
    bench.tap.rewrite::<MetadataRequest>(1, move |answer| {
        let partitions = answer.topics.iter_mut().flat_map(|topic| &mut topic.partitions);
        let told = partitions.map(|partition| {
            partition.leader_id = leader.into();
            partition.leader_epoch = FALSE_EPOCH;
        });
        told.count() > 0
    });
}

/// A topic that is missing in some answers while a transaction is open is waited for.
pub(super) async fn a16(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let mut transaction = bench.init(&client, &bench.id("a16")).await?.begin();
    bench.write(&mut transaction, &topic, 0, &["1"]).await?;
    bench.tap.rewrite::<MetadataRequest>(3, |answer| {
        for topic in &mut answer.topics {
            topic.error_code = UNKNOWN_TOPIC;
            topic.partitions.clear();
        }
        !answer.topics.is_empty()
    });
    bench.refuse(Api::Produce, NOT_LEADER, 1)?;
    bench.write(&mut transaction, &topic, 0, &["2"]).await?;
    bench.write(&mut transaction, &topic, 0, &["3"]).await?;
    bench.step("commit", within(transaction.commit()).await?)?;
    repeats_are_identical(bench)?;
    let gone =
        bench.tap.answers().iter().filter(|a| a.api == Api::Metadata && a.codes == [UNKNOWN_TOPIC]).count();
    equal("answers without the topic", gone, 3)?;
    equal("committed", bench.committed(&topic).await?, ["1", "2", "3"])
}

/// A topic without an error and without partitions is one that does not exist yet.
pub(super) async fn a18(bench: &Bench) -> Shown {
    let empty = |times| {
        bench.tap.rewrite::<MetadataRequest>(times, |answer| {
            answer.topics.iter_mut().for_each(|topic| topic.partitions.clear());
            !answer.topics.is_empty()
        });
    };
    empty(2);
    let topic = bench.topic(&bench.client()?, 2).await?;
    equal("partitions", topic.partitions(), 2)?;
    empty(u32::MAX);
    let client = bench.client_of(bench.config()?.max_block(Duration::from_millis(200)));
    match within(client.topic(topic.name())).await? {
        Err(TopicError::Missing(name)) => equal("the topic that is named", &*name, &**topic.name()),
        other => Err(Failure::wrong(format!("a topic without partitions: {other:?}"))),
    }
}

/// When the client hears that a topic was deleted and created anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    /// Before it ends the transaction, and has nothing more to write.
    AtTheEnd,
    /// Before it writes more.
    Before,
    /// Not before it has written more: the brokers that it asks do not know it yet themselves.
    Behind,
    /// When its transaction is prepared and committed.
    Afterwards,
}

/// A topic that was deleted and created anew is another one: nothing of a transaction that began before becomes visible in
/// it, and the transaction fails. Where brokers do not tell of it before the transaction is prepared, what became of it is
/// told when it is settled. Where Produce has topics' ids, nothing of it gets into the new topic at all, nor does what a producer
/// without transactions wrote for the old one.
pub(super) async fn a17(bench: &Bench) -> Shown {
    bench.trace.keep_private("what a broker answers about a topic that is just going depends on the moment");
    for told in [Told::AtTheEnd, Told::Before, Told::Behind, Told::Afterwards] {
        created_anew(bench, told).await.map_err(|failure| failure.on(format!("told {told:?}")))?;
    }
    without_transactions(bench).await.map_err(|failure| failure.on("without transactions"))
}

async fn created_anew(bench: &Bench, told: Told) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    if !topic.id().is_known() {
        return Err(Failure::not_offered(
            "topic ids, without which a topic created anew looks like the old one",
        ));
    }
    let id = bench.id("a17");
    let mut transaction = bench.init(&client, &id).await?.begin();
    bench.write(&mut transaction, &topic, 0, &["old"]).await?;
    let by_id = names_ids(bench);
    bench.delete_topic(topic.name()).await?;
    bench.create_topic(topic.name(), 1, &[]).await?;
    if matches!(told, Told::Behind | Told::Afterwards) {
        tell_of_the_old(bench, &topic)?;
    } else {
        bench.let_the_client_forget().await;
    }
    let mut flushed = true;
    // By its id the new topic is not found, and what went astray would tell of it before anybody prepares.
    if told != Told::AtTheEnd && !(by_id && told == Told::Afterwards) {
        within(transaction.send(&topic, Some(0), RecordRef::value(b"astray"))).await??;
        let ended = bench.step("flush", within(flush(bench, &mut transaction)).await?);
        let is_told = matches!(&ended, Err(SendError::Failed(c)) if c.kind == CauseKind::UnknownTopic);
        holds(is_told || !by_id, format!("the flush ended with {ended:?}"))?;
        flushed = ended.is_ok();
    }
    if told == Told::Afterwards {
        gone(bench, &client, transaction).await?;
    } else {
        bench.tap.clear();
        match bench.step("commit", within(transaction.commit()).await?) {
            Err(EndError::Failed(cause)) if !flushed || cause.kind == CauseKind::UnknownTopic => {}
            other => return Err(Failure::wrong(format!("the commit ended with {other:?}"))),
        }
        let client = bench.untapped()?;
        let anew = within(client.topic(topic.name())).await??;
        equal("visible in the new topic", bench.committed(&anew).await?, Vec::<String>::new())?;
    }
    let anew = within(client.topic(topic.name())).await??;
    holds(anew.id() != topic.id(), "the client still takes the new topic for the old one")?;
    let before = bench.committed(&anew).await?;
    holds(!before.contains(&"old".to_owned()), "a record of the old topic is in the new one")?;
    holds(!by_id || before.is_empty(), "a record for the old topic is in the new one")?;
    let mut next = bench.init(&client, &id).await?.begin();
    bench.write(&mut next, &anew, 0, &["new"]).await?;
    bench.step("commit", within(next.commit()).await?)?;
    let committed = bench.committed(&anew).await?;
    equal("committed in the new topic", committed, [before, vec!["new".to_owned()]].concat())
}

/// Whether Produce requests name topics by their ids here, as far as any have left.
fn names_ids(bench: &Bench) -> bool {
    bench.tap.requests().iter().any(|r| r.api == Api::Produce && r.version >= BY_ID)
}

/// Flushes. When a leader has refused the topic's id, the other brokers know of the new topic soon, too.
async fn flush(bench: &Bench, transaction: &mut Transaction) -> Result<(), SendError> {
    let known = bench.tap.answers().len();
    let refused = |bench: &Bench| {
        let answers = bench.tap.answers();
        answers.iter().skip(known).any(|a| a.api == Api::Produce && a.codes.contains(&UNKNOWN_ID))
    };
    let tell = async {
        while !refused(bench) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        bench.let_the_client_forget().await;
        bench.tap.clear();
        std::future::pending().await
    };
    tokio::select! {
        flushed = transaction.flush() => flushed,
        () = tell => Ok(()),
    }
}

/// A producer without transactions writes to the topic that was looked up, and says so where it can't. By its name it goes on
/// into the new one, as other clients do.
async fn without_transactions(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let producer = client.idempotent_producer().start();
    let send = async |topic: &Topic, value: &[u8]| {
        let record = RecordRef::value(value);
        let delivery = within(producer.send_tracked(topic, Some(0), record)).await??;
        // Whatever it says, the delivery says it of this record.
        _ = within(producer.flush()).await?;
        Ok::<_, Failure>(within(delivery.stored()).await?.map_err(|cause| cause.kind))
    };
    equal("the first record", send(&topic, b"old").await?, Ok(Some(0)))?;
    let by_id = bench.tap.requests().iter().rev().find(|r| r.api == Api::Produce).map(|r| r.version >= BY_ID);
    bench.delete_topic(topic.name()).await?;
    bench.create_topic(topic.name(), 1, &[]).await?;
    let astray = send(&topic, b"astray").await?;
    let anew = within(client.topic(topic.name())).await??;
    holds(anew.id() != topic.id(), "the client still takes the new topic for the old one")?;
    if by_id != Some(true) {
        return Ok(());
    }
    equal("a record for the old topic", astray, Err(CauseKind::UnknownTopic))?;
    equal("the first record of the new topic", send(&anew, b"new").await?, Ok(Some(0)))?;
    equal("in the new topic", bench.committed(&anew).await?, ["new"])
}

/// Brokers tell of the topic as it was, until the tap is cleared.
fn tell_of_the_old(bench: &Bench, topic: &Topic) -> Shown {
    let is_it = |name: Option<&kafka_protocol::messages::TopicName>, wanted: &str| {
        name.is_some_and(|name| name.as_str() == wanted)
    };
    let answers = bench.tap.answers();
    let metadata = answers.iter().rev().filter(|a| a.api == Api::Metadata);
    let topics = metadata.filter_map(|a| a.decode::<MetadataRequest>().ok()).flat_map(|a| a.topics);
    let known = topics.filter(|t| is_it(t.name.as_ref(), topic.name())).map(|t| t.topic_id).next();
    let old = known.ok_or_else(|| Failure::wrong("no broker told of the topic"))?;
    let name = topic.name().to_string();
    bench.tap.rewrite::<MetadataRequest>(u32::MAX, move |answer| {
        let found = answer.topics.iter_mut().filter(|t| is_it(t.name.as_ref(), &name));
        found.map(|topic| topic.topic_id = old).count() > 0
    });
    Ok(())
}

/// Nobody could tell before the transaction was prepared and committed: then the settled check does. On V2 leaders refuse what
/// went astray, for its sequence does not begin with 0; on V1 they take it.
async fn gone(bench: &Bench, client: &Client, transaction: Transaction) -> Shown {
    let prepared = within(transaction.prepare()).await?;
    bench.tap.clear();
    let Ok(prepared) = prepared else { return Ok(()) };
    let committable = prepared.committable().ok_or_else(|| Failure::wrong("nothing was prepared"))?;
    let resumed = bench.step("commit", within(client.resume(committable.clone()).commit()).await?)?;
    if matches!(resumed.outcome, Outcome::Lost { .. }) {
        return Ok(());
    }
    // On a clock that jumps, what was asked before would be of this very moment.
    bench.let_the_client_forget().await;
    let target = SettleTarget::of(&committable, Decision::Commit);
    let settled = within(client.settle(target, Duration::from_secs(20))).await??;
    equal("partitions that are gone", settled.gone.len(), 1)
}

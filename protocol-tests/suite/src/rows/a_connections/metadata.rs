//! Who leads what, and whether a topic is the one that it was.

use std::time::Duration;

use kafka_2pc::client::{EndError, TopicError};
use kafka_2pc::ids::TopicPartition;
use kafka_2pc::proto::cause::CauseKind;
use kafka_2pc::record::RecordRef;
use kafka_2pc::wire::api::Api;
use kafka_protocol::messages::MetadataRequest;

use crate::bench::{Bench, within};
use crate::outcome::{Failure, Shown, equal, holds};
use crate::rows::e_produce::repeats_are_identical;

/// NOT_LEADER_OR_FOLLOWER.
const NOT_LEADER: i16 = 6;
/// UNKNOWN_TOPIC_OR_PARTITION.
const UNKNOWN_TOPIC: i16 = 3;

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

/// A topic that was deleted and created anew is another one: nothing of a transaction that began before becomes visible in
/// it, and the transaction fails.
pub(super) async fn a17(bench: &Bench) -> Shown {
    bench.trace.keep_private("what a broker answers about a topic that is just going depends on the moment");
    let client = bench.client()?;
    for more in [false, true] {
        let topic = bench.topic(&client, 1).await?;
        if !topic.id().is_known() {
            return Err(Failure::not_offered(
                "topic ids, without which a topic created anew looks like the old one",
            ));
        }
        let id = bench.id("a17");
        let mut transaction = bench.init(&client, &id).await?.begin();
        bench.write(&mut transaction, &topic, 0, &["old"]).await?;
        bench.delete_topic(topic.name()).await?;
        bench.create_topic(topic.name(), 1, &[]).await?;
        bench.let_the_client_forget().await;
        let flushed = if more {
            within(transaction.send(&topic, Some(0), RecordRef::value(b"astray"))).await??;
            bench.step("flush", within(transaction.flush()).await?).is_ok()
        } else {
            true
        };
        match bench.step("commit", within(transaction.commit()).await?) {
            Err(EndError::Failed(cause)) if !flushed || cause.kind == CauseKind::UnknownTopic => {}
            other => return Err(Failure::wrong(format!("the commit ended with {other:?}"))),
        }
        equal("visible in the new topic", bench.committed(&topic).await?, Vec::<String>::new())?;
        let anew = within(client.topic(topic.name())).await??;
        let mut next = bench.init(&client, &id).await?.begin();
        bench.write(&mut next, &anew, 0, &["new"]).await?;
        bench.step("commit", within(next.commit()).await?)?;
        equal("committed in the new topic", bench.committed(&anew).await?, ["new"])?;
    }
    Ok(())
}

//! Logs that lost their end in an unclean election.

use kafka_2pc::client::{Client, ConsumerError, Isolation, OutOfRangePolicy, Start, Topic};
use kafka_2pc::source::{KafkaSource, Source, SourceError, StartFrom, Subtask};
use kafka_2pc::wire::api::Api;

use super::{place, read_to, reader, texts, until_end};
use crate::bench::{Bench, within};
use crate::outcome::{Failure, Shown, equal, holds};

/// Commits values, each in a transaction of its own, so that each takes two offsets.
async fn commit(bench: &Bench, client: &Client, topic: &Topic, (values, end): (&[&str], i64)) -> Shown {
    let mut producer = bench.init(client, &bench.id("j10")).await?;
    for value in values {
        let mut transaction = producer.begin();
        bench.write(&mut transaction, topic, 0, &[value]).await?;
        producer = bench.step("commit", within(transaction.commit()).await?)?;
    }
    until_end(client, topic, Isolation::Committed, end).await
}

/// A log that was truncated below the position is noticed by the epoch of what was read last, before any of its new records
/// is taken for the next one; a leader that merely moved makes nobody go back.
pub(super) async fn j10(bench: &Bench) -> Shown {
    bench.trace.keep_private("what a client meets while nodes die depends on the moment");
    let client = bench.client()?;
    let topic = bench.careless_topic(&client).await?;
    let at = place(&topic);
    commit(bench, &client, &topic, (&["0", "2"], 4)).await?;
    let mut consumer = reader(&client, &topic, Isolation::Committed);
    equal("at first", texts(&read_to(&mut consumer, &at, 4).await?), ["0", "2"])?;
    let versions = bench.tap.requests().into_iter().filter(|r| r.api == Api::Fetch).map(|r| r.version);
    if versions.max().is_none_or(|newest| newest < 12) {
        return Err(Failure::not_offered("Fetch 12, in which a leader tells where logs part"));
    }
    let before = consumer.leader_epoch(&at);
    bench.move_leader(&at).await?;
    commit(bench, &client, &topic, (&["4"], 6)).await?;
    equal("behind a move", texts(&read_to(&mut consumer, &at, 6).await?), ["4"])?;
    holds(consumer.leader_epoch(&at) > before, "the epoch of the next leader is not told")?;

    let source = || KafkaSource::new(&client, [topic.name().clone()]).start(StartFrom::Earliest);
    let mut first = within(source().open(Subtask::ONLY, &[])).await??;
    let lost = async {
        commit(bench, &client, &topic, (&["6", "8"], 10)).await?;
        equal("before the loss", texts(&read_to(&mut consumer, &at, 10).await?), ["6", "8"])?;
        let mut read = 0;
        while read < 5 {
            read += within(first.next()).await??.map_or(0, |records| records.len());
        }
        Ok(())
    };
    bench.lose(&at, lost).await?;
    let (checkpoint, epoch) = (first.snapshot(), consumer.leader_epoch(&at));
    // As much is written again, and more.
    commit(bench, &client, &topic, (&["6b", "8b", "10b"], 12)).await?;
    for _ in 0..2 {
        match within(consumer.next_batch()).await? {
            Err(ConsumerError::Truncated { position: 10, kept: 6, .. }) => {}
            other => return Err(Failure::wrong(format!("a truncated log was read on: {other:?}"))),
        }
        equal("the position", consumer.position(&at), Some(10))?;
    }
    consumer.seek(&at, Start::Offset(6));
    equal("where the logs part", texts(&read_to(&mut consumer, &at, 12).await?), ["6b", "8b", "10b"])?;

    // Whoever asked to be set anew goes on there, with nothing twice.
    let mut set = client.consumer().out_of_range(OutOfRangePolicy::Latest).build();
    set.assign([(at.clone(), Start::Offset(9))]);
    set.read_at_epoch(&at, epoch);
    equal("by policy", texts(&read_to(&mut set, &at, 12).await?), ["6b", "8b", "10b"])?;

    // A checkpoint that stands behind the loss is noticed too.
    let mut restored = within(source().open(Subtask::ONLY, &checkpoint)).await??;
    match within(restored.next()).await? {
        Err(SourceError::Consumer(ConsumerError::Truncated { kept: 6, .. })) => Ok(()),
        other => Err(Failure::wrong(format!("a source was restored into another log: {other:?}"))),
    }
}

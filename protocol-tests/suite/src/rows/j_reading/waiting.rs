//! Fetches that wait at the broker.

use std::time::Duration;

use kafka_2pc::client::{Client, Consumer, Isolation, Topic};
use kafka_2pc::wire::api::Api;
use kafka_protocol::messages::FetchRequest;

use super::{end_of, place, read_to, texts};
use crate::bench::{Bench, within};
use crate::outcome::{Failure, Shown, equal, holds};
use crate::tap::Answer;

/// Longer than a row may take.
const LONG: Duration = Duration::from_secs(60);

fn waiting(client: &Client, topic: &Topic, max_wait: Duration, end: i64) -> Consumer {
    let mut consumer = client.consumer().max_wait(max_wait).build();
    consumer.assign([(place(topic), kafka_2pc::client::Start::Offset(end))]);
    consumer
}

fn answers(bench: &Bench) -> Vec<Answer> {
    bench.tap.answers().into_iter().filter(|answer| answer.api == Api::Fetch).collect()
}

/// Lets the consumer ask, until `count` fetches have left.
async fn until_asked(bench: &Bench, consumer: &mut Consumer, count: usize) -> Shown {
    let asked = async {
        while bench.tap.count(Api::Fetch) < count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within(async {
        tokio::select! {
            records = consumer.next_batch() => Err(Failure::wrong(format!("there was something to read: {records:?}"))),
            () = asked => Ok(()),
        }
    })
    .await?
}

/// A fetch that waited at the broker while a transaction was aborted brings the list of aborted transactions with the
/// records (KAFKA-5376), so that a reader sees none of them.
pub(super) async fn j08(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let start = end_of(&client, &topic, Isolation::Committed).await?;
    let mut consumer = waiting(&client, &topic, Duration::from_secs(30), start);
    let mut producer = bench.init(&client, &bench.id("j08")).await?;
    let mut end = start;
    for _ in 0..5 {
        let before = answers(bench).len();
        until_asked(
            bench,
            &mut consumer,
            bench.tap.count(Api::Fetch).max(before) + usize::from(end == start),
        )
        .await?;
        let mut transaction = producer.begin();
        bench.write(&mut transaction, &topic, 0, &["no", "no"]).await?;
        equal("answers while it is open", answers(bench).len(), before)?;
        producer = bench.step("abort", within(transaction.abort()).await?)?;
        end += 3;
        let seen = read_to(&mut consumer, &place(&topic), end).await?;
        equal("aborted records that were read", texts(&seen), Vec::<String>::new())?;
        let first = answers(bench)[before].decode::<FetchRequest>()?;
        let partition = first.responses.iter().flat_map(|t| &t.partitions).next();
        let partition = partition.ok_or_else(|| Failure::wrong("an answer without a partition"))?;
        holds(
            partition.records.as_ref().is_some_and(|r| !r.is_empty()),
            "the fetch that waited brought nothing",
        )?;
        let listed = partition.aborted_transactions.as_ref().map_or(0, Vec::len);
        equal("aborted transactions in its list", listed, 1)?;
    }
    let mut transaction = producer.begin();
    bench.write(&mut transaction, &topic, 0, &["yes"]).await?;
    bench.step("commit", within(transaction.commit()).await?)?;
    equal("what was read in the end", texts(&within(consumer.next_batch()).await??), ["yes"])
}

/// A fetch of committed records waits for `max_wait`, or for a byte that is committed: what is not makes no broker answer,
/// and no client ask more often.
pub(super) async fn j15(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let mut consumer = waiting(&client, &topic, LONG, 0);
    until_asked(bench, &mut consumer, 1).await?;
    let mut transaction = bench.init(&client, &bench.id("j15")).await?.begin();
    for _ in 0..5 {
        bench.write(&mut transaction, &topic, 0, &["v"]).await?;
    }
    let none = within(consumer.poll(Duration::from_millis(200))).await??;
    equal("records of an open transaction", texts(&none), Vec::<String>::new())?;
    equal("fetches, answers while it is open", (bench.tap.count(Api::Fetch), answers(bench).len()), (1, 0))?;
    bench.step("commit", within(transaction.commit()).await?)?;
    equal(
        "records when it is committed",
        texts(&read_to(&mut consumer, &place(&topic), 5).await?),
        ["v"; 5],
    )?;
    drop(consumer);
    let requests = bench.tap.requests();
    let first = requests.iter().find(|r| r.api == Api::Fetch).ok_or_else(|| Failure::wrong("no fetch"))?;
    let fetch = first.decode::<FetchRequest>()?;
    let asked = (fetch.min_bytes, fetch.max_wait_ms, fetch.isolation_level);
    equal("min bytes, max wait, isolation", asked, (1, 60_000, 1))?;

    // Where nothing comes, an answer comes empty after the wait, and the next fetch follows.
    let end = end_of(&client, &topic, Isolation::Committed).await?;
    let before = answers(bench).len();
    let mut consumer = waiting(&client, &topic, Duration::from_millis(20), end);
    let count = bench.tap.count(Api::Fetch) + 4;
    until_asked(bench, &mut consumer, count).await?;
    let empty = answers(bench)[before..].iter().all(|answer| answer.codes.iter().all(|code| *code == 0));
    holds(empty, "an error came instead of nothing")?;
    holds(answers(bench).len() >= before + 3, "the fetches were not answered one by one")
}

//! Answers to Fetch as brokers may give them: lists in any order, and batches that are torn.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kafka_2pc::broker::Quirk;
use kafka_2pc::client::{Client, Isolation, Topic, Transaction};
use kafka_2pc::wire::api::Api;
use kafka_protocol::messages::FetchRequest;
use kafka_protocol::messages::fetch_response::AbortedTransaction;

use super::{place, read_to, reader, texts, until_end};
use crate::arm::Arm;
use crate::bench::{Bench, within};
use crate::outcome::{Failure, Shown, equal, holds};

/// Offsets of a partition in which three producers commit and abort across each other.
const CROSSED: i64 = 16;

async fn open(bench: &Bench, client: &Client, topic: &Topic, value: &str) -> Result<Transaction, Failure> {
    let mut transaction = bench.init(client, &bench.id("j03")).await?.begin();
    bench.write(&mut transaction, topic, 0, &[value]).await?;
    Ok(transaction)
}

async fn crossed(bench: &Bench, client: &Client) -> Result<Topic, Failure> {
    let topic = bench.topic(client, 1).await?;
    let a = open(bench, client, &topic, "no").await?;
    let mut a = bench.step("abort", within(a.abort()).await?)?.begin();
    let b = open(bench, client, &topic, "no").await?;
    bench.write(&mut a, &topic, 0, &["no"]).await?;
    let mut a = bench.step("abort", within(a.abort()).await?)?.begin();
    let mut b = bench.step("abort", within(b.abort()).await?)?.begin();
    bench.write(&mut a, &topic, 0, &["1"]).await?;
    bench.write(&mut b, &topic, 0, &["no"]).await?;
    let mut a = bench.step("commit", within(a.commit()).await?)?.begin();
    bench.write(&mut a, &topic, 0, &["no"]).await?;
    let c = open(bench, client, &topic, "2").await?;
    let mut b = bench.step("abort", within(b.abort()).await?)?.begin();
    bench.write(&mut b, &topic, 0, &["3"]).await?;
    bench.step("abort", within(a.abort()).await?)?;
    bench.step("commit", within(c.commit()).await?)?;
    bench.step("commit", within(b.commit()).await?)?;
    until_end(client, &topic, Isolation::Committed, CROSSED).await?;
    Ok(topic)
}

type List = Vec<AbortedTransaction>;

/// Reads while lists of aborted transactions are changed; at least one had four entries.
async fn with_lists(
    bench: &Bench,
    (client, topic): (&Client, &Topic),
    change: impl Fn(&mut List) + Send + 'static,
) -> Result<Vec<String>, Failure> {
    let longest = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&longest);
    bench.tap.rewrite::<FetchRequest>(u32::MAX, move |answer| {
        let partitions = answer.responses.iter_mut().flat_map(|t| &mut t.partitions);
        for list in partitions.filter_map(|p| p.aborted_transactions.as_mut()) {
            seen.fetch_max(list.len(), Ordering::Relaxed);
            change(list);
        }
        true
    });
    let mut consumer = reader(client, topic, Isolation::Committed);
    let read = read_to(&mut consumer, &place(topic), CROSSED).await?;
    bench.tap.clear();
    holds(longest.load(Ordering::Relaxed) >= 4, "no list of aborted transactions came")?;
    Ok(texts(&read))
}

/// Lists of aborted transactions are in whatever order, overlap, name a producer several times, an entry twice, or what has
/// not begun yet.
pub(super) async fn j03(bench: &Bench) -> Shown {
    const EXPECTED: [&str; 3] = ["1", "2", "3"];
    let client = bench.client()?;
    let topic = crossed(bench, &client).await?;
    let behind = || AbortedTransaction::default().with_producer_id(1.into()).with_first_offset(CROSSED + 5);
    let both = (&client, &topic);
    equal("as it came", with_lists(bench, both, |_| {}).await?, EXPECTED)?;
    equal("turned around", with_lists(bench, both, |list| list.reverse()).await?, EXPECTED)?;
    for by in 1..4 {
        let turned = with_lists(bench, both, move |list| {
            let by = by.min(list.len());
            list.rotate_left(by);
        });
        equal(&format!("rotated by {by}"), turned.await?, EXPECTED)?;
    }
    let by_producer = |list: &mut List| list.sort_by_key(|a| (-a.producer_id.0, -a.first_offset));
    equal("by producer", with_lists(bench, both, by_producer).await?, EXPECTED)?;
    let twice = |list: &mut List| list.extend(list.clone());
    equal("each twice", with_lists(bench, both, twice).await?, EXPECTED)?;
    let more = move |list: &mut List| list.insert(0, behind());
    equal("one that begins later", with_lists(bench, both, more).await?, EXPECTED)?;

    // And from a broker that has no order by itself, and tells readers of everything.
    let Arm::Embedded(profile) = bench.arm() else {
        return Err(Failure::not_offered("only the embedded broker can be bent like that"));
    };
    let strange = profile.clone().with(Quirk::AbortedListUnsorted).with(Quirk::AbortedListForUncommitted);
    let other = bench.another(|config| config.profile = strange).await?;
    let client = other.client()?;
    let topic = crossed(&other, &client).await?;
    equal("from a strange broker", other.read(&topic, Isolation::Committed).await?, EXPECTED)?;
    equal("all of it", other.read(&topic, Isolation::Uncommitted).await?.len(), 8)
}

/// The offsets that were fetched from, in order, and the most bytes that were asked for. What a reader asks for behind `end`,
/// where it reads ahead although nothing is there, may come when the reader is gone.
fn fetched(bench: &Bench, end: i64) -> Result<Vec<(i64, i32)>, Failure> {
    let mut all = Vec::new();
    for request in bench.tap.requests().iter().filter(|r| r.api == Api::Fetch) {
        let fetch = request.decode::<FetchRequest>()?;
        let partitions = fetch.topics.iter().flat_map(|t| &t.partitions);
        let asked = partitions.map(|p| (p.fetch_offset, p.partition_max_bytes));
        all.extend(asked.filter(|(offset, _)| *offset < end));
    }
    Ok(all)
}

/// The torn last batch of an answer is fetched again with all that follows it; if it is the only one, with as much room as
/// it needs.
pub(super) async fn j11(bench: &Bench) -> Shown {
    const END: i64 = 2;
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let sizes = [bench.write_plain(&topic, 0, &["0"]).await?, bench.write_plain(&topic, 0, &["1"]).await?];
    equal("offsets", sizes, [0, 1])?;
    let log = bench.log(&topic).await?;
    let size = log.iter().map(|batch| batch.bytes().len()).sum::<usize>();
    let first = log[0].bytes().len();
    for left in (1..size).step_by(3) {
        bench.tap.rewrite::<FetchRequest>(1, move |answer| {
            let partitions = answer.responses.iter_mut().flat_map(|t| &mut t.partitions);
            let mut torn = false;
            for records in partitions.filter_map(|p| p.records.as_mut()).filter(|r| r.len() == size) {
                records.truncate(left);
                torn = true;
            }
            torn
        });
        let before = fetched(bench, END)?.len();
        let mut consumer = client.consumer().max_partition_bytes(400).build();
        consumer.assign([(place(&topic), kafka_2pc::client::Start::Offset(0))]);
        let seen = read_to(&mut consumer, &place(&topic), 2).await?;
        equal(&format!("read, of which {left} bytes came first"), texts(&seen), ["0", "1"])?;
        let offsets: Vec<_> =
            fetched(bench, END)?[before..].iter().map(|(offset, _)| *offset).take(2).collect();
        equal(&format!("fetched, with {left} bytes first"), offsets, [0, i64::from(left >= first)])?;
    }
    // Less room than the batch needs: asked for again with enough.
    bench.tap.rewrite::<FetchRequest>(1, move |answer| {
        let partitions = answer.responses.iter_mut().flat_map(|t| &mut t.partitions);
        let mut torn = false;
        for records in partitions.filter_map(|p| p.records.as_mut()).filter(|r| !r.is_empty()) {
            records.truncate(20);
            torn = true;
        }
        torn
    });
    let before = fetched(bench, END)?.len();
    let mut consumer = client.consumer().max_partition_bytes(20).build();
    consumer.assign([(place(&topic), kafka_2pc::client::Start::Offset(0))]);
    equal("read", texts(&read_to(&mut consumer, &place(&topic), 2).await?), ["0", "1"])?;
    let room: Vec<_> = fetched(bench, END)?[before..].iter().map(|(_, bytes)| *bytes).take(2).collect();
    equal("room", room, [20, i32::try_from(first)?])
}

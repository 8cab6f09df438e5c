//! How far readers get: the last stable offset, records that are passed over, offsets that are not there.

use std::time::Duration;

use kafka_2pc::client::{ConsumerError, Isolation, OffsetAt, OutOfRangePolicy, Start};
use kafka_2pc::wire::api::Api;
use kafka_protocol::messages::FetchRequest;

use super::{end_of, place, read_to, reader, texts, until_end};
use crate::bench::{Bench, within};
use crate::outcome::{Failure, Shown, equal, holds};
use crate::rows::e_produce::numbered;

/// OFFSET_OUT_OF_RANGE.
const OUT_OF_RANGE: i16 = 1;

/// A reader of committed records stands still at the last stable offset, which is the end for it; what lies behind comes
/// when the transaction there has ended.
pub(super) async fn j02(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let at = place(&topic);
    let mut first = bench.init(&client, &bench.id("j02")).await?.begin();
    bench.write(&mut first, &topic, 0, &["1", "2"]).await?;
    let producer = bench.step("commit", within(first.commit()).await?)?;
    until_end(&client, &topic, Isolation::Committed, 3).await?;
    let mut open = producer.begin();
    bench.write(&mut open, &topic, 0, &["3"]).await?;
    let mut other = bench.init(&client, &bench.id("j02")).await?.begin();
    bench.write(&mut other, &topic, 0, &["4"]).await?;
    bench.step("commit", within(other.commit()).await?)?;
    until_end(&client, &topic, Isolation::Uncommitted, 6).await?;

    for (isolation, end) in [(Isolation::Committed, 3), (Isolation::Uncommitted, 6)] {
        equal(&format!("{isolation:?}: the end"), end_of(&client, &topic, isolation).await?, end)?;
        let listed = within(client.list_offsets(isolation, [(at.clone(), OffsetAt::Latest)])).await??;
        equal(&format!("{isolation:?}: latest"), listed[&at], Some(end))?;
        // A reader that starts at the end starts there.
        let mut late = client.consumer().isolation(isolation).max_wait(Duration::from_millis(20)).build();
        late.assign([(at.clone(), Start::End)]);
        let none = within(late.poll(Duration::from_millis(200))).await??;
        equal(&format!("{isolation:?}: behind the end"), texts(&none), Vec::<String>::new())?;
        equal(&format!("{isolation:?}: the position there"), late.position(&at), Some(end))?;
    }
    let mut committed = reader(&client, &topic, Isolation::Committed);
    let seen = read_to(&mut committed, &at, 3).await?;
    equal("before the open transaction", texts(&seen), ["1", "2"])?;
    let more = within(committed.poll(Duration::from_millis(200))).await??;
    equal("behind the last stable offset", texts(&more), Vec::<String>::new())?;
    equal("the position there", committed.position(&at), Some(3))?;
    let mut all = reader(&client, &topic, Isolation::Uncommitted);
    equal("by a reader of all", texts(&read_to(&mut all, &at, 6).await?), ["1", "2", "3", "4"])?;

    bench.step("commit", within(open.commit()).await?)?;
    equal("when it has ended", texts(&read_to(&mut committed, &at, 7).await?), ["3", "4"])?;
    equal("committed", bench.committed(&topic).await?, ["1", "2", "3", "4"])
}

/// Fetches that bring nothing but aborted records still move on, at the end of the log too.
pub(super) async fn j05(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let at = place(&topic);
    let values = numbered(20);
    let texts_of: Vec<_> = values.iter().map(String::as_str).collect();
    let builder = client.transactional_producer(bench.id("j05")).batch_size(80);
    let mut producer = bench.init_of(builder).await?;
    for (commit, values) in [(false, &texts_of[..]), (true, &["yes"][..]), (false, &texts_of[..])] {
        let mut transaction = producer.begin();
        bench.write(&mut transaction, &topic, 0, values).await?;
        producer = if commit {
            bench.step("commit", within(transaction.commit()).await?)?
        } else {
            bench.step("abort", within(transaction.abort()).await?)?
        };
    }
    until_end(&client, &topic, Isolation::Committed, 44).await?;
    let before = bench.tap.count(Api::Fetch);
    // One batch at a time.
    let mut consumer = client.consumer().max_bytes(1).max_partition_bytes(1).build();
    consumer.assign([(at.clone(), Start::Beginning)]);
    let seen = read_to(&mut consumer, &at, 44).await?;
    equal("what was read", texts(&seen), ["yes"])?;
    let fetches = bench.tap.count(Api::Fetch) - before;
    holds(fetches > 20, format!("{fetches} fetches were too few to bring nothing but aborted records"))?;
    equal("committed", bench.committed(&topic).await?, ["yes"])
}

/// The position passes aborted records and markers, and the leader epoch is that of the last marker, which another leader
/// wrote.
pub(super) async fn j06(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let at = place(&topic);
    let mut consumer = reader(&client, &topic, Isolation::Committed);
    let mut producer = bench.init(&client, &bench.id("j06")).await?;
    let mut end = 0;
    for commit in [true, false] {
        let mut transaction = producer.begin();
        bench.write(&mut transaction, &topic, 0, &["v"]).await?;
        bench.move_leader(&at).await?;
        producer = if commit {
            bench.step("commit", within(transaction.commit()).await?)?
        } else {
            bench.step("abort", within(transaction.abort()).await?)?
        };
        end += 2;
        let seen = read_to(&mut consumer, &at, end).await?;
        equal("what was read", texts(&seen).len(), usize::from(commit))?;
        equal("the position", consumer.position(&at), Some(end))?;
        equal("the leader epoch", consumer.leader_epoch(&at), Some(i32::try_from(end / 2)?))?;
    }
    Ok(())
}

/// An offset that is not in the log is an error that names what is there, or what the policy says; and a leader that is
/// wrong about it makes nobody jump.
pub(super) async fn j09(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let at = place(&topic);
    let mut transaction = bench.init(&client, &bench.id("j09")).await?.begin();
    for value in ["0", "1", "2", "3", "4"] {
        bench.write(&mut transaction, &topic, 0, &[value]).await?;
    }
    bench.step("commit", within(transaction.commit()).await?)?;
    until_end(&client, &topic, Isolation::Committed, 6).await?;
    bench.embedded()?.delete_records(&at, 3)?;
    for wanted in [1, 99] {
        let mut consumer = client.consumer().build();
        consumer.assign([(at.clone(), Start::Offset(wanted))]);
        for _ in 0..2 {
            match within(consumer.next_batch()).await? {
                Err(ConsumerError::OutOfRange { wanted: named, available, .. }) => {
                    equal("what is named", (named, available), (wanted, 3..6))?;
                }
                other => return Err(Failure::wrong(format!("offset {wanted}: {other:?}"))),
            }
            equal("the position after the error", consumer.position(&at), Some(wanted))?;
        }
        let policies = [(OutOfRangePolicy::Earliest, vec!["3", "4"]), (OutOfRangePolicy::Latest, vec![])];
        for (policy, expected) in policies {
            let mut consumer = client.consumer().out_of_range(policy).build();
            consumer.assign([(at.clone(), Start::Offset(wanted))]);
            let mut seen = Vec::new();
            // From 99 the position falls to 3 or 6.
            while consumer.position(&at) != Some(6) {
                seen.extend(texts(&within(consumer.advance()).await??));
            }
            equal(&format!("{policy:?} from {wanted}"), seen, expected)?;
        }
    }
    for policy in [OutOfRangePolicy::Error, OutOfRangePolicy::Earliest, OutOfRangePolicy::Latest] {
        bench.tap.rewrite::<FetchRequest>(2, |answer| {
            let partitions = answer.responses.iter_mut().flat_map(|t| &mut t.partitions);
            partitions.for_each(|p| {
                p.error_code = OUT_OF_RANGE;
                p.records = None;
                (p.high_watermark, p.last_stable_offset, p.log_start_offset) = (-1, -1, -1);
            });
            true
        });
        let mut consumer = client.consumer().out_of_range(policy).build();
        consumer.assign([(at.clone(), Start::Offset(4))]);
        let seen = read_to(&mut consumer, &at, 6).await?;
        equal(&format!("{policy:?} from an offset that is there"), texts(&seen), ["4"])?;
    }
    Ok(())
}

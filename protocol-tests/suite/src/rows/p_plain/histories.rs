//! Leaders that know another history of the producer than its own.

use kafka_2pc::client::{Delivery, Topic};
use kafka_2pc::ids::{Identity, ProducerEpoch, TopicPartition};
use kafka_2pc::record::RecordRef;
use kafka_2pc::wire::api::Api;

use super::{CORRUPT, OLD_EPOCH, OUT_OF_ORDER, flush, own, send, small, write};
use crate::bench::{Bench, within};
use crate::outcome::{Failure, Shown, equal, holds};
use crate::rows::e_produce::{numbered, repeats_are_identical};
use crate::rows::seen::{Written, granted, written};
use crate::tap::Act;

/// Whether a Produce was answered with this code.
fn was_refused(bench: &Bench, code: i16) -> Shown {
    let found = bench.tap.answers().iter().any(|a| a.api == Api::Produce && a.codes == [code]);
    holds(found, format!("no Produce was refused with {code}"))
}

/// The same producer id under its next epoch.
fn raised(identity: Identity) -> Identity {
    Identity { epoch: ProducerEpoch(identity.epoch.0 + 1), ..identity }
}

/// Each was stored at the offset that belongs to it.
async fn at_offsets(deliveries: Vec<Delivery>, from: i64) -> Shown {
    for (offset, delivery) in (from..).zip(deliveries) {
        equal("an offset", within(delivery.stored()).await??, Some(offset))?;
    }
    Ok(())
}

/// A producer whose history in the first partition somebody spoils, who writes under its identity: what is refused for that is
/// sent anew, stored once, and the other partition is none the wiser. Returns what was written since.
async fn spoiled(
    bench: &Bench,
    topic: &Topic,
    as_whom: fn(Identity) -> (Identity, i32),
) -> Result<Vec<Written>, Failure> {
    let client = bench.client()?;
    let producer = small(&client).start();
    let elsewhere = RecordRef::value(b"elsewhere");
    write(bench, &producer, topic, &["0"]).await?;
    within(producer.send(topic, Some(1), elsewhere)).await??;
    flush(bench, &producer).await??;
    bench.write_as(topic, as_whom(own(bench)?), &["foreign", "foreign"]).await?;
    let before = written(bench)?.len();
    // The first alone, the next with one another.
    let mut deliveries = vec![send(&producer, topic, "1").await?];
    flush(bench, &producer).await??;
    for value in ["2", "3", "4"] {
        deliveries.push(send(&producer, topic, value).await?);
    }
    flush(bench, &producer).await??;
    within(producer.send(topic, Some(1), elsewhere)).await??;
    flush(bench, &producer).await??;
    at_offsets(deliveries, 3).await?;
    repeats_are_identical(bench)?;
    let expected = ["0", "foreign", "foreign", "1", "2", "3", "4", "elsewhere", "elsewhere"];
    equal("stored", bench.committed(topic).await?, expected)?;
    Ok(written(bench)?.split_off(before))
}

/// OUT_OF_ORDER_SEQUENCE_NUMBER with nothing missing before it: the partition goes on under its next epoch from sequence 0, and
/// no other one does.
pub(super) async fn p05(bench: &Bench) -> Shown {
    let client = bench.untapped()?;
    let topic = bench.topic(&client, 2).await?;
    let since = spoiled(bench, &topic, |identity| (identity, 1)).await?;
    was_refused(bench, OUT_OF_ORDER)?;
    let first = own(bench)?;
    let next = raised(first);
    let of =
        |partition| since.iter().filter(move |b| b.partition == partition).map(|b| (b.identity, b.sequence));
    let anew: Vec<_> = of(0).skip_while(|(identity, _)| *identity == first).collect();
    equal("written anew", anew, [(next, 0), (next, 1), (next, 2), (next, 3)])?;
    equal("written elsewhere", of(1).collect::<Vec<_>>(), [(first, 1)])?;
    equal("producer ids", granted(bench)?.len(), 1)
}

/// INVALID_PRODUCER_EPOCH, since somebody wrote under the next epoch: the partition goes on under a producer id that nobody else
/// has.
pub(super) async fn p06(bench: &Bench) -> Shown {
    let client = bench.untapped()?;
    let topic = bench.topic(&client, 2).await?;
    let since = spoiled(bench, &topic, |identity| (raised(identity), 0)).await?;
    was_refused(bench, OLD_EPOCH)?;
    let granted = granted(bench)?;
    equal("producer ids", granted.len(), 2)?;
    let of =
        |partition| since.iter().filter(move |b| b.partition == partition).map(|b| (b.identity, b.sequence));
    let anew: Vec<_> = of(0).skip_while(|(identity, _)| *identity == granted[0]).collect();
    equal("written anew", anew, [(granted[1], 0), (granted[1], 1), (granted[1], 2), (granted[1], 3)])?;
    equal("written elsewhere", of(1).collect::<Vec<_>>(), [(granted[0], 1)])
}

/// Records that were acknowledged, and lost in an unclean election, leave a gap; what comes next is stored once and in order,
/// under the next epoch.
pub(super) async fn p07(bench: &Bench) -> Shown {
    bench.trace.keep_private("what a client meets while nodes die depends on the moment");
    let client = bench.client()?;
    let topic = bench.careless_topic(&client).await?;
    let at = TopicPartition::new(topic.name().clone(), 0);
    let producer = small(&client).start();
    write(bench, &producer, &topic, &["0"]).await?;
    bench.lose(&at, write(bench, &producer, &topic, &["lost", "lost"])).await?;
    let deliveries = [send(&producer, &topic, "1").await?, send(&producer, &topic, "2").await?];
    flush(bench, &producer).await??;
    at_offsets(deliveries.into(), 1).await?;
    write(bench, &producer, &topic, &numbered(20)).await?;
    was_refused(bench, OUT_OF_ORDER)?;
    let last = written(bench)?.last().map(|b| b.identity);
    equal("the identity", last, Some(raised(own(bench)?)))?;
    let expected = [vec!["0".to_owned(), "1".into(), "2".into()], numbered(20)].concat();
    equal("stored", bench.committed(&topic).await?, expected)
}

/// A leader that forgot the producer takes any sequence first. So the first batch after a pause leaves alone: were it refused
/// with others behind it, one of those would be taken first. Records that retention removed change nothing.
pub(super) async fn p08(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let producer = small(&client).start();
    write(bench, &producer, &topic, &["0", "1", "2"]).await?;
    bench.delete_records(&topic, 3).await?;
    let kept = vec![send(&producer, &topic, "3").await?, send(&producer, &topic, "4").await?];
    flush(bench, &producer).await??;
    at_offsets(kept, 3).await?;
    bench.forget_producers(&topic).await?;
    bench.tap.plan(Api::Produce, 1, Act::Damage);
    for value in numbered(20) {
        // All are there before the first has an answer.
        producer.try_send(&topic, Some(0), RecordRef::value(value.as_bytes()))?;
    }
    flush(bench, &producer).await??;
    was_refused(bench, CORRUPT)?;
    equal("producer ids", granted(bench)?.len(), 1)?;
    let epochs = written(bench)?.iter().map(|b| b.identity.epoch.0).max();
    equal("epochs", epochs, Some(own(bench)?.epoch.0))?;
    repeats_are_identical(bench)?;
    let expected = [vec!["3".to_owned(), "4".into()], numbered(20)].concat();
    equal("stored", bench.committed(&topic).await?, expected)
}

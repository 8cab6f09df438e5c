//! Brokers that move, die and come back, and other producers beside this one.

use std::time::Duration;

use kafka_2pc::client::{Producer, Topic};
use kafka_2pc::ids::{Identity, ProducerEpoch, TopicPartition};
use kafka_2pc::wire::api::Api;

use super::{flush, own, send, small, write};
use crate::bench::{Bench, within};
use crate::outcome::{Failure, Shown, equal, holds};
use crate::rows::e_produce::{breathe, numbered, repeats_are_identical, while_the_leader_moves};
use crate::rows::seen::written;
use crate::tap::Act;

/// Writes values with pauses, so that things can happen meanwhile.
async fn slowly(bench: &Bench, producer: &Producer, topic: &Topic, values: &[String]) -> Shown {
    for (i, value) in values.iter().enumerate() {
        send(producer, topic, value).await?;
        breathe(i).await;
    }
    Ok(flush(bench, producer).await??)
}

/// The leader moves again and again, then dies and comes back, while batches are under way: each is sent again as it was, and
/// stored once and in order.
pub(super) async fn p15(bench: &Bench) -> Shown {
    bench.trace.keep_private("which batches meet a move depends on the moment");
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let (producer, values) = (small(&client).start(), numbered(600));
    while_the_leader_moves(bench, &topic, slowly(bench, &producer, &topic, &values[..300])).await?;
    let (leader, _) = bench.leader(&TopicPartition::new(topic.name().clone(), 0)).await?;
    let death = async {
        tokio::time::sleep(Duration::from_millis(40)).await;
        bench.kill_node(leader).await?;
        tokio::time::sleep(Duration::from_millis(200)).await;
        bench.restart_node(leader).await
    };
    let write = slowly(bench, &producer, &topic, &values[300..]);
    let (wrote, died) = within(async { tokio::join!(write, death) }).await?;
    died?;
    wrote?;
    repeats_are_identical(bench)?;
    let identities =
        written(bench)?.iter().filter(|b| b.identity != own(bench).unwrap_or(b.identity)).count();
    equal("batches under another identity", identities, 0)?;
    equal("stored", bench.committed(&topic).await?, values)
}

/// Two producers write into one partition, and only one of them is in trouble: each keeps its own order, and the other one does
/// not even notice.
pub(super) async fn p16(bench: &Bench) -> Shown {
    bench.trace.keep_private("which records of two producers come first depends on the moment");
    let troubled = bench.with_another_tap();
    let topic = bench.topic(&bench.client()?, 1).await?;
    let (one, other) = (small(&bench.client()?).start(), small(&troubled.client()?).start());
    // A topic that is new may be refused at first.
    write(bench, &one, &topic, &["one"]).await?;
    write(&troubled, &other, &topic, &["other"]).await?;
    let acts = [Act::Drop, Act::Damage, Act::ApplyThenDrop, Act::Cut(20), Act::Damage, Act::ApplyThenDrop];
    for (nth, act) in (1..).zip(acts) {
        troubled.tap.plan(Api::Produce, 4 * nth - 3, act);
    }
    let before = written(bench)?.len();
    for i in 0..60 {
        send(&one, &topic, &format!("one {i:02}")).await?;
        send(&other, &topic, &format!("other {i:02}")).await?;
        breathe(i).await;
    }
    flush(bench, &one).await??;
    // Somebody spoils the other's history, too.
    let spoiled = Identity { epoch: ProducerEpoch(1), ..own(&troubled)? };
    flush(&troubled, &other).await??;
    equal("faults that the other one was spared", troubled.tap.to_come(), 0)?;
    troubled.write_as(&topic, (spoiled, 0), &["foreign"]).await?;
    write(&troubled, &other, &topic, &["other at last"]).await?;
    write(bench, &one, &topic, &["one at last"]).await?;
    holds(own(bench)?.producer_id != own(&troubled)?.producer_id, "they share a producer id")?;
    let batches = written(bench)?.split_off(before);
    let first = own(bench)?;
    let expected: Vec<_> = (1..=i32::try_from(batches.len())?).map(|sequence| (first, sequence)).collect();
    let found: Vec<_> = batches.iter().map(|b| (b.identity, b.sequence)).collect();
    equal("what the one sent", found, expected)?;
    in_order(&bench.committed(&topic).await?)
}

fn in_order(all: &[String]) -> Shown {
    for name in ["one", "other"] {
        let found: Vec<_> =
            all.iter().filter(|value| value.split(' ').next() == Some(name)).cloned().collect();
        let mut expected = vec![name.to_owned()];
        expected.extend((0..60).map(|i| format!("{name} {i:02}")));
        expected.push(format!("{name} at last"));
        equal(&format!("stored of {name}"), found, expected)?;
    }
    let foreign = all.iter().filter(|value| *value == "foreign").count();
    if foreign == 1 { Ok(()) } else { Err(Failure::wrong(format!("{foreign} foreign records"))) }
}

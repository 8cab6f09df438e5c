//! Records that are not stored, or of which nobody knows it.

use std::time::Duration;

use kafka_2pc::client::SendError;
use kafka_2pc::proto::cause::CauseKind;
use kafka_2pc::proto::numbers::Culprits;
use kafka_2pc::record::RecordRef;
use kafka_2pc::wire::api::Api;
use kafka_protocol::messages::MetadataRequest;

use super::{fails, flush, send, small, write};
use crate::bench::{Bench, fresh, within};
use crate::outcome::{Failure, Shown, equal, holds};
use crate::tap::Act;

/// `delivery.timeout.ms` of hasty producers.
const HASTY: Duration = Duration::from_millis(500);

/// What was refused by every try until its time was over is told to be not stored, and what never left as well; what comes next
/// goes on.
pub(super) async fn p09(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let producer = small(&client).delivery_timeout(HASTY).start();
    write(bench, &producer, &topic, &["0"]).await?;
    // Each try arrives damaged.
    (0..1000).for_each(|_| bench.tap.plan(Api::Produce, 1, Act::Damage));
    let told = fails(bench, &producer, (&topic, "no")).await?;
    equal("refused", (told.records, told.unknown, told.cause.kind), (1, 0, CauseKind::DeliveryTimeout))?;
    holds(bench.tap.count(Api::Produce) > 2, "it was not tried again")?;
    bench.tap.clear();
    write(bench, &producer, &topic, &["1"]).await?;

    bench.tap.rewrite::<MetadataRequest>(u32::MAX, |answer| {
        answer.topics.iter_mut().flat_map(|t| &mut t.partitions).for_each(|p| p.leader_id = (-1).into());
        true
    });
    // A client that has never met the leader.
    let sent = bench.tap.count(Api::Produce);
    let stranger = small(&bench.client()?).delivery_timeout(HASTY).start();
    let told = fails(bench, &stranger, (&topic, "no")).await?;
    equal("never left", (told.records, told.unknown, told.cause.kind), (1, 0, CauseKind::DeliveryTimeout))?;
    equal("Produce sent", bench.tap.count(Api::Produce), sent)?;
    bench.tap.clear();
    write(bench, &stranger, &topic, &["2"]).await?;
    equal("stored", bench.committed(&topic).await?, ["0", "1", "2"])
}

/// What was sent and not answered until its time was over is told to be unknown, by the flush once and by its handle. It is
/// stored here, and what comes next goes on behind it.
pub(super) async fn p10(bench: &Bench) -> Shown {
    let client = bench.client_of(bench.config()?.request_timeout(Duration::from_secs(2)));
    let topic = bench.topic(&client, 1).await?;
    let producer = small(&client).delivery_timeout(HASTY).start();
    write(bench, &producer, &topic, &["0"]).await?;
    // Kept to the end: it is never answered.
    let mut unanswered = bench.tap.pause_answer(Api::Produce);
    let told = fails(bench, &producer, (&topic, "perhaps")).await?;
    equal("not answered", (told.records, told.unknown, told.cause.kind), (1, 1, CauseKind::OutcomeUnknown))?;
    holds(told.cause.outcome_unknown(), format!("what is told: {told}"))?;
    unanswered.reached().await?;
    write(bench, &producer, &topic, &["1"]).await?;
    write(bench, &producer, &topic, &["2", "3"]).await?;
    within(producer.close()).await??;
    // What waits for its answer is closed with the rest, so that nobody sees it at the end.
    bench.tap.disconnect();
    let stored = bench.committed(&topic).await?;
    drop(unanswered);
    equal("stored", stored, ["0", "perhaps", "1", "2", "3"])
}

/// A batch above the topic's `max.message.bytes` is split until only a record that is too large by itself is left: it is named,
/// and the others are stored in order. One above `max.request.size` is not even taken.
pub(super) async fn p11(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let name = fresh("small");
    bench.create_topic(&name, 1, &[("max.message.bytes", "1000")]).await?;
    let topic = within(client.topic(&name)).await??;
    let producer =
        client.idempotent_producer().linger(Duration::from_secs(60)).max_request_size(20_000).start();
    let value = |number: usize| format!("{number:02} {}", "x".repeat(if number == 6 { 5000 } else { 300 }));
    let mut deliveries = Vec::new();
    for number in 0..11 {
        deliveries.push(send(&producer, &topic, &value(number)).await?);
    }
    let beyond = "x".repeat(30_000);
    match within(producer.send(&topic, Some(0), RecordRef::value(beyond.as_bytes()))).await? {
        Err(SendError::TooLarge { max_bytes: 20_000, .. }) => {}
        other => return Err(Failure::wrong(format!("a record of 30,000 bytes: {other:?}"))),
    }
    let Err(told) = flush(bench, &producer).await? else {
        return Err(Failure::wrong("a record of 5,000 bytes is stored"));
    };
    equal("too large", (told.records, told.unknown, told.cause.kind), (1, 0, CauseKind::RecordTooLarge))?;
    equal("the record that is named", told.cause.records, Some(Culprits::Named(vec![6])))?;
    let mut offsets = 0..;
    for (number, delivery) in deliveries.into_iter().enumerate() {
        match within(delivery.stored()).await? {
            Ok(stored) => equal(&format!("the offset of {number}"), stored, offsets.next())?,
            Err(cause) => {
                equal("the record that fails", (number, cause.kind), (6, CauseKind::RecordTooLarge))?
            }
        }
    }
    write(bench, &producer, &topic, &["after"]).await?;
    let mut expected: Vec<_> = (0..11).filter(|number| *number != 6).map(value).collect();
    expected.push("after".to_owned());
    equal("stored", bench.committed(&topic).await?, expected)
}

/// A topic that may not be written to fails its own records, by name; other topics go on, and it does too when it may be written
/// to again.
pub(super) async fn p12(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let (allowed, forbidden) = (bench.topic(&client, 1).await?, bench.topic(&client, 1).await?);
    let producer = small(&client).start();
    write(bench, &producer, &forbidden, &["0"]).await?;
    bench.forbid_topic(&forbidden).await?;
    let told = fails(bench, &producer, (&forbidden, "no")).await?;
    equal("denied", (told.records, told.unknown, told.cause.kind), (1, 0, CauseKind::Denied))?;
    let named = told.cause.partition.map(|p| p.topic.to_string());
    equal("the topic that is named", named.as_deref(), Some(&**forbidden.name()))?;
    write(bench, &producer, &allowed, &["yes"]).await?;
    bench.allow_topic(&forbidden).await?;
    write(bench, &producer, &forbidden, &["1", "2"]).await?;
    equal("stored elsewhere", bench.committed(&allowed).await?, ["yes"])?;
    equal("stored", bench.committed(&forbidden).await?, ["0", "1", "2"])
}

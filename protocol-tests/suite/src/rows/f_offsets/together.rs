//! Offsets and records of one transaction.

use std::time::Duration;

use kafka_2pc::client::{OffsetAndMetadata, OffsetsError, Prepared, SendError};
use kafka_2pc::proto::cause::CauseKind;
use kafka_2pc::proto::resume::Outcome;
use kafka_2pc::wire::api::Api;
use kafka_2pc::wire::code::ErrorCode;

use super::{group, kept, place, send, told};
use crate::bench::{Bench, PATIENCE, blocking, venv, within};
use crate::outcome::{Failure, Shown, equal};

/// Whoever asks where a group stands while a transaction holds an offset of it waits for the end of that, and is told
/// what it left.
pub(super) async fn f06(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let (topic, group) = (bench.topic(&client, 1).await?, group());
    let mut transaction = bench.init(&client, &bench.id("f06")).await?.begin();
    send(bench, &mut transaction, (&group, &topic), 5).await??;
    let mut producer = bench.step("commit", within(transaction.commit()).await?)?;
    equal("the group at first", told(bench, &group, &topic).await?, Some(5))?;
    for (offset, commit, expected) in [(9, true, 9), (12, false, 9), (13, true, 13)] {
        let mut transaction = producer.begin();
        send(bench, &mut transaction, (&group, &topic), offset).await??;
        let hasty = bench.client_of(bench.config()?.max_block(Duration::from_millis(500)));
        match within(hasty.committed(&group.group_id, [place(&topic)])).await? {
            Err(OffsetsError::Refused { code: ErrorCode::UnstableOffsetCommit, .. }) => {}
            other => return Err(Failure::wrong(format!("the group while {offset} is held back: {other:?}"))),
        }
        let asked = bench.tap.count(Api::OffsetFetch);
        let waiting = client.committed(&group.group_id, [place(&topic)]);
        let end = async {
            // It has been refused at least once before the transaction ends.
            while bench.tap.count(Api::OffsetFetch) < asked + 2 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            if commit {
                Ok::<_, Failure>(bench.step("commit", transaction.commit().await)?)
            } else {
                Ok(bench.step("abort", transaction.abort().await)?)
            }
        };
        let (seen, ended) = within(async { tokio::join!(waiting, end) }).await?;
        producer = ended?;
        let seen = seen?.into_values().next().flatten().map(|at| at.offset);
        equal(&format!("the group behind {offset}"), seen, Some(expected))?;
    }
    equal("the group in the end", kept(bench, &group, &topic).await?, Some(13))
}

/// Metadata and leader epoch come back as they were sent, to librdkafka and aiokafka too; too much of it is refused.
pub(super) async fn f07(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let (topic, group) = (bench.topic(&client, 1).await?, group());
    let at = OffsetAndMetadata {
        offset: 7,
        leader_epoch: Some(3),
        metadata: "checkpoint 12, é and 語".to_owned(),
    };
    let mut transaction = bench.init(&client, &bench.id("f07")).await?.begin();
    within(transaction.send_offsets(&group, [(place(&topic), at.clone())])).await??;
    let producer = bench.step("commit", within(transaction.commit()).await?)?;
    let told = within(client.committed(&group.group_id, [place(&topic)])).await??;
    equal("by our client", told.into_values().next().flatten().as_ref(), Some(&at))?;
    let (bootstrap, name) = (bench.bootstrap(), topic.name().to_string());
    let of = group.group_id.to_string();
    let theirs = blocking(move || venv()?.kept_offset(&bootstrap, &of, &name, 0).map_err(Failure::from));
    let theirs = theirs.await??.ok_or_else(|| Failure::wrong("others see no offset"))?;
    equal("by others", (theirs.offset, theirs.leader_epoch, theirs.metadata), (7, Some(3), at.metadata))?;

    let mut transaction = producer.begin();
    let long = OffsetAndMetadata { metadata: "x".repeat(5000), ..OffsetAndMetadata::new(8) };
    match within(transaction.send_offsets(&group, [(place(&topic), long)])).await? {
        Err(SendError::Failed(cause)) => equal("the cause", cause.kind, CauseKind::Refused)?,
        other => return Err(Failure::wrong(format!("5000 bytes of metadata: {other:?}"))),
    }
    bench.step("abort", within(transaction.abort()).await?)?;
    equal("the group in the end", kept(bench, &group, &topic).await?, Some(7))
}

/// Offsets become visible with the records of their transaction, whoever commits it, and not at all after an abort.
pub(super) async fn f08(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 2).await?;
    let (one, other) = (group(), group());
    let none = Vec::<String>::new();
    let mut transaction = bench.init(&client, &bench.id("f08")).await?.begin();
    bench.write(&mut transaction, &topic, 0, &["1"]).await?;
    send(bench, &mut transaction, (&one, &topic), 5).await??;
    // What is sent last counts.
    send(bench, &mut transaction, (&one, &topic), 6).await??;
    send(bench, &mut transaction, (&other, &topic), 7).await??;
    bench.write(&mut transaction, &topic, 1, &["2"]).await?;
    equal("visible before the commit", bench.visible(&topic).await?, none)?;
    let producer = bench.step("commit", within(transaction.commit()).await?)?;
    equal("committed", bench.committed(&topic).await?, ["1", "2"])?;
    equal("one group", kept(bench, &one, &topic).await?, Some(6))?;
    equal("the other", kept(bench, &other, &topic).await?, Some(7))?;

    let mut transaction = producer.begin();
    bench.write(&mut transaction, &topic, 0, &["no"]).await?;
    send(bench, &mut transaction, (&one, &topic), 9).await??;
    let producer = bench.step("abort", within(transaction.abort()).await?)?;
    equal("after the abort", bench.committed(&topic).await?, ["1", "2"])?;
    equal("the group after the abort", kept(bench, &one, &topic).await?, Some(6))?;

    // Prepared here, and committed by another client.
    let mut transaction = producer.begin();
    bench.write(&mut transaction, &topic, 0, &["3"]).await?;
    send(bench, &mut transaction, (&one, &topic), 10).await??;
    let Prepared::Ready(committable) = bench.step("prepare", within(transaction.prepare()).await?)? else {
        return Err(Failure::wrong("nothing was prepared"));
    };
    equal("visible while prepared", bench.visible(&topic).await?, ["1", "2"])?;
    let successor = bench.client()?;
    let resumed = within(successor.resume(committable).timeout(PATIENCE).commit()).await?;
    let resumed = resumed.map_err(|e| Failure::wrong(format!("{e:?}")))?;
    equal("the outcome", resumed.outcome, Outcome::Committed)?;
    equal("committed by the other", bench.committed(&topic).await?, ["1", "3", "2"])?;
    equal("the group by the other", kept(bench, &one, &topic).await?, Some(10))
}

//! When nothing is sent.

use std::time::Duration;

use kafka_2pc::client::{Client, ClientConfig, OffsetAndMetadata, SendError, Start, Topic};
use kafka_2pc::ids::{TopicPartition, TransactionalId};
use kafka_2pc::source::{KafkaSource, Source, StartFrom, Subtask};
use kafka_2pc::wire::api::Api;
use kafka_protocol::messages::FindCoordinatorRequest;

use super::{group, place};
use crate::bench::{Bench, places, within};
use crate::outcome::{Failure, Shown, equal, holds};
use crate::tap::{Dial, Tap};

/// No offsets at all are committed at once and as often as one likes, also while nobody can be reached; and so are offsets
/// refused that no broker takes.
pub(super) async fn f02(_: &Bench) -> Shown {
    let tap = Tap::default();
    tap.on_dial(|_, _| Some(Dial::Hang));
    let client =
        Client::with_connector(ClientConfig::new("nobody.invalid:9092")?, std::sync::Arc::new(tap.clone()));
    let at = TopicPartition::new("t", 0);
    let mut transaction = client.transactional_producer(TransactionalId::new("f02")).lazy().begin();
    for _ in 0..3 {
        within(transaction.send_offsets(&group(), [])).await??;
    }
    match within(transaction.send_offsets(&group(), [(at, OffsetAndMetadata::new(-1))])).await? {
        Err(SendError::Offsets { .. }) => {}
        other => return Err(Failure::wrong(format!("offset -1: {other:?}"))),
    }
    within(transaction.send_offsets(&group(), [])).await??;
    equal("requests", tap.requests(), Vec::new())
}

/// Reads the whole topic with a consumer that is sought, and with a source.
async fn read(client: &Client, topic: &Topic) -> Result<usize, Failure> {
    let mut consumer = client.consumer().build();
    consumer.assign(places(topic).map(|at| (at, Start::Beginning)));
    let mut records = within(consumer.next_batch()).await??.len();
    consumer.seek(&place(topic), Start::Beginning);
    records += within(consumer.next_batch()).await??.len();
    drop(consumer);
    let source = KafkaSource::new(client, [topic.name().clone()]).start(StartFrom::Earliest).until_end();
    let mut reader = within(source.open(Subtask::ONLY, &[])).await??;
    while let Some(batch) = within(reader.next()).await?? {
        records += batch.len();
        KafkaSource::offsets(&reader.snapshot())?;
    }
    Ok(records)
}

/// Nobody commits offsets who was not told to: neither readers, nor sources, nor transactions; and nobody joins a group.
pub(super) async fn f09(bench: &Bench) -> Shown {
    const OF_GROUPS: [Api; 8] = [
        Api::OffsetCommit,
        Api::TxnOffsetCommit,
        Api::AddOffsetsToTxn,
        Api::OffsetFetch,
        Api::JoinGroup,
        Api::SyncGroup,
        Api::Heartbeat,
        Api::LeaveGroup,
    ];
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let mut transaction = bench.init(&client, &bench.id("f09")).await?.begin();
    bench.write(&mut transaction, &topic, 0, &["1", "2", "3"]).await?;
    let producer = bench.step("commit", within(transaction.commit()).await?)?;
    equal("committed", bench.committed(&topic).await?, ["1", "2", "3"])?;
    equal("records read", read(&client, &topic).await?, 9)?;
    let mut transaction = producer.begin();
    bench.write(&mut transaction, &topic, 0, &["no"]).await?;
    let producer = bench.step("abort", within(transaction.abort()).await?)?;
    drop(producer);
    // The clients are gone before what they asked for is counted.
    drop(client);
    tokio::time::sleep(Duration::from_millis(50)).await;
    let requests = bench.tap.requests();
    holds(requests.iter().any(|r| r.api == Api::Fetch), "the tap saw no reader")?;
    let found: Vec<_> = requests.iter().map(|r| r.api).filter(|api| OF_GROUPS.contains(api)).collect();
    equal("requests about groups", found, Vec::<Api>::new())?;
    for lookup in requests.iter().filter(|r| r.api == Api::FindCoordinator) {
        equal("the kind of coordinator", lookup.decode::<FindCoordinatorRequest>()?.key_type, 1)?;
    }
    Ok(())
}

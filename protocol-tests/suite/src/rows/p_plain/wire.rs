//! What leaves, on brokers of every age.

use std::collections::BTreeSet;
use std::time::Duration;

use kafka_2pc::client::{Producer, SendError, TrySendError};
use kafka_2pc::ids::{Identity, Moment, NodeId, TopicId, TopicPartition};
use kafka_2pc::proto::idempotent::{Effect, Idempotent, InitFact, Input, ProduceFact};
use kafka_2pc::proto::outbox::{Batch, BatchFact, BatchId, FirstBatch, Limits, Produce};
use kafka_2pc::record::RecordRef;
use kafka_2pc::wire::api::Api;
use kafka_protocol::messages::{InitProducerIdRequest, ProduceRequest};

use super::{send, small, write};
use crate::bench::{Bench, within};
use crate::outcome::{Failure, Shown, equal, holds};
use crate::rows::e_produce::numbered;
use crate::rows::seen::{granted, written};

/// Nothing of transactions is asked for: a producer id for nobody, and batches that belong to no transaction, acknowledged by
/// all replicas, in a version that the broker knows.
pub(super) async fn p17(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let producer = small(&client).start();
    write(bench, &producer, &topic, &numbered(20)).await?;
    within(producer.close()).await??;
    let requests = bench.tap.requests();
    let asked: BTreeSet<_> = requests.iter().map(|r| r.api.name()).collect();
    equal("APIs", asked, BTreeSet::from(["ApiVersions", "InitProducerId", "Metadata", "Produce"]))?;
    equal("producer ids", granted(bench)?.len(), 1)?;
    let newest = bench.raw().await?.newest::<ProduceRequest>();
    for request in requests {
        match request.api {
            Api::InitProducerId => {
                let id = request.decode::<InitProducerIdRequest>()?.transactional_id;
                equal("the transactional id of InitProducerId", id, None)?;
            }
            Api::Produce => {
                let produce = request.decode::<ProduceRequest>()?;
                equal("the transactional id of Produce", produce.transactional_id, None)?;
                equal("acks", produce.acks, -1)?;
                holds(newest >= Some(request.version), format!("Produce {} is not known", request.version))?;
                let transactional = request.batches()?.iter().any(|(_, _, batch)| batch.is_transactional());
                holds(!transactional, "a batch is marked as one of a transaction")?;
            }
            _ => {}
        }
    }
    equal("stored", bench.committed(&topic).await?, numbered(20))
}

/// Sequences go on from 2³¹-1 with 0: the client's machine gives them, and a broker takes batches under them, and knows them again.
pub(super) async fn p18(bench: &Bench) -> Shown {
    let given = sequences(&[i32::MAX - 1, 3, 2, 1])?;
    equal("sequences", &given[..], [0, i32::MAX - 1, 1, 3])?;
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let identity = bench.new_identity().await?;
    // A broker that has not met the producer takes any sequence first.
    let batches: [&[&str]; 3] = [&["max - 1", "max", "0"], &["1", "2"], &["3"]];
    for again in ["", ", once more"] {
        let mut offset = 0;
        for (sequence, values) in given[1..].iter().zip(batches) {
            let stored = bench.write_as(&topic, (identity, *sequence), values).await?;
            equal(&format!("the offset of sequence {sequence}{again}"), stored, offset)?;
            offset += i64::try_from(values.len())?;
        }
    }
    equal("stored", bench.committed(&topic).await?, ["max - 1", "max", "0", "1", "2", "3"])
}

/// The sequences that the producer's machine gives to batches of so many records.
fn sequences(records: &[i32]) -> Result<Vec<i32>, Failure> {
    let (now, partition) = (Moment(0), TopicPartition::new("wrapping", 0));
    let limits = Limits {
        first_batch: FirstBatch::Alone,
        in_flight: 5,
        request_bytes: 1 << 20,
        retry: Duration::from_millis(100),
        retry_max: Duration::from_secs(1),
    };
    let mut machine = Idempotent::new(limits, 1);
    machine.handle(now, Input::Initialized(InitFact::Granted(Identity::new(1, 0))));
    let mut given = Vec::new();
    for (id, records) in (0..).zip(records) {
        let topic = TopicId::UNKNOWN;
        let batch =
            Batch { id: BatchId(id), topic, records: *records, bytes: 100, deadline: Moment(u64::MAX) };
        machine.handle(now, Input::Batch { partition: partition.clone(), batch, leader: Some(NodeId(1)) });
        let sent = std::iter::from_fn(|| machine.poll_effect()).find_map(|effect| match effect {
            Effect::Produce { produce, .. } => Some(produce),
            _ => None,
        });
        let Produce { request, items, .. } = sent.ok_or_else(|| Failure::wrong("a batch does not leave"))?;
        given.extend(items.iter().map(|item| item.sequence));
        let stored = ProduceFact::Plain(BatchFact::Stored(Some(0)));
        let facts = items.into_iter().map(|item| (item.partition, item.batch, stored.clone())).collect();
        machine.handle(now, Input::Produced { request, facts });
    }
    Ok(given)
}

/// A closed producer has stored what it took and takes nothing more, from any clone; one that is dropped stores what it took.
pub(super) async fn p19(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let patient = || client.idempotent_producer().linger(Duration::from_secs(3600)).start();
    let producer = patient();
    let clone = producer.clone();
    for value in ["0", "1"] {
        send(&clone, &topic, value).await?;
    }
    bench.step("close", within(producer.close()).await?)?;
    takes_nothing(&clone, &topic)?;
    let dropped = patient();
    let delivery = send(&dropped, &topic, "2").await?;
    drop(dropped);
    equal("the offset of what was left", within(delivery.stored()).await??, Some(2))?;
    holds(written(bench)?.len() == 2, "there were more batches than two")?;
    equal("stored", bench.committed(&topic).await?, ["0", "1", "2"])
}

fn takes_nothing(producer: &Producer, topic: &kafka_2pc::client::Topic) -> Shown {
    match producer.try_send(topic, Some(0), RecordRef::value(b"no")) {
        Err(TrySendError::Failed(_) | TrySendError::Record(SendError::Failed(_))) => Ok(()),
        other => Err(Failure::wrong(format!("a closed producer: {other:?}"))),
    }
}

//! Records that brokers refuse.

use std::time::Duration;

use bytes::Bytes;
use kafka_2pc::client::SendError;
use kafka_2pc::exchange::{Call as _, Head, Produce};
use kafka_2pc::ids::TransactionalId;
use kafka_2pc::proto::cause::CauseKind;
use kafka_2pc::record::{Compression, RecordRef};
use kafka_2pc::wire::api::Api;
use kafka_2pc::wire::batch::{BatchBuilder, Stamp};
use kafka_2pc::wire::frame::RequestHeader;
use kafka_2pc::wire::versions::TransactionVersion;
use kafka_2pc_protocol_tests::kafka::ConsoleRead;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::produce_response::BatchIndexAndErrorMessage;
use kafka_protocol::messages::{ProduceRequest, TopicName};
use kafka_protocol::protocol::{Decodable, StrBytes};

use crate::bench::{Bench, blocking, fresh, within};
use crate::outcome::{Failure, Shown, equal, holds};
use crate::rows::seen::granted;

/// CORRUPT_MESSAGE.
const CORRUPT: i16 = 2;
/// INVALID_RECORD.
const INVALID_RECORD: i16 = 87;
/// INVALID_TXN_STATE.
const INVALID_STATE: i16 = 48;

/// A record that is too large for the client is refused and changes nothing; one that is too large for the topic fails its
/// transaction, and says which record it is.
pub(super) async fn e09(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let name = fresh("small");
    bench.create_topic(&name, 1, &[("max.message.bytes", "1000")]).await?;
    let topic = within(client.topic(&name)).await??;
    let large = "x".repeat(5000);
    let builder = client.transactional_producer(bench.id("e09")).max_request_size(4000);
    let mut transaction = bench.init_of(builder).await?.begin();
    bench.write(&mut transaction, &topic, 0, &["1"]).await?;
    match within(transaction.send(&topic, Some(0), RecordRef::value(large.as_bytes()))).await? {
        Err(SendError::TooLarge { max_bytes: 4000, .. }) => {}
        other => return Err(Failure::wrong(format!("a record of 5000 bytes: {other:?}"))),
    }
    bench.write(&mut transaction, &topic, 0, &["2"]).await?;
    let mut transaction = bench.step("commit", within(transaction.commit()).await?)?.begin();
    bench.write(&mut transaction, &topic, 0, &["no"]).await?;
    within(transaction.send(&topic, Some(0), RecordRef::value(&large.as_bytes()[..2000]))).await??;
    match bench.step("flush", within(transaction.flush()).await?) {
        Err(SendError::Failed(cause)) => {
            equal("the cause", cause.kind, CauseKind::RecordTooLarge)?;
            let records = cause.records.map(|records| format!("{records:?}")).unwrap_or_default();
            equal("the record that is named", records.contains('1'), true)?;
        }
        other => return Err(Failure::wrong(format!("a record of 2000 bytes: {other:?}"))),
    }
    let mut next = bench.step("abort", within(transaction.abort()).await?)?.begin();
    bench.write(&mut next, &topic, 0, &["3"]).await?;
    bench.step("commit", within(next.commit()).await?)?;
    equal("committed", bench.committed(&topic).await?, ["1", "2", "3"])
}

/// A batch that was damaged on its way is sent again; records that the broker refuses end the transaction, and are named.
pub(super) async fn e17(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let mut transaction = bench.init(&client, &bench.id("e17")).await?.begin();
    bench.refuse(Api::Produce, CORRUPT, 2)?;
    bench.write(&mut transaction, &topic, 0, &["1"]).await?;
    equal("Produce sent", bench.tap.count(Api::Produce), 3)?;
    for value in ["2", "3"] {
        within(transaction.send(&topic, Some(0), RecordRef::value(value.as_bytes()))).await??;
    }
    bench.tap.rewrite::<ProduceRequest>(1, |answer| {
        for p in answer.responses.iter_mut().flat_map(|t| &mut t.partition_responses) {
            p.error_code = INVALID_RECORD;
            // Of the two records in the batch, the second.
            p.record_errors = vec![BatchIndexAndErrorMessage::default().with_batch_index(1)];
        }
        true
    });
    match within(transaction.flush()).await? {
        Err(SendError::Failed(cause)) => {
            equal("the cause", cause.kind, CauseKind::Refused)?;
            let named = bench.tap.requests().iter().any(|r| r.api == Api::Produce && r.version >= 8);
            let records = cause.records.map(|records| format!("{records:?}")).unwrap_or_default();
            holds(!named || records.contains('2'), format!("the records that are named: {records}"))?;
        }
        other => return Err(Failure::wrong(format!("INVALID_RECORD led to {other:?}"))),
    }
    let mut next = bench.step("abort", within(transaction.abort()).await?)?.begin();
    bench.write(&mut next, &topic, 0, &["4"]).await?;
    bench.step("commit", within(next.commit()).await?)?;
    equal("committed", bench.committed(&topic).await?, ["4"])
}

/// Whatever is set, records of transactions wait for all replicas: there is nothing to say otherwise with.
pub(super) async fn e18(_: &Bench) -> Shown {
    for (version, level) in [
        (3, TransactionVersion::V0),
        (9, TransactionVersion::V1),
        (11, TransactionVersion::V1),
        (12, TransactionVersion::V2),
        (13, TransactionVersion::V2),
    ] {
        let produce = Produce {
            transaction: Some((TransactionalId::new("e18"), level)),
            timeout_ms: 1000,
            parts: Vec::new(),
        };
        let head = Head { version, correlation: 1, client_id: "e18".into() };
        let mut frame = Bytes::from(produce.frame(&head)?.concat()).split_off(4);
        RequestHeader::decode(&mut frame)?;
        let sent = ProduceRequest::decode(&mut frame, version).map_err(Failure::wrong)?;
        equal(&format!("acks in Produce {version}"), sent.acks, -1)?;
    }
    Ok(())
}

/// Every compression is taken by Kafka, and read back by librdkafka and by Kafka's own Java consumer.
pub(super) async fn e19(bench: &Bench) -> Shown {
    let client = bench.client()?;
    for compression in Compression::ALL {
        let topic = bench.topic(&client, 1).await?;
        let builder = client.transactional_producer(bench.id("e19")).compression(compression);
        let mut transaction = bench.init_of(builder).await?.begin();
        // Long enough to be worth compressing.
        let values: Vec<_> = (0..50).map(|i| format!("{i} {}", "again ".repeat(50).trim_end())).collect();
        let texts: Vec<_> = values.iter().map(String::as_str).collect();
        for text in &texts {
            within(transaction.send(&topic, Some(0), RecordRef::value(text.as_bytes()))).await??;
        }
        bench.step("commit", within(transaction.commit()).await?)?;
        equal(&format!("committed with {compression:?}"), &bench.committed(&topic).await?, &values)?;
        let (cluster, name) = (bench.cluster()?, topic.name().to_string());
        let java = blocking(move || {
            cluster.tooling()?.console_consumer(&ConsoleRead {
                topic: &name,
                isolation: "read_committed",
                max_messages: Some(50),
                idle: Duration::from_secs(20),
            })
        });
        equal(&format!("Java reads of {compression:?}"), java.await??, values)?;
    }
    Ok(())
}

/// A batch of the same producer id that belongs to no transaction is refused while one is open; the refusal fails the
/// transaction of a client that it meets.
pub(super) async fn e22(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let mut transaction = bench.init(&client, &bench.id("e22")).await?.begin();
    bench.write(&mut transaction, &topic, 0, &["1"]).await?;
    let identity = *granted(bench)?.last().ok_or_else(|| Failure::wrong("no identity"))?;
    let mut builder = BatchBuilder::new();
    builder.append(&RecordRef::value(b"outside"), 1)?;
    let mut batch = builder.seal(Compression::None)?;
    batch.stamp(Stamp::Idempotent { identity, base_sequence: 1 });
    let partition = PartitionProduceData::default().with_index(0).with_records(Some(batch.freeze()));
    let data = TopicProduceData::default()
        .with_name(TopicName(StrBytes::from_string(topic.name().to_string())))
        .with_partition_data(vec![partition]);
    let request = ProduceRequest::default().with_acks(-1).with_timeout_ms(10_000).with_topic_data(vec![data]);
    let answer = bench.raw().await?.ask(9, &request).await?;
    let codes: Vec<_> =
        answer.responses.iter().flat_map(|t| &t.partition_responses).map(|p| p.error_code).collect();
    equal("the answer to a Produce outside of the transaction", codes, [INVALID_STATE])?;
    bench.write(&mut transaction, &topic, 0, &["2"]).await?;
    let producer = bench.step("commit", within(transaction.commit()).await?)?;
    equal("committed", bench.committed(&topic).await?, ["1", "2"])?;

    let mut transaction = producer.begin();
    bench.tap.rewrite::<ProduceRequest>(1, |answer| {
        let partitions = answer.responses.iter_mut().flat_map(|t| &mut t.partition_responses);
        partitions.for_each(|p| p.error_code = INVALID_STATE);
        true
    });
    within(transaction.send(&topic, Some(0), RecordRef::value(b"no"))).await??;
    match bench.step("flush", within(transaction.flush()).await?) {
        Err(SendError::Failed(cause)) => equal("the cause", cause.kind, CauseKind::InvalidState)?,
        other => return Err(Failure::wrong(format!("INVALID_TXN_STATE led to {other:?}"))),
    }
    bench.step("abort", within(transaction.abort()).await?)?;
    equal("EndTxn sent", bench.tap.count(Api::EndTxn), 2)?;
    equal("committed in the end", bench.committed(&topic).await?, ["1", "2"])
}

//! The consumer against the embedded broker.
#![cfg(feature = "broker")]

use std::{error::Error, time::Duration};

use futures::StreamExt;
use kafka_2pc::broker::Api;
use kafka_2pc::{
    broker::{Broker, BrokerConfig, Fault, Reaction},
    client::{
        Client, ClientConfig, Consumer, ConsumerError, Isolation, OffsetAt, OutOfRangePolicy, Start,
        Transaction,
    },
    ids::{TopicId, TopicPartition, TransactionalId},
    record::{Compression, RecordRef},
};

type Outcome = Result<(), Box<dyn Error>>;

const SOON: Duration = Duration::from_secs(10);

async fn started(nodes: usize) -> Result<(Broker, Client), Box<dyn Error>> {
    let broker = Broker::start(BrokerConfig { nodes, ..BrokerConfig::default() }).await?;
    let client = Client::new(ClientConfig::new(&broker.bootstrap())?);
    Ok((broker, client))
}

/// An open transaction with these values, flushed.
async fn write(
    client: &Client,
    id: &str,
    partition: i32,
    values: &[&str],
) -> Result<Transaction, Box<dyn Error>> {
    let topic = client.topic("t").await?;
    let producer =
        client.transactional_producer(TransactionalId::new(id)).compression(Compression::Lz4).init().await?;
    let mut transaction = producer.begin();
    for value in values {
        transaction.send(&topic, Some(partition), RecordRef::value(value.as_bytes())).await?;
    }
    transaction.flush().await?;
    Ok(transaction)
}

/// Waits until the markers of all transactions are written, so that offsets are known.
async fn settled(client: &Client) -> Outcome {
    let mut consumer = client.consumer().build();
    consumer.assign([(place(0), Start::Beginning)]);
    while consumer.end_offsets(Isolation::Committed).await?
        != consumer.end_offsets(Isolation::Uncommitted).await?
    {}
    Ok(())
}

fn place(partition: i32) -> TopicPartition {
    TopicPartition::new("t", partition)
}

async fn values(consumer: &mut Consumer, count: usize) -> Result<Vec<String>, Box<dyn Error>> {
    let mut values = Vec::new();
    while values.len() < count {
        let batch = tokio::time::timeout(SOON, consumer.next_batch()).await??;
        let text = |r: kafka_2pc::client::ConsumerRecord| {
            String::from_utf8_lossy(&r.record.value.unwrap_or_default()).into_owned()
        };
        values.extend(batch.into_iter().map(text));
    }
    Ok(values)
}

#[tokio::test]
async fn aborted_records_are_not_seen_and_open_ones_hide_what_follows() -> Outcome {
    let (broker, client) = started(1).await?;
    broker.create_topic("t", 1)?;
    write(&client, "a", 0, &["no", "no"]).await?.abort().await?;
    write(&client, "b", 0, &["one", "two"]).await?.commit().await?;
    settled(&client).await?;
    let open = write(&client, "c", 0, &["open"]).await?;
    write(&client, "d", 0, &["three"]).await?.commit().await?;

    let mut committed = client.consumer().build();
    committed.assign([(place(0), Start::Beginning)]);
    assert_eq!(values(&mut committed, 2).await?, ["one", "two"]);
    assert!(committed.poll(Duration::from_millis(100)).await?.is_empty());
    let stable = committed.end_offsets(Isolation::Committed).await?[&place(0)];
    let high = committed.end_offsets(Isolation::Uncommitted).await?[&place(0)];
    assert_eq!((committed.position(&place(0)), stable < high), (Some(stable), true));

    let mut all = client.consumer().isolation(Isolation::Uncommitted).build();
    all.assign([(place(0), Start::Beginning)]);
    assert_eq!(values(&mut all, 6).await?, ["no", "no", "one", "two", "open", "three"]);

    open.abort().await?;
    assert_eq!(values(&mut committed, 1).await?, ["three"]);
    Ok(())
}

#[tokio::test]
async fn every_partition_of_every_leader_is_read_in_its_order() -> Outcome {
    let (broker, client) = started(3).await?;
    broker.create_topic("t", 6)?;
    let lines: Vec<_> = (0..50).map(|n| n.to_string()).collect();
    for partition in 0..6 {
        let lines: Vec<_> = lines.iter().map(String::as_str).collect();
        write(&client, &format!("w{partition}"), partition, &lines).await?.commit().await?;
    }
    // As a stream, with answers too small for two partitions at once.
    let mut consumer = client.consumer().max_bytes(300).max_partition_bytes(200).build();
    consumer.assign((0..6).map(|p| (place(p), Start::Beginning)));
    let mut seen = vec![Vec::new(); 6];
    while seen.iter().map(Vec::len).sum::<usize>() < 300 {
        for r in tokio::time::timeout(SOON, consumer.next()).await?.ok_or("the end")?? {
            let value = String::from_utf8(r.record.value.unwrap_or_default().to_vec())?;
            seen[usize::try_from(r.partition)?].push(value);
        }
    }
    assert!(seen.iter().all(|s| *s == lines));
    Ok(())
}

#[tokio::test]
async fn reading_goes_on_where_the_leader_went() -> Outcome {
    let (broker, client) = started(3).await?;
    broker.create_topic("t", 1)?;
    write(&client, "a", 0, &["before"]).await?.commit().await?;
    let mut consumer = client.consumer().build();
    consumer.assign([(place(0), Start::Beginning)]);
    assert_eq!(values(&mut consumer, 1).await?, ["before"]);
    let leader = broker.leader(&place(0)).ok_or("no leader")?;
    broker.stop_node(leader).await?;
    assert_ne!(broker.leader(&place(0)), Some(leader));
    write(&client, "b", 0, &["after"]).await?.commit().await?;
    assert_eq!(values(&mut consumer, 1).await?, ["after"]);
    Ok(())
}

#[tokio::test]
async fn an_offset_that_is_gone_is_named_with_what_is_there() -> Outcome {
    let (broker, client) = started(1).await?;
    broker.create_topic("t", 1)?;
    write(&client, "a", 0, &["0", "1", "2", "3"]).await?.commit().await?;
    settled(&client).await?;
    write(&client, "b", 0, &["5", "6"]).await?.commit().await?;
    settled(&client).await?;
    broker.delete_records(&place(0), 5)?;
    let mut consumer = client.consumer().build();
    consumer.assign([(place(0), Start::Offset(2))]);
    for _ in 0..2 {
        let error = consumer.next_batch().await.unwrap_err();
        let ConsumerError::OutOfRange { partition, wanted: 2, available } = &error else {
            return Err(error.into());
        };
        assert_eq!((partition, available), (&place(0), &(5..8)), "{error}");
    }
    assert_eq!(consumer.beginning_offsets().await?[&place(0)], 5);
    consumer.seek(&place(0), Start::Offset(6));
    assert_eq!(values(&mut consumer, 1).await?, ["6"]);

    let mut earliest = client.consumer().out_of_range(OutOfRangePolicy::Earliest).build();
    earliest.assign([(place(0), Start::Offset(2))]);
    assert_eq!(values(&mut earliest, 2).await?, ["5", "6"]);

    let mut latest = client.consumer().out_of_range(OutOfRangePolicy::Latest).build();
    latest.assign([(place(0), Start::Offset(100))]);
    assert!(latest.poll(Duration::from_millis(300)).await?.is_empty());
    assert_eq!(latest.position(&place(0)), Some(8));
    Ok(())
}

#[tokio::test]
async fn what_does_not_exist_is_an_error_and_so_is_nothing() -> Outcome {
    let (broker, client) = started(1).await?;
    broker.create_topic("t", 1)?;
    let mut consumer = client.consumer().build();
    assert!(matches!(consumer.next_batch().await, Err(ConsumerError::NothingAssigned)));
    for missing in [place(1), TopicPartition::new("other", 0)] {
        consumer.assign([(missing.clone(), Start::End)]);
        let error = consumer.next_batch().await.unwrap_err();
        assert!(matches!(&error, ConsumerError::Missing(p) if *p == missing), "{error}");
    }
    Ok(())
}

#[tokio::test]
async fn lost_answers_and_busy_leaders_are_asked_again() -> Outcome {
    let (broker, client) = started(1).await?;
    broker.create_topic("t", 1)?;
    write(&client, "a", 0, &["one"]).await?.commit().await?;
    for (api, reaction) in [
        (Api::Fetch, Reaction::Drop),
        (Api::Fetch, Reaction::ApplyThenDrop),
        (Api::Fetch, Reaction::ErrorCode(6)),
        (Api::Fetch, Reaction::ErrorCode(78)),
        (Api::ListOffsets, Reaction::Drop),
        (Api::ListOffsets, Reaction::ErrorCode(6)),
        (Api::Metadata, Reaction::Drop),
    ] {
        broker.inject(Fault::on(api, reaction));
        let mut consumer = client.consumer().build();
        consumer.assign([(place(0), Start::Beginning)]);
        assert_eq!(values(&mut consumer, 1).await?, ["one"], "{api:?} {reaction:?}");
    }
    Ok(())
}

#[tokio::test]
async fn giving_up_to_wait_loses_nothing() -> Outcome {
    let (broker, client) = started(1).await?;
    broker.create_topic("t", 1)?;
    let mut consumer = client.consumer().build();
    consumer.assign([(place(0), Start::Beginning)]);
    let lines: Vec<_> = (0..200).map(|n| n.to_string()).collect();
    let mut seen = Vec::new();
    for (n, chunk) in lines.chunks(10).enumerate() {
        let chunk: Vec<_> = chunk.iter().map(String::as_str).collect();
        write(&client, &format!("w{n}"), 0, &chunk).await?.commit().await?;
        let until = Duration::from_micros(u64::try_from(n)? * 150);
        if let Ok(batch) = tokio::time::timeout(until, consumer.next_batch()).await {
            seen.extend(batch?);
        }
    }
    while seen.len() < 200 {
        seen.extend(tokio::time::timeout(SOON, consumer.next_batch()).await??);
    }
    let seen: Vec<_> =
        seen.iter().map(|r| String::from_utf8_lossy(r.record.value.as_deref().unwrap_or_default())).collect();
    assert_eq!(seen, lines);
    Ok(())
}

#[tokio::test]
async fn a_topic_that_was_created_anew_is_not_read_on() -> Outcome {
    let (broker, client) = started(1).await?;
    broker.create_topic("t", 1)?;
    write(&client, "a", 0, &["old"]).await?.commit().await?;
    let mut consumer = client.consumer().build();
    consumer.assign([(place(0), Start::Beginning)]);
    assert_eq!(values(&mut consumer, 1).await?, ["old"]);
    assert!(broker.delete_topic("t"));
    broker.create_topic("t", 1)?;
    write(&client, "b", 0, &["new", "new"]).await?.commit().await?;
    let error = tokio::time::timeout(Duration::from_secs(15), consumer.next_batch()).await?.unwrap_err();
    assert!(matches!(&error, ConsumerError::Recreated { topic, .. } if &**topic == "t"), "{error}");
    consumer.assign([(place(0), Start::Beginning)]);
    assert_eq!(values(&mut consumer, 2).await?, ["new", "new"], "assigned anew, it is another topic");
    Ok(())
}

#[tokio::test]
async fn an_advance_tells_of_a_position_that_moved_over_nothing_to_hand_out() -> Outcome {
    let (broker, client) = started(1).await?;
    broker.create_topic("t", 1)?;
    write(&client, "a", 0, &["one"]).await?.commit().await?;
    write(&client, "b", 0, &["no", "no"]).await?.abort().await?;
    settled(&client).await?;
    let mut consumer = client.consumer().build();
    consumer.assign([(place(0), Start::Beginning)]);
    let end = consumer.end_offsets(Isolation::Committed).await?[&place(0)];
    let mut records = 0;
    while consumer.position(&place(0)) != Some(end) {
        records += tokio::time::timeout(SOON, consumer.advance()).await??.len();
    }
    assert_eq!((records, end), (1, 5));
    let more = tokio::time::timeout(Duration::from_millis(50), consumer.advance()).await;
    assert!(more.is_err(), "nothing moves at the end");
    Ok(())
}

#[tokio::test]
async fn partitions_come_and_go_while_others_are_read() -> Outcome {
    let (broker, client) = started(1).await?;
    broker.create_topic("t", 2)?;
    write(&client, "a", 0, &["0", "1"]).await?.commit().await?;
    let mut consumer = client.consumer().build();
    consumer.add(place(0), Start::Beginning, TopicId::UNKNOWN);
    assert_eq!(values(&mut consumer, 2).await?, ["0", "1"]);
    write(&client, "b", 1, &["2", "3"]).await?.commit().await?;
    consumer.add(place(1), Start::Offset(1), TopicId::UNKNOWN);
    assert_eq!(values(&mut consumer, 1).await?, ["3"]);
    assert_eq!(consumer.assignment(), [place(0), place(1)]);
    consumer.add(place(1), Start::Beginning, TopicId::UNKNOWN);
    assert_eq!(values(&mut consumer, 2).await?, ["2", "3"], "added again, it is read elsewhere");
    assert_eq!(consumer.assignment().len(), 2);
    Ok(())
}

#[tokio::test]
async fn a_partition_of_another_topic_id_than_the_one_asked_for_is_not_read() -> Outcome {
    let (broker, client) = started(1).await?;
    let id = broker.create_topic("t", 1)?;
    write(&client, "a", 0, &["0"]).await?.commit().await?;
    let mut consumer = client.consumer().build();
    consumer.add(place(0), Start::Beginning, id);
    assert_eq!(values(&mut consumer, 1).await?, ["0"]);
    assert_eq!(consumer.topic_id(&place(0)), id);
    let other = TopicId([7; 16]);
    consumer.add(place(0), Start::Beginning, other);
    let error = consumer.next_batch().await.unwrap_err();
    assert!(
        matches!(&error, ConsumerError::Recreated { expected, found, .. } if (*expected, *found) == (other, id)),
        "{error}"
    );
    Ok(())
}

#[tokio::test]
async fn the_leader_epoch_of_what_was_read_is_told() -> Outcome {
    let (broker, client) = started(2).await?;
    broker.create_topic("t", 1)?;
    write(&client, "a", 0, &["0"]).await?.commit().await?;
    let mut consumer = client.consumer().build();
    consumer.assign([(place(0), Start::Beginning)]);
    assert_eq!(consumer.leader_epoch(&place(0)), None);
    assert_eq!(values(&mut consumer, 1).await?, ["0"]);
    let before = consumer.leader_epoch(&place(0)).ok_or("no epoch")?;
    broker.stop_node(broker.leader(&place(0)).ok_or("no leader")?).await?;
    write(&client, "b", 0, &["1"]).await?.commit().await?;
    assert_eq!(values(&mut consumer, 1).await?, ["1"]);
    assert_eq!(consumer.leader_epoch(&place(0)), Some(before + 1));
    consumer.seek(&place(0), Start::Beginning);
    assert_eq!(consumer.leader_epoch(&place(0)), None);
    Ok(())
}

/// Committed values, one transaction each, and then a log that lost the last two of three.
async fn truncated() -> Result<(Broker, Client, Consumer), Box<dyn Error>> {
    let (broker, client) = started(2).await?;
    broker.create_topic("t", 1)?;
    for value in ["0", "2", "4"] {
        write(&client, value, 0, &[value]).await?.commit().await?;
        settled(&client).await?;
    }
    let mut consumer = client.consumer().build();
    consumer.assign([(place(0), Start::Beginning)]);
    assert_eq!(values(&mut consumer, 3).await?, ["0", "2", "4"]);
    broker.truncate(&place(0), 2)?;
    for value in ["2b", "4b", "6b"] {
        write(&client, value, 0, &[value]).await?.commit().await?;
        settled(&client).await?;
    }
    Ok((broker, client, consumer))
}

#[tokio::test]
async fn a_log_that_was_truncated_is_noticed_before_its_new_records_are_read() -> Outcome {
    let (_broker, client, mut consumer) = truncated().await?;
    for _ in 0..2 {
        let error = consumer.next_batch().await.unwrap_err();
        // The last marker may have been passed over.
        let ConsumerError::Truncated { position: position @ (5 | 6), kept: 2, .. } = &error else {
            return Err(error.into());
        };
        assert_eq!(consumer.position(&place(0)), Some(*position), "{error}");
    }
    consumer.seek(&place(0), Start::Offset(2));
    assert_eq!(values(&mut consumer, 3).await?, ["2b", "4b", "6b"]);

    // A position that was kept, and the epoch with it.
    let mut restored = client.consumer().out_of_range(OutOfRangePolicy::Latest).build();
    restored.add(place(0), Start::Offset(5), TopicId::UNKNOWN);
    restored.read_at_epoch(&place(0), Some(0));
    assert_eq!(values(&mut restored, 3).await?, ["2b", "4b", "6b"], "on from where the logs part");
    Ok(())
}

#[tokio::test]
async fn offsets_are_found_by_time() -> Outcome {
    let (broker, client) = started(1).await?;
    broker.create_topic("t", 2)?;
    let topic = client.topic("t").await?;
    let producer = client.transactional_producer(TransactionalId::new("a")).init().await?;
    let mut transaction = producer.begin();
    for timestamp in [1000, 2000, 3000] {
        let record = RecordRef { timestamp: Some(timestamp), ..RecordRef::value(b"v") };
        transaction.send(&topic, Some(0), record).await?;
    }
    transaction.commit().await?;
    settled(&client).await?;
    for (at, wanted) in [
        (OffsetAt::Timestamp(0), Some(0)),
        (OffsetAt::Timestamp(1001), Some(1)),
        (OffsetAt::Timestamp(3000), Some(2)),
        (OffsetAt::Timestamp(3001), None),
        (OffsetAt::Latest, Some(4)),
        (OffsetAt::Earliest, Some(0)),
    ] {
        let found = client.list_offsets(Isolation::Committed, [(place(0), at)]).await?;
        assert_eq!(found[&place(0)], wanted, "{at:?}");
    }
    let both = [(place(0), OffsetAt::Latest), (place(1), OffsetAt::Latest)];
    assert_eq!(client.list_offsets(Isolation::Committed, both).await?[&place(1)], Some(0));
    Ok(())
}

#[test]
fn the_values_of_auto_offset_reset_are_known() {
    for (text, policy) in [
        ("none", OutOfRangePolicy::Error),
        ("fail", OutOfRangePolicy::Error),
        ("earliest", OutOfRangePolicy::Earliest),
        (" latest", OutOfRangePolicy::Latest),
    ] {
        assert_eq!(text.parse(), Ok(policy));
    }
    let error = "newest".parse::<OutOfRangePolicy>().unwrap_err();
    assert_eq!(error.to_string(), "auto.offset.reset: \"newest\" is not none, earliest or latest");
}

//! Where reading begins, and what of a record is kept.

use std::collections::BTreeMap;

use bytes::Bytes;
use kafka_2pc::{
    broker::BrokerConfig,
    client::{
        ConsumerError, ConsumerGroupMetadata, GroupId, OffsetAndMetadata, OutOfRangePolicy, TopicError,
    },
    ids::TransactionalId,
    record::{HeaderRef, Record, RecordRef},
    source::{Source, SourceError, StartFrom, Subtask},
};

use crate::{
    commit, is_silent,
    kit::{Bench, TOPIC, both, numbered, within},
    offsets, opened, place, read, refused, some, source,
};

/// A record with everything, one with nulls.
async fn write(b: &Bench) {
    let topic = b.topic().await;
    let mut transaction =
        b.client.transactional_producer(TransactionalId::new("w")).init().await.unwrap().begin();
    let headers = [HeaderRef { key: b"a", value: Some(b"1") }, HeaderRef { key: b"a", value: None }];
    let whole =
        RecordRef { key: Some(b"key"), value: Some(b"value"), headers: &headers, timestamp: Some(1234) };
    transaction.send(&topic, Some(1), whole).await.unwrap();
    transaction
        .send(&topic, Some(1), RecordRef { timestamp: Some(5678), ..RecordRef::default() })
        .await
        .unwrap();
    transaction.commit().await.unwrap();
    crate::settled(&b.client, &place(TOPIC, 1)).await;
}

#[tokio::test]
async fn records_keep_all_their_parts() {
    let b = Bench::with(BrokerConfig::default()).await;
    write(&b).await;
    let whole = Record {
        partition: Some(1),
        key: Some(Bytes::from("key")),
        value: Some(Bytes::from("value")),
        headers: vec![("a".into(), Some("1".into())), ("a".into(), None)],
        timestamp: Some(1234),
    };
    let nulls = Record { partition: Some(1), timestamp: Some(5678), ..Record::default() };
    let mut reader = opened(&source(&b.client, &[TOPIC]), &[]).await;
    assert_eq!(within(reader.next()).await.unwrap().unwrap(), [whole.clone(), nulls.clone()]);
    let cleared = source(&b.client, &[TOPIC]).without_partition();
    let records = within(opened(&cleared, &[]).await.next()).await.unwrap().unwrap();
    assert_eq!(records, [whole, nulls].map(|record| Record { partition: None, ..record }));
}

#[tokio::test]
async fn a_record_without_a_timestamp_has_none_behind_the_source_either() {
    let b = Bench::with(BrokerConfig::default()).await;
    let topic = b.topic().await;
    let producer = b.client.idempotent_producer().start();
    let record = RecordRef { timestamp: Some(-1), ..RecordRef::value(b"v") };
    producer.send(&topic, Some(1), record).await.unwrap();
    within(producer.flush()).await.unwrap();
    let mut reader = opened(&source(&b.client, &[TOPIC]), &[]).await;
    let read = within(reader.next()).await.unwrap().unwrap();
    assert_eq!(read[0].as_ref(&mut Vec::new()).timestamp, Some(-1), "a writer stamps what says nothing");
}

#[tokio::test]
async fn a_first_start_begins_where_it_is_told() {
    let b = Bench::with(BrokerConfig::default()).await;
    write(&b).await;
    commit(&b.client, "a", &place(TOPIC, 0), &numbered("a", 5)).await;
    let offset = BTreeMap::from([(place(TOPIC, 0), 3)]);
    for (start, begin) in [
        (StartFrom::Earliest, [0, 0]),
        (StartFrom::Latest, [6, 3]),
        (StartFrom::Timestamp(1235), [0, 1]),
        (StartFrom::Timestamp(5679), [0, 3]),
        (StartFrom::Offsets(offset), [3, 0]),
    ] {
        let reader = opened(&source(&b.client, &[TOPIC]).start(start.clone()), &[]).await;
        let wanted = BTreeMap::from([(place(TOPIC, 0), begin[0]), (place(TOPIC, 1), begin[1])]);
        assert_eq!(offsets(reader.as_ref()), wanted, "{start:?}: known before anything is read");
    }
    let start = StartFrom::Offsets([(place(TOPIC, 0), 3), (place(TOPIC, 1), 3)].into());
    let mut reader = opened(&source(&b.client, &[TOPIC]).start(start), &[]).await;
    assert_eq!(some(reader.as_mut(), 2).await, ["a3", "a4"]);
}

#[tokio::test]
async fn latest_is_fixed_when_the_reader_opens() {
    let b = Bench::with(BrokerConfig::default()).await;
    let here = place(TOPIC, 0);
    commit(&b.client, "a", &here, &numbered("a", 5)).await;
    let latest = source(&b.client, &[TOPIC]).start(StartFrom::Latest);
    let reader = opened(&latest, &[]).await;
    commit(&b.client, "a", &here, &numbered("b", 2)).await;
    let mut again = opened(&latest, &reader.snapshot()).await;
    assert_eq!(some(again.as_mut(), 2).await, numbered("b", 2));
    assert!(is_silent(again.as_mut()).await);
}

#[tokio::test]
async fn a_topic_that_the_checkpoint_does_not_know_begins_as_a_first_start_does() {
    let b = Bench::with(BrokerConfig::default()).await;
    b.broker.create_topic("other", 1).unwrap();
    commit(&b.client, "a", &place(TOPIC, 0), &numbered("a", 2)).await;
    commit(&b.client, "a", &place("other", 0), &numbered("o", 2)).await;
    let kept = opened(&source(&b.client, &[TOPIC]), &[]).await.snapshot();
    let both = source(&b.client, &[TOPIC, "other"]).start(StartFrom::Latest);
    let reader = opened(&both, &kept).await;
    let wanted = [(place(TOPIC, 0), 0), (place(TOPIC, 1), 0), (place("other", 0), 3)];
    assert_eq!(offsets(reader.as_ref()), wanted.into());
}

#[tokio::test]
async fn topics_that_do_not_fit_are_named() {
    let b = Bench::with(BrokerConfig::default()).await;
    b.broker.create_topic("other", 3).unwrap();
    assert!(matches!(refused(&source(&b.client, &[]), &[]).await, SourceError::Settings(_)));
    let negative = StartFrom::Offsets([(place(TOPIC, 1), -1)].into());
    let negative = refused(&source(&b.client, &[TOPIC]).start(negative), &[]).await;
    assert!(matches!(&negative, SourceError::Settings(what) if what.contains("t-1")), "{negative}");
    let missing = refused(&source(&b.client, &[TOPIC, "nowhere"]), &[]).await;
    assert!(matches!(&missing, SourceError::Topic(TopicError::Missing(t)) if t == "nowhere"), "{missing}");
    let kept = opened(&source(&b.client, &[TOPIC, "other"]), &[]).await.snapshot();
    let fewer = refused(&source(&b.client, &[TOPIC]), &kept).await;
    assert!(matches!(&fewer, SourceError::Mismatch(what) if what.contains("other")), "{fewer}");
}

#[tokio::test]
async fn a_topic_that_was_created_anew_is_refused_by_the_checkpoint() {
    let b = Bench::with(BrokerConfig::default()).await;
    commit(&b.client, "a", &place(TOPIC, 0), &numbered("a", 2)).await;
    let plain = source(&b.client, &[TOPIC]);
    let mut reader = opened(&plain, &[]).await;
    some(reader.as_mut(), 2).await;
    let kept = reader.snapshot();
    assert!(b.broker.delete_topic(TOPIC));
    let gone = refused(&plain, &kept).await;
    assert!(matches!(gone, SourceError::Topic(TopicError::Missing(_))), "{gone}");
    b.broker.create_topic(TOPIC, 2).unwrap();
    commit(&b.client, "b", &place(TOPIC, 0), &numbered("b", 9)).await;
    for index in 0..2 {
        let other = within(plain.open(Subtask::new(index, 2), &kept)).await.err().unwrap();
        assert!(
            matches!(&other, SourceError::Consumer(ConsumerError::Recreated { topic, .. }) if &**topic == TOPIC),
            "{other}"
        );
    }
    // Without the checkpoint it is just a topic.
    assert_eq!(read(opened(&plain.until_end(), &[]).await.as_mut(), usize::MAX).await, numbered("b", 9));
}

#[tokio::test]
async fn a_topic_that_is_created_anew_while_it_is_read_is_an_error_and_not_a_log_that_lost_records() {
    for policy in [OutOfRangePolicy::Error, OutOfRangePolicy::Earliest, OutOfRangePolicy::Latest] {
        let b = Bench::with(BrokerConfig::default()).await;
        commit(&b.client, "a", &place(TOPIC, 0), &numbered("a", 2)).await;
        let mut reader = opened(&source(&b.client, &[TOPIC]).out_of_range(policy), &[]).await;
        some(reader.as_mut(), 2).await;
        b.broker.delete_topic(TOPIC);
        b.broker.create_topic(TOPIC, 2).unwrap();
        let error = within(reader.next()).await.unwrap_err();
        assert!(
            matches!(error, SourceError::Consumer(ConsumerError::Recreated { .. })),
            "{policy:?}: {error}"
        );
    }
}

#[tokio::test]
async fn no_record_of_a_topic_that_was_created_anew_is_taken_for_one_of_the_old() {
    for profile in both() {
        let b = Bench::new(profile).await;
        let here = place(TOPIC, 0);
        commit(&b.client, "a", &here, &numbered("a", 2)).await;
        let mut reader = opened(&source(&b.client, &[TOPIC]), &[]).await;
        some(reader.as_mut(), 2).await;
        b.broker.delete_topic(TOPIC);
        b.broker.create_topic(TOPIC, 2).unwrap();
        // The offset where reading stands is in the new log.
        commit(&b.client, "b", &here, &numbered("b", 20)).await;
        let error = within(reader.next()).await.unwrap_err();
        assert!(matches!(error, SourceError::Consumer(ConsumerError::Recreated { .. })), "{error}");
    }
}

#[tokio::test]
async fn a_group_says_where_reading_begins() {
    for profile in both() {
        let b = Bench::new(profile).await;
        commit(&b.client, "w", &place(TOPIC, 0), &numbered("a", 5)).await;
        commit(&b.client, "w", &place(TOPIC, 1), &numbered("b", 5)).await;
        let group = ConsumerGroupMetadata::new(GroupId::new("g"));
        let mut transaction = b.producer("group").lazy().begin();
        let at_three = [(place(TOPIC, 0), OffsetAndMetadata::new(3))];
        within(transaction.send_offsets(&group, at_three)).await.unwrap();
        transaction.commit().await.unwrap();
        let at = |otherwise| {
            let start = StartFrom::Committed { group: group.group_id.clone(), otherwise };
            source(&b.client, &[TOPIC]).start(start)
        };
        let error = refused(&at(OutOfRangePolicy::Error), &[]).await.to_string();
        assert!(
            error.contains("g has committed no offset of t-1") && error.contains("auto.offset.reset"),
            "{error}"
        );
        for (otherwise, other) in [(OutOfRangePolicy::Earliest, 0), (OutOfRangePolicy::Latest, 6)] {
            let reader = opened(&at(otherwise), &[]).await;
            assert_eq!(offsets(&*reader), [(place(TOPIC, 0), 3), (place(TOPIC, 1), other)].into());
            let told: Vec<_> = reader.offsets().into_iter().map(|at| at.offset).collect();
            assert_eq!(told, [3, other], "what a sink commits is what the snapshot says");
        }
    }
}

#[tokio::test]
async fn offsets_of_partitions_that_are_not_read_are_refused() {
    let b = Bench::with(BrokerConfig::default()).await;
    for (at, offset, why) in [
        (place("other", 0), 1, "its topic is not read"),
        (place(TOPIC, 2), 1, "t has 2 partitions"),
        (place(TOPIC, -1), 1, "t has 2 partitions"),
        (place(TOPIC, 0), -5, "can't be read from offset -5"),
    ] {
        let start = StartFrom::Offsets([(at, offset)].into());
        let error = refused(&source(&b.client, &[TOPIC]).start(start), &[]).await;
        assert!(matches!(&error, SourceError::Settings(told) if told.contains(why)), "{error}");
    }
}

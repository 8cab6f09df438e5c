//! Where a bounded source ends, and where positions stand then.

use kafka_2pc::{
    broker::BrokerConfig,
    client::Isolation,
    source::{KafkaSource, SourceOffset},
};

use crate::{
    abort, commit, end, is_silent,
    kit::{Bench, TOPIC, both, numbered, within},
    offsets, open, opened, place, read, source,
};

#[tokio::test]
async fn an_aborted_tail_and_control_records_are_passed_up_to_the_end() {
    for profile in both() {
        let b = Bench::new(profile).await;
        let here = place(TOPIC, 0);
        commit(&b.client, "a", &here, &numbered("a", 3)).await;
        abort(&b.client, "b", &here, &numbered("b", 5)).await;
        abort(&b.client, "b", &here, &numbered("b", 5)).await;
        let source = source(&b.client, &[TOPIC]).until_end();
        let mut reader = opened(&source, &[]).await;
        assert_eq!(read(reader.as_mut(), usize::MAX).await, numbered("a", 3));
        assert_eq!(offsets(reader.as_ref())[&here], 16);
        assert_eq!(end(&b.client, &here, Isolation::Uncommitted).await, 16);
        let mut again = opened(&source, &reader.snapshot()).await;
        assert_eq!(within(again.next()).await.unwrap(), None);
    }
}

#[tokio::test]
async fn an_empty_partition_and_one_of_aborted_records_only_end_at_once() {
    let b = Bench::with(BrokerConfig::default()).await;
    abort(&b.client, "b", &place(TOPIC, 1), &numbered("b", 5)).await;
    let mut reader = opened(&source(&b.client, &[TOPIC]).until_end(), &[]).await;
    assert_eq!(within(reader.next()).await.unwrap(), None);
    assert_eq!(offsets(reader.as_ref()), [(place(TOPIC, 0), 0), (place(TOPIC, 1), 6)].into());
}

#[tokio::test]
async fn an_open_transaction_ends_it_before_what_it_hides() {
    let b = Bench::with(BrokerConfig::default()).await;
    let here = place(TOPIC, 0);
    commit(&b.client, "a", &here, &numbered("a", 3)).await;
    let open = open(&b.client, "b", &here, &numbered("b", 2)).await;
    let hidden = crate::open(&b.client, "c", &here, &numbered("c", 2)).await;
    hidden.commit().await.unwrap();
    let stable = source(&b.client, &[TOPIC]).until_end();
    let mut reader = opened(&stable, &[]).await;
    assert_eq!(read(reader.as_mut(), usize::MAX).await, numbered("a", 3));
    assert_eq!(offsets(reader.as_ref())[&here], 4);

    let everything = source(&b.client, &[TOPIC]).until_end().isolation(Isolation::Uncommitted);
    let mut all = opened(&everything, &[]).await;
    let wanted = [numbered("a", 3), numbered("b", 2), numbered("c", 2)].concat();
    assert_eq!(read(all.as_mut(), usize::MAX).await, wanted);

    // What was open may be committed since: the end stays where it was.
    open.commit().await.unwrap();
    crate::settled(&b.client, &here).await;
    let mut again = opened(&stable, &reader.snapshot()).await;
    assert_eq!(within(again.next()).await.unwrap(), None);
}

#[tokio::test]
async fn a_new_end_is_looked_up_where_an_old_one_is_kept_and_added_partitions_belong_to_it() {
    let b = Bench::with(BrokerConfig::default()).await;
    let here = place(TOPIC, 0);
    commit(&b.client, "a", &here, &numbered("a", 3)).await;
    let mut reader = opened(&source(&b.client, &[TOPIC]).until_end(), &[]).await;
    assert_eq!(read(reader.as_mut(), usize::MAX).await, numbered("a", 3));
    commit(&b.client, "a", &here, &numbered("later", 3)).await;
    b.broker.add_partitions(TOPIC, 3);
    commit(&b.client, "a", &place(TOPIC, 2), &numbered("new", 2)).await;
    let anew = source(&b.client, &[TOPIC]).until_new_end();
    let mut again = opened(&anew, &reader.snapshot()).await;
    let seen = crate::sorted(read(again.as_mut(), usize::MAX).await);
    assert_eq!(seen, crate::sorted([numbered("later", 3), numbered("new", 2)].concat()));
    // The new ends are kept as the first ones are.
    commit(&b.client, "a", &here, &numbered("last", 3)).await;
    let mut third = opened(&source(&b.client, &[TOPIC]).until_end(), &again.snapshot()).await;
    assert_eq!(within(third.next()).await.unwrap(), None);
}

#[tokio::test]
async fn a_restart_ends_where_the_first_start_would_have() {
    let b = Bench::with(BrokerConfig::default()).await;
    let here = place(TOPIC, 0);
    commit(&b.client, "a", &here, &numbered("a", 30)).await;
    let bounded = source(&b.client, &[TOPIC]).until_end();
    let mut reader = opened(&bounded, &[]).await;
    let mut seen = read(reader.as_mut(), 1).await;
    commit(&b.client, "a", &here, &numbered("later", 3)).await;
    b.broker.add_partitions(TOPIC, 3);
    commit(&b.client, "a", &place(TOPIC, 2), &numbered("new", 3)).await;
    let mut again = opened(&bounded, &reader.snapshot()).await;
    seen.extend(read(again.as_mut(), usize::MAX).await);
    assert_eq!(seen, numbered("a", 30));
    assert_eq!(offsets(again.as_ref()).len(), 2, "a partition that came later is not read");

    // Without the end it goes on from there.
    let mut on = opened(&source(&b.client, &[TOPIC]), &again.snapshot()).await;
    let later = crate::sorted(crate::some(on.as_mut(), 6).await);
    assert_eq!(later, [numbered("later", 3), numbered("new", 3)].concat());
}

#[tokio::test]
async fn the_offsets_of_a_snapshot_are_those_that_a_group_would_commit() {
    let b = Bench::with(BrokerConfig { nodes: 2, ..BrokerConfig::default() }).await;
    let here = place(TOPIC, 0);
    let leader = b.broker.leader(&here).unwrap();
    commit(&b.client, "a", &here, &numbered("a", 3)).await;
    b.broker.stop_node(leader).await.unwrap();
    b.broker.start_node(leader).await.unwrap();
    commit(&b.client, "a", &here, &numbered("b", 3)).await;
    let mut reader = opened(&source(&b.client, &[TOPIC]).until_end(), &[]).await;
    let at = |partition, offset, leader_epoch| SourceOffset {
        partition: place(TOPIC, partition),
        offset,
        leader_epoch,
    };
    let before = KafkaSource::offsets(&reader.snapshot()).unwrap();
    assert_eq!(before, [at(0, 0, None), at(1, 0, None)]);
    assert_eq!(read(reader.as_mut(), usize::MAX).await.len(), 6);
    let after = KafkaSource::offsets(&reader.snapshot()).unwrap();
    assert_eq!(after, [at(0, end(&b.client, &here, Isolation::Committed).await, Some(1)), at(1, 0, None)]);
    let mut states = reader.snapshot();
    states[0].state = "something".into();
    assert!(KafkaSource::offsets(&states).is_err());
}

#[tokio::test]
async fn a_paced_source_hands_out_the_next_batch_when_those_before_are_paid_for() {
    let b = Bench::with(BrokerConfig::default()).await;
    let here = place(TOPIC, 0);
    commit(&b.client, "a", &here, &numbered("a", 40)).await;
    let source = source(&b.client, &[TOPIC]).until_end();
    let mut paced = opened(&source.clone().records_per_second(1), &[]).await;
    let first = within(paced.next()).await.unwrap().unwrap();
    assert!(first.len() > 1, "a batch is not cut");
    assert!(is_silent(paced.as_mut()).await);
    // Waiting has taken nothing.
    let mut rest = opened(&source, &paced.snapshot()).await;
    assert_eq!(read(rest.as_mut(), usize::MAX).await, numbered("a", 40)[first.len()..]);
}

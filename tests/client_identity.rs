//! Producer ids and epochs: late requests, lost answers, rivals, and epochs that run out.
#![cfg(feature = "broker")]
#![expect(clippy::unwrap_used, reason = "tests")]

mod kit;
mod raw;

use std::time::Duration;

use kafka_2pc::{
    broker::{Api, BrokerConfig, Profile, Reaction},
    client::{Client, Prepared, TransactionalProducer},
    proto::{committable::Committable, resume::Outcome},
};
use kit::{Bench, TOPIC, both, config_for, within};

async fn prepared(b: &Bench, producer: TransactionalProducer, values: &[&str]) -> Committable {
    let mut transaction = producer.begin();
    b.write(&mut transaction, values).await;
    match transaction.prepare().await.unwrap() {
        Prepared::Ready(committable) => committable,
        other => panic!("{other:?}"),
    }
}

/// The next producer of the id, as a pool would make it.
async fn committed(b: &Bench, committable: &Committable) -> TransactionalProducer {
    let resumed = within(b.client.resume(committable.clone()).commit()).await.unwrap();
    assert_eq!(resumed.outcome, Outcome::Committed);
    let builder = b.producer(committable.transactional_id.as_str());
    resumed
        .next
        .map_or_else(|| builder.clone().used(committable.identity), |next| builder.clone().returned(next))
}

#[tokio::test]
async fn late_copies_of_old_requests_touch_nothing_of_the_next_transaction() {
    for profile in both() {
        let b = Bench::new(profile).await;
        let late = raw::Cluster::new(b.broker.bootstrap());
        let first = prepared(&b, b.producer("a").init().await.unwrap(), &["1"]).await;
        let (pair, version) =
            ((first.identity.producer_id.0, first.identity.epoch.0), first.end_txn_version.unwrap());
        let mut second = committed(&b, &first).await.begin();
        b.write(&mut second, &["2"]).await;
        for commit in [true, false] {
            let (code, _) = late.end(version, "a", pair, commit).await;
            assert!(matches!(code, 90 | 47), "a late end is fenced: {code}");
        }
        let produce = if version >= 5 { 12 } else { 11 };
        let copy = late.produce(produce, "a", (TOPIC, 0), raw::batch(pair, 0, 1)).await;
        assert!(copy.is_err(), "a late batch is refused: {copy:?}");
        let next = late.produce(produce, "a", (TOPIC, 0), raw::batch(pair, 1, 1)).await;
        assert!(next.is_err(), "also one that would be new: {next:?}");
        assert_ne!(late.add("a", pair, TOPIC, 1).await, 0);
        b.write(&mut second, &["3"]).await;
        within(second.commit()).await.unwrap();
        assert_eq!(b.committed().await, ["1", "2", "3"]);
    }
}

#[tokio::test]
async fn an_epoch_that_runs_out_brings_a_new_producer_id_and_loses_nothing() {
    for profile in Profile::all() {
        let b = Bench::new(profile.clone()).await;
        b.open("a", &["0"]).await.commit().await.unwrap();
        b.committed().await;
        assert!(b.broker.wear_out("a", 32_764));
        let mut producer = b.producer("a").init().await.unwrap();
        let mut ids = Vec::new();
        for round in 1..=6 {
            let committable = prepared(&b, producer, &[&round.to_string()]).await;
            producer = committed(&b, &committable).await;
            ids.push(committable.identity.producer_id);
            // A committer that asks again, before and after the markers.
            for _ in 0..2 {
                let again = within(b.client.resume(committable.clone()).commit()).await.unwrap().outcome;
                let known = matches!(again, Outcome::Committed | Outcome::AlreadyCommitted(_));
                assert!(known, "{} round {round}: {again:?}", profile.name);
                b.committed().await;
            }
        }
        ids.dedup();
        assert_eq!(ids.len(), 2, "{}", profile.name);
        assert_eq!(b.committed().await, ["0", "1", "2", "3", "4", "5", "6"]);
    }
}

#[tokio::test]
async fn an_own_renewal_whose_answer_was_lost_over_a_move_is_no_rival() {
    let profile = Profile::kafka_4_4_v1();
    let b = Bench::with(BrokerConfig { nodes: 3, profile, ..BrokerConfig::default() }).await;
    let producer = b.open("a", &["1"]).await.commit().await.unwrap();
    b.committed().await;
    let asked = b.broker.requests(Api::InitProducerId);
    b.fault(Api::InitProducerId, Reaction::ApplyThenDrop);
    let mut next = producer.begin();
    while b.broker.requests(Api::InitProducerId) == asked {
        tokio::time::sleep(Duration::from_micros(200)).await;
    }
    let node = b.broker.transaction_coordinator("a").unwrap();
    b.broker.stop_node(node).await.unwrap();
    b.write(&mut next, &["2"]).await;
    within(next.commit()).await.unwrap();
    assert_eq!(b.committed().await, ["1", "2"]);
}

#[tokio::test]
async fn a_rival_that_took_the_id_between_two_transactions_is_reported_and_not_fenced() {
    for profile in both() {
        let b = Bench::new(profile).await;
        let producer = b.open("a", &["1"]).await.commit().await.unwrap();
        let mut rival = b.open("a", &["2"]).await;
        let mut fenced = producer.begin();
        let topic = b.topic().await;
        _ = fenced.send(&topic, Some(0), kafka_2pc::record::RecordRef::value(b"no")).await;
        within(fenced.flush()).await.unwrap_err();
        within(fenced.commit()).await.unwrap_err();
        b.write(&mut rival, &["3"]).await;
        within(rival.commit()).await.unwrap();
        assert_eq!(b.committed().await, ["1", "2", "3"]);
    }
}

#[tokio::test]
async fn of_two_that_take_an_id_at_once_one_survives() {
    for profile in both() {
        let b = Bench::new(profile).await;
        for round in 0..5 {
            let id = format!("id{round}");
            let clients = [(); 3].map(|()| Client::new(config_for(&b.broker)));
            let topic = b.topic().await;
            let rivals = clients.iter().map(|client| {
                let producer =
                    client.transactional_producer(kafka_2pc::ids::TransactionalId::new(id.as_str()));
                let topic = topic.clone();
                async move {
                    let mut transaction = producer.init().await.ok()?.begin();
                    let value = kafka_2pc::record::RecordRef::value(b"x");
                    transaction.send(&topic, Some(0), value).await.ok()?;
                    transaction.commit().await.ok()
                }
            });
            let alive = within(futures::future::join_all(rivals)).await.into_iter().flatten().count();
            assert!((1..=3).contains(&alive), "{alive}");
            let before = b.committed().await.len();
            assert_eq!(b.committed().await.len(), before);
        }
    }
}

#[tokio::test]
async fn an_identity_that_was_prefetched_is_the_one_that_is_used() {
    for (profile, renewals) in [(Profile::kafka_4_4_v1(), 1), (Profile::kafka_4_4(), 0)] {
        let b = Bench::new(profile).await;
        let mut producer = b.open("a", &["1"]).await.commit().await.unwrap();
        b.committed().await;
        let before = b.broker.requests(Api::InitProducerId);
        for _ in 0..3 {
            within(producer.prefetch()).await.unwrap();
        }
        let mut next = producer.begin();
        b.write(&mut next, &["2"]).await;
        assert_eq!(b.broker.requests(Api::InitProducerId) - before, renewals);
        next.commit().await.unwrap();
        assert_eq!(b.committed().await, ["1", "2"]);
    }
}

#[tokio::test]
async fn an_id_that_expired_between_two_transactions_goes_on_under_a_new_producer_id() {
    for profile in both() {
        let b = Bench::new(profile).await;
        let first = prepared(&b, b.producer("a").init().await.unwrap(), &["1"]).await;
        let producer = committed(&b, &first).await;
        b.committed().await;
        assert!(b.broker.expire_transactional_id("a"));
        let mut next = producer.begin();
        let topic = b.topic().await;
        _ = next.send(&topic, Some(0), kafka_2pc::record::RecordRef::value(b"2")).await;
        if within(next.commit()).await.is_err() {
            // On V2 the pair that the commit returned is of no use any more; a takeover is.
            b.open("a", &["2"]).await.commit().await.unwrap();
        }
        assert_eq!(b.committed().await, ["1", "2"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_coordinator_that_never_comes_names_the_settings_that_may_keep_it() {
    let b = Bench::in_memory(Profile::kafka_4_4()).await;
    b.broker.take_coordinator("a");
    let Err(error) = b.producer("a").init().await else { panic!("nobody coordinates it") };
    let text = format!("{error}");
    for name in [
        "COORDINATOR_NOT_AVAILABLE",
        "transaction.state.log.replication.factor",
        "transaction.state.log.min.isr",
    ] {
        assert!(text.contains(name), "{text}");
    }
    b.broker.move_coordinator("a", 1).unwrap();
    b.producer("a").init().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_identity_that_was_got_long_ago_is_got_anew() {
    for profile in both() {
        let name = profile.name;
        let b = Bench::in_memory(profile).await;
        for id in ["prefetched", "committed"] {
            let mut producer = b.producer(id).lazy();
            if id == "committed" {
                let mut first = producer.begin();
                b.write(&mut first, &["first"]).await;
                producer = first.commit().await.unwrap();
            }
            producer.prefetch().await.unwrap();
            tokio::time::sleep(Duration::from_secs(7200)).await;
            assert!(b.broker.expire_transactional_id(id), "{name} {id}");
            let mut transaction = producer.begin();
            b.write(&mut transaction, &["x"]).await;
            transaction.commit().await.unwrap_or_else(|e| panic!("{name} {id}: {e:?}"));
        }
    }
}

/// A coordinator writes an identity down before it answers, and works on one request of a connection at a time.
#[tokio::test(start_paused = true)]
async fn a_transaction_does_not_wait_for_the_identity_of_another_one() {
    for slow in [Api::DescribeTransactions, Api::InitProducerId] {
        let b = Bench::in_memory(Profile::kafka_4_4_v1()).await;
        let mut later = b.open("later", &["1"]).await.commit().await.unwrap();
        b.open("now", &["2"]).await.commit().await.unwrap();
        b.committed().await;
        let mut transaction = b.producer("now").init().await.unwrap().begin();
        b.fault(slow, Reaction::Delay(Duration::from_secs(2)));
        let mut renewed = std::pin::pin!(later.prefetch());
        tokio::time::timeout(Duration::from_millis(100), &mut renewed).await.expect_err("it is on its way");
        let write = async {
            b.write(&mut transaction, &["3"]).await;
            transaction.commit().await.unwrap();
        };
        tokio::time::timeout(Duration::from_secs(1), write)
            .await
            .expect("it does not wait for the other one");
        within(renewed).await.unwrap();
        assert_eq!(b.committed().await, ["1", "2", "3"]);
    }
}

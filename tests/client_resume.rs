//! Prepared transactions, committed by somebody else: every answer, and what proves it.
#![cfg(feature = "broker")]
#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]

mod kit;

use std::time::Duration;

use kafka_2pc::{
    broker::{Api, Broker, BrokerConfig, Profile, Reaction, TransactionVersion},
    client::{Client, ClientConfig, Prepared},
    ids::TopicPartition,
    proto::{
        committable::Committable,
        resume::{CommitError, First, Leaderless, Outcome},
    },
};
use kit::{Bench, TOPIC, both, config_for, within};

async fn prepared(b: &Bench, id: &str, values: &[&str]) -> Committable {
    match b.open(id, values).await.prepare().await.unwrap() {
        Prepared::Ready(committable) => committable,
        other => panic!("{other:?}"),
    }
}

/// Commits as another process would: from bytes, with a client of its own.
async fn commit(broker: &Broker, committable: &Committable) -> Result<Outcome, CommitError> {
    let kept = Committable::from_bytes(&committable.to_bytes()).unwrap();
    let client = Client::new(config_for(broker));
    within(client.resume(kept).commit()).await.map(|resumed| resumed.outcome)
}

#[tokio::test]
async fn a_committable_is_committed_from_its_bytes_alone_and_again() {
    for profile in Profile::all() {
        let b = Bench::new(profile).await;
        let committable = prepared(&b, "a", &["1", "2"]).await;
        assert_eq!(b.visible().await, [""; 0]);
        assert_eq!(commit(&b.broker, &committable).await.unwrap(), Outcome::Committed);
        assert_eq!(b.committed().await, ["1", "2"]);
        assert_eq!(commit(&b.broker, &committable).await.unwrap(), Outcome::Committed, "again");
        let e = within(b.client.resume(committable).abort()).await;
        assert!(matches!(&e, Ok(r) if !matches!(r.outcome, Outcome::Aborted)) || e.is_err(), "{e:?}");
        assert_eq!(b.committed().await, ["1", "2"]);
    }
}

#[tokio::test]
async fn what_was_committed_before_its_id_went_on_is_proven() {
    for profile in both() {
        let b = Bench::new(profile).await;
        let committable = prepared(&b, "a", &["1"]).await;
        let _ = commit(&b.broker, &committable).await.unwrap();
        // Taken over; written in; committed again; aborted.
        b.producer("a").init().await.unwrap();
        let outcome = commit(&b.broker, &committable).await.unwrap();
        assert!(matches!(outcome, Outcome::AlreadyCommitted(_)), "{outcome:?}");
        let open = b.open("a", &["no"]).await;
        let outcome = commit(&b.broker, &committable).await.unwrap();
        assert!(matches!(outcome, Outcome::AlreadyCommitted(_)), "{outcome:?}");
        let next = open.abort().await.unwrap();
        let mut next = next.begin();
        b.write(&mut next, &["2"]).await;
        next.commit().await.unwrap();
        let outcome = commit(&b.broker, &committable).await.unwrap();
        assert!(matches!(outcome, Outcome::AlreadyCommitted(_)), "{outcome:?}");
        assert_eq!(b.committed().await, ["1", "2"]);
    }
}

#[tokio::test]
async fn a_timeout_or_a_takeover_is_a_loss_with_its_name() {
    for profile in both() {
        for (case, taken_over) in ["timeout", "takeover"].into_iter().zip([false, true]) {
            let b = Bench::new(profile.clone()).await;
            let producer =
                b.producer("a").transaction_timeout(Duration::from_millis(1)).init().await.unwrap();
            let mut transaction = producer.begin();
            b.write(&mut transaction, &["no"]).await;
            let Prepared::Ready(committable) = transaction.prepare().await.unwrap() else { panic!() };
            if taken_over {
                b.producer("a").init().await.unwrap();
            } else {
                tokio::time::sleep(Duration::from_millis(5)).await;
                b.broker.sweep_timeouts();
            }
            let outcome = commit(&b.broker, &committable).await.unwrap();
            let Outcome::Lost { partitions, .. } = &outcome else { panic!("{case}: {outcome:?}") };
            assert_eq!(partitions.len(), 1, "{case}");
            // Also when the id was used on, so that only the log knows.
            b.open("a", &["yes"]).await.commit().await.unwrap();
            let outcome = commit(&b.broker, &committable).await.unwrap();
            assert!(matches!(outcome, Outcome::Lost { .. }), "{case}: {outcome:?}");
            assert_eq!(b.committed().await, ["yes"]);
        }
    }
}

#[tokio::test]
async fn without_any_trace_nothing_is_claimed() {
    for profile in both() {
        for committed in [true, false] {
            let b = Bench::new(profile.clone()).await;
            let committable = prepared(&b, "a", &["1"]).await;
            if committed {
                let _ = commit(&b.broker, &committable).await.unwrap();
            } else {
                b.producer("a").init().await.unwrap();
            }
            b.committed().await;
            assert!(b.broker.expire_transactional_id("a"));
            let outcome = commit(&b.broker, &committable).await.unwrap();
            match committed {
                true => {
                    assert!(matches!(outcome, Outcome::AlreadyCommitted(_)), "the log tells: {outcome:?}")
                }
                false => assert!(matches!(outcome, Outcome::Lost { .. }), "the log tells: {outcome:?}"),
            }
            b.broker.delete_records(&TopicPartition::new(TOPIC, 0), -1).unwrap();
            let outcome = commit(&b.broker, &committable).await.unwrap();
            assert!(matches!(outcome, Outcome::Undecidable(_)), "{outcome:?}");
        }
    }
}

#[tokio::test]
async fn a_topic_created_anew_is_no_evidence() {
    for profile in both() {
        let b = Bench::new(profile).await;
        let committable = prepared(&b, "a", &["1"]).await;
        assert!(b.broker.delete_topic(TOPIC));
        b.broker.create_topic(TOPIC, 2).unwrap();
        b.open("other", &["2"]).await.commit().await.unwrap();
        b.producer("a").init().await.unwrap();
        let outcome = commit(&b.broker, &committable).await.unwrap();
        assert!(!matches!(outcome, Outcome::Committed | Outcome::AlreadyCommitted(_)), "{outcome:?}");
    }
}

#[tokio::test]
async fn a_lost_answer_gets_the_same_answer() {
    for profile in both() {
        for reaction in
            [Reaction::Drop, Reaction::ApplyThenDrop, Reaction::ErrorCode(-1), Reaction::ErrorCode(16)]
        {
            let b = Bench::new(profile.clone()).await;
            let committable = prepared(&b, "a", &["1"]).await;
            for _ in 0..3 {
                b.fault(Api::EndTxn, reaction);
            }
            assert_eq!(commit(&b.broker, &committable).await.unwrap(), Outcome::Committed, "{reaction:?}");
            assert_eq!(b.committed().await, ["1"]);
        }
    }
}

#[tokio::test]
async fn an_ending_that_is_under_way_is_waited_for() {
    for profile in both() {
        let b = Bench::new(profile).await;
        let committable = prepared(&b, "a", &["1"]).await;
        b.broker.hold_markers();
        // Whoever was first has died after this.
        let _ = commit(&b.broker, &committable).await.unwrap();
        let again = {
            let client = Client::new(config_for(&b.broker));
            tokio::spawn(client.resume(committable.clone()).commit())
        };
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!again.is_finished());
        b.broker.release_markers();
        assert_eq!(within(again).await.unwrap().unwrap().outcome, Outcome::Committed);
        assert_eq!(b.committed().await, ["1"]);
    }
}

#[tokio::test]
async fn a_coordinator_that_moves_in_between_changes_nothing() {
    for profile in both() {
        let b = Bench::with(BrokerConfig { nodes: 3, profile, ..BrokerConfig::default() }).await;
        for (round, reaction) in [Reaction::Drop, Reaction::ApplyThenDrop].into_iter().enumerate() {
            let id = format!("a{round}");
            let committable = prepared(&b, &id, &[&id]).await;
            let node = b.broker.transaction_coordinator(&id).unwrap();
            b.fault(Api::EndTxn, reaction);
            let client = Client::new(config_for(&b.broker));
            let running = tokio::spawn(client.resume(committable).commit());
            while b.broker.requests(Api::EndTxn) == u64::try_from(round).unwrap() * 2 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            b.broker.stop_node(node).await.unwrap();
            assert_eq!(within(running).await.unwrap().unwrap().outcome, Outcome::Committed);
            b.broker.start_node(node).await.unwrap();
        }
        assert_eq!(b.committed().await, ["a0", "a1"]);
    }
}

#[tokio::test]
async fn another_cluster_is_refused_before_anything_is_sent() {
    let b = Bench::new(Profile::kafka_4_4()).await;
    let committable = prepared(&b, "a", &["1"]).await;
    let other = Broker::start(BrokerConfig::default()).await.unwrap();
    let e = commit(&other, &committable).await.unwrap_err();
    assert!(matches!(e, CommitError::AnotherCluster { .. }), "{e}");
    assert_eq!((other.requests(Api::EndTxn), other.requests(Api::FindCoordinator)), (0, 0));
}

#[tokio::test]
async fn the_level_may_change_between_prepare_and_commit() {
    use TransactionVersion::{V0, V1, V2};
    for (profile, then) in [
        (Profile::kafka_4_4(), [V1, V0]),
        (Profile::kafka_4_4_v1(), [V2, V0]),
        (Profile::kafka_4_4_v0(), [V1, V2]),
    ] {
        for (level, first) in then.into_iter().flat_map(|l| [(l, First::EndTxn), (l, First::Describe)]) {
            let b = Bench::new(profile.clone()).await;
            let committable = prepared(&b, "a", &["1"]).await;
            b.broker.set_transaction_version(level);
            let client = Client::new(config_for(&b.broker));
            for again in [false, true, true] {
                let resumed = within(client.resume(committable.clone()).first(first).commit()).await;
                let outcome = resumed.unwrap().outcome;
                let known = matches!(outcome, Outcome::Committed | Outcome::AlreadyCommitted(_));
                assert!(known, "{} to {level:?}, {first:?}, again {again}: {outcome:?}", profile.name);
            }
            // A level is believed for a tenth of a second.
            tokio::time::sleep(Duration::from_millis(110)).await;
            b.open("a", &["2"]).await.commit().await.unwrap();
            assert_eq!(b.committed().await, ["1", "2"]);
        }
    }
}

#[tokio::test]
async fn a_commit_waits_for_leaders_while_there_is_time_unless_told_otherwise() {
    let b = Bench::with(BrokerConfig { nodes: 3, ..BrokerConfig::default() }).await;
    b.broker.create_topic_on("lonely", vec![vec![3]]).unwrap();
    let topic = b.client.topic("lonely").await.unwrap();
    let id =
        (0..).map(|i| format!("id{i}")).find(|id| b.broker.transaction_coordinator(id) == Some(1)).unwrap();
    let mut transaction = b.producer(&id).init().await.unwrap().begin();
    transaction.send(&topic, Some(0), kafka_2pc::record::RecordRef::value(b"1")).await.unwrap();
    let Prepared::Ready(committable) = transaction.prepare().await.unwrap() else { panic!() };
    b.broker.stop_node(3).await.unwrap();
    let short = Duration::from_millis(150);
    // Whoever has asked for the leaders a moment ago goes by that.
    let other = Client::new(ClientConfig::new(&b.broker.bootstrap()).unwrap());
    let e = within(other.resume(committable.clone()).timeout(short).commit()).await.unwrap_err();
    assert!(matches!(e, CommitError::Pending { .. }), "{e}");
    assert_eq!(b.broker.requests(Api::EndTxn), 0);
    let ignoring = b.client.resume(committable).leaderless(Leaderless::Ignore);
    assert_eq!(within(ignoring.commit()).await.unwrap().outcome, Outcome::Committed);
}

#[tokio::test]
async fn rights_that_are_missing_leave_the_committable_valid() {
    let b = Bench::new(Profile::kafka_4_4()).await;
    let committable = prepared(&b, "a", &["1"]).await;
    b.fault(Api::EndTxn, Reaction::ErrorCode(53));
    assert!(matches!(commit(&b.broker, &committable).await, Err(CommitError::Denied)));
    assert_eq!(commit(&b.broker, &committable).await.unwrap(), Outcome::Committed);
}

#[tokio::test]
async fn a_commit_without_brokers_is_pending_in_time_and_a_later_one_succeeds() {
    let b = Bench::new(Profile::kafka_4_4()).await;
    let committable = prepared(&b, "a", &["1"]).await;
    b.broker.stop_node(1).await.unwrap();
    let client = Client::new(ClientConfig::new(&b.broker.bootstrap()).unwrap());
    let e = within(client.resume(committable.clone()).timeout(Duration::from_millis(100)).commit()).await;
    assert!(matches!(e, Err(CommitError::Pending { .. })), "{e:?}");
    b.broker.start_node(1).await.unwrap();
    assert_eq!(within(client.resume(committable).commit()).await.unwrap().outcome, Outcome::Committed);
    assert_eq!(b.committed().await, ["1"]);
}

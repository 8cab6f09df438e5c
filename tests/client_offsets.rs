//! Offsets of a consumer group in transactions, against the embedded broker.
#![cfg(feature = "broker")]
#![expect(clippy::unwrap_used, reason = "tests")]

mod kit;

use std::time::Duration;

use kafka_2pc::{
    broker::{Api, BrokerConfig, Profile, Reaction},
    client::{
        Client, ConsumerGroupMetadata, EndError, GroupId, OffsetAndMetadata, OffsetsError, Prepared,
        SendError, Transaction,
    },
    ids::TopicPartition,
    proto::{
        cause::CauseKind,
        resume::{Decision, Outcome},
        settle::{SettleError, SettleTarget},
    },
    wire::code::ErrorCode,
};
use kit::{Bench, TOPIC, both, config_for, within};

fn group() -> ConsumerGroupMetadata {
    // Java's hash of this name is below zero.
    ConsumerGroupMetadata::new(GroupId::new("orders"))
}

fn place(partition: i32) -> TopicPartition {
    TopicPartition::new(TOPIC, partition)
}

async fn send(transaction: &mut Transaction, offset: i64) -> Result<(), SendError> {
    within(transaction.send_offsets(&group(), [(place(0), OffsetAndMetadata::new(offset))])).await
}

/// What the group has committed of partition 0.
async fn committed(client: &Client) -> Option<i64> {
    let mut told = within(client.committed(&group().group_id, [place(0)])).await.unwrap();
    told.remove(&place(0)).unwrap().map(|at| at.offset)
}

fn refusal(result: Result<(), SendError>) -> kafka_2pc::proto::cause::Cause {
    match result {
        Err(SendError::Failed(cause)) => cause,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn records_and_offsets_are_committed_together_and_an_abort_leaves_neither() {
    for profile in Profile::all() {
        let b = Bench::new(profile.clone()).await;
        assert_eq!(committed(&b.client).await, None);
        let mut first = b.open("a", &["yes"]).await;
        send(&mut first, 5).await.unwrap();
        send(&mut first, 6).await.unwrap();
        let mut second = first.commit().await.unwrap().begin();
        assert_eq!(committed(&b.client).await, Some(6), "{}", profile.name);
        b.write(&mut second, &["no"]).await;
        send(&mut second, 9).await.unwrap();
        second.abort().await.unwrap();
        assert_eq!(committed(&b.client).await, Some(6), "{}", profile.name);
        assert_eq!(b.committed().await, ["yes"]);
    }
}

#[tokio::test]
async fn metadata_and_leader_epoch_come_back() {
    for profile in both() {
        let b = Bench::new(profile).await;
        let at = OffsetAndMetadata { offset: 7, leader_epoch: Some(3), metadata: "é".into() };
        let mut transaction = b.producer("a").lazy().begin();
        within(transaction.send_offsets(&group(), [(place(1), at.clone())])).await.unwrap();
        transaction.commit().await.unwrap();
        let told = within(b.client.committed(&group().group_id, [place(0), place(1)])).await.unwrap();
        assert_eq!(told, [(place(0), None), (place(1), Some(at))].into());
    }
}

#[tokio::test]
async fn an_offset_that_a_transaction_holds_back_is_waited_for() {
    let b = Bench::new(Profile::kafka_4_4()).await;
    let hasty = Client::new(config_for(&b.broker).max_block(Duration::from_millis(50)));
    let mut transaction = b.producer("a").lazy().begin();
    send(&mut transaction, 5).await.unwrap();
    let error = within(hasty.committed(&group().group_id, [place(0)])).await.unwrap_err();
    let unstable = ErrorCode::UnstableOffsetCommit;
    assert!(matches!(&error, OffsetsError::Refused { code, .. } if *code == unstable), "{error}");
    // The marker comes a moment after the answer.
    b.broker.hold_markers();
    transaction.commit().await.unwrap();
    let waiting = committed(&b.client);
    let (told, ()) = tokio::join!(waiting, async { b.broker.release_markers() });
    assert_eq!(told, Some(5));
}

#[tokio::test]
async fn without_offsets_nothing_is_sent_and_nothing_is_prepared() {
    for profile in both() {
        let b = Bench::new(profile).await;
        let mut transaction = b.producer("a").init().await.unwrap().begin();
        for _ in 0..2 {
            within(transaction.send_offsets(&group(), [])).await.unwrap();
        }
        assert!(matches!(transaction.prepare().await.unwrap(), Prepared::Empty(_)));
        let asked =
            [Api::AddOffsetsToTxn, Api::TxnOffsetCommit, Api::EndTxn].map(|api| b.broker.requests(api));
        assert_eq!(asked, [0, 0, 0]);
    }
}

#[tokio::test]
async fn what_no_broker_takes_is_refused_and_the_transaction_goes_on() {
    let b = Bench::new(Profile::kafka_4_4()).await;
    let mut transaction = b.open("a", &["yes"]).await;
    let error = send(&mut transaction, -1).await.unwrap_err();
    assert!(error.to_string().contains("no offset -1"), "{error}");
    let nameless = ConsumerGroupMetadata::new(GroupId::new(""));
    let offsets = [(place(0), OffsetAndMetadata::new(1))];
    let error = within(transaction.send_offsets(&nameless, offsets)).await.unwrap_err();
    assert!(matches!(error, SendError::Offsets { .. }), "{error}");
    transaction.commit().await.unwrap();
    assert_eq!(b.committed().await, ["yes"]);
}

#[tokio::test]
async fn only_v1_adds_the_group_and_once() {
    for profile in both() {
        let explicit = profile == Profile::kafka_4_4_v1();
        let b = Bench::new(profile).await;
        let mut transaction = b.producer("a").lazy().begin();
        send(&mut transaction, 1).await.unwrap();
        send(&mut transaction, 2).await.unwrap();
        transaction.commit().await.unwrap();
        assert_eq!(b.broker.requests(Api::AddOffsetsToTxn), u64::from(explicit));
        assert_eq!(b.broker.requests(Api::TxnOffsetCommit), 2);
    }
}

#[tokio::test]
async fn answers_that_ask_for_a_retry_and_cut_connections_change_nothing() {
    // LOAD_IN_PROGRESS, NOT_AVAILABLE, NOT_COORDINATOR, CONCURRENT_TRANSACTIONS, REQUEST_TIMED_OUT, UNKNOWN_TOPIC.
    let codes = [14, 15, 16, 51, 7, 3].map(Reaction::ErrorCode);
    let cuts = [Reaction::Drop, Reaction::ApplyThenDrop];
    for profile in both() {
        for reaction in codes.into_iter().chain(cuts) {
            for api in [Api::AddOffsetsToTxn, Api::TxnOffsetCommit, Api::FindCoordinator] {
                let b = Bench::new(profile.clone()).await;
                let mut transaction = b.open("a", &["yes"]).await;
                // Whose coordinator is not known yet.
                let fatal = api == Api::FindCoordinator && reaction == Reaction::ErrorCode(51);
                if !fatal {
                    b.fault(api, reaction);
                }
                send(&mut transaction, 5).await.unwrap();
                transaction.commit().await.unwrap();
                b.broker.clear_faults();
                let told = (b.committed().await, committed(&b.client).await);
                assert_eq!(told, (vec!["yes".to_owned()], Some(5)), "{} {api} {reaction:?}", profile.name);
            }
        }
    }
}

#[tokio::test]
async fn a_refusal_ends_the_transaction_by_its_kind_and_the_next_one_works() {
    use CauseKind as K;
    let refusals = [
        // ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID
        (Api::TxnOffsetCommit, 22, K::GroupMoved),
        (Api::TxnOffsetCommit, 25, K::GroupMoved),
        (Api::TxnOffsetCommit, 82, K::GroupMoved),
        // GROUP_AUTHORIZATION_FAILED, OFFSET_METADATA_TOO_LARGE, TRANSACTION_ABORTABLE, INVALID_TXN_STATE
        (Api::TxnOffsetCommit, 30, K::Denied),
        (Api::TxnOffsetCommit, 12, K::Refused),
        (Api::TxnOffsetCommit, 120, K::InvalidState),
        (Api::TxnOffsetCommit, 48, K::InvalidState),
        (Api::AddOffsetsToTxn, 30, K::Denied),
        (Api::AddOffsetsToTxn, 120, K::InvalidState),
    ];
    for profile in both() {
        let explicit = profile == Profile::kafka_4_4_v1();
        for (api, code, kind) in
            refusals.into_iter().filter(|(api, ..)| explicit || *api != Api::AddOffsetsToTxn)
        {
            let b = Bench::new(profile.clone()).await;
            let mut transaction = b.open("a", &["no"]).await;
            b.fault(api, Reaction::ErrorCode(code));
            let cause = refusal(send(&mut transaction, 5).await);
            assert_eq!(cause.kind, kind, "{} {api} {code}", profile.name);
            assert!(cause.to_string().contains("consumer group orders"), "{cause}");
            assert_eq!(refusal(send(&mut transaction, 6).await), cause, "said again");
            let mut next = within(transaction.abort()).await.unwrap().begin();
            b.write(&mut next, &["yes"]).await;
            send(&mut next, 7).await.unwrap();
            next.commit().await.unwrap();
            assert_eq!((b.committed().await, committed(&b.client).await), (vec!["yes".to_owned()], Some(7)));
        }
        for code in [90, 47] {
            let b = Bench::new(profile.clone()).await;
            let mut transaction = b.open("a", &["no"]).await;
            b.fault(Api::TxnOffsetCommit, Reaction::ErrorCode(code));
            assert!(refusal(send(&mut transaction, 5).await).is_fenced());
            assert!(matches!(within(transaction.commit()).await, Err(EndError::Fenced(_))));
        }
    }
}

/// A member of another generation must not commit what others read now.
#[tokio::test]
async fn a_member_that_is_none_is_refused() {
    for profile in both() {
        let b = Bench::new(profile).await;
        let mut transaction = b.open("a", &["no"]).await;
        let member = ConsumerGroupMetadata { generation_id: 4, member_id: "gone".into(), ..group() };
        let offsets = [(place(0), OffsetAndMetadata::new(5))];
        let cause = refusal(within(transaction.send_offsets(&member, offsets)).await);
        assert_eq!(cause.kind, CauseKind::GroupMoved, "{cause}");
        assert!(matches!(within(transaction.commit()).await, Err(EndError::Failed(_))));
        assert_eq!(committed(&b.client).await, None);
    }
}

#[tokio::test]
async fn offsets_alone_are_prepared_and_committed_by_another_client() {
    for profile in both() {
        let b = Bench::with(BrokerConfig { profile, nodes: 3, ..BrokerConfig::default() }).await;
        let mut transaction = b.producer("a").lazy().begin();
        send(&mut transaction, 5).await.unwrap();
        let Prepared::Ready(committable) = within(transaction.prepare()).await.unwrap() else {
            panic!("nothing was prepared")
        };
        let told: Vec<_> =
            committable.partitions.iter().map(|p| (p.topic_partition(), p.offset, p.records)).collect();
        assert_eq!(told, [(TopicPartition::new("__consumer_offsets", 31), -1, 0)]);
        assert!(committable.partitions[0].topic_id.is_known() && committable.start_ms.is_some());
        let described = b.client.admin().describe_transaction(&committable.transactional_id).await.unwrap();
        assert_eq!(described.unwrap().partitions, [told[0].0.clone()], "the broker means the same partition");
        let other = Client::new(config_for(&b.broker));
        let resumed = within(other.resume(committable.clone()).commit()).await.unwrap();
        assert_eq!(resumed.outcome, Outcome::Committed);
        let target = SettleTarget::of(&committable, Decision::Commit);
        within(other.settle(target, Duration::from_secs(10))).await.unwrap();
        assert_eq!(committed(&other).await, Some(5));
        let again = within(other.resume(committable).commit()).await.unwrap();
        let outcome = again.outcome;
        assert!(matches!(outcome, Outcome::Committed | Outcome::AlreadyCommitted(_)), "{outcome:?}");
    }
}

/// An id must not be used again while the group's partition still holds its transaction open.
#[tokio::test]
async fn a_commit_is_not_settled_before_its_marker_is_on_the_groups_partition() {
    for profile in both() {
        let b = Bench::new(profile).await;
        let mut transaction = b.producer("a").lazy().begin();
        send(&mut transaction, 5).await.unwrap();
        let committable = within(transaction.prepare()).await.unwrap().committable().unwrap();
        let target = SettleTarget::of(&committable, Decision::Commit);
        b.broker.hold_markers();
        within(b.client.resume(committable).commit()).await.unwrap();
        match within(b.client.settle(target.clone(), Duration::from_millis(100))).await {
            Err(SettleError::Pending { partitions }) => {
                assert_eq!(partitions, [TopicPartition::new("__consumer_offsets", 31)]);
            }
            other => panic!("{other:?}"),
        }
        b.broker.release_markers();
        within(b.client.settle(target, Duration::from_secs(10))).await.unwrap();
    }
}

/// Whichever transaction ends first: what was sent later counts.
#[tokio::test]
async fn a_late_commit_does_not_take_a_group_back() {
    let b = Bench::new(Profile::kafka_4_4()).await;
    let (mut early, mut late) = (b.producer("a").lazy().begin(), b.producer("b").lazy().begin());
    send(&mut early, 5).await.unwrap();
    send(&mut late, 8).await.unwrap();
    late.commit().await.unwrap();
    early.commit().await.unwrap();
    assert_eq!(committed(&b.client).await, Some(8));
}

#[tokio::test]
async fn a_group_coordinator_that_is_away_is_waited_for() {
    for profile in both() {
        let b = Bench::with(BrokerConfig { profile, nodes: 3, ..BrokerConfig::default() }).await;
        let mut first = b.open("a", &["1"]).await;
        send(&mut first, 1).await.unwrap();
        let mut second = first.commit().await.unwrap().begin();
        b.write(&mut second, &["2"]).await;
        for node in 1..=3 {
            b.broker.stop_node(node).await.unwrap();
            send(&mut second, 1 + i64::from(node)).await.unwrap();
            b.broker.start_node(node).await.unwrap();
        }
        within(second.commit()).await.unwrap();
        assert_eq!((b.committed().await.len(), committed(&b.client).await), (2, Some(4)));
    }
}

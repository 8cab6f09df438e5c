//! The embedded broker's faults, journal, access rules and network in memory, on a clock that stands still.
#![cfg(feature = "broker")]
#![expect(clippy::unwrap_used, reason = "tests and what they share")]

mod raw;

use std::time::Duration;

use kafka_2pc::broker::{
    Api, Broker, BrokerConfig, Denial, Fault, Network, Operation, Profile, Reaction, Resource, Security,
};
use kafka_2pc::ids::TopicPartition;
use kafka_protocol::messages as m;
use raw::{Cluster, Pair, batch, unique};

const NOT_COORDINATOR: i16 = 16;
const NOT_LEADER: i16 = 6;
const HOUR: Duration = Duration::from_secs(3600);
/// Less than the timeout of a transaction.
const SOON: Duration = Duration::from_secs(20);

/// A broker in memory, with a topic of one partition, and an open transaction of one record.
struct Bench {
    broker: Broker,
    c: Cluster,
    txn: String,
    pair: Pair,
}

impl Bench {
    async fn new(nodes: usize) -> Self {
        Self::with(BrokerConfig { nodes, ..BrokerConfig::default() }).await
    }

    async fn with(config: BrokerConfig) -> Self {
        let broker = Broker::start(BrokerConfig { network: Network::Memory, ..config }).await.unwrap();
        broker.create_topic("t", 1).unwrap();
        let c = Cluster::in_memory(&broker);
        let txn = unique("txn");
        let pair = c.init(&txn, None).await.unwrap();
        assert_eq!(c.add(&txn, pair, "t", 0).await, 0);
        assert_eq!(c.produce(11, &txn, ("t", 0), batch(pair, 0, 1)).await, Ok(0));
        Self { broker, c, txn, pair }
    }

    fn request(&self, commit: bool) -> m::EndTxnRequest {
        m::EndTxnRequest::default()
            .with_transactional_id(raw::id(&self.txn))
            .with_producer_id(self.pair.0.into())
            .with_producer_epoch(self.pair.1)
            .with_committed(commit)
    }

    /// EndTxn(commit) 4: its code, or nothing when the connection is closed instead.
    async fn end(&self) -> Option<i16> {
        let request = self.request(true);
        self.c.coordinator(&self.txn).await.try_call(4, &request).await.map(|r| r.error_code)
    }

    /// The same, hit by this.
    async fn end_with(&self, reaction: Reaction) -> Option<i16> {
        let fault = self.broker.inject(Fault::on(Api::EndTxn, reaction));
        let code = self.end().await;
        assert_eq!(self.broker.hits(fault), 1);
        code
    }

    async fn state(&self) -> String {
        self.c.describe(&self.txn).await.transaction_state.to_string()
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_or_dropped_is_not_carried_out() {
    let b = Bench::new(1).await;
    for (reaction, answer) in [
        (Reaction::ErrorCode(NOT_COORDINATOR), Some(NOT_COORDINATOR)),
        (Reaction::Drop, None),
        (Reaction::CutRequest(9), None),
    ] {
        assert_eq!(b.end_with(reaction).await, answer, "{reaction:?}");
        assert_eq!(b.state().await, "Ongoing", "{reaction:?}");
    }
    assert_eq!(b.end().await, Some(0));
}

#[tokio::test(start_paused = true)]
async fn what_is_applied_is_carried_out_whatever_is_answered() {
    for (reaction, answer) in [
        (Reaction::ApplyThenErrorCode(-1), Some(-1)),
        (Reaction::ApplyThenDrop, None),
        (Reaction::CutAnswer(5), None),
        (Reaction::ApplyThenDelay(HOUR), Some(0)),
        // An open transaction would not live for an hour.
        (Reaction::Delay(SOON), Some(0)),
    ] {
        let b = Bench::new(1).await;
        let began = b.broker.now_ms();
        assert_eq!(b.end_with(reaction).await, answer, "{reaction:?}");
        assert_eq!(&*b.c.settled(&b.txn).await.transaction_state, "CompleteCommit", "{reaction:?}");
        let waits = matches!(reaction, Reaction::Delay(_) | Reaction::ApplyThenDelay(_));
        assert_eq!(b.broker.now_ms() - began >= 20_000, waits, "{reaction:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_held_request_is_delivered_after_its_connection_died() {
    let b = Bench::new(1).await;
    let late = async |reaction: Reaction| {
        b.broker.inject(Fault::on(Api::EndTxn, reaction));
        let patience = tokio::time::timeout(SOON, b.end()).await;
        assert!(patience.is_err(), "nobody answers");
    };
    late(Reaction::HoldUntilDelivered).await;
    tokio::time::sleep(SOON).await;
    assert_eq!(b.state().await, "Ongoing");
    // As long as it is held, its sender may think better of it.
    assert_eq!(b.end().await, Some(0));
    b.c.settled(&b.txn).await;
    // On V1 the next transaction has the same pair, so that the late commit decides it (KAFKA-17754).
    assert_eq!(b.c.add(&b.txn, b.pair, "t", 0).await, 0);
    b.broker.deliver_held();
    assert_eq!(&*b.c.settled_as(&b.txn, "CompleteCommit").await.transaction_state, "CompleteCommit");

    let b = Bench::new(1).await;
    b.broker.inject(Fault::on(Api::EndTxn, Reaction::Hold(SOON)));
    assert!(tokio::time::timeout(Duration::from_secs(1), b.end()).await.is_err());
    tokio::time::sleep(SOON / 2).await;
    assert_eq!(b.state().await, "Ongoing");
    tokio::time::sleep(SOON / 2 + Duration::from_secs(1)).await;
    assert_eq!(&*b.c.settled(&b.txn).await.transaction_state, "CompleteCommit");
}

#[tokio::test(start_paused = true)]
async fn a_node_crashes_before_or_after_the_request() {
    for (reaction, state) in [(Reaction::Crash, "Ongoing"), (Reaction::ApplyThenCrash, "CompleteCommit")] {
        let b = Bench::new(3).await;
        let coordinator = b.broker.transaction_coordinator(&b.txn).unwrap();
        assert_eq!(b.end_with(reaction).await, None);
        let address = b.broker.address(coordinator).unwrap();
        assert!(b.broker.dialer().connect(address.split(':').next().unwrap(), 9092).is_err());
        assert_ne!(b.broker.transaction_coordinator(&b.txn), Some(coordinator));
        assert_eq!(&*b.c.settled(&b.txn).await.transaction_state, state, "{reaction:?}");
        assert_eq!(b.end().await, Some(0));
        b.broker.start_node(coordinator).await.unwrap();
        assert!(b.broker.dialer().connect(address.split(':').next().unwrap(), 9092).is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn coordinators_and_leaders_move_under_a_request() {
    let b = Bench::new(3).await;
    assert_eq!(b.end_with(Reaction::MoveCoordinator).await, Some(NOT_COORDINATOR));
    assert_eq!(b.state().await, "Ongoing");
    let leader = b.broker.leader(&TopicPartition::new("t", 0));
    let fault = b.broker.inject(Fault::on(Api::Produce, Reaction::MoveLeader));
    // The raw client asks the new leader after NOT_LEADER_OR_FOLLOWER.
    assert_eq!(b.c.produce(11, &b.txn, ("t", 0), batch(b.pair, 1, 1)).await, Ok(1));
    assert_eq!(b.broker.hits(fault), 1);
    assert_ne!(b.broker.leader(&TopicPartition::new("t", 0)), leader);
    let codes: Vec<_> =
        b.broker.journal().into_iter().filter(|e| e.api == Api::Produce).map(|e| e.answer).collect();
    assert_eq!(codes, [Some(0), Some(NOT_LEADER), Some(0)]);
    // Alone, it loads its log again: markers of a decided transaction are sent once more.
    let b = Bench::new(1).await;
    assert_eq!(b.end_with(Reaction::MoveCoordinator).await, Some(0));
}

#[tokio::test(start_paused = true)]
async fn a_frozen_node_does_nothing_until_it_thaws() {
    let b = Bench::new(1).await;
    let began = b.broker.now_ms();
    assert_eq!(b.end_with(Reaction::Freeze(HOUR)).await, Some(0));
    assert!(b.broker.now_ms() - began >= 3_600_000);
    b.c.settled(&b.txn).await;
    assert_eq!(b.c.add(&b.txn, b.pair, "t", 0).await, 0);
    assert_eq!(b.end().await, Some(0));
    b.broker.freeze_node(1).unwrap();
    assert!(tokio::time::timeout(HOUR, b.end()).await.is_err(), "its markers are not written either");
    b.broker.thaw_node(1);
    assert_eq!(&*b.c.settled(&b.txn).await.transaction_state, "CompleteCommit");
}

#[tokio::test(start_paused = true)]
async fn the_journal_tells_who_asked_what_and_the_answer() {
    let b = Bench::new(1).await;
    b.broker.clear_journal();
    assert_eq!(b.end_with(Reaction::Drop).await, None);
    assert_eq!(b.end().await, Some(0));
    let ends: Vec<_> = b.broker.journal().into_iter().filter(|e| e.api == Api::EndTxn).collect();
    let [dropped, ended] = &ends[..] else { panic!("{ends:?}") };
    assert_eq!((dropped.answer, dropped.reaction), (None, Some(Reaction::Drop)));
    assert_eq!((ended.answer, ended.reaction, ended.version, ended.node), (Some(0), None, 4, 1));
    assert_eq!((ended.keys.transactional_id.as_ref(), ended.keys.commit), (Some(&b.txn), Some(true)));
    assert_eq!(ended.keys.producer, Some(b.pair));
    assert_eq!((&*ended.principal, &*ended.client_id), ("User:ANONYMOUS", "raw"));
    assert_ne!(ended.connection, dropped.connection);
    b.c.settled(&b.txn).await;
    assert_eq!(b.c.produce(11, &b.txn, ("t", 0), batch(b.pair, 1, 1)).await, Err(120));
    let produced = b.broker.journal().into_iter().rfind(|e| e.api == Api::Produce).unwrap();
    assert_eq!(produced.keys.partitions, [TopicPartition::new("t", 0)]);
    assert_eq!((produced.keys.producer, produced.answer), (Some(b.pair), Some(120)));
}

#[tokio::test(start_paused = true)]
async fn denied_requests_get_the_code_of_what_is_denied() {
    let b = Bench::new(1).await;
    let id = || Resource::TransactionalId(b.txn.clone());
    let topic = || Resource::Topic("t".into());
    let denied = async |operation, resource: Resource| {
        let rule = Denial::of(operation, resource);
        b.broker.deny(rule.clone());
        rule
    };
    let rule = denied(Operation::Write, id()).await;
    assert_eq!(b.end().await, Some(53));
    assert_eq!(b.c.try_init(&b.txn, None).await, Err(53));
    assert_eq!(b.c.add(&b.txn, b.pair, "t", 0).await, 53);
    assert_eq!(b.c.produce(11, &b.txn, ("t", 0), batch(b.pair, 1, 1)).await, Err(53));
    b.broker.allow(&rule);
    let rule = denied(Operation::Write, topic()).await;
    assert_eq!(b.c.add(&b.txn, b.pair, "t", 0).await, 29);
    assert_eq!(b.c.produce(11, &b.txn, ("t", 0), batch(b.pair, 1, 1)).await, Err(29));
    b.broker.allow(&rule);
    let rule = denied(Operation::Read, topic()).await;
    assert_eq!(b.c.fetch("t", 0, 0, 1).await.responses[0].partitions[0].error_code, 29);
    b.broker.allow(&rule);
    let rule = denied(Operation::Alter, Resource::Cluster).await;
    assert_eq!(b.c.mark(("t", 0), b.pair, true).await, 31);
    b.broker.allow(&rule);
    let bare = m::InitProducerIdRequest::default().with_transactional_id(None);
    let rule = denied(Operation::Write, Resource::Cluster).await;
    assert_eq!(b.c.any().await.call(4, &bare).await.error_code, 31);
    b.broker.allow(&rule);
    let rule = denied(Operation::Describe, id()).await;
    let find =
        m::FindCoordinatorRequest::default().with_key_type(1).with_coordinator_keys(vec![raw::text(&b.txn)]);
    assert_eq!(b.c.any().await.call(4, &find).await.coordinators[0].error_code, 53);
    let listed = b.c.any().await.call(0, &m::ListTransactionsRequest::default()).await;
    assert!(listed.transaction_states.is_empty(), "what may not be described is left out");
    b.broker.allow(&rule);
    let group = Denial {
        client_id: Some("raw".into()),
        ..Denial::of(Operation::Describe, Resource::Group("g".into()))
    };
    b.broker.deny(group.clone());
    let find = m::FindCoordinatorRequest::default().with_coordinator_keys(vec![raw::text("g")]);
    assert_eq!(b.c.any().await.call(4, &find).await.coordinators[0].error_code, 30);
    b.broker.allow(&group);
    assert_eq!(b.end().await, Some(0));
}

#[tokio::test(start_paused = true)]
async fn a_listener_that_wants_a_login_closes_what_comes_without() {
    let config =
        BrokerConfig { security: Security::SaslOnly, network: Network::Memory, ..BrokerConfig::default() };
    let broker = Broker::start(config).await.unwrap();
    let c = Cluster::in_memory(&broker);
    let mut connection = c.any().await;
    assert_eq!(connection.call(0, &m::ApiVersionsRequest::default()).await.error_code, 0);
    let wanted = m::SaslHandshakeRequest::default().with_mechanism(raw::text("PLAIN"));
    let answer = connection.call(1, &wanted).await;
    assert_eq!((answer.error_code, answer.mechanisms.len()), (33, 1));
    assert!(connection.try_call(4, &m::MetadataRequest::default()).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn transitions_that_last_keep_the_id_busy_and_are_lost_in_a_failover() {
    let b = Bench::with(BrokerConfig { nodes: 3, ..BrokerConfig::default() }).await;
    b.broker.hold_transaction_log();
    let (first, ()) = tokio::join!(b.end(), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(b.state().await, "Ongoing");
        assert_eq!(b.end().await, Some(51));
        assert_eq!(b.c.try_init(&b.txn, None).await, Err(51));
        let coordinator = b.broker.transaction_coordinator(&b.txn).unwrap();
        b.broker.move_coordinator(&b.txn, coordinator % 3 + 1).unwrap();
    });
    assert_eq!(first, Some(NOT_COORDINATOR));
    assert_eq!(b.state().await, "Ongoing");
    let (second, ()) = tokio::join!(b.end(), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        b.broker.release_transaction_log();
    });
    assert_eq!(second, Some(0));
    assert_eq!(&*b.c.settled(&b.txn).await.transaction_state, "CompleteCommit");
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_meets_a_fence_is_an_unknown_server_error() {
    for version in [4, 5] {
        let b = Bench::new(1).await;
        b.broker.hold_fences();
        assert_eq!(b.c.try_init(&b.txn, None).await, Err(51));
        assert_eq!(b.c.end(version, &b.txn, b.pair, true).await.0, -1);
        b.broker.release_fences();
        assert_eq!(&*b.c.settled_as(&b.txn, "CompleteAbort").await.transaction_state, "CompleteAbort");
        let refused = if version == 4 { 90 } else { 48 };
        assert_eq!(b.c.end(version, &b.txn, b.pair, true).await.0, refused);
    }
}

#[tokio::test(start_paused = true)]
async fn timeouts_and_expiry_follow_the_clock() {
    let b = Bench::with(BrokerConfig { profile: Profile::kafka_4_4_v1(), ..BrokerConfig::default() }).await;
    tokio::time::sleep(Duration::from_secs(59)).await;
    assert_eq!(b.state().await, "Ongoing");
    tokio::time::sleep(Duration::from_secs(12)).await;
    assert_eq!(b.state().await, "CompleteAbort");
    assert_eq!(b.end().await, Some(90));
    tokio::time::sleep(HOUR * 24 * 6).await;
    assert_eq!(b.state().await, "CompleteAbort");
    tokio::time::sleep(HOUR * 26).await;
    assert_eq!(b.c.describe(&b.txn).await.error_code, 105);
    assert_eq!(b.end().await, Some(49));
}

#[tokio::test(start_paused = true)]
async fn a_partition_may_be_left_without_leader_and_given_one() {
    let b = Bench::new(3).await;
    let at = TopicPartition::new("t", 0);
    b.broker.take_leader(&at).unwrap();
    assert_eq!(b.broker.leader(&at), None);
    b.broker.move_leader(&at, 2).unwrap();
    assert_eq!(b.broker.leader(&at), Some(2));
    assert!(b.broker.move_leader(&at, 9).is_err());
    assert!(b.broker.take_leader(&TopicPartition::new("none", 0)).is_err());
    b.broker.take_coordinator(&b.txn);
    assert_eq!(b.broker.transaction_coordinator(&b.txn), None);
    b.broker.move_coordinator(&b.txn, 1).unwrap();
    assert_eq!(b.end().await, Some(0));
}

#[tokio::test(start_paused = true)]
async fn too_few_replicas_in_sync_refuse_records() {
    let b = Bench::with(BrokerConfig { nodes: 3, min_insync_replicas: 2, ..BrokerConfig::default() }).await;
    let leader = b.broker.leader(&TopicPartition::new("t", 0)).unwrap();
    for node in (1..=3).filter(|node| *node != leader) {
        b.broker.stop_node(node).await.unwrap();
    }
    assert_eq!(b.c.produce(11, &b.txn, ("t", 0), batch(b.pair, 1, 1)).await, Err(19));
    b.broker.start_node(leader % 3 + 1).await.unwrap();
    assert_eq!(b.c.produce(11, &b.txn, ("t", 0), batch(b.pair, 1, 1)).await, Ok(1));
}

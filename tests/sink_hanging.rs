//! Decisions whose marker is lost because a partition has no leader (KAFKA-20734), and the rule that ids are not used
//! again before a decision is settled; each rule beside what happens without it.
#![cfg(feature = "broker")]
#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]

mod kit;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use kafka_2pc::{
    broker::{BrokerConfig, Profile, Quirk},
    client::Topic,
    ids::TransactionalId,
    proto::{
        committable::Committable,
        pool::{Reuse, SlotState},
        recovery::CommitStatus,
        resume::{CoordinatorState, Decision, Leaderless, Outcome},
        settle::{CommittedButHanging, SettleError},
    },
    record::RecordRef,
    sink::{Committer, RecoveryReport, Share, Sink, SinkConfig, SinkState, SinkWriter},
};
use kit::{Bench, both, visible, within};

const LONELY: &str = "lonely";

/// Three nodes; a topic whose one partition only node 3 holds, and a sink whose ids node 1 or 2 coordinates.
struct Lonely {
    b: Bench,
    topic: Topic,
    config: Arc<SinkConfig>,
}

impl Lonely {
    async fn new(profile: Profile, reuse: Reuse) -> Self {
        let b = Bench::with(BrokerConfig { nodes: 3, profile, ..BrokerConfig::default() }).await;
        b.broker.create_topic_on(LONELY, vec![vec![3]]).unwrap();
        let topic = b.client.topic(LONELY).await.unwrap();
        let elsewhere = |prefix: &String| {
            (0..4).all(|slot| b.broker.transaction_coordinator(&format!("{prefix}-0-{slot}")) != Some(3))
        };
        let prefix = (0..).map(|i| format!("p{i}")).find(elsewhere).unwrap();
        let mut config = SinkConfig::new(&prefix).unwrap();
        config.leaderless = Leaderless::Ignore;
        config.settle_timeout = Duration::from_secs(5);
        config.reuse = reuse;
        Self { b, topic, config: Arc::new(config) }
    }

    async fn recover(&self, state: SinkState) -> (SinkWriter, RecoveryReport) {
        within(self.sink().recover_share(Share { subtask: 0, total: 1 }, state, &|_| {})).await.unwrap()
    }

    fn sink(&self) -> Sink {
        Sink::new(self.b.client.clone(), Arc::clone(&self.config), vec![self.topic.clone()])
    }

    async fn write(&self, writer: &mut SinkWriter, value: &str) {
        within(writer.write(&self.topic, Some(0), RecordRef::value(value.as_bytes()))).await.unwrap();
    }

    async fn prepare(&self, writer: &mut SinkWriter, checkpoint: u64) -> Committable {
        within(writer.prepare_commit(checkpoint)).await.unwrap().unwrap()
    }

    fn committer(&self) -> Committer {
        self.sink().committer()
    }

    /// Commits, and tells the writer.
    async fn commit(&self, writer: &mut SinkWriter, committable: &Committable) {
        let [committed] = &within(self.committer().commit(vec![committable.clone()])).await[..] else {
            panic!()
        };
        let resumed = committed.result.as_ref().unwrap();
        assert_eq!(resumed.outcome, Outcome::Committed);
        writer.decided(committable, resumed);
    }

    async fn seen(&self) -> Vec<String> {
        visible(&self.b.client, LONELY).await
    }

    async fn away(&self) {
        self.b.broker.stop_node(3).await.unwrap();
    }

    async fn back(&self) {
        self.b.broker.start_node(3).await.unwrap();
    }

    /// Waits until the coordinator is done with it, markers or not: a partition that is back before still gets its own.
    async fn done(&self, committable: &Committable) {
        let admin = self.b.client.admin();
        loop {
            let found = within(admin.describe_transaction(&committable.transactional_id)).await.unwrap();
            let state = found.map(|found| found.state);
            if let Some(CoordinatorState::CompleteCommit | CoordinatorState::CompleteAbort) = state {
                return;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    async fn hangs(&self, committable: &Committable) -> CommittedButHanging {
        match within(self.committer().settle(committable)).await {
            Err(SettleError::Hanging(hanging)) => *hanging,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_hanging_commit_retires_its_id_others_go_on_and_a_repair_shows_all() {
    for profile in both() {
        let l = Lonely::new(profile, Reuse::WhenSettled).await;
        let (mut writer, _) = l.recover(SinkState::default()).await;
        l.write(&mut writer, "1").await;
        let first = l.prepare(&mut writer, 1).await;
        l.away().await;
        l.commit(&mut writer, &first).await;
        // Without a leader nothing can be said.
        l.done(&first).await;
        l.back().await;
        let hanging = l.hangs(&first).await;
        assert_eq!((hanging.decision, hanging.partitions.len()), (Decision::Commit, 1));
        writer.retire(hanging.clone());
        writer.durable(&BTreeSet::new());

        l.write(&mut writer, "2").await;
        let second = l.prepare(&mut writer, 2).await;
        assert_ne!(second.transactional_id, first.transactional_id);
        assert_ne!(second.identity.producer_id, first.identity.producer_id);
        l.commit(&mut writer, &second).await;
        within(l.committer().settle(&second)).await.unwrap();
        l.write(&mut writer, "no").await;
        within(writer.abort()).await.unwrap();
        assert_eq!(l.seen().await, [""; 0], "readers stall in front of the missing marker");

        within(l.b.client.repair(&hanging)).await.unwrap();
        assert_eq!(l.seen().await, ["1", "2"]);
        within(l.b.client.repair(&hanging)).await.unwrap();
        within(l.committer().settle(&first)).await.unwrap();
        assert_eq!(l.seen().await, ["1", "2"]);
    }
}

#[tokio::test]
async fn counter_test_an_id_used_again_at_once_destroys_a_hanging_commit() {
    for profile in both() {
        let l = Lonely::new(profile, Reuse::AtOnce).await;
        let (mut writer, _) = l.recover(SinkState::default()).await;
        l.write(&mut writer, "1").await;
        let first = l.prepare(&mut writer, 1).await;
        l.away().await;
        l.commit(&mut writer, &first).await;
        l.done(&first).await;
        l.back().await;
        l.write(&mut writer, "no").await;
        // The slot is not given up but the transaction is: by its own end, as a failing job would.
        let second = l.prepare(&mut writer, 2).await;
        assert_eq!(second.transactional_id, first.transactional_id);
        within(l.b.client.resume(second).abort()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(l.seen().await, [""; 0], "what was committed is lost");
        within(l.committer().settle(&first)).await.unwrap();
    }
}

#[tokio::test]
async fn a_restart_keeps_a_hanging_commit_and_its_id_apart() {
    for profile in both() {
        let l = Lonely::new(profile, Reuse::WhenSettled).await;
        let (mut writer, _) = l.recover(SinkState::default()).await;
        l.write(&mut writer, "1").await;
        let first = l.prepare(&mut writer, 1).await;
        let state = |writer: &SinkWriter, status| SinkState {
            checkpoint: 1,
            committables: vec![(first.clone(), status)],
            writers: vec![writer.snapshot()],
        };
        let kept = state(&writer, CommitStatus::Pending);
        l.away().await;
        l.commit(&mut writer, &first).await;
        l.done(&first).await;
        drop(writer);
        l.back().await;

        let (mut writer, report) = l.recover(kept).await;
        assert_eq!(report.resumed.len(), 1, "committed again, which is harmless");
        assert_eq!(report.aborted, []);
        l.write(&mut writer, "2").await;
        let second = l.prepare(&mut writer, 2).await;
        assert_ne!(second.transactional_id, first.transactional_id);
        l.commit(&mut writer, &second).await;
        // Also when it is known to be decided.
        let (writer, report) = l.recover(state(&writer, CommitStatus::Decided(Decision::Commit))).await;
        let hanging = report.hanging.first().cloned();
        let hanging = match hanging {
            Some(hanging) => hanging,
            None => l.hangs(&first).await,
        };
        assert_eq!(hanging.transactional_id, first.transactional_id);
        drop(writer);
        within(l.b.client.repair(&hanging)).await.unwrap();
        assert_eq!(l.seen().await, ["1", "2"]);
    }
}

/// A transaction that is open while its partition has no leader, and whose owner is gone.
async fn orphan(l: &Lonely) {
    let (mut writer, _) = l.recover(SinkState::default()).await;
    l.write(&mut writer, "no").await;
    let committable = l.prepare(&mut writer, 1).await;
    // Prepared, and in no checkpoint: a leftover that no dropped handle aborts.
    drop((writer, committable));
    l.away().await;
}

#[tokio::test]
async fn records_of_a_hanging_abort_never_become_visible() {
    for profile in both() {
        let l = Lonely::new(profile, Reuse::WhenSettled).await;
        let (mut writer, _) = l.recover(SinkState::default()).await;
        l.write(&mut writer, "no").await;
        let lost = l.prepare(&mut writer, 1).await;
        drop(writer);
        l.away().await;
        within(l.b.client.resume(lost.clone()).leaderless(Leaderless::Ignore).abort()).await.unwrap();
        l.done(&lost).await;
        l.back().await;
        let (mut writer, report) = l.recover(SinkState::default()).await;
        assert_eq!(report.hanging.len(), 1, "{report:?}");
        assert_eq!(report.hanging[0].decision, Decision::Abort);
        l.write(&mut writer, "yes").await;
        let next = l.prepare(&mut writer, 1).await;
        assert_ne!(next.transactional_id, lost.transactional_id);
        l.commit(&mut writer, &next).await;
        within(l.committer().settle(&next)).await.unwrap();
        assert_eq!(l.seen().await, [""; 0]);
        within(l.b.client.repair(&report.hanging[0])).await.unwrap();
        assert_eq!(l.seen().await, ["yes"]);
    }
}

#[tokio::test]
async fn records_of_a_hanging_fence_never_become_visible() {
    for profile in both() {
        let l = Lonely::new(profile, Reuse::WhenSettled).await;
        orphan(&l).await;
        let id = format!("{}-0-0", l.config.prefix.as_str());
        // The restart fences while the partition has no leader; its records come back under another id.
        let recovering = tokio::spawn({
            let sink = l.sink();
            async move { sink.recover_share(Share { subtask: 0, total: 1 }, SinkState::default(), &|_| {}).await }
        });
        let fenced = || {
            let journal = l.b.broker.journal();
            let under = |e: &&kafka_2pc::broker::JournalEntry| e.keys.names(&id);
            journal.iter().filter(|e| e.api == kafka_2pc::broker::Api::InitProducerId).filter(under).count()
                > 1
        };
        while !fenced() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tokio::time::sleep(Duration::from_millis(30)).await;
        l.back().await;
        let (mut writer, report) = within(recovering).await.unwrap().unwrap();
        l.write(&mut writer, "yes").await;
        let next = l.prepare(&mut writer, 1).await;
        l.commit(&mut writer, &next).await;
        within(l.committer().settle(&next)).await.unwrap();
        assert_eq!(l.seen().await, [""; 0]);
        assert_eq!(report.hanging.len(), 1, "{report:?}");
        within(l.b.client.repair(&report.hanging[0])).await.unwrap();
        assert_eq!(l.seen().await, ["yes"]);
    }
}

#[tokio::test]
async fn counter_test_an_id_used_again_after_a_hanging_fence_publishes_what_was_aborted() {
    for profile in both() {
        let l = Lonely::new(profile, Reuse::AtOnce).await;
        orphan(&l).await;
        let fenced = within(l.b.producer(&format!("{}-0-0", l.config.prefix.as_str())).init()).await.unwrap();
        drop(fenced);
        tokio::time::sleep(Duration::from_millis(20)).await;
        l.back().await;
        let (mut writer, _) = l.recover(SinkState::default()).await;
        l.write(&mut writer, "yes").await;
        let next = l.prepare(&mut writer, 1).await;
        l.commit(&mut writer, &next).await;
        within(l.committer().settle(&next)).await.unwrap();
        assert_eq!(l.seen().await, ["no", "yes"], "what was aborted is published");
    }
}

#[tokio::test]
async fn without_the_fault_of_the_broker_markers_are_waited_for() {
    let profile = Profile::kafka_4_4().without(Quirk::LeaderlessMarkerSkipped);
    let l = Lonely::new(profile, Reuse::WhenSettled).await;
    let (mut writer, _) = l.recover(SinkState::default()).await;
    l.write(&mut writer, "1").await;
    let first = l.prepare(&mut writer, 1).await;
    l.away().await;
    l.commit(&mut writer, &first).await;
    let settle = tokio::spawn({
        let (committer, first) = (l.committer(), first.clone());
        async move { committer.settle(&first).await }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    l.back().await;
    within(settle).await.unwrap().unwrap();
    writer.settled(&first);
    writer.durable(&BTreeSet::new());
    assert_eq!(writer.slots().count(), 0);
    assert_eq!(l.seen().await, ["1"]);
}

#[tokio::test]
async fn that_a_former_transaction_is_settled_says_nothing_of_the_present_one_of_its_id() {
    let l = Lonely::new(Profile::kafka_4_4(), Reuse::WhenSettled).await;
    let (mut writer, _) = l.recover(SinkState::default()).await;
    l.write(&mut writer, "1").await;
    let former = l.prepare(&mut writer, 1).await;
    l.commit(&mut writer, &former).await;
    within(l.committer().settle(&former)).await.unwrap();
    writer.settled(&former);
    writer.durable(&BTreeSet::new());
    l.write(&mut writer, "2").await;
    let present = l.prepare(&mut writer, 2).await;
    assert_eq!(present.transactional_id, former.transactional_id);
    l.commit(&mut writer, &present).await;
    writer.durable(&BTreeSet::new());
    // Told late, or once more.
    writer.settled(&former);
    assert_eq!(writer.slots().count(), 1, "the id is free before its transaction is everywhere");
    within(l.committer().settle(&present)).await.unwrap();
    writer.settled(&present);
    assert_eq!(writer.slots().count(), 0);
}

/// Kafka without that fault, such as 4.2: InitProducerId is not granted before the markers are written.
fn awaiting() -> [Profile; 2] {
    both().map(|profile| profile.without(Quirk::LeaderlessMarkerSkipped))
}

#[tokio::test]
async fn a_leftover_that_waits_for_a_leader_stops_no_recovery_and_its_id_is_not_used() {
    futures::future::join_all(awaiting().map(leftover_without_leader)).await;
}

async fn leftover_without_leader(profile: Profile) {
    let mut l = Lonely::new(profile, Reuse::WhenSettled).await;
    let patient = Arc::clone(&l.config);
    Arc::make_mut(&mut l.config).settle_timeout = Duration::from_millis(300);
    orphan(&l).await;
    let lost = TransactionalId::new(format!("{}-0-0", l.config.prefix.as_str()));
    let topic = l.b.topic().await;
    let mut state = SinkState::default();
    // The second one meets the fence of the first.
    for round in ["a", "b"] {
        let (mut writer, report) = l.recover(state).await;
        assert_eq!((&report.pending, &report.aborted), (&vec![lost.clone()], &vec![]), "{report:?}");
        assert!(report.hanging.is_empty());
        assert!(writer.slots().any(|slot| slot == (0, &SlotState::Avoided)));
        // The job goes on where there are leaders, under other ids.
        within(writer.write(&topic, Some(0), RecordRef::value(round.as_bytes()))).await.unwrap();
        let next = l.prepare(&mut writer, 1).await;
        assert_ne!(next.transactional_id, lost);
        l.commit(&mut writer, &next).await;
        within(l.committer().settle(&next)).await.unwrap();
        writer.settled(&next);
        writer.durable(&BTreeSet::new());
        assert!(writer.snapshot().active.contains(&lost), "a restart looks at it");
        state = SinkState { checkpoint: 1, committables: Vec::new(), writers: vec![writer.snapshot()] };
    }
    assert_eq!(l.b.visible().await, ["a", "b"]);
    l.back().await;
    l.config = patient;
    let (mut writer, report) = l.recover(state).await;
    assert_eq!((report.pending, writer.slots().count()), (vec![], 0), "it is over");
    l.write(&mut writer, "yes").await;
    let next = l.prepare(&mut writer, 2).await;
    assert_eq!(next.transactional_id, lost);
    l.commit(&mut writer, &next).await;
    within(l.committer().settle(&next)).await.unwrap();
    assert_eq!(l.seen().await, ["yes"]);
}

#[tokio::test]
async fn an_exhausted_pool_pushes_back_until_a_commit_is_settled() {
    let l = Lonely::new(Profile::kafka_4_4(), Reuse::WhenSettled).await;
    let (mut writer, _) = l.recover(SinkState::default()).await;
    let mut prepared = Vec::new();
    for checkpoint in 1..=4 {
        l.write(&mut writer, &checkpoint.to_string()).await;
        prepared.push(l.prepare(&mut writer, checkpoint).await);
    }
    assert!(writer.is_exhausted());
    let e = writer.write(&l.topic, Some(0), RecordRef::value(b"5")).await.unwrap_err();
    assert!(e.is_exhausted(), "{e}");
    l.commit(&mut writer, &prepared[1]).await;
    assert!(writer.is_exhausted(), "decided is not settled");
    within(l.committer().settle(&prepared[1])).await.unwrap();
    writer.settled(&prepared[1]);
    assert!(!writer.is_exhausted(), "the checkpoint that drops it may need the next records first");
    let listed = [0, 2, 3].map(|i: usize| prepared[i].transactional_id.clone());
    writer.durable(&listed.into_iter().collect());
    l.write(&mut writer, "5").await;
    let fifth = l.prepare(&mut writer, 5).await;
    assert_eq!(fifth.transactional_id, prepared[1].transactional_id, "the smallest free one");
    for committable in [&prepared[0], &prepared[2], &prepared[3], &fifth] {
        l.commit(&mut writer, committable).await;
        within(l.committer().settle(committable)).await.unwrap();
    }
    let mut seen = l.seen().await;
    seen.sort();
    assert_eq!(seen, ["1", "2", "3", "4", "5"]);
}

#[tokio::test]
async fn a_failed_checkpoint_costs_no_slot_and_its_id_is_not_used_on() {
    let l = Lonely::new(Profile::kafka_4_4(), Reuse::WhenSettled).await;
    let (mut writer, _) = l.recover(SinkState::default()).await;
    for checkpoint in 1..=6 {
        l.write(&mut writer, "no").await;
        l.b.fault(kafka_2pc::broker::Api::Produce, kafka_2pc::broker::Reaction::ErrorCode(87));
        within(writer.prepare_commit(checkpoint)).await.unwrap_err();
    }
    assert!(!writer.is_exhausted());
    assert!(writer.slots().all(|(_, state)| *state == SlotState::Avoided));
    assert_eq!(writer.snapshot().active.len(), 6, "a restart looks at them");
    l.write(&mut writer, "yes").await;
    let committable = l.prepare(&mut writer, 7).await;
    l.commit(&mut writer, &committable).await;
    let state = SinkState { checkpoint: 7, committables: Vec::new(), writers: vec![writer.snapshot()] };
    drop(writer);
    let (writer, report) = l.recover(state).await;
    assert_eq!((writer.slots().count(), report.hanging.len()), (0, 0));
    assert_eq!(l.seen().await, ["yes"]);
}

#[tokio::test]
async fn leftovers_are_those_of_the_exact_prefix_that_no_checkpoint_lists() {
    for profile in both() {
        let l = Lonely::new(profile, Reuse::WhenSettled).await;
        let (mut writer, _) = l.recover(SinkState::default()).await;
        l.write(&mut writer, "listed").await;
        let listed = l.prepare(&mut writer, 1).await;
        let writer_state = writer.snapshot();
        l.write(&mut writer, "no").await;
        let unlisted = l.prepare(&mut writer, 2).await;
        drop(writer);
        let prefix = l.config.prefix.as_str();
        let mut foreign = Vec::new();
        for id in [format!("{prefix}x-0-0"), format!("{prefix}-0-0-0"), format!("{prefix}-0")] {
            let mut transaction = l.b.producer(&id).init().await.unwrap().begin();
            transaction.send(&l.topic, Some(0), RecordRef::value(id.as_bytes())).await.unwrap();
            foreign.push(transaction.prepare().await.unwrap().committable().unwrap());
        }
        let state = SinkState {
            checkpoint: 1,
            committables: vec![(listed, CommitStatus::Pending)],
            writers: vec![writer_state],
        };
        let (_writer, report) = l.recover(state).await;
        assert_eq!(report.aborted, [unlisted.transactional_id]);
        for committable in foreign {
            let resumed = within(l.b.client.resume(committable).commit()).await.unwrap();
            assert_eq!(resumed.outcome, Outcome::Committed);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        let seen = l.seen().await;
        assert_eq!(seen.len(), 4, "{seen:?}");
        assert_eq!(seen[0], "listed");
    }
}

#[tokio::test]
async fn a_writer_that_was_stopped_and_wakes_up_ends_nothing_of_its_successor() {
    for profile in both() {
        let l = Lonely::new(profile, Reuse::WhenSettled).await;
        let (mut old, _) = l.recover(SinkState::default()).await;
        l.write(&mut old, "1").await;
        let first = l.prepare(&mut old, 1).await;
        l.commit(&mut old, &first).await;
        within(l.committer().settle(&first)).await.unwrap();
        old.settled(&first);
        old.durable(&BTreeSet::new());
        // Stopped here. Its successor takes over and prepares two transactions.
        let state = SinkState { checkpoint: 1, committables: Vec::new(), writers: vec![old.snapshot()] };
        let (mut new, _) = l.recover(state).await;
        let mut prepared = Vec::new();
        for checkpoint in [2, 3] {
            l.write(&mut new, &checkpoint.to_string()).await;
            prepared.push(l.prepare(&mut new, checkpoint).await);
        }
        // It wakes up, goes on with the id that it used last, and then with one that it never used.
        for checkpoint in [2, 3] {
            _ = within(old.write(&l.topic, Some(0), RecordRef::value(b"no"))).await;
            within(old.prepare_commit(checkpoint)).await.unwrap_err();
        }
        for committable in &prepared {
            l.commit(&mut new, committable).await;
            within(l.committer().settle(committable)).await.unwrap();
        }
        assert_eq!(l.seen().await, ["1", "2", "3"]);
    }
}

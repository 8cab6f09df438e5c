use proptest::prelude::*;

use super::*;
use crate::{
    ids::{Identity, NodeId, TopicId, TopicPartition, TransactionalId},
    proto::{committable::CommittablePartition, evidence::RecordsLeft},
};

const START: i64 = 1_000_000;
const TIMEOUT: i32 = 60_000;

fn committable(version: Option<i16>) -> Committable {
    let partition = |partition| CommittablePartition {
        topic: "t".into(),
        partition,
        topic_id: TopicId([1; 16]),
        offset: 10,
        records: 5,
    };
    Committable {
        transactional_id: TransactionalId::new("id"),
        identity: Identity::new(7, 3),
        end_txn_version: version,
        start_ms: Some(START),
        timeout_ms: Some(TIMEOUT),
        deadline_ms: Some(START + i64::from(TIMEOUT)),
        cluster_id: None,
        partitions: vec![partition(0), partition(1)],
    }
}

fn options() -> ResumeOptions {
    ResumeOptions {
        decision: Decision::Commit,
        first: First::EndTxn,
        leaderless: Leaderless::Ignore,
        patience: None,
        wall_ms: START + 1000,
        seed: 7,
    }
}

/// A machine, its clock, and the effects that were asked for.
struct Bench {
    machine: Resume,
    now: Moment,
}

impl Bench {
    fn new(version: Option<i16>, options: ResumeOptions) -> Self {
        Self { machine: Resume::new(Moment(0), committable(version), options), now: Moment(0) }
    }

    fn effects(&mut self) -> Vec<ResumeEffect> {
        std::iter::from_fn(|| self.machine.poll_effect()).collect()
    }

    /// Gives a fact, passes the waits that follow, and tells what is asked for then.
    fn give(&mut self, fact: ResumeInput) -> Vec<ResumeEffect> {
        self.machine.handle(self.now, fact).unwrap();
        let mut effects = self.effects();
        while effects.iter().all(|e| matches!(e, ResumeEffect::Alarm(_))) && self.machine.result().is_none() {
            self.now = self.now.max(self.machine.next_deadline().unwrap());
            self.machine.handle(self.now, ResumeInput::Tick).unwrap();
            effects.extend(self.effects());
        }
        effects
    }

    fn found(&mut self) -> Vec<ResumeEffect> {
        let _ = self.effects();
        self.give(ResumeInput::Coordinator(FindCoordinatorVerdict::Found))
    }

    fn outcome(&self) -> &Outcome {
        self.machine.result().expect("there is a result").as_ref().expect("it is final")
    }
}

fn end(version: i16) -> Vec<ResumeEffect> {
    vec![ResumeEffect::EndTxn { version, decision: Decision::Commit }]
}

fn view(state: CoordinatorState, start_ms: i64, producer_id: i64, epoch: i16) -> ResumeInput {
    let identity = Identity::new(producer_id, epoch);
    let view = TransactionView { state, start_ms, identity, partitions: vec![] };
    ResumeInput::Described(Described::Transaction(view))
}

/// A machine of version 5 whose commit was refused and which asked for a description.
fn refused(options: ResumeOptions) -> Bench {
    let mut bench = Bench::new(Some(5), options);
    bench.found();
    bench.give(ResumeInput::FeatureLevel(2));
    assert_eq!(bench.give(ResumeInput::EndTxn(ResumeVerdict::AskEvidence)), [ResumeEffect::Describe]);
    bench
}

fn read(partition: usize) -> ResumeEffect {
    ResumeEffect::ReadEvidence { partition, end_txn_version: Some(5) }
}

#[test]
fn version_4_is_ended_at_once_and_version_5_after_the_level_was_read() {
    let mut bench = Bench::new(Some(4), options());
    assert_eq!(bench.effects(), [ResumeEffect::FindCoordinator]);
    assert_eq!(bench.found(), end(4));
    bench.give(ResumeInput::EndTxn(ResumeVerdict::Decided));
    assert_eq!(bench.outcome(), &Outcome::Committed);
    let mut bench = Bench::new(Some(5), options());
    assert_eq!(bench.found(), [ResumeEffect::ReadFeatureLevel]);
    assert_eq!(bench.give(ResumeInput::FeatureLevel(1)), end(5));
}

#[test]
fn no_answer_is_followed_by_the_same_request_on_a_fresh_lookup_never_by_an_abort() {
    let mut bench = Bench::new(Some(5), options());
    bench.found();
    bench.give(ResumeInput::FeatureLevel(2));
    for fact in [ResumeInput::NoAnswer, ResumeInput::EndTxn(ResumeVerdict::NotKnown)] {
        assert_eq!(bench.give(fact), [ResumeEffect::FindCoordinator]);
        assert_eq!(bench.found(), [ResumeEffect::ReadFeatureLevel]);
        assert_eq!(bench.give(ResumeInput::FeatureLevel(2)), end(5));
    }
    assert_eq!(bench.machine.tries(), 3);
}

#[test]
fn at_level_0_version_5_is_never_sent() {
    let mut bench = Bench::new(Some(5), options());
    bench.found();
    assert_eq!(bench.give(ResumeInput::FeatureLevel(0)), [ResumeEffect::Describe]);
    assert_eq!(bench.give(view(CoordinatorState::Ongoing, START, 7, 3)), end(4));
    assert_eq!(bench.give(ResumeInput::NoAnswer), [ResumeEffect::FindCoordinator]);
    bench.found();
    assert_eq!(bench.give(ResumeInput::FeatureLevel(0)), [ResumeEffect::Describe]);
    bench.give(view(CoordinatorState::CompleteCommit, START, 7, 3));
    assert!(matches!(bench.outcome(), Outcome::AlreadyCommitted(Evidence::Coordinator(_))));
}

#[test]
fn after_a_commit_with_version_4_the_logs_are_read_for_its_epoch() {
    let mut bench = Bench::new(Some(5), options());
    bench.found();
    bench.give(ResumeInput::FeatureLevel(0));
    bench.give(view(CoordinatorState::Ongoing, START, 7, 3));
    bench.give(ResumeInput::EndTxn(ResumeVerdict::AskEvidence));
    let reads = bench.give(ResumeInput::Described(Described::NotFound));
    assert_eq!(reads[0], ResumeEffect::ReadEvidence { partition: 0, end_txn_version: Some(4) });
}

#[test]
fn at_level_0_without_sight_the_logs_are_asked() {
    let mut bench = Bench::new(Some(5), options());
    bench.found();
    bench.give(ResumeInput::FeatureLevel(0));
    assert_eq!(bench.give(ResumeInput::Described(Described::Blind)), [read(0), read(1)]);
}

#[test]
fn a_stuck_id_raises_an_alarm_and_is_looked_up_again() {
    let mut bench = Bench::new(Some(5), options());
    bench.found();
    bench.give(ResumeInput::FeatureLevel(2));
    let effects = bench.give(ResumeInput::EndTxn(ResumeVerdict::Stuck));
    assert_eq!(effects, [ResumeEffect::Alarm(Alarm::Stuck), ResumeEffect::FindCoordinator]);
    // At another version it answers like one that is being ended, and is looked up all the same.
    bench.found();
    bench.give(ResumeInput::FeatureLevel(2));
    assert_eq!(bench.give(ResumeInput::EndTxn(ResumeVerdict::Concurrent)), [ResumeEffect::FindCoordinator]);
    assert_eq!(bench.machine.cause, PendingCause::Stuck);
}

#[test]
fn a_moved_coordinator_is_looked_up_and_a_busy_one_is_asked_again() {
    let mut bench = Bench::new(Some(4), options());
    bench.found();
    assert_eq!(bench.give(ResumeInput::EndTxn(ResumeVerdict::Loading)), end(4));
    assert_eq!(bench.give(ResumeInput::EndTxn(ResumeVerdict::Concurrent)), end(4));
    assert_eq!(bench.give(ResumeInput::EndTxn(ResumeVerdict::Relookup)), [ResumeEffect::FindCoordinator]);
}

#[test]
fn a_long_ending_raises_one_alarm_and_ends_pending() {
    let mut bench = Bench::new(Some(4), options());
    bench.found();
    let mut effects = Vec::new();
    while bench.machine.result().is_none() {
        effects.extend(bench.give(ResumeInput::EndTxn(ResumeVerdict::Concurrent)));
    }
    let alarms = effects.iter().filter(|e| matches!(e, ResumeEffect::Alarm(_))).count();
    let slow = |e: &&ResumeEffect| matches!(e, ResumeEffect::Alarm(Alarm::Slow { .. }));
    assert_eq!(alarms - effects.iter().filter(slow).count(), 1);
    assert_eq!(bench.now, Moment(0).after(Duration::from_millis(59_000 + 60_000)));
    let sends = effects.len() - alarms;
    assert!((119..180).contains(&sends), "{sends}");
    let Some(Err(CommitError::Pending { cause, .. })) = bench.machine.result() else { panic!() };
    assert_eq!(*cause, PendingCause::Concurrent);
}

#[test]
fn a_commit_without_a_decision_tells_again_and_again_what_it_waits_for() {
    let mut bench = Bench::new(Some(4), options());
    bench.found();
    let slow =
        |cause, seconds| ResumeEffect::Alarm(Alarm::Slow { cause, waited: Duration::from_secs(seconds) });
    // Also while a request is on its way, which may get no answer for long.
    let mut tick = |seconds: u64| {
        bench.now = Moment(0).after(Duration::from_secs(seconds));
        bench.machine.handle(bench.now, ResumeInput::Tick).unwrap();
        bench.effects()
    };
    assert_eq!(tick(4), []);
    assert_eq!(tick(5), [slow(PendingCause::NoAnswerYet, 5)]);
    assert_eq!(tick(64), []);
    assert_eq!(tick(65), [slow(PendingCause::NoAnswerYet, 65)]);
    let told = PendingCause::Leaderless.cure();
    assert!(told.contains("Bring the broker back"), "{told}");
}

#[test]
fn the_state_of_the_same_transaction_decides() {
    use CoordinatorState as S;
    for (pid, epoch) in [(7, 3), (7, 4), (9, 0)] {
        for state in [S::PrepareCommit, S::CompleteCommit] {
            let mut bench = refused(options());
            bench.give(view(state, START, pid, epoch));
            assert!(matches!(bench.outcome(), Outcome::AlreadyCommitted(Evidence::Coordinator(_))));
        }
        for state in [S::PrepareAbort, S::CompleteAbort] {
            let mut bench = refused(options());
            bench.give(view(state, START, pid, epoch));
            let Outcome::Lost { partitions, cause } = bench.outcome() else { panic!() };
            assert_eq!(partitions.len(), 2);
            assert_eq!(matches!(cause, LossCause::AbortedOnRequest(_)), epoch == 3);
        }
    }
}

#[test]
fn another_start_or_pair_sends_to_the_logs() {
    use CoordinatorState as S;
    for fact in [
        view(S::CompleteCommit, START + 1, 7, 4),
        view(S::CompleteCommit, -1, 7, 4),
        view(S::CompleteCommit, START, 7, 5),
        view(S::CompleteCommit, START, 9, 1),
        view(S::Ongoing, START, 7, 4),
        view(S::Empty, START, 7, 3),
        ResumeInput::Described(Described::NotFound),
        ResumeInput::Described(Described::Blind),
    ] {
        let mut bench = refused(options());
        assert_eq!(bench.give(fact), [read(0), read(1)]);
    }
}

#[test]
fn an_open_transaction_whose_end_is_refused_is_tried_until_time_is_up() {
    let mut bench = refused(options());
    assert_eq!(bench.give(view(CoordinatorState::Ongoing, START, 7, 3)), [ResumeEffect::FindCoordinator]);
    bench.machine.handle(bench.machine.deadline, ResumeInput::Tick).unwrap();
    let Some(Err(error)) = bench.machine.result() else { panic!() };
    assert!(error.is_retriable() && error.to_string().contains("refuses"), "{error}");
}

#[test]
fn without_a_start_time_only_the_own_pair_is_the_same() {
    use CoordinatorState as S;
    let seen = |epoch| TransactionView {
        state: S::CompleteCommit,
        start_ms: START,
        identity: Identity::new(7, epoch),
        partitions: vec![],
    };
    let c = Committable { start_ms: None, ..committable(None) };
    assert_eq!(same_transaction(&c, &seen(3)), SameTransaction::AtItsEpoch);
    assert_eq!(same_transaction(&c, &seen(4)), SameTransaction::No);
}

#[test]
fn logs_decide_together() {
    let committed = PartitionVerdict::Committed { marker_epoch: 4, records: RecordsLeft::Yes };
    let aborted = PartitionVerdict::Aborted { marker_epoch: 4 };
    let run = |first, second| {
        let mut bench = refused(options());
        bench.give(ResumeInput::Described(Described::NotFound));
        bench.machine.handle(bench.now, ResumeInput::Log { partition: 1, verdict: second }).unwrap();
        bench.machine.handle(bench.now, ResumeInput::Log { partition: 0, verdict: first }).unwrap();
        bench.outcome().clone()
    };
    let Outcome::Lost { partitions, .. } = run(committed, aborted) else { panic!() };
    assert_eq!(partitions.iter().map(|p| p.partition.partition).collect::<Vec<_>>(), [1]);
    let proven_by = vec![TopicPartition::new("t", 0)];
    assert_eq!(
        run(committed, PartitionVerdict::Gone),
        Outcome::AlreadyCommitted(Evidence::Log { proven_by })
    );
    let other = PartitionVerdict::CommitOfOtherEpoch { marker_epoch: 9 };
    let Outcome::Undecidable(why) = run(PartitionVerdict::MarkerGone, other) else { panic!() };
    assert_eq!(why.partitions.len(), 2);
    assert_eq!(why.coordinator, CoordinatorSaw::NotFound);
}

#[test]
fn a_log_that_cannot_be_read_is_read_again() {
    let mut bench = refused(options());
    bench.give(ResumeInput::Described(Described::NotFound));
    let gone = ResumeInput::Log { partition: 0, verdict: PartitionVerdict::Gone };
    bench.machine.handle(bench.now, gone.clone()).unwrap();
    assert_eq!(bench.machine.handle(bench.now, gone), Err(Misuse));
    assert_eq!(bench.give(ResumeInput::LogUnavailable { partition: 1 }), [read(1)]);
}

#[test]
fn an_unpinned_committable_is_described_and_ended_by_the_level() {
    for (level, version) in [(0, 4), (1, 4), (2, 5)] {
        let mut bench = Bench::new(None, options());
        bench.found();
        assert_eq!(bench.give(ResumeInput::FeatureLevel(level)), [ResumeEffect::Describe]);
        assert_eq!(bench.give(view(CoordinatorState::Ongoing, START, 7, 3)), end(version));
    }
}

#[test]
fn describing_first_finds_an_earlier_commit_without_sending_anything() {
    let mut bench = Bench::new(Some(4), ResumeOptions { first: First::Describe, ..options() });
    assert_eq!(bench.found(), [ResumeEffect::Describe]);
    bench.give(view(CoordinatorState::PrepareCommit, START, 7, 3));
    assert!(matches!(bench.outcome(), Outcome::AlreadyCommitted(_)));
    assert_eq!(bench.machine.tries(), 0);
    let mut bench = Bench::new(Some(4), ResumeOptions { first: First::Describe, ..options() });
    bench.found();
    assert_eq!(bench.give(ResumeInput::Described(Described::Blind)), end(4));
}

#[test]
fn the_end_waits_for_leaders_while_half_of_the_timeout_is_left() {
    let meta = |leader| PartitionMeta::Known { topic_id: TopicId([1; 16]), leader };
    let leaderless = || ResumeInput::Partitions(vec![meta(Some(NodeId(1))), meta(None)]);
    let mut bench = Bench::new(Some(4), ResumeOptions { leaderless: Leaderless::Wait, ..options() });
    assert_eq!(bench.found(), [ResumeEffect::CheckLeaders]);
    let alarm = ResumeEffect::Alarm(Alarm::Leaderless);
    assert_eq!(bench.give(leaderless()), [alarm, ResumeEffect::CheckLeaders]);
    let led = ResumeInput::Partitions(vec![meta(Some(NodeId(1))), PartitionMeta::Missing]);
    assert_eq!(bench.give(led), end(4));

    let mut bench = Bench::new(Some(4), ResumeOptions { leaderless: Leaderless::Wait, ..options() });
    bench.found();
    let mut asked = bench.give(leaderless());
    while asked.last() == Some(&ResumeEffect::CheckLeaders) {
        asked = bench.give(leaderless());
    }
    assert_eq!(asked, end(4));
    assert!(bench.now >= Moment(0).after(Duration::from_millis(29_000)));
}

#[test]
fn after_each_wait_the_level_is_read_again_before_version_5_is_sent() {
    let meta = |leader| PartitionMeta::Known { topic_id: TopicId([1; 16]), leader };
    let mut bench = Bench::new(Some(5), ResumeOptions { leaderless: Leaderless::Wait, ..options() });
    bench.found();
    assert_eq!(bench.give(ResumeInput::FeatureLevel(2)), [ResumeEffect::CheckLeaders]);
    let leaderless = || ResumeInput::Partitions(vec![meta(Some(NodeId(1))), meta(None)]);
    let asked = bench.give(leaderless());
    assert_eq!(asked, [ResumeEffect::Alarm(Alarm::Leaderless), ResumeEffect::ReadFeatureLevel]);
    assert_eq!(bench.give(ResumeInput::FeatureLevel(2)), [ResumeEffect::CheckLeaders]);
    assert_eq!(bench.give(leaderless()), [ResumeEffect::ReadFeatureLevel]);
    assert_eq!(bench.give(ResumeInput::FeatureLevel(0)), [ResumeEffect::Describe], "operators went back");
    assert_eq!(bench.give(view(CoordinatorState::Ongoing, START, 7, 3)), [ResumeEffect::CheckLeaders]);
    assert_eq!(bench.give(ResumeInput::Partitions(vec![meta(Some(NodeId(1))); 2])), end(4));

    for version in [Some(5), None] {
        let mut bench = Bench::new(version, options());
        bench.found();
        bench.give(ResumeInput::FeatureLevel(2));
        if version.is_none() {
            bench.give(view(CoordinatorState::Ongoing, START, 7, 3));
        }
        for busy in [ResumeVerdict::Concurrent, ResumeVerdict::Loading] {
            assert_eq!(bench.give(ResumeInput::EndTxn(busy)), [ResumeEffect::ReadFeatureLevel]);
            assert_eq!(bench.give(ResumeInput::FeatureLevel(2)), end(5), "as before");
        }
    }
}

#[test]
fn an_abort_is_satisfied_by_any_abort_and_told_of_a_commit() {
    let abort = || ResumeOptions { decision: Decision::Abort, ..options() };
    let mut bench = refused(abort());
    bench.give(view(CoordinatorState::CompleteAbort, START, 7, 4));
    assert_eq!(bench.outcome(), &Outcome::Aborted);
    let mut bench = refused(abort());
    bench.give(view(CoordinatorState::CompleteCommit, START, 7, 4));
    assert!(matches!(bench.outcome(), Outcome::AlreadyCommitted(_)));
}

#[test]
fn denials_are_errors_and_decide_nothing() {
    let mut bench = Bench::new(Some(4), options());
    bench.found();
    bench.give(ResumeInput::EndTxn(ResumeVerdict::Denied));
    assert_eq!(bench.machine.result(), Some(&Err(CommitError::Denied)));
    let mut bench = Bench::new(Some(4), options());
    let _ = bench.effects();
    bench.give(ResumeInput::Coordinator(FindCoordinatorVerdict::Fatal));
    assert_eq!(bench.machine.result(), Some(&Err(CommitError::Unsupported)));
}

#[test]
fn a_long_past_deadline_still_tries_for_a_minute() {
    let options = ResumeOptions { wall_ms: START + 10_000_000, leaderless: Leaderless::Wait, ..options() };
    let mut bench = Bench::new(Some(4), options);
    assert_eq!(bench.found(), end(4));
    for (seconds, over) in [(59, false), (60, true)] {
        let now = Moment(0).after(Duration::from_secs(seconds));
        bench.machine.handle(now, ResumeInput::Tick).unwrap();
        assert_eq!(bench.machine.result().is_some(), over);
    }
}

fn any_fact() -> impl Strategy<Value = ResumeInput> {
    use CoordinatorState as S;
    let states =
        [S::Empty, S::Ongoing, S::PrepareCommit, S::PrepareAbort, S::CompleteCommit, S::CompleteAbort];
    let verdicts = [
        ResumeVerdict::Concurrent,
        ResumeVerdict::Loading,
        ResumeVerdict::Relookup,
        ResumeVerdict::NotKnown,
        ResumeVerdict::AskEvidence,
        ResumeVerdict::Stuck,
    ];
    let logs = [
        PartitionVerdict::Gone,
        PartitionVerdict::MarkerGone,
        PartitionVerdict::CommitOfOtherEpoch { marker_epoch: 9 },
        PartitionVerdict::Aborted { marker_epoch: 4 },
    ];
    prop_oneof![
        4 => Just(ResumeInput::Tick),
        4 => Just(ResumeInput::Coordinator(FindCoordinatorVerdict::Found)),
        1 => Just(ResumeInput::NoAnswer),
        4 => (0..3i16).prop_map(ResumeInput::FeatureLevel),
        4 => proptest::sample::select(verdicts.to_vec()).prop_map(ResumeInput::EndTxn),
        2 => (proptest::sample::select(states.to_vec()), 0..2i64, 2..6i16)
            .prop_map(|(state, late, epoch)| view(state, START + late, 7, epoch)),
        1 => Just(ResumeInput::Described(Described::NotFound)),
        2 => (0..2usize, proptest::sample::select(logs.to_vec()))
            .prop_map(|(partition, verdict)| ResumeInput::Log { partition, verdict }),
    ]
}

proptest! {
    /// Whatever comes in which order: no success without proof, no EndTxn 5 at level 0, never another decision.
    #[test]
    fn success_needs_proof(facts in proptest::collection::vec((any_fact(), 0..2_000_000u64), 1..60)) {
        let mut machine = Resume::new(Moment(0), committable(Some(5)), options());
        let (mut now, mut level, mut proof) = (0, None, false);
        for (fact, later) in facts {
            now += later;
            while let Some(effect) = machine.poll_effect() {
                match effect {
                    ResumeEffect::FindCoordinator => level = None,
                    ResumeEffect::EndTxn { version, decision } => {
                        prop_assert_eq!(decision, Decision::Commit);
                        prop_assert!(version == 4 && level == Some(0) || version == 5 && level > Some(0));
                    }
                    ResumeEffect::ReadFeatureLevel
                    | ResumeEffect::Describe
                    | ResumeEffect::CheckLeaders
                    | ResumeEffect::ReadEvidence { .. }
                    | ResumeEffect::Alarm(_) => {}
                }
            }
            let told = fact.clone();
            if machine.handle(Moment(now), fact).is_err() {
                continue;
            }
            match told {
                ResumeInput::FeatureLevel(told) => level = Some(told),
                ResumeInput::Described(Described::Transaction(view)) => {
                    let committed =
                        matches!(view.state, CoordinatorState::PrepareCommit | CoordinatorState::CompleteCommit);
                    proof = committed && view.start_ms == START && (3..=4).contains(&view.identity.epoch.0);
                }
                ResumeInput::Coordinator(_)
                | ResumeInput::EndTxn(_)
                | ResumeInput::Described(_)
                | ResumeInput::Partitions(_)
                | ResumeInput::Log { .. }
                | ResumeInput::LogUnavailable { .. }
                | ResumeInput::NoAnswer
                | ResumeInput::Tick => {}
            }
        }
        if let Some(Ok(outcome)) = machine.result() {
            prop_assert!(*outcome != Outcome::Committed);
            prop_assert_eq!(matches!(outcome, Outcome::AlreadyCommitted(_)), proof);
        }
    }
}

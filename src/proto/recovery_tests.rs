use super::*;
use crate::{
    ids::{ProducerEpoch, TopicId, TopicPartition},
    proto::{
        naming::{Naming, Ownership},
        pool::{History, LastUse},
        settle::{OpenTransaction, SettleError, Settled},
    },
};

fn committable(id: &str, producer_id: i64) -> Committable {
    Committable {
        transactional_id: TransactionalId::new(id),
        identity: Identity::new(producer_id, 3),
        end_txn_version: Some(5),
        start_ms: Some(1),
        timeout_ms: None,
        deadline_ms: None,
        cluster_id: None,
        partitions: vec![],
    }
}

fn restored(committables: Vec<(Committable, CommitStatus)>) -> Restored {
    let prefix = IdPrefix::new("job").unwrap();
    let writer = WriterState {
        naming: Naming::Pooled,
        prefix,
        former_prefixes: vec![IdPrefix::new("old").unwrap()],
        ownership: Ownership::new(0, 2).unwrap(),
        active: vec![],
        retired: vec![],
        history: None,
    };
    Restored { committables, writers: vec![writer], checkpoint: 3, orphans: Orphans::Refuse, level: 2 }
}

fn listed(id: &str, producer_id: i64, state: CoordinatorState) -> ListedTransaction {
    ListedTransaction {
        transactional_id: TransactionalId::new(id),
        producer_id: ProducerId(producer_id),
        state,
    }
}

fn list(transactions: Vec<ListedTransaction>) -> RecoveryInput {
    RecoveryInput::Listed { transactions, silent_brokers: 0, hidden: vec![] }
}

fn ids(names: &[&str]) -> Vec<TransactionalId> {
    names.iter().map(|n| TransactionalId::new(*n)).collect()
}

fn view(state: CoordinatorState, producer_id: i64, epoch: i16) -> Described {
    Described::Transaction(TransactionView {
        state,
        start_ms: 1,
        identity: Identity::new(producer_id, epoch),
        partitions: vec![TopicPartition::new("t", 0)],
    })
}

fn open(producer_id: i64, epoch: i16) -> OpenProducer {
    OpenProducer {
        partition: TopicPartition::new("t", 1),
        topic_id: TopicId([1; 16]),
        producer_id: ProducerId(producer_id),
        open: OpenTransaction { start_offset: 8, producer_epoch: ProducerEpoch(epoch), coordinator_epoch: 0 },
    }
}

/// Gives facts one after the other and tells the effects that followed each.
fn run(recovery: &mut Recovery, facts: Vec<RecoveryInput>) -> Vec<RecoveryEffect> {
    let mut effects: Vec<_> = std::iter::from_fn(|| recovery.poll_effect()).collect();
    for fact in facts {
        recovery.handle(Moment(0), fact).unwrap();
        effects.extend(std::iter::from_fn(|| recovery.poll_effect()));
    }
    effects
}

fn result(recovery: &Recovery) -> &Recovered {
    recovery.result().expect("it is done").as_ref().expect("the writer may begin")
}

#[test]
fn commits_come_first_then_leftovers_and_only_then_the_writer() {
    use CoordinatorState as S;
    let pending = committable("job-0-0", 1);
    let mut recovery = Recovery::new(restored(vec![
        (pending.clone(), CommitStatus::Pending),
        (committable("job-0-1", 2), CommitStatus::Decided(Decision::Commit)),
    ]));
    let effects = run(
        &mut recovery,
        vec![
            RecoveryInput::Committed(vec![CommitAnswer::Committed]),
            list(vec![
                listed("job-0-0", 1, S::CompleteCommit),
                listed("job-0-1", 2, S::CompleteCommit),
                listed("job-0-2", 3, S::Ongoing),
                listed("job-1-0", 4, S::Ongoing),
                listed("job-2-0", 5, S::Ongoing),
                listed("old-0-0", 6, S::Ongoing),
                listed("job-x-0-0", 7, S::Ongoing),
                listed("jobs-0-0", 8, S::Ongoing),
            ]),
            RecoveryInput::Open(Some(vec![open(3, 3)])),
            RecoveryInput::Described(vec![
                view(S::Ongoing, 3, 3),
                view(S::Ongoing, 5, 0),
                view(S::PrepareAbort, 6, 1),
            ]),
            RecoveryInput::Fenced(vec![FenceAnswer::Fenced; 3]),
        ],
    );
    let leftovers = ids(&["job-0-2", "job-2-0", "old-0-0"]);
    assert_eq!(effects[0], RecoveryEffect::Commit(vec![pending]));
    let patterns = vec!["job-[0-9]+-[0-9]+".to_owned(), "old-[0-9]+-[0-9]+".to_owned()];
    assert_eq!(effects[1], RecoveryEffect::List { patterns });
    assert_eq!(effects[2], RecoveryEffect::LookForOpen);
    assert_eq!(effects[3], RecoveryEffect::Describe(leftovers.clone()));
    assert_eq!(effects[4], RecoveryEffect::Fence(leftovers.clone()));
    let RecoveryEffect::Settle(targets) = &effects[5] else { panic!() };
    assert_eq!(targets[0].partitions.len(), 2);
    assert!(targets.iter().flat_map(|t| &t.partitions).all(|p| p.offset.is_none()));
    run(&mut recovery, vec![RecoveryInput::Settled(vec![Ok(Settled::default()); 3])]);
    assert_eq!(result(&recovery).aborted, leftovers);
}

#[test]
fn nothing_is_fenced_before_every_commit_is_known() {
    let mut recovery = Recovery::new(restored(vec![(committable("job-0-0", 1), CommitStatus::Pending)]));
    let effects = run(&mut recovery, vec![RecoveryInput::Committed(vec![CommitAnswer::Failed])]);
    assert_eq!(effects.len(), 1);
    let failed = RecoveryError::NotCommitted(ids(&["job-0-0"]));
    assert_eq!(recovery.result(), Some(&Err(failed)));
}

#[test]
fn a_newer_open_transaction_under_a_committed_id_is_a_leftover() {
    use CoordinatorState as S;
    let pending = (committable("job-0-0", 1), CommitStatus::Pending);
    let run_with = |epoch| {
        let mut recovery = Recovery::new(restored(vec![pending.clone()]));
        run(
            &mut recovery,
            vec![
                RecoveryInput::Committed(vec![CommitAnswer::GivenUp]),
                list(vec![listed("job-0-0", 1, S::Ongoing)]),
                RecoveryInput::Open(Some(vec![])),
                RecoveryInput::Described(vec![view(S::Ongoing, 1, epoch)]),
            ],
        )
        .pop()
    };
    assert_eq!(run_with(5), Some(RecoveryEffect::Fence(ids(&["job-0-0"]))));
    // The committable's own transaction is never fenced.
    assert_eq!(run_with(3), Some(RecoveryEffect::Describe(ids(&["job-0-0"]))));
}

#[test]
fn a_commit_whose_markers_are_on_their_way_is_not_fenced() {
    // V1 keeps the epoch, V2 raises it; a later transaction of the id is a leftover.
    for (shown, fenced) in [(3, false), (4, false), (5, true)] {
        let pending = vec![(committable("job-0-0", 1), CommitStatus::Pending)];
        let mut recovery = Recovery::new(restored(pending));
        let effects = run(
            &mut recovery,
            vec![
                RecoveryInput::Committed(vec![CommitAnswer::Committed]),
                list(vec![listed("job-0-0", 1, CoordinatorState::PrepareCommit)]),
                RecoveryInput::Open(Some(vec![open(1, 3)])),
                RecoveryInput::Described(vec![view(CoordinatorState::PrepareCommit, 1, shown)]),
            ],
        );
        assert_eq!(effects.iter().any(|e| matches!(e, RecoveryEffect::Fence(_))), fenced, "{effects:?}");
        assert_eq!(recovery.result().is_some(), !fenced);
    }
}

#[test]
fn an_id_that_is_done_while_a_partition_is_open_is_neither_fenced_nor_used() {
    use CoordinatorState as S;
    let run_with = |state, epoch, opens: Vec<OpenProducer>| {
        let mut recovery = Recovery::new(restored(vec![]));
        run(
            &mut recovery,
            vec![
                list(vec![listed("job-0-0", 1, state)]),
                RecoveryInput::Open(Some(opens.clone())),
                RecoveryInput::Described(vec![view(state, 1, epoch)]),
                RecoveryInput::Open(Some(opens)),
            ],
        );
        result(&recovery).clone()
    };
    let proven = run_with(S::CompleteCommit, 4, vec![open(1, 3)]);
    assert_eq!(proven.retired.len(), 1);
    assert_eq!(
        (proven.retired[0].decision, proven.retired[0].identity),
        (Decision::Commit, Identity::new(1, 3))
    );
    let aborted = run_with(S::CompleteAbort, 4, vec![open(1, 3)]);
    assert_eq!(aborted.retired[0].decision, Decision::Abort);
    let forgotten = run_with(S::Empty, 5, vec![open(1, 3)]);
    assert_eq!(
        (forgotten.retired[0].decision, forgotten.retired[0].by),
        (Decision::Abort, Some(DecidedBy::FenceV2))
    );
    let mixed = vec![open(1, 3), open(1, 2)];
    for (state, epoch, open) in [
        (S::CompleteCommit, 6, vec![open(1, 3)]),
        (S::Empty, 3, vec![open(1, 3)]),
        (S::Empty, 5, mixed.clone()),
        (S::CompleteCommit, 4, mixed),
    ] {
        let unknown = run_with(state, epoch, open);
        assert_eq!((unknown.retired.len(), unknown.retired[0].by), (1, None), "{state:?} {epoch}");
    }
}

#[test]
fn an_id_that_is_done_and_holds_nothing_is_free() {
    let mut recovery = Recovery::new(restored(vec![]));
    let listing = list(vec![listed("job-0-0", 1, CoordinatorState::CompleteAbort)]);
    run(&mut recovery, vec![listing, RecoveryInput::Open(Some(vec![open(2, 0)]))]);
    assert_eq!(result(&recovery), &Recovered::default());
}

#[test]
fn a_lost_abort_marker_retires_the_id() {
    let mut recovery = Recovery::new(restored(vec![]));
    let hanging = CommittedButHanging {
        transactional_id: TransactionalId::new("job-0-0"),
        identity: Identity::new(1, 3),
        decision: Decision::Abort,
        by: None,
        partitions: vec![],
    };
    run(
        &mut recovery,
        vec![
            list(vec![listed("job-0-0", 1, CoordinatorState::Ongoing)]),
            RecoveryInput::Open(Some(vec![open(1, 3)])),
            RecoveryInput::Described(vec![view(CoordinatorState::Ongoing, 1, 3)]),
            RecoveryInput::Fenced(vec![FenceAnswer::Fenced]),
            RecoveryInput::Settled(vec![Err(SettleError::Hanging(Box::new(hanging.clone())))]),
        ],
    );
    assert_eq!(result(&recovery).retired, [hanging]);
    assert_eq!(result(&recovery).aborted, []);
}

#[test]
fn retired_ids_stay_untouched() {
    let mut state = restored(vec![]);
    let hanging = CommittedButHanging {
        transactional_id: TransactionalId::new("job-0-0"),
        identity: Identity::new(1, 3),
        decision: Decision::Commit,
        by: None,
        partitions: vec![],
    };
    state.writers[0].retired = vec![hanging.clone()];
    let mut recovery = Recovery::new(state);
    let listing = list(vec![listed("job-0-0", 1, CoordinatorState::Ongoing)]);
    let effects = run(&mut recovery, vec![listing, RecoveryInput::Open(Some(vec![open(1, 3)]))]);
    assert_eq!(effects.last(), Some(&RecoveryEffect::LookForOpen));
    assert_eq!(result(&recovery).retired, [hanging]);
}

#[test]
fn what_was_written_at_the_checkpoint_is_looked_at_even_when_hidden() {
    let mut state = restored(vec![]);
    state.writers[0].active = ids(&["job-0-2"]);
    let mut recovery = Recovery::new(state);
    let effects = run(&mut recovery, vec![list(vec![]), RecoveryInput::Open(Some(vec![]))]);
    assert_eq!(effects.last(), Some(&RecoveryEffect::Describe(ids(&["job-0-2"]))));
    run(&mut recovery, vec![RecoveryInput::Described(vec![Described::NotFound])]);
    assert_eq!(result(&recovery), &Recovered::default());
}

#[test]
fn blindness_is_told_and_used_ids_are_avoided() {
    let mut recovery = Recovery::new(restored(vec![]));
    let transactions = vec![
        listed("job-0-0", 1, CoordinatorState::Ongoing),
        listed("job-0-1", 2, CoordinatorState::CompleteCommit),
    ];
    run(
        &mut recovery,
        vec![
            RecoveryInput::Listed {
                transactions,
                silent_brokers: 1,
                hidden: vec![IdPrefix::new("old").unwrap()],
            },
            RecoveryInput::Described(vec![Described::NotFound; 16]),
            RecoveryInput::Open(None),
            RecoveryInput::Described(vec![Described::Blind]),
        ],
    );
    let recovered = result(&recovery);
    assert_eq!(recovered.avoid, ids(&["job-0-0", "job-0-1"]).into_iter().collect());
    let id = TransactionalId::new("job-0-0");
    let hidden = Blindness::Hidden(IdPrefix::new("old").unwrap());
    let told = [hidden, Blindness::SilentBrokers(1), Blindness::OpenTransactions, Blindness::Id(id)];
    assert_eq!(recovered.blind, told);
}

#[test]
fn a_leftover_that_cannot_be_fenced_stops_the_start() {
    let mut recovery = Recovery::new(restored(vec![]));
    run(
        &mut recovery,
        vec![
            list(vec![listed("job-0-0", 1, CoordinatorState::Ongoing)]),
            RecoveryInput::Open(Some(vec![])),
            RecoveryInput::Described(vec![view(CoordinatorState::Ongoing, 1, 3)]),
            RecoveryInput::Fenced(vec![FenceAnswer::Failed]),
        ],
    );
    assert_eq!(recovery.result(), Some(&Err(RecoveryError::NotFenced(ids(&["job-0-0"])))));
    assert_eq!(recovery.handle(Moment(0), list(vec![])), Err(Misuse));
}

#[test]
fn a_marker_that_was_on_its_way_is_no_lost_one() {
    use CoordinatorState as S;
    let mut recovery = Recovery::new(restored(vec![]));
    let effects = run(
        &mut recovery,
        vec![
            list(vec![listed("job-0-0", 1, S::PrepareCommit)]),
            RecoveryInput::Open(Some(vec![open(1, 3)])),
            RecoveryInput::Described(vec![view(S::CompleteCommit, 1, 4)]),
        ],
    );
    assert_eq!(effects.last(), Some(&RecoveryEffect::LookForOpen), "once more");
    run(&mut recovery, vec![RecoveryInput::Open(Some(vec![]))]);
    assert_eq!(result(&recovery), &Recovered::default());
}

#[test]
fn a_commit_whose_markers_are_on_their_way_is_no_leftover() {
    use CoordinatorState as S;
    let pending = (committable("job-0-0", 1), CommitStatus::Pending);
    let run_with = |epoch| {
        let mut recovery = Recovery::new(restored(vec![pending.clone()]));
        let facts = vec![
            RecoveryInput::Committed(vec![CommitAnswer::Committed]),
            list(vec![listed("job-0-0", 1, S::PrepareCommit)]),
            RecoveryInput::Open(Some(vec![open(1, 3)])),
            RecoveryInput::Described(vec![view(S::PrepareCommit, 1, epoch)]),
        ];
        run(&mut recovery, facts).pop()
    };
    for epoch in [3, 4] {
        assert_eq!(run_with(epoch), Some(RecoveryEffect::Describe(ids(&["job-0-0"]))), "not fenced");
    }
    assert_eq!(run_with(5), Some(RecoveryEffect::Fence(ids(&["job-0-0"]))), "another one");
}

/// A writer that has committed job-0-0 as (1, 3) and job-0-1 as (2, 3), and restores checkpoint 3, which lists the second.
fn with_history(orphans: Orphans) -> Recovery {
    let listed = (committable("job-0-1", 2), CommitStatus::Decided(Decision::Commit));
    let mut restored = Restored { orphans, ..restored(vec![listed]) };
    let mut history = History::default();
    history.used(TransactionalId::new("job-0-0"), LastUse::of(&committable("job-0-0", 1)));
    restored.writers[0].history = Some(history);
    Recovery::new(restored)
}

fn commits(all: &[(&str, i64, i16, i64)]) -> Vec<RecoveryInput> {
    use CoordinatorState::CompleteCommit;
    let shown = |(_, producer_id, epoch, start_ms): &(&str, i64, i16, i64)| {
        Described::Transaction(TransactionView {
            state: CompleteCommit,
            start_ms: *start_ms,
            identity: Identity::new(*producer_id, *epoch),
            partitions: vec![],
        })
    };
    let lines = all.iter().map(|(id, producer_id, ..)| listed(id, *producer_id, CompleteCommit));
    vec![
        list(lines.collect()),
        RecoveryInput::Open(Some(vec![])),
        RecoveryInput::Described(all.iter().map(shown).collect()),
    ]
}

#[test]
fn commits_that_the_checkpoint_lists_or_remembers_are_no_orphans() {
    let mut recovery = with_history(Orphans::Refuse);
    run(&mut recovery, commits(&[("job-0-0", 1, 4, 1), ("job-0-1", 2, 4, 1)]));
    assert_eq!(*result(&recovery), Recovered::default());
}

#[test]
fn a_commit_that_the_checkpoint_does_not_know_refuses_the_restart_before_anything_is_fenced() {
    for orphan in [("job-0-0", 1, 6, 9), ("job-0-1", 2, 6, 9), ("job-0-2", 5, 1, 9), ("old-0-7", 6, 1, 9)] {
        let mut facts = commits(&[orphan]);
        // Beside a leftover, which the newest checkpoint may list.
        let RecoveryInput::Listed { transactions, .. } = &mut facts[0] else { panic!() };
        transactions.push(listed("job-0-3", 7, CoordinatorState::Ongoing));
        let RecoveryInput::Described(all) = &mut facts[2] else { panic!() };
        let at = usize::from(orphan.0.starts_with("old"));
        all.insert(1 - at, view(CoordinatorState::Ongoing, 7, 0));
        let mut recovery = with_history(Orphans::Refuse);
        let effects = run(&mut recovery, facts.clone());
        assert!(!effects.iter().any(|e| matches!(e, RecoveryEffect::Fence(_))), "{orphan:?}");
        let Some(Err(error @ RecoveryError::Orphans { checkpoint: 3, orphans })) = recovery.result() else {
            panic!("{orphan:?}: {:?}", recovery.result())
        };
        assert_eq!(orphans[0].transactional_id, TransactionalId::new(orphan.0));
        assert!(error.to_string().contains(orphan.0));

        let mut recovery = with_history(Orphans::WriteAgain);
        facts.extend([
            RecoveryInput::Fenced(vec![FenceAnswer::Fenced]),
            RecoveryInput::Settled(vec![Ok(Settled::default())]),
        ]);
        run(&mut recovery, facts);
        assert_eq!(result(&recovery).orphans.len(), 1);
        assert_eq!(result(&recovery).aborted, ids(&["job-0-3"]));
    }
}

#[test]
fn what_an_ordinary_crash_leaves_is_never_taken_for_a_newer_run() {
    use CoordinatorState as S;
    let left = [
        // Of one that is listed, this is the transaction itself.
        (S::Ongoing, 3, 1),
        (S::PrepareAbort, 8, 9),
        (S::CompleteAbort, 8, 9),
        (S::Empty, 8, -1),
        // The commit of what is remembered, or listed, is under way or done.
        (S::PrepareCommit, 4, 1),
        (S::CompleteCommit, 4, 1),
        (S::CompleteCommit, 3, 1),
    ];
    for (id, producer_id) in [("job-0-0", 1), ("job-0-1", 2)] {
        for (state, epoch, start_ms) in left {
            let mut recovery = with_history(Orphans::Refuse);
            let shown = TransactionView {
                state,
                start_ms,
                identity: Identity::new(producer_id, epoch),
                partitions: vec![],
            };
            for fact in [
                list(vec![listed(id, producer_id, state)]),
                RecoveryInput::Open(Some(vec![])),
                RecoveryInput::Described(vec![Described::Transaction(shown)]),
                RecoveryInput::Fenced(vec![FenceAnswer::Fenced]),
                RecoveryInput::Settled(vec![Ok(Settled::default())]),
            ] {
                // Not each of them asks everything.
                _ = recovery.handle(Moment(0), fact);
            }
            assert!(result(&recovery).orphans.is_empty(), "{id} {state:?}");
        }
    }
}

#[test]
fn an_id_that_is_listed_is_open_anew_only_after_a_later_checkpoint() {
    for (id, producer_id, refused) in [("job-0-1", 2, true), ("job-0-0", 1, false), ("job-0-2", 9, false)] {
        let mut recovery = with_history(Orphans::Refuse);
        let shown = TransactionView {
            state: CoordinatorState::Ongoing,
            start_ms: 9,
            identity: Identity::new(producer_id, 5),
            partitions: vec![],
        };
        for fact in [
            list(vec![listed(id, producer_id, CoordinatorState::Ongoing)]),
            RecoveryInput::Open(Some(vec![])),
            RecoveryInput::Described(vec![Described::Transaction(shown)]),
        ] {
            recovery.handle(Moment(0), fact).unwrap();
        }
        let orphans = matches!(recovery.result(), Some(Err(RecoveryError::Orphans { .. })));
        assert_eq!(orphans, refused, "{id}");
    }
}

#[test]
fn state_that_knows_no_history_accuses_nobody() {
    let mut recovery = Recovery::new(restored(vec![]));
    run(&mut recovery, commits(&[("job-0-0", 1, 9, 9)])[..2].to_vec());
    assert_eq!(*result(&recovery), Recovered::default());
}

#[test]
fn where_a_broker_does_not_list_ids_are_asked_for_one_by_one() {
    let mut recovery = Recovery::new(restored(vec![]));
    let known = |ids: &[TransactionalId]| {
        let one = |id: &TransactionalId| match id.as_str() {
            "job-0-1" => view(CoordinatorState::Ongoing, 4, 2),
            _ => Described::NotFound,
        };
        RecoveryInput::Described(ids.iter().map(one).collect())
    };
    let silent = RecoveryInput::Listed { transactions: vec![], silent_brokers: 1, hidden: vec![] };
    recovery.handle(Moment(0), silent).unwrap();
    let mut rounds = 0;
    while let Some(effect) = recovery.poll_effect() {
        if let RecoveryEffect::Describe(ids) = &effect {
            rounds += 1;
            recovery.handle(Moment(0), known(ids)).unwrap();
        }
    }
    // Slots, a second round behind the find, and the next subtask of a larger run.
    assert_eq!(rounds, 3);
    run(
        &mut recovery,
        vec![
            RecoveryInput::Open(Some(vec![open(4, 2)])),
            known(&ids(&["job-0-1"])),
            RecoveryInput::Fenced(vec![FenceAnswer::Fenced]),
            RecoveryInput::Settled(vec![Ok(Settled::default())]),
        ],
    );
    assert_eq!(result(&recovery).aborted, ids(&["job-0-1"]));
    assert_eq!(result(&recovery).blind, [Blindness::SilentBrokers(1)]);
}

#[test]
fn a_look_that_comes_before_the_list_is_worth_the_same() {
    use CoordinatorState as S;
    let facts = |silent_brokers| {
        let transactions = vec![listed("job-0-0", 1, S::CompleteCommit), listed("job-0-1", 2, S::Ongoing)];
        (
            RecoveryInput::Listed { transactions, silent_brokers, hidden: vec![] },
            RecoveryInput::Open(Some(vec![open(1, 3), open(2, 3)])),
        )
    };
    for silent in [0, 1] {
        let results = [true, false].map(|list_first| {
            let mut recovery = Recovery::new(restored(vec![]));
            let (list, look) = facts(silent);
            let mut first = if list_first { vec![list, look.clone()] } else { vec![look.clone(), list] };
            if silent > 0 {
                first.push(RecoveryInput::Described(vec![Described::NotFound; 16]));
            }
            run(&mut recovery, first);
            let described = vec![view(S::CompleteCommit, 1, 4), view(S::Ongoing, 2, 3)];
            let again = run(&mut recovery, vec![RecoveryInput::Described(described), look]);
            assert_eq!(again[0], RecoveryEffect::LookForOpen, "what is done and open is looked at once more");
            let settled = RecoveryInput::Settled(vec![Ok(Settled::default())]);
            run(&mut recovery, vec![RecoveryInput::Fenced(vec![FenceAnswer::Fenced]), settled]);
            result(&recovery).clone()
        });
        assert_eq!(results[0], results[1]);
        assert_eq!((results[0].retired.len(), &results[0].aborted), (1, &ids(&["job-0-1"])));
    }
    // One look was asked for.
    let mut recovery = Recovery::new(restored(vec![]));
    run(&mut recovery, vec![facts(0).1]);
    assert_eq!(recovery.handle(Moment(0), facts(0).1), Err(Misuse));
}

#[path = "recovery/fencing_tests.rs"]
mod fencing;

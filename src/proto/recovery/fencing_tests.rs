//! Leftovers whose fence is late.

use super::*;

/// Two leftovers, of which the first is fenced and the second is not in time.
fn late() -> Recovery {
    use CoordinatorState as S;
    let mut recovery = Recovery::new(restored(vec![]));
    run(
        &mut recovery,
        vec![
            list(vec![listed("job-0-0", 1, S::Ongoing), listed("job-0-1", 2, S::Ongoing)]),
            RecoveryInput::Open(Some(vec![])),
            RecoveryInput::Described(vec![view(S::Ongoing, 1, 3), view(S::Ongoing, 2, 3)]),
        ],
    );
    let effects =
        run(&mut recovery, vec![RecoveryInput::Fenced(vec![FenceAnswer::Fenced, FenceAnswer::Late])]);
    assert_eq!(effects, [RecoveryEffect::Describe(ids(&["job-0-1"]))]);
    recovery
}

#[test]
fn a_leftover_whose_markers_wait_for_a_leader_is_avoided_and_the_writer_begins() {
    for state in [CoordinatorState::PrepareAbort, CoordinatorState::PrepareCommit] {
        let mut recovery = late();
        let effects = run(&mut recovery, vec![RecoveryInput::Described(vec![view(state, 2, 4)])]);
        let [RecoveryEffect::Settle(targets)] = &effects[..] else { panic!("{effects:?}") };
        assert_eq!(targets.len(), 1, "what is not decided everywhere is not waited for");
        run(&mut recovery, vec![RecoveryInput::Settled(vec![Ok(Settled::default())])]);
        let recovered = result(&recovery);
        assert_eq!((&recovered.aborted, &recovered.pending), (&ids(&["job-0-0"]), &ids(&["job-0-1"])));
        assert_eq!(recovered.avoid, ids(&["job-0-1"]).into_iter().collect());
    }
}

#[test]
fn nobody_begins_while_a_leftover_may_still_be_committed() {
    use CoordinatorState as S;
    for open in [
        view(S::Ongoing, 2, 3),
        view(S::PrepareEpochFence, 2, 3),
        view(S::Unknown, 2, 3),
        view(S::Dead, 2, 3),
        Described::NotFound,
        Described::Retry,
        Described::Relookup,
        Described::Blind,
    ] {
        let mut recovery = late();
        // Once more, for its coordinator may have been away.
        let effects = run(&mut recovery, vec![RecoveryInput::Described(vec![open.clone()])]);
        assert_eq!(effects, [RecoveryEffect::Fence(ids(&["job-0-1"]))]);
        let again =
            vec![RecoveryInput::Fenced(vec![FenceAnswer::Late]), RecoveryInput::Described(vec![open])];
        run(&mut recovery, again);
        assert_eq!(recovery.result(), Some(&Err(RecoveryError::NotFenced(ids(&["job-0-1"])))));
    }
    let mut recovery = late();
    let ended = vec![
        RecoveryInput::Described(vec![view(S::Ongoing, 2, 3)]),
        RecoveryInput::Fenced(vec![FenceAnswer::Fenced]),
        RecoveryInput::Settled(vec![Ok(Settled::default()); 2]),
    ];
    run(&mut recovery, ended);
    assert_eq!(result(&recovery).aborted, ids(&["job-0-0", "job-0-1"]));
    assert!(result(&recovery).avoid.is_empty());
}

#[test]
fn a_leftover_that_ended_just_after_its_time_is_settled_and_still_avoided() {
    use CoordinatorState as S;
    for state in [S::Empty, S::CompleteAbort] {
        let mut recovery = late();
        let facts = vec![
            RecoveryInput::Described(vec![view(state, 2, 5)]),
            RecoveryInput::Settled(vec![Ok(Settled::default()); 2]),
        ];
        run(&mut recovery, facts);
        assert_eq!(result(&recovery).aborted, ids(&["job-0-0", "job-0-1"]));
        assert_eq!(result(&recovery).avoid, ids(&["job-0-1"]).into_iter().collect());
    }
}

use super::*;

#[test]
fn a_checkpoint_is_stored_when_every_subtask_has_acknowledged() {
    let mut job = Job::new(config(), 3);
    job.tick(10);
    assert_eq!(job.ack(1, 2), []);
    assert_eq!(job.ack(1, 0), []);
    assert_eq!(job.ack(1, 1), [store(1, Kind::Periodic, 3)], "states are in the order of subtasks");
}

#[test]
fn a_repeated_acknowledgement_counts_once_and_the_first_stays() {
    let mut job = Job::new(config(), 2);
    job.tick(10);
    job.ack(1, 0);
    assert_eq!(job.give(Input::Ack { checkpoint: 1, subtask: 0, state: (99, 99) }), []);
    assert_eq!(job.ack(1, 1), [store(1, Kind::Periodic, 2)]);
    assert_eq!(job.ack(1, 1), []);
    job.stored(1);
    assert_eq!(job.ack(1, 1), []);
}

#[test]
fn late_and_unknown_acknowledgements_change_nothing() {
    let mut job = Job::new(tolerant(1), 2);
    job.tick(10);
    job.decline(1);
    assert_eq!(job.ack_all(1), []);
    assert_eq!(job.ack_all(7), []);
    assert_eq!(job.decline(1), []);
    assert_eq!(job.decline(7), []);
    assert_eq!(job.tick(20), [periodic(2)]);
    assert_eq!(job.ack_all(2), [store(2, Kind::Periodic, 2)]);
}

#[test]
fn unknown_subtasks_are_misuse() {
    let mut job = Job::new(config(), 2);
    job.tick(10);
    let inputs = [
        Input::Ack { checkpoint: 1, subtask: 2, state: (1, 2) },
        Input::Decline { checkpoint: 1, subtask: 2, cause: String::new() },
        Input::Confirmed { checkpoint: 1, subtask: 2 },
        Input::Ended { subtask: 1 },
    ];
    for input in inputs {
        assert_eq!(job.coordinator.handle(job.now, input), Err(Misuse));
        assert_eq!(job.effects(), []);
    }
    assert_eq!(job.ack_all(1), [store(1, Kind::Periodic, 2)]);
}

#[test]
fn the_answer_of_a_store_that_was_not_asked_is_misuse() {
    let mut job = Job::new(config(), 2);
    job.tick(10);
    job.ack(1, 0);
    assert_eq!(job.coordinator.handle(job.now, Input::Stored { checkpoint: 1 }), Err(Misuse));
    job.ack(1, 1);
    for checkpoint in [0, 2] {
        let failed = Input::StoreFailed { checkpoint, cause: String::new() };
        assert_eq!(job.coordinator.handle(job.now, failed), Err(Misuse));
    }
    assert_eq!(job.stored(1), [notify(1, 0), notify(1, 1)]);
    assert_eq!(job.coordinator.handle(job.now, Input::Stored { checkpoint: 1 }), Err(Misuse));
}

#[test]
fn a_complete_one_subsumes_older_ones_which_are_no_failures() {
    let mut job = Job::new(CoordinatorConfig { tolerable_failures: 0, ..concurrent(3) }, 2);
    job.tick(10);
    job.tick(20);
    job.tick(30);
    job.ack(1, 0);
    job.ack(2, 0);
    job.ack(2, 1);
    job.tick(31);
    assert_eq!(job.ack_all(1), [], "it is given up");
    assert_eq!(job.stored(2), [notify(2, 0), notify(2, 1)]);
    assert_eq!(job.ack_all(3), [store(3, Kind::Periodic, 2)], "newer ones go on");
}

#[test]
fn the_subsumed_are_told_which_one_was_first() {
    let mut job = Job::new(concurrent(2), 2);
    job.tick(10);
    job.tick(20);
    let subsumed = abort(1, AbortCause::Subsumed { by: 2 });
    assert_eq!(job.ack_all(2), [subsumed, store(2, Kind::Periodic, 2)]);
}

#[test]
fn stores_are_in_order_and_one_at_a_time() {
    let mut job = Job::new(concurrent(3), 2);
    job.tick(10);
    job.tick(20);
    job.tick(30);
    assert_eq!(job.ack_all(1), [store(1, Kind::Periodic, 2)]);
    assert_eq!(job.ack_all(2), []);
    assert_eq!(job.ack_all(3), [], "complete ones wait, and are not subsumed");
    assert_eq!(job.stored(1), [notify(1, 0), notify(1, 1), store(2, Kind::Periodic, 2)]);
    let failed = abort(2, AbortCause::Store("disk".to_owned()));
    assert_eq!(job.store_failed(2), [failed, store(3, Kind::Periodic, 2)]);
}

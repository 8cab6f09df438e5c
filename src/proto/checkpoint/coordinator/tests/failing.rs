use super::*;

fn timeout(missing: &[usize]) -> AbortCause {
    AbortCause::Timeout { missing: missing.to_vec(), after: Duration::from_secs(600) }
}

#[test]
fn the_timeout_counts_from_the_trigger_and_names_who_is_missing() {
    let mut job = Job::new(config(), 3);
    job.tick(10);
    job.ack(1, 1);
    assert_eq!(job.deadline(), Some(6010));
    assert_eq!(job.tick(6009), []);
    assert_eq!(job.tick(6010), [abort(1, timeout(&[0, 2])), Effect::Fail(timeout(&[0, 2]))]);
    assert_eq!(job.deadline(), None);
}

#[test]
fn a_store_has_no_timeout() {
    let mut job = Job::new(config(), 2);
    job.tick(10);
    job.ack_all(1);
    assert_eq!(job.deadline(), None);
    assert_eq!(job.tick(9000), []);
    assert_eq!(job.stored(1), [notify(1, 0), notify(1, 1), periodic(2)]);
}

#[test]
fn each_checkpoint_has_its_own_timeout() {
    let mut job = Job::new(concurrent(2), 2);
    job.tick(10);
    job.tick(20);
    assert_eq!(job.tick(6010), [abort(1, timeout(&[0, 1])), periodic(3)]);
    assert_eq!(job.deadline(), Some(6020));
    assert_eq!(job.ack_all(2), [store(2, Kind::Periodic, 2)]);
}

#[test]
fn one_decline_fails_the_checkpoint_at_once() {
    let mut job = Job::new(tolerant(1), 3);
    job.tick(10);
    job.ack(1, 1);
    assert_eq!(job.decline(1), [abort(1, declined())]);
    assert_eq!(job.tick(6010), [periodic(2)], "it does not time out as well");
}

#[test]
fn failures_in_a_row_are_tolerated_up_to_the_number() {
    let mut job = Job::new(tolerant(2), 2);
    job.tick(10);
    assert_eq!(job.decline(1), [abort(1, declined())]);
    job.tick(20);
    job.ack_all(2);
    assert_eq!(job.store_failed(2), [abort(2, AbortCause::Store("disk".to_owned()))]);
    job.tick(30);
    assert_eq!(job.decline(3), [abort(3, declined()), Effect::Fail(declined())]);
}

#[test]
fn a_durable_one_ends_the_row_of_failures() {
    let mut job = Job::new(tolerant(1), 2);
    for checkpoint in [1, 3, 5] {
        job.tick(checkpoint * 10);
        assert_eq!(job.decline(checkpoint), [abort(checkpoint, declined())]);
        assert_eq!(job.tick(checkpoint * 10 + 10), [periodic(checkpoint + 1)]);
        job.take(checkpoint + 1);
    }
}

#[test]
fn an_id_is_not_used_again_after_a_failure() {
    let mut job = Job::restored(tolerant(9), 2, 41);
    job.effects();
    job.confirm_all(41);
    assert_eq!(job.tick(10), [periodic(42)]);
    job.ack_all(42);
    job.store_failed(42);
    assert_eq!(job.tick(20), [periodic(43)], "42 may be durable");
    job.decline(43);
    assert_eq!(job.tick(30), [periodic(44)]);
}

#[test]
fn ids_go_on_from_those_of_an_earlier_run() {
    let coordinator = |ids| Coordinator::new(config(), 2, 41, Moment(0)).unwrap().with_ids_after(ids);
    for (ids, next) in [(43, 44), (40, 42)] {
        let mut job = Job { coordinator: coordinator(ids), subtasks: 2, now: Moment(0) };
        assert_eq!(job.effects(), [notify(41, 0), notify(41, 1)]);
        job.confirm_all(41);
        assert_eq!(job.tick(10), [periodic(next)]);
        assert_eq!(job.coordinator.newest_id(), next);
    }
}

#[test]
fn a_failed_store_notifies_nobody() {
    let mut job = Job::new(tolerant(1), 2);
    job.tick(10);
    job.ack_all(1);
    assert_eq!(job.store_failed(1), [abort(1, AbortCause::Store("disk".to_owned()))]);
    assert_eq!(job.deadline(), Some(20), "nobody has to be told again, either");
}

#[test]
fn nothing_follows_a_failure_that_is_too_much() {
    let mut job = Job::new(CoordinatorConfig { tolerable_failures: 0, ..concurrent(3) }, 2);
    job.tick(10);
    job.tick(20);
    job.tick(30);
    job.ack_all(1);
    assert_eq!(job.decline(2), [abort(2, declined()), Effect::Fail(declined())]);
    assert_eq!(job.stored(1), []);
    assert_eq!(job.ack_all(3), []);
    assert_eq!(job.give(Input::Trigger(Kind::Suspend)), []);
    assert_eq!(job.tick(9000), []);
}

#[test]
fn two_timeouts_at_once_fail_the_job_once() {
    let mut job = Job::new(CoordinatorConfig { tolerable_failures: 0, ..concurrent(2) }, 2);
    job.tick(10);
    job.tick(20);
    let failed = [abort(1, timeout(&[0, 1])), Effect::Fail(timeout(&[0, 1]))];
    assert_eq!(job.tick(7000), failed);
}

use super::*;

#[test]
fn a_periodic_one_begins_each_interval() {
    let mut job = Job::new(config(), 2);
    assert_eq!(job.deadline(), Some(10));
    assert_eq!(job.tick(9), []);
    assert_eq!(job.tick(10), [periodic(1)]);
    job.take(1);
    assert_eq!(job.deadline(), Some(20));
    assert_eq!(job.tick(21), [periodic(2)]);
    job.take(2);
    assert_eq!(job.deadline(), Some(30), "the rate is fixed, though 2 was late");
}

#[test]
fn intervals_that_elapse_at_the_limit_are_one_checkpoint() {
    let mut job = Job::new(config(), 2);
    job.tick(10);
    assert_eq!(job.tick(45), [], "the limit is 1");
    job.ack_all(1);
    assert_eq!(job.tick(46), [], "one that is being stored is still under way");
    assert_eq!(job.stored(1).last(), Some(&periodic(2)));
    job.take(2);
    assert_eq!(job.deadline(), Some(56), "those at 30 and 40 are not made up");
    assert_eq!(job.tick(55), []);
    assert_eq!(job.tick(56), [periodic(3)]);
}

#[test]
fn a_periodic_one_is_left_out_when_nothing_has_happened() {
    let mut job = Job::new(config(), 2);
    job.tick(9);
    assert_eq!(job.give(Input::Idle), []);
    assert_eq!(job.deadline(), Some(10), "none was due");
    job.now = Moment(10 * SECOND / 10);
    assert_eq!(job.give(Input::Idle), []);
    assert_eq!(job.tick(19), []);
    assert_eq!(job.deadline(), Some(20));
    assert_eq!(job.tick(20), [periodic(1)]);
    job.take(1);
    job.now = Moment(30 * SECOND / 10);
    job.give(Input::Idle);
    assert_eq!(job.give(Input::Trigger(Kind::Suspend)), [triggered(2, Kind::Suspend)], "the last one is not");
}

#[test]
fn as_many_are_under_way_as_allowed() {
    let mut job = Job::new(concurrent(2), 2);
    job.tick(10);
    assert_eq!(job.tick(20), [periodic(2)]);
    assert_eq!(job.tick(30), []);
    assert_eq!(job.decline(2), [abort(2, declined()), periodic(3)]);
}

#[test]
fn the_pause_counts_from_the_end_of_the_last_one_good_or_bad() {
    let mut job = Job::new(CoordinatorConfig { min_pause: Duration::from_secs(2), ..tolerant(1) }, 2);
    job.tick(10);
    job.tick(15);
    job.take(1);
    assert_eq!(job.deadline(), Some(35));
    assert_eq!(job.tick(34), []);
    assert_eq!(job.tick(35), [periodic(2)]);
    job.tick(36);
    job.decline(2);
    assert_eq!(job.deadline(), Some(56));
    assert_eq!(job.tick(56), [periodic(3)]);
}

#[test]
fn one_by_hand_waits_neither_for_the_pause_nor_for_the_limit() {
    let mut job = Job::new(CoordinatorConfig { min_pause: Duration::from_secs(60), ..tolerant(1) }, 2);
    job.tick(10);
    assert_eq!(job.give(Input::Trigger(Kind::Manual)), [triggered(2, Kind::Manual)]);
    job.decline(1);
    job.take(2);
    assert_eq!(job.give(Input::Trigger(Kind::Manual)), [triggered(3, Kind::Manual)]);
}

#[test]
fn those_by_hand_wait_for_a_running_store_and_become_one() {
    let mut job = Job::new(config(), 2);
    job.tick(10);
    job.ack_all(1);
    assert_eq!(job.give(Input::Trigger(Kind::Manual)), []);
    assert_eq!(job.give(Input::Trigger(Kind::Manual)), []);
    assert_eq!(job.stored(1).last(), Some(&triggered(2, Kind::Manual)));
    job.confirm_all(1);
    assert_eq!(job.tick(11), []);
}

#[test]
fn one_by_hand_waits_for_the_acknowledgements_of_the_last_one_by_hand() {
    let mut job = Job::new(config(), 2);
    job.give(Input::Trigger(Kind::Manual));
    assert_eq!(job.give(Input::Trigger(Kind::Manual)), []);
    assert_eq!(job.ack_all(1), [store(1, Kind::Manual, 2)]);
    assert_eq!(job.stored(1).last(), Some(&triggered(2, Kind::Manual)));
}

#[test]
fn one_by_hand_counts_for_the_limit_of_periodic_ones() {
    let mut job = Job::new(config(), 2);
    job.give(Input::Trigger(Kind::Manual));
    assert_eq!(job.tick(10), []);
    assert_eq!(job.deadline(), Some(6000), "only the timeout of the manual one");
    job.ack_all(1);
    assert_eq!(job.stored(1).last(), Some(&periodic(2)));
}

#[test]
fn without_an_interval_nothing_is_periodic() {
    let mut job = Job::new(CoordinatorConfig { interval: Duration::MAX, ..config() }, 2);
    assert_eq!(job.deadline(), None);
    assert_eq!(job.tick(1_000_000), []);
    assert_eq!(job.give(Input::Trigger(Kind::Manual)), [triggered(1, Kind::Manual)]);
}

#[test]
fn only_some_kinds_are_given_by_hand() {
    for kind in [Kind::Periodic, Kind::Final] {
        let mut job = Job::new(config(), 2);
        assert_eq!(job.coordinator.handle(job.now, Input::Trigger(kind)), Err(Misuse));
        assert_eq!(job.effects(), []);
        assert_eq!(job.tick(10), [periodic(1)], "the state is as before");
    }
}

#[test]
fn settings_that_allow_no_checkpoint_are_refused() {
    let zero = Duration::ZERO;
    let cases = [
        (CoordinatorConfig { interval: zero, ..config() }, ConfigError::NoInterval),
        (CoordinatorConfig { timeout: zero, ..config() }, ConfigError::NoTimeout),
        (CoordinatorConfig { max_concurrent: 0, ..config() }, ConfigError::NoConcurrency),
        (CoordinatorConfig { notify_retry: zero, ..config() }, ConfigError::NoNotifyRetry),
    ];
    for (config, error) in cases {
        assert_eq!(Coordinator::<State>::new(config, 1, 0, Moment(0)).err(), Some(error));
    }
    let new = |subtasks| Coordinator::<State>::new(config(), subtasks, 0, Moment(0));
    assert_eq!(new(0).err(), Some(ConfigError::NoSubtasks));
    let unknown = ConfigError::UnknownSource { subtask: 2, subtasks: 2 };
    assert_eq!(new(2).unwrap().with_sources([0, 2]).err(), Some(unknown));
}

use super::*;

#[test]
fn nobody_is_notified_before_it_is_durable() {
    let mut job = Job::new(config(), 2);
    job.tick(10);
    assert_eq!(job.ack_all(1), [store(1, Kind::Periodic, 2)]);
    assert_eq!(job.tick(15), []);
    assert_eq!(job.stored(1), [notify(1, 0), notify(1, 1)]);
}

#[test]
fn a_notification_is_repeated_until_it_is_confirmed() {
    let mut job = Job::new(CoordinatorConfig { interval: Duration::from_secs(60), ..config() }, 3);
    job.tick(600);
    job.ack_all(1);
    job.stored(1);
    assert_eq!(job.deadline(), Some(610));
    job.give(Input::Confirmed { checkpoint: 1, subtask: 1 });
    job.give(Input::Confirmed { checkpoint: 1, subtask: 1 });
    assert_eq!(job.tick(609), []);
    assert_eq!(job.tick(610), [notify(1, 0), notify(1, 2)]);
    assert_eq!(job.deadline(), Some(620));
    job.give(Input::Confirmed { checkpoint: 1, subtask: 0 });
    assert_eq!(job.tick(620), [notify(1, 2)]);
    job.give(Input::Confirmed { checkpoint: 1, subtask: 2 });
    assert_eq!(job.deadline(), Some(1200));
    assert_eq!(job.tick(640), []);
}

#[test]
fn only_the_newest_is_repeated_and_its_confirmation_covers_earlier_ones() {
    let mut job = Job::new(config(), 2);
    job.tick(10);
    job.ack_all(1);
    job.stored(1);
    assert_eq!(job.tick(19), []);
    assert_eq!(job.tick(20), [notify(1, 0), notify(1, 1), periodic(2)]);
    job.ack_all(2);
    assert_eq!(job.stored(2), [notify(2, 0), notify(2, 1)]);
    job.give(Input::Confirmed { checkpoint: 1, subtask: 1 });
    job.give(Input::Confirmed { checkpoint: 2, subtask: 0 });
    job.tick(25);
    assert_eq!(job.tick(30), [notify(2, 1), periodic(3)], "1 of subtask 1 does not cover 2");
}

#[test]
fn a_confirmation_of_what_nobody_was_told_means_nothing() {
    let mut job = Job::new(config(), 2);
    job.tick(10);
    job.confirm_all(1);
    job.ack_all(1);
    job.confirm_all(1);
    assert_eq!(job.stored(1), [notify(1, 0), notify(1, 1)]);
    assert_eq!(job.deadline(), Some(20));
    assert_eq!(job.tick(20), [notify(1, 0), notify(1, 1), periodic(2)]);
}

#[test]
fn an_older_confirmation_takes_nothing_back() {
    let mut job = Job::restored(config(), 2, 7);
    job.effects();
    job.confirm_all(7);
    job.confirm_all(3);
    assert_eq!(job.tick(9), []);
    assert_eq!(job.tick(10), [periodic(8)]);
}

#[test]
fn the_restored_checkpoint_is_notified_again_to_all() {
    let mut job = Job::restored(config(), 3, 7);
    assert_eq!(job.effects(), [notify(7, 0), notify(7, 1), notify(7, 2)]);
    job.give(Input::Confirmed { checkpoint: 7, subtask: 2 });
    assert_eq!(job.tick(10), [notify(7, 0), notify(7, 1), periodic(8)]);
}

#[test]
fn a_fresh_job_notifies_nobody() {
    let mut job = Job::new(config(), 2);
    assert_eq!(job.effects(), []);
    assert_eq!(job.tick(10), [periodic(1)]);
}

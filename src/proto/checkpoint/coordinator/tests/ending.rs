use super::*;

fn end(job: &mut Job, subtask: usize) -> Vec<Effect<State>> {
    job.give(Input::Ended { subtask })
}

#[test]
fn a_final_checkpoint_begins_when_every_source_has_ended() {
    let mut job = Job::new(config(), 3);
    assert_eq!(end(&mut job, 0), []);
    assert_eq!(end(&mut job, 0), [], "once more is no other source");
    assert_eq!(end(&mut job, 1), [triggered(1, Kind::Final)]);
    assert_eq!(end(&mut job, 1), []);
}

#[test]
fn a_final_checkpoint_waits_for_the_limit_but_not_for_the_pause() {
    let mut job = Job::new(CoordinatorConfig { min_pause: Duration::from_secs(60), ..config() }, 2);
    job.tick(10);
    assert_eq!(end(&mut job, 0), []);
    assert_eq!(job.tick(900), [], "no periodic one, either");
    job.ack_all(1);
    assert_eq!(job.stored(1), [notify(1, 0), notify(1, 1), triggered(2, Kind::Final)]);
}

#[test]
fn a_job_without_sources_does_not_end() {
    let mut coordinator: Coordinator<State> = Coordinator::new(config(), 2, 0, Moment(0)).unwrap();
    assert_eq!(coordinator.handle(Moment(0), Input::Ended { subtask: 0 }), Err(Misuse));
}

#[test]
fn a_suspending_one_waits_for_a_running_store_only() {
    let mut job = Job::new(config(), 2);
    job.tick(10);
    assert_eq!(job.give(Input::Trigger(Kind::Suspend)), [triggered(2, Kind::Suspend)]);
    let mut job = Job::new(config(), 2);
    job.tick(10);
    job.ack_all(1);
    assert_eq!(job.give(Input::Trigger(Kind::Suspend)), []);
    assert_eq!(job.stored(1).last(), Some(&triggered(2, Kind::Suspend)));
}

#[test]
fn nothing_is_triggered_after_the_last_checkpoint() {
    for last in [Kind::Suspend, Kind::Final] {
        let mut job = Job::new(concurrent(9), 2);
        if last == Kind::Final {
            end(&mut job, 0)
        } else {
            job.give(Input::Trigger(last))
        };
        assert_eq!(job.tick(50), []);
        assert_eq!(job.give(Input::Trigger(Kind::Manual)), []);
        assert_eq!(job.give(Input::Trigger(Kind::Suspend)), []);
        assert_eq!(end(&mut job, 0), []);
        job.ack_all(1);
        job.stored(1);
        assert_eq!(job.tick(55), []);
        assert_eq!(job.tick(60), [notify(1, 0), notify(1, 1)]);
    }
}

#[test]
fn the_job_may_end_when_the_last_checkpoint_is_confirmed_by_all() {
    let mut job = Job::new(config(), 2);
    job.give(Input::Trigger(Kind::Suspend));
    job.ack_all(1);
    assert_eq!(job.stored(1), [notify(1, 0), notify(1, 1)]);
    assert_eq!(job.give(Input::Confirmed { checkpoint: 1, subtask: 1 }), []);
    assert_eq!(job.tick(10), [notify(1, 0)]);
    let finished = Effect::Finished { checkpoint: 1, kind: Kind::Suspend };
    assert_eq!(job.give(Input::Confirmed { checkpoint: 1, subtask: 0 }), [finished]);
    assert_eq!(job.deadline(), None);
    assert_eq!(job.tick(9000), []);
}

#[test]
fn confirmations_of_older_ones_do_not_end_the_job() {
    let mut job = Job::restored(config(), 2, 5);
    job.effects();
    end(&mut job, 0);
    job.ack_all(6);
    job.stored(6);
    assert_eq!(job.confirm_all(5), []);
    assert_eq!(job.confirm_all(6), [Effect::Finished { checkpoint: 6, kind: Kind::Final }]);
}

#[test]
fn the_last_checkpoint_is_triggered_again_when_it_fails() {
    for last in [Kind::Suspend, Kind::Final] {
        let mut job = Job::new(tolerant(2), 2);
        if last == Kind::Final {
            end(&mut job, 0)
        } else {
            job.give(Input::Trigger(last))
        };
        assert_eq!(job.decline(1), [abort(1, declined()), triggered(2, last)]);
        job.ack_all(2);
        let cause = AbortCause::Store("disk".to_owned());
        assert_eq!(job.store_failed(2), [abort(2, cause), triggered(3, last)]);
        assert_eq!(job.decline(3), [abort(3, declined()), Effect::Fail(declined())]);
    }
}

#[test]
fn it_is_triggered_again_after_the_pause() {
    let mut job = Job::new(CoordinatorConfig { min_pause: Duration::from_secs(2), ..tolerant(1) }, 2);
    job.give(Input::Trigger(Kind::Suspend));
    assert_eq!(job.decline(1), [abort(1, declined())]);
    assert_eq!(job.deadline(), Some(20));
    assert_eq!(job.tick(19), []);
    assert_eq!(job.tick(20), [triggered(2, Kind::Suspend)]);
}

#[test]
fn an_older_one_that_fails_meanwhile_does_not_trigger_the_last_again() {
    let mut job = Job::new(tolerant(1), 2);
    job.tick(10);
    job.give(Input::Trigger(Kind::Suspend));
    assert_eq!(job.decline(1), [abort(1, declined())]);
    assert_eq!(job.take(2).last(), Some(&Effect::Finished { checkpoint: 2, kind: Kind::Suspend }));
}

#[test]
fn one_by_hand_that_waits_is_answered_by_the_last() {
    let mut job = Job::new(config(), 2);
    job.tick(10);
    job.ack_all(1);
    job.give(Input::Trigger(Kind::Manual));
    job.give(Input::Trigger(Kind::Suspend));
    assert_eq!(job.stored(1), [notify(1, 0), notify(1, 1), triggered(2, Kind::Suspend)]);
}

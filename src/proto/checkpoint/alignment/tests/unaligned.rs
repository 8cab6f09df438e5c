use super::*;

#[test]
fn an_unaligned_barrier_overtakes_as_soon_as_it_is_announced() {
    let mut subject = Subject::new(at_once(), 2);
    assert_eq!(subject.announced(1, 1), [snapshot(1, Cut::Unaligned), capture(1, 0), capture(1, 1)]);
    assert_eq!(subject.reached(1, 1), [], "nothing waits for it");
    assert_eq!(subject.announced(0, 1), [complete(1)], "what is captured is in the queue");
    assert_eq!(subject.reached(0, 1), []);
}

#[test]
fn at_once_means_at_once_even_if_the_trigger_seems_to_lie_ahead() {
    let mut subject = Subject::new(at_once(), 2);
    subject.now = Moment(0);
    assert_eq!(subject.announced(0, 1)[0], snapshot(1, Cut::Unaligned));
}

#[test]
fn a_barrier_at_the_head_of_its_queue_needs_no_capture() {
    let mut subject = Subject::new(at_once(), 2);
    assert_eq!(subject.reached(0, 1), [snapshot(1, Cut::Unaligned), capture(1, 1)]);
    assert_eq!(subject.reached(1, 1), [complete(1)]);
}

#[test]
fn the_only_channel_can_be_overtaken() {
    let mut subject = Subject::new(at_once(), 1);
    assert_eq!(subject.announced(0, 1), [snapshot(1, Cut::Unaligned), capture(1, 0), complete(1)]);
}

#[test]
fn an_aligned_barrier_overtakes_when_it_is_older_than_the_timeout() {
    let mut subject = Subject::new(after(50), 3);
    subject.reached(0, 1);
    subject.announced(1, 1);
    assert_eq!(subject.deadline(), Some(150), "the age counts from the trigger");
    assert_eq!(subject.tick(149), []);
    let cut = [snapshot(1, Cut::Unaligned), capture(1, 1), capture(1, 2), unblock(0)];
    assert_eq!(subject.tick(150), cut);
    assert_eq!(subject.deadline(), None);
    assert_eq!(subject.announced(2, 1), [complete(1)]);
}

#[test]
fn an_announced_barrier_that_is_too_old_already_overtakes() {
    let mut subject = Subject::new(after(50), 2);
    subject.now = Moment(200 * MILLIS);
    assert_eq!(subject.announced(0, 1)[0], snapshot(1, Cut::Unaligned));
}

#[test]
fn a_late_barrier_that_is_the_last_one_is_aligned() {
    let mut subject = Subject::new(after(50), 2);
    subject.reached(0, 1);
    subject.now = Moment(200 * MILLIS);
    assert_eq!(subject.reached(1, 1), [snapshot(1, Cut::Aligned), complete(1), unblock(0)]);
}

#[test]
fn the_last_barriers_of_a_job_always_wait() {
    for kind in [Kind::Suspend, Kind::Final] {
        let mut subject = Subject::new(at_once(), 2);
        let barrier = Barrier { kind, ..barrier(1) };
        assert_eq!(subject.give(Input::Announced { channel: 0, barrier }), []);
        assert_eq!(subject.deadline(), None);
        assert_eq!(subject.give(Input::Reached { channel: 0, barrier }), [block(0)]);
        let cut = [Effect::Snapshot { barrier, cut: Cut::Aligned }, complete(1), unblock(0)];
        assert_eq!(subject.give(Input::Reached { channel: 1, barrier }), cut);
    }
}

#[test]
fn one_that_is_captured_and_aborted_is_not_complete_later() {
    let mut subject = Subject::new(at_once(), 2);
    subject.announced(0, 1);
    assert_eq!(subject.give(Input::Aborted { checkpoint: 1 }), []);
    assert_eq!(subject.announced(1, 1), []);
    assert_eq!(subject.reached(1, 1), []);
}

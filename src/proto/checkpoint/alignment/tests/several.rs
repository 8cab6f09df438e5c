//! Barriers of several checkpoints at the same time.

use super::*;

#[test]
fn a_newer_barrier_in_the_place_of_an_older_one_gives_the_older_up() {
    let mut subject = Subject::new(aligned(), 3);
    subject.reached(0, 1);
    assert_eq!(subject.reached(1, 2), [give_up(1), unblock(0), block(1)]);
    assert_eq!(subject.reached(0, 2), [block(0)]);
    assert_eq!(subject.reached(2, 1), [], "nobody waits for it any more");
    assert_eq!(subject.reached(2, 2), [snapshot(2, Cut::Aligned), complete(2), unblock(0), unblock(1)]);
}

#[test]
fn an_announcement_is_enough_to_know_that_an_older_one_was_skipped() {
    let mut subject = Subject::new(aligned(), 2);
    subject.reached(0, 1);
    assert_eq!(subject.announced(1, 2), [give_up(1), unblock(0)]);
}

#[test]
fn a_barrier_that_another_channel_has_skipped_before_is_given_up_at_once() {
    let mut subject = Subject::new(at_once(), 2);
    subject.announced(1, 2);
    assert_eq!(subject.announced(0, 1), [give_up(1)]);
    assert_eq!(subject.reached(0, 1), []);
    assert_eq!(subject.announced(0, 2), [complete(2)]);
}

#[test]
fn a_newer_one_that_is_announced_behind_an_older_one_disturbs_nothing() {
    let mut subject = Subject::new(aligned(), 2);
    subject.reached(0, 1);
    assert_eq!(subject.announced(0, 2), []);
    assert_eq!(subject.announced(1, 1), []);
    assert_eq!(subject.announced(1, 2), []);
    assert_eq!(subject.reached(1, 1), [snapshot(1, Cut::Aligned), complete(1), unblock(0)]);
    assert_eq!(subject.reached(1, 2), [block(1)]);
    assert_eq!(subject.reached(0, 2), [snapshot(2, Cut::Aligned), complete(2), unblock(1)]);
}

#[test]
fn a_newer_one_may_overtake_while_an_older_one_is_captured() {
    let mut subject = Subject::new(at_once(), 2);
    assert_eq!(subject.announced(0, 1), [snapshot(1, Cut::Unaligned), capture(1, 0), capture(1, 1)]);
    assert_eq!(subject.announced(0, 2), [snapshot(2, Cut::Unaligned), capture(2, 0), capture(2, 1)]);
    assert_eq!(subject.announced(1, 1), [complete(1)]);
    assert_eq!(subject.announced(1, 2), [complete(2)]);
}

#[test]
fn one_that_is_captured_and_then_skipped_is_given_up() {
    let mut subject = Subject::new(at_once(), 2);
    subject.announced(0, 1);
    assert_eq!(
        subject.announced(1, 2),
        [give_up(1), snapshot(2, Cut::Unaligned), capture(2, 0), capture(2, 1)]
    );
}

#[test]
fn the_newer_one_is_not_cut_before_the_older_one() {
    let mut subject = Subject::new(after(50), 2);
    let young = Barrier { triggered: Moment(500 * MILLIS), ..barrier(1) };
    subject.give(Input::Announced { channel: 0, barrier: young });
    subject.announced(0, 2);
    assert_eq!(subject.deadline(), Some(550));
    assert_eq!(subject.tick(549), [], "2 is older than its timeout, but comes behind 1");
    let cuts: Vec<_> =
        subject.tick(550).into_iter().filter(|e| matches!(e, Effect::Snapshot { .. })).collect();
    assert_eq!(cuts, [Effect::Snapshot { barrier: young, cut: Cut::Unaligned }, snapshot(2, Cut::Unaligned)]);
}

#[test]
fn the_last_one_waits_behind_one_that_overtakes() {
    let mut subject = Subject::new(at_once(), 2);
    let last = Barrier { kind: Kind::Suspend, ..barrier(2) };
    subject.announced(0, 1);
    assert_eq!(subject.give(Input::Announced { channel: 0, barrier: last }), []);
    subject.reached(0, 1);
    assert_eq!(subject.give(Input::Reached { channel: 0, barrier: last }), [block(0)]);
    assert_eq!(subject.reached(1, 1), [complete(1)]);
    let cut = [Effect::Snapshot { barrier: last, cut: Cut::Aligned }, complete(2), unblock(0)];
    assert_eq!(subject.give(Input::Reached { channel: 1, barrier: last }), cut);
}

#[test]
fn at_least_once_a_skipped_one_is_given_up_too() {
    let mut subject = Subject::new(Mode::AtLeastOnce, 2);
    subject.reached(0, 1);
    assert_eq!(subject.reached(1, 2), [give_up(1)]);
    assert_eq!(subject.reached(0, 2), [snapshot(2, Cut::Aligned), complete(2)]);
}

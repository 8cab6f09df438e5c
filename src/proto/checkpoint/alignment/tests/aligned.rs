use super::*;

#[test]
fn a_channel_waits_from_its_barrier_until_the_last_one() {
    let mut subject = Subject::new(aligned(), 3);
    assert_eq!(subject.announced(0, 1), []);
    assert_eq!(subject.reached(0, 1), [block(0)]);
    assert_eq!(subject.reached(2, 1), [block(2)]);
    assert_eq!(subject.announced(1, 1), [], "records before it are still unread");
    let cut = [snapshot(1, Cut::Aligned), complete(1), unblock(0), unblock(2)];
    assert_eq!(subject.reached(1, 1), cut);
}

#[test]
fn the_only_channel_never_waits() {
    let mut subject = Subject::new(aligned(), 1);
    for checkpoint in 1..4 {
        assert_eq!(
            subject.reached(0, checkpoint),
            [snapshot(checkpoint, Cut::Aligned), complete(checkpoint)]
        );
    }
}

#[test]
fn without_a_timeout_a_barrier_waits_for_ever() {
    let mut subject = Subject::new(aligned(), 2);
    subject.announced(0, 1);
    assert_eq!(subject.deadline(), None);
    assert_eq!(subject.tick(1_000_000), []);
}

#[test]
fn at_least_once_nothing_waits() {
    let mut subject = Subject::new(Mode::AtLeastOnce, 3);
    assert_eq!(subject.announced(0, 1), []);
    assert_eq!(subject.reached(0, 1), []);
    assert_eq!(subject.reached(1, 1), []);
    assert_eq!(subject.reached(0, 2), [], "it was read on");
    assert_eq!(subject.deadline(), None);
    assert_eq!(subject.reached(2, 1), [snapshot(1, Cut::Aligned), complete(1)]);
    assert_eq!(subject.reached(2, 2), []);
    assert_eq!(subject.reached(1, 2), [snapshot(2, Cut::Aligned), complete(2)]);
}

#[test]
fn what_the_coordinator_gave_up_blocks_nothing() {
    let mut subject = Subject::new(aligned(), 3);
    subject.reached(0, 1);
    subject.reached(1, 1);
    assert_eq!(subject.give(Input::Aborted { checkpoint: 1 }), [unblock(0), unblock(1)]);
    assert_eq!(subject.reached(2, 1), [], "its last barrier comes late");
    assert_eq!(subject.reached(2, 2), [block(2)]);
}

#[test]
fn what_was_given_up_before_its_first_barrier_blocks_nothing() {
    let mut subject = Subject::new(at_once(), 2);
    subject.give(Input::Aborted { checkpoint: 1 });
    assert_eq!(subject.announced(0, 1), []);
    assert_eq!(subject.reached(0, 1), []);
    assert_eq!(subject.reached(1, 1), []);
}

#[test]
fn an_abort_of_what_is_complete_changes_nothing() {
    let mut subject = Subject::new(aligned(), 1);
    subject.reached(0, 1);
    assert_eq!(subject.give(Input::Aborted { checkpoint: 1 }), []);
    assert_eq!(subject.reached(0, 2), [snapshot(2, Cut::Aligned), complete(2)]);
}

#[test]
fn aborted_checkpoints_are_forgotten_when_every_channel_is_past_them() {
    let mut subject = Subject::new(aligned(), 2);
    for checkpoint in 1..50 {
        subject.give(Input::Aborted { checkpoint });
    }
    subject.reached(0, 60);
    assert_eq!(subject.alignment.dropped.len(), 49);
    subject.reached(1, 60);
    assert!(subject.alignment.dropped.is_empty());
}

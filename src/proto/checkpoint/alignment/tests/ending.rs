//! Channels that come to their end.

use super::*;

#[test]
fn a_channel_that_has_ended_is_not_waited_for() {
    let mut subject = Subject::new(aligned(), 3);
    subject.give(Input::Ended { channel: 1 });
    assert_eq!(subject.reached(0, 1), [block(0)]);
    assert_eq!(subject.reached(2, 1), [snapshot(1, Cut::Aligned), complete(1), unblock(0)]);
}

#[test]
fn the_end_of_the_last_channel_that_was_waited_for_makes_the_snapshot() {
    let mut subject = Subject::new(aligned(), 2);
    subject.reached(0, 1);
    let cut = [snapshot(1, Cut::Aligned), complete(1), unblock(0)];
    assert_eq!(subject.give(Input::Ended { channel: 1 }), cut);
}

#[test]
fn the_only_channel_that_is_left_never_waits() {
    let mut subject = Subject::new(aligned(), 2);
    subject.give(Input::Ended { channel: 0 });
    assert_eq!(subject.reached(1, 1), [snapshot(1, Cut::Aligned), complete(1)]);
}

#[test]
fn nothing_is_captured_from_a_channel_that_has_ended() {
    let mut subject = Subject::new(at_once(), 3);
    subject.give(Input::Ended { channel: 0 });
    assert_eq!(subject.announced(1, 1), [snapshot(1, Cut::Unaligned), capture(1, 1), capture(1, 2)]);
    assert_eq!(subject.give(Input::Ended { channel: 2 }), [complete(1)]);
}

#[test]
fn a_channel_that_skipped_a_barrier_and_ended_has_skipped_it() {
    let mut subject = Subject::new(aligned(), 3);
    // So that 3 does not block the channel.
    subject.give(Input::Aborted { checkpoint: 3 });
    subject.reached(0, 3);
    subject.give(Input::Ended { channel: 0 });
    assert_eq!(subject.reached(1, 2), [give_up(2)]);
}

#[test]
fn the_end_of_all_channels_makes_no_snapshot_by_itself() {
    let mut subject = Subject::new(at_once(), 2);
    assert_eq!(subject.give(Input::Ended { channel: 0 }), []);
    assert_eq!(subject.give(Input::Ended { channel: 1 }), []);
}

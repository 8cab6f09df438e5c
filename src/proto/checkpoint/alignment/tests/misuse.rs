use super::*;

/// A subject whose channel 0 is blocked at 2, 1 has 2 announced, 2 is empty behind 1, and 3 has ended.
fn subject() -> Subject {
    let mut subject = Subject::new(aligned(), 4);
    subject.give(Input::Ended { channel: 3 });
    for channel in 0..3 {
        subject.reached(channel, 1);
    }
    subject.reached(0, 2);
    subject.announced(1, 2);
    subject.effects();
    subject
}

#[test]
fn facts_that_cannot_be_change_nothing() {
    let reached = |channel, checkpoint| Input::Reached { channel, barrier: barrier(checkpoint) };
    let announced = |channel, checkpoint| Input::Announced { channel, barrier: barrier(checkpoint) };
    let cases = [
        ("no such channel", announced(4, 3)),
        ("no such channel", reached(4, 3)),
        ("no such channel", Input::Ended { channel: 4 }),
        ("a blocked channel was read", reached(0, 3)),
        ("a blocked channel was read", Input::Ended { channel: 0 }),
        ("announced twice", announced(0, 2)),
        ("announced twice", announced(1, 2)),
        ("an older one behind", announced(2, 1)),
        ("not the next one", reached(1, 3)),
        ("not the next one", reached(1, 1)),
        ("reached twice", reached(2, 1)),
        ("a barrier is still in the queue", Input::Ended { channel: 1 }),
        ("it has ended", announced(3, 3)),
        ("it has ended", reached(3, 3)),
        ("it has ended", Input::Ended { channel: 3 }),
    ];
    for (why, input) in cases {
        let mut subject = subject();
        let before = format!("{:?}", subject.alignment);
        assert_eq!(subject.alignment.handle(subject.now, input), Err(Misuse), "{why}: {input:?}");
        assert_eq!(format!("{:?}", subject.alignment), before, "{why}: {input:?}");
    }
    let mut subject = subject();
    subject.reached(1, 2);
    assert_eq!(subject.reached(2, 2), [snapshot(2, Cut::Aligned), complete(2), unblock(0), unblock(1)]);
}

#[test]
fn without_channels_nothing_ever_happens() {
    let mut subject = Subject::new(at_once(), 0);
    assert_eq!(subject.tick(1000), []);
    assert_eq!(subject.give(Input::Aborted { checkpoint: 1 }), []);
    assert_eq!(subject.deadline(), None);
}

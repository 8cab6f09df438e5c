//! Records and barriers on several channels, arriving and read in any order.

use proptest::prelude::*;

use super::{
    subtask::{Item, Sight, Subtask},
    *,
};

/// What happens next. Channels are taken modulo what there is.
#[derive(Debug, Clone, Copy)]
enum Event {
    Arrive(usize),
    Read(usize),
    Wait(u64),
    Abort(u64),
}

const CHECKPOINTS: u8 = 6;

/// The barriers of the last checkpoint end the job in half of the runs.
fn scripts() -> impl Strategy<Value = Vec<Vec<Item>>> {
    let last = prop_oneof![2 => Just(Kind::Periodic), 1 => Just(Kind::Suspend), 1 => Just(Kind::Final)];
    let barrier = prop_oneof![9 => Just(true), 1 => Just(false)];
    let part = (0..4usize, barrier);
    let channel = (prop::collection::vec(part, usize::from(CHECKPOINTS)), ends(), 0..4usize);
    (prop::collection::vec(channel, 1..5), last).prop_map(|(channels, last)| {
        channels.into_iter().map(|(parts, until, rest)| script(&parts[..until], rest, last)).collect()
    })
}

/// Before how many barriers a channel ends: most see all of them.
fn ends() -> impl Strategy<Value = usize> {
    prop_oneof![3 => Just(usize::from(CHECKPOINTS)), 1 => 0..usize::from(CHECKPOINTS)]
}

fn script(parts: &[(usize, bool)], rest: usize, last: Kind) -> Vec<Item> {
    let mut items = Vec::new();
    let mut records = (0..).map(Item::Record);
    for (checkpoint, (count, barrier)) in (1..).zip(parts) {
        items.extend(records.by_ref().take(*count));
        let kind = if checkpoint == u64::from(CHECKPOINTS) { last } else { Kind::Periodic };
        items.extend(barrier.then_some(Item::Barrier(checkpoint, kind)));
    }
    items.extend(records.take(rest));
    items.push(Item::End);
    items
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        12 => (0..4usize).prop_map(Event::Arrive),
        10 => (0..4usize).prop_map(Event::Read),
        3 => (0..40 * MILLIS).prop_map(Event::Wait),
        1 => (1..=CHECKPOINTS).prop_map(|checkpoint| Event::Abort(checkpoint.into())),
    ]
}

fn exactly_once() -> impl Strategy<Value = Mode> {
    prop_oneof![Just(aligned()), Just(at_once()), (1..100u64).prop_map(after)]
}

fn run(mode: Mode, sight: Sight, scripts: Vec<Vec<Item>>, events: &[Event]) {
    let channels = scripts.len();
    let mut subtask = Subtask::new(mode, sight, scripts);
    for event in events {
        match *event {
            Event::Arrive(channel) => _ = subtask.arrive(channel % channels),
            Event::Read(channel) => _ = subtask.read(channel % channels),
            Event::Wait(micros) => subtask.wait(micros),
            Event::Abort(checkpoint) => subtask.abort(checkpoint),
        }
    }
    subtask.come_to_the_end();
}

fn sight() -> impl Strategy<Value = Sight> {
    prop_oneof![4 => Just(Sight::OnArrival), 1 => Just(Sight::OnReading)]
}

proptest! {
    #[test]
    fn exactly_once_the_cut_is_the_records_before_the_barriers_each_once(
        mode in exactly_once(),
        sight in sight(),
        scripts in scripts(),
        events in prop::collection::vec(event(), 0..160),
    ) {
        run(mode, sight, scripts, &events);
    }

    #[test]
    fn at_least_once_no_record_before_a_barrier_is_missing(
        sight in sight(),
        scripts in scripts(),
        events in prop::collection::vec(event(), 0..160),
    ) {
        run(Mode::AtLeastOnce, sight, scripts, &events);
    }
}

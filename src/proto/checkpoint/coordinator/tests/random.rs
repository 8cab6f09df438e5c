//! Any facts in any order, checked by the [model](super::super::model).

use proptest::prelude::*;

use super::{
    super::model::{Event, Model},
    *,
};

fn event() -> impl Strategy<Value = Event> {
    let back = || prop_oneof![5 => 0..3u64, 1 => 0..9u64];
    prop_oneof![
        4 => (1..2_000_000u64).prop_map(Event::Wait),
        4 => Just(Event::Deadline),
        2 => prop_oneof![4 => Just(Kind::Manual), 1 => Just(Kind::Periodic)].prop_map(Event::Trigger),
        1 => Just(Event::Trigger(Kind::Suspend)),
        30 => (back(), 0..4usize).prop_map(|(back, subtask)| Event::Ack { back, subtask }),
        2 => (back(), 0..4usize).prop_map(|(back, subtask)| Event::Decline { back, subtask }),
        9 => prop_oneof![4 => Just(Ok(())), 1 => Just(Err(()))].prop_map(Event::Store),
        1 => back().prop_map(|back| Event::StoreUnasked { back }),
        9 => (back(), 0..4usize).prop_map(|(back, subtask)| Event::Confirmed { back, subtask }),
        1 => (0..4usize).prop_map(|subtask| Event::Ended { subtask }),
    ]
}

fn settings() -> impl Strategy<Value = (CoordinatorConfig, usize, u64)> {
    let config = (0..3u64, 1..4usize, 0..6u32).prop_map(|(pause, max_concurrent, tolerable_failures)| {
        CoordinatorConfig {
            timeout: Duration::from_secs(5),
            min_pause: Duration::from_millis(400 * pause),
            max_concurrent,
            tolerable_failures,
            ..config()
        }
    });
    (config, 1..4usize, 0..3u64)
}

proptest! {
    #[test]
    fn whatever_happens_every_effect_is_right_and_the_job_ends_when_all_answer(
        (config, subtasks, restored) in settings(),
        events in prop::collection::vec(event(), 0..120),
    ) {
        let mut model = Model::new(config, subtasks, restored);
        events.into_iter().for_each(|event| model.happen(event));
        model.come_to_the_end();
    }
}

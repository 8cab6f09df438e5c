//! The coordinator of checkpoints.

use std::time::Duration;

use kafka_2pc::proto::checkpoint::{
    CheckpointKind as Kind,
    coordinator::{
        CoordinatorConfig,
        model::{Event, Model},
    },
};

use crate::input::Input;

const MOST_EVENTS: usize = 400;

/// Decisions: a configuration, and what happens to the coordinator, in any order.
///
/// Every effect is right to a model that knows the effects only, and the job ends as soon as everybody answers.
pub fn coordinator(input: &[u8]) {
    let mut choices = Input::new(input);
    let config = CoordinatorConfig {
        timeout: Duration::from_secs(5),
        min_pause: Duration::from_millis(400 * u64::from(choices.pick(3))),
        max_concurrent: 1 + usize::from(choices.pick(3)),
        tolerable_failures: u32::from(choices.pick(6)),
        ..CoordinatorConfig::default()
    };
    let subtasks = 1 + usize::from(choices.pick(3));
    let mut model = Model::new(config, subtasks, u64::from(choices.pick(3)));
    for _ in 0..MOST_EVENTS {
        if choices.is_empty() {
            break;
        }
        model.happen(event(&mut choices));
    }
    model.come_to_the_end();
}

fn event(choices: &mut Input<'_>) -> Event {
    let decision = choices.byte();
    let (back, subtask) = (u64::from(decision / 16 % 4), usize::from(decision / 64));
    match decision % 16 {
        0 => Event::Wait(1 + u64::from(choices.byte()) * 8_000),
        1 => Event::Deadline,
        2 => Event::Trigger([Kind::Manual, Kind::Suspend, Kind::Periodic, Kind::Final][subtask]),
        3 => Event::Decline { back, subtask },
        4 => Event::Store(Err(())),
        5 | 6 => Event::Store(Ok(())),
        7 => Event::StoreUnasked { back },
        8 | 9 => Event::Confirmed { back, subtask },
        10 => Event::Ended { subtask },
        _ => Event::Ack { back, subtask },
    }
}
